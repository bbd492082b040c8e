"""Open a workspace's records.db, and report faults of it.

A damaged file, or another workspace's, is set aside; one that another program tampers with while
it is open is closed with care and opened again.

A folder that was moved or renamed has another workspace id at its new place, while its records.db
is under the old id. It is the same folder if it is gone from its old place and most notes have
the text recorded there. A records.db that memsyncd finds by itself must also name the folder's
inode, and an inode alone proves nothing: it may have been reused for another folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from memsyncd.core.digest import digest_bytes
from memsyncd.engine.clock import Clock
from memsyncd.engine.recovery import read_disk_digest, repair_texts, report_half_done
from memsyncd.engine.sync import RECORDS_FAULT
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import MemsyncdError, StoreFailed
from memsyncd.files.scope import Scope, find_identity, is_gone
from memsyncd.logs import Event, get_log
from memsyncd.store.backup import remove_leftovers
from memsyncd.store.integrity import Tampering, find_set_aside
from memsyncd.store.records import (
    OPEN_FILES,
    Owner,
    Records,
    find_foreign,
    peek_heads,
    peek_owners,
    take_over,
)
from memsyncd.store.schema import MIGRATIONS

FOREIGN_FAULT = "records_foreign"
FOREIGN = (
    "records.db came from another workspace and was set aside as {names}: its changes cannot be"
    " undone here. Restore this workspace's own history from a backup, if there is one (memsyncd"
    " restore FILE), then move or delete the files that were set aside"
)
MOVED = "records_moved"
MOVED_HERE = "the folder was moved here from {root}, and its history with it"
LEFT_HINT = "to take it over: memsyncd stop, delete {path}, memsyncd start"
SET_ASIDE, RECORDS_GONE, TEXTS_LOST = "records_set_aside", "records_gone", "texts_lost"
INDEX_LOG, RECORDS_LOG = "index_log_held", "records_log_held"
ASIDE_HINT = (
    "it holds earlier texts of notes: keep it elsewhere, or delete it if you do not need them"
)
GONE = (
    "records.db was deleted or replaced while memsyncd ran: earlier texts of notes from before then"
    " are lost, unless they are in the new file"
)
# Notes that are read to recognise a moved folder.
N_COMPARED = 50
EMPTY = digest_bytes(b"")

log = get_log("engine")


# --- opening ---


def open_records(workspace: Workspace, clock: Clock) -> None:
    """Open the records, unless they are open and intact. A failure is a fault and stops nothing.

    Raises WorkspaceNotFound if the workspace was closed for good.
    """
    workspace.check_open()
    try:
        is_to_open = workspace.records is None or _close_if_tampered(
            workspace, workspace.records, clock
        )
        if is_to_open:
            workspace.check_files()
            workspace.records = _open_own_records(workspace, clock)
    except (MemsyncdError, OSError) as failure:
        workspace.set_fault(RECORDS_FAULT, f"records.db: {_describe(failure)}")
        return
    workspace.set_fault(RECORDS_FAULT, "")
    if is_to_open and workspace.records is not None:
        _log_opened(workspace, workspace.records)
    repair_texts(workspace)
    records, has_notices = workspace.records, bool(workspace.condition.notices)
    if records is not None and (is_to_open or has_notices or records.history.damaged):
        _report_losses(workspace, records)
        report_half_done(workspace)
    if is_to_open or FOREIGN_FAULT in workspace.condition.faults:
        _report_foreign(workspace)


def _describe(failure: MemsyncdError | OSError) -> str:
    if isinstance(failure, MemsyncdError):
        return f"{failure.message}; {failure.hint}"
    return str(failure.strerror)


def _open_own_records(workspace: Workspace, clock: Clock) -> Records:
    """Open this workspace's records.db; a moved folder takes over the one of its former place."""
    path, identity = workspace.records_path, find_identity(workspace.entry.root)
    inode = None if identity is None else identity[1]
    # Leftovers that cannot be removed now are removed at the next opening.
    with contextlib.suppress(StoreFailed):
        remove_leftovers(path)
    if not path.exists():
        workspace.set_notice(MOVED, "")
        if inode is not None:
            _take_over_former(workspace, inode)
    records = Records(
        path,
        workspace=workspace.id,
        root=workspace.entry.root,
        now_s=clock.wall_s(),
        inode=inode,
        is_moved=partial(is_moved, workspace.scope),
        numbers=workspace.given_numbers,
    )
    if records.moved_from:
        _report_moved(workspace, records.moved_from)
    return records


def _log_opened(workspace: Workspace, records: Records) -> None:
    if records.set_aside is not None:
        reason = "records.db was damaged and set aside"
        log.warning(Event.INDEX_CORRUPT, workspace=workspace.id, reason=reason)
    if records.foreign is not None:
        reason = "records.db came from another workspace and was set aside"
        log.warning(Event.INDEX_CORRUPT, workspace=workspace.id, reason=reason)


def release_records(workspace: Workspace) -> Job[None]:
    """Close the records of a workspace whose folder is gone, because both may have moved.

    They are opened again when they are needed.
    """
    workspace.close_records()
    yield from ()


def release_damaged_records(workspace: Workspace) -> Job[None]:
    """Close records in which a check has found damage; they are checked when they are opened."""
    workspace.drop_failed_records()
    yield from ()


