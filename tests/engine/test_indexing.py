from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from memsyncd.core.markdown.chunks import ChunkPolicy
from memsyncd.engine import indexing
from memsyncd.engine.indexing import DAMAGE_REBUILD_INTERVAL_S, build_index, may_rebuild, rebuild_index, tidy_workspace
from memsyncd.errors import NotFresh, StoreCorrupt, StoreFull, WorkspaceNotFound
from memsyncd.protocol.memory import PathState
from memsyncd.store import footing
from memsyncd.store import readers as readers_module
from tests.engine.conftest import other_program_reading, take


def files_of(bench: Any) -> list[str]:
    return sorted(path.name for path in bench.workspace.index_path.parent.iterdir())


def test_a_new_workspace_opens_with_empty_databases(make_bench: Callable[..., Any]) -> None:
    bench = make_bench()
    opened = bench.open()
    assert (opened.is_new, opened.rebuild_reason) == (True, "")
    assert bench.workspace.records is not None
    assert bench.paths() == []


def test_an_index_made_with_other_chunking_answers_until_it_is_rebuilt(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.workspace.close()
    bench.policy = replace(bench.policy, chunking=ChunkPolicy(max_tokens=30, overlap_tokens=0))
    opened = bench.open()
    assert "chunking" in opened.rebuild_reason
    assert bench.paths() == ["MEMORY.md"]
    bench.write(".memories/new.md", "two")
    bench.rebuild()
    assert bench.paths() == [".memories/new.md", "MEMORY.md"]
    assert bench.workspace.old_readers is None


def test_a_rebuild_that_a_sync_has_forestalled_is_not_done_again(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.workspace.close()
    bench.policy = replace(bench.policy, chunking=ChunkPolicy(max_tokens=30, overlap_tokens=0))
    assert bench.open().rebuild_reason
    waiting = build_index(bench.workspace, bench.policy, bench.clock)
    bench.update()
    bench.write(".memories/late.md", "two")
    take(waiting)
    assert bench.workspace.condition.n_rebuilds == 1
    assert bench.paths() == [".memories/late.md", "MEMORY.md"]


def test_the_old_index_answers_at_every_step_of_a_rebuild_and_nothing_is_left_of_it(bench: Any) -> None:
    for number in range(40):
        bench.write(f".memories/{number}.md", f"old {number}")
    bench.sync()
    for number in range(40):
        bench.write(f".memories/{number}.md", f"new {number}")
    steps = rebuild_index(bench.workspace, bench.policy, bench.clock)
    n_steps = 0
    for _ in steps:
        n_steps += 1
        assert bench.ask("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'old'") == [(40,)]
        assert bench.workspace.condition.state == "indexing"
    assert n_steps > 1
    assert bench.ask("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'new'") == [(40,)]
    assert bench.ask("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'old'") == [(0,)]
    assert not [name for name in files_of(bench) if "new" in name or "old" in name]
    assert bench.workspace.index.find_harm() is None


def test_nobody_opens_an_index_while_another_takes_its_place(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    old = bench.workspace.index.readers
    seen: list[object] = []

    def ask() -> None:
        with old.lend(5) as one, old.lend(5) as another, old.lend(5) as third:
            seen.extend(reader.rows("SELECT path FROM files") for reader in (one, another, third))

    asking = threading.Thread(target=ask)

    def replace_and_look(path: Path, fresh: Path) -> None:
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink()
        asking.start()
        asking.join(0.2)
        assert asking.is_alive()
        assert not Path(f"{path}-shm").exists()
        fresh.replace(path)

    monkeypatch.setattr(indexing, "replace_index", replace_and_look)
    bench.rebuild()
    asking.join()
    assert len(seen) == 3
    bench.write("MEMORY.md", "two")
    bench.sync()
    assert bench.workspace.index.find_harm() is None
    assert bench.workspace.index.find_damage() == ""


def test_a_rebuilt_index_is_written_on_and_opens_again(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.rebuild()
    bench.write("MEMORY.md", "two")
    bench.sync()
    bench.workspace.close()
    assert bench.open().rebuild_reason == ""
    assert bench.texts() == {"MEMORY.md": "two"}
    assert bench.workspace.index.find_damage() == ""


def test_the_generation_grows_over_a_rebuild(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    generation = bench.sync().generation
    done = bench.rebuild()
    assert done.generation > generation
    assert bench.workspace.condition.generation == bench.workspace.index.generation == done.generation
    assert bench.workspace.condition.n_rebuilds == 1


def test_one_rebuild_makes_up_for_a_deleted_index(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    for name in files_of(bench):
        (bench.workspace.index_path.parent / name).unlink()
    assert bench.sync().index_trouble != ""
    assert bench.rebuild().index_trouble == ""
    assert bench.sync().index_trouble == ""


def test_a_rebuild_without_the_folder_keeps_the_old_index(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.root.rename(bench.root.with_name("away"))
    with pytest.raises(NotFresh):
        bench.rebuild()
    assert bench.paths() == ["MEMORY.md"]
    assert not [name for name in files_of(bench) if "new" in name]


def test_a_rebuild_that_is_given_up_keeps_the_old_index_and_leaves_nothing(bench: Any) -> None:
    for number in range(40):
        bench.write(f".memories/{number}.md", f"old {number}")
    bench.sync()
    steps = rebuild_index(bench.workspace, bench.policy, bench.clock)
    next(steps)
    steps.close()
    assert len(bench.paths()) == 40
    assert not [name for name in files_of(bench) if "new" in name]
    bench.rebuild()


@pytest.mark.parametrize("suffixes", [("",), ("", "-wal", "-shm"), ("-wal",)])
def test_an_index_that_somebody_deleted_is_noticed_and_comes_back(bench: Any, suffixes: tuple[str, ...]) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    for suffix in suffixes:
        bench.workspace.index_path.with_name(f"index.db{suffix}").unlink()
    assert bench.sync().index_trouble
    bench.rebuild()
    assert bench.paths() == ["MEMORY.md"]
    assert not bench.sync().index_trouble


def test_garbage_in_place_of_the_index_is_rebuilt(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.workspace.close()
    bench.workspace.index_path.write_bytes(b"garbage" * 1000)
    assert "damaged" in bench.open().rebuild_reason
    bench.rebuild()
    assert bench.paths() == ["MEMORY.md"]


def test_a_sync_makes_the_index_that_could_not_be_made_while_the_folder_was_gone(bench: Any) -> None:
    bench.write("MEMORY.md", "# a\nredis")
    bench.open()
    bench.sync()
    bench.workspace.close()
    bench.workspace.index_path.write_bytes(b"garbage" * 1000)
    aside = bench.root.rename(bench.root.with_name("aside"))
    assert bench.open().rebuild_reason
    for attempt in (bench.rebuild, bench.update):
        with pytest.raises(NotFresh):
            attempt()
    aside.rename(bench.root)
    bench.update()
    assert bench.paths() == ["MEMORY.md"]
    assert bench.workspace.condition.faults == {}


def test_opening_what_is_open_changes_nothing(bench: Any) -> None:
    bench.open()
    index, records = bench.workspace.index, bench.workspace.records
    assert not bench.open().rebuild_reason
    assert (bench.workspace.index, bench.workspace.records) == (index, records)


def test_a_job_that_comes_after_the_workspace_was_closed_for_good_opens_nothing(bench: Any) -> None:
    """Another workspace may have the same files open by then, and two writers would spoil them."""
    bench.open()
    bench.close_for_good()
    for job in (bench.open, bench.update, bench.rebuild):
        with pytest.raises(WorkspaceNotFound):
            job()
    assert bench.workspace.index is bench.workspace.records is None


def test_damaged_records_are_set_aside_and_named(bench: Any) -> None:
    bench.workspace.close()
    bench.workspace.records_path.write_bytes(b"garbage" * 1000)
    bench.open()
    assert bench.workspace.records.set_aside.exists()


def test_records_that_are_damaged_while_they_are_open_stop_no_indexing_and_are_set_aside(bench: Any) -> None:
    old = bench.write(".memories/old.md", "same bytes")
    bench.sync()
    with sqlite3.connect(bench.workspace.records_path) as other:
        other.execute("DROP TABLE moves")
    other.close()
    old.rename(old.with_name("new.md"))
    bench.update()
    assert bench.paths() == [".memories/new.md"]
    assert "records.db" in bench.workspace.condition.faults["records"]
    bench.workspace.records_path.write_bytes(b"garbage" * 1000)
    bench.update()
    assert bench.workspace.condition.faults == {}
    assert bench.workspace.records.set_aside.exists()


def test_records_that_are_emptied_while_they_are_read_are_set_aside_and_not_begun_anew_in_silence(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="one")
    records = bench.workspace.records
    records.footing.empty_log()
    bench.workspace.records_path.write_bytes(b"")
    records.tidy()
    bench.see()
    assert "records.db" in bench.workspace.condition.faults["records"]
    bench.update()
    assert bench.workspace.condition.faults == {}
    assert "damaged records were set aside" in bench.workspace.condition.notices["records_set_aside"]


def test_records_that_cannot_be_opened_are_a_fault_and_stop_no_indexing(make_bench: Callable[..., Any]) -> None:
    bench = make_bench()
    bench.workspace.records_path.parent.parent.mkdir(parents=True, exist_ok=True)
    bench.workspace.records_path.parent.write_text("a file where the folder should be")
    bench.open()
    bench.write("MEMORY.md", "one")
    bench.sync()
    assert bench.paths() == ["MEMORY.md"]
    assert "records.db" in bench.workspace.condition.faults["records"]


def test_damage_is_healed_once_in_ten_minutes_and_a_full_disk_never(bench: Any) -> None:
    damage = StoreCorrupt("damaged")
    assert not may_rebuild(bench.workspace, StoreFull("full"), 0.0)
    assert may_rebuild(bench.workspace, damage, 0.0)
    assert not may_rebuild(bench.workspace, damage, DAMAGE_REBUILD_INTERVAL_S - 1)
    assert may_rebuild(bench.workspace, damage, DAMAGE_REBUILD_INTERVAL_S + 1)


def test_tidying_lets_go_of_the_pages_that_were_read(bench: Any) -> None:
    for number in range(200):
        bench.write(f".memories/{number}.md", f"# note {number}\n\n{'some words ' * 30}")
    bench.sync()
    bench.see()
    connections = [bench.workspace.index._writer, bench.workspace.records._writer]
    before = [count_cache_bytes(connection) for connection in connections]
    take(tidy_workspace(bench.workspace))
    assert all(count_cache_bytes(connection) < was / 4 for connection, was in zip(connections, before, strict=True))


def test_a_look_at_everything_closes_readers_that_nobody_uses(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "UNUSED_S", 0.0)
    bench.write("MEMORY.md", "larch")
    bench.update()
    with bench.workspace.lend(5) as reader:
        pass
    bench.update()
    with pytest.raises(apsw.ConnectionClosedError):
        reader.rows("SELECT 1")


def count_cache_bytes(connection: apsw.Connection) -> int:
    return connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0]


def test_tidying_says_whether_a_query_kept_the_text_there(bench: Any) -> None:
    def tidy() -> bool:
        steps = tidy_workspace(bench.workspace)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    bench.write("MEMORY.md", "one")
    bench.sync()
    with bench.workspace.readers.lend(30) as reader:
        assert reader.rows("SELECT count(*) FROM files") == [(1,)]
        bench.write("MEMORY.md", "two")
        bench.sync()
        assert tidy() is False
    assert tidy() is True
    assert bench.workspace.condition.index_bytes == bench.workspace.index.size_bytes()


def wal_bytes(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def write_much(bench: Any, n: int, word: str) -> None:
    for number in range(n):
        bench.write(f".memories/{number}.md", f"{word} {number} {os.urandom(40_000).hex()}\n")


def test_the_log_of_the_records_is_small_again_after_a_large_act_and_quiet_time(bench: Any) -> None:
    write_much(bench, 64, "one")
    bench.follow()
    bench.see()
    records_path = bench.workspace.records_path
    assert wal_bytes(records_path) > 2_000_000
    assert bench.workspace.condition.records_wal_bytes == wal_bytes(records_path)
    assert take(tidy_workspace(bench.workspace)) is True
    assert wal_bytes(records_path) == wal_bytes(bench.workspace.index_path) == 0
    assert bench.workspace.condition.records_wal_bytes == bench.workspace.condition.index_wal_bytes == 0
    bench.memory("create", "/memories/after.md", file_text="after\n")
    assert bench.undo(".memories/after.md").answer.paths == [PathState(path=".memories/after.md", digest=None)]


@pytest.mark.parametrize("name", ["index", "records"])
def test_a_log_that_another_program_keeps_from_being_emptied_is_said_until_that_lets_go(
    bench: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(footing, "HELD_LOG_BYTES", 1_000_000)
    monkeypatch.setattr(footing, "CHECKPOINT_PAGES", 100)
    write_much(bench, 16, "one")
    bench.follow()
    bench.see()
    assert take(tidy_workspace(bench.workspace)) is True
    path, word = getattr(bench.workspace, f"{name}_path"), f"{name}_log_held"
    with other_program_reading(path):
        for turn in range(4):
            write_much(bench, 16, f"turn{turn}")
            bench.follow()
        notices = bench.workspace.condition.notices
        assert list(notices) == [word]
        assert f"another program reads {path.name}" in notices[word]
        assert str(path) in notices[word]
        assert getattr(bench.workspace.condition, f"{name}_wal_bytes") == wal_bytes(path) > 1_000_000
        assert take(tidy_workspace(bench.workspace)) is False
    assert take(tidy_workspace(bench.workspace)) is True
    assert bench.workspace.condition.notices == {}
    assert wal_bytes(path) == 0
