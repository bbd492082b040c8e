from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import apsw
import pytest

from memsyncd.core.turns import Pauses
from memsyncd.errors import NotFresh, StoreCorrupt, StoreFailed, StoreFull
from memsyncd.store import connection as connection_module
from memsyncd.store.connection import (
    CancellationToken,
    Durability,
    WalPages,
    deadline,
    is_cancelled,
    open_reader,
    open_writer,
    short_read,
    transaction,
    translate_error,
    translating_errors,
)
from memsyncd.store.index import Index
from memsyncd.store.pool import Reader

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.mark.parametrize(
    ("durability", "level"), [(Durability.REBUILDABLE, 1), (Durability.LASTING, 2)]
)
def test_a_writer_is_set_as_the_file_needs_it(
    tmp_path: Path, durability: Durability, level: int
) -> None:
    writer = open_writer(str(tmp_path / "a.db"), durability)
    pragmas = {
        name: writer.pragma(name)
        for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys")
    }
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": level,
        "secure_delete": 1,
        "foreign_keys": 1,
    }
    assert writer.pragma("trusted_schema") == 0
    assert writer.pragma("cell_size_check") == 1
    assert writer.pragma("busy_timeout") == 5000
    writer.close()


def test_a_checkpoint_happens_only_when_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    writer = open_writer(str(path), Durability.REBUILDABLE)
    pages = WalPages(writer)
    writer.execute("CREATE TABLE t(data)")
    n_before = path.stat().st_size
    for _ in range(2):
        # SQLite's own limit is 1,000 pages.
        writer.execute("INSERT INTO t VALUES(randomblob(5000000))")
        pages.checkpoint(5000)
    assert path.stat().st_size == n_before
    pages.checkpoint(2000)
    assert path.stat().st_size > 2000 * 4096
    n_copied = path.stat().st_size
    writer.execute("INSERT INTO t VALUES(randomblob(5000))")
    pages.checkpoint(2000)
    assert path.stat().st_size == n_copied
    writer.close()


def test_the_shadow_tables_of_fts5_cannot_be_written(tmp_path: Path) -> None:
    writer = open_writer(str(tmp_path / "a.db"), Durability.REBUILDABLE)
    writer.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
    with pytest.raises(apsw.SQLError, match="may not be modified"):
        writer.execute("DELETE FROM t_data")
    writer.close()


def test_a_word_in_double_quotes_is_never_a_string_literal(tmp_path: Path) -> None:
    writer = open_writer(str(tmp_path / "a.db"), Durability.REBUILDABLE)
    with pytest.raises(apsw.SQLError):
        writer.execute('SELECT "no such column"')
    writer.close()


def test_a_reader_cannot_write_and_makes_no_file(tmp_path: Path) -> None:
    open_writer(str(tmp_path / "a.db"), Durability.REBUILDABLE).close()
    reader = open_reader(str(tmp_path / "a.db"))
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("CREATE TABLE t(x)")
    reader.close()
    with pytest.raises(StoreFailed):
        open_reader(str(tmp_path / "b.db"))
    assert not (tmp_path / "b.db").exists()


def test_a_file_that_is_not_a_database_is_reported_as_damaged_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"no database" * 1000)
    n_open = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for open_one in (
        lambda: open_writer(str(path), Durability.LASTING),
        lambda: open_reader(str(path)).execute("SELECT 1 FROM x"),
    ):
        with pytest.raises((StoreCorrupt, apsw.NotADBError)):
            open_one()
    if n_open:
        assert len(os.listdir("/proc/self/fd")) <= n_open


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (apsw.CorruptError("database disk image is malformed"), StoreCorrupt),
        (apsw.NotADBError("file is not a database"), StoreCorrupt),
        (apsw.SQLError("no such table: chunks"), StoreCorrupt),
        (apsw.SQLError("malformed database schema"), StoreCorrupt),
        (apsw.SQLError("vtable constructor failed: chunks_fts"), StoreCorrupt),
        (apsw.FullError("database or disk is full"), StoreFull),
        (apsw.InterruptError("interrupted"), NotFresh),
        (apsw.BusyError("database is locked"), StoreFailed),
        (apsw.IOError("disk I/O error"), StoreFailed),
        (apsw.ReadOnlyError("attempt to write a readonly database"), StoreFailed),
        (apsw.ConstraintError("CHECK constraint failed"), StoreFailed),
    ],
)
def test_a_failure_of_sqlite_has_its_own_message(
    failure: apsw.Error, kind: type[Exception]
) -> None:
    assert type(translate_error(failure)) is kind
    with pytest.raises(kind) as caught, translating_errors():
        raise failure
    assert caught.value.__cause__ is failure


def test_a_full_disk_is_reported_and_rolled_back(tmp_path: Path) -> None:
    writer = open_writer(str(tmp_path / "a.db"), Durability.REBUILDABLE)
    writer.execute("CREATE TABLE t(x)")
    writer.execute(f"PRAGMA max_page_count = {writer.pragma('page_count') + 2}")
    with pytest.raises(StoreFull), transaction(writer):
        writer.execute("INSERT INTO t VALUES(zeroblob(100000))")
    assert not writer.in_transaction
    assert writer.execute("SELECT count(*) FROM t").get == 0
    writer.close()


def test_a_statement_stops_at_its_deadline_and_the_connection_stays_usable() -> None:
    connection = apsw.Connection(":memory:")
    with pytest.raises(NotFresh), deadline(connection, 0.05):
        connection.execute(ENDLESS).fetchall()
    with deadline(connection, 60):
        assert connection.execute("SELECT 1").get == 1
    connection.close()


