"""Check databases: tampering with open files, damage on the disk, and an index against its notes.

SQLite goes on with the files that it has open and does not notice if one is deleted, replaced or
truncated; `FileGuard` compares them. `find_damage` runs SQLite's own checks over a new connection,
which has no page in memory yet. `compare_note` compares the rows of a note with the rows of a fresh
parse; the functions that write the rows make both.
"""

from __future__ import annotations

import contextlib
import os
import stat as modes
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from memsyncd.core.changes.diff import Recorded
from memsyncd.core.model import Note
from memsyncd.core.search.words import blank_marks, fold, space_out
from memsyncd.errors import StoreCorrupt, StoreFailed
from memsyncd.store.connection import (
    WAL_LIMIT_BYTES,
    deadline,
    open_reader,
    translating_errors,
    truncate_wal,
)
from memsyncd.store.details import Row
from memsyncd.store.pool import Reader
from memsyncd.store.rows import (
    FILE_COLUMNS,
    N_VALUE_COLUMNS,
    NAMES_OF_SECTION,
    Ids,
    Rows,
    add_note,
    read_stat_row,
)
from memsyncd.store.texts import inflate, read_note_text

SUFFIX = "-check"
PAGES = "pages"
# After this time a part is checked again.
CHECK_INTERVAL_S = 24 * 3600.0
# Pages, or steps of SQLite's virtual machine, between two calls of `is_cancelled`.
STEPS_BETWEEN_CALLS = 1000
# The tables of fts5vocab are omitted, because they store nothing.
_FTS_TABLES = "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%USING fts5(%'"


class Ending(Enum):
    """How the last use of a database ended, as far as this is known before it is opened."""

    CLEAN = "clean"
    """It was closed, and nothing has written to the file since."""
    UNCLEAN = "unclean"
    """It was not closed, or it is new."""
    # With SQLite's WAL a process may end at any moment: the next connection reads the commits that
    # are whole. The same is true for a power failure, if the disk has really written everything
    # that was synced.
    DOUBTFUL = "doubtful"
    """Another program wrote to it since it was closed, or it was closed with known damage."""


class _FileVersion(msgspec.Struct, frozen=True):
    """The values that a write changes; the device is omitted, because a restart may renumber it."""

    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int


class _Check(msgspec.Struct, frozen=True):
    """The time at which a part was found sound, and the version of the file at that time."""

    at_s: float
    file: _FileVersion | None


class _Saved(msgspec.Struct, frozen=True):
    """The content of the file beside the database. Without `closed`, the database is doubtful."""

    closed: _FileVersion | None = None
    checks: dict[str, _Check] = {}


