"""Pool the read-only connections to one index, so that queries run while the writer writes.

A reader sees the last committed transaction. When the pool is closed, acquired connections may
finish; each is closed when it is released.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

import apsw
import msgspec

from memsyncd.core.paths import MEMORY_FOLDER
from memsyncd.core.search.filters import is_passing
from memsyncd.core.search.words import fold
from memsyncd.store.connection import (
    deadline,
    is_cancelled,
    is_short_read,
    make_timeout_error,
    open_reader,
    pause_if_long,
    release_memory,
    set_deadline,
    short_read,
    translating_errors,
)
from memsyncd.store.schema import TOKENIZER

# So many connections stay open between queries; more are opened when needed and closed afterwards.
MAX_IDLE = 2
# So many connections of all indexes together keep pages and values between queries.
MAX_FULL = 32
# Idle connections are closed after this time: opening a connection takes about a millisecond.
IDLE_S = 300.0
# A reader remembers so many values of a sort until the next commit: some hundred kilobytes.
MEMO_LIMIT = 1_000
# So many bytes, about, of texts and other values that hits show: two thousand hits.
KEPT_BYTES = 8 * 1024 * 1024
# About what the key and the place of such a value take.
ENTRY_BYTES = 300
# The SQL function for `is_passing`: true if a value meets a comparison with another value.
META_FUNCTION = "passes_meta"

_encode = msgspec.json.Encoder().encode
_decode_rows = msgspec.json.Decoder(list[tuple[Any, ...]]).decode
# FTS5 can score a match only in a statement of its own.
_AS_TEXT = (
    "WITH each({names}) AS (SELECT * FROM ({statement}) LIMIT -1)"
    " SELECT json_group_array(json_array({names})) FROM each"
)

T = TypeVar("T")


def encode_numbers(numbers: Iterable[int] | Iterable[tuple[int, int]]) -> str:
    """Return numbers, or pairs of numbers, as a text for `json_each`."""
    return _encode([*numbers]).decode()  # a tenth of the time of `json`


class Reader:
    """A read-only connection. Only one thread at a time may use it.

    Its creation raises the classes of `translating_errors`.
    """

    def __init__(self, path: str) -> None:
        self.connection = open_reader(path)
        passes: Any = is_passing
        self.connection.create_scalar_function(META_FUNCTION, passes, 3, deterministic=True)
        self.used_s = 0.0
        # Filters replace absolute paths and `/memories` by these: the root, and the memory folder
        # from the root (empty for the root itself).
        self.root = ""
        self.memory_folder = MEMORY_FOLDER
        self._memo: dict[Any, Any] = {}
        self._memo_version = 0
        self._has_snapshot = self._is_memo_checked = False
        name, *arguments = TOKENIZER.split()
        try:
            with translating_errors():
                # fts5_tokenizer reads the schema too, but hides the error if that fails.
                self.connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
                self._tokenize = self.connection.fts5_tokenizer(name, arguments)
                self.connection.register_fts5_function("held_phrases", _mark_held)
        except BaseException:
            self.connection.close()
            raise

    def rows(
        self, statement: str, bindings: tuple[Any, ...] | dict[str, Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Return all rows. A cursor that is read only in part would pin the WAL."""
        pause_if_long()
        return self.connection.execute(statement, bindings).fetchall()

    def many_rows(
        self,
        n_columns: int,
        statement: str,
        bindings: tuple[Any, ...] | dict[str, Any] = (),
    ) -> list[tuple[Any, ...]]:
        """Return all rows, as `rows`, of a statement that may have many rows of `n_columns`
        numbers, short texts and NULL. SQLite makes one text of them.

        This thread gives the interpreter's lock away whenever SQLite looks for the next row, and
        beside a thread that computes it gets the lock back after the switch interval only. Row by
        row, a search of 4,300 rows takes 25 times as long beside such a thread as alone.
        """
        names = ", ".join([f"c{number}" for number in range(n_columns)])
        as_text = _AS_TEXT.format(names=names, statement=statement)
        [(text,)] = self.rows(as_text, bindings)
        return _decode_rows(text)

    @contextlib.contextmanager
    def stream(
        self, statement: str, bindings: tuple[Any, ...] | dict[str, Any] = ()
    ) -> Iterator[Iterator[tuple[Any, ...]]]:
        """Yield an iterator over the rows, in the order in which SQLite finds them.

        It is for results that would take much memory together, such as all sections of a workspace.
        The deadline also limits the work of the caller between the rows.
        """
        cursor = self.connection.execute(statement, bindings)
        try:
            yield cursor
        finally:
            cursor.close(force=True)

    @property
    def memo(self) -> dict[Any, Any]:
        """Small values that were computed from this snapshot, by any key. A commit empties it."""
        if not self._is_memo_checked:
            version = self.connection.execute("PRAGMA data_version").get
            if version != self._memo_version:
                self._memo = {}
                self._memo_version = version
            self._is_memo_checked = self._has_snapshot
        return self._memo

    def keep(
        self,
        sort: object,
        numbers: Collection[int],
        read: Callable[[list[int]], Mapping[int, T]],
        n_bytes: Callable[[T], int],
    ) -> dict[int, T]:
        """Return a value for each of these numbers that has one, such as a row's id; `read` returns
        the values that are not kept from an earlier call with the same sort.

        Values of this snapshot are kept up to KEPT_BYTES, by the estimate `n_bytes`.
        """
        kept = self.memo.get("kept")
        if kept is None:
            kept = self.memo["kept"] = _KeptValues()
        return kept.find(sort, numbers, read, n_bytes)

    def remember(
        self,
        sort: str,
        numbers: Collection[int],
        read: Callable[[Collection[int]], Mapping[int, T]],
        most: int = MEMO_LIMIT,
    ) -> Mapping[int, T]:
        """Return at least the values of these numbers, as `keep`, for values of some bytes. About
        `most` values are remembered.
        """
        remembered: dict[int, T] = self.memo.setdefault(sort, {})
        missing: Collection[int] = [number for number in numbers if number not in remembered]
        if missing:
            if len(remembered) > most:
                # A caller may still use the values of an earlier call.
                remembered = self.memo[sort] = {}
                missing = numbers
            remembered.update(read(missing))
        return remembered

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all statements of the block see the same committed transaction."""
        self.connection.execute("BEGIN")
        self._has_snapshot = True
        try:
            yield
        finally:
            self._has_snapshot = self._is_memo_checked = False
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def release_memory(self) -> None:
        """Free the cached pages and the values that are remembered."""
        self._memo = {}
        release_memory(self.connection)

    def allow(self, seconds: float) -> None:
        """Replace the limits that `acquire` has set by a new deadline, until the release."""
        set_deadline(self.connection, seconds)

    def tokenize(self, text: str) -> list[tuple[int, int, str]]:
        """Return (start, end, word) for each word of a folded text, as FTS5 indexes it.

        Start and end count bytes of the text's UTF-8.
        """
        return cast("list[tuple[int, int, str]]", self._split(text, include_offsets=True))

    def split(self, text: str) -> list[str]:
        """Return each word of any text as FTS5 indexes it: faster than `tokenize`."""
        text = text if text.isascii() else fold(text)
        return cast("list[str]", self._split(text, include_offsets=False))

    def split_all(self, texts: Iterable[str]) -> list[list[str]]:
        """Return the words of each text, as `split` does."""
        return [self.split(text) if text else [] for text in texts]

    def tokenize_all(self, texts: Iterable[str]) -> list[list[tuple[int, int, str]]]:
        """Return the words of each folded text with their places, as `tokenize` does."""
        return [self.tokenize(text) for text in texts]

    def _split(self, text: str, *, include_offsets: bool) -> Any:
        pause_if_long()
        return self._tokenize(
            text.encode("utf-8", "replace"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=include_offsets,
            include_colocated=False,
        )


class _KeptValues:
    """Values by sort and number. The value that was used longest ago goes first."""

    def __init__(self) -> None:
        self._values: dict[tuple[object, int], tuple[Any, int]] = {}
        self._n_bytes = 0

    def find(
        self,
        sort: object,
        numbers: Collection[int],
        read: Callable[[list[int]], Mapping[int, T]],
        n_bytes: Callable[[T], int],
    ) -> dict[int, T]:
        values = self._values
        found: dict[int, T] = {}
        missing = []
        for number in numbers:
            key = sort, number
            if key in values:
                entry = values[key] = values.pop(key)
                found[number] = entry[0]
            else:
                missing.append(number)
        if missing:
            for number, value in read(missing).items():
                found[number] = value
                size = n_bytes(value)
                values[sort, number] = value, size
                self._n_bytes += size
            while self._n_bytes > KEPT_BYTES:
                _, size = values.pop(next(iter(values)))
                self._n_bytes -= size
        return found


def _mark_held(row: apsw.FTS5ExtensionApi, *_: Any) -> int:
    """Return 64 bits: bit N is set if this row contains phrase N of a MATCH expression."""
    find_columns, bits = row.phrase_columns, 0
    for at in range(row.phrase_count):
        if find_columns(at):
            bits |= 1 << at
    return bits - (bits >> 63 << 64)  # the highest bit of an integer in SQLite is its sign


class _FullReaders:
    """The idle readers of all pools that keep pages and values. The first was used longest ago."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[Reader, ConnectionPool] = {}

    def add(self, reader: Reader, pool: ConnectionPool) -> None:
        """Add a reader that was used; empty the readers above MAX_FULL."""
        with self._lock:
            self._pools.pop(reader, None)
            self._pools[reader] = pool
            surplus = [*self._pools.items()][:-MAX_FULL]
            for each, _ in surplus:
                del self._pools[each]
        for each, of_pool in surplus:
            of_pool.empty_idle(each)

    def remove(self, readers: Iterable[Reader]) -> None:
        with self._lock:
            for reader in readers:
                self._pools.pop(reader, None)


