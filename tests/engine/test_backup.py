from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from memsyncd.config import HistoryConfig
from memsyncd.errors import BadRequest, NoteNotFound, NotFresh, StoreFailed
from memsyncd.operations.history.declare import PurgeParams
from memsyncd.operations.history.run import purge
from memsyncd.operations.records.declare import Restored
from memsyncd.operations.records.run import back_up_records, prepare_restore, restore_records
from memsyncd.operations.revisions import parse_target
from memsyncd.operations.signals.declare import SignalAckParams, SignalSendParams
from memsyncd.operations.signals.run import ack_signals, send_signal
from memsyncd.store.backup import count_revisions, find_staged
from memsyncd.store.history import Intended
from tests.engine.conftest import other_program_reading, take


def back_up(bench: Any, target: Path) -> Path:
    made = take(back_up_records(bench.workspace, bench.config, bench.clock))
    assert made.revisions == len(bench.past())
    return Path(shutil.move(made.path, target))


def prepare(bench: Any) -> Path:
    steps = prepare_restore(bench.workspace, bench.config, bench.clock)
    return Path(take(steps).path)


def restore(bench: Any, backup: Path, *, adopt: bool = True) -> Restored:
    shutil.copy(backup, find_staged(bench.workspace.records_path))
    steps = restore_records(
        bench.workspace,
        bench.config,
        bench.clock,
        is_adopting=adopt,
        client="test",
    )
    return take(steps).answer  # type: ignore[no-any-return]


def describe(bench: Any) -> list[tuple[object, ...]]:
    return [
        (revision.command, revision.client, revision.path, revision.is_kept)
        for revision in bench.past()
    ]


@pytest.fixture
def old(make_bench: Callable[..., Any]) -> Any:
    """A workspace with some history: three revisions."""
    bench = make_bench("old")
    bench.update()
    bench.see()
    bench.memory("create", "/memories/a.md", file_text="one\n", client="ada")
    bench.memory("str_replace", "/memories/a.md", old_str="one", new_str="two", client="ada")
    bench.memory("rename", old_path="/memories/a.md", new_path="/memories/b.md", client="ada")
    return bench


@pytest.fixture
def saved(old: Any, tmp_path: Path) -> Path:
    return back_up(old, tmp_path / "saved.db")


def test_a_restore_records_current_texts_as_revisions_and_changes_no_note(
    old: Any, bench: Any, saved: Path
) -> None:
    bench.write(".memories/b.md", "three\n")
    bench.write(".memories/new.md", "new\n")
    before = bench.files()
    done = restore(bench, saved)
    assert (done.revisions, done.recorded) == (3, 2)
    assert bench.files() == before
    assert [revision.path for revision in bench.past(limit=2)] == [
        ".memories/new.md",
        ".memories/b.md",
    ]
    # Who has made the new note since the backup is no longer known.
    assert [revision.command for revision in bench.past(limit=2)] == ["first_seen", "external"]
    bench.undo(".memories/b.md")
    assert bench.files()[".memories/b.md"] == b"two\n"


def test_a_note_deleted_since_the_backup_can_be_restored(bench: Any, saved: Path) -> None:
    done = restore(bench, saved)
    assert done.recorded == 1
    assert bench.files() == {}
    bench.undo(".memories/b.md")
    assert bench.files() == {".memories/b.md": b"two\n"}


def test_a_history_with_revisions_is_set_aside_and_can_be_put_back(bench: Any, saved: Path) -> None:
    bench.memory("create", "/memories/own.md", file_text="own\n")
    before = describe(bench)
    done = restore(bench, saved)
    assert done.set_aside is not None
    assert count_revisions(Path(done.set_aside)) == 1
    assert bench.files() == {".memories/own.md": b"own\n"}
    back = restore(bench, Path(done.set_aside))
    assert describe(bench)[-1:] == before
    assert back.set_aside is not None
    assert Path(done.set_aside).exists()


def test_an_unrecorded_change_is_recorded_in_the_history_that_is_set_aside(
    bench: Any, saved: Path
) -> None:
    bench.write("MEMORY.md", "one\n")
    bench.follow()
    bench.see()
    bench.write("MEMORY.md", "three\n")
    set_aside = restore(bench, saved).set_aside
    assert set_aside is not None
    assert count_revisions(Path(set_aside)) == 1


def test_preparing_returns_the_path_and_clears_it(bench: Any) -> None:
    staged = find_staged(bench.workspace.records_path)
    staged.write_bytes(b"of an interrupted restore")
    staged.with_name(f"{staged.name}.12.part").write_bytes(b"the same")
    assert prepare(bench) == staged
    assert not list(staged.parent.glob("*.restore*"))
    with pytest.raises(BadRequest, match="there is no file to restore"):
        take(restore_records(bench.workspace, bench.config, bench.clock, client=""))


def test_a_purge_deletes_unfetched_copies(old: Any) -> None:
    made = Path(take(back_up_records(old.workspace, old.config, old.clock)).path)
    params = PurgeParams(containing="one")
    steps = purge(old.workspace, old.config, old.clock, parse_target(params), params)
    assert take(steps).revisions
    assert not made.exists()


def test_a_file_that_cannot_be_restored_changes_nothing(
    old: Any, saved: Path, tmp_path: Path
) -> None:
    before = describe(old)
    (tmp_path / "note.md").write_text("# No history\n")
    with pytest.raises(BadRequest, match="not a SQLite database"):
        restore(old, tmp_path / "note.md")
    assert describe(old) == before
    old.undo(revision=3)


