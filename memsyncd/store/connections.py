"""How is a SQLite file opened, and what do SQLite's failures mean?

One writer and some read-only readers a file, all WAL, none trusting the file's own schema. SQLite's exceptions leave this room
as the classes of `memsyncd.errors`: damage asks for a rebuild, a full disk only for patience.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from enum import Enum

import apsw

from memsyncd.errors import NotFresh, StoreCorrupt, StoreFailed, StoreFull
from memsyncd.store.patience import is_patience_over

SQLITE_NEEDED = (3, 51, 3)
"""Older ones can corrupt a WAL database when two connections write and checkpoint at once."""
BUSY_MS = 5000
READ_BUSY_MS = 250
"""In WAL mode only another program's exclusive lock keeps a reader waiting, and the event loop with it."""
LOG_LIMIT_BYTES = 8 * 1024 * 1024
"""What a WAL keeps of its size once all of it is in the file: twice what it has between two checkpoints."""
VALUE_LIMIT_BYTES = 16 * 1024 * 1024
VM_STEPS_BETWEEN_LOOKS = 1000
READ_BYTES = 1024 * 1024

_CORRUPT = (apsw.CorruptError, apsw.NotADBError)
_CORRUPT_WORDS = ("malformed", "no such table", "no such column", "vtable constructor failed")


class Durability(Enum):
    """What a power failure may take: the last commits of what can be rebuilt, nothing of what cannot."""

    REBUILDABLE = "NORMAL"
    LASTING = "FULL"


def check_sqlite(version: str | None = None) -> str:
    """Return SQLite's version, or raise StoreFailed if it is older than memsyncd can trust with a WAL database."""
    version = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")[:3]) < SQLITE_NEEDED:
        needed = ".".join(map(str, SQLITE_NEEDED))
        raise StoreFailed(f"SQLite {version} is too old: {needed} or newer is needed", hint="run: pip install --upgrade apsw")
    return version


@contextlib.contextmanager
def naming_failures() -> Iterator[None]:
    """Turn what apsw raises inside into StoreCorrupt, StoreFull, NotFresh (interrupted) or StoreFailed."""
    try:
        yield
    except apsw.Error as failure:
        raise name_failure(failure) from failure


def name_failure(failure: apsw.Error) -> StoreFailed | NotFresh:
    """The class of `memsyncd.errors` that a failure of SQLite stands for."""
    text = str(failure)
    if isinstance(failure, apsw.InterruptError):
        return out_of_time()
    # What connections share of a WAL can only fail to grow for want of space.
    is_without_room = getattr(failure, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
    if isinstance(failure, apsw.FullError) or is_without_room:
        return StoreFull("the disk is full", hint="free some space; memsyncd goes on by itself")
    if isinstance(failure, _CORRUPT) or any(word in text for word in _CORRUPT_WORDS):
        return StoreCorrupt(f"the database is damaged: {text}", hint="memsyncd rebuilds it by itself")
    if isinstance(failure, apsw.CantOpenError):
        return StoreFailed("the database cannot be opened: it is gone, or may not be read", hint="see: memsyncd status")
    return StoreFailed(f"SQLite failed: {type(failure).__name__}: {text}", hint="run: memsyncd status")


def out_of_time() -> NotFresh:
    """What is said of a reading that was stopped."""
    return NotFresh("the query took too long and was stopped", hint="use fewer or rarer words, or a longer timeout_ms")


def open_writer(path: str, durability: Durability) -> apsw.Connection:
    """The one connection that may write `path`; makes the file if there is none. Raises the classes of `naming_failures`."""
    with _opening(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) as connection:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", durability.value)
        connection.pragma("journal_size_limit", LOG_LIMIT_BYTES)
        connection.pragma("secure_delete", True)
        connection.pragma("foreign_keys", True)
        connection.transaction_mode = "IMMEDIATE"
    return connection


def open_reader(path: str) -> apsw.Connection:
    """A connection that cannot write. Raises the classes of `naming_failures`."""
    with _opening(path, apsw.SQLITE_OPEN_READONLY) as connection:
        connection.pragma("query_only", True)
    return connection


def check_readable(path: str) -> None:
    """Read a file, which nobody may have open, to its end. Raises StoreFailed if the disk does not give it out.

    SQLite calls it damage when the disk cannot read, though the file may be sound.
    """
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    with naming_failures():
        file = apsw.VFSFile("", path, [flags, 0])
        try:
            size = file.xFileSize()
            for offset in range(0, size, READ_BYTES):
                file.xRead(min(READ_BYTES, size - offset), offset)
        finally:
            file.xClose()


@contextlib.contextmanager
def _opening(path: str, flags: int) -> Iterator[apsw.Connection]:
    """A connection that is closed again if what is done inside fails: a damaged file may then be moved away."""
    with naming_failures():
        connection = apsw.Connection(path, flags=flags)
        try:
            _prepare(connection)
            yield connection
        except BaseException:
            connection.close()
            raise


def _prepare(connection: apsw.Connection) -> None:
    # The timeout comes first: even the pragmas below can meet another connection's lock.
    connection.set_busy_timeout(BUSY_MS)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    connection.pragma("trusted_schema", False)
    connection.pragma("cell_size_check", True)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_LIMIT_BYTES)


def empty_log(connection: apsw.Connection) -> bool:
    """Put all of the WAL into the file and cut it to nothing. False if somebody who reads keeps it: nobody waits for that."""
    connection.set_busy_timeout(0)
    try:
        return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
    finally:
        connection.set_busy_timeout(BUSY_MS)


def release_memory(connection: apsw.Connection) -> None:
    """Let go of the pages that were read: whoever needs them again finds most of them with the operating system."""
    connection.pragma("shrink_memory")


def set_deadline(connection: apsw.Connection, seconds: float) -> None:
    """Let what runs from here on be stopped after `seconds`, or once the thread's patience is over."""
    end_s = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end_s or is_patience_over(), VM_STEPS_BETWEEN_LOOKS)


@contextlib.contextmanager
def deadline(connection: apsw.Connection, seconds: float) -> Iterator[None]:
    """As `set_deadline`, for what runs inside; what was stopped raises NotFresh."""
    set_deadline(connection, seconds)
    try:
        with naming_failures():
            yield
    finally:
        connection.set_progress_handler(None)


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT, or ROLLBACK and the named failure. Not nested: FTS5 flushes at every savepoint."""
    with naming_failures():
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
