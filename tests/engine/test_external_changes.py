from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from memsyncd.config import HistoryConfig
from memsyncd.core.digest import digest_bytes
from memsyncd.engine import external_changes, scheduler
from memsyncd.engine import sync as sync_module
from memsyncd.errors import StoreFailed
from memsyncd.store.history import History
from tests.engine.conftest import take


def test_notes_that_exist_at_first_are_recorded_without_revisions(bench: Any) -> None:
    bench.fill({"MEMORY.md": "one\n"})
    bench.see()
    assert bench.past() == []
    assert bench.workspace.records.history.heads() == {"MEMORY.md": digest_bytes(b"one\n")}


def test_external_changes_after_the_first_recording_are_revisions(bench: Any) -> None:
    bench.fill({"MEMORY.md": "one\n"})
    bench.see()
    bench.write("MEMORY.md", "two\n")
    bench.write(".memories/new.md", "new\n")
    bench.follow()
    seen = {(revision.path, revision.old_digest, revision.new_digest) for revision in bench.past()}
    assert seen == {
        ("MEMORY.md", digest_bytes(b"one\n"), digest_bytes(b"two\n")),
        (".memories/new.md", None, digest_bytes(b"new\n")),
    }
    assert {(revision.client, revision.command) for revision in bench.past()} == {("", "external")}


def test_a_note_moved_by_another_program_keeps_its_history(bench: Any) -> None:
    bench.fill({".memories/a.md": "one\n"})
    bench.see()
    bench.write(".memories/a.md", "two\n")
    bench.follow()
    (bench.root / ".memories/a.md").rename(bench.root / ".memories/b.md")
    bench.follow()
    assert [(revision.old_path, revision.path) for revision in bench.past(".memories/b.md")] == [
        (".memories/a.md", ".memories/b.md"),
        (None, ".memories/a.md"),
    ]
    bench.undo(".memories/b.md")
    assert bench.files() == {".memories/a.md": b"two\n"}


def test_a_change_made_while_memsyncd_was_stopped_is_recorded_at_the_next_start(bench: Any) -> None:
    bench.fill({"MEMORY.md": "one\n", ".memories/gone.md": "gone\n"})
    bench.see()
    bench.workspace.close()
    bench.write("MEMORY.md", "two\n")
    (bench.root / ".memories/gone.md").unlink()
    bench.update()
    bench.see()
    assert {(revision.path, revision.new_digest) for revision in bench.past()} == {
        ("MEMORY.md", digest_bytes(b"two\n")),
        (".memories/gone.md", None),
    }
    bench.undo(".memories/gone.md")
    assert bench.files() == {"MEMORY.md": b"two\n", ".memories/gone.md": b"gone\n"}


def test_a_missing_root_records_no_deletion(bench: Any) -> None:
    bench.fill({"MEMORY.md": "one\n"})
    bench.see()
    bench.root.rename(bench.root.with_name("away"))
    bench.sync()
    bench.see()
    assert bench.past() == []


def test_recording_unchanged_notes_again_records_nothing(bench: Any) -> None:
    bench.fill({"MEMORY.md": "one\n"})
    bench.see()
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="two")
    bench.follow()
    bench.see()
    assert [revision.command for revision in bench.past()] == ["str_replace"]


