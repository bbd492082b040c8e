"""Bring a workspace's index up to date with its files.

A sync scans, compares, reads the notes that may have changed, parses those that did and writes
them: in one transaction, or in batches if there are many. Each step between two `yield`s is short,
so that the worker serves other workspaces between them. A failed listing deletes nothing, a missing
root keeps everything, and a vanished note is kept for the grace.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.changes.diff import (
    NOTHING_MISSING,
    Missing,
    NoteChanges,
    Recorded,
    Snapshot,
    Suspects,
    find_suspects,
    has_ordinary_name,
    is_disk_away,
    is_within,
    plan_changes,
    track_missing,
)
from memsyncd.core.model import Problem
from memsyncd.core.paths import NotePath
from memsyncd.engine.clock import Clock
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import StoreFailed, StoreFull
from memsyncd.files.read import ReadFile, TextFile, read_note_file
from memsyncd.files.scan import find_away, find_mounts, scan
from memsyncd.files.scope import find_identity, has_memory, is_utf8
from memsyncd.store.index import DropNote, Index, PatchNote, PutNote, TouchNote, Update, Written
from memsyncd.store.records import Move

# A batch is held in memory, several times over as rows. Larger batches leave freed memory that
# fragmentation keeps from being returned to the system. 256 deletions take up to half a second.
BATCH_FILES = 256
# A smaller note is parsed as fast as its old text is read and compared.
PATCH_BYTES = 4 * 1024
BATCH_BYTES = 1024 * 1024
# A sync passes the texts of changed notes on to the history up to this size; others are read again.
TEXTS_LIMIT_BYTES = 1024 * 1024
STEP_FILES = 16

ROOT_FAULT, FOLDER_FAULT, RECORDS_FAULT = "root", "folders", "records"
ACCESS_FAULT = "index_access"
ROOT_FAULTS = {
    "missing": (
        "the folder is missing: its indexed notes stay searchable;"
        " bring it back, or remove the workspace"
    ),
    "unreadable": (
        "the folder cannot be listed: its indexed notes stay searchable;"
        " make it readable for you, or mount its disk again"
    ),
}
FOLDER_PROBLEMS = {"not_mounted", "unreadable_folder"}
UNREAD_NOTE = "unreadable_file"
# Files and folders with these problems may hold what a search misses. Where a disk or the root is
# away there is nothing to miss.
UNSEEN_PROBLEMS = frozenset({"unreadable_folder", UNREAD_NOTE, ROOT_FAULT})
UNAVAILABLE_FOLDERS = (
    "a folder of notes is not available: its indexed notes stay searchable;"
    " which one: memsyncd problems"
)


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The scope of a sync: everything, or `only` these paths and everything beneath them.

    With `is_full` every note is read again.
    """

    only: frozenset[str] | None = None
    is_full: bool = False
    grace_s: float = 0.0
    index: Index | None = None
    """The index to write instead of the workspace's own: the new file of a rebuild."""
    bulk_bytes: int | None = None
    """If more bytes of new notes than this are to be read, and no note is missing, the sync only
    sets `SyncDone.is_bulk`."""
    releases_memory: bool = True
    """Whether a sync of everything closes idle readers, and has the others free what they have
    read: a request that waits for the sync would read it again."""


