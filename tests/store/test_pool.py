from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.filters import NO_FILTERS
from memsyncd.errors import NotFresh, StoreCorrupt, StoreFailed
from memsyncd.store import pool as pool_module
from memsyncd.store.connection import VM_STEPS_BETWEEN_CHECKS, CancellationToken
from memsyncd.store.index import DropNote, Index, PutNote
from memsyncd.store.pool import MAX_IDLE, ConnectionPool, Reader
from memsyncd.store.search import find_candidates
from memsyncd.store.sections import read_sections
from memsyncd.store.texts import read_texts

Put = Callable[..., PutNote]


def test_a_reader_is_acquired_by_one_caller_at_a_time_and_reused(index: Index) -> None:
    with index.pool.acquire(5) as one, index.pool.acquire(5) as other:
        assert one is not other
    with index.pool.acquire(5) as again:
        assert again in (one, other)


VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=30))
def test_many_rows_are_the_rows_in_their_order(rows: list[tuple[object, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "any.db")
        apsw.Connection(path).execute("CREATE TABLE any(a)")
        values = ", ".join(["(?, ?)"] * len(rows))
        statement = f"SELECT * FROM (VALUES {values}) ORDER BY column2 DESC, column1 LIMIT 20"
        bound = tuple(value for row in rows for value in row)
        with ConnectionPool(path).acquire(30) as reader:
            assert reader.many_rows(2, statement, bound) == reader.rows(statement, bound)


def test_a_few_connections_at_most_stay_open(index: Index) -> None:
    acquired = [index.pool.acquire(5) for _ in range(MAX_IDLE + 3)]
    readers = [context.__enter__() for context in acquired]
    for context in acquired:
        context.__exit__(None, None, None)
    assert sum(is_open(reader) for reader in readers) == MAX_IDLE


def test_of_all_indexes_the_readers_that_were_used_last_keep_pages_and_values(
    open_index: Callable[..., Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MAX_FULL", 2)
    indexes = [open_index(f"{number}.db") for number in range(4)]
    readers = []
    for number in (0, 1, 0, 2, 3):
        with indexes[number].pool.acquire(5) as reader:
            reader.memo["n_files"] = reader.rows("SELECT count(*) FROM files")
            readers.append(reader)
    assert readers[0] is readers[2]
    used = apsw.SQLITE_DBSTATUS_CACHE_USED
    n_bytes = [reader.connection.status(used)[0] for reader in (readers[0], *readers[3:])]
    assert n_bytes[0] < min(n_bytes[1:])
    for number, reader in ((3, readers[4]), (0, readers[0]), (1, readers[1])):
        with indexes[number].pool.acquire(5) as again:
            assert again is reader
            assert ("n_files" in again.memo) == (number == 3)
            assert again.rows("SELECT count(*) FROM files") == [(0,)]


def test_a_reader_is_acquired_with_a_look_at_whether_the_file_is_in_its_place(
    index: Index, tmp_path: Path
) -> None:
    with index.pool.acquire(5):
        assert not index.pool.has_lost_file
    index.path.rename(tmp_path / "moved")
    with index.pool.acquire(5):
        assert index.pool.has_lost_file
    (tmp_path / "moved").rename(index.path)
    with index.pool.acquire(5):
        assert not index.pool.has_lost_file


def test_idle_connections_are_closed(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    with index.pool.acquire(5) as reader:
        pass
    index.pool.release_idle()
    assert is_open(reader)
    monkeypatch.setattr(pool_module, "IDLE_S", 0.0)
    with index.pool.acquire(5) as acquired:
        assert acquired is reader
        index.pool.release_idle()
        assert is_open(reader)
    index.pool.release_idle()
    assert not is_open(reader)
    with index.pool.acquire(5) as another:
        assert another.rows("SELECT 1") == [(1,)]


def test_the_readers_of_a_file_that_is_gone_are_shared(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "one")])
    with index.pool.acquire(5):
        pass
    index.path.unlink()

    def count() -> int:
        with index.pool.acquire(30) as reader:
            return int(reader.rows("SELECT count(*) FROM files")[0][0])

    with ThreadPoolExecutor(1) as pool:
        with index.pool.acquire(5) as reader:
            waiting = pool.submit(count)
            with pytest.raises(TimeoutError):
                waiting.result(0.1)
            assert reader.rows("SELECT count(*) FROM files") == [(1,)]
        assert waiting.result() == 1


def test_a_file_that_is_gone_can_be_read_while_idle_readers_free_their_pages(
    index: Index, put: Put
) -> None:
    index.apply([put("MEMORY.md", "one")])
    with index.pool.acquire(5):
        pass
    index.path.unlink()
    with ThreadPoolExecutor(1) as pool:
        tidying = pool.submit(lambda: [index.pool.release_idle() for _ in range(2000)])
        while not tidying.done():
            with index.pool.acquire(30) as reader:
                assert reader.rows("SELECT count(*) FROM files") == [(1,)]
        tidying.result()


def test_idle_connections_to_a_file_that_is_gone_stay_open(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    with index.pool.acquire(5):
        pass
    index.path.unlink()
    monkeypatch.setattr(pool_module, "IDLE_S", 0.0)
    index.pool.release_idle()
    with index.pool.acquire(5) as reader:
        assert reader.rows("SELECT count(*) FROM files") == [(0,)]


def test_a_file_that_was_gone_before_it_was_read_is_an_error(index: Index) -> None:
    index.path.unlink()
    for _ in range(2):
        with pytest.raises(StoreFailed, match="it is gone"), index.pool.acquire(5):
            pass


def test_idle_connections_keep_no_pages_and_no_texts(index: Index, put: Put) -> None:
    index.apply([put(f".memories/{number}.md", f"word {number}\n" * 50) for number in range(40)])
    with index.pool.acquire(5) as reader:
        assert read_texts(reader, [row[0] for row in reader.rows("SELECT id FROM chunks")])
        assert reader.memo["blocks"]

    def n_cached_bytes() -> int:
        return int(reader.connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0])

    before = n_cached_bytes()
    index.pool.release_idle()
    assert n_cached_bytes() < before / 2
    with index.pool.acquire(5) as again:
        assert again is reader
        assert not again.memo
        assert again.rows("SELECT count(*) FROM files") == [(40,)]


def test_closing_the_pool_waits_for_acquired_connections(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "one")])
    with index.pool.acquire(5) as idle:
        pass
    with index.pool.acquire(5) as acquired, index.pool.acquire(5) as other:
        index.pool.close()
        for reader in (acquired, other):
            assert reader.rows("SELECT count(*) FROM files") == [(1,)]
    assert not any(is_open(reader) for reader in (idle, acquired, other))


def test_a_search_in_steps_sees_one_generation_though_another_is_written_meanwhile(
    index: Index, put: Put
) -> None:
    index.apply([put("MEMORY.md", "# a\nredis")])
    with index.pool.acquire(5) as reader:
        candidates = find_candidates(reader, '"redis"', NO_FILTERS, limit=5)
        [candidate] = candidates.make_candidates()
        index.apply([DropNote("MEMORY.md")])
        assert read_sections(reader, [candidate.section])[candidate.section].anchor == "MEMORY.md#a"
        assert read_texts(reader, [candidate.chunk])[candidate.chunk] == "# a\nredis"
    with index.pool.acquire(5) as reader:
        assert not find_candidates(reader, '"redis"', NO_FILTERS, limit=5).rows


def test_a_released_reader_holds_no_snapshot(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "one")])
    with pytest.raises(StoreFailed), index.pool.acquire(5) as reader:
        assert reader.rows("SELECT count(*) FROM files") + reader.rows("not SQL")
    index.apply([put("MEMORY.md", "two")])
    while index.tidy():
        pass
    assert index.is_tidy


