"""Write one workspace's index.db.

Only the writer's thread may use `Index`; any thread may use its `pool`. Every write is a value of
the closed union `Update`. Opening never repairs: IndexUnfit says why a file must be rebuilt, and
the engine builds another file beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import add, sub
from pathlib import Path
from typing import assert_never

import apsw
import msgspec
from msgspec.structs import astuple, replace

from memsyncd.core.changes.diff import FileStat, KnownStats, Recorded, hash_record
from memsyncd.core.editing.kinds import DEFAULT_KINDS, KindDefaults
from memsyncd.core.model import Note, NotePatch, Outline, OutlineSection
from memsyncd.errors import IndexUnfit, StoreCorrupt, StoreFailed
from memsyncd.store.connection import (
    ACCESS_HINT,
    Durability,
    WalPages,
    open_writer,
    release_memory,
    transaction,
    translating_errors,
)
from memsyncd.store.counts import CountChanges, count_ambiguous, find_day, list_kinds
from memsyncd.store.integrity import SUFFIX, CheckState, Ending, FileGuard, Tampering, measure_file
from memsyncd.store.outlooks import Outlooks
from memsyncd.store.pool import ConnectionPool, Reader
from memsyncd.store.rows import (
    Ids,
    Rows,
    add_note,
    change_note,
    drop_note,
    move_moments,
    move_standings,
    patch_note,
    read_stat_row,
    stat_row,
)
from memsyncd.store.schema import (
    create_schema,
    drop_question_indexes,
    is_empty,
    list_missing_indexes,
    read_fingerprint,
)
from memsyncd.store.texts import has_lost_secret, read_headings, read_outline

FTS_TABLES = ("chunks_fts", "chunks_exact")
# A step of `tidy` should take so long, because a save may wait for it. The first step writes
# FIRST_PAGES pages of FTS5; each later step gets as many as fit into this time.
STEP_S = 0.005
FEWEST_PAGES, FIRST_PAGES, MOST_PAGES = 4, 16, 4000
# If this share of rows, compared with all chunks, has changed since the last full merge of FTS5,
# everything is merged again. Until then the words of deleted chunks stay in the file, and queries
# skip them. With FTS5's own secure-delete, each save would write each page that has such a word.
FULL_MERGE_SHARE = 0.2
FULL_MERGE_LEAST = 100

# A WAL of CHECKPOINT_PAGES is copied to the file after a save was answered; a WAL of MOST_WAL_PAGES
# is copied before the next commit.
CHECKPOINT_PAGES = 1000
MOST_WAL_PAGES = 4000
# `tidy` truncates a WAL of this size or more. A smaller WAL stays: if it were copied after each
# save, each page would be written twice, and many pages again with the next save.
TRUNCATED_WAL_BYTES = CHECKPOINT_PAGES * 4096

# After more updates at once than this, the known stats are dropped and read again when a scan needs
# them. If they were kept up to date, they would lie between the short-lived objects of a large sync
# and prevent the memory from being freed.
KNOWN_UPDATES_LIMIT = 64
# From so many paths on, reading all records is cheaper than looking up each path.
MANY_PATHS = 500

_RECORDED = "SELECT path, size, mtime_ns, ctime_ns, inode, device, digest, read_at_ns FROM files"
_KNOWN = "SELECT path, size, mtime_ns, ctime_ns, inode, device, read_at_ns FROM files"
_TOUCH = (
    "UPDATE files SET size=?, mtime_ns=?, ctime_ns=?, inode=?, device=?, read_at_ns=? WHERE path=?"
)
_SAVED = "SELECT mtime_ns FROM files WHERE id = ?"
_COUNT = (
    "SELECT (SELECT count(*) FROM files), (SELECT count(*) FROM sections),"
    " (SELECT count(*) FROM chunks), (SELECT count(*) FROM problems)"
)
_PUT_META = (
    "INSERT OR REPLACE INTO meta(key, value)"
    " VALUES('generation', ?), ('counts', ?), ('unmerged', ?)"
)
_PUT_UNMERGED = "INSERT OR REPLACE INTO meta(key, value) VALUES('unmerged', ?)"
_COUNT_OF = (
    "SELECT (SELECT count(*) FROM sections WHERE file = ?1),"
    " (SELECT count(*) FROM chunks WHERE file = ?1),"
    " (SELECT count(*) FROM problems WHERE file = ?1)"
)
_OPENINGS = itertools.count(1)


# --- updates ------------------------------------------------------------------------------------


class PutNote(msgspec.Struct, frozen=True, kw_only=True):
    """The note is new or its bytes have changed: only rows that differ are written.

    `moved_from` is the note's former path. Its rows are taken over, and only rows that contain the
    path are rewritten.
    """

    note: Note
    stat: FileStat
    read_at_ns: int
    moved_from: str | None = None


class PatchNote(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of an indexed note have changed, but no heading: only their sections change."""

    patch: NotePatch
    stat: FileStat
    read_at_ns: int


