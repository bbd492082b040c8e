"""Check databases: tampering with open files, damage on the disk, and an index against its notes.

SQLite continues with the files that it has open and does not notice that a file was deleted,
replaced or truncated: `FileGuard` compares them. `find_damage` runs SQLite's own checks over a
connection of its own, which has no page in memory yet. `compare_note` compares the rows of a note
with those that a fresh parse gives, made by the functions that write them.
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
from memsyncd.store.pool import Reader
from memsyncd.store.rows import Ids, Row, Rows, add_note, read_stat_row
from memsyncd.store.texts import inflate, read_note_text

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


# A WAL over this size that cannot be truncated is reported: sixteen times what it has between two
# checkpoints.
PINNED_WAL_BYTES = 64 * 1024 * 1024
CHECK_S = 120.0
N_SHOWN = 5
ASIDE_MARK = ".damaged-"
# Of each chunk, the words that are looked up.
N_WORDS = 2


# --- open files ---------------------------------------------------------------------------------


class Tampering(Enum):
    """What another program did to the files of an open database; the value follows the file's
    name.
    """

    REPLACED = "was deleted or replaced"
    WAL_LOST = "lost its -wal or -shm file"
    TRUNCATED = "was truncated"
    OVERWRITTEN = "was overwritten with another workspace's"


class DatabaseFile(NamedTuple):
    """Identity, size and time of one file of a database."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode


