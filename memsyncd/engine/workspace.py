"""Define one workspace while the daemon runs: its scope, its open databases and its condition.

`Entry` is the registration and `Workspace` the running object. The worker's thread changes a
workspace; other threads read `condition`, an immutable value that is replaced as a whole.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from memsyncd.config import ChunkingConfig, Config
from memsyncd.core.changes.debounce import AnnouncedPaths, describe_overdue
from memsyncd.core.changes.diff import NOTHING_MISSING, Missing, RootState, is_within
from memsyncd.core.changes.watchplan import Watch, parse_include, plan_watches
from memsyncd.core.editing.kinds import KindDefaults
from memsyncd.core.model import Problem
from memsyncd.core.paths import MEMORY_FILE, MEMORY_FOLDER, is_pruned_path
from memsyncd.errors import Busy, StoreFailed, WorkspaceNotFound
from memsyncd.files.folder_kinds import AGENT_GLOBS, FolderKind, Preset, recognise_vault
from memsyncd.files.scan import WorkspaceRules
from memsyncd.files.scope import Scope, has_memory, parse_scope
from memsyncd.operations.agents.declare import AgentAnswer
from memsyncd.semantic import NoVectors, VectorSearch
from memsyncd.store.accesses import AccessCount, Recalls
from memsyncd.store.index import Counts, Index, Written
from memsyncd.store.pool import ConnectionPool, Reader
from memsyncd.store.records import NO_NUMBERS, Numbers, Records
from memsyncd.store.schema import compute_fingerprint

# Answers to agents that are kept in memory while they cannot be stored.
NOTED_MOST = 1_000
# Changes that a subscriber can still ask for after they happened.
REMEMBERED_CHANGES = 256
# An index that could not be opened is tried again for a request at most this often.
REOPEN_S = 1.0

State = Literal["indexing", "ready", "degraded", "missing", "stalled"]
STALL_FAULT = "stalled"
WATCH_LIMIT, VAULT = "watch_limit", "vault"
SEMANTIC_FAULT, SEMANTIC_NOTICE = "semantic", "semantic_notice"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a workspace; an empty field is not given.

    Without a `preset` it is `memory`; `vault` includes every note beneath the root; `claude-code`
    makes it a collection, of which each memory folder is a workspace. An empty `memory_dir` is the
    preset's: `.memories`, or in a vault `.`, the root. The pinned notes and preferences of the
    user-wide workspace join the contexts of all others.
    """

    name: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    preset: Preset | Literal[""] = ""
    memory_dir: str = ""
    is_user_wide: bool = False
    allow_links_to: tuple[str, ...] = ()


class Entry(Settings, frozen=True, kw_only=True):
    """A registered workspace. `root` is a real path.

    `source` says whether the configuration or `workspace.add` registered it. The workspaces of a
    collection have its id as `collection`, and `project` is the path of an agent's project, empty
    if unknown. A linked git worktree that holds memory itself has the id of the workspace of the
    main one as `main`, and that one's settings.
    """

    id: str
    name: str
    root: str
    source: Literal["config", "added"] = "added"
    collection: str = ""
    project: str = ""
    main: str = ""

    def recognise_vault(self) -> FolderKind | None:
        """Recognise a folder that was added without settings and has become a vault; may block."""
        may_change = self.source != "config" and not (self.main or self.collection)
        if self.is_vault or self.include or self.is_user_wide or not may_change:
            return None
        return recognise_vault(self.root)

    @property
    def is_collection(self) -> bool:
        return self.preset == "claude-code"

    @property
    def folder_preset(self) -> Literal["memory", "vault"]:
        """Which notes a workspace has."""
        return "vault" if self.is_vault else "memory"

    @property
    def is_vault(self) -> bool:
        return self.preset == "vault"

    @property
    def memory_folder(self) -> str:
        """The folder to which memories are written, from the root; `.` for the root."""
        return self.memory_dir or ("." if self.is_vault else MEMORY_FOLDER)

    @property
    def memory_places(self) -> tuple[str, ...]:
        """The files and folders that hold the workspace's notes, without instructions for agents,
        which most repositories have; from the root, which is empty.
        """
        if self.is_vault:
            return ("",)
        included = [parse_include(glob).path for glob in self.include]
        folder = self.memory_dir or MEMORY_FOLDER
        return tuple(dict.fromkeys((MEMORY_FILE, MEMORY_FOLDER, folder, *included)))

    @property
    def all_read_only(self) -> tuple[str, ...]:
        """The read-only globs, and the globs of instructions for agents, which any repository may
        have.

        They are included whether or not the files are there, so that new ones are seen.
        """
        rules = () if self.is_vault else AGENT_GLOBS
        return (*self.read_only, *(glob for glob in rules if glob not in self.include))

    def scope(self, config: Config) -> Scope:
        """Raises BadRequest if a glob is invalid; the error names it."""
        return parse_scope(
            self.root,
            include=(*self.include, "**") if self.is_vault else self.include,
            exclude=self.exclude,
            read_only=self.all_read_only,
            memory_dir=self.memory_folder,
            max_file_bytes=config.sync.max_file_bytes,
            allow_links_to=self.allow_links_to,
        )


