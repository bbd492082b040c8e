"""Copy a records.db into a backup file, and put such a file in the place of records.db.

A backup is a single SQLite file without a log, so that any program can copy it. Before a file is
restored, it is checked and made this workspace's own. Then a single rename puts it in the place of
records.db, so that a crash leaves the whole old history or the whole new history.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat as modes
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import apsw
import msgspec

from memsyncd.errors import BadRequest, StoreCorrupt, StoreFailed, StoreFull
from memsyncd.store.connection import (
    Durability,
    open_reader,
    open_writer,
    transaction,
    translating_errors,
)
from memsyncd.store.history import UNWIPED
from memsyncd.store.integrity import find_damage, forget_checks
from memsyncd.store.records import (
    NO_NUMBERS,
    REPLACED_MARK,
    TEXT_LIMIT_BYTES,
    WAL_SUFFIXES,
    Numbers,
    Owner,
    Records,
    read_owners,
)
from memsyncd.store.schema import MIGRATIONS, run_migration

BACKUP_MARK, RESTORE_MARK = ".backup-", ".restore"
SQLITE_MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
# 4 MB; after each step other workspaces may take their turn.
STEP_PAGES = 1000
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
USE_ANOTHER = "use a file that `memsyncd backup` has written"


CheckOrigin = Callable[[Sequence[Owner], float | None], None]


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A temporary file with a whole copy of a records.db; the caller moves or removes it."""

    path: Path
    n_revisions: int
    n_bytes: int


def find_staged(records: Path) -> Path:
    """Return the path at which a file to be restored is expected."""
    return records.with_name(f"{records.name}{RESTORE_MARK}")


def remove_leftovers(records: Path) -> None:
    """Delete files that an interrupted backup or restore left beside records.db.

    Raises StoreFailed if one cannot be deleted.
    """
    with _naming_disk_failures(records):
        for mark in (BACKUP_MARK, RESTORE_MARK):
            for left in records.parent.glob(f"{records.name}{mark}*"):
                left.unlink(missing_ok=True)
        for aside in records.parent.glob(f"{records.name}{REPLACED_MARK}*"):
            # The process ended between `_keep_beside` and the rename: both names are one file.
            if records.exists() and records.samefile(aside):
                aside.unlink()


# --- backup -------------------------------------------------------------------------------------


def back_up(records: Path) -> Generator[None, None, Backup]:
    """Copy an open records.db into a temporary file beside it, and check the copy.

    It yields after each step. Writes between the steps are allowed: SQLite then begins the copy
    again. Raises the classes of `naming_failures`; StoreCorrupt if the copy is damaged.
    """
    target = records.with_name(f"{records.name}{BACKUP_MARK}{os.urandom(8).hex()}")
    remove_leftovers(records)
    with _naming_disk_failures(records):
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield from _copy_pages(records, target)
        damage = find_damage(target, is_thorough=True)
        if damage:
            raise StoreCorrupt(
                f"no backup was made: records.db is damaged: {damage[0]}",
                hint="see what is damaged: memsyncd doctor --verify",
            )
        return Backup(
            path=target, n_revisions=count_revisions(target), n_bytes=target.stat().st_size
        )
    except BaseException:
        for suffix in ("", *WAL_SUFFIXES):
            Path(f"{target}{suffix}").unlink(missing_ok=True)
        raise


def _copy_pages(records: Path, target: Path) -> Iterator[None]:
    with (
        contextlib.closing(open_reader(str(records))) as source,
        contextlib.closing(_open_to_rewrite(target)) as copy,
        translating_errors(),
    ):
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(STEP_PAGES)
                yield
        if copy.execute("SELECT 1 FROM meta WHERE key = ?", (UNWIPED,)).get:
            # A purge could not rewrite records.db yet, so its pages still hold purged text.
            copy.execute("VACUUM")
            copy.execute("DELETE FROM meta WHERE key = ?", (UNWIPED,))
        copy.pragma("journal_mode", "delete")


def count_revisions(path: Path) -> int:
    """Count the revisions of a records.db. Raises the classes of `naming_failures`."""
    with contextlib.closing(open_reader(str(path))) as connection, translating_errors():
        return int(connection.execute("SELECT count(*) FROM revisions").get)


# --- restore ------------------------------------------------------------------------------------


def adopt(
    staged: Path,
    *,
    workspace: str,
    root: str,
    inode: int | None,
    now_s: float,
    numbers: Numbers = NO_NUMBERS,
    check_origin: CheckOrigin = lambda _owners, _created_at_s: None,
) -> None:
    """Check a file that is to be restored, bring it to this version and make it the workspace's.

    `check_origin` gets the owners of the history and the time of its beginning, and raises an error
    if the file must not be restored. Numbers up to `numbers` have been given already. Raises
    BadRequest for a file that cannot be restored, and the classes of `naming_failures`.
    """
    with _naming_disk_failures(staged):
        _check_kind(staged)
        for suffix in WAL_SUFFIXES:
            # SQLite would write the log of another file into this one.
            Path(f"{staged}{suffix}").unlink(missing_ok=True)
    try:
        _check_and_claim(
            staged, workspace=workspace, root=root, now_s=now_s, check_origin=check_origin
        )
    except StoreCorrupt as failure:
        raise _make_unusable(failure.message) from failure
    records = Records(
        staged, workspace=workspace, root=root, inode=inode, now_s=now_s, numbers=numbers
    )
    try:
        if records.set_aside is not None:
            raise StoreCorrupt("the disk changed the file while it was read", hint=USE_ANOTHER)
        for change_set, _ in records.history.find_intended():
            # The change set was intended at another place or time, so nobody needs to settle it
            # here: afterwards the notes are compared with the history, and a restore changes none.
            records.history.discard(change_set)
        records.remember_disk(None)
    finally:
        records.close()
        forget_checks(staged)
    _fold_log(staged)