class FileGuard:
    """Notice what other programs do to the files of one open database.

    For the writer's thread. Create it after the database was opened and read.
    """

    def __init__(
        self,
        writer: apsw.Connection,
        path: str,
        *,
        is_foreign: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_foreign` reads from the file, without its WAL, whether it is another workspace's.

        Raises StoreFailed if the files cannot be examined.
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
        """Compare the files with those of the last call; None also if they cannot be examined."""
        try:
            file, wal, shm = self._stat_files()
        except OSError:
            return None
        if not _is_same(file, self._file):
            return Tampering.REPLACED
        if not (_is_same(wal, self._wal) and _is_same(shm, self._shm)):
            return Tampering.WAL_LOST
        # SQLite truncates the WAL by a checkpoint, which writes to the file first, and at the first
        # commit after one, but then never below its limit.
        is_wal_cut = file == self._file and _size(wal) < min(_size(self._wal), WAL_LIMIT_BYTES)
        if is_wal_cut or _size(file) < _size(self._file):
            return Tampering.TRUNCATED
        if file != self._file and self._is_foreign():
            return Tampering.OVERWRITTEN
        self._file, self._wal = file, wal
        return None

    def find_access_error(self) -> str:
        """Return why the files cannot be examined, and so not opened; empty if they can."""
        try:
            self._stat_files()
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""

    def accept(self) -> None:
        """Take the sizes that the files have now as right. A file that was replaced stays so."""
        with contextlib.suppress(OSError):
            file, wal, _ = self._stat_files()
            self._file = file if _is_same(file, self._file) else self._file
            self._wal = wal if _is_same(wal, self._wal) else self._wal

    def is_in_place(self) -> bool:
        """False if the path names another file than the open one, or the path cannot be examined.

        May be called from any thread.
        """
        try:
            return _is_same(_stat_file(self._path), self._file)
        except OSError:
            return False

    def truncate_wal(self) -> bool:
        """Checkpoint and truncate the WAL. False if a reader prevents it or the files were tampered
        with, since the WAL may belong to another file then.
        """
        if self.find_tampering() is not None:
            return False
        is_truncated = truncate_wal(self._writer)
        self.accept()
        return is_truncated

    def tidy(self) -> bool:
        """Truncate the WAL if it has content and the files are untouched. False if a reader
        prevents it.
        """
        if not self.wal_bytes() or self.find_tampering() is not None:
            return True
        return self.truncate_wal()

    def wal_bytes(self) -> int:
        """Return the size of the WAL, 0 if there is none."""
        return measure_file(f"{self._path}-wal")

    def pinned_wal_bytes(self) -> int:
        """Return the size of the WAL if it is over PINNED_WAL_BYTES and a reader keeps it from
        being checkpointed, otherwise 0.
        """
        n_bytes = self.wal_bytes()
        if n_bytes <= PINNED_WAL_BYTES:
            return 0
        with contextlib.suppress(apsw.Error):
            n_frames, n_done = self._writer.wal_checkpoint()
            return n_bytes if n_done < n_frames else 0
        return 0

    def remove_wal(self) -> None:
        """Delete the -wal and -shm files of a closed database, if they are those that it had."""
        for suffix, known in (("-wal", self._wal), ("-shm", self._shm)):
            with contextlib.suppress(OSError):
                if known is not None and _is_same(_stat_file(f"{self._path}{suffix}"), known):
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


def _is_same(one: DatabaseFile | None, other: DatabaseFile | None) -> bool:
    return (one and one.identity) == (other and other.identity)


def _size(stat: DatabaseFile | None) -> int:
    return stat.size_bytes if stat is not None else 0


# --- damage -------------------------------------------------------------------------------------


def find_damage(path: Path, *, is_thorough: bool) -> list[str]:
    """Return what SQLite finds wrong with the file, in its words.

    `is_thorough` also compares every table with its indexes. Both checks run FTS5's
    `integrity-check`; whether its words are those of the text, `compare_note` tells. Raises the
    classes of `translating_errors`: StoreCorrupt for a file that SQLite cannot read at all.
    """
    check = "integrity_check" if is_thorough else "quick_check"
    with (
        contextlib.closing(open_reader(str(path))) as connection,
        deadline(connection, CHECK_S),
    ):
        rows = connection.execute(f"PRAGMA {check}({N_SHOWN})").fetchall()
        found = [str(row[0]) for row in rows if row[0] != "ok"]
        if is_thorough and not found:
            orphans = connection.execute("PRAGMA foreign_key_check")
            found = [f"{row[0]}: a row belongs to nothing" for row in orphans]
    return found[:N_SHOWN]


def read_generation(reader: Reader) -> int:
    """Return the generation that the file names."""
    with translating_errors():
        return int(reader.rows("SELECT value FROM meta WHERE key = 'generation'")[0][0])


def read_text_bytes(reader: Reader) -> int:
    """Return the size of all indexed notes."""
    with translating_errors():
        return int(reader.rows("SELECT coalesce(sum(size), 0) FROM files")[0][0])


def find_set_aside(path: Path) -> list[Path]:
    """Return the damaged files that were moved away from `path`, oldest first.

    A WAL is among them only if it was moved alone.
    """
    found = set(path.parent.glob(f"{path.name}{ASIDE_MARK}*"))
    return sorted(
        one for one in found if not one.name.endswith(("-shm", "-wal")) or _is_alone(one, found)
    )


def _is_alone(wal: Path, found: set[Path]) -> bool:
    return wal.name.endswith("-wal") and wal.with_name(wal.name.removesuffix("-wal")) not in found


# --- an index against its notes -----------------------------------------------------------------

_RECORDED = (
    "SELECT size, mtime_ns, ctime_ns, inode, device, digest, read_at_ns FROM files WHERE path = ?"
)
_STORED = {
    "file": "SELECT digest, size, lines, title, day, kind, tags, extra FROM files WHERE path = ?",
    "sections": (
        "SELECT s.slugs, s.heading, s.level, s.start_line, s.end_line, s.kind, s.importance,"
        " s.priority, s.lifecycle, s.status, s.task, s.session, s.source, s.created, s.updated,"
        " s.expires, s.day, s.extra FROM files f JOIN sections s ON s.file = f.id WHERE f.path = ?"
    ),
    "tags": (
        "SELECT s.slugs, t.tag FROM files f JOIN sections s ON s.file = f.id"
        " JOIN tags t ON t.section = s.id WHERE f.path = ?"
    ),
    "links": (
        "SELECT s.slugs, l.line, l.target, l.heading, l.relation, l.kind, l.key FROM files f"
        " JOIN sections s ON s.file = f.id JOIN links l ON l.section = s.id WHERE f.path = ?"
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
        "SELECT s.slugs, c.start_line, c.end_line, c.part, c.tokens, c.digest FROM files f"
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
    """The rows of one `part` of a note that the index lacks, and those it should not have."""

    part: str
    n_missing: int
    n_surplus: int


def read_note_paths(reader: Reader) -> list[str]:
    """Return the paths of all indexed notes."""
    return [str(row[0]) for row in reader.rows("SELECT path FROM files ORDER BY path")]


def read_recorded(reader: Reader, path: str) -> Recorded | None:
    """Return what the index recorded of a note's file, None if the note is not indexed."""
    rows = reader.rows(_RECORDED, (path,))
    if not rows:
        return None
    *stat, digest, read_at_ns = rows[0]
    return Recorded(stat=read_stat_row(stat), digest=str(digest), read_at_ns=int(read_at_ns))


def compare_note(reader: Reader, note: Note, recorded: Recorded) -> list[Difference]:
    """Return the parts of a note whose rows differ from those of `note`, which was parsed from a
    file with the stat of `recorded`. Ids are ignored.
    """
    expected = _make_rows(note, recorded)
    stored = {part: reader.rows(statement, (note.path,)) for part, statement in _STORED.items()}
    stored["text"] = [(_read_text(reader, note.path),)]
    found = []
    for part, rows in stored.items():
        should, are = Counter(expected[part]), Counter(rows)
        if should != are:
            missing, surplus = (should - are).total(), (are - should).total()
            found.append(Difference(part=part, n_missing=missing, n_surplus=surplus))
    if n_chunks := _count_unfindable(reader, note):
        found.append(Difference(part="words", n_missing=n_chunks, n_surplus=0))
    return found


def _read_text(reader: Reader, path: str) -> str | None:
    try:
        return read_note_text(reader, path)
    except StoreCorrupt:
        return None


def _count_unfindable(reader: Reader, note: Note) -> int:
    """Count the chunks that are not found in both FTS5 tables by some words of their text.

    FTS5 keeps no text that its own check could compare with the words, and looking up every word
    would take minutes. A row of FTS5 is written with all its columns at once.
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
    """Some of the longest words, which are rare and quickly looked up.

    Only FTS5's tokenizer can tell where a word begins and ends: a mark over a letter is part of it.
    """
    data = text.encode("utf-8", "replace")
    words = {data[start:end].decode() for start, end, _ in reader.tokenize(text)}
    return sorted(words, key=lambda word: (-len(word), word))[:N_WORDS]


def find_orphans(reader: Reader) -> list[str]:
    """Describe rows that belong to no note, and chunks whose two FTS5 rows disagree."""
    counted = {what: int(reader.rows(statement)[0][0]) for what, statement in _ORPHANS.items()}
    return [f"{what} ({n:,})" for what, n in counted.items() if n]


def _make_rows(note: Note, recorded: Recorded) -> dict[str, list[Row]]:
    rows = Rows()
    add_note(rows, Ids(0, 0, 0), note, recorded.stat, recorded.read_at_ns)
    slugs = {row[0]: row[2] for row in rows.sections}
    file = rows.files[0]
    return {
        "file": [(file[2], file[3], *file[9:])],
        "sections": [row[2:] for row in rows.sections],
        "tags": list(dict.fromkeys((slugs[row[0]], row[1]) for row in rows.tags)),
        "links": list(_with_slugs(rows.links, slugs)),
        "blocks": list(_with_slugs(rows.blocks, slugs)),
        "names": [row[1:] for row in rows.names],
        "problems": [row[1:] for row in rows.problems],
        "secrets": [row[1:] for row in rows.secrets],
        "chunks": [(slugs[row[2]], *row[3:]) for row in rows.chunks],
        "text": [("\n".join(inflate(row[3]) for row in rows.texts),)],
    }


def _with_slugs(rows: Iterable[Row], slugs: dict[Any, str]) -> Iterable[Row]:
    return ((slugs[row[0]], *row[1:]) for row in rows)
