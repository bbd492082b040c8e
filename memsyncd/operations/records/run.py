"""Back up a workspace's history, and restore it.

A restore changes no note. If the text of a note differs from its last text in the backup, it
becomes a revision, as after any change by another program.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import (
    EditOutcome,
)
from memsyncd.engine.external_changes import record_all, sync_and_record
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.records import RECORDS_GONE, open_records
from memsyncd.engine.recovery import recover
from memsyncd.engine.sync import SyncRequest
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import (
    Conflict,
    NotFresh,
)
from memsyncd.files.scope import find_identity
from memsyncd.logs import Event, get_log
from memsyncd.operations.call import Call
from memsyncd.operations.fields import WorkspaceParams
from memsyncd.operations.records.declare import Backup, Restored, RestoreParams
from memsyncd.operations.revisions import open_history
from memsyncd.store.backup import (
    adopt,
    back_up,
    count_revisions,
    find_staged,
    remove_leftovers,
    swap_in,
)
from memsyncd.store.records import Owner

log = get_log("engine")


def back_up_records(workspace: Workspace, _config: Config, clock: Clock) -> Job[Backup]:
    """Make a temporary copy of records.db, even if no history is kept now."""
    records = require_records(workspace, clock)
    recover(workspace, clock)
    made = yield from back_up(records.path)
    return Backup(
        workspace=workspace.id,
        path=str(made.path),
        revisions=made.n_revisions,
        bytes=made.n_bytes,
    )


def prepare_restore(workspace: Workspace, config: Config, clock: Clock) -> Job[Restored]:
    """Return, as `path`, the place for the file to restore, and remove an earlier file there.

    Raises BadRequest if no history is kept.
    """
    open_history(workspace, config, clock)
    staged = find_staged(workspace.records_path)
    remove_leftovers(workspace.records_path)
    yield
    return Restored(
        workspace=workspace.id, path=str(staged), revisions=0, recorded=0, dropped=0, set_aside=None
    )


def restore_records(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    *,
    is_adopting: bool = False,
    client: str,
) -> Job[EditOutcome[Restored]]:
    """Put the staged file in the place of records.db, then record the present texts of the notes.
    The former records.db is set aside if it has revisions.

    Raises BadRequest for a file that cannot be restored, Conflict for the history of another
    workspace, NotFresh while the workspace's folder is missing.
    """
    open_history(workspace, config, clock)
    synced = yield from sync_and_record(workspace, config, clock, SyncRequest())
    if synced.root_state != "present":
        raise NotFresh(
            "the workspace's folder is missing", hint="bring it back, then restore once more"
        )
    yield from record_all(workspace, config, clock)
    is_kept = count_revisions(workspace.records_path) > 0
    staged = find_staged(workspace.records_path)
    identity = find_identity(workspace.entry.root)
    adopt(
        staged,
        workspace=workspace.id,
        root=workspace.entry.root,
        inode=None if identity is None else identity[1],
        now_s=clock.wall_s(),
        numbers=require_records(workspace, clock).numbers,
        check_origin=partial(_check_origin, workspace, is_adopting),
    )
    yield
    n_revisions = count_revisions(staged)
    workspace.close_records()
    try:
        set_aside = swap_in(staged, workspace.records_path, now_s=clock.wall_s(), is_kept=is_kept)
    finally:
        open_records(workspace, clock)
    workspace.set_notice(RECORDS_GONE, "")
    log.info(Event.RECORDS_RESTORED, workspace=workspace.id, client=client, count=n_revisions)
    n_before = workspace.n_revisions
    open_history(workspace, config, clock)
    yield from record_all(workspace, config, clock)
    n_recorded = workspace.n_revisions - n_before
    n_left = count_revisions(workspace.records_path)
    restored = Restored(
        workspace=workspace.id,
        path=str(staged),
        revisions=n_revisions,
        recorded=n_recorded,
        dropped=n_revisions + n_recorded - n_left,
        set_aside=None if set_aside is None else str(set_aside),
    )
    return EditOutcome(answer=restored, synced=synced)


def _check_origin(
    workspace: Workspace,
    is_adopting: bool,
    owners: Sequence[Owner],
    created_at_s: float | None,
) -> None:
    """Raise Conflict for the history of another workspace, unless it is to be adopted: an undo
    would write that workspace's texts here.

    The history is this workspace's if it has its id, or was begun at the same moment. The moment
    stays the same if the folder is moved.
    """
    own = workspace.records
    is_own = any(owner.id == workspace.id for owner in owners) or (
        own is not None and created_at_s == own.created_at_s
    )
    if owners and not (is_adopting or is_own):
        raise Conflict(
            f"the file has the history of another workspace: {owners[0].id}",
            hint="restore a backup of this workspace, or take this one with --adopt (adopt: true)",
        )


async def back_up_history(call: Call, _params: WorkspaceParams) -> Backup:
    return await call.run_job(back_up_records, is_write=True)


async def restore_history(call: Call, params: RestoreParams) -> Restored:
    if params.prepare:
        return await call.run_job(prepare_restore)
    job = partial(restore_records, is_adopting=params.adopt, client=call.writer)
    return (await call.run_edit(job)).answer
