"""records.db: what cannot be made again from the notes. Which version is it, and what may be written to it?

Numbered migrations that keep everything; every commit is on the disk before it is answered. A file that is damaged is set aside
under another name, never deleted; one made by a newer program is refused.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from memsyncd.errors import StoreCorrupt, StoreFailed
from memsyncd.store.arrivals import Arrivals
from memsyncd.store.connections import (
    Durability,
    check_readable,
    name_failure,
    naming_failures,
    open_writer,
    release_memory,
    transaction,
)
from memsyncd.store.entries import Move
from memsyncd.store.export import Export
from memsyncd.store.footing import Footing, Harm
from memsyncd.store.history import History
from memsyncd.store.soundness import ASIDE_MARK
from memsyncd.store.texts import Texts
from memsyncd.store.tips import Tips

__all__ = ["Move", "Records"]

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE workspace(
      id TEXT PRIMARY KEY,
      root TEXT NOT NULL,
      created_at REAL NOT NULL
    ) STRICT;
    CREATE TABLE moves(
      id INTEGER PRIMARY KEY,
      old_path TEXT NOT NULL,
      new_path TEXT NOT NULL,
      digest TEXT NOT NULL,
      seen_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX moves_by_new_path ON moves(new_path);
    """,
    """
    CREATE TABLE meta(
      key TEXT PRIMARY KEY,
      value TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE texts(
      digest TEXT PRIMARY KEY CHECK (length(digest) = 32),
      size INTEGER NOT NULL CHECK (size >= 0),
      base TEXT REFERENCES texts(digest) DEFERRABLE INITIALLY DEFERRED CHECK (base <> digest),
      height INTEGER NOT NULL DEFAULT 0 CHECK (height >= 0),
      data BLOB NOT NULL
    ) STRICT;
    CREATE INDEX texts_by_base ON texts(base) WHERE base IS NOT NULL;
    CREATE TABLE tips(
      path TEXT PRIMARY KEY,
      digest TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tips_by_digest ON tips(digest);
    CREATE TABLE acts(
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at REAL NOT NULL,
      client TEXT NOT NULL,
      command TEXT NOT NULL,
      path TEXT NOT NULL,
      new_path TEXT
    ) STRICT;
    CREATE INDEX acts_by_at ON acts(at);
    CREATE TABLE revisions(
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      act INTEGER NOT NULL REFERENCES acts(id) ON DELETE CASCADE,
      path TEXT NOT NULL,
      old_path TEXT CHECK (old_path <> path),
      old_digest TEXT,
      new_digest TEXT,
      state TEXT NOT NULL CHECK (state IN ('intended', 'done'))
    ) STRICT;
    CREATE INDEX revisions_by_act ON revisions(act);
    CREATE INDEX revisions_by_path ON revisions(path);
    CREATE INDEX revisions_by_old_path ON revisions(old_path) WHERE old_path IS NOT NULL;
    CREATE INDEX revisions_by_old_digest ON revisions(old_digest);
    CREATE INDEX revisions_by_new_digest ON revisions(new_digest);
    CREATE INDEX revisions_intended ON revisions(act) WHERE state = 'intended';
    """,
)
"""Script n leads from version n to n + 1; what stands here has run on people's machines and never changes."""


_DISK = "disk"
LOG_SUFFIXES = ("-wal", "-shm", "-journal")
TEXT_LIMIT_BYTES = 257 * 1024 * 1024
"""What may be configured as a note's size, and what its row needs besides: here a text is one value."""


