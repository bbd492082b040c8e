"""Which changes did others make, and what stood there before?

After a sync, records.db is told what the index saw: each note whose digest differs from the last one known there is read again
and becomes a revision by nobody in particular. A workspace that is seen for the first time is only taken note of. A batch of
notes at a time, so that other jobs come between; what has changed once more since is recorded as it is now; a failure is no
deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memsyncd.core.notepath import NotePath
from memsyncd.engine.edit import recover, see_others
from memsyncd.engine.lane import Steps
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.sync import RECORDS_FAULT
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import MemsyncdError, StoreFailed
from memsyncd.store.history import Seen
from memsyncd.workspace.files import ReadFile, read_note_file
from memsyncd.workspace.writing import read_text_file

BATCH_NOTES = 32
PRUNE_AFTER = 200
"""Revisions after which is looked whether there are too many."""


def see_changes(workspace: Workspace, policy: SyncPolicy, clock: Clock, *, only: Collection[str] | None = None) -> Steps[None]:
    """Record what others did to the notes of `only`, or to any. Records that cannot be written are a fault and stop nothing."""
    if not policy.history.is_enabled or workspace.records is None or workspace.index is None or workspace.is_over:
        return
    try:
        yield from _see(workspace, clock, only)
        if only is None or workspace.n_unpruned >= PRUNE_AFTER:
            yield from _prune(workspace, policy, clock)
    except StoreFailed as failure:
        workspace.set_fault(RECORDS_FAULT, f"records.db: {failure.message}")
        workspace.close_records()


def _see(workspace: Workspace, clock: Clock, only: Collection[str] | None) -> Steps[None]:
    if workspace.records is None or workspace.index is None:
        return
    # What memsyncd itself was about to write when it ended is not what others did.
    recover(workspace)
    history = workspace.records.history
    recorded = {path: record.digest for path, record in workspace.index.recorded(only).items()}
    tips = history.tips()
    unseen = [path for path in _choose(recorded, tips, only) if recorded.get(path) != tips.get(path)]
    for start in range(0, len(unseen), BATCH_NOTES):
        looked = (_look(workspace, clock, path, recorded, tips) for path in unseen[start : start + BATCH_NOTES])
        seen = [one for one in looked if one is not None]
        if seen:
            see_others(workspace, history, seen, at_s=clock.wall_s())
        yield
    if only is None and not history.is_complete:
        history.set_complete()


def _prune(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Steps[None]:
    kept, workspace.n_unpruned = policy.history, 0
    while workspace.records is not None and workspace.records.history.prune(
        max_revisions=kept.max_revisions, max_age_s=kept.max_age_s, now_s=clock.wall_s()
    ):
        yield


def _choose(recorded: Mapping[str, str], tips: Mapping[str, str], only: Collection[str] | None) -> list[str]:
    """Notes that are there first: a move is known by its new place before its old one is missed."""
    named = recorded.keys() | tips.keys() if only is None else set(only)
    return sorted(named, key=lambda path: (path not in recorded, path))


def _look(workspace: Workspace, clock: Clock, path: str, recorded: Mapping[str, str], tips: Mapping[str, str]) -> Seen | None:
    """What stands there now; None if that cannot be told."""
    if path not in recorded:
        return _look_for_gone(workspace, path)
    read = read_note_file(workspace.scope, NotePath(path), now_ns=clock.wall_ns())
    if not isinstance(read, ReadFile):
        return None
    return Seen(path=path, data=read.data, moved_from=_find_origin(workspace, path, read.record.digest, recorded, tips))


def _look_for_gone(workspace: Workspace, path: str) -> Seen | None:
    """A file that the index does not hold: gone, or no note. What cannot be looked at is not gone."""
    if workspace.condition.root_state != "present":
        return None
    try:
        file = read_text_file(workspace.scope, NotePath(path))
    except MemsyncdError:
        return None
    return Seen(path=path, data=file.data if file else None)


def _find_origin(
    workspace: Workspace, path: str, digest: str, recorded: Mapping[str, str], tips: Mapping[str, str]
) -> str | None:
    """Where a note was before, if the last sync that knew it there saw it move."""
    if path in tips or workspace.records is None:
        return None
    for move in workspace.records.find_moves(path):
        if tips.get(move.old_path) == digest == move.digest and move.old_path not in recorded:
            return move.old_path
    return None
