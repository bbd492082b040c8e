"""Remember how a database was closed and when its parts were checked, and check one part.

SQLite's full check reads the whole file, and FTS5 tokenizes every text again, so it does not belong
before the first answer. It runs part by part in idle time instead: the pages of the file, then each
FTS5 table. A file beside the database, `index.db-check`, is written when the database is closed and
deleted when it is opened, so it is missing after an unclean exit.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path

import apsw
import msgspec

from memsyncd.store.connection import translating_errors

SUFFIX = "-check"
PAGES = "pages"
# A part is checked again after this time.
CHECK_INTERVAL_S = 24 * 3600.0
# Pages, or steps of SQLite's virtual machine, between two calls of `is_cancelled`.
STEPS_BETWEEN_CALLS = 1000
# Not fts5vocab, which stores nothing.
_FTS_TABLES = "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%USING fts5(%'"


class Ending(Enum):
    """How a database was used last, as far as it can be told before it is opened."""

    CLEAN = "clean"
    """It was closed, and nothing has written to the file since."""
    UNCLEAN = "unclean"
    """It was not closed, or it is new."""
    # SQLite's WAL makes the end of a process, at any moment, harmless: the next connection reads
    # the commits that are whole. So does it for a power failure if the disk keeps its promise to
    # have written what was synced.
    DOUBTFUL = "doubtful"
    """Another program wrote to it since it was closed, or it was closed with known damage."""


class _FileVersion(msgspec.Struct, frozen=True):
    """What a write changes. Without the device, whose number may differ after a restart."""

    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int


class _Check(msgspec.Struct, frozen=True):
    """When a part was found to be sound, and the file as it was then."""

    at_s: float
    file: _FileVersion | None


class _Saved(msgspec.Struct, frozen=True):
    """The content of the file beside the database. Without `closed`, the database is doubtful."""

    closed: _FileVersion | None = None
    checks: dict[str, _Check] = {}


class CheckState:
    """The checks of one open database. Create it before SQLite opens the file.

    `note_checked` may be called from any thread.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved_path = Path(f"{path}{SUFFIX}")
        self._checks: dict[str, _Check] = {}
        self._is_doubtful = self._is_closed = False
        self.parts: tuple[str, ...] = ()
        self.ending = self._read()
        forget_checks(path)

    def _read(self) -> Ending:
        try:
            saved = msgspec.json.decode(self._saved_path.read_bytes(), type=_Saved)
        except (OSError, msgspec.DecodeError):
            return Ending.UNCLEAN
        version = _stat_version(self._path)
        if saved.closed is None or saved.closed != version:
            return Ending.DOUBTFUL
        if measure_file(f"{self._path}-wal"):
            return Ending.UNCLEAN
        # Whatever wrote to the file after a check, this program or another, may have damaged it.
        self._checks = {part: one for part, one in saved.checks.items() if one.file == version}
        return Ending.CLEAN

    def find_parts(self, connection: apsw.Connection) -> None:
        """Read which parts together make a full check: the pages, and each FTS5 table."""
        with translating_errors():
            self.parts = (PAGES, *(str(row[0]) for row in connection.execute(_FTS_TABLES)))

    def due(self) -> list[str]:
        """Return the parts that were not checked for CHECK_INTERVAL_S, or, by this run, at all.

        A check of an earlier run counts if nothing was written to the file after it.
        """
        now_s = time.time()
        return [part for part in self.parts if self._is_due(part, now_s)]

    def _is_due(self, part: str, now_s: float) -> bool:
        check = self._checks.get(part)
        # The clock may have been set back since.
        return check is None or not 0 <= now_s - check.at_s < CHECK_INTERVAL_S

    def note_checked(self, *parts: str) -> None:
        """Remember that these parts, by default all, are sound."""
        check = _Check(time.time(), _stat_version(self._path))
        self._checks |= dict.fromkeys(parts or self.parts, check)

    def note_damage(self) -> None:
        """Have the database checked before its next use."""
        self._is_doubtful = True
        self._save(_Saved())

    def save_closed(self) -> None:
        """Remember that the database was closed, once. Call it after that."""
        if not self._is_doubtful and not self._is_closed:
            self._save(_Saved(_stat_version(self._path), dict(self._checks)))
        self._is_closed = True

    def _save(self, saved: _Saved) -> None:
        # Not synced: a file that is lost, old or torn after a power failure only causes a check.
        new = self._saved_path.with_name(f"{self._saved_path.name}.new")
        with contextlib.suppress(OSError):
            new.write_bytes(msgspec.json.encode(saved))
            new.replace(self._saved_path)


def forget_checks(path: Path) -> None:
    """Delete what is saved of a database that was moved or replaced."""
    # A file that cannot be deleted does no harm: the next write to the database outdates it.
    with contextlib.suppress(OSError):
        Path(f"{path}{SUFFIX}").unlink()


def _stat_version(path: Path) -> _FileVersion | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return _FileVersion(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def measure_file(path: str) -> int:
    """Return the size of a file; 0 if it is missing or cannot be examined."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


# --- checking -----------------------------------------------------------------------------------


def check_part(connection: apsw.Connection, part: str, *, is_cancelled: Callable[[], bool]) -> str:
    """Return the first finding in one part, empty if there is none.

    Raises the classes of `translating_errors`: NotFresh once `is_cancelled`, which may also sleep.
    Takes a connection for each part, which is closed by this call.
    """
    try:
        with translating_errors():
            if part == PAGES:
                # Without the module of FTS5, quick_check passes over its tables.
                connection.drop_modules(None)
                statement = "PRAGMA quick_check(1)"
            else:
                statement = f'PRAGMA quick_check("{part}")'
            connection.set_progress_handler(is_cancelled, STEPS_BETWEEN_CALLS)
            found = str(connection.execute(statement).fetchall()[0][0])
    finally:
        connection.close()
    return "" if found == "ok" else found


def lower_thread_priority() -> None:
    """Let every other thread of the machine go first, where a thread has its own priority."""
    set_priority = getattr(os, "setpriority", None)
    if set_priority is not None and os.uname().sysname == "Linux":
        with contextlib.suppress(OSError):
            set_priority(os.PRIO_PROCESS, threading.get_native_id(), 19)
