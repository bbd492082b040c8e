"""How does the index come to say what the disk says?

Scan, compare, read what may have changed, parse what did, write. One transaction a settle, 256 files a transaction when there are
many. A step between `yield`s is short, so that other workspaces are served meanwhile. A failed listing deletes nothing, a missing
root keeps everything, a vanished note stays for the grace.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from memsyncd.core.changes.diff import ChangeSet, Missing, Recorded, Snapshot, find_suspects, plan_changes, track_missing
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import Problem
from memsyncd.core.notepath import NotePath
from memsyncd.engine.disks import is_away, remember_disk
from memsyncd.engine.lane import Steps
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import StoreFailed, StoreFull
from memsyncd.store.index import DropNote, Index, PutNote, TouchNote, Update, Written
from memsyncd.store.records import Move
from memsyncd.workspace.files import ReadFile, read_note_file
from memsyncd.workspace.scan import scan

BATCH_FILES = 256
BATCH_BYTES = 1024 * 1024
"""What a batch holds in memory, several times over as rows; freed memory between what stays is hard to give back."""
TEXTS_LIMIT_BYTES = 1024 * 1024
"""What a sync hands on of the notes it has read, for the history; more is read once more."""
STEP_FILES = 16
ROOT_FAULT, FOLDER_FAULT, RECORDS_FAULT = "root", "folders", "records"
ROOT_FAULTS = {
    "missing": "the folder is missing: what is indexed of its notes stays searchable; bring it back, or remove the workspace",
    "unreadable": "the folder cannot be listed: what is indexed of its notes stays searchable; make it readable for you",
}
FOLDER_TROUBLE = "a folder of notes cannot be listed: what is indexed of them stays searchable; which one: memsyncd problems"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """What to look at: everything, or `only` these paths with what lies beneath. `is_full` reads every note again."""

    only: frozenset[str] | None = None
    is_full: bool = False
    grace_s: float = 0.0
    index: Index | None = None
    """The index to write instead of the workspace's own: a rebuild beside it."""


@dataclass(slots=True, kw_only=True)
class SyncDone:
    """What a sync found and did. Paths in `growing` moved while they were read and must be looked at again."""

    started_at_s: float
    began_s: float
    """The same moment on the clock that never goes back."""
    duration_ms: float = 0.0
    root_state: str = "present"
    added: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    """Notes that this sync was the first to miss."""
    n_unchanged: int = 0
    waiting: tuple[str, ...] = ()
    waiting_s: float = 0.0
    """How long until the grace of the first that is waiting is over."""
    absent: frozenset[str] = frozenset()
    """Notes still indexed as they were that are gone now, or empty: within their grace."""
    growing: tuple[str, ...] = ()
    has_new_folders: bool = False
    """Links lead elsewhere than before, or the root is another: what is watched must follow."""
    is_rebuild: bool = False
    """What was added is only new in the index that was made."""
    index_trouble: str = ""
    """Why the index must be rebuilt though it was written without complaint; looked for in full syncs."""
    failed: list[Problem] = field(default_factory=list)
    """What could not be looked at or read, the root itself as `.`: what is indexed of it stays."""
    generation: int = 0
    paths: list[str] = field(default_factory=list)
    texts: dict[str, bytes] = field(default_factory=dict)
    """What changed notes say, as it was indexed, up to TEXTS_LIMIT_BYTES in all."""
    n_text_bytes: int = 0
    n_upserted: int = 0
    n_deleted: int = 0
    n_kept: int = 0
    n_shifted: int = 0

    @property
    def discovered(self) -> list[str]:
        """Every path that this sync was the first to find different."""
        return [*self.added, *self.modified, *itertools.chain.from_iterable(self.moved), *self.vanished]

    @property
    def is_quiet(self) -> bool:
        """True if nothing was new and nothing has to follow."""
        news = (self.paths, self.discovered, self.waiting, self.growing, self.has_new_folders, self.index_trouble)
        return not any(news)

    def describe(self) -> dict[str, float]:
        """The figures that a log tells."""
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