class Records:
    """One workspace's records.db, for the writer's thread. Methods raise the classes of `store.connections.naming_failures`.

    `history` is what notes said before, and who changed them; `arrivals` takes in what another records.db holds.
    """

    def __init__(self, path: Path, *, workspace: str, root: str, now_s: float) -> None:
        """Open or make the file and bring it to this version. `set_aside` then names a damaged one that was moved away."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self.set_aside: Path | None = None
        if path.is_dir():
            self.set_aside = self._put_aside(now_s, "")
        try:
            self._writer = self._open(workspace, root, now_s)
        except StoreCorrupt:
            self._writer = self._open_again(workspace, root, now_s)
        self.footing = Footing(self._writer, str(path))
        self._texts, tips = Texts(self._writer), Tips(self._writer)
        self.history = History(self._writer, self._texts, tips, self.footing)
        self.arrivals = Arrivals(self._writer, self._texts, tips)
        with naming_failures():
            disk = self._writer.execute("SELECT value FROM meta WHERE key = ?", (_DISK,)).get
        self.disk = None if disk is None else int(disk)
        """On which device its notes lay when they were last seen."""

    def _open_again(self, workspace: str, root: str, now_s: float) -> apsw.Connection:
        """What could not be read once may be sound: it is set aside only if the disk gives it out and it is damaged still."""
        for suffix in ("", "-wal"):
            if os.path.exists(f"{self.path}{suffix}"):
                check_readable(f"{self.path}{suffix}")
        try:
            return self._open(workspace, root, now_s)
        except StoreCorrupt:
            self.set_aside = self._put_aside(now_s, *LOG_SUFFIXES) if _size(f"{self.path}-wal") else None
        if self.set_aside is not None:
            # The file may be whole without its log: then only what came last is missing.
            with contextlib.suppress(StoreCorrupt):
                return self._open(workspace, root, now_s)
        self.set_aside = self._put_aside(now_s, "", *LOG_SUFFIXES)
        return self._open(workspace, root, now_s)

    def _put_aside(self, now_s: float, *suffixes: str) -> Path:
        """Rename the file or what is named of what belongs to it; the new name says when."""
        aside = self.path.with_name(f"{self.path.name}{ASIDE_MARK}{int(now_s)}")
        while any(os.path.lexists(f"{aside}{suffix}") for suffix in ("", *LOG_SUFFIXES)):
            aside = aside.with_name(f"{aside.name}x")
        for suffix in suffixes:
            if os.path.lexists(f"{self.path}{suffix}"):
                os.rename(f"{self.path}{suffix}", f"{aside}{suffix}")
        return aside

    def _open(self, workspace: str, root: str, now_s: float) -> apsw.Connection:
        writer = open_writer(str(self.path), Durability.LASTING)
        writer.limit(apsw.SQLITE_LIMIT_LENGTH, TEXT_LIMIT_BYTES)
        try:
            if writer.execute("PRAGMA quick_check(1)").get != "ok":
                raise StoreCorrupt("records.db is damaged")
            _migrate(writer)
            with transaction(writer):
                row = (workspace, root, now_s)
                writer.execute("INSERT INTO workspace VALUES(?,?,?) ON CONFLICT(id) DO UPDATE SET root = excluded.root", row)
        except apsw.Error as failure:
            writer.close()
            raise name_failure(failure) from failure
        except BaseException:
            writer.close()
            raise
        return writer

    def add_moves(self, moves: Sequence[Move]) -> None:
        rows = [(move.old_path, move.new_path, move.digest, move.seen_at_s) for move in moves]
        with transaction(self._writer):
            self._writer.executemany("INSERT INTO moves(old_path, new_path, digest, seen_at) VALUES(?,?,?,?)", rows)

    def has_moves(self) -> bool:
        """False while there is no use in `find_moves`."""
        with naming_failures():
            return self._writer.execute("SELECT 1 FROM moves LIMIT 1").get is not None

    def find_moves(self, new_path: str) -> list[Move]:
        """Moves that ended at `new_path`, newest first."""
        rows: list[Any] = self._writer.execute(
            "SELECT old_path, new_path, digest, seen_at FROM moves WHERE new_path = ? ORDER BY id DESC", (new_path,)
        ).fetchall()
        return [Move(old_path=row[0], new_path=row[1], digest=row[2], seen_at_s=row[3]) for row in rows]

    def remember_disk(self, device: int | None) -> None:
        """On which device its notes lie; None if there are none."""
        if device != self.disk:
            with transaction(self._writer):
                self._writer.execute("DELETE FROM meta WHERE key = ?", (_DISK,))
                if device is not None:
                    self._writer.execute("INSERT INTO meta VALUES(?,?)", (_DISK, str(device)))
            self.disk = device

    def export(self) -> Export:
        """What there is to hand on to another records.db."""
        return Export(self._writer, self._texts)

    def find_set_aside(self) -> list[str]:
        """The names of damaged files that were moved away and lie beside this one."""
        return sorted(file.name for file in self.path.parent.glob(f"{self.path.name}{ASIDE_MARK}*"))

    def find_harm(self) -> Harm | None:
        """What somebody has done to the file: nobody would find what is written to it from then on, or much later."""
        return self.footing.find_harm()

    def leave(self, harm: Harm, *, now_s: float) -> None:
        """Close a harmed file, so that nothing of what was written is lost, or mixed with what stands there now.

        Raises the classes of `naming_failures` if that cannot be done now; it is open then.
        """
        if harm is Harm.OVERWRITTEN:
            # Whether the log still belongs to the file has to be found out first.
            self._writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        else:
            with naming_failures():
                n_frames, n_done = self._writer.wal_checkpoint()
            if n_done < n_frames:
                raise StoreFailed("another program is reading records.db", hint="let it end; memsyncd goes on by itself")
        self._writer.close()
        if harm is Harm.REPLACED:
            self.footing.remove_log()
        elif harm is Harm.OVERWRITTEN and not _size(str(self.path)):
            # Beside an empty file SQLite would throw the log away.
            self._put_aside(now_s, "", *LOG_SUFFIXES)

    def tidy(self) -> bool:
        """Once there is nothing to do: empty the WAL and let go of what was read. False if somebody who reads keeps the WAL."""
        with naming_failures():
            release_memory(self._writer)
            return self.footing.tidy()

    def close(self) -> None:
        self._writer.close()


def _migrate(writer: apsw.Connection) -> None:
    version = int(writer.pragma("user_version"))
    if version > len(MIGRATIONS):
        raise StoreFailed(
            f"records.db has version {version}, newer than this program's {len(MIGRATIONS)}",
            hint="run the newer memsyncd that made it: pip install --upgrade memsyncd",
        )
    for number in range(version, len(MIGRATIONS)):
        with transaction(writer):
            writer.execute(MIGRATIONS[number])
            writer.pragma("user_version", number + 1)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
