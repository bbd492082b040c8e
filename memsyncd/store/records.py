"""records.db: what cannot be made again from the notes. Which version is it, and what may be written to it?

Numbered migrations that keep everything; every commit is on the disk before it is answered. A file that is damaged is set aside
under another name, never deleted; one made by a newer program is refused.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apsw

from memsyncd.errors import StoreCorrupt, StoreFailed
from memsyncd.store.connections import (
    Durability,
    check_readable,
    name_failure,
    naming_failures,
    open_writer,
    release_memory,
    transaction,
)
from memsyncd.store.footing import Footing, Harm
from memsyncd.store.history import History
from memsyncd.store.identity import (
    FOREIGN_MARK,
    LOG_SUFFIXES,
    OPEN_FILES,
    REPLACED_MARK,
    Owner,
    peek_owners,
    peek_tips,
    read_owners,
)
from memsyncd.store.migrations import MIGRATIONS
from memsyncd.store.soundness import ASIDE_MARK
from memsyncd.store.texts import Texts
from memsyncd.store.tips import Tips

_CLAIM = """
INSERT INTO workspace(id, root, created_at, inode) VALUES(?,?,?,?)
ON CONFLICT(id) DO UPDATE SET root = excluded.root, inode = coalesce(excluded.inode, inode)
"""
_DISK = "disk"
TEXT_LIMIT_BYTES = 257 * 1024 * 1024
"""What may be configured as a note's size, and what its row needs besides: here a text is one value."""


