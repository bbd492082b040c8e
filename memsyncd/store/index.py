"""One workspace's index.db: who may write it, who may read it, and is it still sound?

`Index` is the write side, for the writer's thread alone; `readers` may be used from any thread. Opening never repairs: it says
why a file must be rebuilt (`IndexUnfit`), and `engine.indexing` does that beside the old file.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from memsyncd.core.changes.diff import Recorded
from memsyncd.errors import IndexUnfit, StoreCorrupt, StoreFailed
from memsyncd.store.connections import Durability, naming_failures, open_writer, release_memory, transaction
from memsyncd.store.footing import Footing, Harm
from memsyncd.store.notes import Ids, Rows, add_note, change_note, drop_note, read_stat_row, stat_row
from memsyncd.store.readers import Readers
from memsyncd.store.schema import create_schema, is_empty, read_fingerprint
from memsyncd.store.updates import Counts, DropNote, PutNote, TouchNote, Update, Written

CACHE_HINT = "make it readable and writable for you (memsyncd doctor names it); memsyncd tries again by itself"
FTS_TABLES = ("chunks_fts", "chunks_exact")
MERGE_PAGES = 500
"""Pages of FTS5 that one step of tidying may write: some milliseconds, so that a save never waits long for it."""

_FILLING = {"automerge": 0, "crisismerge": 64}
"""For FTS5 in a new index: what is merged on the way would be merged again by the tidying that follows."""
_KEEPING = {"automerge": 4, "crisismerge": 16}
"""FTS5's own defaults."""

_RECORDED = "SELECT path, size, mtime_ns, ctime_ns, inode, device, digest, read_at_ns FROM files"
_TOUCH = "UPDATE files SET size=?, mtime_ns=?, ctime_ns=?, inode=?, device=?, read_at_ns=? WHERE path=?"
_COUNT_OF = (
    "SELECT (SELECT count(*) FROM sections WHERE file = ?1), (SELECT count(*) FROM chunks WHERE file = ?1),"
    " (SELECT count(*) FROM problems WHERE file = ?1)"
)


