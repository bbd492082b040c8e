"""The disk is full: no text is lost, it is reported, nothing is rebuilt.

With free space all work continues by itself.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Client
from tests.daemon.conftest import list_digests, read_notes, wait_until
from tests.faults.conftest import code_of

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

Mount = Callable[[Path, str], None]
BALLAST_BYTES = 600_000


@pytest.fixture
def ballast(own: Home, mount: Mount) -> Path:
    """A large file on a small disk, which holds index, records and the list of workspaces."""
    disk = own.folder / "disk"
    mount(disk, "3m")
    own.env |= {"XDG_STATE_HOME": str(disk / "state"), "XDG_CACHE_HOME": str(disk / "cache")}
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(BALLAST_BYTES))
    return ballast


def fill_up(disk: Path) -> Path:
    """Take every byte that is left."""
    rest = disk / "rest"
    with rest.open("wb", 0) as stream:
        for size in (65536, 4096, 1):
            while code_of_system(partial(stream.write, bytes(size))) is None:
                pass
    return rest


def code_of_system(action: Callable[[], object]) -> int | None:
    try:
        action()
    except OSError as failure:
        return failure.errno
    return None


def words(chance: random.Random, n_lines: int) -> str:
    """Text that takes space: its words hardly repeat."""
    return "\n".join(
        " ".join(f"{chance.getrandbits(40):x}" for _ in range(8)) for _ in range(n_lines)
    )


def status(client: Client) -> dict[str, Any]:
    return dict(client.call("status")["workspaces"][0])


def read_all(root: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()
    }


def assert_nothing_was_rebuilt(home: Home) -> None:
    log = home.log.read_text()
    assert "index_rebuilt" not in log
    assert "index_corrupt" not in log
    assert "Traceback" not in log


def test_notes_that_did_not_fit_are_reported_and_indexed_once_there_is_room_without_another_save(
    own: Home, ballast: Path
) -> None:
    root, chance = own.make_folder(), random.Random(1)
    (root / "MEMORY.md").write_text("larch\n")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("search", query="larch", wait="disk")
        rest = fill_up(ballast.parent)
        (root / ".memories").mkdir()
        for number in range(6):
            (root / ".memories" / f"{number}.md").write_text(
                f"# Note\n\nmaple\n\n{words(chance, 120)}\n"
            )
        # The records may report this before these notes are scanned.
        wait_until(
            lambda: any(
                reason.startswith("the disk is full") for reason in status(client)["reasons"]
            ),
            "it was not said",
        )
        wait_until(lambda: status(client)["state"] == "degraded", "it is called ready")
        assert client.call("search", query="larch")["hits"]
        ballast.unlink()
        rest.unlink()
        wait_until(
            lambda: len(client.call("search", query="maple")["hits"]) == 6, "it did not go on"
        )
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        assert list_digests(client) == read_notes(root)
    assert daemon.stop() == 0
    assert_nothing_was_rebuilt(own)


def test_a_first_index_that_does_not_fit_says_what_is_missing_and_is_completed_with_space(
    own: Home, mount: Mount
) -> None:
    root, chance, disk = own.make_folder(), random.Random(4), own.folder / "disk"
    mount(disk, "8m")
    own.env |= {"XDG_CACHE_HOME": str(disk)}
    own.config.write_text("[sync]\nreconcile_s = 1.0\n")
    (root / ".memories").mkdir()
    for number in range(60):
        text = words(chance, 500)
        (root / ".memories" / f"{number}.md").write_text(f"maple{number}\n\n{text}\n")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        wait_until(
            lambda: any(
                reason.startswith("the disk is full") for reason in status(client)["reasons"]
            ),
            "it was not said",
        )
        assert status(client)["pending"] > 0
        answer = client.call("search", query="beech")
        assert "the disk is full" in answer["why_empty"]
        subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
        wait_until(lambda: status(client)["state"] == "ready", "it did not go on")
        assert list_digests(client) == read_notes(root)
        assert status(client)["pending"] == 0
    assert daemon.stop() == 0
    assert_nothing_was_rebuilt(own)


def test_writes_on_a_full_disk_change_nothing_and_acknowledged_ones_are_complete(
    own: Home, ballast: Path
) -> None:
    root, chance = ballast.parent / "proj", random.Random(2)
    root.mkdir()
    (root / "MEMORY.md").write_text("larch\n")
    stands = read_all(root)
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("search", query="larch", wait="disk")

        def create(name: str, text: str) -> str:
            code = code_of(
                lambda: client.call(
                    "memory", command="create", path=f"/memories/{name}", file_text=text
                )
            )
            if not code:
                stands[f".memories/{name}"] = text.encode()
            return code

        codes = [create(f"{number}.md", words(chance, 60)) for number in range(60)]
        assert "" in codes
        assert set(codes) == {"", "disk_full"}
        assert read_all(root) == stands
        rest = fill_up(ballast.parent)
        for command in (
            {
                "command": "insert",
                "path": "/memories/0.md",
                "insert_line": 0,
                "insert_text": words(chance, 40),
            },
            {
                "command": "create",
                "path": "/memories/new/deep/0.md",
                "file_text": words(chance, 40),
            },
        ):
            assert code_of(lambda command=command: client.call("memory", **command)) == "disk_full"
            assert read_all(root) == stands
        # The room that refused writes have left in the log of a database may do for writes without
        # a new text.
        place, last = "0.md", "create"
        renaming = {"old_path": f"/memories/{place}", "new_path": "/memories/there/0.md"}
        if not code_of(lambda: client.call("memory", command="rename", **renaming)):
            place, last = "there/0.md", "rename"
            stands[f".memories/{place}"] = stands.pop(".memories/0.md")
        assert read_all(root) == stands
        if not code_of(lambda: client.call("memory", command="delete", path=f"/memories/{place}")):
            last = "delete"
            del stands[f".memories/{place}"]
        assert read_all(root) == stands
        assert client.call("search", query="larch")["hits"]
        rest.unlink()
        ballast.unlink()
        assert create("late.md", "maple\n") == ""
        wait_until(lambda: status(client)["state"] == "ready", "it did not go on")
        assert list_digests(client) == read_notes(root)
        assert client.call("search", query="maple")["hits"]
        [revision, *_] = client.call("history", path=f".memories/{place}")["revisions"]
        assert revision["command"] == last
        client.call("undo", path=".memories/late.md")
        assert not (root / ".memories" / "late.md").exists()
    assert daemon.stop() == 0
    assert_nothing_was_rebuilt(own)


def test_a_history_on_a_full_disk_is_refused_and_complete_once_there_is_room(
    own: Home, ballast: Path
) -> None:
    root, chance, saved = own.make_folder(), random.Random(3), own.folder / "saved.db"
    daemon = own.start()
    with daemon.client() as client:
        id_ = client.call("workspace.add", path=str(root))["workspaces"][0]["id"]
        for number in range(4):
            text = words(chance, 20)
            client.call(
                "memory",
                workspace=id_,
                command="create",
                path=f"/memories/{number}.md",
                file_text=text,
            )
        made = Path(client.call("records.backup")["path"])
        shutil.move(made, saved)
        client.call("memory", workspace=id_, command="delete", path="/memories/0.md")
        past = client.call("history", limit=100)["revisions"]
        notes = read_all(root)
        records = made.with_name("records.db")
        rest = fill_up(ballast.parent)
        assert code_of(lambda: client.call("records.backup")) == "disk_full"
        rest.unlink()
        shutil.copy(saved, records.with_name("records.db.restore"))
        rest = fill_up(ballast.parent)
        assert code_of(lambda: client.call("records.restore")) == "disk_full"
        assert client.call("history", limit=100)["revisions"] == past
        assert not [file.name for file in records.parent.iterdir() if ".backup-" in file.name]
        rest.unlink()
        ballast.unlink()
        client.call("records.restore", prepare=True)
        shutil.copy(saved, records.with_name("records.db.restore"))
        restored = client.call("records.restore")
        assert (restored["revisions"], restored["recorded"]) == (4, 1)
        revisions = client.call("history", limit=100)["revisions"]
        assert [revision["new_digest"] for revision in revisions[1:]] == [
            revision["new_digest"] for revision in past[1:]
        ]
        assert all(revision["is_kept"] for revision in revisions)
        assert read_all(root) == notes
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        wait_until(lambda: not status(client)["reasons"], "it has a reason to complain")
    assert daemon.stop() == 0
    assert_nothing_was_rebuilt(own)
