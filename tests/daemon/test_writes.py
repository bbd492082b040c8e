"""No written text is ever lost: many concurrent writers, other programs that save, and a daemon
that is killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memsyncd.client import Client
from memsyncd.core.digest import digest_bytes
from memsyncd.errors import Conflict, MemsyncdError, NoDaemon, NoteNotFound

pytestmark = pytest.mark.shared_daemon

N_AGENTS = 10
N_EDITS = 6
N_KILLS = 2
KILL_AFTER_S = 0.4
MUCH = 1000


@pytest.fixture
def place(place: Any) -> Any:
    """The history is complete: a request for it runs after the scans."""
    assert revisions(place) == []
    return place


def memory(
    client: Client, place: Any, command: str, path: str | None = None, **parameters: object
) -> dict[str, Any]:
    return client.call("memory", workspace=place.id, command=command, path=path, **parameters)


def revisions(place: Any, **requested: object) -> list[dict[str, Any]]:
    """The whole history, the oldest first."""
    found: list[dict[str, Any]] = []
    before = None
    while page := place.client.call(
        "history", workspace=place.id, limit=200, before=before, **requested
    )["revisions"]:
        found += page
        before = page[-1]["revision"]
    return found[::-1]


def run_command(place: Any, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the workspace, without a terminal that could be asked."""
    return place.home.run(*words, cwd=place.root)


def run_together(actions: list[Callable[[], None]]) -> None:
    """Run all of these at once; raise the first failure."""
    with ThreadPoolExecutor(len(actions)) as threads:
        for done in [threads.submit(action) for action in actions]:
            done.result()


def is_refused(action: Callable[[], object]) -> bool:
    """Try it; True if the text that was read is not current any more."""
    try:
        action()
    except Conflict:
        return True
    return False


# --- the writer's own next search -----------------------------------------------------------------


def test_a_write_is_found_by_the_next_search_of_its_client(place: Any) -> None:
    memory(place.client, place, "create", "/memories/log.md", file_text="# Log\n\nbegin\n")
    for number in range(15):
        written = memory(
            place.client,
            place,
            "insert",
            "/memories/log.md",
            insert_line=3,
            insert_text=f"wrote{number}word",
        )
        found = place.client.call("search", query=f"wrote{number}word", workspace=place.id)
        assert [hit["path"] for hit in found["hits"]] == [".memories/log.md"]
        assert found["hits"][0]["digest"] == written["digest"]
        assert found["freshness"]["generation"] >= written["generation"]


# --- many writers ---------------------------------------------------------------------------------


def test_ten_agents_editing_one_note_lose_no_edit_that_succeeded(place: Any) -> None:
    memory(place.client, place, "create", "/memories/shared.md", file_text="# Shared\n\n")

    def write(agent: int) -> None:
        with place.daemon.client() as client:
            for number in range(N_EDITS):
                memory(
                    client,
                    place,
                    "insert",
                    "/memories/shared.md",
                    insert_line=2,
                    insert_text=f"agent {agent} line {number}",
                )

    run_together([partial(write, agent) for agent in range(N_AGENTS)])
    lines = (place.root / ".memories/shared.md").read_text().splitlines()
    assert sorted(lines[2:]) == sorted(
        f"agent {agent} line {number}" for agent in range(N_AGENTS) for number in range(N_EDITS)
    )
    past = revisions(place, path=".memories/shared.md")
    assert len(past) == N_AGENTS * N_EDITS + 1
    assert all(
        revision["new_digest"] == next_one["old_digest"] for revision, next_one in pairwise(past)
    )


def test_a_stale_write_is_refused_and_can_be_repeated(place: Any) -> None:
    memory(place.client, place, "create", "/memories/count.md", file_text="0\n")

    def count() -> None:
        with place.daemon.client() as client:
            n_done = 0
            while n_done < 5:
                seen = memory(client, place, "view", "/memories/count.md")
                number = int(seen["text"].splitlines()[1].split()[1])
                edit = {
                    "old_str": f"{number}",
                    "new_str": f"{number + 1}",
                    "if_digest": seen["digest"],
                }
                n_done += not is_refused(
                    partial(memory, client, place, "str_replace", "/memories/count.md", **edit)
                )

    run_together([count] * 4)
    # A repeated write whose result is current succeeds, so two who count from one number may both
    # have counted it.
    past = revisions(place, path=".memories/count.md")
    assert int((place.root / ".memories/count.md").read_text()) == len(past) - 1


