"""Open a workspace's records.db, and say what is wrong with it.

A damaged file, or another workspace's, is set aside; one that somebody harms while it is open is closed with care and opened
again. The file of a folder that was moved comes along.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from memsyncd.engine.lane import Steps
from memsyncd.engine.moved import is_moved, take_over_former
from memsyncd.engine.policies import Clock
from memsyncd.engine.recovery import repair_texts, report_half_done
from memsyncd.engine.sync import RECORDS_FAULT
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import MemsyncdError
from memsyncd.files.scope import find_identity
from memsyncd.logs import Event, get_log
from memsyncd.store.footing import Harm
from memsyncd.store.identity import find_foreign
from memsyncd.store.records import Records
from memsyncd.store.soundness import find_set_aside

FOREIGN_FAULT = "records_foreign"
FOREIGN = (
    "records.db came from another workspace and was set aside as {names}: nothing of it is undone here. Bring back this"
    " workspace's own records.db if there is a backup, with memsyncd stopped, then move or delete what was set aside"
)
MOVED = "records_moved"
LEFT_HINT = "to take it over: memsyncd stop, delete {path}, memsyncd start"
SET_ASIDE, RECORDS_GONE, TEXTS_LOST = "records_set_aside", "records_gone", "texts_lost"
INDEX_LOG, RECORDS_LOG = "index_log_held", "records_log_held"
ASIDE_HINT = "what notes said before lies there; keep that elsewhere, or delete it when nobody needs it"
GONE = "records.db was deleted or replaced while memsyncd ran: what notes said before then is lost, unless it is in the new one"

log = get_log("engine")


def open_records(workspace: Workspace, clock: Clock) -> None:
    """Open them, unless they are and nobody has harmed them. That they cannot be is said and stops nothing."""
    try:
        is_to_open = workspace.records is None or _has_left(workspace, workspace.records, clock)
        if is_to_open:
            workspace.records = _open_own_records(workspace, clock)
    except (MemsyncdError, OSError) as failure:
        what = f"{failure.message}; {failure.hint}" if isinstance(failure, MemsyncdError) else failure.strerror
        workspace.set_fault(RECORDS_FAULT, f"records.db: {what}")
        return
    workspace.set_fault(RECORDS_FAULT, "")
    if is_to_open and workspace.records is not None:
        _log_opened(workspace, workspace.records)
    repair_texts(workspace)
    if workspace.records is not None and (is_to_open or workspace.condition.notices or workspace.records.history.damaged):
        _say_losses(workspace, workspace.records)
        report_half_done(workspace)
    if is_to_open or FOREIGN_FAULT in workspace.condition.faults:
        _say_foreign(workspace)


def _open_own_records(workspace: Workspace, clock: Clock) -> Records:
    """This workspace's records.db, which those of the folder's former place become if it was moved."""
    path, inode = workspace.records_path, None
    if not path.exists():
        # Only here: a disk that does not answer must not keep the index from being opened.
        identity = find_identity(workspace.entry.root)
        inode = None if identity is None else identity[1]
        left = take_over_former(workspace.scope, path, inode)
        workspace.set_notice(MOVED, left and f"{left}; {LEFT_HINT.format(path=path)}")
    records = Records(
        path,
        workspace=workspace.id,
        root=workspace.entry.root,
        now_s=clock.wall_s(),
        inode=inode,
        is_moved=partial(is_moved, workspace.scope),
    )
    if records.moved_from:
        workspace.set_notice(MOVED, f"the folder was moved here from {records.moved_from}, and its history came along")
    return records


def _log_opened(workspace: Workspace, records: Records) -> None:
    if records.set_aside is not None:
        log.warning(Event.INDEX_CORRUPT, workspace=workspace.id, reason="records.db was damaged and set aside")
    if records.foreign is not None:
        reason = "records.db came from another workspace and was set aside"
        log.warning(Event.INDEX_CORRUPT, workspace=workspace.id, reason=reason)
    if records.moved_from:
        log.info(Event.WORKSPACE_ADDED, workspace=workspace.id, reason="moved: its history came along")


def _say_foreign(workspace: Workspace) -> None:
    """A fault for as long as another workspace's file lies beside records.db."""
    names = ", ".join(one.name for one in find_foreign(workspace.records_path))
    workspace.set_fault(FOREIGN_FAULT, names and FOREIGN.format(names=names))


def release_records(workspace: Workspace) -> Steps[None]:
    """Close the records of a workspace whose folder is gone: it may have moved, and they with it. They are opened at need."""
    workspace.close_records()
    yield from ()


def _has_left(workspace: Workspace, records: Records, clock: Clock) -> bool:
    """True if they were harmed, and closed for that."""
    harm = records.find_harm()
    if harm is None:
        return False
    log.warning(Event.INDEX_CORRUPT, workspace=workspace.id, reason=f"records.db {harm.value}")
    records.leave(harm, now_s=clock.wall_s())
    workspace.close_records()
    if harm is Harm.REPLACED:
        workspace.set_notice(RECORDS_GONE, GONE)
    return True


def _say_losses(workspace: Workspace, records: Records) -> None:
    """What notes said before and cannot be had from these records."""
    names = ", ".join(one.name for one in find_set_aside(records.path))
    workspace.set_notice(SET_ASIDE, names and f"damaged records were set aside as {names}: {ASIDE_HINT}")
    n_lost = len(records.history.damaged)
    lost = "1 earlier version of a note is" if n_lost == 1 else f"{n_lost:,} earlier versions of notes are"
    workspace.set_notice(TEXTS_LOST, f"records.db has damaged texts: {lost} lost" if n_lost else "")


def tell_logs(workspace: Workspace) -> None:
    """How large the WALs of both databases are, and whether another program keeps one from being emptied."""
    index, records = workspace.index, workspace.records
    workspace.change(
        index_wal_bytes=0 if index is None else index.footing.log_bytes(),
        records_wal_bytes=0 if records is None else records.footing.log_bytes(),
    )
    for word, database in ((INDEX_LOG, index), (RECORDS_LOG, records)):
        n_bytes = 0 if database is None else database.footing.held_bytes()
        workspace.set_notice(word, "" if database is None or not n_bytes else _say_held(database.path, n_bytes))


def _say_held(path: Path, n_bytes: int) -> str:
    return (
        f"{path.name}-wal has grown to {n_bytes / 1e6:,.0f} MB, for another program reads {path.name} and does not end:"
        f" close that program (this names it: fuser -v {path}); the file shrinks by itself then"
    )
