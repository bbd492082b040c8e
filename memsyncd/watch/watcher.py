"""Watch the folders of all workspaces, and turn each event into dirty paths of a workspace.

One observer serves all workspaces. The module has no clock and wakes nothing: its owner calls
`set_plans`, `walk` and `check` when events may be lost and at each timed scan. These calls may take
seconds, because they read the disk and join threads, so they belong on a thread that is not the
event loop's; only `health` and `note_scan` return at once. `core.changes.watchplan` decides which
folders are wanted and which paths matter.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from watchdog.events import (
    EVENT_TYPE_ATTRIB,
    EVENT_TYPE_CLOSED,
    EVENT_TYPE_MOVED,
    FileSystemEvent,
)

from memsyncd.core.changes.watchplan import Watch
from memsyncd.core.notepath import is_note_name
from memsyncd.watch.health import MissedChanges, OnEventsLost, WatchHealth, describe_health
from memsyncd.watch.targets import WatchTarget, WatchTargets, is_within

OnEvent = Callable[[str, str, bool, bool], None]

BACKOFF_FIRST_S, BACKOFF_LAST_S = 1.0, 60.0
NO_OBSERVER = "none"


# --- dirty paths ---


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyPath:
    """A path that may have changed.

    `is_folder` is true for a folder and for a link, which may lead to one. `is_finished` is true
    for a file that was closed after writing or moved into place. A file that was created, modified,
    deleted or moved away is unfinished: editors, git and sync tools remove a file before they put
    its next version there.
    """

    path: str
    is_finished: bool
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A workspace that receives a target's events.

    `is_link_target` is true if the target is watched only because a link leads there.
    """

    workspace_id: str
    root: str
    is_link_target: bool


def dirty_paths(event: FileSystemEvent) -> Iterator[DirtyPath]:
    """One dirty path for each absolute path of the event."""
    old, new = os.fsdecode(event.src_path), os.fsdecode(event.dest_path)
    is_move = event.event_type == EVENT_TYPE_MOVED
    # Both paths of a renamed note are finished: else they would be synced apart, as no move.
    is_renamed_note = is_move and all(is_note_name(os.path.basename(one)) for one in (old, new))
    finishing = (EVENT_TYPE_CLOSED, EVENT_TYPE_MOVED, EVENT_TYPE_ATTRIB)
    for path, is_in_place in ((old, not is_move or is_renamed_note), (new, is_move)):
        if path:
            is_finished = is_in_place and event.event_type in finishing
            yield _make_dirty_path(path, is_finished=is_finished, is_folder=event.is_directory)


def to_workspace_path(dirty: DirtyPath, route: Route) -> DirtyPath | None:
    """The same path relative to the workspace's root, or None if it is not the workspace's.

    An empty path means the whole workspace: the root itself, a folder above a missing root, or the
    folder of a link's target, which may be anywhere.
    """
    whole = DirtyPath(path="", is_finished=False, is_folder=True)
    if route.is_link_target:
        is_note = is_note_name(os.path.basename(dirty.path))
        return whole if dirty.is_folder or is_note else None
    if dirty.path == route.root or route.root.startswith(f"{dirty.path}/"):
        return whole
    if dirty.path.startswith(f"{route.root}/"):
        path = dirty.path[len(route.root) + 1 :]
        return DirtyPath(path=path, is_finished=dirty.is_finished, is_folder=dirty.is_folder)
    return None


def _parent(path: str) -> str:
    """The folder of a path relative to the root; empty for the root."""
    return path.rpartition("/")[0]


def _make_dirty_path(path: str, *, is_finished: bool, is_folder: bool) -> DirtyPath:
    is_note = is_note_name(os.path.basename(path))
    is_folder = is_folder or (not is_note and os.path.islink(path))
    return DirtyPath(path=path, is_finished=is_finished and not is_folder, is_folder=is_folder)


# --- the watcher ---


class Plan(NamedTuple):
    """The root of a workspace, and the folders to watch for it."""

    root: str
    watches: frozenset[Watch]


EMPTY_PLAN = Plan("", frozenset())


