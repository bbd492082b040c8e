"""The result of a write that ends half way: killed at each step, refused by the disk, or overtaken
by another program.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from memsyncd.config import HistoryConfig
from memsyncd.core.changes.diff import GRAIN_NS
from memsyncd.core.digest import digest_bytes
from memsyncd.core.paths import NotePath
from memsyncd.engine import edit as edit_module
from memsyncd.engine import sync as sync_module
from memsyncd.engine.edit import Delete, Edit, Put
from memsyncd.engine.recovery import recover
from memsyncd.errors import (
    AlreadyExists,
    Conflict,
    EditRefused,
    NoteNotFound,
    PathRefused,
    StoreFailed,
    StoreFull,
    Unwritable,
)
from memsyncd.files import write
from memsyncd.files.read import read_text_file
from memsyncd.operations.notes.declare import MemoryParams
from memsyncd.operations.notes.run import make_decision
from memsyncd.store.history import History

REPOSITORY = Path(__file__).resolve().parents[2]
OLD, NEW = b"old\n", b"new\n"

KILLED_WRITES = """
import json, os, sys, time, traceback
from pathlib import Path
from memsyncd.engine import edit
from memsyncd.operations.notes.run import make_decision
from memsyncd.operations.notes.declare import MemoryParams
from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.workspaces import Entry, Workspace
from memsyncd.store.history import History

def die(*_, **__):
    os._exit(9)

def then_die(holder, name):
    wanted = getattr(holder, name)
    def act(*arguments, **named):
        wanted(*arguments, **named)
        os._exit(9)
    setattr(holder, name, act)

def write(root, index, records, point):
    if point == "before the record":
        History.begin = die
    elif point == "after the record":
        then_die(History, "begin")
    elif point == "after the file":
        then_die(edit, "put_text_file")
    elif point == "before the temporary has its place":
        os.fsync = die
    elif point == "after the record is settled":
        then_die(History, "finish")
    name = os.path.basename(root)
    workspace = Workspace(Entry(id=f"{name}-1", name=name, root=root), Config(),
                          index_path=Path(index), records_path=Path(records))
    clock = Clock(now_s=time.monotonic, wall_ns=time.time_ns)
    params = MemoryParams(command="str_replace", path="/memories/a.md", old_str="old", new_str="new")
    for _ in edit.edit_workspace(workspace, Config(), clock, make_decision(workspace, Config(), params)):
        pass

for places in json.loads(sys.argv[1]):
    pid = os.fork()
    if not pid:
        try:
            write(*places)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
IS_WRITTEN = {
    "before the record": False,
    "after the record": False,
    "before the temporary has its place": False,
    "after the file": True,
    "after the record is settled": True,
    "never": True,
}


def test_after_a_kill_during_a_write_the_note_is_old_or_new_as_the_history_says(
    make_bench: Any,
) -> None:
    """Each write runs in a process of its own, forked from a process that has imported everything."""
    benches = {point: make_bench(f"killed-{number}") for number, point in enumerate(IS_WRITTEN)}
    for bench in benches.values():
        bench.write(".memories/a.md", OLD)
        bench.open()
        bench.sync()
        bench.see()
        bench.workspace.close()
    places = [
        (str(bench.root), str(bench.workspace.index_path), str(bench.workspace.records_path), point)
        for point, bench in benches.items()
    ]
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_WRITES, json.dumps(places)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        timeout=50,
    )
    assert ended.stdout.split() == [b"0" if point == "never" else b"9" for point in IS_WRITTEN], (
        ended.stderr.decode()
    )
    for point, bench in benches.items():
        check_killed(bench, point, is_written=IS_WRITTEN[point])


def check_killed(bench: Any, point: str, *, is_written: bool) -> None:
    note = bench.root / ".memories/a.md"
    assert note.read_bytes() == (NEW if is_written else OLD), point
    bench.update()
    bench.see()
    revisions = [
        (revision.command, revision.old_digest, revision.new_digest)
        for revision in bench.past(".memories/a.md")
    ]
    assert revisions == (
        [("str_replace", digest_bytes(OLD), digest_bytes(NEW))] if is_written else []
    ), point
    assert list(bench.files()) == [".memories/a.md"], point
    assert bench.texts() == {".memories/a.md": note.read_text().strip()}, point
    if is_written:
        bench.undo(".memories/a.md")
        assert note.read_bytes() == OLD, point