class SyncDone(msgspec.Struct, kw_only=True):
    """The result of a sync."""

    started_at_s: float
    began_s: float
    """The time of `started_at_s` on the monotonic clock."""
    duration_ms: float = 0.0
    root_state: str = "present"
    added: list[str] = msgspec.field(default_factory=list)
    modified: list[str] = msgspec.field(default_factory=list)
    moved: list[tuple[str, str]] = msgspec.field(default_factory=list)
    removed: list[str] = msgspec.field(default_factory=list)
    vanished: list[str] = msgspec.field(default_factory=list)
    """Notes that this sync was the first to miss."""
    n_unchanged: int = 0
    pending_deletes: tuple[str, ...] = ()
    """Missing notes that are kept until their grace is over."""
    pending_delete_s: float = 0.0
    """The time until the first grace is over."""
    absent: frozenset[str] = frozenset()
    """Notes that are missing or were just emptied, and are still indexed as they were."""
    unstable: tuple[str, ...] = ()
    """Notes that changed while they were read; they must be synced again."""
    has_new_folders: bool = False
    """The targets of links, or the root, have changed: the watches must follow."""
    is_bulk: bool = False
    """Nothing was written: see `SyncRequest.bulk_bytes`."""
    is_rebuild: bool = False
    """The notes in `added` are new only in the rebuilt index."""
    index_fault: str = ""
    """Why the index must be rebuilt though writing it succeeded; checked by full syncs."""
    failed: list[Problem] = msgspec.field(default_factory=list)
    """Files and folders that could not be read, the root as `.`; their indexed notes are kept."""
    generation: int = 0
    paths: list[str] = msgspec.field(default_factory=list)
    texts: dict[str, bytes] = msgspec.field(default_factory=dict)
    """The texts of changed notes as they were indexed, up to TEXTS_LIMIT_BYTES in all."""
    n_text_bytes: int = 0
    created: frozenset[str] = frozenset()
    """The notes in `added` that another program has evidently created just now."""
    n_upserted: int = 0
    n_deleted: int = 0
    n_kept: int = 0
    n_shifted: int = 0

    @property
    def discovered(self) -> list[str]:
        """Every path whose change this sync was the first to find."""
        moved = itertools.chain.from_iterable(self.moved)
        return [*self.added, *self.modified, *moved, *self.vanished]

    @property
    def is_quiet(self) -> bool:
        """True if the sync found nothing new and needs no follow-up."""
        return not (
            self.paths
            or self.discovered
            or self.pending_deletes
            or self.unstable
            or self.has_new_folders
            or self.index_fault
        )

    def describe(self) -> dict[str, float]:
        """The fields of the log line."""
        return {
            "generation": self.generation,
            "added": len(self.added),
            "modified": len(self.modified),
            "moved": len(self.moved),
            "removed": len(self.removed),
            "unchanged": self.n_unchanged,
            "failed": len(self.failed),
            "upserted": self.n_upserted,
            "deleted": self.n_deleted,
            "duration_ms": round(self.duration_ms, 1),
        }

    def keep_text(self, path: str, data: bytes) -> None:
        if self.n_text_bytes + len(data) <= TEXTS_LIMIT_BYTES:
            self.texts[path] = data
            self.n_text_bytes += len(data)

    def count(self, written: Written) -> None:
        self.generation = written.generation
        self.paths += written.paths
        self.n_upserted += written.upserted
        self.n_deleted += written.deleted
        self.n_kept += written.kept
        self.n_shifted += written.moved