class TouchNote(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes are the same, but the stat of the file has changed."""

    path: str
    stat: FileStat
    read_at_ns: int


class DropNote(msgspec.Struct, frozen=True):
    """The note was deleted."""

    path: str


Update = PutNote | PatchNote | TouchNote | DropNote


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one transaction.

    `paths` are the notes whose content, path or existence has changed; `moved` counts chunks whose
    lines or path have changed, while their text has not.
    """

    generation: int
    paths: tuple[str, ...] = ()
    upserted: int = 0
    deleted: int = 0
    kept: int = 0
    moved: int = 0


class Counts(msgspec.Struct, frozen=True):
    """The number of rows in an index; `problems` counts the problems of its notes."""

    files: int = 0
    sections: int = 0
    chunks: int = 0
    problems: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*map(sub, astuple(self), astuple(other)))


class Unmerged(msgspec.Struct, frozen=True):
    """The number of rows of FTS5 that were written or deleted since its last full merge.

    `is_urgent` is true if words among them must leave the file soon.
    """

    n_rows: int = 0
    is_urgent: bool = False

    @classmethod
    def parse(cls, text: str) -> Unmerged:
        n_rows, is_urgent = text.split()
        return cls(int(n_rows), is_urgent == "1")

    def render(self) -> str:
        return f"{self.n_rows} {int(self.is_urgent)}"

    def __add__(self, other: Unmerged) -> Unmerged:
        return Unmerged(self.n_rows + other.n_rows, self.is_urgent or other.is_urgent)


def read_counts(reader: Reader) -> Counts:
    """Return the counts in an index of any version. Raises ValueError for other values."""
    with translating_errors():
        value: str = reader.rows("SELECT value FROM meta WHERE key = 'counts'")[0][0]
    files, sections, chunks, problems = map(int, value.split())
    return Counts(files, sections, chunks, problems)


# --- the index ----------------------------------------------------------------------------------


