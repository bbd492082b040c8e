"""Write one workspace's index.db.

`Index` is for the writer's thread alone; its `pool` may be used from any thread. Every write is one
of a closed union of updates. Opening never repairs: IndexUnfit says why a file must be rebuilt,
and the engine builds another beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import add, sub
from pathlib import Path
from typing import assert_never

import apsw
import msgspec
from msgspec.structs import astuple, replace

from memsyncd.core.changes.diff import FileStat, KnownStats, Recorded, hash_record
from memsyncd.core.model import Note, NotePatch, Outline
from memsyncd.errors import IndexUnfit, StoreCorrupt, StoreFailed
from memsyncd.store.check_state import SUFFIX, CheckState, Ending, measure_file
from memsyncd.store.connection import (
    ACCESS_HINT,
    Durability,
    WalPages,
    open_writer,
    release_memory,
    transaction,
    translating_errors,
)
from memsyncd.store.integrity import FileGuard, Tampering
from memsyncd.store.pool import ConnectionPool, Reader
from memsyncd.store.rows import (
    Ids,
    Rows,
    add_note,
    change_note,
    drop_note,
    patch_note,
    read_outline,
    read_stat_row,
    stat_row,
)
from memsyncd.store.schema import create_schema, is_empty, read_fingerprint

FTS_TABLES = ("chunks_fts", "chunks_exact")
# Pages of FTS5 that one step of `tidy` may write: some milliseconds, for a save may wait.
MERGE_PAGES = 500

# A WAL of CHECKPOINT_PAGES is copied to the file after a save was answered; one of MOST_WAL_PAGES
# before the next commit.
CHECKPOINT_PAGES = 1000
MOST_WAL_PAGES = 4000

# After more updates at once the known stats are read again when a scan needs them: kept up to date,
# they would lie between the short-lived objects of a large sync and keep its memory from being
# freed.
KNOWN_UPDATES_LIMIT = 64
# From so many paths on, reading all records is cheaper than looking each up.
MANY_PATHS = 500

# For FTS5 while much is written: segments merged meanwhile would be merged again by `tidy`. Moving
# 4,000 of 11,360 notes took 21 s of CPU with merges, one step 6 s, and 10 s without. 256 segments
# are those of half a million chunks; queries meanwhile search each.
_FILLING = {"automerge": 0, "crisismerge": 256}
# FTS5's own defaults.
_FILLED = {"automerge": 4, "crisismerge": 16}

_RECORDED = "SELECT path, size, mtime_ns, ctime_ns, inode, device, digest, read_at_ns FROM files"
_KNOWN = "SELECT path, size, mtime_ns, ctime_ns, inode, device, read_at_ns FROM files"
_TOUCH = (
    "UPDATE files SET size=?, mtime_ns=?, ctime_ns=?, inode=?, device=?, read_at_ns=? WHERE path=?"
)
_COUNT = (
    "SELECT (SELECT count(*) FROM files), (SELECT count(*) FROM sections),"
    " (SELECT count(*) FROM chunks), (SELECT count(*) FROM problems)"
)
_PUT_META = "INSERT OR REPLACE INTO meta(key, value) VALUES('generation', ?), ('counts', ?)"
_COUNT_OF = (
    "SELECT (SELECT count(*) FROM sections WHERE file = ?1),"
    " (SELECT count(*) FROM chunks WHERE file = ?1),"
    " (SELECT count(*) FROM problems WHERE file = ?1)"
)
_OPENINGS = itertools.count(1)


# --- updates ------------------------------------------------------------------------------------


class PutNote(msgspec.Struct, frozen=True, kw_only=True):
    """The note is new or its bytes changed: only rows that differ are written.

    `moved_from` is the note's former path. Its rows are taken over, and only those that contain the
    path are rewritten.
    """

    note: Note
    stat: FileStat
    read_at_ns: int
    moved_from: str | None = None


class PatchNote(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of an indexed note changed, and no heading: only their sections are written."""

    patch: NotePatch
    stat: FileStat
    read_at_ns: int