def test_records_that_cannot_be_written_are_a_fault_and_syncs_go_on(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StoreFailed("SQLite failed")

    with monkeypatch.context() as broken:
        broken.setattr(History, "record_external", fail)
        bench.fill({"MEMORY.md": "one\n"})
        bench.see()
    assert "records.db: SQLite failed" in bench.workspace.condition.faults["records"]
    bench.update()
    bench.see()
    assert "records" not in bench.workspace.condition.faults
    assert list(bench.workspace.records.history.heads()) == ["MEMORY.md"]


def test_old_revisions_are_deleted(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (external_changes, scheduler):
        monkeypatch.setattr(module, "PRUNE_AFTER", 20)
    bench.config = structs.replace(bench.config, history=HistoryConfig(max_revisions=5))
    bench.fill({"MEMORY.md": "begin\n"})
    bench.see()
    for number in range(20 + 1):
        bench.memory("insert", "/memories/MEMORY.md", insert_line=0, insert_text=str(number))
    bench.write("MEMORY.md", "end\n")
    bench.follow()
    assert len(bench.past()) == 5
    assert bench.workspace.n_unpruned == 0


def test_the_indexed_text_is_recorded_though_the_note_has_changed_again(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("MEMORY.md", "one\n")
    bench.follow()
    bench.see()
    bench.write("MEMORY.md", "two\n")
    steps = bench.start_following()
    while bench.texts() != {"MEMORY.md": "two"}:
        next(steps)
    bench.write("MEMORY.md", "three\n")
    take(steps)
    bench.follow()
    assert [revision.new_digest for revision in bench.past()] == [
        digest_bytes(b"three\n"),
        digest_bytes(b"two\n"),
    ]


def test_a_text_that_a_sync_could_not_record_is_read_again(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_module, "TEXTS_LIMIT_BYTES", 3)
    bench.write("MEMORY.md", "one\n")
    bench.follow()
    bench.see()
    bench.write("MEMORY.md", "two\n")
    bench.follow()
    assert [revision.new_digest for revision in bench.past()] == [digest_bytes(b"two\n")]


def test_a_history_that_is_switched_on_again_records_missed_changes(bench: Any) -> None:
    bench.write("MEMORY.md", "one\n")
    bench.follow()
    bench.see()
    policy, bench.config = (
        bench.config,
        structs.replace(bench.config, history=HistoryConfig(enabled=False)),
    )
    bench.write("MEMORY.md", "two\n")
    bench.follow()
    assert not bench.workspace.is_recorded
    bench.config = policy
    bench.see()
    assert [(revision.old_digest, revision.new_digest) for revision in bench.past()] == [
        (digest_bytes(b"one\n"), digest_bytes(b"two\n"))
    ]


def test_notes_written_without_a_history_are_recorded_once_it_is_switched_on(bench: Any) -> None:
    bench.follow()
    bench.see()
    policy, bench.config = (
        bench.config,
        structs.replace(bench.config, history=HistoryConfig(enabled=False)),
    )
    bench.memory("create", "/memories/a.md", file_text="one\n")
    bench.config = policy
    assert not bench.workspace.is_recorded
    bench.see()
    (bench.root / ".memories/a.md").unlink()
    bench.follow()
    bench.undo(".memories/a.md")
    assert bench.files() == {".memories/a.md": b"one\n"}


def test_deleted_records_are_not_written_to(bench: Any) -> None:
    bench.write("MEMORY.md", "one\n")
    bench.follow()
    bench.see()
    bench.workspace.records_path.unlink()
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="two")
    bench.workspace.close()
    bench.open()
    bench.undo("MEMORY.md")
    assert bench.files() == {"MEMORY.md": b"one\n"}


N_MANY = 3 * external_changes.BATCH_NOTES


def record_a_slice(bench: Any) -> bool:
    return bool(take(external_changes.record_slice(bench.workspace, bench.config, bench.clock)))


@pytest.fixture
def half_recorded(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A workspace whose first batch of notes, in the order of their names, is recorded."""
    monkeypatch.setattr(external_changes, "SLICE_S", 0.0)
    for number in range(N_MANY):
        bench.write(f".memories/{number:03}.md", f"note {number}\n")
    bench.follow()
    assert record_a_slice(bench)
    assert not bench.workspace.is_recorded
    return bench


def test_recording_runs_in_slices_and_reports_its_progress(half_recorded: Any) -> None:
    condition = half_recorded.workspace.condition
    assert (condition.n_unrecorded, condition.n_to_record) == (
        N_MANY - external_changes.BATCH_NOTES,
        N_MANY,
    )
    n_slices = 1
    while record_a_slice(half_recorded):
        n_slices += 1
    assert n_slices >= 3
    assert half_recorded.workspace.is_recorded
    assert half_recorded.workspace.condition.n_unrecorded == 0
    assert len(half_recorded.workspace.records.history.heads()) == N_MANY
    assert half_recorded.past() == []


def test_an_external_change_between_two_slices_is_a_revision_if_the_former_text_is_recorded(
    half_recorded: Any,
) -> None:
    bench, last = half_recorded, f".memories/{N_MANY - 1:03}.md"
    bench.write(".memories/000.md", "changed\n")
    bench.write(".memories/new.md", "new\n")
    bench.write(last, "changed before it was recorded\n")
    (bench.root / ".memories/001.md").unlink()
    (bench.root / ".memories/002.md").rename(bench.root / ".memories/moved.md")
    bench.follow()
    while record_a_slice(bench):
        pass
    assert {
        (revision.old_path, revision.path, revision.old_digest, revision.new_digest)
        for revision in bench.past()
    } == {
        (None, ".memories/000.md", digest_bytes(b"note 0\n"), digest_bytes(b"changed\n")),
        (None, ".memories/new.md", None, digest_bytes(b"new\n")),
        (None, ".memories/001.md", digest_bytes(b"note 1\n"), None),
        (
            ".memories/002.md",
            ".memories/moved.md",
            digest_bytes(b"note 2\n"),
            digest_bytes(b"note 2\n"),
        ),
    }
    heads = bench.workspace.records.history.heads()
    assert heads == dict(bench.workspace.index.iter_digests())
    assert heads[last] == digest_bytes(b"changed before it was recorded\n")


def test_interrupted_recording_continues_and_later_changes_are_revisions(
    half_recorded: Any,
) -> None:
    bench = half_recorded
    bench.workspace.close()
    bench.write(".memories/000.md", "changed\n")
    bench.update()
    bench.see()
    [found] = bench.past()
    assert (found.path, found.old_digest) == (".memories/000.md", digest_bytes(b"note 0\n"))
    assert len(bench.workspace.records.history.heads()) == N_MANY


def test_a_folder_that_disappears_during_recording_is_recorded_once_it_is_back(
    half_recorded: Any,
) -> None:
    bench = half_recorded
    bench.root.rename(bench.root.with_name("away"))
    bench.follow()
    assert not record_a_slice(bench)
    assert not bench.workspace.is_recorded
    assert bench.workspace.condition.n_unrecorded == 0
    bench.root.with_name("away").rename(bench.root)
    bench.follow()
    bench.see()
    assert bench.workspace.is_recorded
    assert len(bench.workspace.records.history.heads()) == N_MANY