def sync_workspace(
    workspace: Workspace, config: Config, clock: Clock, request: SyncRequest
) -> Job[SyncDone]:
    """Run one sync.

    Raises the classes of `store.connection.translating_errors`; earlier commits are kept.
    """
    started_s, index = clock.now_s(), request.index or workspace.index
    if index is None:
        raise AssertionError("a sync needs an open index")
    if request.only is None and request.index is None:
        index.check_not_truncated()
    if saved := _index_saved(workspace, index, config, clock, request):
        return saved
    done = SyncDone(started_at_s=clock.wall_s(), began_s=started_s, generation=index.generation)
    snapshot, recorded, suspects = _scan(workspace, index, request)
    missing = track_missing(
        workspace.missing, recorded, snapshot, suspects.vanished, now_s=clock.now_s()
    )
    done.n_unchanged, done.root_state = suspects.n_unchanged, snapshot.root_state
    if request.bulk_bytes is not None and not missing.since_s:
        done.is_bulk = _count_new_bytes(suspects, snapshot, recorded) > request.bulk_bytes
    pending = len(suspects.to_read) + len(suspects.vanished)
    if done.is_bulk:
        # The notes of another index are not missing from the one that answers.
        workspace.change(pending=pending if request.index is None else 0)
        return done
    done.absent = frozenset(missing.since_s)
    done.vanished = sorted(done.absent - set(workspace.missing.since_s))
    updates: list[Update] = []
    with _reporting_progress(workspace, pending):
        for batch in _read_batches(
            workspace, suspects.to_read, recorded, clock, request.grace_s, done
        ):
            # The previous batch is written only now, so that the last one shares the transaction
            # of the first deletions below.
            _write(workspace, index, updates, done)
            read = {file.path.text: file.record for file in batch}
            changes = plan_changes(recorded, read, missing, now_s=0.0, grace_s=float("inf"))
            missing = _without(missing, {old for old, _ in changes.moved})
            _record_moves(workspace, changes, batch, done)
            for update in _make_updates(batch, changes, config, index, done):
                updates.append(update)
                if len(updates) % STEP_FILES == 0:
                    left = max(0, pending - len(updates))
                    workspace.change(pending=left, progressed_s=clock.now_s())
                    yield
            pending -= len(batch) + len(changes.moved)
        now_s = clock.now_s()
        end = plan_changes(recorded, {}, missing, now_s=now_s, grace_s=request.grace_s)
        done.removed, done.pending_deletes = list(end.gone), end.pending_deletes
        first_s = min((missing.since_s[path] for path in end.pending_deletes), default=now_s)
        done.pending_delete_s = max(0.0, first_s + config.sync.delete_grace_s - clock.now_s())
        yield from _write_deletions(workspace, clock, index, updates, end.gone, done)
    workspace.missing = _without(missing, set(end.gone))
    _conclude(workspace, snapshot, done)
    done.duration_ms = (clock.now_s() - started_s) * 1000
    return done


class EditedNotes(msgspec.Struct, kw_only=True):
    """The files that the operations of an edit have left on the disk.

    The edit began to read at `began_ns`, on the wall clock. `named` are the files and folders that
    it named, `written` the files that it wrote, with their bytes and stat, and `gone` the files
    that it deleted or renamed.
    """

    began_ns: int
    named: set[str] = msgspec.field(default_factory=set)
    written: dict[str, TextFile] = msgspec.field(default_factory=dict)
    gone: set[str] = msgspec.field(default_factory=set)

    def put(self, path: str, file: TextFile) -> None:
        self.gone.discard(path)
        self.written[path] = file

    def drop(self, path: str) -> None:
        self.written.pop(path, None)
        self.gone.add(path)


def is_scan_needed(workspace: Workspace, edited: EditedNotes) -> bool:
    """True if only a scan can tell what an edit has changed."""
    if edited.gone and workspace.link_folders:
        return True
    if len(edited.written) + len(edited.gone) > STEP_FILES:
        return True
    if not all(map(workspace.scope.is_note, edited.written)):
        return True
    return not _is_known_alone(workspace, edited.written, edited.named)


def index_edited(
    workspace: Workspace, config: Config, clock: Clock, edited: EditedNotes
) -> SyncDone | None:
    """Index the files that an edit has left, planned like a sync but without a look at the disk.

    None, and nothing is done, if a scan is needed after all.
    """
    index, started_s = workspace.index, clock.now_s()
    if index is None or workspace.condition.faults:
        return None
    recorded = index.recorded(edited.named)
    if not recorded.keys() <= edited.written.keys() | edited.gone:
        return None  # notes of a folder that had the name, or came into one that was renamed
    gone = Missing(since_s=dict.fromkeys(edited.gone, 0.0), sure=frozenset(edited.gone))
    batch = [
        ReadFile(
            path=NotePath(path),
            data=file.data,
            # A save that came after the edit began to read is found by its stat, or because this
            # record is racy: the next scan reads the note again.
            record=Recorded(stat=file.stat, digest=file.digest, read_at_ns=edited.began_ns),
            is_unstable=False,
        )
        for path, file in edited.written.items()
    ]
    done = _index_read(workspace, index, config, clock, batch, recorded, gone)
    done.texts.clear()
    # The event of the edit's own write has arrived by now; another save has an event of its own.
    done.began_s, done.duration_ms = started_s, (clock.now_s() - started_s) * 1000
    return done


