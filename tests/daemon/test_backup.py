"""Histories that one daemon saves and another restores, and daemons that are killed during a
restore.
"""

from __future__ import annotations

import itertools
import random
import shutil
import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import (
    AlreadyExists,
    BadRequest,
    StoreFailed,
    WorkspaceNotFound,
)
from tests.daemon.conftest import Place, read_notes, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from memsyncd.client import Client
    from tests.daemon.conftest import Home

pytestmark = pytest.mark.shared_daemon

N_KILLS, MANY_KILLS = 4, 200
# The most revisions that one answer has.
PAGE = 200
KILL_WITHIN_S = 0.15


def find_records(home: Home, id_: str) -> Path:
    return home.folder / "state" / "memsyncd" / id_ / "records.db"


def list_revisions(client: Client, id_: str) -> list[tuple[Any, ...]]:
    revisions: list[dict[str, Any]] = []
    while True:
        before = {"before": revisions[-1]["revision"]} if revisions else {}
        page = client.call("history", workspace=id_, limit=PAGE, **before)["revisions"]
        revisions += page
        if len(page) < PAGE:
            break
    names = ("at", "client", "command", "path", "old_digest", "new_digest", "is_kept")
    return [tuple(revision[name] for name in names) for revision in revisions]


def add(client: Client, root: Path) -> str:
    id_ = str(client.call("workspace.add", path=str(root))["workspaces"][0]["id"])
    client.call("sync", workspace=id_)
    return id_


def run(home: Home, *words: object, status: int = 0) -> str:
    done = home.run(*words)
    assert done.returncode == status, done.stderr
    return done.stdout


def write(client: Client, id_: str, number: int, text: str) -> None:
    path = f"/memories/{number}.md"
    client.call("memory", workspace=id_, command="create", path=path, file_text=text)


def edit(client: Client, id_: str, number: int, old: str, new: str) -> None:
    requested = {"path": f"/memories/{number}.md", "old_str": old, "new_str": new}
    client.call("memory", workspace=id_, command="str_replace", **requested)


def test_a_lost_history_is_restored_from_a_backup_in_another_home_and_folder(
    own: Home, make_home: Callable[[], Home]
) -> None:
    root, saved = own.make_folder(), own.folder / "saved.db"
    daemon = own.start()
    with daemon.client() as client:
        id_ = add(client, root)
        write(client, id_, 0, "one\n")
        edit(client, id_, 0, "one", "two")
        client.call("memory", workspace=id_, command="delete", path="/memories/0.md")
        write(client, id_, 1, "kept\n")
        run(own, "backup", saved, "-w", id_)
        before = list_revisions(client, id_)
        # The next backup deletes files that a client left.
        left = Path(client.call("records.backup", workspace=id_)["path"])
        assert left.parent == find_records(own, id_).parent
        run(own, "backup", own.folder / "again.db", "-w", id_)
        assert not left.exists()
    assert daemon.stop() == 0
    shutil.rmtree(own.folder / "state")
    elsewhere = make_home()
    other_root = elsewhere.make_folder()
    shutil.copytree(root, other_root, dirs_exist_ok=True)
    for home, folder in ((own, root), (elsewhere, other_root)):
        daemon = home.start()
        with daemon.client() as client:
            id_ = add(client, folder)
            notes = read_notes(folder)
            assert not list_revisions(client, id_)
            # The folder of the backup is still there, so this folder is another workspace.
            adopt = ("--adopt",) if folder is other_root else ()
            if adopt:
                run(home, "restore", saved, "-w", id_, status=6)
            assert '"recorded":0' in run(home, "restore", saved, "-w", id_, "--json", *adopt)
            assert list_revisions(client, id_) == before
            assert read_notes(folder) == notes
            client.call("undo", workspace=id_, revision=3)
            client.call("undo", workspace=id_, revision=2)
            assert (folder / ".memories" / "0.md").read_text() == "one\n"
            assert sorted(file.name for file in find_records(home, id_).parent.iterdir()) == [
                "records.db",
                "records.db-shm",
                "records.db-wal",
            ]
            status = client.call("status", workspace=id_)["workspaces"][0]
            assert (status["state"], status["reasons"]) == ("ready", [])
        assert daemon.stop() == 0, home.read_log()
        assert "records_restored" in home.log.read_text()


