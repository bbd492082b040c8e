"""Watch the folders of all workspaces, and turn each event into dirty paths of a workspace.

One observer serves all workspaces. The module has no clock and wakes nothing: its owner calls
`set_plans`, `walk` and `check` when events may be lost, and at each timed scan. These calls read
the disk and join threads, which may take seconds, so the event loop's thread must not make them;
only `health` and `note_scan` return at once. `core.changes.watchplan` decides which folders are
wanted and which paths matter.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import msgspec
from watchdog.events import (
    EVENT_TYPE_ATTRIB,
    EVENT_TYPE_CLOSED,
    EVENT_TYPE_CREATED,
    EVENT_TYPE_MOVED,
    FileSystemEvent,
)

from memsyncd.core.changes.watchplan import Watch
from memsyncd.core.paths import is_note_name
from memsyncd.watch.health import (
    Backlog,
    MissedChanges,
    OnEventsLost,
    RunLater,
    WatchHealth,
    describe_health,
)
from memsyncd.watch.targets import WatchTarget, WatchTargets, find_reader, is_within
from memsyncd.watch.watch_group import WatchLimits

OnEvent = Callable[[str, str, bool, bool], None]

BACKOFF_FIRST_S, BACKOFF_LAST_S = 1.0, 60.0
MAX_FOLDERS = 4096
NO_OBSERVER = "none"


# --- dirty paths ---


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyPath:
    """A path that may have changed.

    `is_folder` is true for a folder and for a link, which may lead to a folder. `is_finished` is
    true for a file that was closed after writing or moved into place. A file that was created,
    modified, deleted or moved away is unfinished: editors, git and sync tools remove a file before
    they put its next version there. `may_be_link` is true if only the disk can decide: call
    `check_link`.
    """

    path: str
    is_finished: bool
    is_folder: bool
    may_be_link: bool = field(default=False, compare=False)


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A workspace that receives the events of a target.

    `is_link_target` is true if the target is watched only because a link leads there.
    """

    workspace_id: str
    root: str
    is_link_target: bool
    is_pruned: Callable[[str], bool] | None
    """True for a folder that the workspace leaves out, by its path from the root. None if none."""

    def is_left_out(self, folder: str) -> bool:
        """True if the workspace needs no watch on this absolute folder."""
        return self.is_pruned is not None and self.is_pruned(folder[len(self.root) + 1 :])


def dirty_paths(event: FileSystemEvent) -> Iterator[DirtyPath]:
    """Return a dirty path for each absolute path of the event."""
    old, new = os.fsdecode(event.src_path), os.fsdecode(event.dest_path)
    is_move = event.event_type == EVENT_TYPE_MOVED
    # Both paths of a renamed note are finished. Otherwise they would be synced at different times,
    # and the move would not be recognised.
    is_renamed_note = is_move and all(is_note_name(os.path.basename(path)) for path in (old, new))
    finishing = (EVENT_TYPE_CLOSED, EVENT_TYPE_MOVED, EVENT_TYPE_ATTRIB)
    is_old_in_place = not is_move or is_renamed_note
    for path, is_in_place, is_new in (
        (old, is_old_in_place, event.event_type == EVENT_TYPE_CREATED),
        (new, is_move, is_move),
    ):
        if path:
            is_finished = is_in_place and event.event_type in finishing
            is_folder = event.is_directory
            yield DirtyPath(
                path=path,
                is_finished=is_finished and not is_folder,
                is_folder=is_folder,
                may_be_link=is_new and not is_folder and not is_note_name(os.path.basename(path)),
            )


def check_link(dirty: DirtyPath) -> DirtyPath:
    """Return the same path, as a folder if it is a link. Reads the disk."""
    is_link = os.path.islink(dirty.path)
    return replace(dirty, is_finished=False, is_folder=True) if is_link else dirty