class CheckState:
    """The checks of one open database. Create it before SQLite opens the file.

    They are saved in a file beside the database when that is closed, and the file is deleted when
    the database is opened. So the file says whether another program has written to the database
    since, and opening an index need not read what grows with it.

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
        # Any program that wrote to the file after a check, even this one, may have damaged it.
        self._checks = {
            part: check for part, check in saved.checks.items() if check.file == version
        }
        return Ending.CLEAN

    def find_parts(self, connection: apsw.Connection) -> None:
        """Read the parts of a full check: the pages, and each FTS5 table."""
        with translating_errors():
            self.parts = (PAGES, *(str(row[0]) for row in connection.execute(_FTS_TABLES)))

    def due(self) -> list[str]:
        """Return the parts that are unchecked, or whose check is older than CHECK_INTERVAL_S.

        A check of an earlier run counts only if nothing was written to the file after it.
        """
        now_s = time.time()
        return [part for part in self.parts if self._is_due(part, now_s)]

    def _is_due(self, part: str, now_s: float) -> bool:
        check = self._checks.get(part)
        # The clock may have been set back since the check.
        return check is None or not 0 <= now_s - check.at_s < CHECK_INTERVAL_S

    def note_checked(self, *parts: str) -> None:
        """Remember that these parts are sound; without arguments, all parts."""
        check = _Check(time.time(), _stat_version(self._path))
        self._checks |= dict.fromkeys(parts or self.parts, check)

    def note_damage(self) -> None:
        """Make the next use of the database check it first."""
        self._is_doubtful = True
        self._save(_Saved())

    def save_closed(self) -> None:
        """Save that the database was closed. Call it after the close; further calls do nothing."""
        if not self._is_doubtful and not self._is_closed:
            self._save(_Saved(_stat_version(self._path), dict(self._checks)))
        self._is_closed = True

    def _save(self, saved: _Saved) -> None:
        # The file is not synced: if a power failure loses or tears it, a check is made, no more.
        new = self._saved_path.with_name(f"{self._saved_path.name}.new")
        with contextlib.suppress(OSError):
            new.write_bytes(msgspec.json.encode(saved))
            new.replace(self._saved_path)


def forget_checks(path: Path) -> None:
    """Delete the saved checks of a database that was moved or replaced."""
    # If this fails it does no harm: the next write to the database makes the checks out of date.
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
    """Return the first finding in a part; empty if there is none.

    `connection` must be a new one for each part; this call closes it. Raises the classes of
    `translating_errors`; NotFresh if `is_cancelled` returns true. `is_cancelled` may also sleep.
    """
    try:
        with translating_errors():
            if part == PAGES:
                # Without the module of FTS5, quick_check skips its tables.
                connection.drop_modules(None)
                statement = "PRAGMA quick_check(1)"
            else:
                statement = f'PRAGMA quick_check("{part}")'
            connection.set_progress_handler(is_cancelled, STEPS_BETWEEN_CALLS)
            finding = str(connection.execute(statement).fetchall()[0][0])
    finally:
        connection.close()
    return "" if finding == "ok" else finding


def lower_thread_priority() -> None:
    """Let all other threads of the machine go first, if threads have priorities on this system."""
    set_priority = getattr(os, "setpriority", None)
    if set_priority is not None and os.uname().sysname == "Linux":
        with contextlib.suppress(OSError):
            set_priority(os.PRIO_PROCESS, threading.get_native_id(), 19)


# A WAL over this size that cannot be truncated is reported: sixteen times its usual size between
# two checkpoints.
PINNED_WAL_BYTES = 64 * 1024 * 1024
CHECK_S = 120.0
N_SHOWN = 5
ASIDE_MARK = ".damaged-"
# The number of words that are looked up for each chunk.
N_WORDS = 2


# --- open files ---------------------------------------------------------------------------------


class Tampering(Enum):
    """The act of another program on the files of an open database.

    The value completes a sentence that begins with the name of the file.
    """

    REPLACED = "was deleted or replaced"
    WAL_LOST = "lost its -wal or -shm file"
    TRUNCATED = "was truncated"
    OVERWRITTEN = "was overwritten with another workspace's"


class DatabaseFile(NamedTuple):
    """Identity, size and time of a file of a database."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode


