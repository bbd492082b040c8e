from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import structs
from structlog.testing import capture_logs

from memsyncd.config import ChunkingConfig
from memsyncd.engine import rebuild
from memsyncd.engine.clock import Clock
from memsyncd.engine.rebuild import (
    DAMAGE_REBUILD_INTERVAL_S,
    INDEX_FAULT,
    RebuildPolicy,
    build_index,
    may_rebuild,
    rebuild_index,
    tidy_workspace,
    update_index,
)
from memsyncd.engine.sync import SyncRequest
from memsyncd.errors import NotFresh, StoreCorrupt, StoreFull, WorkspaceNotFound
from memsyncd.operations.history.declare import PathState
from memsyncd.store import integrity
from memsyncd.store import pool as readers_module
from memsyncd.store.index import Counts
from memsyncd.store.texts import read_texts
from tests.engine.conftest import other_program_reading, take


def files_of(bench: Any) -> list[str]:
    return sorted(path.name for path in bench.workspace.index_path.parent.iterdir())


def close_older(bench: Any, *statements: str) -> None:
    """Close the workspace, and make its index one of another version."""
    bench.workspace.close()
    with contextlib.closing(sqlite3.connect(bench.workspace.index_path)) as file, file:
        file.execute("UPDATE meta SET value = 'older' WHERE key = 'fingerprint'")
        for statement in statements:
            file.execute(statement)


def test_a_new_workspace_opens_with_empty_databases(make_bench: Callable[..., Any]) -> None:
    bench = make_bench()
    assert bench.open() == ""
    assert bench.workspace.index.is_new
    assert bench.workspace.records is not None
    assert bench.paths() == []