def test_a_write_by_another_program_in_between_is_read_again(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = bench.write("MEMORY.md", "one\n")
    put, n_overtaken = edit_module.put_text_file, 0

    def be_overtaken(*arguments: Any, **named: Any) -> Any:
        nonlocal n_overtaken
        n_overtaken += 1
        if n_overtaken <= 3:
            note.write_text(f"one, and theirs {n_overtaken}\n")
        return put(*arguments, **named)

    monkeypatch.setattr(edit_module, "put_text_file", be_overtaken)
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="two")
    assert note.read_text() == "two, and theirs 3\n"
    assert bench.past()[0].command == "str_replace"
    assert bench.past()[0].old_digest == digest_bytes(b"one, and theirs 3\n")


def test_a_write_that_is_always_overtaken_fails_and_loses_nothing(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = bench.write("MEMORY.md", "one\n")
    put, texts = edit_module.put_text_file, iter(range(100))

    def be_overtaken(*arguments: Any, **named: Any) -> Any:
        note.write_text(f"one {next(texts)}\n")
        return put(*arguments, **named)

    monkeypatch.setattr(edit_module, "put_text_file", be_overtaken)
    with pytest.raises(Conflict):
        bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="two")
    assert note.read_text().startswith("one ")
    assert not [revision for revision in bench.past() if revision.command == "str_replace"]


def test_a_change_set_that_fails_half_way_is_rolled_back(bench: Any) -> None:
    bench.write("MEMORY.md", "one\n")
    bench.write(".memories/b.md", "b\n")
    bench.sync()
    bench.see()
    before = bench.files()
    scope = bench.workspace.scope

    def decide() -> tuple[Edit, None]:
        memory, other = NotePath("MEMORY.md"), NotePath(".memories/b.md")
        was, gone = read_text_file(scope, memory), read_text_file(scope, other)
        assert was is not None
        assert gone is not None
        operations = (
            Put(path=memory, data=b"two\n", was=was),
            Put(path=NotePath(".memories/new.md"), data=b"new\n", was=None),
            Delete(path=other, was={other: gone}),
            Put(path=memory, data=b"three\n", was=was),
        )
        return Edit(command="test", client="test", path=".", operations=operations), None

    with pytest.raises(Conflict):
        bench.edit(decide)
    assert bench.files() == before
    assert bench.past() == []
    assert bench.workspace.records.history.find_intended() == []


