from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsyncd.core.changes.diff import FileStat
from memsyncd.engine import sync as sync_module
from memsyncd.engine.checks import describe_progress
from memsyncd.engine.clock import Clock
from memsyncd.engine.rebuild import tidy_workspace
from memsyncd.engine.sync import BATCH_FILES
from memsyncd.engine.workspace import read_freshness
from memsyncd.errors import StoreFull
from memsyncd.store.index import Index, TouchNote
from memsyncd.store.records import Records
from memsyncd.store.rows import Rows
from tests.engine.conftest import take

# --- records in memory ----------------------------------------------------------------------------

# Long after every file was written: no record is racy.
LATER = Clock(now_s=time.monotonic, wall_ns=lambda: time.time_ns() + 10**12)
PLACES = (
    "MEMORY.md",
    ".memories/a.md",
    ".memories/b.md",
    ".memories/f/a.md",
    ".memories/b.md/c.md",
)
STEP = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(PLACES), st.integers(0, 2)),
    st.tuples(st.just("delete"), st.sampled_from(PLACES), st.just(0)),
    st.tuples(st.just("rename"), st.sampled_from(PLACES), st.integers(0, 4)),
    st.tuples(st.just("save"), st.sampled_from(PLACES), st.just(0)),
    st.tuples(st.sampled_from(["sync", "save", "fail", "reopen"]), st.just(""), st.just(0)),
)


def carry_out(root: Path, kind: str, path: str, number: int) -> None:
    place, other = root / path, root / PLACES[number]
    with contextlib.suppress(OSError):
        if kind == "write":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"text {number}")
        elif kind == "delete":
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        # A folder named MEMORY.md would hold no notes.
        elif kind == "rename" and not (place.is_dir() and other.parent == root):
            other.parent.mkdir(parents=True, exist_ok=True)
            place.rename(other)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, max_size=12))
def test_a_sync_by_records_in_memory_leaves_the_index_of_the_disk(
    make_bench: Any, steps: list[tuple[str, str, int]]
) -> None:
    bench = make_bench(f"p{uuid.uuid4().hex}")
    bench.open()
    bench.clock = LATER
    for kind, path, number in (*steps, ("sync", "", 0)):
        if kind in ("sync", "save"):
            bench.sync(*(() if kind == "sync" else (path,) if path else PLACES))
        elif kind == "fail":
            fail_to_write(bench)
        elif kind == "reopen":
            bench.workspace.close()
            bench.open()
        else:
            carry_out(bench.root, kind, path, number)
    files = {path: data.decode() for path, data in bench.files().items()}
    assert bench.paths() == sorted(files)
    assert bench.texts() == files
    index = bench.workspace.index
    kept, index._known = index.known_stats(), None
    assert index.known_stats() == kept
    bench.workspace.close()


def fail_to_write(bench: Any) -> None:
    """Run a sync whose transaction fails at its end, if it writes anything."""
    (bench.root / "MEMORY.md").write_text(uuid.uuid4().hex)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rows, "flush", raise_full)
        with contextlib.suppress(StoreFull):
            bench.sync()


def raise_full(*_: object) -> None:
    raise StoreFull("full", hint="wait")


def test_a_saved_file_whose_name_is_not_utf8_keeps_no_other_from_being_indexed(bench: Any) -> None:
    bench.fill({"MEMORY.md": "one"})
    names = [
        ".memories/other.md",
        *map(os.fsdecode, (b".memories/\xff.md", b".memories/\xff/a.md")),
    ]
    for name in names:
        bench.write(name, "two")
    done = bench.sync(*names)
    assert done.added == [".memories/other.md"]
    assert bench.paths() == [".memories/other.md", "MEMORY.md"]


def test_a_note_beneath_a_folder_that_took_the_name_of_a_missing_note_is_kept(bench: Any) -> None:
    bench.clock = LATER
    note = bench.write(".memories/x.md", "a note")
    bench.sync()
    note.unlink()
    bench.write(".memories/x.md/a.md", "in a folder")
    bench.sync(grace_s=60.0)
    again = bench.sync(grace_s=60.0)
    assert again.pending_deletes == (".memories/x.md",)
    assert (again.n_unchanged, again.vanished) == (1, [])
    bench.sync()
    assert bench.paths() == [".memories/x.md/a.md"]