def index_fingerprint(config: Config) -> str:
    """Identifies the settings that an index's rows depend on."""
    guard = config.guard  # whether secrets are masked changes what is shown, not what is indexed
    kinds = tuple(config.kinds.items())
    return _fingerprint(config.chunking, guard.has_secrets, guard.has_instructions, kinds)


# Each search asks for it.
@lru_cache(maxsize=8)
def _fingerprint(
    chunking: ChunkingConfig,
    has_secrets: bool,
    has_instructions: bool,
    kinds: tuple[tuple[str, KindDefaults], ...],
) -> str:
    importance = sorted((name, kind.importance) for name, kind in kinds)
    return compute_fingerprint(f"{chunking} {has_secrets} {has_instructions} {importance}")


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """The observed state of a workspace.

    `faults` maps a stable code to a text that describes a current fault; `notices` does the same
    for conditions that are over, or that hinder little, but that the user should know. `unread`
    describes notes that cannot be read and are indexed as they were, if there are any. `pending`
    notes are known to differ from the index. `synced_at_s` is the wall clock when the last
    successful full scan began, `partly_synced_at_s` when the last sync of some notes did,
    `scanned_s` the first of these moments on the monotonic clock, and `progressed_s` when a sync of
    many notes last made progress.
    """

    is_indexing: bool = True
    pending: int = 0
    synced_at_s: float | None = None
    partly_synced_at_s: float | None = None
    scanned_s: float | None = None
    progressed_s: float | None = None
    root_state: RootState = "present"
    faults: Mapping[str, str] = msgspec.field(default_factory=dict)
    notices: Mapping[str, str] = msgspec.field(default_factory=dict)
    unread: str = ""
    generation: int = 0
    counts: Counts = Counts()
    kinds: tuple[str, ...] = ()
    n_ambiguous: int = 0
    index_bytes: int = 0
    index_wal_bytes: int = 0
    records_wal_bytes: int = 0
    scan_problems: tuple[Problem, ...] = ()
    n_failed_syncs: int = 0
    n_missed_events: int = 0
    n_rebuilds: int = 0
    n_to_fill: int = 0
    """Notes that another process has yet to index in the file that it fills."""
    n_to_sync: int = 0
    """Notes that the running sync began with, if they are many; 0 if none runs."""
    n_unrecorded: int = 0
    """Notes that the history has yet to record, of `n_to_record` when recording began."""
    n_to_record: int = 0

    @property
    def n_pending(self) -> int:
        """Notes that are known to differ from the index, or that a process has yet to index."""
        return max(self.pending, self.n_to_fill)

    @property
    def state(self) -> State:
        if STALL_FAULT in self.faults:
            return "stalled"
        if self.root_state == "missing":
            return "missing"
        if self.is_indexing:
            return "indexing"
        return "degraded" if self.root_state != "present" or self.hindrances else "ready"

    @property
    def hindrances(self) -> tuple[str, ...]:
        """Why the index may be behind the disk, or is no longer complete: for `status` and for the
        freshness of each answer.
        """
        faults = [text for _, text in sorted(self.faults.items())]
        return (*faults, *filter(None, (self.notices.get(WATCH_LIMIT, ""), self.unread)))

    def count_problems(self, kinds: Mapping[str, KindDefaults]) -> int:
        """Count the problems that `find_problems` lists with these configured kinds."""
        n_conditions = len(self.faults) + len(self.notices)
        n_unknown = sum(kind not in kinds for kind in self.kinds)
        n_of_notes = self.counts.problems + n_unknown + self.n_ambiguous
        return n_of_notes + len(self.scan_problems) + n_conditions