def _index_saved(
    workspace: Workspace, index: Index, config: Config, clock: Clock, request: SyncRequest
) -> SyncDone | None:
    """Index notes that other programs have saved, with no look at anything but their files.

    None, and nothing is done, if one of them is new, has vanished or is unstable, or if only a
    scan can tell what they change.
    """
    paths, started_s = request.only, clock.now_s()
    if not paths or request.is_full or index is not workspace.index or workspace.link_folders:
        return None
    if not _is_known_alone(workspace, paths):
        return None
    recorded = index.recorded(paths)
    if recorded.keys() != paths:
        return None
    batch: list[ReadFile] = []
    for path in paths:
        read = read_note_file(workspace.scope, NotePath(path), now_ns=clock.wall_ns())
        if not isinstance(read, ReadFile) or read.is_unstable:
            return None
        if _is_just_emptied(read, recorded[path], request.grace_s):
            return None
        batch.append(read)
    if workspace.condition.pending:
        workspace.change(pending=0)
    done = _index_read(workspace, index, config, clock, batch, recorded, NOTHING_MISSING)
    done.began_s, done.duration_ms = started_s, (clock.now_s() - started_s) * 1000
    return done


def _is_known_alone(
    workspace: Workspace, paths: Collection[str], named: Collection[str] = ()
) -> bool:
    """True if these notes can be indexed without a scan, which would tell nothing more of them.

    A scan tells more if a missing note may have moved, or if a name or a former problem of the
    notes, or of what is within the folders that are `named`, may have to be reported.
    """
    if workspace.missing.since_s or workspace.condition.faults or len(paths) > STEP_FILES:
        return False
    # The other notes of a vault may be in a folder that its .gitignore leaves out.
    if not all(map(workspace.scope.is_named, paths)):
        return False
    within = frozenset(named or paths)
    problems = workspace.condition.scan_problems
    has_problem = any(is_within(problem.path, within) for problem in problems)
    return not has_problem and all(map(has_ordinary_name, paths))


def _index_read(
    workspace: Workspace,
    index: Index,
    config: Config,
    clock: Clock,
    batch: list[ReadFile],
    recorded: Mapping[str, Recorded],
    missing: Missing,
) -> SyncDone:
    """Index the notes that differ from their records and drop the missing, in one commit."""
    done = SyncDone(started_at_s=clock.wall_s(), began_s=clock.now_s(), generation=index.generation)
    read = {file.path.text: file.record for file in batch}
    changes = plan_changes(recorded, read, missing, now_s=0.0, grace_s=0.0)
    _record_moves(workspace, changes, batch, done)
    updates = [*_make_updates(batch, changes, config, index, done), *map(DropNote, changes.gone)]
    _write(workspace, index, updates, done)
    done.removed = list(changes.gone)
    workspace.change(index_bytes=index.size_bytes(), partly_synced_at_s=done.started_at_s)
    return done


def _scan(
    workspace: Workspace, index: Index, request: SyncRequest
) -> tuple[Snapshot, Mapping[str, Recorded], Suspects]:
    """Scan, and compare with the records of the notes that the scan has not found unchanged."""
    away, ignore_rules = find_away_mounts(workspace), workspace.ignore_rules
    if request.only is None and not request.is_full:
        stats = index.known_stats()
        workspace.detect_memory()
        snapshot = scan(workspace.scope, known=stats, ignore_rules=ignore_rules, away=away)
        recorded = index.find_recorded(snapshot.not_skipped)
    else:
        only, missing = request.only, workspace.missing.since_s.keys()
        # Missing notes are needed to recognise moves; no note has a name that is not UTF-8.
        paths = None if only is None else {*filter(is_utf8, only), *missing}
        recorded = index.recorded(paths)
        workspace.detect_memory()
        snapshot = scan(workspace.scope, only=only, ignore_rules=ignore_rules, away=away)
        if snapshot.only is None and only is not None:
            recorded = index.recorded()
        elif snapshot.only is not None:
            new = (stat for path, stat in snapshot.files.items() if path not in recorded)
            former = index.find_former_paths(new) - recorded.keys()
            if former:
                # The event of the path that a note has left may come later.
                return _scan(workspace, index, replace(request, only=snapshot.only | former))
    if is_away(workspace, recorded, snapshot):
        if snapshot.only is not None:
            # Other notes may be there: only a scan of everything tells that the folder is empty.
            return _scan(workspace, index, replace(request, only=None))
        snapshot = replace(snapshot, root_state="missing")
    suspects = find_suspects(recorded, snapshot, is_full=request.is_full)
    if suspects.vanished and workspace.link_folders and snapshot.only is not None:
        # A vanished path may be a link: another link to the same target now stands for the target.
        return _scan(workspace, index, replace(request, only=None))
    return snapshot, recorded, suspects