def test_a_sync_without_changes_looks_up_no_record(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.clock = LATER
    for number in range(5):
        bench.write(f".memories/{number}.md", "text")
    bench.sync()
    looked_up: list[object] = []
    monkeypatch.setattr(Index, "recorded", lambda *_: looked_up.append("all"))
    find = Index.find_recorded
    monkeypatch.setattr(
        Index, "find_recorded", lambda index, paths: looked_up.extend(paths) or find(index, paths)
    )
    assert bench.sync().n_unchanged == 5
    assert not looked_up
    bench.write(".memories/3.md", "other text")
    assert bench.sync().modified == [".memories/3.md"]
    assert looked_up == [".memories/3.md"]


# --- added and changed notes ----------------------------------------------------------------------


def test_only_changed_text_is_rewritten(bench: Any) -> None:
    bench.fill({"MEMORY.md": "# a\none\n\n# b\ntwo\n"})
    bench.write("MEMORY.md", "above\n\n# a\none\n\n# b\n2\n")
    done = bench.sync()
    assert done.modified == ["MEMORY.md"]
    assert (done.n_upserted, done.n_deleted, done.n_shifted) == (2, 1, 1)


def test_a_touch_is_recorded_and_changes_no_generation(bench: Any) -> None:
    place = bench.write("MEMORY.md", "one")
    bench.sync()
    os.utime(place, ns=(1, 1))
    done = bench.sync()
    assert (done.generation, done.modified, done.paths) == (1, [], [])
    assert bench.workspace.index.recorded()["MEMORY.md"].stat.mtime_ns == 1


def test_one_sync_of_few_notes_is_one_transaction(bench: Any) -> None:
    for number in range(40):
        bench.write(f".memories/{number}.md", f"note {number}")
    assert bench.sync().generation == 1
    for number in range(10):
        bench.write(f".memories/{number}.md", f"changed {number}")
        bench.write(f".memories/new{number}.md", f"new {number}")
        (bench.root / f".memories/{number + 20}.md").unlink()
    done = bench.sync()
    assert (len(done.added), len(done.modified), len(done.removed)) == (10, 10, 10)
    assert done.generation == 2


def test_many_notes_are_written_in_batches_with_pauses_between(bench: Any) -> None:
    for number in range(BATCH_FILES + 10):
        bench.write(f".memories/{number}.md", f"note {number}")
    generations = []
    pending = []
    steps = bench.start_sync()
    for _ in steps:
        generations.append(bench.workspace.index.generation)
        pending.append(bench.workspace.condition.pending)
    assert bench.workspace.index.generation == 2
    assert bench.workspace.condition.counts.files == BATCH_FILES + 10
    assert len(generations) >= (BATCH_FILES + 10) // 16
    assert pending == sorted(pending, reverse=True)
    assert bench.workspace.condition.pending == 0


def test_a_long_sync_is_overdue_only_if_it_makes_no_progress(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_module, "BATCH_FILES", 8)
    monkeypatch.setattr(sync_module, "STEP_FILES", 2)
    bench.sync()
    bench.workspace.change(is_indexing=False)
    for number in range(30):
        bench.write(f".memories/{number}.md", f"note {number}")
    told = []
    for _ in bench.start_sync():
        told.append(describe_progress(bench.workspace.condition))
        bench.now_s += 40
        fresh = read_freshness(bench.workspace, bench.config, now_s=bench.now_s)
        assert (fresh.state, fresh.overdue) == ("ready", "")
    assert told[:2] == ["syncing: 2 of 30 notes", "syncing: 4 of 30 notes"]
    assert told[-1] == "syncing: 30 of 30 notes"
    assert describe_progress(bench.workspace.condition) == ""
    for later_s, state in ((15, "ready"), (90, "degraded")):
        now_s = bench.now_s + later_s
        assert read_freshness(bench.workspace, bench.config, now_s=now_s).state == state


def test_a_long_sync_that_fails_is_under_way_no_more(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_module, "BATCH_FILES", 4)
    for number in range(10):
        bench.write(f".memories/{number}.md", f"note {number}")

    def raise_full(*_: object) -> None:
        raise StoreFull("the disk is full", hint="free some space")

    monkeypatch.setattr(Index, "apply", raise_full)
    with pytest.raises(StoreFull):
        bench.sync()
    assert describe_progress(bench.workspace.condition) == ""


def test_many_notes_are_deleted_in_batches_with_pauses_between(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        bench.write(f".memories/{number}.md", f"note {number}")
    bench.sync()
    monkeypatch.setattr(sync_module, "BATCH_FILES", 4)
    shutil.rmtree(bench.root / ".memories")
    bench.write("MEMORY.md", "the only note")
    left = [len(bench.paths()) for _ in bench.start_sync()]
    # The note that was read shares the transaction of the first deletions.
    assert left[-2:] == [7, 3]
    assert bench.paths() == ["MEMORY.md"]
    assert bench.workspace.condition.pending == 0


def test_a_sync_of_some_paths_scans_only_these(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.write(".memories/a/b.md", "two")
    bench.write(".memories/c.md", "three")
    assert bench.sync(".memories/a").added == [".memories/a/b.md"]
    assert bench.sync("MEMORY.md", ".memories/none.md").added == ["MEMORY.md"]
    (bench.root / ".memories/a/b.md").unlink()
    assert bench.sync("MEMORY.md").removed == []
    assert bench.sync(".memories/a").removed == [".memories/a/b.md"]
    assert bench.paths() == ["MEMORY.md"]


def test_a_saved_link_makes_no_other_note_look_changed(bench: Any) -> None:
    bench.write("docs/target.md", "linked")
    (bench.root / ".memories/link.md").symlink_to(bench.root / "docs/target.md")
    bench.fill({"MEMORY.md": "one"})
    bench.write("docs/target.md", "linked and changed")
    done = bench.sync(".memories/link.md")
    assert (done.added, done.modified, done.removed) == ([], [".memories/link.md"], [])
    assert done.paths == [".memories/link.md"]


def test_a_target_stays_indexed_by_its_other_link_when_the_first_is_removed(bench: Any) -> None:
    bench.write("docs/target.md", "linked")
    for name in ("a.md", "b.md"):
        (bench.root / ".memories" / name).symlink_to("../docs/target.md")
    bench.sync()
    assert bench.paths() == [".memories/a.md"]
    (bench.root / ".memories/a.md").unlink()
    bench.sync(".memories/a.md")
    assert bench.paths() == [".memories/b.md"]


# --- vanished and moved notes ---------------------------------------------------------------------


def test_a_note_that_was_just_emptied_keeps_its_text_for_the_grace(bench: Any) -> None:
    place = bench.write("MEMORY.md", "one")
    bench.sync()
    bench.write("MEMORY.md", "")
    done = bench.sync(grace_s=1.5)
    assert (done.unstable, done.absent, done.modified) == (("MEMORY.md",), {"MEMORY.md"}, [])
    assert bench.texts() != {}
    emptied_at_s = place.stat().st_mtime - 2
    os.utime(place, (emptied_at_s, emptied_at_s))
    assert bench.sync(grace_s=1.5).modified == ["MEMORY.md"]
    assert bench.texts() == {}


def test_a_moved_note_is_a_move_at_once_and_is_kept_in_the_records(bench: Any) -> None:
    bench.fill({".memories/old.md": "# a\nsame bytes"})
    [(file_id,)] = bench.ask("SELECT id FROM files")
    (bench.root / ".memories/new").mkdir()
    (bench.root / ".memories/old.md").rename(bench.root / ".memories/new/name.md")
    done = bench.sync(grace_s=60)
    assert (done.moved, done.added, done.removed, done.pending_deletes) == (
        [(".memories/old.md", ".memories/new/name.md")],
        [],
        [],
        (),
    )
    assert bench.ask("SELECT id, path FROM files") == [(file_id, ".memories/new/name.md")]
    [move] = bench.workspace.records.find_moves(".memories/new/name.md")
    assert move.old_path == ".memories/old.md"


def count_segments(bench: Any) -> int:
    """The segments of FTS5 that a query searches."""
    [(number,)] = bench.ask("SELECT count(DISTINCT segid) FROM chunks_fts_idx")
    return int(number)


def find_matching(bench: Any, word: str) -> list[str]:
    """The notes with a chunk that has this word in its text, its heading or its path."""
    of_chunks = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?"
    of_files = f"SELECT file FROM chunks WHERE id IN ({of_chunks})"
    rows = bench.ask(f"SELECT path FROM files WHERE id IN ({of_files}) ORDER BY path", word)
    return [path for (path,) in rows]


def test_many_moves_are_merged_after_the_sync_and_each_note_is_found_meanwhile(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"word{number}" for number in range(24)]
    for name in names:
        bench.write(f".memories/old/{name}.md", f"# {name}\ntext of the note\n")
    bench.sync()
    take(tidy_workspace(bench.workspace))
    assert count_segments(bench) == 1
    monkeypatch.setattr(sync_module, "BATCH_FILES", 5)
    monkeypatch.setattr(sync_module, "STEP_FILES", 2)
    (bench.root / ".memories/old").rename(bench.root / ".memories/new")
    n_moved = []
    for _ in bench.start_sync():
        found = find_matching(bench, "text")
        assert sorted(Path(path).stem for path in found) == sorted(names)
        moved_paths = [path for path in found if "/new/" in path]
        assert find_matching(bench, "new") == moved_paths
        n_moved.append(len(moved_paths))
    assert n_moved == sorted(n_moved)
    assert len({0, 24} | set(n_moved)) > 3
    assert count_segments(bench) > 2
    assert bench.paths() == sorted(bench.files())
    moved = bench.workspace.records.find_moves(".memories/new/word7.md")
    assert [move.old_path for move in moved] == [".memories/old/word7.md"]
    take(tidy_workspace(bench.workspace))
    assert count_segments(bench) <= 2


@pytest.mark.parametrize("seen_first", [".memories/old", ".memories/note.md"])
def test_a_move_is_a_move_although_the_event_of_its_other_path_comes_later(
    bench: Any, seen_first: str
) -> None:
    bench.clock = LATER
    note = bench.write(".memories/note.md", "a note")
    bench.sync()
    (bench.root / ".memories" / "old").mkdir()
    note.rename(bench.root / ".memories" / "old" / "moved.md")
    moves = [
        move
        for path in (seen_first, ".memories/note.md", ".memories/old")
        for move in bench.sync(path, grace_s=60.0).moved
    ]
    assert moves == [(".memories/note.md", ".memories/old/moved.md")]


def test_a_note_that_reappears_elsewhere_within_the_grace_is_a_move_too(bench: Any) -> None:
    bench.fill({".memories/old.md": "same bytes"})
    (bench.root / ".memories/old.md").unlink()
    bench.sync(".memories/old.md", grace_s=60)
    bench.write(".memories/new.md", "same bytes")
    done = bench.sync(".memories/new.md", grace_s=60)
    assert done.moved == [(".memories/old.md", ".memories/new.md")]
    assert bench.paths() == [".memories/new.md"]


def test_a_missing_root_keeps_everything(bench: Any) -> None:
    bench.fill({"MEMORY.md": "one"})
    bench.root.rename(bench.root.with_name("away"))
    done = bench.sync()
    assert (done.root_state, done.removed) == ("missing", [])
    assert [(problem.path, problem.code) for problem in done.failed] == [(".", "root")]
    assert bench.workspace.condition.state == "missing"
    assert bench.paths() == ["MEMORY.md"]
    bench.root.with_name("away").rename(bench.root)
    assert bench.sync().removed == []
    assert bench.workspace.condition.root_state == "present"


def test_a_folder_that_cannot_be_listed_deletes_nothing(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.fill({"MEMORY.md": "one", ".memories/a/b.md": "two"})
    real_open = os.open

    def refuse(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path).endswith(".memories/a"):
            raise PermissionError(13, "Permission denied")
        return real_open(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refuse)
    done = bench.sync()
    monkeypatch.undo()
    assert done.removed == []
    assert [(problem.path, problem.code) for problem in done.failed] == [
        (".memories/a", "unreadable_folder")
    ]
    assert bench.paths() == [".memories/a/b.md", "MEMORY.md"]
    assert "unreadable_folder" in {
        problem.code for problem in bench.workspace.condition.scan_problems
    }


def test_notes_of_a_disk_that_is_not_mounted_stay_until_its_folder_is_used_or_removed(
    bench: Any,
) -> None:
    bench.write("MEMORY.md", "one")
    note = bench.write(".memories/disk/b.md", "two")
    bench.sync()
    disk = note.parent
    bench.workspace.records.remember_mounts(frozenset({str(disk)}))
    note.unlink()
    for only in ((), (".memories/disk/b.md",), ()):
        done = bench.sync(*only)
        assert [(problem.path, problem.code) for problem in done.failed] == [
            (".memories/disk", "not_mounted")
        ]
        assert "folders" in bench.workspace.condition.faults
    assert bench.paths() == [".memories/disk/b.md", "MEMORY.md"]
    disk.rmdir()
    assert bench.sync(".memories/disk").removed == [".memories/disk/b.md"]
    assert bench.workspace.condition.faults == {}


def test_a_folder_without_notes_of_its_own_is_there_once_the_disks_beneath_it_are_gone(
    bench: Any,
) -> None:
    path = bench.write(".memories/disk/b.md", "two")
    bench.sync()
    stat = path.stat()
    bench.workspace.index.apply(
        [
            TouchNote(
                path=".memories/disk/b.md",
                stat=FileStat(stat.st_size, 1, 1, stat.st_ino, stat.st_dev + 1),
                read_at_ns=stat.st_mtime_ns,
            )
        ]
    )
    shutil.rmtree(path.parents[1])
    assert bench.sync().root_state == "present"
    assert bench.paths() == []


def test_saving_a_note_in_the_place_of_a_folder_ends_no_pending_delete(bench: Any) -> None:
    bench.fill({".memories/a.md/b.md": "one", ".memories/a.md/c/d.md": "two"})
    (bench.root / ".memories/a.md").rename(bench.root / "away")
    old = (".memories/a.md/b.md", ".memories/a.md/c/d.md")
    assert bench.sync(grace_s=1.5).pending_deletes == old
    bench.write(".memories/a.md", "three")
    done = bench.sync(".memories/a.md", grace_s=1.5)
    assert (done.added, done.pending_deletes) == ([".memories/a.md"], old)
    assert bench.workspace.condition.pending == 2
    bench.now_s += 1.5
    assert bench.sync(*old, grace_s=1.5).removed == list(old)
    assert bench.paths() == [".memories/a.md"]


# --- problems -------------------------------------------------------------------------------------


def test_one_bad_note_never_stops_the_others(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.write(".memories/big.md", b"x" * (bench.config.sync.max_file_bytes + 1))
    bench.write(".memories/odd.md", b"\xff\x00\n---\n[[[\n")
    os.mkfifo(bench.root / ".memories/fifo.md")
    (bench.root / ".memories/out.md").symlink_to("/etc/hostname")
    os.utime(bench.root / ".memories/odd.md", ns=(1, 12_000_000_000 * 10**9))
    bench.sync()
    assert bench.paths() == [".memories/odd.md", "MEMORY.md"]
    codes = {problem.path: problem.code for problem in bench.workspace.condition.scan_problems}
    assert codes == {
        ".memories/big.md": "too_large",
        ".memories/fifo.md": "not_a_file",
        ".memories/out.md": "link_outside",
    }
    again = bench.sync()
    assert again.generation == 1


def test_a_problem_is_reported_until_it_is_fixed(bench: Any) -> None:
    (bench.root / ".memories/out.md").symlink_to("/etc/hostname")
    bench.fill({"MEMORY.md": "one"})
    assert len(bench.workspace.condition.scan_problems) == 1
    bench.sync("MEMORY.md")
    assert len(bench.workspace.condition.scan_problems) == 1
    (bench.root / ".memories/out.md").unlink()
    bench.sync()
    assert bench.workspace.condition.scan_problems == ()


def test_a_note_that_grows_while_it_is_read_is_indexed_and_synced_again(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = bench.write("MEMORY.md", "one")
    real_pread = os.pread

    def pread(fd: int, n_bytes: int, offset: int) -> bytes:
        data = real_pread(fd, n_bytes, offset)
        if not data:
            with place.open("a") as stream:
                stream.write(" more")
        return data

    monkeypatch.setattr(os, "pread", pread)
    done = bench.sync()
    monkeypatch.undo()
    assert done.unstable == ("MEMORY.md",)
    assert bench.workspace.condition.pending == 1
    assert bench.paths() == ["MEMORY.md"]
    done = bench.sync("MEMORY.md")
    assert (done.modified, done.unstable) == (["MEMORY.md"], ())
    assert bench.texts() == {"MEMORY.md": place.read_text()}
    assert bench.workspace.condition.pending == 0


def test_an_event_that_comes_while_a_saved_note_is_read_leaves_it_unscanned(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.clock = LATER
    place = bench.write("MEMORY.md", "one")
    bench.sync()
    place.write_text("two")
    bench.workspace.note_unscanned("MEMORY.md", bench.clock.now_s())
    real_pread = os.pread

    def pread(fd: int, n_bytes: int, offset: int) -> bytes:
        data = real_pread(fd, n_bytes, offset)
        bench.workspace.note_unscanned("MEMORY.md", bench.clock.now_s())
        return data

    monkeypatch.setattr(os, "pread", pread)
    done = bench.sync("MEMORY.md")
    assert bench.texts() == {"MEMORY.md": "two"}
    bench.workspace.note_scanned(frozenset(done.paths), done.began_s)
    assert bench.workspace.pending == 1
    monkeypatch.undo()
    done = bench.sync("MEMORY.md")
    bench.workspace.note_scanned(frozenset({"MEMORY.md"}), done.began_s)
    assert bench.workspace.pending == 0


def test_moves_are_synced_without_records_too(bench: Any) -> None:
    records: Records = bench.workspace.records
    records.close()
    bench.workspace.records = None
    bench.fill({".memories/a.md": "one"})
    (bench.root / ".memories/a.md").rename(bench.root / ".memories/b.md")
    assert bench.sync().moved == [(".memories/a.md", ".memories/b.md")]


def test_commits_before_a_failure_are_kept_and_the_next_sync_finishes(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_module, "BATCH_FILES", 4)
    for number in range(10):
        bench.write(f".memories/{number}.md", f"note {number}")
    real_apply, n_calls = bench.workspace.index.apply, []

    def apply(updates: list[Any]) -> Any:
        n_calls.append(len(updates))
        if len(n_calls) == 2:
            raise StoreFull("the disk is full")
        return real_apply(updates)

    monkeypatch.setattr(bench.workspace.index, "apply", apply)
    with pytest.raises(StoreFull):
        bench.sync()
    assert len(bench.paths()) == 4
    assert len(bench.sync().added) == 6
    assert len(bench.paths()) == 10


def test_a_cancelled_sync_leaves_the_index_intact(bench: Any) -> None:
    for number in range(40):
        bench.write(f".memories/{number}.md", f"note {number}")
    steps = bench.start_sync()
    next(steps)
    steps.close()
    assert bench.workspace.index.find_damage() == ""
    assert len(bench.sync().added) + len(bench.paths()) >= 40
    assert len(bench.paths()) == 40
