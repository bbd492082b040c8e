"""An endless statement ends when its time is over or when nobody waits for it; what comes after it
on that thread is not hurt."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from memsyncd.errors import NotFresh
from memsyncd.store.connection import CancellationToken, is_cancelled
from memsyncd.store.index import Index
from memsyncd.store.pool import Reader

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
LONG_S = 600.0


@pytest.mark.timeout(60)
def test_a_running_statement_ends_when_its_token_is_cancelled(index: Index) -> None:
    patience, has_begun = CancellationToken(), threading.Event()

    def read() -> None:
        with index.pool.acquire(LONG_S) as reader:
            has_begun.set()
            reader.rows(ENDLESS)

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(patience.run, read)
        has_begun.wait()
        patience.cancel()
        assert isinstance(reading.exception(), NotFresh)
        assert threads.submit(is_cancelled).result() is False


@pytest.mark.timeout(60)
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

    patience = CancellationToken()
    patience.cancel()
    with pytest.raises(NotFresh):
        patience.run(read)
    with index.pool.acquire(LONG_S) as reader:
        assert reader.rows("SELECT 1") == [(1,)]