_full_readers = _FullReaders()


class ConnectionPool:
    """The readers of an index. Several threads may use it."""

    def __init__(self, path: str, is_in_place: Callable[[], bool] = lambda: True) -> None:
        """`is_in_place` is true while the path names the file that the readers have open."""
        self._path = path
        self._is_in_place = is_in_place
        self.has_lost_file = False
        """True if the file was not in its place at the last `acquire`."""
        # It is notified when a reader is put back or closed.
        self._lock = threading.Condition()
        self._opening = threading.Lock()
        self._idle: list[Reader] = []
        self._n_used = 0
        self._is_closed = False

    @contextlib.contextmanager
    def acquire(self, seconds: float, cpu_s: float = math.inf) -> Iterator[Reader]:
        """Yield a reader whose statements all see the same snapshot.

        Its statements raise NotFresh after `seconds`, or after `cpu_s` of this thread's processor
        time. If `cpu_s` is limited, or the thread's token is of a short read, long reads pause
        until the reader is released. Raises NotFresh at once if the token is cancelled; otherwise
        the classes of `translating_errors`.
        """
        if is_cancelled():
            raise make_timeout_error()
        self.has_lost_file = not self._is_in_place()
        reader = self._take(seconds)
        is_short = cpu_s < math.inf or is_short_read()
        try:
            # The snapshot must end outside the deadline: an interrupted ROLLBACK would keep it for
            # ever.
            with (
                short_read() if is_short else contextlib.nullcontext(),
                translating_errors(),
                reader.snapshot(),
                deadline(reader.connection, seconds, cpu_s),
            ):
                yield reader
        finally:
            self._release(reader)

    @contextlib.contextmanager
    def pausing_opens(self) -> Iterator[None]:
        """Open no connection during the block, which replaces the file.

        Otherwise a connection to the old file and another to the new file would share a WAL.
        """
        with self._opening:
            yield

    def open_apart(self) -> apsw.Connection:
        """Open a connection that does not belong to the pool, for a check. The caller closes it."""
        with self._opening:
            connection = open_reader(self._path)
            try:
                with translating_errors():
                    # This opens the WAL as well, before the file can be replaced.
                    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            except BaseException:
                connection.close()
                raise
        return connection

    def release_idle(self) -> None:
        """Close the connections that were idle for IDLE_S, and free the pages of all others.

        If the file is not in its place, its connections stay: no others can be opened.
        """
        with self._lock:
            idle, self._idle = self._idle, []
            self._n_used += len(idle)
        _full_readers.remove(idle)
        before_s = time.monotonic() - IDLE_S if self._is_in_place() else -math.inf
        for reader in idle:
            reader.release_memory()
            self._put_back(reader, is_needed=reader.used_s > before_s)

    def close(self) -> None:
        """Close idle connections now, and acquired connections when they are released."""
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()
            idle, self._idle = self._idle, []
        _full_readers.remove(idle)
        for reader in idle:
            reader.connection.close()

    def empty_idle(self, reader: Reader) -> None:
        """Free the memory of a reader if it is idle."""
        with self._lock:
            if reader not in self._idle:
                return
            self._idle.remove(reader)
            self._n_used += 1
        reader.release_memory()
        self._put_back(reader)

    def _take(self, seconds: float) -> Reader:
        with self._lock:
            if self.has_lost_file:
                # The path leads to no file or to another file: wait for a reader that is open.
                self._lock.wait_for(
                    lambda: self._idle or not self._n_used or self._is_closed, seconds
                )
            self._n_used += 1
            reader = self._idle.pop() if self._idle else None
        if reader is not None:
            _full_readers.remove([reader])
            return reader
        try:
            with self._opening:
                return Reader(self._path)
        except BaseException:
            with self._lock:
                self._n_used -= 1
                self._lock.notify_all()
            raise

    def _release(self, reader: Reader) -> None:
        reader.used_s = time.monotonic()
        _full_readers.add(reader, self)
        self._put_back(reader)

    def _put_back(self, reader: Reader, *, is_needed: bool = True) -> None:
        with self._lock:
            self._n_used -= 1
            self._lock.notify_all()
            if is_needed and not self._is_closed and len(self._idle) < MAX_IDLE:
                self._idle.append(reader)
                return
        _full_readers.remove([reader])
        reader.connection.close()