def _count_new_bytes(
    suspects: Suspects, snapshot: Snapshot, recorded: Mapping[str, Recorded]
) -> int:
    new = (path for path in suspects.to_read if path not in recorded)
    return sum(snapshot.files[path].size_bytes for path in new)


def _read_batches(
    workspace: Workspace,
    paths: Iterable[str],
    recorded: Mapping[str, Recorded],
    clock: Clock,
    grace_s: float,
    done: SyncDone,
) -> Iterator[list[ReadFile]]:
    """Read notes, at most BATCH_FILES or about BATCH_BYTES at a time."""
    batch: list[ReadFile] = []
    n_bytes = 0
    for path in paths:
        outcome = read_note_file(workspace.scope, NotePath(path), now_ns=clock.wall_ns())
        if not isinstance(outcome, ReadFile):
            if outcome.problem is not None:
                done.failed.append(outcome.problem)
            continue
        if outcome.is_unstable:
            done.unstable += (path,)
        if path in recorded and _is_just_emptied(outcome, recorded[path], grace_s):
            done.unstable += (path,)
            done.absent |= {path}
            continue
        batch.append(outcome)
        n_bytes += len(outcome.data)
        if len(batch) >= BATCH_FILES or n_bytes >= BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def _is_just_emptied(read: ReadFile, before: Recorded, grace_s: float) -> bool:
    """True if a note with text has been empty for less than the grace.

    Many programs truncate a file before they write it.
    """
    if read.data or before.stat.size_bytes == 0:
        return False
    return 0 <= read.record.read_at_ns - read.record.stat.mtime_ns < grace_s * 1e9


def _make_updates(
    batch: list[ReadFile], changes: NoteChanges, config: Config, index: Index, done: SyncDone
) -> Iterator[Update]:
    # A daemon that starts and finds no change never needs the parser.
    from memsyncd.core.markdown.parse import parse_note

    by_path = {file.path.text: file for file in batch}
    came_from = {new: old for old, new in changes.moved}
    done.added += changes.added
    done.modified += changes.modified
    done.moved += changes.moved
    n_changed = len(changes.added) + len(changes.modified) + len(changes.moved)
    done.n_unchanged += len(batch) - n_changed
    for path in (*changes.added, *changes.modified, *came_from):
        file = by_path[path]
        done.keep_text(path, file.data)
        is_edit = path not in came_from and path not in changes.added
        patch = _find_patch(file, config, index) if is_edit else None
        yield patch or PutNote(
            note=parse_note(file.path, file.data, config.chunking, config.guard),
            stat=file.record.stat,
            read_at_ns=file.record.read_at_ns,
            moved_from=came_from.get(path),
        )
    for path in changes.touched:
        record = by_path[path].record
        yield TouchNote(path=path, stat=record.stat, read_at_ns=record.read_at_ns)


def _find_patch(file: ReadFile, config: Config, index: Index) -> PatchNote | None:
    """An edit of a large note, if only its lines need be parsed and written."""
    if len(file.data) < PATCH_BYTES or (old := index.read_outline(file.path.text)) is None:
        return None
    from memsyncd.core.markdown.parse import rechunk_note

    patch = rechunk_note(file.path, file.data, old, config.chunking, config.guard)
    if patch is None:
        return None
    return PatchNote(patch=patch, stat=file.record.stat, read_at_ns=file.record.read_at_ns)