def test_a_history_that_another_program_reads_is_not_replaced(old: Any, saved: Path) -> None:
    before = describe(old)
    with (
        other_program_reading(old.workspace.records_path),
        pytest.raises(StoreFailed, match="another program"),
    ):
        restore(old, saved)
    assert describe(old) == before
    assert not list(old.workspace.records_path.parent.glob("*.replaced-*"))
    old.memory("create", "/memories/c.md", file_text="c\n")


def test_nothing_is_restored_without_a_history_or_a_folder(bench: Any, saved: Path) -> None:
    policy = bench.config
    bench.config = structs.replace(policy, history=HistoryConfig(enabled=False))
    with pytest.raises(BadRequest, match="no history is kept"):
        prepare(bench)
    bench.config = policy
    shutil.move(bench.root, bench.root.with_name("away"))
    with pytest.raises(NotFresh, match="folder is missing"):
        restore(bench, saved)
    shutil.move(bench.root.with_name("away"), bench.root)
    assert restore(bench, saved).revisions == 3


def test_revisions_over_the_configured_limit_are_dropped_and_counted(
    bench: Any, saved: Path
) -> None:
    bench.config = structs.replace(bench.config, history=HistoryConfig(max_revisions=1))
    done = restore(bench, saved)
    # The note does not exist here, which is its only kept revision.
    assert (done.revisions, done.recorded, done.dropped) == (3, 1, 2)
    assert len(bench.past()) == 2


def test_a_change_set_that_was_intended_at_the_backup_changes_no_note(
    old: Any, bench: Any, tmp_path: Path
) -> None:
    change = Intended(path=".memories/b.md", old=b"two\n", new=b"four\n")
    steps = back_up_records(old.workspace, old.config, old.clock)
    next(steps)
    # Like a backup that was made while the folder was missing.
    old.workspace.records.history.begin(
        at_s=1.0, client="", command="edit", path="b.md", changes=[change]
    )
    made = take(steps)
    saved = Path(shutil.move(made.path, tmp_path / "saved.db"))
    bench.write(".memories/b.md", "two\n")
    before = bench.files()
    restore(bench, saved)
    assert bench.files() == before
    assert bench.workspace.records.history.find_intended() == []


# --- whose history it is ---


def test_a_backup_of_this_workspace_is_restored_after_its_folder_was_moved(
    make_bench: Callable[..., Any], old: Any, saved: Path, tmp_path: Path
) -> None:
    """The moved folder has another id; its history was taken over, or was lost with the notes."""
    old.workspace.close()
    moved = make_bench("moved")
    shutil.rmtree(moved.root)
    old.root.rename(moved.root)
    moved.update()
    moved.see()
    moved.memory("str_replace", "/memories/b.md", old_str="two", new_str="three")
    (moved.root / ".memories/b.md").rename(moved.root / ".memories/c.md")
    moved.follow()
    assert moved.workspace.id != old.workspace.id
    assert restore(moved, saved, adopt=False).revisions == 3


# --- numbers ---


def send(bench: Any, content: str) -> int:
    params = SignalSendParams(agents=["bob"], content=content)
    job = send_signal(bench.workspace, bench.config, bench.clock, params, sender="eve")
    return int(take(job).signal.id)


def acknowledge(bench: Any, signal: int) -> tuple[list[int], list[int]]:
    params = SignalAckParams(agent="bob", signals=[signal])
    done = take(ack_signals(bench.workspace, bench.config, bench.clock, params))
    return done.acked, done.unknown


def test_numbers_that_were_given_since_the_backup_are_given_to_nothing_else(
    old: Any, tmp_path: Path
) -> None:
    assert send(old, "one") == 1
    saved = back_up(old, tmp_path / "saved.db")
    assert send(old, "deploy is done") == 2
    old.memory("create", "/memories/z.md", file_text="z\n")
    last = old.past()[0]
    restore(old, saved)
    assert acknowledge(old, 2) == ([], [2])
    assert send(old, "PRODUCTION IS DOWN") == 3
    assert acknowledge(old, 2) == ([], [2])
    old.memory("create", "/memories/y.md", file_text="y\n")
    newest = old.past()[0]
    assert newest.revision > last.revision
    assert newest.change_set > last.change_set
    with pytest.raises(NoteNotFound):
        old.undo(change_set=last.change_set)


@pytest.mark.parametrize("how", ["deleted", "damaged", "closed_and_damaged"])
def test_a_new_file_goes_on_from_the_numbers_of_the_one_that_it_replaces(
    old: Any, how: str
) -> None:
    assert [send(old, "one"), send(old, "two")] == [1, 2]
    path = old.workspace.records_path
    if how == "closed_and_damaged":
        old.workspace.close()
    if how == "deleted":
        path.unlink()
    else:
        with path.open("r+b") as file:
            file.seek(-4096, os.SEEK_END)
            file.write(b"damaged!" * 512)
    old.open()
    assert send(old, "three") == 3


@given(st.lists(st.sampled_from(["send", "back up", "restore"]), max_size=12))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_sequence_of_backups_and_restores_gives_a_number_twice(
    make_bench: Callable[..., Any], tmp_path: Path, acts: list[str]
) -> None:
    number = len(list(tmp_path.iterdir()))
    bench = make_bench(f"p{number}")
    bench.update()
    bench.see()
    saved: list[Path] = []
    sent: list[int] = []
    for act in acts:
        if act == "send":
            sent.append(send(bench, "x"))
        elif act == "back up":
            saved.append(back_up(bench, tmp_path / f"{number}-{len(saved)}.db"))
        elif saved:
            restore(bench, saved[0], adopt=False)
    assert len(set(sent)) == len(sent)
