"""Do the files of an open database stand where they stood, and as its one writer left them?

SQLite goes on with what it has open: nothing tells it that a file was deleted, that another took its place or that another
program wrote into it, and what it keeps of it in memory hides that for long. So it is noted after each commit how file and log
were left, and whoever wants to know compares.
"""

from __future__ import annotations

import contextlib
import os
import stat as modes
from enum import Enum

import apsw

from memsyncd.errors import StoreFailed
from memsyncd.store.connections import empty_log

CHECKPOINT_PAGES = 1000
"""After as many pages in the log they go into the file, as SQLite does by itself."""

HELD_LOG_BYTES = 64 * 1024 * 1024
"""Over this a log that cannot be emptied is worth telling: sixteen times what it has between two checkpoints."""


class Harm(Enum):
    """What somebody has done to a database; its value goes on from the file's name."""

    REPLACED = "was deleted or replaced"
    LOG_LOST = "lost its -wal or -shm file"
    OVERWRITTEN = "was written by another program"


class Footing:
    """The files of one database, for its writer's thread. Make it when the database is open and has been read."""

    def __init__(self, writer: apsw.Connection, path: str) -> None:
        """Raises StoreFailed if the files cannot be looked at."""
        self._writer = writer
        self._path = path
        self._is_overwritten = False
        self._is_held = False
        try:
            self._left = self._look()
        except OSError as failure:
            raise StoreFailed(f"{path} cannot be looked at: {failure.strerror}", hint="see: memsyncd status") from failure
        writer.set_wal_hook(self._committed)
        writer.set_rollback_hook(self._rolled_back)

    def accept(self) -> None:
        """Take the files as they stand for as they should be."""
        self._is_overwritten = False
        with contextlib.suppress(OSError):
            self._note(self._look())

    def empty_log(self) -> bool:
        """As `connections.empty_log`; False also if the files were harmed, for then it should not be mixed with the log."""
        if self.find_harm() is not None:
            return False
        is_empty = empty_log(self._writer)
        self._is_held = not is_empty
        self.accept()
        return is_empty

    def tidy(self) -> bool:
        """Empty the log if there is one and the files were not harmed; False if somebody who reads keeps it."""
        if not self.log_bytes() or self.find_harm() is not None:
            return True
        return self.empty_log()

    def log_bytes(self) -> int:
        """Size of the log as the disk has it now, 0 if there is none."""
        try:
            return os.stat(f"{self._path}-wal").st_size
        except OSError:
            return 0

    def held_bytes(self) -> int:
        """The same if it is too large because somebody reads and does not end, so that it cannot be put into the file; else 0."""
        n_bytes = self.log_bytes() if self._is_held else 0
        return n_bytes if n_bytes > HELD_LOG_BYTES else 0

    def is_in_place(self) -> bool:
        """False if the database is not the file that its path names, or that cannot be told. From any thread."""
        try:
            return _place_of(_look(self._path)) == _place_of(self._left[0])
        except OSError:
            return False

    def find_harm(self) -> Harm | None:
        """What was done to the files since; None also if that cannot be told."""
        try:
            now = self._look()
        except OSError:
            return None
        places, places_left = [_place_of(one) for one in now], [_place_of(one) for one in self._left]
        if places[0] != places_left[0]:
            return Harm.REPLACED
        if places != places_left:
            return Harm.LOG_LOST
        # What connections share is theirs to write.
        return Harm.OVERWRITTEN if self._is_overwritten or now[:2] != self._left[:2] else None

    def remove_log(self) -> None:
        """Delete the log and what connections share of it, if they are still those that were left; nobody may have them open."""
        for suffix, left in zip(("-wal", "-shm"), self._left[1:], strict=True):
            with contextlib.suppress(OSError):
                if left is not None and _place_of(_look(f"{self._path}{suffix}")) == _place_of(left):
                    os.unlink(f"{self._path}{suffix}")

    def _committed(self, _connection: apsw.Connection, _name: str, n_pages: int) -> int:
        """Called by SQLite after each commit, in place of its own checkpoints. A commit writes to the log alone."""
        with contextlib.suppress(OSError):
            now = self._look()
            self._is_overwritten = self._is_overwritten or now[0] != self._left[0]
            if n_pages >= CHECKPOINT_PAGES and not self._is_overwritten:
                # One that fails is made up for by the next: what is committed stands in the log.
                with contextlib.suppress(apsw.Error):
                    n_frames, n_done = self._writer.wal_checkpoint()
                    self._is_held = n_done < n_frames
                now = self._look()
            self._note(now)
        return apsw.SQLITE_OK

    def _rolled_back(self) -> None:
        """Called by SQLite. What is too much for its memory is written to the log before it is committed, and stays there."""
        with contextlib.suppress(OSError):
            self._note((self._left[0], *self._look()[1:]))

    def _note(self, now: _Files) -> None:
        """How the files were left; one that is another than it was stays missed."""
        file, log, shared = (
            one if _place_of(one) == _place_of(left) else left for one, left in zip(now, self._left, strict=True)
        )
        self._left = file, log, shared

    def _look(self) -> _Files:
        return _look(self._path), _look(f"{self._path}-wal"), _look(f"{self._path}-shm")


_Left = tuple[int, int, int, int] | None
"""Device, inode, size and mtime of a file; None if there is none."""
_Files = tuple[_Left, _Left, _Left]


def _look(path: str) -> _Left:
    try:
        stat = os.lstat(path)
    except FileNotFoundError:
        return None
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns) if modes.S_ISREG(stat.st_mode) else None


def _place_of(left: _Left) -> tuple[int, int] | None:
    return None if left is None else left[:2]