class TouchNote(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes are the same, the stat of the file changed."""

    path: str
    stat: FileStat
    read_at_ns: int


class DropNote(msgspec.Struct, frozen=True):
    """The note was deleted."""

    path: str


Update = PutNote | PatchNote | TouchNote | DropNote


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one transaction.

    `paths` are the notes whose content, path or existence changed; `moved` counts chunks whose
    lines or path changed and whose text did not.
    """

    generation: int
    paths: tuple[str, ...] = ()
    upserted: int = 0
    deleted: int = 0
    kept: int = 0
    moved: int = 0


class Counts(msgspec.Struct, frozen=True):
    """The number of rows in an index; `problems` are those of its notes."""

    files: int = 0
    sections: int = 0
    chunks: int = 0
    problems: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*map(sub, astuple(self), astuple(other)))


def read_counts(reader: Reader) -> Counts:
    """Return the counts that an index of any version names. Raises ValueError for others than these
    four numbers.
    """
    with translating_errors():
        value: str = reader.rows("SELECT value FROM meta WHERE key = 'counts'")[0][0]
    files, sections, chunks, problems = map(int, value.split())
    return Counts(files, sections, chunks, problems)


# --- the index ----------------------------------------------------------------------------------


class Index:
    """The write side of an open index.db. Methods raise the classes of `translating_errors`."""

    def __init__(
        self, path: Path, fingerprint: str, *, generation: int = 0, is_sound: bool = False
    ) -> None:
        """Open `path`, or create it with `generation` if it is missing.

        Nothing that grows with the index is read, unless another program may have written to it:
        then it is checked in full, if it is not known that it `is_sound`. Raises IndexUnfit if the
        file must be rebuilt.
        """
        self.path = path
        self.fingerprint = fingerprint
        with _translating_folder_errors():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_folder = path.is_dir()
        if is_folder:
            raise IndexUnfit("index.db is a folder")
        self.checks = CheckState(path)
        self.opening = next(_OPENINGS)
        """A number that grows with each opened index: ids of rows are those of one file."""
        try:
            self._writer = open_writer(str(path), Durability.REBUILDABLE)
            try:
                with translating_errors():
                    self._open(generation, is_sound=is_sound)
            except BaseException:
                self._writer.close()
                raise
        except StoreCorrupt as failure:
            self.checks.note_damage()
            raise IndexUnfit(f"index.db is damaged: {failure.message}") from failure
        self.pool = ConnectionPool(str(path), self.file_guard.is_in_place)
        self._must_merge = True
        self.is_tidy = False
        self._known: KnownStats | None = None

    def _open(self, generation: int, *, is_sound: bool) -> None:
        self.is_new = is_empty(self._writer)
        self._merging: Mapping[str, int] = {}
        if self.is_new:
            with transaction(self._writer):
                create_schema(self._writer, self.fingerprint, generation=generation)
                self._set_merging(_FILLING)
        elif read_fingerprint(self._writer) != self.fingerprint:
            raise IndexUnfit("index.db was made by another version or with other chunking")
        elif self.checks.ending is Ending.DOUBTFUL and not is_sound:
            if damage := self.find_damage():
                self.checks.note_damage()
                raise IndexUnfit(f"index.db is damaged: {damage}")
            is_sound = True
        self.checks.find_parts(self._writer)
        if self.is_new or is_sound:
            self.checks.note_checked()
        self._ids = Ids.read(self._writer)
        generation_row = "SELECT value FROM meta WHERE key = 'generation'"
        self.generation = int(self._writer.execute(generation_row).get or 0)
        self.counts = self._read_counts()
        self.file_guard = FileGuard(self._writer, str(self.path))
        self._wal_pages = WalPages(self._writer)

    def recorded(self, only: Collection[str] | None = None) -> dict[str, Recorded]:
        """Return what the index recorded of files, by path.

        `only` limits it to these paths and those below them; an empty path is the root.
        """
        with translating_errors():
            if only is None or "" in only:
                return dict(_recorded(row) for row in self._writer.execute(_RECORDED))
            found: dict[str, Recorded] = {}
            for path in only:
                below = (path, f"{path}/", f"{path}0")
                where = "WHERE path = ? OR (path >= ? AND path < ?)"
                rows = self._writer.execute(f"{_RECORDED} {where}", below)
                found.update(_recorded(row) for row in rows)
            return found

    def find_recorded(self, paths: Collection[str]) -> dict[str, Recorded]:
        """Return what the index recorded of exactly these files, by path."""
        with translating_errors():
            if len(paths) >= MANY_PATHS:
                rows = [row for row in self._writer.execute(_RECORDED) if row[0] in paths]
            else:
                found = (self._writer.execute(f"{_RECORDED} WHERE path = ?", (p,)) for p in paths)
                rows = list(itertools.chain.from_iterable(found))
        return dict(map(_recorded, rows))

    def known_stats(self) -> KnownStats:
        """Return the hash of the stat of every recorded file, for a scan of all.

        They are read once, and `apply` keeps them up to date; a caller must not keep them.
        """
        if self._known is None:
            with translating_errors():
                self._known = KnownStats(
                    (path, hash_record(path, read_stat_row(stat), read_at_ns))
                    for path, *stat, read_at_ns in self._writer.execute(_KNOWN)
                )
                release_memory(self._writer)
        self._known.pack()
        return self._known

    def iter_digests(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the digest of every note: far cheaper than `recorded`. To be read to
        the end before the next write.
        """
        with translating_errors():
            yield from self._writer.execute("SELECT path, digest FROM files")

    def apply(self, updates: Sequence[Update]) -> Written:
        """Write all updates in one transaction.

        The generation increases if a note's content, path or existence changed.
        """
        self._wal_pages.checkpoint(MOST_WAL_PAGES)
        rows, paths, ids_before, counts_before = Rows(), [], replace(self._ids), self.counts
        counts = {"upserted": 0, "deleted": 0, "kept": 0, "moved": 0}
        try:
            with transaction(self._writer):
                for update in updates:
                    paths += self._apply_one(update, rows, counts)
                rows.flush(self._writer)
                if paths:
                    counts_row = " ".join(map(str, astuple(self.counts)))
                    self._writer.execute(_PUT_META, (str(self.generation + 1), counts_row))
        except BaseException:
            self._ids, self.counts, self._known = ids_before, counts_before, None
            raise
        self._update_known(updates)
        if paths:
            self.generation += 1
        self._must_merge = self._must_merge or counts["deleted"] > 0
        self.is_tidy = False
        changed = tuple(dict.fromkeys(paths))
        return Written(generation=self.generation, paths=changed, **counts)

    def _update_known(self, updates: Sequence[Update]) -> None:
        known = self._known
        if known is None or len(updates) > KNOWN_UPDATES_LIMIT:
            self._known = None
            return
        for update in updates:
            match update:
                case PutNote(note=note, stat=stat, read_at_ns=read_at_ns, moved_from=old_path):
                    # A note that exists keeps its own rows, and the other path its.
                    if old_path is not None and note.path not in known:
                        known.pop(old_path, None)
                    known[note.path] = hash_record(note.path, stat, read_at_ns)
                case PatchNote(patch=patch, stat=stat, read_at_ns=read_at_ns):
                    path = patch.note.path
                    known[path] = hash_record(path, stat, read_at_ns)
                case TouchNote(path=path, stat=stat, read_at_ns=read_at_ns):
                    if path in known:
                        known[path] = hash_record(path, stat, read_at_ns)
                case DropNote(path=path):
                    known.pop(path, None)
                case _:
                    assert_never(update)

    def _apply_one(self, update: Update, rows: Rows, counts: dict[str, int]) -> list[str]:
        match update:
            case PutNote():
                return self._put(update, rows, counts)
            case PatchNote():
                return self._patch(update, rows, counts)
            case TouchNote(path=path, stat=stat, read_at_ns=read_at_ns):
                self._writer.execute(_TOUCH, (*stat_row(stat), read_at_ns, path))
                return []
            case DropNote(path=path):
                file_id = self._file_id(path)
                if file_id is None:
                    return []
                self.counts -= self._begin_change(rows, file_id)
                counts["deleted"] += drop_note(self._writer, rows, file_id)
                return [path]
            case _:
                assert_never(update)

    def _put(self, update: PutNote, rows: Rows, counts: dict[str, int]) -> list[str]:
        note, old_path = update.note, update.moved_from
        file_id = self._file_id(note.path)
        if file_id is None and old_path is not None:
            file_id = self._file_id(old_path)
        # Counted note by note: counting all rows after each save would take time with their number.
        self.counts += Counts(
            files=1,
            sections=len(note.sections),
            chunks=len(note.chunks),
            problems=len(note.problems),
        )
        if file_id is None:
            counts["upserted"] += add_note(rows, self._ids, note, update.stat, update.read_at_ns)
            return [note.path]
        self.counts -= self._begin_change(rows, file_id)
        plan = change_note(
            self._writer, rows, self._ids, file_id, note, update.stat, update.read_at_ns
        )
        counts["upserted"] += len(plan.inserted)
        counts["deleted"] += len(plan.deleted)
        counts["kept"] += len(plan.kept)
        counts["moved"] += len(plan.shifted)
        return [note.path] if old_path is None else [note.path, old_path]

    def _patch(self, update: PatchNote, rows: Rows, counts: dict[str, int]) -> list[str]:
        path = update.patch.note.path
        file_id = self._file_id(path)
        if file_id is None:
            raise AssertionError("a patch is of a note that the index has")
        before = self._begin_change(rows, file_id)
        plan, n_moved = patch_note(
            self._writer, rows, self._ids, file_id, update.patch, update.stat, update.read_at_ns
        )
        # It has the sections that there were.
        n_problems = len(update.patch.note.problems) - before.problems
        n_chunks = len(plan.inserted) - len(plan.deleted)
        self.counts += Counts(chunks=n_chunks, problems=n_problems)
        n_kept = before.chunks - len(plan.deleted) - len(plan.shifted) - n_moved
        counts["upserted"] += len(plan.inserted)
        counts["deleted"] += len(plan.deleted)
        counts["kept"] += n_kept
        counts["moved"] += len(plan.shifted) + n_moved
        return [path]

    def read_outline(self, path: str) -> Outline | None:
        """Return what a patch must know of a note as it is indexed, None if it is not."""
        with translating_errors():
            return read_outline(self._writer, path)

    def _file_id(self, path: str) -> int | None:
        found = self._writer.execute("SELECT id FROM files WHERE path = ?", (path,)).get
        return None if found is None else int(found)

    def _read_counts(self) -> Counts:
        """Return the counts as of the last commit; count the rows of an index without them."""
        row = self._writer.execute("SELECT value FROM meta WHERE key = 'counts'").get
        return self._count() if row is None else Counts(*map(int, row.split()))

    def _count(self) -> Counts:
        return Counts(*self._writer.execute(_COUNT).get)

    def _begin_change(self, rows: Rows, file_id: int) -> Counts:
        """Return the counts of a file that is about to change."""
        rows.begin_change(self._writer, file_id)
        return Counts(1, *self._writer.execute(_COUNT_OF, (file_id,)).get)

    def defer_merging(self) -> None:
        """Let FTS5 merge nothing until `tidy` does: for a caller that is about to write much."""
        if self._merging is not _FILLING:
            with transaction(self._writer):
                self._set_merging(_FILLING)
            self._must_merge = True

    def checkpoint(self) -> None:
        """Copy the WAL to the file if it has grown. It waits for the disk: call it when no client
        waits.
        """
        self._wal_pages.checkpoint(CHECKPOINT_PAGES)

    def tidy(self) -> bool:
        """Run one short step of maintenance: merge FTS5, then truncate the WAL and free memory.

        Returns False once there is no step left. `is_tidy` then tells whether deleted text has left
        the files: a running query keeps the WAL.
        """
        self.checkpoint()
        with translating_errors():
            if self._must_merge:
                # Each table takes a step, whatever the result of the first.
                steps = [self._merge(table) for table in FTS_TABLES]
                self._must_merge = any(steps)
                return True
            if self._merging is not _FILLED:
                self._set_merging(_FILLED)
                # They lie between what a large sync has freed: read again, they lie together.
                self._known = None
            self.is_tidy = self.file_guard.truncate_wal()
            release_memory(self._writer)
            return False

    def _merge(self, table: str) -> bool:
        """Merge some pages of one table; return True if there are more to merge."""
        before = self._writer.total_changes()
        statement = f"INSERT INTO {table}({table}, rank) VALUES('merge', ?)"
        self._writer.execute(statement, (-MERGE_PAGES,))
        return self._writer.total_changes() - before > 1

    def _set_merging(self, settings: Mapping[str, int]) -> None:
        for table in FTS_TABLES:
            statement = f"INSERT INTO {table}({table}, rank) VALUES(?, ?)"
            self._writer.executemany(statement, settings.items())
        self._merging = settings

    def check_not_truncated(self) -> None:
        """Raise StoreCorrupt, once, if another program truncated the file: pages that are cached
        can hide that for long.
        """
        if self.file_guard.find_tampering() is Tampering.TRUNCATED:
            self.file_guard.accept()
            raise StoreCorrupt(
                f"index.db {Tampering.TRUNCATED.value}", hint="memsyncd rebuilds it by itself"
            )

    def find_damage(self) -> str:
        """Return the finding of quick_check, empty if there is none."""
        with translating_errors():
            answer = self._writer.execute("PRAGMA quick_check(1)").get
        return "" if answer == "ok" else str(answer)

    def open_apart(self) -> apsw.Connection:
        """See `ConnectionPool.open_apart`."""
        return self.pool.open_apart()

    def size_bytes(self) -> int:
        """Return the size of the file and its WAL on the disk."""
        return sum(measure_file(f"{self.path}{suffix}") for suffix in ("", "-wal"))

    def close(self) -> None:
        is_in_place = self.file_guard.is_in_place()
        self.pool.close()
        self._writer.close()
        if is_in_place:
            self.checks.save_closed()


def remove_index(path: Path) -> None:
    """Delete the files of a closed index, if they exist. Raises StoreFailed if that fails."""
    with _translating_folder_errors():
        for suffix in ("", "-wal", "-shm", "-journal", SUFFIX):
            _remove(Path(f"{path}{suffix}"))


def replace_index(path: Path, rebuilt: Path) -> None:
    """Rename a closed index over another, which may be open: its connections keep the old file."""
    for old in (f"{path}-wal", f"{path}-shm", f"{path}{SUFFIX}", f"{rebuilt}{SUFFIX}"):
        _remove(Path(old))
    if path.is_dir() and not path.is_symlink():
        _remove(path)
    rebuilt.replace(path)


@contextlib.contextmanager
def _translating_folder_errors() -> Iterator[None]:
    """Translate OSError about the cache folder to StoreFailed."""
    try:
        yield
    except OSError as failure:
        why = failure.strerror or type(failure).__name__
        raise StoreFailed(f"the cache folder cannot be used: {why}", hint=ACCESS_HINT) from failure


def _remove(path: Path) -> None:
    """Remove a file or empty folder. Another folder is renamed, since it is not memsyncd's."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        if not path.is_dir():
            raise
        with contextlib.suppress(OSError):
            path.rmdir()
            return
        names = (f"{path}.aside-{number}" for number in itertools.count(1))
        path.rename(next(name for name in names if not os.path.lexists(name)))


def _recorded(row: Sequence[int | str]) -> tuple[str, Recorded]:
    path, *stat, digest, read_at_ns = row
    record = Recorded(
        stat=read_stat_row(stat),  # type: ignore[arg-type]
        digest=str(digest),
        read_at_ns=read_at_ns,  # type: ignore[arg-type]
    )
    return str(path), record