class Index:
    """The write side of an open index.db. Methods raise the classes of `translating_errors`."""

    def __init__(
        self,
        path: Path,
        fingerprint: str,
        *,
        kinds: Mapping[str, KindDefaults] = DEFAULT_KINDS,
        generation: int = 0,
        is_sound: bool = False,
        is_filling: bool = False,
    ) -> None:
        """Open `path`, or create it with `generation` if it is missing. `kinds` value topics. With
        `is_filling`, an index without notes gets the indexes that only questions need later, from
        `index_rows`.

        The time does not grow with the size of the index, unless another program may have written
        to it: then the whole file is checked, except if the caller knows that it `is_sound`. Raises
        IndexUnfit if the file must be rebuilt.
        """
        self.path = path
        self.fingerprint = fingerprint
        self._kinds = kinds
        with _translating_folder_errors():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_folder = path.is_dir()
        if is_folder:
            raise IndexUnfit("index.db is a folder")
        self.checks = CheckState(path)
        self.opening = next(_OPENINGS)
        """A number that grows with each opened index, because ids of rows belong to one file."""
        try:
            self._writer = open_writer(str(path), Durability.REBUILDABLE)
            try:
                with translating_errors():
                    self._open(generation, is_sound=is_sound, is_filling=is_filling)
            except BaseException:
                self._writer.close()
                raise
        except StoreCorrupt as failure:
            self.checks.note_damage()
            raise IndexUnfit(f"index.db is damaged: {failure.message}") from failure
        self.pool = ConnectionPool(str(path), self.file_guard.is_in_place)
        self._to_merge = [*FTS_TABLES]
        """The tables of FTS5 that may have segments to merge, in the order of their turns."""
        self._n_pages = dict.fromkeys(FTS_TABLES, FIRST_PAGES)
        self._merging: Unmerged | None = None
        """The changes that the running full merge covers."""
        self._to_raise: list[str] = []
        """The tables whose segments the full merge still has to raise to a higher level."""
        self.is_tidy = False
        self._known: KnownStats | None = None

    def _open(self, generation: int, *, is_sound: bool, is_filling: bool) -> None:
        self.is_new = is_empty(self._writer)
        if self.is_new:
            with transaction(self._writer):
                create_schema(self._writer, self.fingerprint, generation=generation)
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
        self._outlooks = Outlooks.read(self._writer)
        generation_row = "SELECT value FROM meta WHERE key = 'generation'"
        self.generation = int(self._writer.execute(generation_row).get or 0)
        self.counts = self._read_counts()
        unmerged_row = "SELECT value FROM meta WHERE key = 'unmerged'"
        self._unmerged = Unmerged.parse(self._writer.execute(unmerged_row).get or "0 0")
        """The changes since the last full merge began."""
        self.file_guard = FileGuard(self._writer, str(self.path))
        self._wal_pages = WalPages(self._writer)
        if is_filling and not self.counts.files:
            with transaction(self._writer):
                drop_question_indexes(self._writer)
        elif not is_filling:
            self.index_rows()

    def recorded(self, only: Collection[str] | None = None) -> dict[str, Recorded]:
        """Return the records of files in the index, by path.

        `only` limits them to these paths and the paths below them; an empty path is the root.
        """
        with translating_errors():
            if only is None or "" in only:
                return dict(_recorded(row) for row in self._writer.execute(_RECORDED))
            records: dict[str, Recorded] = {}
            for path in only:
                below = (path, f"{path}/", f"{path}0")
                where = "WHERE path = ? OR (path >= ? AND path < ?)"
                rows = self._writer.execute(f"{_RECORDED} {where}", below)
                records.update(_recorded(row) for row in rows)
            return records

    def find_recorded(self, paths: Collection[str]) -> dict[str, Recorded]:
        """Return the records of exactly these files, by path."""
        with translating_errors():
            if len(paths) >= MANY_PATHS:
                rows = [row for row in self._writer.execute(_RECORDED) if row[0] in paths]
            else:
                results = (self._writer.execute(f"{_RECORDED} WHERE path = ?", (p,)) for p in paths)
                rows = list(itertools.chain.from_iterable(results))
        return dict(map(_recorded, rows))

    def find_former_paths(self, files: Iterable[FileStat]) -> set[str]:
        """Return the paths under which the index has these files: a rename keeps the inode and the
        time of the last change.
        """
        select = "SELECT path FROM files WHERE mtime_ns = ? AND inode = ?"
        with translating_errors():
            rows = (self._writer.execute(select, stat_row(file)[1:4:2]) for file in files)
            return {path for (path,) in itertools.chain.from_iterable(rows)}

    def known_stats(self) -> KnownStats:
        """Return the hash of the stat of every recorded file, for a scan of the whole workspace.

        They are read once, and `apply` keeps them up to date; so a caller must not keep them.
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
        """Yield the path and the digest of every note: far cheaper than `recorded`.

        The caller must read to the end before the next write.
        """
        with translating_errors():
            yield from self._writer.execute("SELECT path, digest FROM files")

    def apply(self, updates: Sequence[Update]) -> Written:
        """Write all updates in one transaction.

        The generation increases if a note's content, path or existence has changed.
        """
        self._wal_pages.checkpoint(MOST_WAL_PAGES)
        paths, ids_before = [], replace(self._ids)
        last_outlook = self._outlooks.last
        counts_before, unmerged_before = self.counts, self._unmerged
        counts = {"upserted": 0, "deleted": 0, "kept": 0, "moved": 0}
        try:
            with transaction(self._writer):
                counting = CountChanges(self._writer)
                counting.advance(_find_time_s(updates))
                rows = Rows(
                    counts=counting,
                    kinds=self._kinds,
                    outlooks=self._outlooks,
                    generation=self.generation + 1,
                )
                for update in updates:
                    paths += self._apply_one(update, rows, counts)
                rows.flush(self._writer)
                self._unmerged += Unmerged(counts["upserted"] + counts["deleted"])
                if paths:
                    counts_row = " ".join(map(str, astuple(self.counts)))
                    values = (str(self.generation + 1), counts_row, self._all_unmerged().render())
                    self._writer.execute(_PUT_META, values)
        except BaseException:
            self._ids, self.counts, self._known = ids_before, counts_before, None
            self._unmerged = unmerged_before
            self._outlooks.roll_back(last_outlook)
            raise
        self._update_known(updates)
        if paths:
            self.generation += 1
        if counts["upserted"] or counts["deleted"]:
            self._to_merge = [*FTS_TABLES]
        self.is_tidy = False
        changed = tuple(dict.fromkeys(paths))
        return Written(generation=self.generation, paths=changed, **counts)

    def _update_known(self, updates: Sequence[Update]) -> None:
        stats = self._known
        if stats is None or len(updates) > KNOWN_UPDATES_LIMIT:
            self._known = None
            return
        for update in updates:
            match update:
                case PutNote(note=note, stat=stat, read_at_ns=read_at_ns, moved_from=old_path):
                    # A note that exists keeps its own rows, and the other path its.
                    if old_path is not None and note.path not in stats:
                        stats.pop(old_path, None)
                    stats[note.path] = hash_record(note.path, stat, read_at_ns)
                case PatchNote(patch=patch, stat=stat, read_at_ns=read_at_ns):
                    path = patch.note.path
                    stats[path] = hash_record(path, stat, read_at_ns)
                case TouchNote(path=path, stat=stat, read_at_ns=read_at_ns):
                    if path in stats:
                        stats[path] = hash_record(path, stat, read_at_ns)
                case DropNote(path=path):
                    stats.pop(path, None)
                case _:
                    assert_never(update)

    def _apply_one(self, update: Update, rows: Rows, counts: dict[str, int]) -> list[str]:
        match update:
            case PutNote():
                return self._put(update, rows, counts)
            case PatchNote():
                return self._patch(update, rows, counts)
            case TouchNote(path=path, stat=stat, read_at_ns=read_at_ns):
                file_id = self._file_id(path)
                if file_id is not None:
                    self._recount_touched(rows, file_id, stat)
                    move_moments(self._writer, file_id, stat)
                    rows.valued.add(file_id)
                    move_standings(self._writer, file_id, stat)
                self._writer.execute(_TOUCH, (*stat_row(stat), read_at_ns, path))
                return []
            case DropNote(path=path):
                file_id = self._file_id(path)
                if file_id is None:
                    return []
                self.counts -= self._begin_change(rows, file_id, "")
                _subtract(rows, file_id)
                counts["deleted"] += drop_note(self._writer, rows, file_id, path)
                return [path]
            case _:
                assert_never(update)

    def _recount_touched(self, rows: Rows, file_id: int, stat: FileStat) -> None:
        """Count the sections of a note anew if it was saved on another day."""
        mtime_ns = self._writer.execute(_SAVED, (file_id,)).get
        if find_day(mtime_ns) != find_day(stat_row(stat)[1]):
            rows.begin_change(self._writer, file_id)
            _subtract(rows, file_id)
            rows.recounted.add(file_id)

    def _put(self, update: PutNote, rows: Rows, counts: dict[str, int]) -> list[str]:
        note, old_path = update.note, update.moved_from
        file_id = self._file_id(note.path)
        if file_id is None and old_path is not None:
            file_id = self._file_id(old_path)
        # Each note is counted by itself: counting all rows after each save would take longer, the
        # more rows there are.
        self.counts += Counts(
            files=1,
            sections=len(note.sections),
            chunks=len(note.chunks),
            problems=len(note.problems),
        )
        if file_id is None:
            counts["upserted"] += add_note(rows, self._ids, note, update.stat, update.read_at_ns)
            return [note.path]
        self.counts -= self._begin_change(rows, file_id, note.text)
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
            raise AssertionError("a patch needs a note that the index has")
        before = self._begin_change(rows, file_id, update.patch.note.text)
        plan, n_moved, n_sections = patch_note(
            self._writer, rows, self._ids, file_id, update.patch, update.stat, update.read_at_ns
        )
        n_problems = len(update.patch.note.problems) - before.problems
        n_chunks = len(plan.inserted) - len(plan.deleted)
        self.counts += Counts(sections=n_sections, chunks=n_chunks, problems=n_problems)
        n_kept = before.chunks - len(plan.deleted) - len(plan.shifted) - n_moved
        counts["upserted"] += len(plan.inserted)
        counts["deleted"] += len(plan.deleted)
        counts["kept"] += n_kept
        counts["moved"] += len(plan.shifted) + n_moved
        return [path]

    def read_outline(self, path: str) -> Outline | None:
        """Return the outline of an indexed note, which a patch needs; None if it is not indexed."""
        with translating_errors():
            return read_outline(self._writer, path)

    def read_headings(self, path: str, digest: str) -> tuple[OutlineSection, ...] | None:
        """Return the sections of a note in the order of lines; None unless its text is indexed with
        this digest.
        """
        with translating_errors():
            return read_headings(self._writer, path, digest)

    def list_kinds(self) -> tuple[str, ...]:
        """Return the kinds that sections have, as of the last commit."""
        with translating_errors():
            return list_kinds(self._writer)

    def count_ambiguous(self) -> int:
        """Count the links whose name several notes have, as of the last commit."""
        with translating_errors():
            return count_ambiguous(self._writer)

    def _file_id(self, path: str) -> int | None:
        file_id = self._writer.execute("SELECT id FROM files WHERE path = ?", (path,)).get
        return None if file_id is None else int(file_id)

    def _read_counts(self) -> Counts:
        """Return the counts as of the last commit; if the index has none, count its rows."""
        row = self._writer.execute("SELECT value FROM meta WHERE key = 'counts'").get
        return self._count() if row is None else Counts(*map(int, row.split()))

    def _count(self) -> Counts:
        return Counts(*self._writer.execute(_COUNT).get)

    def _begin_change(self, rows: Rows, file_id: int, text: str) -> Counts:
        """Return the counts of a file that is about to change to `text`."""
        rows.begin_change(self._writer, file_id)
        if has_lost_secret(self._writer, file_id, text):
            self._unmerged += Unmerged(is_urgent=True)
        return Counts(1, *self._writer.execute(_COUNT_OF, (file_id,)).get)

    def index_rows(self) -> None:
        """Make the indexes that only questions need, if they are missing."""
        for sql in list_missing_indexes(self._writer):
            self._wal_pages.checkpoint(MOST_WAL_PAGES)
            with transaction(self._writer):
                self._writer.execute(sql)

    def checkpoint(self) -> None:
        """Copy the WAL to the file if it has grown.

        This waits for the disk, so call it when no client waits.
        """
        self._wal_pages.checkpoint(CHECKPOINT_PAGES)

    def purge(self) -> None:
        """Make the next steps of `tidy` remove all deleted text from the files."""
        if self._unmerged.n_rows:
            self._unmerged += Unmerged(is_urgent=True)
            with transaction(self._writer):
                self._writer.execute(_PUT_UNMERGED, (self._all_unmerged().render(),))

    def tidy(self, step_s: float = STEP_S) -> bool:
        """Run a step of maintenance, which should take `step_s`.

        A step merges some segments of FTS5. The last step drops outlooks that no memory has, frees
        memory, and truncates the WAL if it is large or holds text that must leave. Returns False if
        no step is left; then `is_tidy` is False if a running query keeps the WAL.
        """
        self.checkpoint()
        with translating_errors():
            if self._merging is None and self._must_merge_all():
                self._merging, self._unmerged = self._unmerged, Unmerged()
                n_times = max(1, (self.counts.chunks.bit_length() - 3) // 2)
                self._to_raise = [*FTS_TABLES] * n_times
            if self._to_raise:
                self._raise_segments(self._to_raise.pop())
                self._to_merge = [*FTS_TABLES]
                return True
            if self._to_merge:
                table = self._to_merge.pop(0)
                if self._merge(table, step_s):
                    self._to_merge.append(table)
                return True
            if not list_missing_indexes(self._writer):
                self._outlooks.drop_unused(self._writer)
            self.is_tidy = self._end_tidying()
            release_memory(self._writer)
            return self.is_tidy and self._must_merge_all()

    def _must_merge_all(self) -> bool:
        share = self._unmerged.n_rows / max(1, self.counts.chunks)
        is_due = self._unmerged.n_rows >= FULL_MERGE_LEAST and share >= FULL_MERGE_SHARE
        return self._unmerged.is_urgent or is_due

    def _raise_segments(self, table: str) -> None:
        """Begin to merge all segments of a table, into a segment two levels above them.

        FTS5 merges all segments of a level into a segment of the next level. So a large segment
        must be many levels above new segments: each level halves how often it is merged. FTS5 makes
        two levels when it begins a full merge while a segment is not yet part of such a merge.
        """
        with transaction(self._writer):
            self._writer.execute(f"INSERT INTO {table}(rowid, text) VALUES(0, 'x')")
            self._writer.execute(f"DELETE FROM {table} WHERE rowid = 0")
        self._write_merged(table, -1)

    def _merge(self, table: str, step_s: float) -> bool:
        """Merge some pages of a table; return True if there are more to merge."""
        n_pages, began_s = self._n_pages[table], time.thread_time()
        n_changed = self._write_merged(table, n_pages)
        took_s = max(time.thread_time() - began_s, 1e-6)
        fitting = int(n_pages * min(2.0, step_s / took_s))
        self._n_pages[table] = max(FEWEST_PAGES, min(fitting, MOST_PAGES))
        return n_changed > 1

    def _write_merged(self, table: str, n_pages: int) -> int:
        """Let FTS5 merge up to `n_pages` pages; return the number of rows that it changed.

        If `n_pages` is negative, FTS5 merges everything.
        """
        before = self._writer.total_changes()
        statement = f"INSERT INTO {table}({table}, rank) VALUES('merge', ?)"
        self._writer.execute(statement, (n_pages,))
        return self._writer.total_changes() - before

    def _end_tidying(self) -> bool:
        """Truncate the WAL if that is due. Return False if a query prevents it."""
        if self._merging is None and self.file_guard.wal_bytes() < TRUNCATED_WAL_BYTES:
            return True
        if not self.file_guard.truncate_wal():
            return False
        if self._merging is not None:
            # This must come after the truncation. Otherwise, after a kill, nothing would show that
            # the WAL still has deleted text.
            self._merging = None
            with transaction(self._writer):
                self._writer.execute(_PUT_UNMERGED, (self._unmerged.render(),))
            self.file_guard.truncate_wal()
            # The known stats lie scattered in memory that a large sync has freed. When they are
            # read again, they lie together.
            self._known = None
        return True

    def _all_unmerged(self) -> Unmerged:
        return self._unmerged + (self._merging or Unmerged())

    def check_not_truncated(self) -> None:
        """Raise StoreCorrupt, once, if another program has truncated the file.

        Cached pages can hide such damage for a long time.
        """
        if self.file_guard.find_tampering() is Tampering.TRUNCATED:
            self.file_guard.accept()
            raise StoreCorrupt(
                f"index.db {Tampering.TRUNCATED.value}", hint="memsyncd rebuilds it by itself"
            )

    def find_damage(self) -> str:
        """Return the finding of SQLite's quick_check; empty if there is none."""
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
    """Rename a closed index over another; if that is open, its connections keep the old file."""
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
    """Remove a file or empty folder. Any other folder is renamed, because it is not memsyncd's."""
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


def _subtract(rows: Rows, file_id: int) -> None:
    if rows.counts is not None:
        rows.counts.subtract_stored(file_id)


def _find_time_s(updates: Iterable[Update]) -> float:
    """Return when the latest of the notes was read, 0 if none was."""
    notes = (each for each in updates if isinstance(each, PutNote | PatchNote | TouchNote))
    return max((note.read_at_ns / 1e9 for note in notes), default=0.0)


def _recorded(row: Sequence[int | str]) -> tuple[str, Recorded]:
    path, *stat, digest, read_at_ns = row
    record = Recorded(
        stat=read_stat_row(stat),  # type: ignore[arg-type]
        digest=str(digest),
        read_at_ns=read_at_ns,  # type: ignore[arg-type]
    )
    return str(path), record