def _close_if_tampered(workspace: Workspace, records: Records, clock: Clock) -> bool:
    """Close records whose file another program tampered with. True if they were closed."""
    tampering = records.file_guard.find_tampering()
    if tampering is None:
        return False
    log.warning(Event.INDEX_CORRUPT, workspace=workspace.id, reason=f"records.db {tampering.value}")
    # The file that is opened next may not know them.
    with contextlib.suppress(StoreFailed):
        workspace.given_numbers = records.numbers
    records.close_tampered(tampering, now_s=clock.wall_s())
    workspace.close_records()
    if tampering is Tampering.REPLACED:
        workspace.set_notice(RECORDS_GONE, GONE)
    return True


# --- reporting ---


def _report_foreign(workspace: Workspace) -> None:
    """Set a fault for as long as another workspace's file is beside records.db."""
    names = ", ".join(path.name for path in find_foreign(workspace.records_path))
    workspace.set_fault(FOREIGN_FAULT, names and FOREIGN.format(names=names))


def _report_losses(workspace: Workspace, records: Records) -> None:
    """Set notices about earlier texts of notes that these records do not hold."""
    names = ", ".join(path.name for path in find_set_aside(records.path))
    aside = f"damaged records were set aside as {names}: {ASIDE_HINT}"
    workspace.set_notice(SET_ASIDE, names and aside)
    n_lost = len(records.history.damaged)
    singular, plural = "1 earlier version of a note is", f"{n_lost:,} earlier versions of notes are"
    lost = f"records.db has damaged texts: {singular if n_lost == 1 else plural} lost"
    workspace.set_notice(TEXTS_LOST, lost if n_lost else "")


def report_wal_sizes(workspace: Workspace) -> None:
    """Report the size of both WALs, and whether another program keeps one from being emptied."""
    index, records = workspace.index, workspace.records
    workspace.change(
        index_wal_bytes=0 if index is None else index.file_guard.wal_bytes(),
        records_wal_bytes=0 if records is None else records.file_guard.wal_bytes(),
    )
    for code, database in ((INDEX_LOG, index), (RECORDS_LOG, records)):
        n_bytes = 0 if database is None else database.file_guard.pinned_wal_bytes()
        text = "" if database is None or not n_bytes else _describe_held(database.path, n_bytes)
        workspace.set_notice(code, text)


def _describe_held(path: Path, n_bytes: int) -> str:
    return (
        f"{path.name}-wal has grown to {n_bytes / 1e6:,.0f} MB, because"
        f" another program reads {path.name} all the time: close that program"
        f" (to find it: fuser -v {path}); the file then shrinks by itself"
    )


# --- a folder that was moved ---


def is_moved(scope: Scope, owner: Owner, heads: Mapping[str, str]) -> bool:
    """True if `owner` is the workspace that this folder was before it was moved.

    `heads` maps its notes to the digests of their last recorded texts.
    """
    return is_gone(owner.root, owner.inode) and _has_same_notes(scope, heads)


def _take_over_former(workspace: Workspace, inode: int) -> None:
    """Move the records.db of the folder's former place to its own, where there is none.

    One that cannot be moved stays where it is; a notice has the reason.
    """
    records, entry = workspace.records_path, workspace.entry
    own = Owner(id=entry.id, root=entry.root, inode=inode)
    for former, owner in _find_former(records, inode):
        # A file that names this workspace was left by an interrupted take-over.
        if owner.id == own.id or is_moved(workspace.scope, owner, peek_heads(former)):
            try:
                take_over(former, records, own)
            except (StoreFailed, OSError) as failure:
                why = failure.message if isinstance(failure, StoreFailed) else failure.strerror
                moved = f"the history of {owner.root}, from which this folder was moved"
                left = f"{moved}, stays in {former}: {why}; {LEFT_HINT.format(path=records)}"
                workspace.set_notice(MOVED, left)
            else:
                _report_moved(workspace, owner.root)
            return


def _report_moved(workspace: Workspace, root: str) -> None:
    # After an interrupted take-over the former root is no longer known.
    if root != workspace.entry.root:
        workspace.set_notice(MOVED, MOVED_HERE.format(root=root))
    reason = "moved: its history was taken over"
    log.info(Event.WORKSPACE_ADDED, workspace=workspace.id, reason=reason)


def _find_former(records: Path, inode: int) -> Iterator[tuple[Path, Owner]]:
    """The records.db of workspaces not open in this process whose root had this inode."""
    with contextlib.suppress(OSError):
        for former in sorted(records.parent.parent.glob(f"*/{records.name}")):
            if former == records or former in OPEN_FILES:
                continue
            owners = peek_owners(former, newest_version=len(MIGRATIONS))
            if len(owners) == 1 and owners[0].inode == inode:
                yield former, owners[0]


def _has_same_notes(scope: Scope, heads: Mapping[str, str]) -> bool:
    """True if more than half of the compared notes have the recorded text.

    Empty notes are not compared, because they prove nothing.
    """
    recorded = sorted((path, digest) for path, digest in heads.items() if digest != EMPTY)
    compared = recorded[:: max(1, len(recorded) // N_COMPARED)]
    n_same = sum(read_disk_digest(scope, path) == digest for path, digest in compared)
    return 2 * n_same > len(compared)