class Watcher:
    """Watches the folders of all workspaces.

    `on_event(workspace_id, path, is_finished, is_folder)` receives the path relative to the root,
    empty for the whole workspace. `on_events_lost(reason)` means that events were or will be lost:
    call `set_plans` for every workspace, then `walk` and `check`, then scan everything. Both are
    called on watchdog's threads, where they must only hand over.
    """

    def __init__(self, on_event: OnEvent, on_events_lost: OnEventsLost) -> None:
        self._on_event = on_event
        self._on_events_lost = on_events_lost
        self._lock = threading.RLock()
        self._is_stopped = False
        # Events that concern a workspace. Counted on watchdog's thread; read it from any.
        self.n_events = 0
        self._plans: dict[str, Plan] = {}
        self._routes: dict[WatchTarget, tuple[Route, ...]] = {}
        self._targets = WatchTargets(self._on_target_event, self._report_events_lost)
        self._missed: dict[str, MissedChanges] = {}
        self._backoff_s = BACKOFF_FIRST_S
        self._rebuilt_at_s = self._rebuild_from_s = float("-inf")

    def set_plans(self, plans: Mapping[str, Plan]) -> frozenset[str]:
        """Watch these folders for workspaces, by id, and no others.

        Folders that were replaced or whose watch is broken are watched again. Returns the ids of
        workspaces with a newly watched folder: scan them. A change between the planning and this
        call has no event, so plan these once more and call again.
        """
        with self._lock:
            if self._is_stopped:
                return frozenset()
            for workspace_id, plan in plans.items():
                self._plans[workspace_id] = plan
                self._missed.setdefault(workspace_id, MissedChanges())
            return self._update_targets()

    def drop(self, workspace_id: str) -> None:
        """Stop watching a workspace."""
        with self._lock:
            self._plans.pop(workspace_id, None)
            self._missed.pop(workspace_id, None)
            self._update_targets()

    def walk(self) -> frozenset[str]:
        """Watch every folder that is now beneath the planned ones; cheap if nothing has changed.

        Returns the ids of workspaces in which a folder was not watched, or known under another
        path, until now: scan them.
        """
        with self._lock:
            return self._ids_of(self._targets.walk())

    def check(self, now_s: float) -> tuple[str, ...]:
        """The reasons to rebuild the watcher; empty if all is well. Retries refused folders."""
        with self._lock:
            if self._is_stopped:
                return ()
            faults = self._targets.find_observer_faults()
            if faults:
                return faults
            self._targets.retry(now_s)
            self._forget_missed()
            return self._targets.find_target_faults()

    def rebuild(self, now_s: float) -> float | None:
        """Replace the observer, unless that was done a moment ago. Scan everything afterwards.

        Returns None once it is done, else the time from which it may be called again.
        """
        with self._lock:
            if self._is_stopped:
                return None
            if now_s < self._rebuild_from_s:
                return self._rebuild_from_s
            is_first_for_long = now_s - self._rebuilt_at_s > 2 * BACKOFF_LAST_S
            doubled_s = min(2 * self._backoff_s, BACKOFF_LAST_S)
            self._backoff_s = BACKOFF_FIRST_S if is_first_for_long else doubled_s
            self._rebuilt_at_s, self._rebuild_from_s = now_s, now_s + self._backoff_s
            self._targets.close()
            self._update_targets()
            return None

    def note_scan(self, workspace_id: str, missed: Collection[str]) -> bool:
        """Count a timed scan that found changes without an event at the paths `missed`.

        Returns true if the watcher should be rebuilt. Call it on one thread only, any one.
        """
        changes = self._missed.get(workspace_id)
        return changes is not None and changes.note_scan({_parent(path) for path in missed})

    def health(self, workspace_id: str) -> WatchHealth:
        """Whether this workspace's events can be relied on. Waits for nothing."""
        watches = self._plans.get(workspace_id, EMPTY_PLAN).watches
        unwatched = dict(self._targets.unwatched)
        own = {
            path: code
            for path, code in unwatched.items()
            if any(is_within(path, watch.folder) for watch in watches)
        }
        return describe_health(
            observer=self.observer_name,
            observer_faults=self._targets.find_observer_faults(),
            unwatched=own,
            missed=self._missed.get(workspace_id, MissedChanges()),
        )

    @property
    def n_watches(self) -> int:
        """The number of watches: those that count for inotify's limit, elsewhere targets."""
        return self._targets.n_watches

    @property
    def observer_name(self) -> str:
        """`inotify`, `fsevents`, the class name of any other observer, or `none`."""
        observer = self._targets.observer
        if observer is None:
            return NO_OBSERVER
        return getattr(observer, "system", type(observer).__name__)

    def stop(self) -> None:
        """End all threads, waiting a few seconds at most. The watcher cannot be used afterwards."""
        with self._lock:
            self._is_stopped = True
            self._plans.clear()
            self._routes = {}
            self._targets.close()

    def _update_targets(self) -> frozenset[str]:
        routes: dict[WatchTarget, tuple[Route, ...]] = {}
        for workspace_id, (root, watches) in self._plans.items():
            for watch in watches:
                target = WatchTarget(watch.folder, watch.is_recursive)
                route = Route(
                    workspace_id=workspace_id, root=root, is_link_target=watch.is_link_target
                )
                routes[target] = (*routes.get(target, ()), route)
        self._routes = routes
        return self._ids_of(self._targets.update(routes))

    def _forget_missed(self) -> None:
        for workspace_id, changes in self._missed.items():
            changes.forget(partial(_is_gone, self._plans[workspace_id].root))

    def _ids_of(self, targets: Iterable[WatchTarget]) -> frozenset[str]:
        routes = self._routes
        return frozenset(route.workspace_id for one in targets for route in routes.get(one, ()))

    # On watchdog's threads, without the lock: its holder may be waiting for them to end.

    def _on_target_event(self, target: WatchTarget, event: FileSystemEvent) -> None:
        for dirty in dirty_paths(event):
            self._deliver(target, dirty)

    def _deliver(self, target: WatchTarget, dirty: DirtyPath) -> None:
        for route in self._routes.get(target, ()):
            own = to_workspace_path(dirty, route)
            if own is not None:
                self.n_events += 1
                self._note_event(route, own.path)
                self._on_event(route.workspace_id, own.path, own.is_finished, own.is_folder)

    def _note_event(self, route: Route, path: str) -> None:
        changes = self._missed.get(route.workspace_id)
        # Events of a link's target prove nothing about the folders of the workspace.
        if changes is not None and not route.is_link_target:
            changes.note_event(_parent(path))

    def _report_events_lost(self, reason: str) -> None:
        if not self._is_stopped:
            self._on_events_lost(reason)


def _is_gone(root: str, folder: str) -> bool:
    return not os.path.isdir(os.path.join(root, folder))