def sync_workspace(workspace: Workspace, policy: SyncPolicy, clock: Clock, request: SyncRequest) -> Steps[SyncDone]:
    """Run one sync in steps. Raises the classes of `store.connections.naming_failures`; what was committed before stays."""
    started_s, index = clock.now_s(), request.index or workspace.index
    if index is None:
        raise AssertionError("a sync needs an open index")
    if request.only is None and request.index is None:
        index.check_not_truncated()
    done = SyncDone(started_at_s=clock.wall_s(), began_s=started_s, generation=index.generation)
    workspace.look_for_memory()
    snapshot = scan(workspace.scope, only=request.only)
    # The scan says what it was about in the end; what waits for its grace is needed to recognise moves.
    recorded = index.recorded(None if snapshot.only is None else snapshot.only | workspace.missing.since_s.keys())
    if is_away(workspace, recorded, snapshot):
        snapshot = replace(snapshot, root_state="missing")
    suspects = find_suspects(recorded, snapshot, is_full=request.is_full)
    missing = track_missing(workspace.missing, recorded, snapshot, suspects.vanished, now_s=clock.now_s())
    done.n_unchanged, done.root_state = suspects.n_unchanged, snapshot.root_state
    done.absent = frozenset(missing.since_s)
    done.vanished = sorted(done.absent - set(workspace.missing.since_s))
    updates: list[Update] = []
    pending = len(suspects.to_read) + len(suspects.vanished)
    workspace.change(pending=pending)
    for batch in _read_batches(workspace, suspects.to_read, recorded, clock, request.grace_s, done):
        # The batch before is written only now: what a settle changes last goes into the transaction with what it drops.
        _write(workspace, index, updates, done)
        changes = plan_changes(
            recorded, {file.path.text: file.record for file in batch}, missing, now_s=0.0, grace_s=float("inf")
        )
        missing = _without(missing, {old for old, _ in changes.moved})
        _record_moves(workspace, changes, batch, done)
        for update in _find_updates(batch, changes, policy, done):
            updates.append(update)
            if len(updates) % STEP_FILES == 0:
                workspace.change(pending=max(0, pending - len(updates)))
                yield
        pending -= len(batch)
    end = plan_changes(recorded, {}, missing, now_s=clock.now_s(), grace_s=request.grace_s)
    updates += [DropNote(path) for path in end.gone]
    done.removed, done.waiting = list(end.gone), end.pending_deletes
    first_s = min((missing.since_s[path] for path in end.pending_deletes), default=clock.now_s())
    done.waiting_s = max(0.0, first_s + policy.delete_grace_s - clock.now_s())
    _write(workspace, index, updates, done)
    workspace.missing = _without(missing, set(end.gone))
    _conclude(workspace, snapshot, done)
    done.duration_ms = (clock.now_s() - started_s) * 1000
    return done