class AccessBuffer:
    """Accesses that are not stored yet, and the counts that were read, both by anchor.

    `as_of` is the last revision when the first access was noted. `counts` is None until somebody
    reads the stored counts, with `version`, which grows with each change of them. `lock` guards
    all.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.noted: dict[str, Recalls] = {}
        self.as_of = 0
        self.counts: Mapping[str, AccessCount] | None = None
        self.version = 0

    def forget_counts(self) -> None:
        """Have the stored counts read again, because they have changed; from any thread."""
        with self.lock:
            self.version += 1
            self.counts = None


class AnswerBuffer:
    """Answers to agents that are not stored yet, and the id of the last one. `lock` guards both."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.noted: deque[AgentAnswer] = deque(maxlen=NOTED_MOST)
        self.last_id = 0


class Workspace:
    """One workspace while the daemon runs.

    Only the worker's thread may touch the write side of `index`, `records` and `missing`.
    """

    find_other: Callable[[str], Workspace | None] = staticmethod(lambda _name: None)
    """Finds a workspace by its name or id, for links to it; from any thread."""

    def __init__(
        self, entry: Entry, config: Config, *, index_path: Path, records_path: Path
    ) -> None:
        self.entry = entry
        self.scope = entry.scope(config)
        self.index_path = index_path
        self.records_path = records_path
        self.condition = Condition()
        self.vectors: VectorSearch = NoVectors()
        """Semantic search; the loop replaces it when the configuration changes."""
        self._lock = threading.Lock()
        self.opening: Future[Any] | None = None
        """Done once the databases are open, or once opening them has failed."""
        self.open_failure: StoreFailed | None = None
        """Why the index could not be opened; None while one is open or being opened first."""
        self.open_failed_s = 0.0
        self.is_closing = False
        """True once it is to be closed for good: long work ends soon."""
        self.is_closed = False
        """True once it was closed for good: another Workspace may use the same files then."""
        # True once it may have open files: the process must be allowed enough of them.
        self.holds_files = False
        self.index: Index | None = None
        self.old_readers: ConnectionPool | None = None
        self.records: Records | None = None
        self.cancel_filling: Callable[[], None] | None = None
        """Kills the process that fills an index of this workspace, while there is one."""
        self.missing: Missing = NOTHING_MISSING
        self.has_memory: bool | None = None
        """Whether the last scan found MEMORY.md or .memories/; None before the first scan."""
        self._unscanned = AnnouncedPaths()
        self.root_identity: tuple[int, int] | None = None
        self.link_folders: frozenset[str] = frozenset()
        self.ignore_rules = WorkspaceRules()
        self.pruned: frozenset[str] | None = None
        """The folders that scans have left out of a whole folder, besides those whose name says so;
        None before the first scan."""
        self.changes: deque[Written] = deque(maxlen=REMEMBERED_CHANGES)
        self.rebuilt_after_damage_s: float | None = None
        self.is_recorded = False
        """True once the records know the text of every note; each sync then records changes."""
        self.unrecorded: deque[str] | None = None
        """Notes still to be recorded, while the first recording of all notes runs."""
        self.given_numbers: Numbers = NO_NUMBERS
        """The last numbers of records.db when another program tampered with it."""
        self.n_unpruned = 0
        """Revisions recorded since the history was last pruned."""
        self.n_revisions = 0
        """Revisions recorded since the workspace was opened."""
        self.accesses, self.answers = AccessBuffer(), AnswerBuffer()

    @property
    def id(self) -> str:
        return self.entry.id

    def plan_watches(self, is_folder: Callable[[str], bool]) -> frozenset[Watch]:
        """The folders to watch now, as `watchplan.plan_watches`."""
        return plan_watches(
            self.entry.root,
            self.scope.includes,
            is_folder=is_folder,
            link_folders=self.link_folders,
            is_scanned=self.pruned is not None,
        )

    def is_pruned(self, path: str) -> bool:
        """True if the folder at this path from the root is not watched; from any thread."""
        pruned = self.pruned or frozenset()
        return is_pruned_path(path) or self.scope.exclude.matches(path) or is_within(path, pruned)

    def change(self, **fields: Any) -> None:
        """Replace fields of the condition; from any thread, because worker and loop both do it."""
        with self._lock:
            self.condition = replace(self.condition, **fields)

    def set_fault(self, code: str, text: str) -> None:
        """Set a fault, or clear it if `text` is empty; from any thread."""
        self._set_text("faults", code, text)

    def set_notice(self, code: str, text: str) -> None:
        """Set a notice, or clear it if `text` is empty; from any thread."""
        self._set_text("notices", code, text)

    def _set_text(self, field: Literal["faults", "notices"], code: str, text: str) -> None:
        with self._lock:
            before: Mapping[str, str] = getattr(self.condition, field)
            if before.get(code, "") != text:
                rest = {key: value for key, value in before.items() if key != code}
                texts = {**rest, code: text} if text else rest
                self.condition = replace(self.condition, **{field: texts})

    @property
    def pending(self) -> int:
        """The larger of `Condition.n_pending` and the number of announced paths that no scan has
        covered.
        """
        return max(self.condition.n_pending, len(self._unscanned))

    @property
    def has_unwatched_folders(self) -> bool:
        """True if the workspace has more folders than may be watched."""
        return WATCH_LIMIT in self.condition.notices

    def note_unscanned(self, path: str, now_s: float, *, is_own: bool = True) -> None:
        """Note that an event announced this path; "" means everything. From any thread.

        `is_own` as in `AnnouncedPaths.add`.
        """
        with self._lock:
            self._unscanned.add(path, now_s, is_own=is_own)

    def find_announced_s(self, path: str) -> float | None:
        """Since when events have announced a path that no scan has covered; None if none has."""
        with self._lock:
            return self._unscanned.find_first_s(path)

    def note_scanned(self, paths: Collection[str] | None, began_s: float) -> None:
        """Note that a scan of these paths, or of everything, that began at `began_s` is over."""
        with self._lock:
            self._unscanned.settle(paths, began_s)

    def detect_memory(self) -> None:
        """Check whether there is a memory folder, or MEMORY.md; may block."""
        folder = os.path.join(self.entry.root, self.scope.memory_dir)
        self.has_memory = has_memory(self.entry.root) or os.path.isdir(folder)
        vault = self.entry.recognise_vault() if not self.has_memory else None
        root = self.entry.root
        self.set_notice(VAULT, f"{vault.what}: to index it, memsyncd add {root}" if vault else "")

    def note_written(self, written: Written) -> None:
        """Remember the changes of a transaction for subscribers, and update the condition."""
        if written.paths:
            self.changes.append(written)
        if self.index is not None:
            index = self.index
            self.change(
                generation=index.generation,
                counts=index.counts,
                kinds=index.list_kinds(),
                n_ambiguous=index.count_ambiguous(),
            )

    def put_index(self, index: Index) -> None:
        """Begin to use an open index; on the worker's thread."""
        self.index, self.open_failure = index, None
        self.close_old_readers()
        self.change(
            generation=index.generation,
            counts=index.counts,
            kinds=index.list_kinds(),
            n_ambiguous=index.count_ambiguous(),
            index_bytes=index.size_bytes(),
        )

    def continue_counts(self, before: Workspace) -> None:
        """Continue the counters of the Workspace that ran for the same folder before."""
        counted = ("generation", "n_failed_syncs", "n_missed_events", "n_rebuilds")
        self.change(**{name: getattr(before.condition, name) for name in counted})
        self.n_revisions = before.n_revisions

    def count_revisions(self, n: int) -> None:
        """Count recorded revisions; on the worker's thread."""
        self.n_unpruned += n
        self.n_revisions += n

    def set_unrecorded(self, paths: deque[str] | None) -> None:
        """Begin to record these notes, or end recording; on the worker's thread."""
        self.unrecorded = paths
        if paths is not None:
            self.change(n_to_record=len(paths))
        elif self.condition.n_unrecorded:
            self.change(n_unrecorded=0)

    def report_unrecorded(self) -> None:
        """Update the condition with the progress of recording; on the worker's thread."""
        n_unrecorded = len(self.unrecorded or ())
        if n_unrecorded != self.condition.n_unrecorded:
            self.change(n_unrecorded=n_unrecorded)

    @property
    def readers(self) -> ConnectionPool | None:
        """The connections for queries: the index's, or the old index's during a rebuild.

        None before either is open.
        """
        return self.index.pool if self.index is not None else self.old_readers

    def read_unopened_index(self) -> None:
        """Answer queries from the index's file while opening it is blocked; on the loop.

        Opening needs the workspace's disk, to finish interrupted edits; the index is on another.
        """
        is_waiting = self.readers is None and self.open_failure is None
        if is_waiting and not self.is_closed and self.index_path.exists():
            self.old_readers = ConnectionPool(str(self.index_path))

    @contextlib.contextmanager
    def acquire(self, seconds: float, cpu_s: float = math.inf) -> Iterator[Reader]:
        """Yield a read connection, as `ConnectionPool.acquire`.

        Raises StoreFailed, with the workspace in its data, also if the index could not be opened,
        and Busy while the first attempt to open it runs.
        """
        readers = self.readers
        failure = self.open_failure
        if readers is None and failure is not None:
            # A new exception each time: several threads may raise it at once.
            reason = f"index.db cannot be opened: {failure.message}"
            raise type(failure)(reason, hint=failure.hint, workspace=self.id)
        if readers is None:
            hint = "retry in a moment, or see: memsyncd status"
            raise Busy("the index is being opened", hint=hint)
        try:
            with readers.acquire(seconds, cpu_s) as reader:
                reader.root, reader.memory_folder = self.entry.root, self.scope.memory_dir
                yield reader
        except StoreFailed as failure:
            failure.data["workspace"] = self.id
            raise

    def may_reopen(self, now_s: float) -> bool:
        """True if opening the index failed at least REOPEN_S ago and no other attempt runs."""
        is_trying = self.opening is not None and not self.opening.done()
        is_due = now_s - self.open_failed_s >= REOPEN_S
        return self.open_failure is not None and not is_trying and is_due

    def cancel(self) -> None:
        """End long work, before the workspace is closed for good; on the loop."""
        self.is_closing = True
        if (cancel := self.cancel_filling) is not None:
            cancel()

    def close_index(self) -> None:
        """Close the index and the readers of the old one; on the worker's thread."""
        if self.index is not None:
            self.index.close()
        self.index = None
        self.close_old_readers()

    def close_old_readers(self) -> None:
        readers, self.old_readers = self.old_readers, None
        if readers is not None:
            readers.close()

    def check_open(self) -> None:
        """Raise WorkspaceNotFound if the workspace was closed for good."""
        if self.is_closed:
            raise make_removed_error()

    @property
    def is_refused(self) -> bool:
        """Whether the process may not open as many files as this workspace needs, too."""
        return self.open_failure is not None and not self.holds_files

    def check_files(self) -> None:
        """Raise StoreFailed if the workspace was refused its files: records or an index that it
        opened all the same would take them from the workspaces that are served.
        """
        if self.is_refused and self.open_failure is not None:
            raise self.open_failure.with_traceback(None)

    def close(self) -> None:
        """Close all databases; on the worker's thread."""
        self.close_index()
        self.close_records()
        self.holds_files = False

    def drop_failed_records(self) -> None:
        """Close records that failed, so that the next sync opens them again.

        Records whose file another program replaced stay open: `engine.records` closes those.
        """
        if self.records is not None and self.records.file_guard.find_tampering() is None:
            self.records.checks.note_damage()
            self.close_records()

    def close_records(self) -> None:
        if self.records is not None:
            self.records.close()
        self.records, self.is_recorded = None, False
        self.accesses.forget_counts()
        self.set_unrecorded(None)


def make_removed_error() -> WorkspaceNotFound:
    return WorkspaceNotFound(
        "the workspace has been removed", hint="add it again: memsyncd add PATH"
    )


# --- freshness ---


class Freshness(msgspec.Struct, frozen=True, kw_only=True):
    """How far a workspace's index may be behind the disk; each response to a client reports it.

    `pending` is at least the number of announced paths that no scan has covered yet. `state` is
    `ready` only if no scan is overdue; `overdue` says so. `reasons` are all reasons why it is not.
    """

    state: State
    pending: int
    overdue: str
    reasons: tuple[str, ...]


def read_freshness(workspace: Workspace, config: Config, *, now_s: float) -> Freshness:
    """Compute the freshness at `now_s` of the monotonic clock. Costs microseconds."""
    condition = workspace.condition
    state, overdue = condition.state, ""
    if config.sync.enabled and state in ("ready", "degraded"):
        overdue = describe_overdue(
            condition.scanned_s, condition.progressed_s, now_s, config.sync.reconcile_s
        )
    if overdue and state == "ready":
        state = "degraded"
    reasons = (*condition.hindrances, overdue) if overdue else condition.hindrances
    return Freshness(state=state, pending=workspace.pending, overdue=overdue, reasons=reasons)