def test_a_reader_past_its_deadline_can_be_acquired_again(index: Index, put: Put) -> None:
    """SQLite counts the steps of a statement over all its runs.

    So sooner or later the clock is checked in the ROLLBACK.
    """
    for _ in range(1000):
        with index.pool.acquire(0):
            pass
    index.apply([put("MEMORY.md", "one")])
    with index.pool.acquire(5) as reader:
        assert reader.rows("SELECT count(*) FROM files") == [(1,)]


COUNTING = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 50000) SELECT count(*) FROM n"


def test_a_reader_past_its_deadline_works_with_a_new_deadline(index: Index) -> None:
    with index.pool.acquire(0) as reader:
        reader.allow(30)
        assert reader.rows(COUNTING) == [(50_000,)]
    with pytest.raises(NotFresh), index.pool.acquire(0) as reader:
        reader.rows(COUNTING)


def test_a_reader_stops_at_its_limit_of_processor_time(index: Index) -> None:
    with index.pool.acquire(30, cpu_s=30) as reader:
        assert reader.rows(COUNTING) == [(50_000,)]
    with index.pool.acquire(30, cpu_s=0) as reader:
        with pytest.raises(apsw.InterruptError):
            reader.rows(COUNTING)
        reader.allow(30)
        assert reader.rows(COUNTING) == [(50_000,)]


def test_work_on_streamed_rows_ends_soon_after_the_request_is_cancelled(
    index: Index, put: Put
) -> None:
    token, seen = CancellationToken(), []

    def read() -> None:
        with index.pool.acquire(30) as reader, reader.stream(NUMBERS) as rows:
            for (number,) in rows:
                seen.append(number)
                if number == 10:
                    token.cancel()

    with pytest.raises(NotFresh):
        token.run(read)
    assert 10 < len(seen) <= VM_STEPS_BETWEEN_CHECKS
    # The snapshot has ended with the stream.
    index.apply([put("MEMORY.md", "two")])
    while index.tidy():
        pass
    assert index.is_tidy


NUMBERS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 50000) SELECT x FROM n"


def test_a_reader_of_a_file_that_is_not_a_database_reports_damage(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    path.write_bytes(b"garbage" * 1000)
    with pytest.raises(StoreCorrupt), ConnectionPool(str(path)).acquire(5):
        pass


def test_many_threads_read_while_one_writes(index: Index, put: Put) -> None:
    index.apply(
        [put(f".memories/{number}.md", f"# note {number}\nredis {number}") for number in range(10)]
    )
    stop = threading.Event()

    def read() -> int:
        n_read = 0
        while not stop.is_set():
            with index.pool.acquire(30) as reader:
                candidates = find_candidates(reader, '"redis"', NO_FILTERS, limit=50)
                texts = read_texts(reader, [row[0] for row in candidates.rows])
                assert len(candidates.rows) == len(texts) == 10
            n_read += 1
        return n_read

    with ThreadPoolExecutor(4) as threads:
        reading = [threads.submit(read) for _ in range(4)]
        try:
            for turn in range(30):
                index.apply(
                    [
                        put(f".memories/{number}.md", f"# note {turn}\nredis {turn}")
                        for number in range(turn % 3, 10, 3)
                    ]
                )
        finally:
            stop.set()
        assert all(future.result() > 0 for future in reading)


def test_words_are_tokenized_as_in_the_index(index: Index) -> None:
    with index.pool.acquire(5) as reader:
        assert reader.tokenize("The Résumés, \ud800running") == [
            (0, 3, "the"),
            (4, 13, "resum"),
            (16, 23, "run"),
        ]


def is_open(reader: Reader) -> bool:
    try:
        reader.connection.execute("SELECT 1")
    except apsw.ConnectionClosedError:
        return False
    return True