def _read_batches(
    workspace: Workspace, paths: Iterable[str], recorded: Mapping[str, Recorded], clock: Clock, grace_s: float, done: SyncDone
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
        if outcome.is_growing:
            done.growing += (path,)
        if path in recorded and _is_emptied_just_now(outcome, recorded[path], grace_s):
            done.growing += (path,)
            done.absent |= {path}
            continue
        batch.append(outcome)
        n_bytes += len(outcome.data)
        if len(batch) >= BATCH_FILES or n_bytes >= BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def _is_emptied_just_now(read: ReadFile, was: Recorded, grace_s: float) -> bool:
    """True if a note that had text is empty for less than the grace: many a program empties a file before it writes it anew."""
    if read.data or was.stat.size_bytes == 0:
        return False
    return 0 <= read.record.read_at_ns - read.record.stat.mtime_ns < grace_s * 1e9


def _find_updates(batch: list[ReadFile], changes: ChangeSet, policy: SyncPolicy, done: SyncDone) -> Iterator[Update]:
    by_path = {file.path.text: file for file in batch}
    came_from = {new: old for old, new in changes.moved}
    done.added += changes.added
    done.modified += changes.modified
    done.moved += changes.moved
    done.n_unchanged += len(batch) - len(changes.added) - len(changes.modified) - len(changes.moved)
    for path in (*changes.added, *changes.modified, *came_from):
        file = by_path[path]
        done.keep_text(path, file.data)
        note = parse_note(file.path, file.data, policy.chunking, policy.guard)
        record = file.record
        yield PutNote(note=note, stat=record.stat, read_at_ns=record.read_at_ns, moved_from=came_from.get(path))
    for path in changes.touched:
        record = by_path[path].record
        yield TouchNote(path=path, stat=record.stat, read_at_ns=record.read_at_ns)


def _write(workspace: Workspace, index: Index, updates: list[Update], done: SyncDone) -> None:
    if not updates:
        return
    written = index.apply(updates)
    updates.clear()
    done.count(written)
    if index is workspace.index:
        workspace.remember(written)


def _record_moves(workspace: Workspace, changes: ChangeSet, batch: list[ReadFile], done: SyncDone) -> None:
    if not changes.moved or workspace.records is None:
        return
    digests: dict[str, Recorded] = {file.path.text: file.record for file in batch}
    moves = [
        Move(old_path=old, new_path=new, digest=digests[new].digest, seen_at_s=done.started_at_s) for old, new in changes.moved
    ]
    try:
        workspace.records.add_moves(moves)
    except StoreFull:
        raise
    except StoreFailed as failure:
        # What is saved must be found whatever has become of the records; they are opened anew, or set aside, by the next sync.
        workspace.set_fault(RECORDS_FAULT, f"records.db: {failure.message}")
        workspace.give_up_records()


def _without(missing: Missing, paths: set[str]) -> Missing:
    if not paths:
        return missing
    since_s = {path: first_s for path, first_s in missing.since_s.items() if path not in paths}
    return replace(missing, since_s=since_s, sure=missing.sure - paths)


def _conclude(workspace: Workspace, snapshot: Snapshot, done: SyncDone) -> None:
    """Make the condition say what this sync saw; a scan of some paths speaks of these only."""
    problems = (*snapshot.problems, *done.failed)
    kept = [problem for problem in workspace.condition.scan_problems if not snapshot.is_in_scope(problem.path)]
    # A scan names what it can see of a file, a read what it met: the same oddity is said once.
    fresh = {(problem.path, problem.code): problem for problem in problems}
    workspace.set_fault(ROOT_FAULT, ROOT_FAULTS.get(snapshot.root_state, ""))
    if snapshot.only is None or snapshot.failed_folders:
        workspace.set_fault(FOLDER_FAULT, FOLDER_TROUBLE if snapshot.failed_folders else "")
    workspace.change(
        pending=len(done.waiting) + len(done.growing),
        index_bytes=workspace.index.size_bytes() if workspace.index is not None else 0,
        synced_at_s=done.started_at_s if snapshot.only is None else workspace.condition.synced_at_s,
        scanned_s=done.began_s if snapshot.only is None else workspace.condition.scanned_s,
        root_state=snapshot.root_state,
        scan_problems=tuple(sorted((*kept, *fresh.values()), key=lambda problem: (problem.path, problem.code))),
    )
    done.failed += [
        problem for problem in snapshot.problems if problem.path in snapshot.failed_folders | snapshot.unreadable_files
    ]
    if snapshot.root_state != "present":
        trouble = ROOT_FAULTS[snapshot.root_state]
        done.failed.append(Problem(path=".", line=0, code=ROOT_FAULT, problem=trouble, hint="see: memsyncd status"))
    index, was = workspace.index, (workspace.root_identity, workspace.link_folders)
    if snapshot.only is None:
        workspace.root_identity, workspace.link_folders = snapshot.root_identity, snapshot.link_folders
        remember_disk(workspace, snapshot)
        harm = index.find_tampering() if index is not None else None
        done.index_trouble = f"index.db {harm.value}" if harm is not None else ""
    else:
        workspace.link_folders |= snapshot.link_folders
    done.has_new_folders = was != (workspace.root_identity, workspace.link_folders)