def _write(workspace: Workspace, index: Index, updates: list[Update], done: SyncDone) -> None:
    if not updates:
        return
    written = index.apply(updates)
    updates.clear()
    done.count(written)
    if index is workspace.index:
        workspace.note_written(written)


@contextlib.contextmanager
def _reporting_progress(workspace: Workspace, n_notes: int) -> Iterator[None]:
    """Report how many notes a sync has to index, and of many how many it had at its start."""
    workspace.change(pending=n_notes, n_to_sync=n_notes if n_notes > BATCH_FILES else 0)
    try:
        yield
    finally:
        workspace.change(n_to_sync=0)


def _write_deletions(
    workspace: Workspace,
    clock: Clock,
    index: Index,
    updates: list[Update],
    gone: Sequence[str],
    done: SyncDone,
) -> Job[None]:
    """Write the last updates with the first deletions, then the others in batches."""
    for start in range(0, len(gone), BATCH_FILES):
        if start:
            workspace.change(pending=len(gone) - start, progressed_s=clock.now_s())
            yield
        updates += map(DropNote, gone[start : start + BATCH_FILES])
        _write(workspace, index, updates, done)
    _write(workspace, index, updates, done)


def _record_moves(
    workspace: Workspace, changes: NoteChanges, batch: list[ReadFile], done: SyncDone
) -> None:
    if not changes.moved or workspace.records is None:
        return
    digests = {file.path.text: file.record.digest for file in batch}
    moves = [
        Move(old_path=old, new_path=new, digest=digests[new], seen_at_s=done.started_at_s)
        for old, new in changes.moved
    ]
    try:
        workspace.records.add_moves(moves)
    except StoreFull:
        raise
    except StoreFailed as failure:
        # Saved notes must become searchable even if the records fail; the next sync opens those
        # again or sets them aside.
        workspace.set_fault(RECORDS_FAULT, f"records.db: {failure.message}")
        workspace.drop_failed_records()


def _without(missing: Missing, paths: set[str]) -> Missing:
    if not paths:
        return missing
    since_s = {path: first_s for path, first_s in missing.since_s.items() if path not in paths}
    return replace(missing, since_s=since_s, sure=missing.sure - paths)


def _conclude(workspace: Workspace, snapshot: Snapshot, done: SyncDone) -> None:
    """Update the condition; a scan of some paths changes only the problems of these."""
    is_full_scan = snapshot.only is None
    workspace.set_fault(ROOT_FAULT, ROOT_FAULTS.get(snapshot.root_state, ""))
    condition = workspace.condition
    problems = _merge_problems(condition.scan_problems, snapshot, done.failed)
    is_failing = any(problem.code in FOLDER_PROBLEMS for problem in problems)
    workspace.set_fault(FOLDER_FAULT, UNAVAILABLE_FOLDERS if is_failing else "")
    workspace.change(
        pending=len(done.pending_deletes) + len(done.unstable),
        index_bytes=workspace.index.size_bytes() if workspace.index is not None else 0,
        synced_at_s=done.started_at_s if is_full_scan else condition.synced_at_s,
        partly_synced_at_s=condition.partly_synced_at_s if is_full_scan else done.started_at_s,
        scanned_s=done.began_s if is_full_scan else condition.scanned_s,
        root_state=snapshot.root_state,
        scan_problems=problems,
        unread=_describe_unread(problems),
    )
    failed = snapshot.failed_folders | snapshot.unreadable_files
    done.failed += [problem for problem in snapshot.problems if problem.path in failed]
    if snapshot.root_state != "present":
        text, hint = ROOT_FAULTS[snapshot.root_state], "see: memsyncd status"
        done.failed.append(Problem(path=".", line=0, code=ROOT_FAULT, problem=text, hint=hint))
    before = workspace.root_identity, workspace.link_folders, workspace.pruned
    if is_full_scan:
        workspace.root_identity = snapshot.root_identity
        workspace.link_folders = snapshot.link_folders
        workspace.pruned = snapshot.pruned_folders
        remember_disk(workspace, snapshot)
        tampering = (
            workspace.index.file_guard.find_tampering() if workspace.index is not None else None
        )
        done.index_fault = f"index.db {tampering.value}" if tampering is not None else ""
        _check_access(workspace)
    else:
        workspace.link_folders |= snapshot.link_folders
        if workspace.pruned is not None:
            elsewhere = {path for path in workspace.pruned if not snapshot.is_in_scope(path)}
            workspace.pruned = snapshot.pruned_folders | elsewhere
    after = workspace.root_identity, workspace.link_folders, workspace.pruned
    done.has_new_folders = before != after


