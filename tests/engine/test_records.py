"""Another workspace's records.db is never accepted; a moved folder takes its own along."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memsyncd.core.digest import digest_bytes
from memsyncd.engine import rebuild, records
from memsyncd.engine.verify import examine_records
from memsyncd.errors import NoteNotFound
from memsyncd.store.records import find_foreign
from tests.engine.conftest import other_program_reading, take
from tests.engine.test_watching import open_workspaces, wait_for

OWN, OWN_BEFORE, THEIRS, THEIRS_BEFORE = "own\n", "own before\n", "theirs\n", "theirs before\n"
NOTES = (".memories/a.md", ".memories/b.md", ".memories/c.md")


def make_lived(make_bench: Callable[..., Any], name: str, before: str, now: str) -> Any:
    """A workspace whose first note was written twice, so that a change can be undone."""
    bench = make_bench(name)
    for path in NOTES:
        bench.write(path, f"{name} {path}\n")
    bench.write("MEMORY.md", before)
    bench.open()
    bench.follow()
    bench.see()
    bench.write("MEMORY.md", now)
    bench.follow()
    assert [revision.new_digest for revision in bench.past()] == [digest_bytes(now.encode())]
    return bench


@pytest.fixture
def own(make_bench: Callable[..., Any]) -> Any:
    return make_lived(make_bench, "own", OWN_BEFORE, OWN)


@pytest.fixture
def theirs(make_bench: Callable[..., Any]) -> Any:
    return make_lived(make_bench, "theirs", THEIRS_BEFORE, THEIRS)


def copy_while_closed(own: Any, theirs: Any) -> None:
    own.workspace.close()
    theirs.workspace.close()
    shutil.copyfile(theirs.workspace.records_path, own.workspace.records_path)


def replace_while_open(own: Any, theirs: Any) -> None:
    theirs.workspace.close()
    fresh = own.workspace.records_path.with_name("fresh")
    shutil.copyfile(theirs.workspace.records_path, fresh)
    fresh.rename(own.workspace.records_path)


def overwrite_while_open(own: Any, theirs: Any) -> None:
    theirs.workspace.close()
    assert Path(f"{own.workspace.records_path}-wal").stat().st_size > 0
    shutil.copyfile(theirs.workspace.records_path, own.workspace.records_path)


def overwrite_beside_a_log_that_a_crash_left(own: Any, theirs: Any) -> None:
    """The next program to open the file would checkpoint the WAL into the other's database."""
    theirs.workspace.close()
    path = own.workspace.records_path
    log = Path(f"{path}-wal").read_bytes()
    own.workspace.close()
    shutil.copyfile(theirs.workspace.records_path, path)
    Path(f"{path}-wal").write_bytes(log)


@pytest.mark.parametrize(
    "bring",
    [
        copy_while_closed,
        replace_while_open,
        overwrite_while_open,
        overwrite_beside_a_log_that_a_crash_left,
    ],
)
def test_records_of_another_workspace_are_set_aside_and_never_undone(
    own: Any, theirs: Any, bring: Callable[[Any, Any], None]
) -> None:
    bring(own, theirs)
    brought = theirs.workspace.records_path.read_bytes()
    own.update()
    own.see()
    [aside] = find_foreign(own.workspace.records_path)
    assert aside.read_bytes() == brought
    fault = own.workspace.condition.faults["records_foreign"]
    assert "came from another workspace" in fault
    assert aside.name in fault
    with pytest.raises(NoteNotFound, match="came from another workspace"):
        own.undo("MEMORY.md")
    with pytest.raises(NoteNotFound, match="came from another workspace"):
        own.undo(change_set=1)
    assert own.files()["MEMORY.md"] == OWN.encode()
    own.memory("create", "/memories/new.md", file_text="new\n")
    own.undo(".memories/new.md")
    aside.unlink()
    own.update()
    assert own.workspace.condition.faults == {}
    with pytest.raises(NoteNotFound, match=r"MEMORY\.md has not changed since"):
        own.undo("MEMORY.md")
    theirs.open()
    theirs.undo("MEMORY.md")
    assert theirs.files()["MEMORY.md"] == THEIRS_BEFORE.encode()


def test_a_backup_of_a_workspaces_own_records_is_accepted(own: Any) -> None:
    path = own.workspace.records_path
    own.workspace.close()
    backup = path.read_bytes()
    own.update()
    own.memory("create", "/memories/later.md", file_text="later\n")
    own.workspace.close()
    path.write_bytes(backup)
    own.update()
    own.see()
    assert own.workspace.condition.faults == {}
    own.undo("MEMORY.md")
    assert own.files()["MEMORY.md"] == OWN_BEFORE.encode()


@pytest.fixture
def moved(make_bench: Callable[..., Any], own: Any) -> Callable[[], Any]:
    """Open the folder under another name, as another workspace."""

    def open_moved(place: Path) -> Any:
        bench = make_bench("moved")
        shutil.rmtree(bench.root)
        place.rename(bench.root)
        bench.open()
        bench.follow()
        bench.see()
        return bench

    own.workspace.close()
    return lambda: open_moved(own.root)


def test_the_history_of_a_moved_folder_moves_with_it(own: Any, moved: Callable[[], Any]) -> None:
    bench = moved()
    assert f"moved here from {own.root}" in bench.workspace.condition.notices["records_moved"]
    assert not own.workspace.records_path.exists()
    bench.undo("MEMORY.md")
    assert bench.files()["MEMORY.md"] == OWN_BEFORE.encode()
    # And back again.
    bench.workspace.close()
    bench.root.rename(own.root)
    own.open()
    own.follow()
    own.see()
    assert [revision.command for revision in own.past()] == ["undo", "external"]


