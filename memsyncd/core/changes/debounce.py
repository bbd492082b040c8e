"""Debounce file events: decide when the events of a workspace are worth a scan.

The caller passes the time.

A finished save (closed after writing, or moved into place) in a quiet workspace is due at once.
Later events are gathered until `debounce_s` passes without another event, but for no longer than
`max_wait_s` after the first. An unfinished save (modified and not yet closed, or vanished and
perhaps about to return) waits until its own path is quiet; until then no scan of single paths
includes it. An event on a folder asks for a scan of everything beneath it. An event says only that
a path is dirty; the caller decides what to do.

`AnnouncedPaths` and `describe_overdue` tell whether an index may be behind its disk.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

import msgspec

Key = TypeVar("Key", bound=Hashable)

ROOT = ""
"""The path of a workspace's root: everything in it."""
# Beyond this many paths everything is scanned, so that memory stays bounded in a storm of events.
PATHS_LIMIT = 1024
# Beyond this many paths a walk of the whole workspace is cheaper, unless it has many times as many
# notes.
FEW_PATHS = 64
NOTES_A_PATH = 16


def is_walk_cheaper(n_paths: int, n_notes: int) -> bool:
    """True if a walk of a workspace of `n_notes` costs less than scans of so many single paths."""
    return n_paths > max(FEW_PATHS, n_notes // NOTES_A_PATH)


class DebouncePolicy(Protocol):
    """How long to wait."""

    @property
    def debounce_s(self) -> float: ...
    @property
    def max_wait_s(self) -> float: ...


class Settled(msgspec.Struct, Generic[Key], frozen=True, kw_only=True):
    """The paths to scan now, and the folders to scan with everything beneath them. The folder ROOT
    is the whole workspace.
    """

    key: Key
    paths: frozenset[str]
    folders: frozenset[str] = frozenset()


class Debouncer(Generic[Key]):
    """Gather events by key. Not thread-safe."""

    def __init__(self, policy: DebouncePolicy) -> None:
        """Raises ValueError if a time is negative."""
        if min(policy.debounce_s, policy.max_wait_s) < 0:
            raise ValueError(f"a time is negative: {policy}")
        self._policy = policy
        self._pending: dict[Key, _Pending] = {}

    def push(
        self, key: Key, path: str, now_s: float, *, is_finished: bool, is_folder: bool
    ) -> None:
        """Record that a path is dirty.

        A folder's event always waits for quiet, because more events nearly always follow.
        """
        pending = self._pending.setdefault(key, _Pending())
        if is_folder:
            pending.add_folder(path, now_s)
            return
        pending.add(path, now_s, is_finished=is_finished, quiet_s=self._policy.debounce_s)
        if len(pending.unfinished) + len(pending.finished) > PATHS_LIMIT:
            pending.widen()

    def push_all(self, key: Key, now_s: float) -> None:
        """Request a full scan at once, whatever is pending."""
        pending = self._pending.setdefault(key, _Pending())
        pending.add_folder(ROOT, now_s)
        pending.folders_due_s = _earlier(pending.folders_due_s, now_s)

    def next_deadline_s(self) -> float | None:
        """The time at which `pop_settled` will have a result; None while nothing is pending.

        The time may be in the past.
        """
        deadlines = (pending.deadline_s(self._policy) for pending in self._pending.values())
        return min((deadline_s for deadline_s in deadlines if deadline_s is not None), default=None)

    def pop_settled(self, now_s: float) -> list[Settled[Key]]:
        """Remove and return the work that is due, at most one item for each key. The keys are in
        the order of their first event.
        """
        settled = []
        for key, pending in self._pending.items():
            deadline_s = pending.deadline_s(self._policy)
            if deadline_s is not None and deadline_s <= now_s:
                paths, folders = pending.take(now_s, self._policy)
                settled.append(Settled(key=key, paths=paths, folders=folders))
        return settled

    def drop(self, key: Key) -> None:
        """Forget a key and its pending events."""
        self._pending.pop(key, None)


class _Wait(msgspec.Struct, frozen=True):
    first_s: float
    last_s: float

    def due_s(self, policy: DebouncePolicy) -> float:
        return min(self.last_s + policy.debounce_s, self.first_s + policy.max_wait_s)


class _Pending(msgspec.Struct):
    """The events of one key.

    All folders wait together, because a move of a folder is an event on two of them.
    `finished_due_s` and `folders_due_s` are the times of work that does not wait for quiet, else
    None.
    """

    unfinished: dict[str, _Wait] = msgspec.field(default_factory=dict)
    finished: dict[str, _Wait] = msgspec.field(default_factory=dict)
    finished_due_s: float | None = None
    folders: set[str] = msgspec.field(default_factory=set)
    folders_wait: _Wait | None = None
    folders_due_s: float | None = None
    busy_until_s: float = float("-inf")

    def add(self, path: str, now_s: float, *, is_finished: bool, quiet_s: float) -> None:
        # A path keeps its first time when it moves between the two dictionaries. Otherwise
        # repeated saves could wait for longer than `max_wait_s`.
        wait = _extend(self.unfinished.pop(path, None) or self.finished.pop(path, None), now_s)
        if is_finished:
            if now_s >= self.busy_until_s:
                self.finished_due_s = now_s
            self.busy_until_s = now_s + quiet_s
            self.finished[path] = wait
        else:
            self.unfinished[path] = wait
            if not self.finished:
                self.finished_due_s = None

    def add_folder(self, path: str, now_s: float) -> None:
        self.folders_wait = _extend(self.folders_wait, now_s)
        if path == ROOT or len(self.folders) >= PATHS_LIMIT:
            self.folders = {ROOT}
        elif ROOT not in self.folders:
            self.folders.add(path)

    def widen(self) -> None:
        """Replace the single paths by a full scan, which is due no later than the paths were."""
        self.folders = {ROOT}
        self.folders_wait = _join(
            (
                *self.unfinished.values(),
                *self.finished.values(),
                *((self.folders_wait,) if self.folders_wait else ()),
            )
        )
        if self.finished_due_s is not None:
            self.folders_due_s = _earlier(self.folders_due_s, self.finished_due_s)
        self.unfinished.clear()
        self._clear_finished()

    def deadline_s(self, policy: DebouncePolicy) -> float | None:
        deadlines = [wait.due_s(policy) for wait in self.unfinished.values()]
        if self.finished:
            deadlines.append(
                _join(self.finished.values()).due_s(policy)
                if self.finished_due_s is None
                else self.finished_due_s
            )
        folders_due_s = self._find_folders_due_s(policy)
        if folders_due_s is not None:
            deadlines.append(folders_due_s)
        return min(deadlines, default=None)

    def take(self, now_s: float, policy: DebouncePolicy) -> tuple[frozenset[str], frozenset[str]]:
        """Take the unfinished paths that are due and all finished paths, and the folders if they
        are due. A finished path is taken even if it is not due, because the scan costs nothing
        more.
        """
        due = [path for path, wait in self.unfinished.items() if wait.due_s(policy) <= now_s]
        paths = frozenset((*due, *self.finished))
        for path in due:
            del self.unfinished[path]
        self._clear_finished()
        folders_due_s = self._find_folders_due_s(policy)
        folders = frozenset[str]()
        if folders_due_s is not None and folders_due_s <= now_s:
            folders, self.folders = frozenset(self.folders), set()
            self.folders_wait = self.folders_due_s = None
        self.busy_until_s = max(self.busy_until_s, now_s + policy.debounce_s)
        return paths, folders

    def _clear_finished(self) -> None:
        self.finished.clear()
        self.finished_due_s = None

    def _find_folders_due_s(self, policy: DebouncePolicy) -> float | None:
        if self.folders_wait is None:
            return None
        if self.folders_due_s is not None:
            return self.folders_due_s
        return self.folders_wait.due_s(policy)


def _extend(wait: _Wait | None, now_s: float) -> _Wait:
    return _Wait(now_s, now_s) if wait is None else _Wait(wait.first_s, now_s)


def _join(waits: Iterable[_Wait]) -> _Wait:
    waits = tuple(waits)
    return _Wait(min(wait.first_s for wait in waits), max(wait.last_s for wait in waits))


def _earlier(time_s: float | None, other_s: float) -> float:
    return other_s if time_s is None else min(time_s, other_s)


ANNOUNCED_LIMIT = 4096
"""At most this many paths are remembered. If there are more, the root counts as announced, and so
does every path."""
OVERDUE_SLACK_S = 30.0
"""A full scan may end this much later than planned, on a busy machine or after a long job of
another workspace."""


class AnnouncedPaths:
    """Paths that events announced, with the times of the first and the last event of each.

    Only one thread may use it at a time, but any thread may call `len`.
    """

    __slots__ = ("_announced_s", "_first_s")

    def __init__(self) -> None:
        self._announced_s: dict[str, float] = {}
        self._first_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._announced_s)

    def add(self, path: str, now_s: float, *, is_own: bool = True) -> None:
        """Record an event. `is_own` is false if `path` is a folder, and the event is about a file
        in it that decides which notes are scanned.
        """
        is_kept = len(self._announced_s) < ANNOUNCED_LIMIT or path in self._announced_s
        self._announced_s[path if is_kept else ROOT] = now_s
        if is_own and is_kept and path != ROOT:
            self._first_s.setdefault(path, now_s)

    def covers(self, path: str) -> bool:
        """True if an event announced this path or a folder above it."""
        while path not in self._announced_s:
            if path == ROOT:
                return False
            path = path.rpartition("/")[0]
        return True

    def find_first_s(self, path: str) -> float | None:
        """The time of the first event of this path, else of the nearest folder above it that had
        one. The root does not count. None if there was no event.
        """
        while path != ROOT and path not in self._first_s:
            path = path.rpartition("/")[0]
        return self._first_s.get(path)

    def forget_before(self, before_s: float) -> None:
        for path in [path for path, event_s in self._announced_s.items() if event_s < before_s]:
            self._forget(path)

    def _forget(self, path: str) -> None:
        self._announced_s.pop(path, None)
        self._first_s.pop(path, None)

    def settle(self, paths: Collection[str] | None, began_s: float) -> None:
        """Record the end of a scan that began at `began_s`; `paths` None means a full scan."""
        if not self._announced_s:
            return
        for path in list(self._announced_s if paths is None else paths):
            last_s = self._announced_s.get(path, began_s)
            if last_s <= began_s:
                self._forget(path)
            elif path in self._first_s:
                self._first_s[path] = last_s


def describe_overdue(
    scanned_s: float | None, progressed_s: float | None, now_s: float, reconcile_s: float
) -> str:
    """Return a message if the last full scan is too long ago, else an empty text. That scan began
    at `scanned_s`. A long sync delays the next scan, so its last progress, at `progressed_s`,
    counts as well.
    """
    if scanned_s is None:
        return ""
    last_s = scanned_s if progressed_s is None else max(scanned_s, progressed_s)
    if now_s - last_s <= reconcile_s + OVERDUE_SLACK_S:
        return ""
    age = f"{now_s - scanned_s:,.0f} s"
    return f"the last full scan began {age} ago; a full scan is due every {reconcile_s:g} s"
