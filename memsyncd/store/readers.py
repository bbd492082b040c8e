"""Who reads an index while it is written? Read-only connections, lent one to a caller at a time.

Readers see the last committed transaction. Retiring the pool lets lent connections finish and closes each as it comes back.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from memsyncd.store.connections import deadline, naming_failures, open_reader, out_of_time, set_deadline
from memsyncd.store.patience import is_patience_over
from memsyncd.store.schema import TOKENIZER

KEPT_OPEN = 2
"""Connections that stay open between queries; more are opened when needed and closed after."""
UNUSED_S = 300.0
"""After so long without a query these are closed, too: opening one takes about a millisecond."""


class Reader:
    """One read-only connection, for one thread at a time. Making one raises the classes of `naming_failures`."""

    def __init__(self, path: str) -> None:
        self.connection = open_reader(path)
        self.used_s = 0.0
        name, *arguments = TOKENIZER.split()
        try:
            with naming_failures():
                # Asking for FTS5 reads the schema too, and what goes wrong with that is not told.
                self.connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
                self._tokenize = self.connection.fts5_tokenizer(name, arguments)
        except BaseException:
            self.connection.close()
            raise

    def rows(self, statement: str, bindings: tuple[Any, ...] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        """All rows at once: a cursor left half read would hold the WAL."""
        return self.connection.execute(statement, bindings).fetchall()

    def allow(self, seconds: float) -> None:
        """Give what runs from here on so many seconds, whatever the lender gave; until the reader goes back."""
        set_deadline(self.connection, seconds)

    def tokenize(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, word) of each word as the index knows it; start and end in bytes of the text's UTF-8."""
        data = text.encode("utf-8", "replace")
        found: Iterable[Any] = self._tokenize(
            data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=True, include_colocated=False
        )
        return [(start, end, word) for start, end, word in found]


class Readers:
    """Lends readers of one index. Safe to use from several threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._idle: list[Reader] = []
        self._is_closed = False

    @contextlib.contextmanager
    def lend(self, seconds: float) -> Iterator[Reader]:
        """A reader whose statements all see one committed transaction, and stop after `seconds` with NotFresh.

        So does the lending itself once the thread's patience is over. Other failures as in `naming_failures`.
        """
        if is_patience_over():
            raise out_of_time()
        reader = self._take()
        try:
            # The snapshot's end must lie outside the deadline: a ROLLBACK that is stopped holds the snapshot for ever.
            with naming_failures(), _one_snapshot(reader.connection), deadline(reader.connection, seconds):
                yield reader
        finally:
            self._give_back(reader)

    def _take(self) -> Reader:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        with self._opening:
            return Reader(self._path)

    @contextlib.contextmanager
    def holding_off(self) -> Iterator[None]:
        """Nobody opens the file meanwhile, for it is being replaced: both would share what SQLite then makes beside it."""
        with self._opening:
            yield

    def _give_back(self, reader: Reader) -> None:
        reader.used_s = time.monotonic()
        with self._lock:
            if not self._is_closed and len(self._idle) < KEPT_OPEN:
                self._idle.append(reader)
                return
        reader.connection.close()

    def close_unused(self) -> None:
        """Close what has been idle for long."""
        before_s = time.monotonic() - UNUSED_S
        with self._lock:
            unused = [reader for reader in self._idle if reader.used_s <= before_s]
            self._idle = [reader for reader in self._idle if reader.used_s > before_s]
        for reader in unused:
            reader.connection.close()

    def close(self) -> None:
        """Close what is idle now, and what is lent when it comes back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.connection.close()


@contextlib.contextmanager
def _one_snapshot(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
