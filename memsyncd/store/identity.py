"""Read whose records.db a file is: the one row of its table `workspace`.

The row holds the workspace's id, its root and, since version 3, the root's inode. Files that several workspaces have opened,
as older versions allowed, hold several rows until the next of them opens it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from memsyncd.errors import StoreFailed
from memsyncd.store.connections import Durability, naming_failures, open_writer

FOREIGN_MARK = ".foreign-"
REPLACED_MARK = ".replaced-"
OPEN_FILES: set[Path] = set()
"""Each records.db that this process has open: SQLite keeps a file that is opened beside it until that one is closed."""
LOG_SUFFIXES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The workspace that a records.db belongs to. `inode` is its root's, None if the file does not say."""

    id: str
    root: str
    inode: int | None


def read_owners(connection: apsw.Connection) -> tuple[Owner, ...]:
    """Empty for a file that is new. apsw's own exceptions are for the caller to name."""
    if not connection.table_exists(None, "workspace"):
        return ()
    has_inode = any(row[1] == "inode" for row in connection.execute("PRAGMA table_info(workspace)"))
    rows = connection.execute(f"SELECT id, root, {'inode' if has_inode else 'NULL'} FROM workspace ORDER BY id")
    return tuple(Owner(id=str(id_), root=str(root), inode=None if inode is None else int(inode)) for id_, root, inode in rows)


def peek_owners(path: Path, *, newest_version: int) -> tuple[Owner, ...]:
    """What the file says without its -wal, which may be another file's. Empty if it says nothing, or cannot be read so."""
    try:
        connection = _open_alone(path)
        try:
            is_newer = int(connection.pragma("user_version")) > newest_version
            return () if is_newer else read_owners(connection)
        finally:
            connection.close()
    except (apsw.Error, OSError, ValueError):
        return ()


def peek_tips(path: Path) -> dict[str, str]:
    """The same of the digests that notes had when last heard of, by path."""
    try:
        connection = _open_alone(path)
        try:
            return {str(note): str(digest) for note, digest in connection.execute("SELECT path, digest FROM tips")}
        finally:
            connection.close()
    except (apsw.Error, OSError):
        return {}


def take_over(old: Path, new: Path) -> None:
    """Move a records.db that nobody has open to where there is none. Raises the classes of `naming_failures`."""
    connection = open_writer(str(old), Durability.LASTING)
    try:
        connection.set_busy_timeout(0)
        # Puts the log into the file and deletes it, and succeeds only where nobody else has the file open.
        with naming_failures():
            mode = connection.pragma("journal_mode", "delete")
    finally:
        connection.close()
    if mode != "delete":
        raise StoreFailed("another program has records.db open", hint="let it end")
    new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.rename(old, new)


def find_foreign(path: Path) -> list[Path]:
    """Files of other workspaces that lay at `path` and were set aside, oldest first."""
    found = path.parent.glob(f"{path.name}{FOREIGN_MARK}*")
    return sorted(one for one in found if not one.name.endswith(LOG_SUFFIXES))


def _open_alone(path: Path) -> apsw.Connection:
    if not path.is_file():
        raise FileNotFoundError(str(path))
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=flags)