def _check_kind(staged: Path) -> None:
    try:
        is_file = modes.S_ISREG(os.lstat(staged).st_mode)
    except FileNotFoundError:
        raise BadRequest(
            f"there is no file to restore at {staged}",
            hint="run: memsyncd restore FILE, which puts it there",
        ) from None
    if not is_file:
        raise _make_unusable("it is not a regular file")
    with staged.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(SQLITE_MAGIC):
        raise _make_unusable("it is not a SQLite database")
    # SQLite reads a page that is cut off as if zeros followed. 1 stands for 65,536 bytes.
    page_bytes = int.from_bytes(header[16:18]) or 1
    if staged.stat().st_size % (65536 if page_bytes == 1 else page_bytes):
        raise _make_unusable("its end is missing")


def _check_and_claim(
    staged: Path, *, workspace: str, root: str, now_s: float, check_origin: CheckOrigin
) -> None:
    with contextlib.closing(_open_to_rewrite(staged)) as connection:
        with translating_errors():
            _check_schema(connection)
        damage = find_damage(staged, is_thorough=True)
        if damage:
            raise _make_unusable(f"it is damaged: {damage[0]}")
        created_s = connection.execute("SELECT min(created_at) FROM workspace").get
        check_origin(read_owners(connection), created_s)
        with transaction(connection):
            connection.execute("DELETE FROM workspace")
            row = (workspace, root, now_s if created_s is None else created_s)
            connection.execute("INSERT INTO workspace(id, root, created_at) VALUES(?,?,?)", row)


def _check_schema(connection: apsw.Connection) -> None:
    version = int(connection.pragma("user_version"))
    if version > len(MIGRATIONS):
        raise BadRequest(
            f"the file has version {version}, newer than this program's {len(MIGRATIONS)}",
            hint="restore it with the newer memsyncd that made it: pip install --upgrade memsyncd",
        )
    if version < 1 or _read_schema(connection) != _make_schema(version):
        raise _make_unusable("it is not a history of memsyncd")


def _make_schema(version: int) -> dict[tuple[str, str], tuple[object, ...]]:
    with contextlib.closing(apsw.Connection(":memory:")) as connection:
        for migration in MIGRATIONS[:version]:
            run_migration(connection, migration)
        return _read_schema(connection)


def _read_schema(connection: apsw.Connection) -> dict[tuple[str, str], tuple[object, ...]]:
    """Return tables with their columns, and other objects without, by type and name."""
    rows = connection.execute("SELECT type, name FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'")
    columns = "SELECT name, type, pk FROM pragma_table_xinfo(?)"
    return {
        (str(kind), str(name)): tuple(connection.execute(columns, (name,)))
        for kind, name in rows.fetchall()
    }


def swap_in(staged: Path, records: Path, *, now_s: float, is_kept: bool) -> Path | None:
    """Put an adopted file in the place of records.db, which no connection may have open.

    With `is_kept` the present file stays beside it under another name, which is returned. Raises
    the classes of `naming_failures`; then records.db is unchanged.
    """
    _fold_log(records)
    with _naming_disk_failures(records):
        aside = _keep_beside(records, now_s) if is_kept else None
        try:
            os.replace(staged, records)
            forget_checks(records)
        except OSError:
            if aside is not None:
                aside.unlink()
            raise
        _sync(records.parent)
    return aside


def _fold_log(path: Path) -> None:
    """Write the log into the file and delete it, because it would damage another file of this name.

    Raises StoreFailed if another program has the file open.
    """
    mode = ""
    with contextlib.closing(open_writer(str(path), Durability.LASTING)) as connection:
        connection.set_busy_timeout(0)
        with translating_errors(), contextlib.suppress(apsw.BusyError):
            mode = connection.pragma("journal_mode", "delete")
    if mode != "delete":
        raise StoreFailed(
            f"another program has {path.name} open",
            hint=f"close it (this names it: fuser -v {path}), then try again",
        )
    _sync(path)


def _keep_beside(records: Path, now_s: float) -> Path:
    """Give records.db a second name; copy it if the file system allows only one name."""
    aside = records.with_name(f"{records.name}{REPLACED_MARK}{int(now_s)}")
    while os.path.lexists(aside):
        aside = aside.with_name(f"{aside.name}x")
    try:
        os.link(records, aside)
    except OSError:
        copy = records.with_name(f"{records.name}{BACKUP_MARK}{os.urandom(8).hex()}")
        shutil.copy(records, copy)
        _sync(copy)
        os.rename(copy, aside)
    _sync(records.parent)
    return aside


def _open_to_rewrite(path: Path) -> apsw.Connection:
    """Open a file that only this process uses. Its journal is deleted after each commit."""
    connection = open_writer(str(path), Durability.LASTING)
    try:
        with translating_errors():
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, TEXT_LIMIT_BYTES)
            connection.pragma("journal_mode", "delete")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_unusable(reason: str) -> BadRequest:
    return BadRequest(f"the file cannot be restored: {reason}", hint=USE_ANOTHER)


@contextlib.contextmanager
def _naming_disk_failures(records: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        if failure.errno in NO_SPACE:
            raise StoreFull("the disk is full", hint="free some space, then try again") from failure
        raise StoreFailed(
            f"{records.parent}: {failure.strerror}", hint="see: memsyncd doctor"
        ) from failure


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