def test_notes_saved_while_the_history_is_taken_over_make_it_no_other_workspaces(
    own: Any, moved: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_over = records.take_over

    def save_after(*arguments: Any) -> None:
        take_over(*arguments)
        for note in own.root.with_name("moved").rglob("*.md"):
            note.write_text("saved meanwhile\n")

    monkeypatch.setattr(records, "take_over", save_after)
    bench = moved()
    assert bench.workspace.condition.faults == {}
    assert f"moved here from {own.root}" in bench.workspace.condition.notices["records_moved"]
    bench.undo("MEMORY.md")
    assert bench.files()["MEMORY.md"] == OWN.encode()


def test_a_history_whose_move_was_interrupted_is_completed_whatever_was_saved_since(
    make_bench: Callable[..., Any], own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench("moved")
    own.workspace.close()
    shutil.rmtree(bench.root)
    own.root.rename(bench.root)

    def crash(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(os, "rename", crash)
    with pytest.raises(SystemExit):
        bench.open()
    monkeypatch.undo()
    for note in bench.root.rglob("*.md"):
        note.write_text("saved meanwhile\n")
    bench.open()
    bench.follow()
    bench.see()
    assert bench.workspace.condition.faults == {}
    assert not own.workspace.records_path.exists()
    bench.undo("MEMORY.md")
    assert bench.files()["MEMORY.md"] == OWN.encode()


def test_records_brought_to_a_copy_are_accepted_once_the_original_folder_is_gone(
    make_bench: Callable[..., Any], own: Any
) -> None:
    """As on another machine: only the texts of the notes show that it is the same folder."""
    bench = make_bench("copy")
    shutil.copytree(own.root, bench.root, dirs_exist_ok=True)
    own.workspace.close()
    shutil.rmtree(own.root)
    bench.workspace.records_path.parent.mkdir(parents=True)
    shutil.copyfile(own.workspace.records_path, bench.workspace.records_path)
    bench.open()
    bench.follow()
    bench.see()
    assert bench.workspace.condition.faults == {}
    bench.undo("MEMORY.md")
    assert bench.files()["MEMORY.md"] == OWN_BEFORE.encode()
    assert own.workspace.records_path.exists()


def test_a_copy_of_an_existing_folder_gets_none_of_its_history(
    make_bench: Callable[..., Any], own: Any
) -> None:
    bench = make_bench("copy")
    shutil.copytree(own.root, bench.root, dirs_exist_ok=True)
    bench.open()
    bench.follow()
    bench.see()
    assert bench.past() == []
    own.undo("MEMORY.md")
    assert own.files()["MEMORY.md"] == OWN_BEFORE.encode()


def test_another_folder_that_reuses_an_inode_gets_none_of_the_history(
    make_bench: Callable[..., Any], own: Any
) -> None:
    bench = make_bench("stranger")
    bench.write("MEMORY.md", "somebody else's\n")
    bench.write(NOTES[0], f"own {NOTES[0]}\n")  # one of four says the same
    own.workspace.close()
    with closing(sqlite3.connect(own.workspace.records_path)) as file, file:
        file.execute("UPDATE workspace SET inode = ?", (str(os.stat(bench.root).st_ino),))
    shutil.rmtree(own.root)
    bench.open()
    bench.follow()
    bench.see()
    assert bench.past() == []
    assert own.workspace.records_path.exists()


def test_a_history_that_another_program_has_open_stays_and_is_reported(
    own: Any, moved: Callable[[], Any]
) -> None:
    path = own.workspace.records_path
    with other_program_reading(path):
        bench = moved()
        assert bench.past() == []
        notice = bench.workspace.condition.notices["records_moved"]
    assert str(path) in notice
    assert "to take it over" in notice
    bench.workspace.close()
    bench.workspace.records_path.unlink()
    bench.open()
    assert [revision.command for revision in bench.past()] == ["external"]


def test_a_folder_that_is_moved_and_added_while_the_daemon_runs_keeps_its_history(
    tmp_path: Path,
) -> None:
    root = tmp_path.resolve() / "before"
    (root / ".memories").mkdir(parents=True)
    (root / "MEMORY.md").write_text("one\n")

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path)
        first = workspaces.add(str(root))
        await wait_for(lambda: first.is_recorded and not workspaces.count_jobs())
        (root / "MEMORY.md").write_text("two\n")
        await asyncio.wrap_future(workspaces.scheduler.sync(first))
        await wait_for(lambda: first.is_recorded and not workspaces.count_jobs())
        root.rename(root.with_name("after"))
        second = workspaces.add(str(root.with_name("after")))
        await wait_for(lambda: second.is_recorded and not workspaces.count_jobs())
        assert second.records is not None
        assert [revision.path for revision in second.records.history.find_revisions()] == [
            "MEMORY.md"
        ]
        assert f"moved here from {root}" in second.condition.notices["records_moved"]
        assert "records_gone" not in first.condition.notices
        await asyncio.get_running_loop().run_in_executor(None, workspaces.stop)

    asyncio.run(scenario())


def test_the_history_of_a_missing_folder_is_not_reported_as_deleted(own: Any) -> None:
    own.workspace.records_path.unlink()
    (deleted,) = examine_records(own.workspace, is_thorough=False)
    assert (deleted.level, "was deleted" in deleted.what) == ("error", True)
    own.workspace.set_fault("root", "the folder is missing")
    (moved,) = examine_records(own.workspace, is_thorough=False)
    assert (moved.level, "takes its history along" in moved.what) == ("info", True)


def test_closing_a_workspace_for_good_closes_its_records_at_once(own: Any) -> None:
    take(rebuild.close_workspace(own.workspace))
    assert own.workspace.records is None