class FileGuard:
    """Notices changes that other programs make to the files of an open database.

    Only the writer's thread may use it. Create it after the database was opened and read.
    """

    def __init__(
        self,
        writer: apsw.Connection,
        path: str,
        *,
        is_foreign: Callable[[], bool] = lambda: False,
    ) -> None:
        """Remember the files as they are now. Raises StoreFailed if they cannot be examined.

        `is_foreign` reads the file without its WAL; it is true if the file belongs to another
        workspace.
        """
        self._writer = writer
        self._is_foreign = is_foreign
        self._path = path
        try:
            self._file, self._wal, self._shm = self._stat_files()
        except OSError as error:
            raise StoreFailed(
                f"{path} cannot be examined: {error.strerror}", hint="see: memsyncd status"
            ) from error

    def find_tampering(self) -> Tampering | None:
        """Compare the files with the files at the last call.

        Returns None if they are untouched, and also if they cannot be examined.
        """
        try:
            file, wal, shm = self._stat_files()
        except OSError:
            return None
        if not _is_same(file, self._file):
            return Tampering.REPLACED
        if not (_is_same(wal, self._wal) and _is_same(shm, self._shm)):
            return Tampering.WAL_LOST
        # SQLite itself truncates the WAL in two cases: by a checkpoint, which writes to the file
        # first; and at the first commit after a checkpoint, but then never below the limit.
        is_wal_cut = file == self._file and _size(wal) < min(_size(self._wal), WAL_LIMIT_BYTES)
        if is_wal_cut or _size(file) < _size(self._file):
            return Tampering.TRUNCATED
        if file != self._file and self._is_foreign():
            return Tampering.OVERWRITTEN
        self._file, self._wal = file, wal
        return None

    def find_access_error(self) -> str:
        """Return why the files cannot be examined or opened; empty if they can."""
        try:
            self._stat_files()
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""

    def accept(self) -> None:
        """Accept the present sizes of the files. A replaced file still counts as replaced."""
        with contextlib.suppress(OSError):
            file, wal, _ = self._stat_files()
            self._file = file if _is_same(file, self._file) else self._file
            self._wal = wal if _is_same(wal, self._wal) else self._wal

    def is_in_place(self) -> bool:
        """False if the path names another file than the open file, or cannot be examined.

        May be called on any thread.
        """
        try:
            return _is_same(_stat_file(self._path), self._file)
        except OSError:
            return False

    def truncate_wal(self) -> bool:
        """Checkpoint and truncate the WAL. Return False if that is not possible.

        That is the case if a reader prevents it, or if another program has changed the files, since
        then the WAL may belong to another file.
        """
        if self.find_tampering() is not None:
            return False
        is_truncated = truncate_wal(self._writer)
        self.accept()
        return is_truncated

    def tidy(self) -> bool:
        """Truncate the WAL if it has content and the files are untouched.

        Returns False if a reader prevents it.
        """
        if not self.wal_bytes() or self.find_tampering() is not None:
            return True
        return self.truncate_wal()

    def wal_bytes(self) -> int:
        """Return the size of the WAL; 0 if there is none."""
        return measure_file(f"{self._path}-wal")

    def pinned_wal_bytes(self) -> int:
        """Return the size of a WAL over PINNED_WAL_BYTES that a reader pins, otherwise 0.

        A reader pins the WAL if it prevents its checkpoint.
        """
        n_bytes = self.wal_bytes()
        if n_bytes <= PINNED_WAL_BYTES:
            return 0
        with contextlib.suppress(apsw.Error):
            n_frames, n_done = self._writer.wal_checkpoint()
            return n_bytes if n_done < n_frames else 0
        return 0

    def remove_wal(self) -> None:
        """Delete the -wal and -shm files of a closed database, if no program has replaced them."""
        for suffix, own in (("-wal", self._wal), ("-shm", self._shm)):
            with contextlib.suppress(OSError):
                if own is not None and _is_same(_stat_file(f"{self._path}{suffix}"), own):
                    os.unlink(f"{self._path}{suffix}")

    def _stat_files(self) -> tuple[DatabaseFile | None, DatabaseFile | None, DatabaseFile | None]:
        return (
            _stat_file(self._path),
            _stat_file(f"{self._path}-wal"),
            _stat_file(f"{self._path}-shm"),
        )