class Index:
    """The write side of an open index.db. Every method raises the classes of `store.connections.naming_failures`."""

    def __init__(self, path: Path, fingerprint: str, *, generation: int = 0) -> None:
        """Open `path`, or make it with `generation` if there is nothing. Raises IndexUnfit if what is there will not do."""
        self.path = path
        self.fingerprint = fingerprint
        with _naming_folder_failures():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_folder = path.is_dir()
        if is_folder:
            raise IndexUnfit("where index.db should be is a folder")
        try:
            self._writer = open_writer(str(path), Durability.REBUILDABLE)
            try:
                with naming_failures():
                    self._open(generation)
            except BaseException:
                self._writer.close()
                raise
        except StoreCorrupt as failure:
            raise IndexUnfit(f"index.db is damaged: {failure.message}") from failure
        self.readers = Readers(str(path))
        self._has_deleted = True
        self._is_filled = False
        self.is_tidy = False

    def _open(self, generation: int) -> None:
        self.is_new = is_empty(self._writer)
        if self.is_new:
            with transaction(self._writer):
                create_schema(self._writer, self.fingerprint, generation=generation)
                self._set_merging(_FILLING)
        elif read_fingerprint(self._writer) != self.fingerprint:
            raise IndexUnfit("index.db was made by another version or with other chunking")
        elif damage := self.find_damage():
            raise IndexUnfit(f"index.db is damaged: {damage}")
        self._ids = Ids.read(self._writer)
        self.generation = int(self._writer.execute("SELECT value FROM meta WHERE key = 'generation'").get or 0)
        self.counts = self._count()
        self.footing = Footing(self._writer, str(self.path))

    def recorded(self, only: Collection[str] | None = None) -> dict[str, Recorded]:
        """What the index knows of files; with `only`, of these paths and of what lies beneath them (an empty one is the root)."""
        with naming_failures():
            if only is None or "" in only:
                return dict(_recorded(row) for row in self._writer.execute(_RECORDED))
            found: dict[str, Recorded] = {}
            for path in only:
                beneath = (path, f"{path}/", f"{path}0")
                rows = self._writer.execute(f"{_RECORDED} WHERE path = ? OR (path >= ? AND path < ?)", beneath)
                found.update(_recorded(row) for row in rows)
            return found

    def read_digests(self) -> dict[str, str]:
        """What every note says, by path: far cheaper than `recorded`, where nothing else is needed."""
        with naming_failures():
            return dict(self._writer.execute("SELECT path, digest FROM files"))

    def apply(self, updates: Sequence[Update]) -> Written:
        """Write all of `updates` in one transaction. The generation grows if a note's content, place or existence changed."""
        rows, paths, ids_before, counts_before = Rows(), [], replace(self._ids), self.counts
        tally = {"upserted": 0, "deleted": 0, "kept": 0, "moved": 0}
        try:
            with transaction(self._writer):
                for update in updates:
                    paths += self._apply_one(update, rows, tally)
                rows.flush(self._writer)
                if paths:
                    self._writer.execute("UPDATE meta SET value = ? WHERE key = 'generation'", (str(self.generation + 1),))
        except BaseException:
            self._ids, self.counts = ids_before, counts_before
            raise
        if paths:
            self.generation += 1
        self._has_deleted = self._has_deleted or tally["deleted"] > 0
        self.is_tidy = False
        return Written(generation=self.generation, paths=tuple(dict.fromkeys(paths)), **tally)

    def _apply_one(self, update: Update, rows: Rows, tally: dict[str, int]) -> list[str]:
        match update:
            case PutNote():
                return self._put(update, rows, tally)
            case TouchNote(path=path, stat=stat, read_at_ns=read_at_ns):
                self._writer.execute(_TOUCH, (*stat_row(stat), read_at_ns, path))
                return []
            case DropNote(path=path):
                file_id = self._file_id(path)
                if file_id is None:
                    return []
                self.counts -= self._count_of(file_id)
                tally["deleted"] += drop_note(self._writer, file_id)
                return [path]
            case _:
                assert_never(update)

    def _put(self, update: PutNote, rows: Rows, tally: dict[str, int]) -> list[str]:
        note, old_path = update.note, update.moved_from
        file_id = self._file_id(note.path)
        if file_id is None and old_path is not None:
            file_id = self._file_id(old_path)
        # Counted note by note: counting all rows after each save would take the longer the more there are.
        self.counts += Counts(files=1, sections=len(note.sections), chunks=len(note.chunks), problems=len(note.problems))
        if file_id is None:
            tally["upserted"] += add_note(rows, self._ids, note, update.stat, update.read_at_ns)
            return [note.path]
        self.counts -= self._count_of(file_id)
        plan = change_note(self._writer, self._ids, file_id, note, update.stat, update.read_at_ns)
        tally["upserted"] += len(plan.inserted)
        tally["deleted"] += len(plan.deleted)
        tally["kept"] += len(plan.kept)
        tally["moved"] += len(plan.shifted)
        return [note.path] if old_path is None else [note.path, old_path]

    def _file_id(self, path: str) -> int | None:
        found = self._writer.execute("SELECT id FROM files WHERE path = ?", (path,)).get
        return None if found is None else int(found)

    def _count(self) -> Counts:
        row = self._writer.execute(
            "SELECT (SELECT count(*) FROM files), (SELECT count(*) FROM sections), (SELECT count(*) FROM chunks),"
            " (SELECT count(*) FROM problems)"
        ).get
        return Counts(files=row[0], sections=row[1], chunks=row[2], problems=row[3])

    def _count_of(self, file_id: int) -> Counts:
        row = self._writer.execute(_COUNT_OF, (file_id,)).get
        return Counts(files=1, sections=row[0], chunks=row[1], problems=row[2])

    def tidy(self) -> bool:
        """One short step of cleaning: merge FTS5, then empty the WAL and the memory. False once nothing more can be done at once.

        Then `is_tidy` says whether deleted text has left the files: a query that runs keeps the WAL as it is.
        """
        with naming_failures():
            if self._has_deleted:
                # All of them take a step, whatever the first one says.
                steps = [self._merge(table) for table in FTS_TABLES]
                self._has_deleted = any(steps)
                return True
            if not self._is_filled:
                self._set_merging(_KEEPING)
                self._is_filled = True
            self.is_tidy = self.footing.empty_log()
            release_memory(self._writer)
            return False

    def _merge(self, table: str) -> bool:
        """Merge some pages of one table; True if there is more to merge."""
        before = self._writer.total_changes()
        self._writer.execute(f"INSERT INTO {table}({table}, rank) VALUES('merge', ?)", (-MERGE_PAGES,))
        return self._writer.total_changes() - before > 1

    def _set_merging(self, settings: dict[str, int]) -> None:
        for table in FTS_TABLES:
            self._writer.executemany(f"INSERT INTO {table}({table}, rank) VALUES(?, ?)", settings.items())

    def is_in_place(self) -> bool:
        """As `Footing.is_in_place`."""
        return self.footing.is_in_place()

    def find_harm(self) -> Harm | None:
        """What somebody has done to the files, so that they must be made anew; None also if that cannot be told."""
        return self.footing.find_harm()

    def check_unharmed(self) -> None:
        """Raise StoreCorrupt, once, if another program has written into the file: what is in memory may hide that for long."""
        if self.footing.find_harm() is Harm.OVERWRITTEN:
            self.footing.accept()
            raise StoreCorrupt(f"index.db {Harm.OVERWRITTEN.value}", hint="memsyncd rebuilds it by itself")

    def find_damage(self) -> str:
        """What quick_check says, empty if all is well."""
        with naming_failures():
            answer = self._writer.execute("PRAGMA quick_check(1)").get
        return "" if answer == "ok" else str(answer)

    def size_bytes(self) -> int:
        """Of the file and its WAL, as the disk has them now."""
        return sum(_size(f"{self.path}{suffix}") for suffix in ("", "-wal"))

    def close(self) -> None:
        self.readers.close()
        self._writer.close()