@pytest.mark.parametrize("seed", range(2))
def test_any_interleaving_of_writers_equals_some_order_of_those_that_succeeded(
    place: Any, make_place: Any, home: Any, seed: int
) -> None:
    """The history has the order: the same commands one after another lead to the same files."""
    succeeded: dict[str, dict[str, Any]] = {}

    def write(agent: int) -> None:
        chance = random.Random(f"{seed} {agent}")
        with place.daemon.client() as client:
            for number in range(25):
                name, command = (
                    f"agent {agent} call {number}",
                    make_command(chance, f"a{agent}n{number}"),
                )
                try:
                    client.call("memory", workspace=place.id, client=name, **command)
                    succeeded[name] = command
                except MemsyncdError:
                    continue

    run_together([partial(write, agent) for agent in range(5)])
    order = list(dict.fromkeys(revision["client"] for revision in revisions(place)))
    assert set(order) == set(succeeded)
    root = home.make_folder()
    (root / ".memories").mkdir()
    for path in ("MEMORY.md", ".memories/context.md"):
        (root / path).write_text(
            {"MEMORY.md": "# Memory\n\nkeepsake of the first hour\n"}.get(
                path, "# Context\n\nbystander\n"
            )
        )
    again = make_place(root)
    for name in order:
        again.client.call("memory", workspace=again.id, **succeeded[name])
    assert read_all(again.root) == read_all(place.root)
    assert again.notes() == place.notes()


def make_command(chance: random.Random, word: str) -> dict[str, Any]:
    paths = ["/memories/a.md", "/memories/b.md", "/memories/d/c.md", "/memories/MEMORY.md"]
    path = chance.choice(paths)
    return chance.choice(
        [
            {"command": "create", "path": path, "file_text": f"{word}\n"},
            {"command": "insert", "path": path, "insert_line": 0, "insert_text": word},
            {"command": "insert", "path": path, "insert_line": 1, "insert_text": word},
            {
                "command": "str_replace",
                "path": path,
                "old_str": f"a{chance.randrange(5)}n",
                "new_str": f"{word} n",
            },
            {"command": "delete", "path": path},
            {"command": "rename", "old_path": path, "new_path": chance.choice(paths)},
        ]
    )


def read_all(root: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()
    }


# --- others ---------------------------------------------------------------------------------------


def wait_for_tip(place: Any, path: str) -> None:
    """Wait until the history has the current text of the note."""
    file = place.root / path
    digest = digest_bytes(file.read_bytes()) if file.exists() else None

    def is_recorded() -> bool:
        try:
            answer = place.client.call("history", workspace=place.id, path=path, limit=1)
        except NoteNotFound:
            return False  # not indexed yet
        return [revision["new_digest"] for revision in answer["revisions"]] == [digest]

    place.wait(
        is_recorded,
        f"the history does not know of {path}",
    )


def test_a_save_of_an_editor_is_a_revision_and_can_be_undone(place: Any) -> None:
    before = (place.root / "MEMORY.md").read_bytes()
    (place.root / "MEMORY.md").write_text("all gone\n")
    wait_for_tip(place, "MEMORY.md")
    (seen,) = revisions(place, path="MEMORY.md")
    assert (seen["client"], seen["command"], seen["old_bytes"]) == ("", "external", len(before))
    place.client.call("undo", workspace=place.id, path="MEMORY.md")
    assert (place.root / "MEMORY.md").read_bytes() == before


def test_a_wider_preset_makes_no_creation_of_notes_that_were_there(place: Any) -> None:
    old = place.root / "old.md"
    old.write_text("My only copy.\n")
    os.utime(old, (1_600_000_000, 1_600_000_000))
    place.client.call("workspace.add", path=str(place.root), preset="vault")
    place.wait(lambda: "old.md" in place.find("copy"), "the note is not found")
    assert revisions(place) == []
    refused = run_command(place, "undo", "old.md", "--yes")
    assert (refused.returncode, "has not changed since" in refused.stderr) == (4, True)
    old.write_text("My only copy, changed.\n")
    wait_for_tip(place, "old.md")
    place.client.call("undo", workspace=place.id, path="old.md")
    assert old.read_text() == "My only copy.\n"