def _stat_file(path: str) -> DatabaseFile | None:
    try:
        stat = os.lstat(path)
    except FileNotFoundError:
        return None
    if not modes.S_ISREG(stat.st_mode):
        return None
    return DatabaseFile(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _is_same(file: DatabaseFile | None, other: DatabaseFile | None) -> bool:
    return (file and file.identity) == (other and other.identity)


def _size(stat: DatabaseFile | None) -> int:
    return stat.size_bytes if stat is not None else 0


# --- damage -------------------------------------------------------------------------------------


def find_damage(path: Path, *, is_thorough: bool) -> list[str]:
    """Return SQLite's findings about the file, in its own words.

    `is_thorough` also compares every table with its indexes. Both checks run FTS5's
    `integrity-check`; only `compare_note` can say whether its words match the text. Raises the
    classes of `translating_errors`: StoreCorrupt for a file that SQLite cannot read at all.
    """
    check = "integrity_check" if is_thorough else "quick_check"
    with (
        contextlib.closing(open_reader(str(path))) as connection,
        deadline(connection, CHECK_S),
    ):
        rows = connection.execute(f"PRAGMA {check}({N_SHOWN})").fetchall()
        findings = [str(row[0]) for row in rows if row[0] != "ok"]
        if is_thorough and not findings:
            orphans = connection.execute("PRAGMA foreign_key_check")
            findings = [f"{row[0]}: a row belongs to nothing" for row in orphans]
    return findings[:N_SHOWN]


_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"


def read_first_rows(path: Path) -> None:
    """Read the first row of each table through a new connection, which is quick for a file of any
    size. Raises StoreCorrupt if the file was overwritten or cut, and the other classes of
    `translating_errors`.
    """
    with (
        contextlib.closing(open_reader(str(path))) as connection,
        deadline(connection, CHECK_S),
    ):
        for name in [name for (name,) in connection.execute(_TABLES)]:
            connection.execute(f'SELECT * FROM "{name}" LIMIT 1').fetchall()


def read_generation(reader: Reader) -> int:
    """Return the generation that is stored in the file."""
    with translating_errors():
        return int(reader.rows("SELECT value FROM meta WHERE key = 'generation'")[0][0])


def read_text_bytes(reader: Reader) -> int:
    """Return the size of all indexed notes."""
    with translating_errors():
        return int(reader.rows("SELECT coalesce(sum(size), 0) FROM files")[0][0])


def find_set_aside(path: Path) -> list[Path]:
    """Return the damaged files that were moved away from `path`, oldest first.

    A WAL is in the list only if it was moved alone.
    """
    files = set(path.parent.glob(f"{path.name}{ASIDE_MARK}*"))
    return sorted(
        file for file in files if not file.name.endswith(("-shm", "-wal")) or _is_alone(file, files)
    )


def _is_alone(wal: Path, files: set[Path]) -> bool:
    return wal.name.endswith("-wal") and wal.with_name(wal.name.removesuffix("-wal")) not in files


# --- an index against its notes -----------------------------------------------------------------

_RECORDED = (
    "SELECT size, mtime_ns, ctime_ns, inode, device, digest, read_at_ns FROM files WHERE path = ?"
)
_NAMES_OF_FILE = FILE_COLUMNS.split(", ")
# The columns before it are the id and the record of the file on the disk.
_LINES = _NAMES_OF_FILE.index("lines")
_DAY_OF_FILE = _NAMES_OF_FILE.index("day")
_CREATED, _DAY, _AT = map(NAMES_OF_SECTION.index, ("created", "day", "at"))
# Without a stated time, `at` depends on the time zone in which the note was indexed.
_STATED_AT = "iif(coalesce(nullif(s.created, ''), s.day, f.day) IS NULL, '', s.at)"
_COMPARED = ", ".join(
    _STATED_AT if name == "at" else f"s.{name}" for name in NAMES_OF_SECTION[1:-1]
)
_STORED = {
    "file": f"SELECT digest, size, {', '.join(_NAMES_OF_FILE[_LINES:])} FROM files WHERE path = ?",
    "sections": (
        f"SELECT {_COMPARED}, o.lifecycle, o.kind,"
        " o.priority, o.importance, o.kinds, o.is_project, o.is_archived FROM files f"
        " JOIN sections s ON s.file = f.id LEFT JOIN outlooks o ON o.id = s.outlook"
        " WHERE f.path = ?"
    ),
    "tags": (
        "SELECT s.slugs, t.tag FROM files f JOIN sections s ON s.file = f.id"
        " JOIN tags t ON t.section = s.id WHERE f.path = ?"
    ),
    "keywords": (
        "SELECT s.slugs, k.keyword FROM files f JOIN sections s ON s.file = f.id"
        " JOIN keywords k ON k.section = s.id WHERE f.path = ?"
    ),
    "links": (
        "SELECT s.slugs, l.n, l.line, l.target, l.heading, l.relation, l.kind, l.key"
        " FROM files f JOIN sections s ON s.file = f.id JOIN links l ON l.section = s.id"
        " WHERE f.path = ?"
    ),
    "blocks": (
        "SELECT s.slugs, b.name FROM files f JOIN sections s ON s.file = f.id"
        " JOIN blocks b ON b.section = s.id WHERE f.path = ?"
    ),
    "names": "SELECT n.name, n.key FROM files f JOIN names n ON n.file = f.id WHERE f.path = ?",
    "problems": (
        "SELECT p.line, p.code, p.problem, p.hint FROM files f JOIN problems p ON p.file = f.id"
        " WHERE f.path = ?"
    ),
    "secrets": (
        "SELECT s.start_line, s.end_line, s.what FROM files f JOIN secrets s ON s.file = f.id"
        " WHERE f.path = ?"
    ),
    "chunks": (
        "SELECT s.slugs, c.start_line, c.end_line, c.part, c.front_lines, c.tokens, c.digest"
        " FROM files f"
        " JOIN chunks c ON c.file = f.id JOIN sections s ON s.id = c.section WHERE f.path = ?"
    ),
}
_CHUNK_IDS = (
    "SELECT c.id, c.start_line, c.end_line, c.part FROM files f JOIN chunks c ON c.file = f.id"
    " WHERE f.path = ?"
)
_IS_FOUND = (
    "SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? AND rowid = ?",
    "SELECT 1 FROM chunks_exact WHERE chunks_exact MATCH ? AND rowid = ?",
)
_ORPHANS = {
    "text of chunks that are gone can still be found": (
        "SELECT count(*) FROM chunks_fts WHERE rowid NOT IN (SELECT id FROM chunks)"
    ),
    "exact words of chunks that are gone can still be found": (
        "SELECT count(*) FROM chunks_exact WHERE rowid NOT IN (SELECT id FROM chunks)"
    ),
    "chunks cannot be found by their exact words": (
        "SELECT count(*) FROM chunks WHERE id NOT IN (SELECT rowid FROM chunks_exact)"
    ),
    # The number of words in each column is the same in both tables.
    "chunks have other exact words than stemmed ones": (
        "SELECT count(*) FROM chunks_fts_docsize a JOIN chunks_exact_docsize b ON b.id = a.id"
        " WHERE a.sz <> b.sz"
    ),
    "chunks belong to sections of other notes": (
        "SELECT count(*) FROM chunks c JOIN sections s ON s.id = c.section WHERE s.file <> c.file"
    ),
}


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a `part` of a note: how many the index lacks, and how many it has too much."""

    part: str
    n_missing: int
    n_surplus: int


def read_recorded(reader: Reader, path: str) -> Recorded | None:
    """Return the record of a note's file in the index; None if the note is not indexed."""
    rows = reader.rows(_RECORDED, (path,))
    if not rows:
        return None
    *stat, digest, read_at_ns = rows[0]
    return Recorded(stat=read_stat_row(stat), digest=str(digest), read_at_ns=int(read_at_ns))


def compare_note(reader: Reader, note: Note, recorded: Recorded) -> list[Difference]:
    """Return the parts of a note whose rows in the index differ from the rows of `note`.

    `note` was parsed from a file with the stat of `recorded`. Ids are ignored.
    """
    expected = _make_rows(note, recorded)
    stored = {part: reader.rows(statement, (note.path,)) for part, statement in _STORED.items()}
    stored["text"] = [(_read_text(reader, note.path),)]
    differences = []
    for part, rows in stored.items():
        should, are = Counter(expected[part]), Counter(rows)
        if should != are:
            missing, surplus = (should - are).total(), (are - should).total()
            differences.append(Difference(part=part, n_missing=missing, n_surplus=surplus))
    if n_chunks := _count_unfindable(reader, note):
        differences.append(Difference(part="words", n_missing=n_chunks, n_surplus=0))
    return differences


def _read_text(reader: Reader, path: str) -> str | None:
    try:
        return read_note_text(reader, path)
    except StoreCorrupt:
        return None


def _count_unfindable(reader: Reader, note: Note) -> int:
    """Count the chunks that some words of their text do not find in both FTS5 tables.

    FTS5 keeps no text with which its own check could compare the words. Looking up every word would
    take minutes; some words are enough, because a row of FTS5 is written with all its columns at
    once.
    """
    ids = {tuple(row[1:]): row[0] for row in reader.rows(_CHUNK_IDS, (note.path,))}
    n_chunks = 0
    for chunk in note.chunks:
        words = _choose_words(reader, space_out(blank_marks(fold(chunk.text))))
        match = " ".join(f'text : "{word}"' for word in words)
        bindings = (match, ids.get((chunk.start, chunk.end, chunk.part)))
        n_chunks += bool(words) and not all(
            reader.rows(statement, bindings) for statement in _IS_FOUND
        )
    return n_chunks


def _choose_words(reader: Reader, text: str) -> list[str]:
    """Return some of the longest words of a text: they are rare, so looking them up is quick.

    Only FTS5's tokenizer knows where a word begins and ends: a mark over a letter is part of it.
    """
    data = text.encode("utf-8", "replace")
    words = {data[start:end].decode() for start, end, _ in reader.tokenize(text)}
    return sorted(words, key=lambda word: (-len(word), word))[:N_WORDS]


def find_orphans(reader: Reader) -> list[str]:
    """Describe rows that belong to no note, and chunks whose two FTS5 rows differ."""
    counted = {what: int(reader.rows(statement)[0][0]) for what, statement in _ORPHANS.items()}
    return [f"{what} ({n:,})" for what, n in counted.items() if n]


def _make_rows(note: Note, recorded: Recorded) -> dict[str, list[Row]]:
    rows = Rows()
    add_note(rows, Ids(0, 0, 0), note, recorded.stat, recorded.read_at_ns)
    outlooks = rows.outlooks.list_columns()
    slugs = {row[0]: row[2] for row in rows.sections}
    file = rows.files[0]
    return {
        # The numbers of a topic, at the end, depend on the configured kinds.
        "file": [(file[2], file[3], *file[_LINES:-N_VALUE_COLUMNS])],
        "sections": [
            (*_hide_local_day(row[1:], file[_DAY_OF_FILE])[1:-1], *outlooks[row[-1]])
            for row in rows.sections
        ],
        "tags": list(dict.fromkeys((slugs[row[0]], row[1]) for row in rows.tags)),
        "keywords": list(dict.fromkeys((slugs[row[0]], row[1]) for row in rows.keywords)),
        "links": list(_with_slugs(rows.links, slugs)),
        "blocks": list(_with_slugs(rows.blocks, slugs)),
        "names": [row[1:] for row in rows.names],
        "problems": [row[1:] for row in rows.problems],
        "secrets": [row[1:] for row in rows.secrets],
        "chunks": [(slugs[row[2]], *row[3:]) for row in rows.chunks],
        "text": [("\n".join(inflate(row[3]) for row in rows.texts),)],
    }


def _hide_local_day(row: Row, day_of_file: str | None) -> Row:
    """Return the row of a section, without its id, as `_COMPARED` reads it."""
    is_stated = row[_CREATED] or row[_DAY] or day_of_file
    return row if is_stated else (*row[:_AT], "", *row[_AT + 1 :])


def _with_slugs(rows: Iterable[Row], slugs: dict[Any, str]) -> Iterable[Row]:
    return ((slugs[row[0]], *row[1:]) for row in rows)