def remove_index(path: Path) -> None:
    """Delete an index's files, if they are there; nobody may have them open. Raises StoreFailed if that cannot be."""
    with _naming_folder_failures():
        for suffix in ("", "-wal", "-shm", "-journal"):
            _clear(Path(f"{path}{suffix}"))


def replace_index(path: Path, fresh: Path) -> None:
    """Put a closed index in the place of another, which may be open: whoever has it open keeps it as it was."""
    for suffix in ("-wal", "-shm"):
        _clear(Path(f"{path}{suffix}"))
    if path.is_dir() and not path.is_symlink():
        _clear(path)
    fresh.replace(path)


@contextlib.contextmanager
def _naming_folder_failures() -> Iterator[None]:
    """Turn what the system says of the cache folder into StoreFailed."""
    try:
        yield
    except OSError as failure:
        why = failure.strerror or type(failure).__name__
        raise StoreFailed(f"the cache folder cannot be used: {why}", hint=CACHE_HINT) from failure


def _clear(path: Path) -> None:
    """Take away what stands there. A folder that holds something is given another name: it is none of ours."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        if not path.is_dir():
            raise
        with contextlib.suppress(OSError):
            path.rmdir()
            return
        number = next(number for number in itertools.count(1) if not os.path.lexists(f"{path}.aside-{number}"))
        path.rename(f"{path}.aside-{number}")


def _recorded(row: Sequence[int | str]) -> tuple[str, Recorded]:
    path, *stat, digest, read_at_ns = row
    return str(path), Recorded(stat=read_stat_row(stat), digest=str(digest), read_at_ns=read_at_ns)  # type: ignore[arg-type]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