def test_notes_that_changed_since_the_backup_are_revisions_and_stay_as_they_are(
    place: Place, home: Home
) -> None:
    write(place.client, place.id, 0, "one\n")
    saved = home.folder / f"{place.id}.db"
    run(home, "backup", saved, "-w", place.id)
    edit(place.client, place.id, 0, "one", "two")
    (place.root / "MEMORY.md").write_text("new\n")
    notes = read_notes(place.root)
    run(home, "restore", saved, "-w", place.id)
    assert read_notes(place.root) == notes
    found = place.client.call("history", workspace=place.id)["revisions"]
    assert [(revision["command"], revision["path"]) for revision in found] == [
        ("external", "MEMORY.md"),
        ("external", ".memories/0.md"),
        ("create", ".memories/0.md"),
    ] or [(revision["command"], revision["path"]) for revision in found] == [
        ("external", ".memories/0.md"),
        ("external", "MEMORY.md"),
        ("create", ".memories/0.md"),
    ]
    place.client.call("undo", workspace=place.id, path=".memories/0.md")
    assert (place.root / ".memories" / "0.md").read_text() == "one\n"
    # A purge names the files that were set aside, since they may contain the same text.
    purged = place.client.call("history.purge", workspace=place.id, all=True)
    [aside] = purged["set_aside"]
    assert (Path(aside["path"]).name.rpartition("-")[0], aside["is_searched"]) == (
        "records.db.replaced",
        True,
    )
    assert purged["is_clean"] is False
    Path(aside["path"]).unlink()
    assert place.client.call("history.purge", workspace=place.id, all=True)["is_clean"] is True


def test_the_daemon_opens_no_path_that_a_client_names(place: Place) -> None:
    for name in ("path", "file"):
        with pytest.raises(BadRequest, match=name):
            place.client.call("records.restore", workspace=place.id, **{name: "/etc/passwd"})
        with pytest.raises(BadRequest, match=name):
            place.client.call("records.backup", workspace=place.id, **{name: "/etc/passwd"})
    with pytest.raises(BadRequest, match="there is no file to restore"):
        place.client.call("records.restore", workspace=place.id)
    with pytest.raises(WorkspaceNotFound):
        place.client.call("records.backup", workspace="nowhere")


def test_a_backup_overwrites_no_file_unless_it_is_forced_and_leaves_no_part_of_one(
    place: Place, home: Home
) -> None:
    folder = home.folder / f"saved-{place.id}"
    folder.mkdir()
    (folder / "history.db").write_text("mine")
    run(home, "backup", folder / "history.db", "-w", place.id, status=AlreadyExists.exit_status)
    assert (folder / "history.db").read_text() == "mine"
    run(home, "backup", folder / "history.db", "-w", place.id, "--force")
    assert (folder / "history.db").read_bytes().startswith(b"SQLite format 3")
    assert [file.name for file in folder.iterdir()] == ["history.db"]
    assert not list(find_records(home, place.id).parent.glob("*.backup-*"))


