"""Which workspaces are there, and what is known of each at this moment?

`Entry` is what somebody registered, `Workspace` what runs for it: its scope, its open databases, its condition. The writer's
lane changes a workspace; everybody else reads `condition`, a value replaced as a whole.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from memsyncd.core.changes.diff import NOTHING_MISSING, Missing, RootState
from memsyncd.core.changes.freshness import UnscannedPaths
from memsyncd.core.changes.watchplan import Includes
from memsyncd.core.model import Problem
from memsyncd.engine.policies import SyncPolicy
from memsyncd.errors import Busy, StoreFailed
from memsyncd.store.index import Counts, Index, Written
from memsyncd.store.pool import ConnectionPool, Reader
from memsyncd.store.records import Records
from memsyncd.workspace.roots import has_memory
from memsyncd.workspace.scope import Scope, parse_scope

REMEMBERED_CHANGES = 256
"""Changes that a subscriber can ask for after the fact."""

REOPEN_S = 1.0
"""How often whoever asks has an index tried that could not be opened."""

State = Literal["indexing", "ready", "degraded", "missing", "stalled"]
STALL_FAULT = "stalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A registered workspace. `root` is a real path; `source` says whether the configuration or `workspace.add` named it."""

    id: str
    name: str
    root: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_links_to: tuple[str, ...] = ()
    source: Literal["config", "added"] = "added"

    def scope(self, policy: SyncPolicy) -> Scope:
        """Raises ValueError, naming it, for a glob that cannot be."""
        return parse_scope(
            self.root,
            include=self.include,
            exclude=self.exclude,
            max_file_bytes=policy.max_file_bytes,
            allow_links_to=self.allow_links_to,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What is known of a workspace. `faults` say in words, by a stable word, why it is not as it should be.

    `notices` say in the same way what is over, or does not hinder, but should be known.
    `pending` notes are known to differ from the index; `synced_at_s` is the wall clock when the last scan that succeeded began,
    `scanned_s` the same moment on the clock that never goes back.
    """

    is_indexing: bool = True
    pending: int = 0
    synced_at_s: float | None = None
    scanned_s: float | None = None
    root_state: RootState = "present"
    faults: Mapping[str, str] = field(default_factory=dict)
    notices: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    counts: Counts = Counts()
    index_bytes: int = 0
    index_wal_bytes: int = 0
    records_wal_bytes: int = 0
    scan_problems: tuple[Problem, ...] = ()
    n_failed_syncs: int = 0
    n_missed_events: int = 0
    n_rebuilds: int = 0
    n_unrecorded: int = 0
    """Notes that the history has yet to record, of `n_to_record` when it began."""
    n_to_record: int = 0

    @property
    def state(self) -> State:
        if STALL_FAULT in self.faults:
            return "stalled"
        if self.root_state == "missing":
            return "missing"
        if self.is_indexing:
            return "indexing"
        return "degraded" if self.faults or self.root_state != "present" else "ready"

    @property
    def n_problems(self) -> int:
        """What is odd about notes, folders and the workspace itself."""
        return self.counts.problems + len(self.scan_problems) + len(self.faults) + len(self.notices)

    def with_fault(self, word: str, text: str) -> Condition:
        """The same with a fault said, or with it said no more if `text` is empty."""
        return self if self.faults.get(word, "") == text else replace(self, faults=_say(self.faults, word, text))

    def with_notice(self, word: str, text: str) -> Condition:
        """The same for a notice."""
        return self if self.notices.get(word, "") == text else replace(self, notices=_say(self.notices, word, text))


def _say(said: Mapping[str, str], word: str, text: str) -> dict[str, str]:
    rest = {key: value for key, value in said.items() if key != word}
    return {**rest, word: text} if text else rest


class Workspace:
    """One workspace while the daemon runs. Only the lane's thread may touch `index`'s write side, `records` and `missing`."""

    def __init__(self, entry: Entry, policy: SyncPolicy, *, index_path: Path, records_path: Path) -> None:
        self.entry = entry
        self.scope = entry.scope(policy)
        self.includes = Includes.parse(entry.include)
        self.index_path = index_path
        self.records_path = records_path
        self.condition = Condition()
        self._lock = threading.Lock()
        self.opening: Future[Any] | None = None
        """Done once the databases are open, or could not be opened."""
        self.open_failure: StoreFailed | None = None
        """Why there is no index, while there is none for that."""
        self.open_failed_s = 0.0
        self.is_over = False
        """True once it was closed for good: another may look after the same files by now."""
        self.index: Index | None = None
        self.old_readers: ConnectionPool | None = None
        self.records: Records | None = None
        self.missing: Missing = NOTHING_MISSING
        self.has_memory: bool | None = None
        """Whether there are MEMORY.md or .memories/, by the last look at the folder; None before the first."""
        self._unscanned = UnscannedPaths()
        self.root_identity: tuple[int, int] | None = None
        self.link_folders: frozenset[str] = frozenset()
        self.changes: deque[Written] = deque(maxlen=REMEMBERED_CHANGES)
        self.rebuilt_after_damage_s: float | None = None
        self.is_seen = False
        """True once the records know what every note says: then they are told of each change."""
        self.unrecorded: deque[str] | None = None
        """Notes that are still to be recorded, while that goes on."""
        self.n_unpruned = 0
        """Revisions since was last looked whether there are too many."""
        self.n_revisions = 0
        """Revisions that were recorded since it is open."""

    @property
    def id(self) -> str:
        return self.entry.id

    def change(self, **fields: Any) -> None:
        """Replace fields of the condition; from any thread, for the lane and the loop both have something to say."""
        with self._lock:
            self.condition = replace(self.condition, **fields)

    def set_fault(self, word: str, text: str) -> None:
        with self._lock:
            self.condition = self.condition.with_fault(word, text)

    @property
    def pending(self) -> int:
        """Notes known to differ from the index, or paths that events announced and no scan has looked at, if these are more."""
        return max(self.condition.pending, len(self._unscanned))

    def note_unscanned(self, path: str, now_s: float) -> None:
        """An event announced this path; the empty one stands for everything. From any thread."""
        with self._lock:
            self._unscanned.add(path, now_s)

    def note_scanned(self, paths: Collection[str] | None, began_s: float) -> None:
        """A scan of these paths, or of everything, that began then is over."""
        with self._lock:
            self._unscanned.settle(paths, began_s)

    def look_for_memory(self) -> None:
        """Look whether there are MEMORY.md or .memories/; may block."""
        self.has_memory = has_memory(self.entry.root)

    def set_notice(self, word: str, text: str) -> None:
        with self._lock:
            self.condition = self.condition.with_notice(word, text)

    def remember(self, written: Written) -> None:
        """Take over what a transaction did."""
        index = self.index
        if written.paths:
            self.changes.append(written)
        if index is not None:
            self.change(generation=index.generation, counts=index.counts)

    def count_on(self, before: Workspace) -> None:
        """Go on counting where another left off that looked after the same folder."""
        counted = ("generation", "n_failed_syncs", "n_missed_events", "n_rebuilds")
        self.change(**{name: getattr(before.condition, name) for name in counted})
        self.n_revisions = before.n_revisions

    def count_revisions(self, n: int) -> None:
        """So many were recorded; on the lane's thread."""
        self.n_unpruned += n
        self.n_revisions += n

    def set_unrecorded(self, paths: deque[str] | None) -> None:
        """Begin to record these notes, or end it; on the lane's thread."""
        self.unrecorded = paths
        if paths is not None:
            self.change(n_to_record=len(paths))
        elif self.condition.n_unrecorded:
            self.change(n_unrecorded=0)

    def tell_unrecorded(self) -> None:
        """Make the condition say how far recording is; on the lane's thread."""
        n_unrecorded = len(self.unrecorded or ())
        if n_unrecorded != self.condition.n_unrecorded:
            self.change(n_unrecorded=n_unrecorded)

    @property
    def readers(self) -> ConnectionPool | None:
        """Who answers queries now: the index, or an old one that is being rebuilt; None before either is open."""
        return self.index.pool if self.index is not None else self.old_readers

    @contextlib.contextmanager
    def lend(self, seconds: float) -> Iterator[Reader]:
        """As `Readers.lend`; StoreFailed names the workspace in its data, also why there is no index.

        Raises Busy while the first attempt to open it goes on.
        """
        readers = self.readers
        failure = self.open_failure
        if readers is None and failure is not None:
            # Another one each time: several threads may raise it at once.
            raise type(failure)(f"index.db cannot be opened: {failure.message}", hint=failure.hint, workspace=self.id)
        if readers is None:
            raise Busy("the index is being opened", hint="ask again in a moment, or look at: memsyncd status")
        try:
            with readers.acquire(seconds) as reader:
                yield reader
        except StoreFailed as failure:
            failure.data["workspace"] = self.id
            raise

    def may_be_opened(self, now_s: float) -> bool:
        """True if opening the index failed and it is time to try again, which nobody does yet."""
        is_trying = self.opening is not None and not self.opening.done()
        return self.open_failure is not None and not is_trying and now_s - self.open_failed_s >= REOPEN_S

    def close_index(self) -> None:
        """Close the index and what stands in for it; on the lane's thread."""
        if self.index is not None:
            self.index.close()
        if self.old_readers is not None:
            self.old_readers.close()
        self.index = self.old_readers = None

    def close(self) -> None:
        """Close everything; on the lane's thread."""
        self.close_index()
        self.close_records()

    def give_up_records(self) -> None:
        """They failed: have them opened anew, unless somebody harmed the file; that is left with more care, and said."""
        if self.records is not None and self.records.find_tampering() is None:
            self.close_records()

    def close_records(self) -> None:
        if self.records is not None:
            self.records.close()
        self.records, self.is_seen = None, False
        self.set_unrecorded(None)
