"""Open SQLite files, run transactions, limit and pause reads, and translate SQLite's exceptions.

Each file has one writer and several read-only readers, all in WAL mode; none trusts the schema in
the file. This package translates SQLite's exceptions to the classes of `memsyncd.errors`: after
damage the file is rebuilt, after a full disk the caller waits.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from enum import Enum
from typing import TypeVar

import apsw

from memsyncd.core.turns import Pauses
from memsyncd.errors import NotFresh, StoreCorrupt, StoreFailed, StoreFull

# For two databases with their logs and shared memory, and some readers of each.
FILES_PER_WORKSPACE = 10
# For the socket, some clients, events, the log, indexing processes, and notes that are being read.
FILES_RESERVED = 34


def find_file_limit() -> int | None:
    """Return how many files may be open; None if there is no limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def check_room(n_workspaces: int) -> None:
    """Raise StoreFailed if a workspace besides these could not have its files open."""
    limit = find_file_limit()
    if limit is not None and FILES_RESERVED + FILES_PER_WORKSPACE * (n_workspaces + 1) > limit:
        raise _make_error(errno.EMFILE)


def find_shortage(failure: OSError | None = None) -> StoreFailed | None:
    """Return the error if too few descriptors were the reason for `failure`, else None.

    Without a failure, a descriptor is opened now to find out.
    """
    if failure is None:
        try:
            os.close(os.open("/", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            failure = error
    if failure is not None and failure.errno in (errno.EMFILE, errno.ENFILE):
        return _make_error(failure.errno)
    return None


def _make_error(code: int) -> StoreFailed:
    what = "too many open files"
    what += f" ({find_file_limit()})" if code == errno.EMFILE else " in all programs together"
    hint = (
        "restart memsyncd with a higher limit (in systemd: LimitNOFILE=), or remove workspaces:"
        " memsyncd remove NAME"
    )
    return StoreFailed(f"{what}: raise `ulimit -n`", hint=hint)


BUSY_MS = 5000
# When the whole WAL is in the file, it is cut to this size: twice its size between two checkpoints.
WAL_LIMIT_BYTES = 8 * 1024 * 1024
VALUE_LIMIT_BYTES = 16 * 1024 * 1024
# A millisecond, more for a statement with many words. Each check waits for the interpreter's lock.
VM_STEPS_BETWEEN_CHECKS = 10_000
READ_BYTES = 1024 * 1024
# A reader keeps so many pages until the next reconcile: four times SQLite's default. A question
# about 100,000 chunks then reads 86 pages again instead of 526, and takes nine tenths of the time.
READER_CACHE_KIB = 8_000
# The longest pause of a long read. A short read may take longer because its disk does not answer;
# then the long read does not wait for its end.
MAX_PAUSE_S = 0.02

_CORRUPT = (apsw.CorruptError, apsw.NotADBError)
_CORRUPT_WORDS = ("malformed", "no such table", "no such column", "vtable constructor failed")

ACCESS_HINT = (
    "make it and its folder readable and writable for you (memsyncd doctor names them); memsyncd"
    " tries again by itself"
)

T = TypeVar("T")


# --- cancellation -------------------------------------------------------------------------------


class CancellationToken:
    """Limits a request, which may query several indexes, by a deadline and by `cancel`.

    `seconds` count from the creation of the token, so they include the wait for a thread. The token
    limits everything that `run` does on its thread: a progress handler checks it while SQLite runs,
    and the pool checks it before it hands out a connection. With `is_long` the read pauses while
    short reads run (`short_read`).
    """

    __slots__ = ("_end_s", "_is_cancelled", "_pauses")

    def __init__(self, seconds: float = math.inf, *, is_long: bool = False) -> None:
        self._end_s = time.monotonic() + seconds
        self._is_cancelled = False
        self._pauses = Pauses() if is_long else None

    @property
    def is_cancelled(self) -> bool:
        """True once `cancel` was called or the deadline has passed."""
        return self._is_cancelled or time.monotonic() > self._end_s

    def cancel(self) -> None:
        """Stop the running query and prevent later ones. May be called on any thread."""
        self._is_cancelled = True

    def run(self, read: Callable[[], T]) -> T:
        """Return the result of `read`. When the token is cancelled, its queries raise NotFresh."""
        token = _current_token.set(self)
        try:
            return read()
        finally:
            _current_token.reset(token)

    @property
    def is_long(self) -> bool:
        return self._pauses is not None

    def pause(self) -> None:
        """Wait for the running short reads, if this read is long and has not paused just now."""
        began_s = time.monotonic()
        if self._pauses is not None and self._pauses.may_begin(began_s):
            _short_reads.wait(MAX_PAUSE_S)
            self._pauses.note(began_s, time.monotonic())


_current_token: ContextVar[CancellationToken | None] = ContextVar(
    "cancellation_token", default=None
)


def is_cancelled() -> bool:
    """True if the current thread runs under a token that is cancelled."""
    token = _current_token.get()
    return token is not None and token.is_cancelled


# --- precedence ---------------------------------------------------------------------------------
# The threads of a process share the interpreter's lock. A search gives the lock away at each of its
# statements, and gets it back when the other thread's turn is over. So beside a long search a short
# search takes more than twice as long as alone.


class _ShortReads:
    """Counts the running short reads of all threads."""

    def __init__(self) -> None:
        self.n_running = 0
        self._ended = threading.Condition()

    def begin(self) -> None:
        with self._ended:
            self.n_running += 1

    def end(self) -> None:
        with self._ended:
            self.n_running -= 1
            if not self.n_running:
                self._ended.notify_all()

    def wait(self, seconds: float) -> None:
        with self._ended:
            self._ended.wait_for(lambda: not self.n_running, seconds)


_short_reads = _ShortReads()


@contextlib.contextmanager
def short_read() -> Iterator[None]:
    """Make long reads pause during the block, at their next statement or within a statement."""
    _short_reads.begin()
    try:
        yield
    finally:
        _short_reads.end()


def is_short_read() -> bool:
    """True if the current thread runs under a token whose read is not long."""
    token = _current_token.get()
    return token is not None and not token.is_long


def pause_if_long() -> None:
    """Pause while short reads run, if the token of this thread is of a long read."""
    if _short_reads.n_running and (token := _current_token.get()) is not None:
        token.pause()


def pause_or_end() -> None:
    """As `pause_if_long`, for work between statements. Raises NotFresh if nobody waits for it."""
    pause_if_long()
    if is_cancelled():
        raise make_timeout_error()


# --- errors -------------------------------------------------------------------------------------


def sqlite_version() -> str:
    """Return the version of the SQLite in apsw."""
    return apsw.sqlite_lib_version()


@contextlib.contextmanager
def translating_errors() -> Iterator[None]:
    """Translate apsw's exceptions to StoreCorrupt, StoreFull, NotFresh and StoreFailed.

    NotFresh means that the query was interrupted.
    """
    try:
        yield
    except apsw.Error as error:
        raise translate_error(error) from error


def translate_error(error: apsw.Error) -> StoreFailed | NotFresh:
    """Return the exception of `memsyncd.errors` for an exception of apsw."""
    text = str(error)
    if isinstance(error, apsw.InterruptError):
        return make_timeout_error()
    # If the shared memory of a WAL cannot grow, the only reason is a full disk.
    is_without_room = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
    if isinstance(error, apsw.FullError) or is_without_room:
        return StoreFull("the disk is full", hint="free some space; memsyncd continues by itself")
    if isinstance(error, _CORRUPT) or any(word in text for word in _CORRUPT_WORDS):
        return StoreCorrupt(
            f"the database is damaged: {text}", hint="memsyncd rebuilds it by itself"
        )
    if isinstance(error, apsw.CantOpenError):
        if (shortage := find_shortage()) is not None:
            return shortage
        return StoreFailed(
            "the database cannot be opened: it is gone, or may not be read",
            hint=ACCESS_HINT,
        )
    if isinstance(error, apsw.ReadOnlyError):
        return StoreFailed("the database may not be written", hint=ACCESS_HINT)
    return StoreFailed(
        f"SQLite failed: {type(error).__name__}: {text}", hint="run: memsyncd doctor"
    )


def make_timeout_error() -> NotFresh:
    """Return the exception for a query that was stopped."""
    return NotFresh(
        "the query took too long and was stopped",
        hint="use fewer or rarer words, or a longer timeout_ms",
    )


# --- opening ------------------------------------------------------------------------------------


class Durability(Enum):
    """How much a power failure may lose: the last commits of a rebuildable file, or nothing."""

    REBUILDABLE = "NORMAL"
    LASTING = "FULL"


def open_writer(path: str, durability: Durability) -> apsw.Connection:
    """Open the one connection that may write `path`; create the file if it is missing.

    Raises the classes of `translating_errors`.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with _opening(path, flags) as connection:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", durability.value)
        connection.pragma("journal_size_limit", WAL_LIMIT_BYTES)
        connection.pragma("secure_delete", True)
        connection.pragma("foreign_keys", True)
        connection.transaction_mode = "IMMEDIATE"
    return connection


def open_reader(path: str) -> apsw.Connection:
    """Open a connection that cannot write. Raises the classes of `translating_errors`.

    Only one thread at a time may use it, because it has no mutex of SQLite: apsw would take that
    for each row once more. Without it, statements with many rows take a seventh less time.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOMUTEX
    with _opening(path, flags) as connection:
        connection.pragma("query_only", True)
        connection.pragma("cache_size", -READER_CACHE_KIB)
    return connection


def check_readable(path: str) -> None:
    """Read a closed file to its end. Raise StoreFailed if the disk cannot read it.

    When the disk cannot read a page, SQLite reports damage, although the file may be sound.
    """
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    with translating_errors():
        file = apsw.VFSFile("", path, [flags, 0])
        try:
            size = file.xFileSize()
            for offset in range(0, size, READ_BYTES):
                file.xRead(min(READ_BYTES, size - offset), offset)
        finally:
            file.xClose()


@contextlib.contextmanager
def _opening(path: str, flags: int) -> Iterator[apsw.Connection]:
    """Yield a connection; close it if the block fails, so that a damaged file can be moved."""
    with translating_errors():
        connection = apsw.Connection(path, flags=flags)
        try:
            _prepare(connection)
            yield connection
        except BaseException:
            connection.close()
            raise


def _prepare(connection: apsw.Connection) -> None:
    # The timeout is set first, because the pragmas below may have to wait for another connection.
    connection.set_busy_timeout(BUSY_MS)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    connection.pragma("trusted_schema", False)
    connection.pragma("cell_size_check", True)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_LIMIT_BYTES)


# --- using --------------------------------------------------------------------------------------


def truncate_wal(connection: apsw.Connection) -> bool:
    """Checkpoint the whole WAL and truncate it.

    Returns False at once if a reader prevents it.
    """
    connection.set_busy_timeout(0)
    try:
        return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
    finally:
        connection.set_busy_timeout(BUSY_MS)


class WalPages:
    """Counts the pages in a writer's WAL, and copies them to the file when the owner says so.

    A checkpoint waits for the disk, and SQLite itself would begin one within any commit.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._n_pages = 0
        # This replaces SQLite's own hook, which would checkpoint.
        connection.set_wal_hook(self._count)

    def checkpoint(self, n_pages: int) -> None:
        """Copy the pages to the file if there are at least `n_pages`.

        Pages that readers still need stay in the WAL.
        """
        if self._n_pages >= n_pages:
            self._n_pages = 0
            # A failure loses nothing; the next commit or the truncation of the WAL reports it.
            with contextlib.suppress(apsw.Error):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _count(self, _connection: apsw.Connection, _schema: str, n_pages: int) -> int:
        self._n_pages = n_pages
        return apsw.SQLITE_OK


def release_memory(connection: apsw.Connection) -> None:
    """Free the cached pages. The operating system still caches most of them."""
    connection.pragma("shrink_memory")


def set_deadline(connection: apsw.Connection, seconds: float, cpu_s: float = math.inf) -> None:
    """Limit the connection's statements; statements of a long read also pause.

    They are interrupted after `seconds`, after `cpu_s` of this thread's processor time, or when the
    thread's token is cancelled.
    """
    began_s, cpu_end_s = time.monotonic(), time.thread_time() + cpu_s
    end_s, least_s = began_s + seconds, began_s + cpu_s

    def is_over() -> bool:
        now_s = time.monotonic()
        # Reading the processor time takes a system call, and it never exceeds the elapsed time.
        is_spent = now_s > least_s and time.thread_time() > cpu_end_s
        return is_spent or now_s > end_s or is_cancelled()

    def is_late() -> bool:
        pause_if_long()
        return time.monotonic() > end_s or is_cancelled()

    check = is_late if cpu_s == math.inf else is_over
    connection.set_progress_handler(check, VM_STEPS_BETWEEN_CHECKS)


@contextlib.contextmanager
def deadline(
    connection: apsw.Connection, seconds: float, cpu_s: float = math.inf
) -> Iterator[None]:
    """Apply `set_deadline` to the block. A statement that is interrupted raises NotFresh."""
    set_deadline(connection, seconds, cpu_s)
    try:
        with translating_errors():
            yield
    finally:
        connection.set_progress_handler(None)


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Run the block in a transaction: BEGIN IMMEDIATE, then COMMIT.

    After an error it rolls back and raises the translated error. Transactions are not nested,
    because FTS5 flushes at every savepoint.
    """
    with translating_errors():
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