@pytest.mark.parametrize("mode", [0o640, 0o644])
def test_the_shell_deletes_another_programs_note_only_if_it_is_told_to(
    place: Any, mode: int
) -> None:
    note = place.root / ".memories/new.md"
    note.write_text("new\n")
    note.chmod(mode)
    before = note.stat()
    wait_for_tip(place, ".memories/new.md")
    refused = run_command(place, "undo", ".memories/new.md")
    assert refused.returncode == 6
    assert "this undo deletes the file .memories/new.md" in refused.stderr
    assert "--yes" in refused.stderr
    assert note.exists()
    assert run_command(place, "undo", ".memories/new.md", "--yes").returncode == 0
    assert not note.exists()
    assert run_command(place, "undo", ".memories/new.md").returncode == 0
    after = note.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_a_note_that_others_deleted_or_moved_can_be_restored(place: Any) -> None:
    note, moved = place.root / ".memories/context.md", place.root / ".memories/old/context.md"
    before = note.read_bytes()
    moved.parent.mkdir()
    note.rename(moved)
    wait_for_tip(place, ".memories/old/context.md")
    place.client.call("undo", workspace=place.id, path=".memories/old/context.md")
    assert note.read_bytes() == before
    note.unlink()
    wait_for_tip(place, ".memories/context.md")
    place.client.call("undo", workspace=place.id, path=".memories/context.md")
    assert note.read_bytes() == before


def test_a_write_over_an_unindexed_save_keeps_the_saved_text(place: Any) -> None:
    """However soon a write follows a save of an editor, the saved text is in the history."""
    for number in range(20):
        (place.root / "MEMORY.md").write_text(f"saved {number}\n")
        memory(
            place.client,
            place,
            "insert",
            "/memories/MEMORY.md",
            insert_line=1,
            insert_text=f"written {number}",
        )
        assert (place.root / "MEMORY.md").read_text() == f"saved {number}\nwritten {number}\n"
    kept = {revision["new_digest"] for revision in revisions(place, path="MEMORY.md")}
    assert {digest_bytes(b"saved %d\n" % number) for number in range(20)} <= kept


def test_concurrent_saves_of_an_editor_and_writes_of_clients_lose_nothing(place: Any) -> None:
    """Every text that was on the disk at a write is in the history, and the last save is on the
    disk.
    """
    saved: list[bytes] = []
    is_over = threading.Event()
    note = place.root / "MEMORY.md"

    def save() -> None:
        number = 0
        while not is_over.wait(0.004):
            number += 1
            text = f"saved {number}\n".encode()
            fresh = place.root / "MEMORY.md.tmp"
            fresh.write_bytes(text)
            fresh.replace(note)
            saved.append(text)

    def write() -> None:
        try:
            for number in range(30):
                parameters = {"insert_line": 0, "insert_text": f"written {number}"}
                is_refused(
                    partial(
                        memory, place.client, place, "insert", "/memories/MEMORY.md", **parameters
                    )
                )
        finally:
            is_over.set()

    run_together([save, write])
    for revision in revisions(place, path="MEMORY.md"):
        if revision["command"] == "insert":
            text = place.client.call(
                "diff", workspace=place.id, path="MEMORY.md", revision=revision["revision"]
            )["diff"]
            assert "+written" in text
            assert not [line for line in text.splitlines()[2:] if line.startswith("-")]
    assert not list(place.root.glob(".memsyncd*"))


def test_a_purged_text_is_in_no_file_any_more(place: Any, home: Any) -> None:
    token = "xylophonesecret"  # a word of the index
    memory(place.client, place, "create", "/memories/key.md", file_text=f"# Key\n\n{token}\n")
    folders = [home.folder / name / "memsyncd" / place.id for name in ("state", "cache")]

    def holds_token() -> bool:
        files = [file for folder in folders for file in folder.iterdir()]
        assert {"records.db", "index.db"} <= {file.name for file in files}
        return any(token.encode() in read_if_there(file) for file in files)

    assert holds_token()
    kept = place.client.call("history.purge", workspace=place.id, containing=token)
    assert kept["still_in"] == [".memories/key.md"]
    memory(
        place.client,
        place,
        "str_replace",
        "/memories/key.md",
        old_str=token,
        new_str="(in the safe)",
    )
    purged = place.client.call("history.purge", workspace=place.id, containing=token)
    assert purged["still_in"] == []
    assert purged["texts"] >= 1
    place.wait(lambda: not holds_token(), "it stayed")