IsMoved = Callable[[Owner, Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A note that reappeared under another path with the same bytes: its history goes on there."""

    old_path: str
    new_path: str
    digest: str
    seen_at_s: float


class _Foreign(Exception):
    """The file belongs to another workspace."""


class Records:
    """One workspace's records.db, for the writer's thread. Methods raise the classes of `store.connections.naming_failures`.

    `history` is what notes said before, and who changed them.
    """

    def __init__(
        self,
        path: Path,
        *,
        workspace: str,
        root: str,
        now_s: float,
        inode: int | None = None,
        is_moved: IsMoved = lambda _owner, _tips: False,
    ) -> None:
        """Open or make the file and bring it to this version. `set_aside` then names a damaged one that was moved away.

        `inode` is the root's. A file of another workspace is taken only if `is_moved(owner, tips)` says that this is the same
        one under another path; `moved_from` is that path then. Else it is moved away, too, and `foreign` names it.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self.set_aside: Path | None = None
        self.foreign: Path | None = None
        self.moved_from = ""
        self._own = Owner(id=workspace, root=root, inode=inode)
        if path.is_dir():
            self.set_aside = self._put_aside(now_s, "")
        self._check_owner(now_s, is_moved)
        try:
            self._writer = self._open(now_s)
        except _Foreign:
            self.foreign = self._put_aside(now_s, "", *LOG_SUFFIXES, mark=FOREIGN_MARK)
            self._writer = self._open(now_s)
        except StoreCorrupt:
            self._writer = self._open_again(now_s)
        self.footing = Footing(self._writer, str(path))
        self.history = History(self._writer, Texts(self._writer), Tips(self._writer), self.footing)
        with naming_failures():
            disk = self._writer.execute("SELECT value FROM meta WHERE key = ?", (_DISK,)).get
        self.disk = None if disk is None else int(disk)
        """On which device its notes lay when they were last seen."""
        OPEN_FILES.add(path)

    def _check_owner(self, now_s: float, is_moved: IsMoved) -> None:
        """Before SQLite puts a log into the file: that may be ours, though the file is another workspace's."""
        owners = peek_owners(self.path, newest_version=len(MIGRATIONS))
        if not owners or any(owner.id == self._own.id for owner in owners):
            return
        if len(owners) == 1 and not _size(f"{self.path}-wal") and is_moved(owners[0], peek_tips(self.path)):
            self.moved_from = owners[0].root
        else:
            self.foreign = self._put_aside(now_s, "", *LOG_SUFFIXES, mark=FOREIGN_MARK)

    def _open_again(self, now_s: float) -> apsw.Connection:
        """What could not be read once may be sound: it is set aside only if the disk gives it out and it is damaged still."""
        for suffix in ("", "-wal"):
            if os.path.exists(f"{self.path}{suffix}"):
                check_readable(f"{self.path}{suffix}")
        try:
            return self._open(now_s)
        except StoreCorrupt:
            self.set_aside = self._put_aside(now_s, *LOG_SUFFIXES) if _size(f"{self.path}-wal") else None
        if self.set_aside is not None:
            # The file may be whole without its log: then only what came last is missing.
            with contextlib.suppress(StoreCorrupt):
                return self._open(now_s)
        self.set_aside = self._put_aside(now_s, "", *LOG_SUFFIXES)
        return self._open(now_s)

    def _put_aside(self, now_s: float, *suffixes: str, mark: str = ASIDE_MARK) -> Path:
        """Rename the file or what is named of what belongs to it; the new name says why and when."""
        aside = self.path.with_name(f"{self.path.name}{mark}{int(now_s)}")
        while any(os.path.lexists(f"{aside}{suffix}") for suffix in ("", *LOG_SUFFIXES)):
            aside = aside.with_name(f"{aside.name}x")
        for suffix in suffixes:
            if os.path.lexists(f"{self.path}{suffix}"):
                os.rename(f"{self.path}{suffix}", f"{aside}{suffix}")
        return aside

    def _open(self, now_s: float) -> apsw.Connection:
        writer = open_writer(str(self.path), Durability.LASTING)
        writer.limit(apsw.SQLITE_LIMIT_LENGTH, TEXT_LIMIT_BYTES)
        try:
            if writer.execute("PRAGMA quick_check(1)").get != "ok":
                raise StoreCorrupt("records.db is damaged")
            owners = read_owners(writer)
            if owners and not self.moved_from and all(owner.id != self._own.id for owner in owners):
                raise _Foreign
            _migrate(writer)
            with transaction(writer):
                self._claim(writer, now_s)
        except apsw.Error as failure:
            writer.close()
            raise name_failure(failure) from failure
        except BaseException:
            writer.close()
            raise
        return writer

    def _claim(self, writer: apsw.Connection, now_s: float) -> None:
        """Leave one row, which says that the file is ours."""
        own = self._own
        if self.moved_from:
            writer.execute("UPDATE workspace SET id = ?", (own.id,))
        writer.execute("DELETE FROM workspace WHERE id <> ?", (own.id,))
        row = (own.id, own.root, now_s, None if own.inode is None else str(own.inode))
        writer.execute(_CLAIM, row)

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

    def remember_inode(self, inode: int) -> None:
        """Store the root's inode, by which a moved folder is recognised."""
        if inode != self._own.inode:
            with transaction(self._writer):
                self._writer.execute("UPDATE workspace SET inode = ? WHERE id = ?", (str(inode), self._own.id))
            self._own = replace(self._own, inode=inode)

    def find_set_aside(self) -> list[str]:
        """The names of files, damaged, another workspace's or replaced by a restore, that lie beside this one."""
        marks = (ASIDE_MARK, FOREIGN_MARK, REPLACED_MARK)
        return sorted(file.name for mark in marks for file in self.path.parent.glob(f"{self.path.name}{mark}*"))

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
        self.close()
        if harm is Harm.REPLACED:
            self.footing.remove_log()
        elif harm is Harm.OVERWRITTEN and self._is_foreign():
            # The log is ours and the file is not: kept together, each would spoil the other.
            self._put_aside(now_s, *LOG_SUFFIXES)
        elif harm is Harm.OVERWRITTEN and not _size(str(self.path)):
            # Beside an empty file SQLite would throw the log away.
            self._put_aside(now_s, "", *LOG_SUFFIXES)

    def _is_foreign(self) -> bool:
        owners = peek_owners(self.path, newest_version=len(MIGRATIONS))
        return bool(owners) and all(owner.id != self._own.id for owner in owners)

    def tidy(self) -> bool:
        """Once there is nothing to do: empty the WAL and let go of what was read. False if somebody who reads keeps the WAL."""
        with naming_failures():
            release_memory(self._writer)
            return self.footing.tidy()

    def close(self) -> None:
        self._writer.close()
        OPEN_FILES.discard(self.path)


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
