"""Which changes did others make, and what stood there before?

A sync tells records.db what it saw, in the same job and text for text: each note whose digest differs from the last one known
there becomes a revision by nobody in particular. A workspace that is seen for the first time is only taken note of, in slices
of SLICE_S that a job runs one of, so that whatever waits comes between; what changes meanwhile is told by the sync that sees it.
What a sync could not hand on is read again, as it is now; a failure is no deletion.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace

from memsyncd.core.digest import digest_bytes
from memsyncd.core.notepath import NotePath
from memsyncd.engine.edit import record_external
from memsyncd.engine.indexing import update_index
from memsyncd.engine.lane import Steps
from memsyncd.engine.opening import tell_logs
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.recovery import recover
from memsyncd.engine.sync import RECORDS_FAULT, SyncDone, SyncRequest
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import MemsyncdError, StoreFailed
from memsyncd.files.read import ReadFile, read_note_file, read_text_file
from memsyncd.store.history import Seen
from memsyncd.store.index import Index
from memsyncd.store.records import Records

BATCH_NOTES = 64
BATCH_BYTES = 1024 * 1024
"""What one commit holds of the notes that are recorded: whichever comes first ends the batch."""
SLICE_S = 0.05
"""How long one job records or prunes: a save waits about as long for its turn."""
PRUNE_AFTER = 200
"""Revisions after which is looked whether there are too many."""


def follow_disk(workspace: Workspace, policy: SyncPolicy, clock: Clock, request: SyncRequest) -> Steps[SyncDone]:
    """As `update_index`; once all notes have been seen, or are being recorded, the records learn what it saw."""
    request = _join_recovered(workspace, clock, request)
    done = yield from update_index(workspace, policy, clock, request)
    texts, done.texts = done.texts, {}
    # What is not recorded has to be looked for once it shall be.
    if not policy.history.is_enabled:
        workspace.is_seen = False
        workspace.set_unrecorded(None)
    if not policy.history.is_enabled and request.only is None and done.root_state == "present":
        # Nobody else looks for what a crash has left while no history is kept.
        with contextlib.suppress(StoreFailed):
            recover(workspace, clock)
    if done.paths and (workspace.is_seen or workspace.unrecorded is not None):
        paths = {*done.paths, *done.discovered, *done.removed}
        yield from _see_some(workspace, policy, clock, paths, texts, new=frozenset(done.added))
        tell_logs(workspace)
    return done


def see_all(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Steps[None]:
    """Look at every note that the index or the records know, all in one job."""
    while (yield from catch_up(workspace, policy, clock)):
        pass


def catch_up(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Steps[bool]:
    """One slice of recording every note that the records do not know as the index does, then of pruning.

    True if another slice has to follow: as a job of its own, behind whatever waits by then.
    """
    if workspace.is_seen:
        return (yield from prune(workspace, policy, clock))
    # What cannot be read because the folder is away must not count as seen: the sync that finds it again begins anew.
    if not _can_record(workspace, policy) or workspace.condition.root_state != "present":
        workspace.set_unrecorded(None)
        return False
    try:
        yield from _record(workspace, clock)
    except StoreFailed as failure:
        _give_up(workspace, failure)
        return False
    return True


def prune(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Steps[bool]:
    """Drop revisions that are too many or too old, for SLICE_S; True if more may have to go."""
    kept, end_s = policy.history, clock.now_s() + SLICE_S
    try:
        while workspace.records is not None and workspace.records.history.prune(
            max_revisions=kept.max_revisions, max_age_s=kept.max_age_s, now_s=clock.wall_s()
        ):
            if clock.now_s() >= end_s:
                return True
            yield
    except StoreFailed as failure:
        _give_up(workspace, failure)
    workspace.n_unpruned = 0
    return False


def _can_record(workspace: Workspace, policy: SyncPolicy) -> bool:
    is_open = workspace.records is not None and workspace.index is not None and not workspace.is_over
    return policy.history.is_enabled and is_open


def _give_up(workspace: Workspace, failure: StoreFailed) -> None:
    """Records that cannot be written are a fault and stop nothing: the next sync begins again."""
    workspace.set_unrecorded(None)
    workspace.set_fault(RECORDS_FAULT, f"records.db: {failure.message}")
    workspace.give_up_records()


def _record(workspace: Workspace, clock: Clock) -> Steps[None]:
    """Record notes for SLICE_S; with the last one `is_seen` is set."""
    records, index = workspace.records, workspace.index
    if records is None or index is None:
        return
    end_s = clock.now_s() + SLICE_S
    # What memsyncd itself was about to write when it ended is not what others did.
    recover(workspace, clock)
    if workspace.unrecorded is None:
        workspace.set_unrecorded(_find_unseen(index.read_digests(), records.history.tips()))
    while unrecorded := workspace.unrecorded:
        _see_batch(workspace, clock, unrecorded, {}, frozenset())
        if clock.now_s() >= end_s:
            break
        yield
    if not workspace.unrecorded:
        workspace.set_unrecorded(None)
        workspace.is_seen = True
        if not records.history.is_complete:
            records.history.set_complete()
    workspace.tell_unrecorded()
    tell_logs(workspace)


def _find_unseen(recorded: Mapping[str, str], tips: Mapping[str, str]) -> deque[str]:
    return _order((path for path in recorded.keys() | tips.keys() if recorded.get(path) != tips.get(path)), recorded)


def _order(paths: Iterable[str], recorded: Container[str]) -> deque[str]:
    """Notes that are there first: a move is known by its new place before its old one is missed."""
    return deque(sorted(paths, key=lambda path: (path not in recorded, path)))


def _see_some(
    workspace: Workspace,
    policy: SyncPolicy,
    clock: Clock,
    only: Collection[str],
    texts: Mapping[str, bytes],
    *,
    new: Collection[str],
) -> Steps[None]:
    """Record what others did to these notes, of which `new` were not there before."""
    if not _can_record(workspace, policy) or workspace.index is None:
        return
    try:
        recover(workspace, clock)
        waiting = _order(only, workspace.index.recorded(only))
        while waiting:
            _see_batch(workspace, clock, waiting, texts, new)
            yield
        if workspace.n_unpruned >= PRUNE_AFTER:
            yield from prune(workspace, policy, clock)
    except StoreFailed as failure:
        _give_up(workspace, failure)


def _see_batch(workspace: Workspace, clock: Clock, waiting: deque[str], texts: Mapping[str, bytes], new: Collection[str]) -> None:
    """Record the first of those that wait, as index and records know them at this moment: much may have changed meanwhile."""
    records, index = workspace.records, workspace.index
    if records is None or index is None:
        return
    batch = list(itertools.islice(waiting, BATCH_NOTES))
    recorded = {path: record.digest for path, record in index.recorded(batch).items()}
    tips = records.history.find_tips(batch)
    has_moves = records.has_moves()
    seen: list[Seen] = []
    n_looked, n_bytes = 0, 0
    for path in batch:
        n_looked += 1
        if recorded.get(path) == tips.get(path):
            continue
        looked = _look(workspace, path, recorded, texts.get(path), now_ns=clock.wall_ns())
        if looked is not None:
            origin = _find_origin(records, index, looked, tips) if has_moves else None
            seen.append(replace(looked, moved_from=origin, is_new=path in new))
            n_bytes += len(looked.data or b"")
        if n_bytes >= BATCH_BYTES:
            break
    if seen:
        record_external(workspace, records.history, seen, at_s=clock.wall_s())
    for _ in range(n_looked):
        waiting.popleft()


def _join_recovered(workspace: Workspace, clock: Clock, request: SyncRequest) -> SyncRequest:
    """Finish what was interrupted, if it could not be finished before, and look at what that changed."""
    recovered: frozenset[str] = frozenset()
    with contextlib.suppress(StoreFailed):
        recovered = recover(workspace, clock)
    return request if request.only is None else replace(request, only=request.only | recovered)


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


def _find_origin(records: Records, index: Index, seen: Seen, tips: Mapping[str, str]) -> str | None:
    """Where a note was before, if the last sync that knew it there saw it move."""
    if seen.path in tips or seen.data is None:
        return None
    digest = digest_bytes(seen.data)
    for move in records.find_moves(seen.path):
        known = records.history.find_tips([move.old_path]).get(move.old_path)
        if known == digest == move.digest and move.old_path not in index.recorded([move.old_path]):
            return move.old_path
    return None