def test_a_transaction_is_all_or_nothing() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE t(x)")
    with transaction(connection):
        connection.execute("INSERT INTO t VALUES(1)")
    with pytest.raises(StoreCorrupt), transaction(connection):
        connection.execute("INSERT INTO t VALUES(2); SELECT 1 FROM nowhere")
    assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]
    connection.close()


# --- cancellation ---------------------------------------------------------------------------------


LONG_S = 600.0


@pytest.mark.timeout(300)
def test_a_running_statement_ends_when_its_token_is_cancelled(index: Index) -> None:
    token, has_begun = CancellationToken(), threading.Event()

    def read() -> None:
        with index.pool.acquire(LONG_S) as reader:
            has_begun.set()
            reader.rows(ENDLESS)

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(token.run, read)
        has_begun.wait()
        token.cancel()
        assert isinstance(reading.exception(), NotFresh)
        assert threads.submit(is_cancelled).result() is False


@pytest.mark.timeout(300)
def test_all_queries_of_one_token_share_one_limit(index: Index) -> None:
    def read() -> None:
        for allow in (
            Reader.rows,
            lambda reader, statement: (reader.allow(LONG_S), reader.rows(statement)),
        ):
            with pytest.raises(NotFresh), index.pool.acquire(LONG_S) as reader:
                allow(reader, ENDLESS)

    CancellationToken(0.05).run(read)


def test_a_cancelled_token_acquires_no_connection(index: Index) -> None:
    def read() -> None:
        with index.pool.acquire(LONG_S):
            raise AssertionError

    token = CancellationToken()
    token.cancel()
    with pytest.raises(NotFresh):
        token.run(read)
    with index.pool.acquire(LONG_S) as reader:
        assert reader.rows("SELECT 1") == [(1,)]


# --- precedence -----------------------------------------------------------------------------------

COUNT = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500000)"
    " SELECT sum(i) FROM n"
)
READS: dict[str, Callable[[Reader], object]] = {
    "before a statement": lambda reader: reader.rows("SELECT 1"),
    "before words are split": lambda reader: reader.split("some words"),
}


def begin_long_read(
    threads: ThreadPoolExecutor, index: Index, read: Callable[[Reader], object], ended: list[str]
) -> Future[None]:
    """Run a long read on a thread; at its end the thread adds to `ended`."""

    def read_long() -> None:
        with index.pool.acquire(LONG_S) as reader:
            read(reader)
            ended.append("long")

    return threads.submit(CancellationToken(is_long=True).run, read_long)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_a_long_read_pauses_until_the_short_ones_have_ended(
    index: Index, monkeypatch: pytest.MonkeyPatch, read: Callable[[Reader], object]
) -> None:
    monkeypatch.setattr(connection_module, "MAX_PAUSE_S", LONG_S)
    ended: list[str] = []
    with ThreadPoolExecutor(1) as threads:
        with short_read():
            with short_read():
                reading = begin_long_read(threads, index, read, ended)
            assert not wait([reading], timeout=0.05).done
            ended.append("short")
        reading.result()
    assert ended == ["short", "long"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_hurried", [True, False])
def test_a_long_read_pauses_while_a_short_one_has_a_connection(
    index: Index, monkeypatch: pytest.MonkeyPatch, is_hurried: bool
) -> None:
    monkeypatch.setattr(connection_module, "MAX_PAUSE_S", LONG_S)
    ended: list[str] = []

    def read() -> Future[None]:
        with index.pool.acquire(LONG_S, LONG_S if is_hurried else math.inf):
            reading = begin_long_read(threads, index, READS["before a statement"], ended)
            assert not wait([reading], timeout=0.05).done
            ended.append("short")
        return reading

    with ThreadPoolExecutor(1) as threads:
        reading = read() if is_hurried else CancellationToken().run(read)
        reading.result()
    assert ended == ["short", "long"]


@pytest.mark.timeout(300)
def test_a_long_read_does_not_pause_for_a_job_of_the_daemon(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_PAUSE_S", LONG_S)
    ended: list[str] = []
    with ThreadPoolExecutor(1) as threads, index.pool.acquire(LONG_S):
        begin_long_read(threads, index, READS["before a statement"], ended).result()
    assert ended == ["long"]


@pytest.mark.timeout(300)
def test_a_statement_of_a_long_read_pauses_while_it_runs(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_PAUSE_S", LONG_S)
    has_begun, may_go_on, ended = threading.Event(), threading.Event(), list[str]()

    def begin(number: int) -> int:
        has_begun.set()
        may_go_on.wait(LONG_S)
        return number

    def read(reader: Reader) -> None:
        reader.connection.create_scalar_function("begin", begin)
        reader.rows(f"SELECT begin(1), ({COUNT})")

    with ThreadPoolExecutor(1) as threads:
        reading = begin_long_read(threads, index, read, ended)
        has_begun.wait(LONG_S)
        with short_read():
            may_go_on.set()
            assert not wait([reading], timeout=0.5).done
            ended.append("short")
        reading.result()
    assert ended == ["short", "long"]


@pytest.mark.timeout(300)
def test_a_read_that_is_not_long_or_has_just_paused_does_not_wait(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> None:
        with index.pool.acquire(LONG_S) as reader:
            assert reader.rows("SELECT 1") == [(1,)]

    with short_read():
        CancellationToken().run(read)
        long = CancellationToken(is_long=True)
        long.run(read)  # for MAX_PAUSE_S
        monkeypatch.setattr(connection_module, "MAX_PAUSE_S", LONG_S)
        monkeypatch.setattr(Pauses, "may_begin", lambda *_: False)
        long.run(read)