def read_if_there(path: Path) -> bytes:
    """The content; none if the file, such as a -wal, has disappeared since it was listed."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


# --- killed ---------------------------------------------------------------------------------------


def write_until_killed(
    daemon: Any, place_id: str, agent: int, acknowledged: list[str], is_over: threading.Event
) -> None:
    try:
        with daemon.client() as client:
            while not is_over.is_set():
                line = f"agent {agent} line {len(acknowledged)} {random.random()}"
                client.call(
                    "memory",
                    workspace=place_id,
                    command="insert",
                    path="/memories/killed.md",
                    insert_line=0,
                    insert_text=line,
                )
                acknowledged.append(line)
    except NoDaemon:
        return


def write_and_kill(daemon: Any, root: Path, chance: random.Random) -> None:
    """A daemon that is killed during writes: acknowledged writes are on the disk, and no line is
    torn.
    """
    note = root / ".memories/killed.md"
    acknowledged: list[list[str]] = [[], [], []]
    is_over = threading.Event()
    with daemon.client() as client:
        place_id = client.call("workspace.add", path=str(root))["workspaces"][0]["id"]
    writers = [
        threading.Thread(target=write_until_killed, args=(daemon, place_id, agent, mine, is_over))
        for agent, mine in enumerate(acknowledged)
    ]
    for writer in writers:
        writer.start()
    try:
        time.sleep(chance.uniform(0.05, KILL_AFTER_S))
        daemon.kill()
        for writer in writers:
            writer.join()
    finally:
        is_over.set()
    lines = note.read_text().splitlines()
    assert {line for mine in acknowledged for line in mine} <= set(lines)
    assert all(line.startswith(("agent", "begin")) for line in lines)


def check(successor: Any, root: Path) -> None:
    """The history has no gap up to the current text, and can be undone and redone."""
    note = root / ".memories/killed.md"
    if note.read_text() == "begin\n":
        return  # none was killed yet, or it was killed before the first write
    with successor.client() as client:
        place_id = client.call("workspace.add", path=str(root))["workspaces"][0]["id"]
        client.call("sync", workspace=place_id)
        memory_text = note.read_bytes()
        past = client.call("history", workspace=place_id, path=".memories/killed.md", limit=200)[
            "revisions"
        ]
        assert past[0]["new_digest"] == digest_bytes(memory_text)
        assert all(newer["old_digest"] == older["new_digest"] for newer, older in pairwise(past))
        client.call("undo", workspace=place_id, path=".memories/killed.md")
        client.call("undo", workspace=place_id, path=".memories/killed.md")
        assert note.read_bytes() == memory_text
        assert not [name for name in os.listdir(note.parent) if name.startswith(".")]


def kill_and_check(home: Any, seeds: range) -> None:
    """Daemons are killed one after another during writes; each finds that its predecessor has lost
    nothing.
    """
    root: Path = home.make_folder()
    (root / ".memories").mkdir()
    (root / ".memories/killed.md").write_text("begin\n")
    for seed in seeds:
        daemon = home.start()
        check(daemon, root)
        write_and_kill(daemon, root, random.Random(seed))
    last = home.start()
    check(last, root)
    last.kill()


@pytest.mark.timeout(300)
def test_a_killed_daemon_loses_no_acknowledged_write_and_tears_no_note(make_home: Any) -> None:
    kill_and_check(make_home(), range(N_KILLS))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_daemon_killed_a_thousand_times_loses_nothing(make_home: Any) -> None:
    home = make_home()
    for start in range(0, MUCH, 50):
        kill_and_check(home, range(start, start + 50))


def test_a_history_that_is_switched_on_records_current_texts_at_once(place: Any) -> None:
    def configure(text: str) -> None:
        n_reloads = place.home.log.read_text().count("config_reloaded")
        place.home.config.write_text(text)
        place.daemon.process.send_signal(signal.SIGHUP)
        place.wait(
            lambda: place.home.log.read_text().count("config_reloaded") > n_reloads,
            "it was not read",
        )

    configure("[history]\nenabled = false\n")
    memory(place.client, place, "create", "/memories/a.md", file_text="one\n")
    configure("")
    assert revisions(place)[-1]["new_digest"] == digest_bytes(b"one\n")
    (place.root / ".memories" / "a.md").unlink()
    place.client.call("sync")
    place.wait(
        lambda: len(revisions(place, path=".memories/a.md")) > 1, "its deletion was not seen"
    )
    place.client.call("undo", workspace=place.id, path=".memories/a.md")
    assert (place.root / ".memories" / "a.md").read_bytes() == b"one\n"
