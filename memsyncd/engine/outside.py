"""Which changes did others make, and what stood there before?

A sync tells records.db what it saw, in the same job and text for text: each note whose digest differs from the last one known
there becomes a revision by nobody in particular. A workspace that is seen for the first time is only taken note of, a batch of
notes at a time, so that other jobs come between. What a sync could not hand on is read again, as it is now; a failure is no
deletion.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from memsyncd.core.digest import digest_bytes
from memsyncd.core.notepath import NotePath
from memsyncd.engine.edit import see_others
from memsyncd.engine.indexing import update_index
from memsyncd.engine.lane import Steps
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.recovery import recover
from memsyncd.engine.sync import RECORDS_FAULT, SyncDone, SyncRequest
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import MemsyncdError, StoreFailed
from memsyncd.store.history import Seen
from memsyncd.workspace.files import ReadFile, read_note_file
from memsyncd.workspace.writing import read_text_file

BATCH_NOTES = 32
PRUNE_AFTER = 200
"""Revisions after which is looked whether there are too many."""


def follow_disk(workspace: Workspace, policy: SyncPolicy, clock: Clock, request: SyncRequest) -> Steps[SyncDone]:
    """As `update_index`; once all notes have been seen, the records learn what it saw."""
    request = _join_recovered(workspace, clock, request)
    done = yield from update_index(workspace, policy, clock, request)
    texts, done.texts = done.texts, {}
    # What is not recorded has to be looked for once it shall be.
    workspace.is_seen = workspace.is_seen and policy.history.is_enabled
    if not policy.history.is_enabled and request.only is None and done.root_state == "present":
        # Nobody else looks for what a crash has left while no history is kept.
        with contextlib.suppress(StoreFailed):
            recover(workspace, clock)
    if workspace.is_seen and done.paths:
        yield from _see_some(workspace, policy, clock, {*done.paths, *done.discovered, *done.removed}, texts)
    return done


def see_all(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Steps[None]:
    """Look at every note that the index or the records know."""
    yield from _see_some(workspace, policy, clock, None, {})


def prune(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Steps[None]:
    """Drop revisions that are too many or too old."""
    kept, workspace.n_unpruned = policy.history, 0
    while workspace.records is not None and workspace.records.history.prune(
        max_revisions=kept.max_revisions, max_age_s=kept.max_age_s, now_s=clock.wall_s()
    ):
        yield


def _see_some(
    workspace: Workspace, policy: SyncPolicy, clock: Clock, only: Collection[str] | None, texts: Mapping[str, bytes]
) -> Steps[None]:
    """Record what others did to the notes of `only`, or to any. Records that cannot be written are a fault and stop nothing."""
    if not policy.history.is_enabled or workspace.records is None or workspace.index is None or workspace.is_over:
        return
    try:
        yield from _see(workspace, clock, only, texts)
        if only is None or workspace.n_unpruned >= PRUNE_AFTER:
            yield from prune(workspace, policy, clock)
    except StoreFailed as failure:
        workspace.set_fault(RECORDS_FAULT, f"records.db: {failure.message}")
        workspace.give_up_records()


def _see(workspace: Workspace, clock: Clock, only: Collection[str] | None, texts: Mapping[str, bytes]) -> Steps[None]:
    if workspace.records is None or workspace.index is None:
        return
    # What memsyncd itself was about to write when it ended is not what others did.
    recover(workspace, clock)
    history = workspace.records.history
    recorded = {path: record.digest for path, record in workspace.index.recorded(only).items()}
    tips = history.tips()
    unseen = [path for path in _choose(recorded, tips, only) if recorded.get(path) != tips.get(path)]
    for start in range(0, len(unseen), BATCH_NOTES):
        batch = unseen[start : start + BATCH_NOTES]
        looked = [_look(workspace, path, recorded, texts.get(path), now_ns=clock.wall_ns()) for path in batch]
        seen = [replace(one, moved_from=_find_origin(workspace, one, recorded, tips)) for one in looked if one is not None]
        if seen:
            see_others(workspace, history, seen, at_s=clock.wall_s())
        yield
    if only is None:
        workspace.is_seen = True
        if not history.is_complete:
            history.set_complete()


def _join_recovered(workspace: Workspace, clock: Clock, request: SyncRequest) -> SyncRequest:
    """Finish what was interrupted, if it could not be finished before, and look at what that changed."""
    recovered: frozenset[str] = frozenset()
    with contextlib.suppress(StoreFailed):
        recovered = recover(workspace, clock)
    return request if request.only is None else replace(request, only=request.only | recovered)


def _choose(recorded: Mapping[str, str], tips: Mapping[str, str], only: Collection[str] | None) -> list[str]:
    """Notes that are there first: a move is known by its new place before its old one is missed."""
    named = recorded.keys() | tips.keys() if only is None else set(only)
    return sorted(named, key=lambda path: (path not in recorded, path))


def _look(workspace: Workspace, path: str, recorded: Mapping[str, str], text: bytes | None, *, now_ns: int) -> Seen | None:
    """What was indexed, else what stands there now; None if that cannot be told."""
    if path not in recorded:
        return _look_for_gone(workspace, path)
    if text is None:
        read = read_note_file(workspace.scope, NotePath(path), now_ns=now_ns)
        text = read.data if isinstance(read, ReadFile) else None
    return None if text is None else Seen(path=path, data=text)


def _look_for_gone(workspace: Workspace, path: str) -> Seen | None:
    """A file that the index does not hold: gone, or no note. What cannot be looked at is not gone."""
    if workspace.condition.root_state != "present":
        return None
    try:
        file = read_text_file(workspace.scope, NotePath(path))
    except MemsyncdError:
        return None
    return Seen(path=path, data=file.data if file else None)


def _find_origin(workspace: Workspace, seen: Seen, recorded: Mapping[str, str], tips: Mapping[str, str]) -> str | None:
    """Where a note was before, if the last sync that knew it there saw it move."""
    # Where nothing is known yet, as at a first look, nothing can have moved.
    if not tips or seen.path in tips or seen.data is None or workspace.records is None:
        return None
    digest = digest_bytes(seen.data)
    for move in workspace.records.find_moves(seen.path):
        if tips.get(move.old_path) == digest == move.digest and move.old_path not in recorded:
            return move.old_path
    return None