def test_an_index_with_other_chunking_answers_queries_until_it_is_rebuilt(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.workspace.close()
    bench.config = structs.replace(bench.config, chunking=ChunkingConfig(max_tokens=30, overlap=0))
    opened = bench.open()
    assert "chunking" in opened
    assert bench.paths() == ["MEMORY.md"]
    bench.write(".memories/new.md", "two")
    bench.rebuild()
    assert bench.paths() == [".memories/new.md", "MEMORY.md"]
    assert bench.workspace.old_readers is None


def test_a_waiting_rebuild_is_skipped_if_a_sync_has_made_the_index(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.workspace.close()
    bench.config = structs.replace(bench.config, chunking=ChunkingConfig(max_tokens=30, overlap=0))
    assert bench.open()
    waiting = build_index(bench.workspace, bench.config, bench.clock)
    bench.update()
    bench.write(".memories/late.md", "two")
    take(waiting)
    assert bench.workspace.condition.n_rebuilds == 1
    assert bench.paths() == [".memories/late.md", "MEMORY.md"]


def test_the_old_index_answers_during_a_rebuild_and_is_removed_afterwards(
    bench: Any,
) -> None:
    for number in range(40):
        bench.write(f".memories/{number}.md", f"old {number}")
    bench.sync()
    for number in range(40):
        bench.write(f".memories/{number}.md", f"new {number}")
    steps = rebuild_index(bench.workspace, bench.config, bench.clock)
    n_steps = 0
    for _ in steps:
        n_steps += 1
        assert bench.ask("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'old'") == [(40,)]
        assert bench.workspace.condition.state == "indexing"
    assert n_steps > 1
    assert bench.ask("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'new'") == [(40,)]
    assert bench.ask("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'old'") == [(0,)]
    assert not [name for name in files_of(bench) if "new" in name or "old" in name]
    assert bench.workspace.index.file_guard.find_tampering() is None


def test_no_reader_opens_an_index_while_it_is_replaced(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    old = bench.workspace.index.pool
    seen: list[object] = []

    def ask() -> None:
        with old.acquire(5) as one, old.acquire(5) as another, old.acquire(5) as third:
            seen.extend(reader.rows("SELECT path FROM files") for reader in (one, another, third))

    asking = threading.Thread(target=ask)

    def replace_and_check(path: Path, fresh: Path) -> None:
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink()
        asking.start()
        asking.join(0.2)
        assert asking.is_alive()
        assert not Path(f"{path}-shm").exists()
        fresh.replace(path)

    monkeypatch.setattr(rebuild, "replace_index", replace_and_check)
    bench.rebuild()
    asking.join()
    assert len(seen) == 3
    bench.write("MEMORY.md", "two")
    bench.sync()
    assert bench.workspace.index.file_guard.find_tampering() is None
    assert bench.workspace.index.find_damage() == ""


def test_a_rebuilt_index_can_be_written_and_opened_again(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.rebuild()
    bench.write("MEMORY.md", "two")
    bench.sync()
    bench.workspace.close()
    assert bench.open() == ""
    assert bench.texts() == {"MEMORY.md": "two"}
    assert bench.workspace.index.find_damage() == ""


def test_the_generation_grows_over_a_rebuild(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    generation = bench.sync().generation
    done = bench.rebuild()
    assert done.generation > generation
    assert (
        bench.workspace.condition.generation == bench.workspace.index.generation == done.generation
    )
    assert bench.workspace.condition.n_rebuilds == 1


def test_the_generation_grows_when_an_index_of_another_version_is_rebuilt(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.write("MEMORY.md", "two")
    generation = bench.sync().generation
    close_older(bench)
    bench.workspace.change(generation=0)
    assert bench.open() != ""
    assert bench.workspace.condition.generation == generation
    assert bench.rebuild().generation > generation


def test_an_old_index_that_answers_until_it_is_rebuilt_has_its_counts(bench: Any) -> None:
    bench.write("MEMORY.md", "# One\n\none\n\n# Two\n\ntwo\n")
    bench.sync()
    counts = bench.workspace.condition.counts
    close_older(bench)
    bench.workspace.change(counts=Counts())
    assert bench.open() != ""
    assert counts.chunks > 0
    assert bench.workspace.condition.counts == counts


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = '1 2 3 4 5 six' WHERE key = 'counts'",
        "DELETE FROM meta WHERE key = 'generation'",
    ],
)
def test_an_index_whose_facts_cannot_be_read_is_rebuilt_all_the_same(
    bench: Any, statement: str
) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    close_older(bench, statement)
    bench.workspace.change(generation=0)
    assert bench.open() != ""
    assert bench.rebuild().generation > 0
    assert bench.workspace.condition.counts.files == 1


def test_a_rebuild_without_the_folder_keeps_the_old_index(bench: Any) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    bench.root.rename(bench.root.with_name("away"))
    with pytest.raises(NotFresh):
        bench.rebuild()
    assert bench.paths() == ["MEMORY.md"]
    assert not [name for name in files_of(bench) if "new" in name]


def test_a_cancelled_rebuild_keeps_the_old_index_and_removes_the_new_file(bench: Any) -> None:
    for number in range(40):
        bench.write(f".memories/{number}.md", f"old {number}")
    bench.sync()
    steps = rebuild_index(bench.workspace, bench.config, bench.clock)
    next(steps)
    steps.close()
    assert len(bench.paths()) == 40
    assert not [name for name in files_of(bench) if "new" in name]
    bench.rebuild()


@pytest.mark.parametrize("suffixes", [("",), ("", "-wal", "-shm"), ("-wal",)])
def test_a_deleted_index_is_noticed_and_rebuilt(bench: Any, suffixes: tuple[str, ...]) -> None:
    bench.write("MEMORY.md", "one")
    bench.sync()
    for suffix in suffixes:
        bench.workspace.index_path.with_name(f"index.db{suffix}").unlink()
    assert bench.sync().index_fault
    bench.rebuild()
    assert bench.paths() == ["MEMORY.md"]
    assert not bench.sync().index_fault


def test_a_sync_builds_the_index_that_failed_while_the_folder_was_missing(bench: Any) -> None:
    bench.write("MEMORY.md", "# a\nredis")
    bench.open()
    bench.sync()
    bench.workspace.close()
    bench.workspace.index_path.write_bytes(b"garbage" * 1000)
    aside = bench.root.rename(bench.root.with_name("aside"))
    assert bench.open()
    for attempt in (bench.rebuild, bench.update):
        with pytest.raises(NotFresh):
            attempt()
    aside.rename(bench.root)
    bench.update()
    assert bench.paths() == ["MEMORY.md"]
    assert bench.workspace.condition.faults == {}


def test_opening_an_open_workspace_changes_nothing(bench: Any) -> None:
    bench.open()
    index, records = bench.workspace.index, bench.workspace.records
    assert not bench.open()
    assert (bench.workspace.index, bench.workspace.records) == (index, records)


def test_a_job_after_the_workspace_was_closed_for_good_opens_nothing(bench: Any) -> None:
    """Another Workspace may have the same files open by then: two writers would damage them."""
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


def test_records_damaged_while_open_are_set_aside_and_indexing_goes_on(bench: Any) -> None:
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


def test_records_emptied_while_they_are_read_are_set_aside_and_reported(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="one")
    records = bench.workspace.records
    records.file_guard.truncate_wal()
    bench.workspace.records_path.write_bytes(b"")
    records.tidy()
    bench.see()
    assert "records.db" in bench.workspace.condition.faults["records"]
    bench.update()
    assert bench.workspace.condition.faults == {}
    assert (
        "damaged records were set aside" in bench.workspace.condition.notices["records_set_aside"]
    )


def test_records_that_cannot_be_opened_are_a_fault_and_indexing_goes_on(
    make_bench: Callable[..., Any],
) -> None:
    bench = make_bench()
    bench.workspace.records_path.parent.parent.mkdir(parents=True, exist_ok=True)
    bench.workspace.records_path.parent.write_text("a file where the folder should be")
    bench.open()
    bench.write("MEMORY.md", "one")
    bench.sync()
    assert bench.paths() == ["MEMORY.md"]
    assert "records.db" in bench.workspace.condition.faults["records"]


def test_damage_is_repaired_once_in_ten_minutes_and_a_full_disk_never_causes_a_rebuild(
    bench: Any,
) -> None:
    damage = StoreCorrupt("damaged")
    assert not may_rebuild(bench.workspace, StoreFull("full"), 0.0)
    assert may_rebuild(bench.workspace, damage, 0.0)
    assert not may_rebuild(bench.workspace, damage, DAMAGE_REBUILD_INTERVAL_S - 1)
    assert may_rebuild(bench.workspace, damage, DAMAGE_REBUILD_INTERVAL_S + 1)


def test_maintenance_releases_cached_pages(bench: Any) -> None:
    for number in range(200):
        bench.write(f".memories/{number}.md", f"# note {number}\n\n{'some words ' * 30}")
    bench.sync()
    bench.see()
    connections = [bench.workspace.index._writer, bench.workspace.records._writer]
    before = [count_cache_bytes(connection) for connection in connections]
    take(tidy_workspace(bench.workspace))
    assert all(
        count_cache_bytes(connection) < was / 4
        for connection, was in zip(connections, before, strict=True)
    )


def test_a_full_scan_closes_unused_readers(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "IDLE_S", 0.0)
    bench.write("MEMORY.md", "larch")
    bench.update()
    with bench.workspace.acquire(5) as reader:
        pass
    bench.update()
    with pytest.raises(apsw.ConnectionClosedError):
        reader.rows("SELECT 1")


def test_readers_free_what_they_keep_at_a_full_scan_but_not_if_a_request_waits_for_it(
    bench: Any,
) -> None:
    bench.write("MEMORY.md", "larch")
    bench.update()
    with bench.workspace.acquire(5) as reader:
        assert read_texts(reader, [1]) == {1: "larch"}
    before = count_cache_bytes(reader.connection)
    request = SyncRequest(releases_memory=False)
    take(update_index(bench.workspace, bench.config, bench.clock, request))
    assert count_cache_bytes(reader.connection) == before
    bench.update()
    assert count_cache_bytes(reader.connection) < before / 2


def count_cache_bytes(connection: apsw.Connection) -> int:
    return connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0]


def test_maintenance_reports_whether_a_query_kept_deleted_text_in_the_file(bench: Any) -> None:
    def tidy() -> bool:
        steps = tidy_workspace(bench.workspace)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    bench.write("MEMORY.md", "one")
    bench.sync()
    with bench.workspace.readers.acquire(30) as reader:
        assert reader.rows("SELECT count(*) FROM files") == [(1,)]
        bench.write("MEMORY.md", "two")
        bench.sync()
        bench.workspace.index.purge()
        assert tidy() is False
    assert tidy() is True
    assert bench.workspace.condition.index_bytes == bench.workspace.index.size_bytes()


def test_maintenance_ends_between_two_steps_if_other_jobs_wait_and_goes_on_later(
    bench: Any,
) -> None:
    for number in range(40):
        bench.write(f".memories/{number}.md", f"# Note {number}\n\n{'some words ' * 30}")
    bench.sync()
    n_turns = 1
    while take(tidy_workspace(bench.workspace, lambda: True)) is None:
        n_turns += 1
        bench.write("MEMORY.md", f"saved in turn {n_turns}")
        bench.sync()
        assert bench.ask("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", "saved") == [
            (1,)
        ]
        assert n_turns < 500
        if n_turns > 20:
            assert take(tidy_workspace(bench.workspace)) is True
    assert n_turns > 5


def wal_bytes(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def write_much(bench: Any, n: int, word: str) -> None:
    for number in range(n):
        bench.write(f".memories/{number}.md", f"{word} {number} {os.urandom(40_000).hex()}\n")


def test_the_wal_of_the_records_is_small_again_after_a_large_change_and_quiet_time(
    bench: Any,
) -> None:
    write_much(bench, 64, "one")
    bench.follow()
    bench.see()
    records_path = bench.workspace.records_path
    assert wal_bytes(records_path) > 2_000_000
    assert bench.workspace.condition.records_wal_bytes == wal_bytes(records_path)
    assert take(tidy_workspace(bench.workspace)) is True
    assert wal_bytes(records_path) == wal_bytes(bench.workspace.index_path) == 0
    assert (
        bench.workspace.condition.records_wal_bytes
        == bench.workspace.condition.index_wal_bytes
        == 0
    )
    bench.memory("create", "/memories/after.md", file_text="after\n")
    assert bench.undo(".memories/after.md").answer.paths == [
        PathState(path=".memories/after.md", digest=None)
    ]


@pytest.mark.life
@pytest.mark.parametrize("name", ["index", "records"])
def test_a_wal_that_another_program_holds_is_reported_until_it_is_released(
    bench: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(integrity, "PINNED_WAL_BYTES", 1_000_000)
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
        assert (
            getattr(bench.workspace.condition, f"{name}_wal_bytes") == wal_bytes(path) > 1_000_000
        )
        assert take(tidy_workspace(bench.workspace)) is False
    assert take(tidy_workspace(bench.workspace)) is True
    assert bench.workspace.condition.notices == {}
    assert wal_bytes(path) == 0


DAMAGE = StoreCorrupt("the database is damaged")


class Repaired:
    """A workspace under a RebuildPolicy, and the rebuilds that it has begun."""

    def __init__(self, workspace: Any) -> None:
        self.workspace, self.now_s = workspace, 1000.0
        self.rebuilds: list[Future[Any]] = []
        self.policy = RebuildPolicy(
            Clock(now_s=lambda: self.now_s, wall_ns=lambda: 0), self._rebuild
        )

    def _rebuild(self, _workspace: Any) -> Future[Any]:
        self.rebuilds.append(Future())
        return self.rebuilds[-1]

    def end(self, *, is_good: bool = True) -> None:
        self.rebuilds[-1].set_result(None)
        if is_good:
            self.workspace.set_fault(INDEX_FAULT, "")

    @property
    def fault(self) -> str:
        return str(self.workspace.condition.faults.get(INDEX_FAULT, ""))


@pytest.fixture
def repaired(bench: Any) -> Repaired:
    return Repaired(bench.workspace)


def test_damage_is_repaired_at_once_and_is_a_fault_until_then(repaired: Repaired) -> None:
    repaired.policy.repair(repaired.workspace, DAMAGE)
    assert len(repaired.rebuilds) == 1
    assert "being rebuilt" in repaired.fault
    repaired.policy.repair(repaired.workspace, DAMAGE)
    repaired.policy.retry(repaired.workspace)
    assert len(repaired.rebuilds) == 1
    assert "being rebuilt" in repaired.fault


def test_damage_that_recurs_is_repaired_when_ten_minutes_are_over_without_another_failure(
    repaired: Repaired,
) -> None:
    repaired.policy.repair(repaired.workspace, DAMAGE)
    repaired.end()
    repaired.now_s += 1
    repaired.policy.repair(repaired.workspace, DAMAGE)
    assert "again within ten minutes" in repaired.fault
    repaired.now_s += DAMAGE_REBUILD_INTERVAL_S - 2
    repaired.policy.retry(repaired.workspace)
    assert len(repaired.rebuilds) == 1
    repaired.now_s += 1
    repaired.policy.retry(repaired.workspace)
    assert len(repaired.rebuilds) == 2
    repaired.end()
    repaired.now_s += DAMAGE_REBUILD_INTERVAL_S
    repaired.policy.retry(repaired.workspace)
    assert len(repaired.rebuilds) == 2, "there was nothing more to mend"


def test_a_failed_rebuild_is_retried_after_ten_minutes(repaired: Repaired) -> None:
    repaired.policy.repair(repaired.workspace, DAMAGE)
    repaired.end(is_good=False)
    repaired.policy.retry(repaired.workspace)
    assert len(repaired.rebuilds) == 1
    repaired.now_s += DAMAGE_REBUILD_INTERVAL_S
    repaired.policy.retry(repaired.workspace)
    assert len(repaired.rebuilds) == 2


def test_a_replaced_index_is_rebuilt_at_once_every_time(repaired: Repaired) -> None:
    for number in range(1, 4):
        repaired.policy.replace(repaired.workspace, "index.db was deleted or replaced")
        assert len(repaired.rebuilds) == number
        repaired.end()


def test_damage_that_waits_for_its_repair_is_logged_once(repaired: Repaired) -> None:
    with capture_logs() as logged:
        for _ in range(5):
            repaired.policy.repair(repaired.workspace, DAMAGE)
            if len(repaired.rebuilds) == 1 and not repaired.rebuilds[0].done():
                repaired.end()
            repaired.now_s += 1
            repaired.policy.retry(repaired.workspace)
    assert [line["reason"].startswith(DAMAGE.message) for line in logged] == [True, True]
    assert "again within ten minutes" in logged[1]["reason"]


def test_a_full_disk_is_logged_once_until_there_is_space_again(repaired: Repaired) -> None:
    def fail_often() -> list[Any]:
        with capture_logs() as logged:
            for _ in range(5):
                repaired.policy.on_failure(
                    repaired.workspace, StoreFull("the disk is full"), repaired.now_s
                )
                repaired.now_s += 1
        return logged

    assert [line["event"] for line in fail_often()] == ["store_full"]
    repaired.policy.on_success(repaired.workspace, began_s=repaired.now_s)
    assert [line["event"] for line in fail_often()] == ["store_full"]


@pytest.mark.parametrize("failure", [StoreFull("no room"), OSError(5, "Input/output error")])
def test_a_scan_that_is_reported_late_clears_no_later_fault(
    repaired: Repaired, failure: Exception
) -> None:
    repaired.policy.on_failure(repaired.workspace, failure, at_s=1000.0)
    repaired.policy.on_success(repaired.workspace, began_s=999.9)
    assert repaired.workspace.condition.faults
    repaired.policy.on_success(repaired.workspace, began_s=1000.0)
    assert not repaired.workspace.condition.faults
