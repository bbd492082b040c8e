"""Back up the history of a workspace, and restore it from a backup.

Jobs for the worker. A restore changes no note: texts of notes that differ from the last
ones in the backup become revisions, as after any change by another program.
"""

from __future__ import annotations

from pathlib import Path

from memsyncd.config import Config
from memsyncd.engine.checks import render_count
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import EditOutcome
from memsyncd.engine.external_changes import record_all, sync_and_record
from memsyncd.engine.history import open_history
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.records import RECORDS_GONE, open_records
from memsyncd.engine.recovery import recover
from memsyncd.engine.sync import SyncRequest
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import Conflict, NotFresh
from memsyncd.files.scope import find_identity
from memsyncd.logs import Event, get_log
from memsyncd.protocol.memory import Backup, Restored
from memsyncd.store.backup import (
    adopt,
    back_up,
    count_revisions,
    find_staged,
    remove_leftovers,
    swap_in,
)

log = get_log("engine")


def back_up_records(workspace: Workspace, _config: Config, clock: Clock) -> Job[Backup]:
    """Make a temporary copy of records.db, whether a history is kept now or not."""
    records = require_records(workspace, clock)
    recover(workspace, clock)
    made = yield from back_up(records.path)
    return Backup(
        workspace=workspace.id,
        path=str(made.path),
        revisions=made.n_revisions,
        bytes=made.n_bytes,
    )


def prepare_restore(
    workspace: Workspace, config: Config, clock: Clock, *, is_replacing: bool
) -> Job[Restored]:
    """Return in `path` where the file to be restored has to be put; remove an earlier one.

    Raises Conflict and BadRequest as `restore_records` would.
    """
    open_history(workspace, config, clock)
    _check_replaceable(workspace, is_replacing=is_replacing)
    staged = find_staged(workspace.records_path)
    remove_leftovers(workspace.records_path)
    yield
    return Restored(
        workspace=workspace.id, path=str(staged), revisions=0, recorded=0, dropped=0, set_aside=None
    )


def restore_records(
    workspace: Workspace, config: Config, clock: Clock, *, is_replacing: bool, client: str
) -> Job[EditOutcome[Restored]]:
    """Put the staged file in the place of records.db, then record what the notes say now.

    Raises BadRequest for a file that cannot be restored, Conflict where a history would be lost,
    NotFresh while the workspace's folder is missing.
    """
    open_history(workspace, config, clock)
    synced = yield from sync_and_record(workspace, config, clock, SyncRequest())
    if synced.root_state != "present":
        raise NotFresh(
            "the workspace's folder is missing", hint="bring it back, then restore once more"
        )
    yield from record_all(workspace, config, clock)
    is_kept = _check_replaceable(workspace, is_replacing=is_replacing)
    staged = find_staged(workspace.records_path)
    _adopt(workspace, staged, clock)
    yield
    n_revisions = count_revisions(staged)
    set_aside = _swap_in(workspace, staged, clock, is_kept=is_kept)
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


def _check_replaceable(workspace: Workspace, *, is_replacing: bool) -> bool:
    """Return whether the present history has revisions. Raises Conflict if they would be lost."""
    n_present = count_revisions(workspace.records_path)
    if n_present and not is_replacing:
        raise Conflict(
            f"the workspace has a history already: {render_count(n_present, 'revision')}",
            hint="restore with --replace (replace: true): the present one is set aside,"
            " not deleted",
        )
    return n_present > 0


def _adopt(workspace: Workspace, staged: Path, clock: Clock) -> None:
    identity = find_identity(workspace.entry.root)
    adopt(
        staged,
        workspace=workspace.id,
        root=workspace.entry.root,
        inode=None if identity is None else identity[1],
        now_s=clock.wall_s(),
    )


def _swap_in(workspace: Workspace, staged: Path, clock: Clock, *, is_kept: bool) -> Path | None:
    workspace.close_records()
    try:
        set_aside = swap_in(staged, workspace.records_path, now_s=clock.wall_s(), is_kept=is_kept)
    finally:
        open_records(workspace, clock)
    workspace.set_notice(RECORDS_GONE, "")
    return set_aside