def test_without_records_nothing_is_written(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replaced text would be lost."""
    bench.workspace.close_records()
    shutil.rmtree(bench.workspace.records_path.parent)
    bench.workspace.records_path.parent.write_text("a file where the folder should be")
    with pytest.raises(StoreFailed, match=r"records\.db cannot be opened"):
        bench.memory("create", "/memories/a.md", file_text="a\n")
    assert bench.files() == {}


def test_a_full_disk_for_the_records_leaves_the_note_unchanged(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("MEMORY.md", "one\n")

    def be_full(*_: Any, **__: Any) -> None:
        raise StoreFull("the disk is full")

    monkeypatch.setattr(History, "begin", be_full)
    with pytest.raises(StoreFull):
        bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="two")
    assert bench.files() == {"MEMORY.md": b"one\n"}


def test_records_that_cannot_be_settled_are_settled_later(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("MEMORY.md", "one\n")

    def be_full(*_: Any, **__: Any) -> None:
        raise StoreFull("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(History, "finish", be_full)
        bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="two")
    recover(bench.workspace, bench.clock)
    assert [revision.command for revision in bench.past()] == ["str_replace"]
    bench.undo("MEMORY.md")
    assert bench.files() == {"MEMORY.md": b"one\n"}


def test_writes_work_without_history(make_bench: Any) -> None:
    bench = make_bench()
    bench.config = structs.replace(bench.config, history=HistoryConfig(enabled=False))
    bench.open()
    bench.memory("create", "/memories/a.md", file_text="one\n")
    bench.memory("str_replace", "/memories/a.md", old_str="one", new_str="two")
    bench.see()
    assert bench.files() == {".memories/a.md": b"two\n"}
    assert bench.texts() == {".memories/a.md": "two"}
    assert bench.workspace.records.history.heads() == {}


class KilledError(BaseException):
    """Later steps are not run."""


def test_a_kill_without_history_leaves_no_temporary_file_either(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench()
    bench.config = structs.replace(bench.config, history=HistoryConfig(enabled=False))
    bench.open()
    bench.memory("create", "/memories/a.md", file_text="one\n")
    records, left = (
        bench.workspace.records_path,
        bench.root / ".memories" / ".memsyncd-0123456789abcdef.tmp",
    )

    def be_killed(*_: Any, **__: Any) -> None:
        left.write_text("tw")
        monkeypatch.setattr(History, "forget_intended", lambda *_: None)
        raise KilledError

    with monkeypatch.context() as dying:
        dying.setattr(edit_module, "put_text_file", be_killed)
        with pytest.raises(KilledError):
            bench.memory("str_replace", "/memories/a.md", old_str="one", new_str="two")
    monkeypatch.undo()
    bench.workspace.close()
    bench.open()
    bench.follow()
    assert [path.name for path in (bench.root / ".memories").iterdir()] == ["a.md"]
    assert bench.files() == {".memories/a.md": b"one\n"}
    assert bench.workspace.records.history.find_revisions() == []
    assert bench.workspace.records.history.find_intended() == []
    assert not any(
        word in path.read_bytes()
        for path in records.parent.iterdir()
        for word in (b"one\n", b"two\n")
    )


def test_a_missing_workspace_is_not_written_to(bench: Any) -> None:
    bench.write("MEMORY.md", "one\n")
    bench.sync()
    bench.root.rename(bench.root.with_name("away"))
    with pytest.raises(Unwritable):
        bench.memory("create", "/memories/a.md", file_text="a\n")
    assert not bench.root.exists()


# --- a save that an exchange displaces --------------------------------------------------------------------------------


class Exchanges:
    """Lets other programs act around the exchanges of two names that a write makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []
        self._real = write.exchange
        monkeypatch.setattr(write, "exchange", self)

    def __call__(self, *names: Any) -> None:
        if self.before:
            self.before.pop(0)()
        self._real(*names)
        if self.after:
            self.after.pop(0)()


def save(note: Path, text: str) -> None:
    """Like an editor that writes a new file and renames it over the old one."""
    fresh = note.with_name("editor.tmp")
    fresh.write_text(text)
    fresh.replace(note)


def read_history(bench: Any, path: str) -> set[bytes]:
    """Every text that the history has of a note."""
    history = bench.workspace.records.history
    digests = {
        digest
        for revision in bench.past(path)
        for digest in (revision.old_digest, revision.new_digest)
    }
    return {history.read_text(digest) for digest in digests if digest is not None}


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> Exchanges:
    return Exchanges(monkeypatch)


def test_a_save_that_a_write_displaces_is_in_the_history_before_others_can_replace_it(
    bench: Any, exchanges: Exchanges
) -> None:
    """Editor 1 saves at the last moment; editor 2 reads the exchanged file, and saves once editor
    1's is restored.
    """
    note = bench.write("MEMORY.md", "one\n")
    bench.sync()
    bench.see()
    seen: list[str] = []
    exchanges.before = [lambda: save(note, "saved by editor 1\n")]
    exchanges.after = [
        lambda: seen.append(note.read_text()),
        lambda: save(note, f"{seen[0]}and editor 2\n"),
    ]
    bench.memory("insert", "/memories/MEMORY.md", insert_line=0, insert_text="ours")
    bench.follow()
    assert seen == ["ours\none\n"]
    assert note.read_text() == "ours\nours\none\nand editor 2\n"
    assert b"saved by editor 1\n" in read_history(bench, "MEMORY.md")
    past = bench.past("MEMORY.md")
    assert all(newer.old_digest == older.new_digest for newer, older in pairwise(past))
    assert sorted(bench.files()) == ["MEMORY.md"]


def test_two_saves_during_the_exchange_are_in_the_note_and_in_the_history(
    bench: Any, exchanges: Exchanges
) -> None:
    note = bench.write("MEMORY.md", "one\n")
    exchanges.before = [lambda: save(note, "first\n"), lambda: save(note, "second\n")]
    bench.memory("insert", "/memories/MEMORY.md", insert_line=0, insert_text="ours")
    assert note.read_text() == "ours\nsecond\n"
    assert {b"first\n", b"second\n"} <= read_history(bench, "MEMORY.md")
    assert sorted(bench.files()) == ["MEMORY.md"]


def test_a_save_that_a_deletion_displaces_is_in_the_history(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = bench.write(".memories/a.md", "one\n")
    move_aside, restore = write.move_aside, write.restore

    def save_first(*names: Any) -> str:
        monkeypatch.setattr(write, "move_aside", move_aside)
        save(note, "saved by editor 1\n")
        return move_aside(*names)

    def save_after(*names: Any, is_recorded: bool) -> None:
        restore(*names, is_recorded=is_recorded)
        save(note, "and editor 2\n")

    monkeypatch.setattr(write, "move_aside", save_first)
    monkeypatch.setattr(write, "restore", save_after)
    bench.memory("delete", "/memories/a.md")
    assert {b"saved by editor 1\n", b"and editor 2\n"} <= read_history(bench, ".memories/a.md")


def test_a_save_during_the_exchange_survives_a_kill_between_the_exchanges(
    bench: Any, exchanges: Exchanges
) -> None:
    note = bench.write("MEMORY.md", "one\n")

    def be_killed() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    bench.sync()
    bench.see()
    bench.workspace.close()
    pid = os.fork()
    if not pid:
        exchanges.before, exchanges.after = [lambda: save(note, "saved by editor 1\n")], [be_killed]
        bench.memory("insert", "/memories/MEMORY.md", insert_line=0, insert_text="ours")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert note.read_text() == "ours\none\n"
    bench.open()
    bench.follow()
    bench.see()
    assert bench.files() == {"MEMORY.md": b"saved by editor 1\n"}
    assert read_history(bench, "MEMORY.md") == {b"one\n", b"saved by editor 1\n"}


def test_a_save_into_an_exchanged_note_is_found_however_long_the_record_takes(
    bench: Any, exchanges: Exchanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stat is the one that the write returns."""
    note = bench.write("MEMORY.md", "one\n")
    bench.follow()
    late_ns, finish = 0, History.finish

    def finish_late(*arguments: Any) -> None:
        nonlocal late_ns
        late_ns = 10 * GRAIN_NS
        finish(*arguments)

    bench.clock = structs.replace(bench.clock, wall_ns=lambda: time.time_ns() + late_ns)
    monkeypatch.setattr(History, "finish", finish_late)
    exchanges.after = [lambda: note.write_text("saved by an editor\n")]
    bench.memory("insert", "/memories/MEMORY.md", insert_line=0, insert_text="ours")
    assert note.read_text() == "saved by an editor\n"
    bench.follow("MEMORY.md")
    assert bench.texts() == {"MEMORY.md": "saved by an editor"}


def test_the_note_is_compared_again_right_before_the_exchange(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reader sees a text that is about to be rolled back."""
    note = bench.write("MEMORY.md", "one\n")
    real, exchange, n_exchanged = write.write_temporary, write.exchange, 0

    @contextlib.contextmanager
    def save_meanwhile(*arguments: Any, **named: Any) -> Iterator[Any]:
        with real(*arguments, **named) as temporary:
            if "editor 1" not in note.read_text():
                save(note, "saved by editor 1\n")
            yield temporary

    def count(*names: Any) -> None:
        nonlocal n_exchanged
        n_exchanged += 1
        exchange(*names)

    monkeypatch.setattr(write, "write_temporary", save_meanwhile)
    monkeypatch.setattr(write, "exchange", count)
    bench.memory("insert", "/memories/MEMORY.md", insert_line=0, insert_text="ours")
    assert note.read_text() == "ours\nsaved by editor 1\n"
    assert n_exchanged == 1


# --- the index of what was written ---


def forbid_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the disk is scanned")

    monkeypatch.setattr(sync_module, "scan", fail)


def list_paths(bench: Any) -> list[str]:
    return [path for (path,) in bench.ask("SELECT path FROM files ORDER BY path")]


def test_an_edit_indexes_the_bytes_that_it_wrote(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("MEMORY.md", "# One\n\nlarch\n")
    bench.follow()
    with monkeypatch.context() as patched:
        forbid_scans(patched)
        bench.memory("str_replace", "/memories/MEMORY.md", old_str="larch", new_str="maple")
        bench.memory("create", "/memories/new.md", file_text="# New\n\nlarch\n")
    assert list_paths(bench) == [".memories/new.md", "MEMORY.md"]
    texts = bench.ask(
        "SELECT path FROM files JOIN chunks ON file = files.id"
        " WHERE chunks.id IN (SELECT rowid FROM chunks_fts('maple'))"
    )
    assert texts == [("MEMORY.md",)]
    counts = bench.workspace.condition.counts
    assert bench.follow().paths == []
    assert bench.workspace.condition.counts == counts
    assert bench.sync(is_full=True).paths == []


def test_an_edit_indexes_what_it_deletes_and_renames(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "deep/c", "deep/d"):
        bench.write(f".memories/{name}.md", f"# {name}\n\nSee [[a]].\n")
    bench.follow()
    ids = dict(bench.ask("SELECT path, id FROM files"))
    generation = bench.workspace.condition.generation
    with monkeypatch.context() as patched:
        forbid_scans(patched)
        bench.memory("delete", "/memories/b.md")
        bench.memory("rename", old_path="/memories/deep", new_path="/memories/far")
        bench.memory("rename", old_path="/memories/far/d.md", new_path="/memories/d.md")
    assert dict(bench.ask("SELECT path, id FROM files")) == {
        ".memories/a.md": ids[".memories/a.md"],
        ".memories/d.md": ids[".memories/deep/d.md"],
        ".memories/far/c.md": ids[".memories/deep/c.md"],
    }
    assert bench.workspace.condition.generation == generation + 3
    counts = bench.workspace.condition.counts
    assert bench.follow().paths == []
    assert bench.sync(is_full=True).paths == []
    assert bench.workspace.condition.counts == counts
    assert [revision.command for revision in bench.past()][:2] == ["rename", "rename"]


def test_after_each_of_many_edits_the_index_equals_the_disk(bench: Any) -> None:
    choose = random.Random(1)
    names = [f"/memories/{folder}{name}.md" for folder in ("", "in/") for name in "ab"]
    for number in range(40):
        path, other = choose.sample(names, 2)
        command = choose.choice(
            (
                {"command": "create", "path": path, "file_text": f"# {number}\n\n[[a]]\n"},
                {"command": "insert", "path": path, "insert_line": 0, "insert_text": f"{number}"},
                {"command": "delete", "path": choose.choice((path, "/memories/in"))},
                {"command": "rename", "old_path": path, "new_path": other, "update_links": True},
                {"command": "rename", "old_path": "/memories/in", "new_path": "/memories/out"},
                {"command": "rename", "old_path": "/memories/out", "new_path": "/memories/in"},
                {"undo": True},
            )
        )
        with contextlib.suppress(Conflict, EditRefused, NoteNotFound, AlreadyExists, PathRefused):
            bench.undo() if "undo" in command else bench.memory(**command)
        indexed = dict(bench.ask("SELECT path, digest FROM files"))
        assert indexed == {path: digest_bytes(text) for path, text in bench.files().items()}
    assert len(bench.past()) > 10
    assert bench.sync(is_full=True).paths == []


def test_a_save_into_a_note_that_is_renamed_is_found(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write(".memories/a.md", "one\n")
    bench.follow()
    rename = write.rename_noreplace

    def save_after(*places: Any) -> None:
        rename(*places)
        (bench.root / ".memories" / "b.md").write_text("ONE\n")

    monkeypatch.setattr(write, "rename_noreplace", save_after)
    bench.memory("rename", old_path="/memories/a.md", new_path="/memories/b.md")
    bench.follow(".memories/b.md")
    assert bench.texts() == {".memories/b.md": "ONE"}


def test_an_edit_is_recorded_in_the_records_that_are_there_when_it_has_been_decided(
    bench: Any,
) -> None:
    bench.write("MEMORY.md", "one\n")
    bench.follow()
    bench.see()
    params = MemoryParams(command="str_replace", path="/memories/MEMORY.md", old_str="one")
    decide, n_decided = make_decision(bench.workspace, bench.config, params), 0

    def lose_records() -> Any:
        nonlocal n_decided
        n_decided += 1
        if n_decided == 1:
            bench.workspace.records_path.unlink()
        return decide()

    bench.edit(lose_records)
    assert n_decided == 2
    bench.workspace.close()
    bench.open()
    assert [revision.command for revision in bench.past("MEMORY.md")] == ["str_replace"]


def test_an_edit_scans_if_its_text_may_be_that_of_a_missing_note(bench: Any) -> None:
    bench.write(".memories/old.md", "# One\n\nlarch\n")
    bench.follow()
    [(file_id,)] = bench.ask("SELECT id FROM files")
    (bench.root / ".memories" / "old.md").unlink()
    bench.sync(grace_s=3600.0)
    bench.memory("create", "/memories/new.md", file_text="# One\n\nlarch\n")
    assert bench.ask("SELECT id, path FROM files") == [(file_id, ".memories/new.md")]


def test_an_edit_scans_if_its_note_replaces_a_folder(bench: Any) -> None:
    bench.write(".memories/a.md/deep.md", "larch\n")
    bench.follow()
    shutil.rmtree(bench.root / ".memories" / "a.md")
    bench.memory("create", "/memories/a.md", file_text="maple\n")
    assert list_paths(bench) == [".memories/a.md"]


def test_an_edit_scans_if_its_note_had_a_problem(bench: Any) -> None:
    bench.write(".memories/a.md", "x" * (bench.workspace.scope.max_file_bytes + 1))
    bench.follow()
    assert [problem.code for problem in bench.workspace.condition.scan_problems] == ["too_large"]
    (bench.root / ".memories" / "a.md").unlink()
    bench.memory("create", "/memories/a.md", file_text="maple\n")
    assert bench.workspace.condition.scan_problems == ()
    assert list_paths(bench) == [".memories/a.md"]
