"""Record the changes that other programs make to notes as revisions in the history.

Each sync that finds changes records them, in the same job or, after a save, in the next one: a note
whose digest differs from the last one in records.db gets a revision without an author, with the
text that was indexed. The notes of a workspace, or of a wider selection, that is opened for the
first time are recorded without revisions, in jobs of SLICE_S each, so that other jobs run between
them; the sync that finds a change meanwhile records it. A text that a sync could not pass on is
read from the disk again. A failure to read is never a deletion.

A note that comes into sight may have been there for years: its folder was ignored, its disk was not
mounted, it was over a limit, or memsyncd did not run. It counts as created only if an event
announced it or a folder above it while the workspace was watched, and if its file is no older than
that event. Every other note is first seen, which no undo takes back.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Collection, Container, Iterable, Mapping

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.changes.diff import is_within
from memsyncd.core.digest import digest_bytes
from memsyncd.core.paths import NotePath
from memsyncd.engine.accesses import follow_notes, store_noted
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import record_external
from memsyncd.engine.rebuild import update_index
from memsyncd.engine.records import open_records, report_wal_sizes
from memsyncd.engine.recovery import recover
from memsyncd.engine.sync import RECORDS_FAULT, SyncDone, SyncRequest
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import MemsyncdError, StoreFailed
from memsyncd.files.read import (
    ReadFile,
    read_attributes,
    read_note_file,
    read_oldest_time,
    read_text_file,
)
from memsyncd.store.history import ObservedNote
from memsyncd.store.index import Index
from memsyncd.store.records import Records

# One commit holds this many notes or bytes, whichever limit is reached first.
BATCH_NOTES = 64
BATCH_BYTES = 1024 * 1024
# How long one job records or prunes; a save waits about as long before it is indexed.
SLICE_S = 0.05
# How long before its event a new note may have been made: a program that saves by a rename writes
# another file first, and an event may be read late.
CREATION_NS = 10 * 10**9
# The history is pruned after this many new revisions.
PRUNE_AFTER = 200


def sync_and_record(
    workspace: Workspace, config: Config, clock: Clock, request: SyncRequest
) -> Job[SyncDone]:
    """Sync, then record the changes, in one job."""
    done = yield from sync_notes(workspace, config, clock, request)
    if has_changes_to_record(workspace, done):
        yield from record_changes(workspace, config, clock, done)
    return done


def sync_notes(
    workspace: Workspace, config: Config, clock: Clock, request: SyncRequest
) -> Job[SyncDone]:
    """Open the records and sync. `record_changes` must follow if there are changes to record."""
    open_records(workspace, clock)
    request = _add_recovered(workspace, clock, request)
    # A note that could not be read until now was there, too.
    reported = frozenset(problem.path for problem in workspace.condition.scan_problems)
    is_watched = workspace.condition.scanned_s is not None
    done = yield from update_index(workspace, config, clock, request)
    if is_watched and not done.is_rebuild:
        done.created = yield from _find_created(workspace, clock, done.added, reported)
    if not config.history.enabled:
        # All notes must be compared again once the history is switched on.
        workspace.is_recorded = False
        workspace.set_unrecorded(None)
        if request.only is None and done.root_state == "present":
            # Without a history, nothing else finishes what a crash has interrupted.
            with contextlib.suppress(StoreFailed):
                recover(workspace, clock)
    if not has_changes_to_record(workspace, done):
        done.texts.clear()
        report_wal_sizes(workspace)
    return done


def has_changes_to_record(workspace: Workspace, done: SyncDone) -> bool:
    """True if a sync found changes, once the first recording of all notes has begun."""
    return bool(done.paths) and (workspace.is_recorded or workspace.unrecorded is not None)


def record_changes(workspace: Workspace, config: Config, clock: Clock, done: SyncDone) -> Job[None]:
    """Record the changes that a sync has found."""
    paths = {*done.paths, *done.discovered, *done.removed}
    texts, done.texts = done.texts, {}
    yield from _record_some(workspace, config, clock, paths, texts, new=done.created)
    if workspace.index is not None:
        workspace.index.checkpoint()
    report_wal_sizes(workspace)


def _find_created(
    workspace: Workspace, clock: Clock, added: Iterable[str], reported: frozenset[str]
) -> Job[frozenset[str]]:
    """Return the added notes that were created just now, while the workspace was watched."""
    created: set[str] = set()
    now_s, now_ns = clock.now_s(), clock.wall_ns()
    for path in added:
        announced_s = workspace.find_announced_s(path)
        if announced_s is None or is_within(path, reported):
            continue
        oldest_ns = read_oldest_time(workspace.scope, NotePath(path))
        announced_ns = now_ns - int((now_s - announced_s) * 1e9)
        if oldest_ns is not None and oldest_ns >= announced_ns - CREATION_NS:
            created.add(path)
        if len(created) % BATCH_NOTES == BATCH_NOTES - 1:
            yield
    return frozenset(created)


def _add_recovered(workspace: Workspace, clock: Clock, request: SyncRequest) -> SyncRequest:
    """Finish interrupted edits, and add the notes that this changes to the request."""
    recovered: frozenset[str] = frozenset()
    with contextlib.suppress(StoreFailed):
        recovered = recover(workspace, clock)
    if request.only is None:
        return request
    return replace(request, only=request.only | recovered)


# --- recording all notes ---


def record_all(workspace: Workspace, config: Config, clock: Clock) -> Job[None]:
    """Record every note that the index or the records know, in one job."""
    while (yield from record_slice(workspace, config, clock)):
        pass


def record_slice(workspace: Workspace, config: Config, clock: Clock) -> Job[bool]:
    """Record some of the notes whose digests in index and records differ; then prune.

    Returns True if another slice must follow, as a job of its own behind waiting jobs.
    """
    if workspace.is_recorded:
        return (yield from prune_slice(workspace, config, clock))
    # Notes of a missing folder must not count as recorded: the sync that finds it begins again.
    if not _can_record(workspace, config) or workspace.condition.root_state != "present":
        workspace.set_unrecorded(None)
        return False
    try:
        yield from _record_for_slice(workspace, clock)
    except StoreFailed as failure:
        _abort(workspace, failure)
        return False
    return True


def prune_slice(workspace: Workspace, config: Config, clock: Clock) -> Job[bool]:
    """Delete surplus and old revisions for SLICE_S. Returns True if more may have to be deleted."""
    kept, end_s = config.history, clock.now_s() + SLICE_S
    try:
        # The counts follow the revisions, so no revision may be deleted before they have.
        store_noted(workspace, config)
        yield from follow_notes(workspace)
        while workspace.records is not None and workspace.records.history.prune(
            max_revisions=kept.max_revisions, max_age_s=kept.max_age_s, now_s=clock.wall_s()
        ):
            if clock.now_s() >= end_s:
                return True
            yield
    except StoreFailed as failure:
        _abort(workspace, failure)
    workspace.n_unpruned = 0
    return False


def _can_record(workspace: Workspace, config: Config) -> bool:
    is_open = workspace.records is not None and workspace.index is not None
    return config.history.enabled and is_open and not workspace.is_closed


def _abort(workspace: Workspace, failure: StoreFailed) -> None:
    """Stop recording, because the records cannot be written; the next sync begins again."""
    workspace.set_unrecorded(None)
    workspace.set_fault(RECORDS_FAULT, f"records.db: {failure.message}")
    workspace.drop_failed_records()


def _record_for_slice(workspace: Workspace, clock: Clock) -> Job[None]:
    """Record notes for SLICE_S; set `is_recorded` after the last one."""
    records, index = workspace.records, workspace.index
    if records is None or index is None:
        return
    end_s = clock.now_s() + SLICE_S
    # An interrupted edit of memsyncd's own must not be recorded as another program's.
    recover(workspace, clock)
    if workspace.unrecorded is None:
        paths = _unrecorded_paths(index.iter_digests(), records.history.heads())
        workspace.set_unrecorded(paths)
    while unrecorded := workspace.unrecorded:
        _record_batch(workspace, clock, unrecorded, {}, frozenset())
        if clock.now_s() >= end_s:
            break
        yield
    if not workspace.unrecorded:
        workspace.set_unrecorded(None)
        workspace.is_recorded = True
        if not records.history.is_complete(workspace.scope.selection):
            records.history.set_complete(workspace.scope.selection)
    workspace.report_unrecorded()
    report_wal_sizes(workspace)


def _unrecorded_paths(digests: Iterable[tuple[str, str]], heads: dict[str, str]) -> deque[str]:
    """Return the paths of notes whose digest differs from the one in `heads`, in the order of
    `_order`; `heads` is emptied. The digests are iterated, because all of them together would leave
    megabytes of freed memory.
    """
    paths = sorted([path for path, digest in digests if heads.pop(path, None) != digest])
    return deque([*paths, *sorted(heads)])


def _order(paths: Iterable[str], recorded: Container[str]) -> deque[str]:
    """Put existing notes first, so that a move is recognised by its new path before its old path is
    missed.
    """
    return deque(sorted(paths, key=lambda path: (path not in recorded, path)))


# --- recording some notes ---


def _record_some(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    only: Collection[str],
    texts: Mapping[str, bytes],
    *,
    new: Collection[str],
) -> Job[None]:
    """Record external changes to these notes, of which `new` were created just now."""
    if not _can_record(workspace, config) or workspace.index is None:
        return
    try:
        recover(workspace, clock)
        waiting = deque(only)
        if len(waiting) > 1:
            waiting = _order(only, workspace.index.recorded(only))
        while waiting:
            _record_batch(workspace, clock, waiting, texts, new)
            if waiting:
                workspace.change(progressed_s=clock.now_s())
            yield
        if workspace.n_unpruned >= PRUNE_AFTER:
            yield from prune_slice(workspace, config, clock)
    except StoreFailed as failure:
        _abort(workspace, failure)


def _record_batch(
    workspace: Workspace,
    clock: Clock,
    waiting: deque[str],
    texts: Mapping[str, bytes],
    new: Collection[str],
) -> None:
    """Record the first of the waiting notes.

    Index and records are read again for each batch, because edits may have changed both since.
    """
    records, index = workspace.records, workspace.index
    if records is None or index is None:
        return
    batch = list(itertools.islice(waiting, BATCH_NOTES))
    recorded = {path: record.digest for path, record in index.recorded(batch).items()}
    heads = records.history.find_heads(batch)
    has_moves = records.has_moves()
    changed: list[ObservedNote] = []
    n_checked, n_bytes = 0, 0
    for path in batch:
        n_checked += 1
        if recorded.get(path) == heads.get(path):
            continue
        now_ns = clock.wall_ns()
        seen = _read_current(workspace, path, recorded, texts.get(path), now_ns=now_ns)
        if seen is not None:
            origin = _find_origin(records, index, seen, heads) if has_moves else None
            attributes = read_attributes(workspace.scope, NotePath(path))
            changed.append(
                replace(seen, moved_from=origin, is_new=path in new, attributes=attributes)
            )
            n_bytes += len(seen.data or b"")
        if n_bytes >= BATCH_BYTES:
            break
    if changed:
        record_external(workspace, records.history, changed, at_s=clock.wall_s())
    for _ in range(n_checked):
        waiting.popleft()


def _read_current(
    workspace: Workspace,
    path: str,
    recorded: Mapping[str, str],
    text: bytes | None,
    *,
    now_ns: int,
) -> ObservedNote | None:
    """Return the text that was indexed, or else the note's text on disk; None if it cannot be
    read.
    """
    if path not in recorded:
        return _read_unindexed(workspace, path)
    if text is None:
        read = read_note_file(workspace.scope, NotePath(path), now_ns=now_ns)
        text = read.data if isinstance(read, ReadFile) else None
    return None if text is None else ObservedNote(path=path, data=text)


def _read_unindexed(workspace: Workspace, path: str) -> ObservedNote | None:
    """Read a path that the index does not hold: its file is gone, or is no note.

    Returns None if that cannot be determined: an unreadable file is not a deleted one.
    """
    if workspace.condition.root_state != "present":
        return None
    try:
        file = read_text_file(workspace.scope, NotePath(path))
    except MemsyncdError:
        return None
    return ObservedNote(path=path, data=file.data if file else None)


def _find_origin(
    records: Records, index: Index, seen: ObservedNote, heads: Mapping[str, str]
) -> str | None:
    """Return the former path of a note, if the last sync that knew the note there saw it move."""
    if seen.path in heads or seen.data is None:
        return None
    digest = digest_bytes(seen.data)
    for move in records.find_moves(seen.path):
        recorded = records.history.find_heads([move.old_path]).get(move.old_path)
        is_same = recorded == digest == move.digest
        if is_same and move.old_path not in index.recorded([move.old_path]):
            return move.old_path
    return None