class KillLoop:
    """A workspace whose history is replaced again and again by a daemon that is killed
    meanwhile."""

    def __init__(self, home: Home, chance: random.Random) -> None:
        self.home, self.chance, self.numbers = home, chance, itertools.count()
        self.root, self.saved = home.make_folder(), home.folder / "saved.db"
        daemon = home.start()
        with daemon.client() as client:
            self.id = add(client, self.root)
            self.write_some(client, 30)
            run(home, "backup", self.saved, "-w", self.id)
            self.old = list_revisions(client, self.id)
        assert daemon.stop() == 0

    def write_some(self, client: Client, n_notes: int) -> None:
        for _ in range(n_notes):
            text = "".join(f"{self.chance.getrandbits(80):x}\n" for _ in range(50))
            write(client, self.id, next(self.numbers), text)

    def restore_and_die(self) -> bool:
        """True if the saved history is there then, False if it is the former one."""
        daemon = self.home.start()
        with daemon.client() as client:
            self.write_some(client, 3)
            former, notes = list_revisions(client, self.id), read_notes(self.root)
            assert client.call("records.restore", workspace=self.id, prepare=True)
            shutil.copy(
                self.saved, find_records(self.home, self.id).with_name("records.db.restore")
            )
            client.send("records.restore", workspace=self.id)
            time.sleep(self.chance.uniform(0, KILL_WITHIN_S))
            daemon.kill()
        daemon = self.home.start()
        with daemon.client() as client:
            self.assert_whole(client, former)
            is_restored = list_revisions(client, self.id) != former
        assert daemon.stop() == 0, self.home.read_log()
        assert read_notes(self.root) == notes
        return is_restored

    def assert_whole(self, client: Client, former: list[tuple[Any, ...]]) -> None:
        """Check for the former history, or for the saved one with the changes since."""

        def is_whole() -> bool:
            found = list_revisions(client, self.id)
            is_saved = found[-len(self.old) :] == self.old and all(
                revision[2] in ("external", "first_seen") for revision in found[: -len(self.old)]
            )
            return found == former or is_saved

        wait_until(is_whole, "it is neither history")
        assert all(revision[-1] for revision in list_revisions(client, self.id))
        status = client.call("status", workspace=self.id)["workspaces"][0]
        assert not status["reasons"]
        with sqlite3.connect(f"file:{find_records(self.home, self.id)}?mode=ro", uri=True) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_daemon_killed_during_a_restore_leaves_the_old_or_the_new_history(
    own: Home,
) -> None:
    kill_loop = KillLoop(own, random.Random(1))
    for _ in range(N_KILLS):
        kill_loop.restore_and_die()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_daemons_killed_many_times_during_a_restore_leave_one_history(own: Home) -> None:
    kill_loop = KillLoop(own, random.Random(2))
    assert {kill_loop.restore_and_die() for _ in range(MANY_KILLS)} == {True, False}


def test_the_records_of_a_newer_program_are_refused_and_stay_unchanged(
    place: Place, home: Home
) -> None:
    client, root = place.client, place.root
    write(client, place.id, 0, "a\n")
    records = find_records(home, place.id)
    client.call("workspace.remove", workspace=place.id)
    # Closed by its last user, a database has no WAL any more.
    place.wait(
        lambda: not records.with_name("records.db-wal").exists(), "the records are still open"
    )
    with sqlite3.connect(records) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    client.call("workspace.add", path=str(root))
    assert place.find("keepsake", wait="disk")
    info = place.status()
    assert info["state"] == "degraded"
    reported = place.run(sys.executable, "-m", "memsyncd", "status", "-w", place.id)
    for text in (" ".join(info["reasons"]), " ".join(reported.split())):
        assert "records.db has version 99, newer than this program's" in text
        assert "run the newer memsyncd that made it" in text
    for method, requested in (
        ("memory", {"command": "create", "path": "/memories/b.md", "file_text": "b\n"}),
        ("history", {}),
        ("records.backup", {}),
        ("records.restore", {}),
    ):
        with pytest.raises(StoreFailed, match=r"records\.db cannot be opened"):
            client.call(method, workspace=place.id, **requested)
    with sqlite3.connect(f"file:{records}?mode=ro", uri=True) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (99,)
        assert connection.execute("SELECT count(*) FROM revisions").fetchone() == (1,)
    connection.close()
    assert not list(records.parent.glob("records.db.damaged-*"))