def _describe_unread(problems: Iterable[Problem]) -> str:
    """Describe the notes that cannot be read; empty without any."""
    unread = [problem for problem in problems if problem.code == UNREAD_NOTE]
    return describe_unseen(unread) if unread else ""


def describe_unseen(problems: Sequence[Problem]) -> str:
    """Describe files and folders that cannot be read: the first, why, and how many more."""
    first, n_more = problems[0], len(problems) - 1
    more = f", and {n_more} more: memsyncd problems" if n_more else ""
    return f"{first.path}: {first.problem}{more}"


def _check_access(workspace: Workspace) -> None:
    """Report an open index that no further connection can open: searches need one now and then."""
    error = workspace.index.file_guard.find_access_error() if workspace.index is not None else ""
    text = f"index.db cannot be opened for searches: {error}"
    workspace.set_fault(ACCESS_FAULT, text if error else "")


def _merge_problems(
    before: tuple[Problem, ...], snapshot: Snapshot, failed: list[Problem]
) -> tuple[Problem, ...]:
    """Return the former problems outside of the scan's scope, and the problems that the sync
    found.
    """
    kept = [problem for problem in before if not snapshot.is_in_scope(problem.path)]
    # The scan and the read may both report the same problem of a file: it is kept once.
    problems = {(problem.path, problem.code): problem for problem in (*snapshot.problems, *failed)}
    return tuple(
        sorted((*kept, *problems.values()), key=lambda problem: (problem.path, problem.code))
    )


# --- a disk that is not mounted ---
#
# An empty mount point looks like a folder whose notes were all deleted. The index knows on which
# device each note lies. A new index does not, so the records, which outlive it, store it too, and
# which disks are mounted beneath the root or where links lead.


def is_away(workspace: Workspace, recorded: Mapping[str, Recorded], snapshot: Snapshot) -> bool:
    """True if the folder is an empty one on another device than its recorded notes."""
    devices = {record.stat.device for record in recorded.values()}
    records = workspace.records
    if (devices or snapshot.only is None) and records is not None and records.disk is not None:
        # All notes may lie on other disks than the folder.
        devices.add(records.disk)
    return is_disk_away(devices, snapshot) and not has_memory(workspace.scope.root)


def is_root_away(workspace: Workspace) -> bool:
    """True if the folder is missing, or an empty one on another device. Reads no index."""
    identity = find_identity(workspace.scope.root)
    if identity is None or workspace.condition.root_state == "missing":
        return True
    disk = workspace.records.disk if workspace.records is not None else None
    return disk not in (None, identity[0]) and not has_memory(workspace.scope.root)


def find_away_mounts(workspace: Workspace) -> frozenset[str]:
    """Return the mount points of other disks with notes that are not mounted now."""
    mounts = workspace.records.mounts if workspace.records is not None else ()
    return find_away(workspace.scope.root, mounts)


def remember_disk(workspace: Workspace, snapshot: Snapshot) -> None:
    """Record the disks of the notes after a full scan; if that fails, the next scan tries again."""
    identity, records = snapshot.root_identity, workspace.records
    if records is not None and snapshot.root_state == "present" and identity is not None:
        with contextlib.suppress(StoreFailed):
            device, inode = identity
            has_notes = snapshot.has_notes or snapshot.failed_folders or workspace.missing.since_s
            records.remember_disk(device if has_notes else None)
            records.remember_inode(inode)
            notes = workspace.index.known_stats() if workspace.index is not None else ()
            mounts = find_mounts(workspace.scope.root, notes, snapshot, records.mounts)
            records.remember_mounts(mounts)