def to_workspace_path(dirty: DirtyPath, route: Route) -> DirtyPath | None:
    """Return the path relative to the workspace's root, or None if it is not the workspace's.

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
    """Return the folder of a path relative to the root; empty for the root."""
    return path.rpartition("/")[0]


# --- the watcher ---


def _leave_out_none(_path: str) -> bool:
    return False


class Plan(NamedTuple):
    """The root of a workspace, and the folders to watch for it.

    `is_pruned` gets the path of a folder from the root; it is true if pruned watches leave the
    folder out.
    """

    root: str
    watches: frozenset[Watch]
    is_pruned: Callable[[str], bool] = _leave_out_none


EMPTY_PLAN = Plan("", frozenset())


class Watcher:
    """Watches the folders of all workspaces.

    `on_event(workspace_id, path, is_finished, is_folder)` receives the path relative to the root,
    empty for the whole workspace. `on_events_lost(reason)` means that events were or will be lost:
    call `set_plans` for every workspace, then `walk` and `check`, then scan everything. Both are
    called on threads of watchdog and of `run_later`; there they must only hand over.
    `run_later(call, key)` makes calls that read the disk after an event: a call that hangs delays
    only the events of its own folder.
    """

    def __init__(
        self,
        on_event: OnEvent,
        on_events_lost: OnEventsLost,
        run_later: RunLater,
        *,
        find_max_folders: Callable[[], int] = lambda: MAX_FOLDERS,
    ) -> None:
        """`find_max_folders` returns the number of folders that a recursive watch may have."""
        self._run_later = run_later
        self._find_max_folders = find_max_folders
        self._on_event = on_event
        self._on_events_lost = on_events_lost
        self._lock = threading.RLock()
        self._is_stopped = False
        # The number of events that concern a workspace. Any thread may read it.
        self.n_events = 0
        self._count_lock = threading.Lock()
        self._plans: dict[str, Plan] = {}
        self._routes: dict[WatchTarget, tuple[Route, ...]] = {}
        self._targets = WatchTargets(
            run_later, self._on_target_event, self._report_events_lost, self._find_limits
        )
        self._link_checks: dict[WatchTarget, Backlog[DirtyPath]] = {}
        # The workspace whose missing folders a call looks up now.
        self._accessed_id: str | None = None
        self._missed: dict[str, MissedChanges] = {}
        self._backoff_s = BACKOFF_FIRST_S
        self._rebuilt_at_s = self._rebuild_from_s = float("-inf")

    def set_plans(self, plans: Mapping[str, Plan]) -> frozenset[str]:
        """Watch exactly the folders of these plans, by id of workspace.

        Folders that were replaced or whose watch is broken are watched again. Returns the ids of
        workspaces with a newly watched folder, which may have been watched for another workspace
        before: scan these workspaces. A change between the planning and this call has no event, so
        plan them once more and call again.
        """
        with self._exclusively():
            if self._is_stopped:
                return frozenset()
            for workspace_id, plan in plans.items():
                self._plans[workspace_id] = plan
                self._missed.setdefault(workspace_id, MissedChanges())
            return self._update_targets()

    def drop(self, workspace_id: str) -> None:
        """Stop watching a workspace."""
        with self._exclusively():
            self._plans.pop(workspace_id, None)
            self._missed.pop(workspace_id, None)
            self._update_targets()

    def walk(self, only: Collection[str] | None = None) -> frozenset[str]:
        """Watch every folder that is now beneath the planned folders; cheap if nothing has changed.

        With `only`, this is done for these workspaces alone. Returns the ids of workspaces in which
        a folder was not watched until now, or had another path in the table: scan them.
        """
        with self._exclusively():
            return self._ids_of(
                self._targets.walk(
                    lambda target: only is None or not self._ids_of([target]).isdisjoint(only)
                )
            )

    def check(self, now_s: float) -> tuple[str, ...]:
        """Retry refused folders. Return reasons to rebuild the watcher; empty if there are none."""
        with self._exclusively():
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

        Returns None if it is done, else the time from which `rebuild` may be called again.
        """
        with self._exclusively():
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

        Returns true if the watcher should be rebuilt. All calls must come from the same thread.
        """
        changes = self._missed.get(workspace_id)
        return changes is not None and changes.note_scan({_parent(path) for path in missed})

    def call_when_handled(self, call: Callable[[], None]) -> bool:
        """Call `call` on watchdog's thread when all events that have occurred by now are handled.

        Returns False, and calls nothing, if there are no such events or if the system cannot say.
        May be used on any thread.
        """
        ask = getattr(find_reader(self._targets.observer), "call_when_handled", None)
        return ask is not None and ask(call)

    def defer(self, call: Callable[[], None]) -> None:
        """Call `call` some milliseconds later if that wakes no other thread; otherwise at once.

        A handler of events uses it for work that can wait until the handler has returned. May be
        used on any thread.
        """
        defer = getattr(find_reader(self._targets.observer), "defer", None)
        if defer is None:
            call()
        else:
            defer(call)

    def health(self, workspace_id: str) -> WatchHealth:
        """Return whether events of this workspace can be relied on, and why not. Never waits."""
        return describe_health(
            observer=self.observer_name,
            observer_faults=self._targets.find_observer_faults(),
            unwatched=self._find_unwatched(workspace_id),
            missed=self._missed.get(workspace_id, MissedChanges()),
        )

    def may_watch_again(self, workspace_id: str) -> bool:
        """True if a folder that had no permission may be readable now."""
        return any(
            code == errno.EACCES and os.access(path, os.R_OK)
            for path, code in self._find_unwatched(workspace_id).items()
        )

    def _find_unwatched(self, workspace_id: str) -> dict[str, int]:
        """Return the folders of a workspace that cannot be watched, with errno."""
        watches = self._plans.get(workspace_id, EMPTY_PLAN).watches
        return {
            path: code
            for path, code in dict(self._targets.unwatched).items()
            if any(is_within(path, watch.folder) for watch in watches)
        }

    @property
    def accessed_ids(self) -> frozenset[str]:
        """The ids of workspaces whose folders the running call reads. Any thread may read them."""
        if self._accessed_id is not None:
            return frozenset({self._accessed_id})
        target = self._targets.accessed
        return frozenset() if target is None else self._ids_of([target])

    @property
    def progress(self) -> int:
        """A number that changes while a call makes progress. Any thread may read it."""
        return self._targets.progress

    @property
    def n_watches(self) -> int:
        """The number of watches that count for inotify's limit; on other systems, of targets."""
        return self._targets.n_watches

    @property
    def observer_name(self) -> str:
        """`inotify`, `fsevents`, the class name of any other observer, or `none`."""
        observer = self._targets.observer
        if observer is None:
            return NO_OBSERVER
        return getattr(observer, "system", type(observer).__name__)

    def stop(self) -> None:
        """End all threads; wait at most a few seconds. The watcher cannot be used afterwards."""
        with self._exclusively():
            self._is_stopped = True
            self._plans.clear()
            self._routes = {}
            self._targets.close()

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            finally:
                self._accessed_id = self._targets.accessed = None

    def _update_targets(self) -> frozenset[str]:
        routes: dict[WatchTarget, tuple[Route, ...]] = {}
        for workspace_id, plan in self._plans.items():
            for watch in plan.watches:
                target = WatchTarget(watch.folder, watch.is_recursive)
                route = Route(
                    workspace_id=workspace_id,
                    root=plan.root,
                    is_link_target=watch.is_link_target,
                    is_pruned=plan.is_pruned if watch.is_pruned else None,
                )
                routes[target] = (*routes.get(target, ()), route)
        before, self._routes = self._routes, routes
        checks = self._link_checks
        self._link_checks = {
            target: checks.get(target) or self._make_link_check(target) for target in routes
        }
        watched_anew = self._ids_of(self._targets.update(routes))
        # A folder that was watched for others alone sent no event to this workspace.
        joined = {
            workspace_id
            for target in routes
            if self._targets.is_watched(target)
            for workspace_id in _list_ids(routes[target]) - _list_ids(before.get(target, ()))
        }
        return watched_anew | joined

    def _find_limits(self, folder: str) -> WatchLimits:
        """Return the limits of a recursive watch: folders that no workspace needs are left out."""
        routes = self._routes.get(WatchTarget(folder, is_recursive=True), ())

        def is_pruned(path: str) -> bool:
            return all(route.is_left_out(path) for route in routes)

        is_whole = not routes or any(route.is_pruned is None for route in routes)
        return WatchLimits(None if is_whole else is_pruned, self._find_max_folders())

    def _make_link_check(self, target: WatchTarget) -> Backlog[DirtyPath]:
        return Backlog(
            lambda dirty: self._deliver(target, check_link(dirty)),
            key=target.folder,
            run_later=self._run_later,
            on_events_lost=self._report_events_lost,
        )

    def _forget_missed(self) -> None:
        for workspace_id, changes in self._missed.items():
            self._accessed_id = workspace_id
            changes.forget(partial(_is_gone, self._plans[workspace_id].root))
        self._accessed_id = None

    def _ids_of(self, targets: Iterable[WatchTarget]) -> frozenset[str]:
        routes = self._routes
        return frozenset().union(*(_list_ids(routes.get(target, ())) for target in targets))

    # The following functions run on threads of watchdog and of `run_later`, and do not take the
    # lock: its holder may be waiting for these threads to end. Watchdog's threads serve all
    # workspaces and must not read the disk.

    def _on_target_event(self, target: WatchTarget, event: FileSystemEvent) -> None:
        for dirty in dirty_paths(event):
            link_check = self._link_checks.get(target) if dirty.may_be_link else None
            if link_check is None:
                self._deliver(target, dirty)
            else:
                link_check.put(dirty)

    def _deliver(self, target: WatchTarget, dirty: DirtyPath) -> None:
        for route in self._routes.get(target, ()):
            own = to_workspace_path(dirty, route)
            if own is not None:
                with self._count_lock:
                    self.n_events += 1
                self._note_event(route, own.path)
                self._on_event(route.workspace_id, own.path, own.is_finished, own.is_folder)

    def _note_event(self, route: Route, path: str) -> None:
        changes = self._missed.get(route.workspace_id)
        # Events at the target of a link prove nothing about the folders of the workspace.
        if changes is not None and not route.is_link_target:
            changes.note_event(_parent(path))

    def _report_events_lost(self, reason: str) -> None:
        if not self._is_stopped:
            self._on_events_lost(reason)


def _list_ids(routes: Iterable[Route]) -> frozenset[str]:
    return frozenset(route.workspace_id for route in routes)


def _is_gone(root: str, folder: str) -> bool:
    return not os.path.isdir(os.path.join(root, folder))
