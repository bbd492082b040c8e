"""Which workspaces are watched, where do their events go, and when does the watcher need help?

One observer serves all workspaces. It keeps no clock and wakes nobody: whoever owns it calls `set_plans`,
`walk` and `check` when a doubt arrives and at each timed scan. Calls may take seconds (threads are joined) and
belong on one thread that is not the event loop; only `health` and `note_scan` answer at once. Which folders are
wanted is `core.changes.watchplan`'s; scanning is others'.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from watchdog.events import FileSystemEvent

from memsyncd.core.changes.watchplan import Watch
from memsyncd.watch.doubts import OnDoubt
from memsyncd.watch.health import MissedChanges, WatchHealth, describe_health
from memsyncd.watch.rings import Route, find_folder, find_rings, place_ring
from memsyncd.watch.schedule import Schedule, Spot, is_within

OnEvent = Callable[[str, str, bool, bool], None]

BACKOFF_FIRST_S, BACKOFF_LAST_S = 1.0, 60.0
NO_OBSERVER = "none"


class Plan(NamedTuple):
    """A workspace's root, and the folders to be watched for it."""

    root: str
    watches: frozenset[Watch]


NOTHING_PLANNED = Plan("", frozenset())


class Watcher:
    """Watches for all workspaces.

    `on_event(workspace_id, path, is_finished, is_folder)` has the path written from the root, empty for the workspace as a whole.
    `on_doubt(reason)` says that events were or will be lost: call `set_plans` for every workspace, then `walk` and
    `check`, then scan all.
    Both come on watchdog's threads and must only hand off.
    """

    def __init__(self, on_event: OnEvent, on_doubt: OnDoubt) -> None:
        self._on_event = on_event
        self._on_doubt = on_doubt
        self._lock = threading.RLock()
        self._is_stopped = False
        self.n_events = 0
        """Events that concerned a workspace. Counted on watchdog's thread; read it from any."""
        self._plans: dict[str, Plan] = {}
        self._routes: dict[Spot, tuple[Route, ...]] = {}
        self._schedule = Schedule(self._hear, self._doubt)
        self._missed: dict[str, MissedChanges] = {}
        self._backoff_s = BACKOFF_FIRST_S
        self._rebuilt_at_s = self._rebuild_from_s = float("-inf")

    def set_plans(self, plans: Mapping[str, Plan]) -> frozenset[str]:
        """Watch these folders for workspaces, by id, and no others. Folders that were replaced or went deaf are watched anew.

        Returns the ids of workspaces of which a folder is watched now that was not before: scan them. What changed between the
        planning and this call rang nowhere, so plan these once more and call again.
        """
        with self._lock:
            if self._is_stopped:
                return frozenset()
            for workspace_id, plan in plans.items():
                self._plans[workspace_id] = plan
                self._missed.setdefault(workspace_id, MissedChanges())
            return self._follow_plans()

    def drop(self, workspace_id: str) -> None:
        """Watch nothing for a workspace any more."""
        with self._lock:
            self._plans.pop(workspace_id, None)
            self._missed.pop(workspace_id, None)
            self._follow_plans()

    def walk(self) -> frozenset[str]:
        """Watch every folder beneath what is planned, as it is now; cheap where nothing has changed.

        Returns the ids of workspaces in which a folder was not watched, or known under another path,
        until now: scan them.
        """
        with self._lock:
            return self._find_ids(self._schedule.walk())

    def check(self, now_s: float) -> tuple[str, ...]:
        """Why the watcher should be rebuilt; nothing if all is well. Now and then tries again what could not be watched."""
        with self._lock:
            if self._is_stopped:
                return ()
            trouble = self._schedule.find_trouble()
            if trouble:
                return trouble
            self._schedule.retry(now_s)
            self._forget_missed()
            return self._schedule.find_faults()

    def rebuild(self, now_s: float) -> float | None:
        """Put a new observer in place of the old, unless that was done a moment ago. Scan everything afterwards.

        None once it is done, else the time from which it may be asked for again.
        """
        with self._lock:
            if self._is_stopped:
                return None
            if now_s < self._rebuild_from_s:
                return self._rebuild_from_s
            is_first_for_long = now_s - self._rebuilt_at_s > 2 * BACKOFF_LAST_S
            self._backoff_s = BACKOFF_FIRST_S if is_first_for_long else min(2 * self._backoff_s, BACKOFF_LAST_S)
            self._rebuilt_at_s, self._rebuild_from_s = now_s, now_s + self._backoff_s
            self._schedule.close()
            self._follow_plans()
            return None

    def note_scan(self, workspace_id: str, missed: Collection[str]) -> bool:
        """Count a timed scan that found changes at the paths `missed`, which no event had announced.

        Returns true if the watcher is worth a rebuild. To be called on one thread, whichever.
        """
        changes = self._missed.get(workspace_id)
        return changes is not None and changes.note_scan({find_folder(path) for path in missed})

    def health(self, workspace_id: str) -> WatchHealth:
        """Whether this workspace's events can be relied on. Waits for nothing."""
        _, watches = self._plans.get(workspace_id, NOTHING_PLANNED)
        unwatched = dict(self._schedule.unwatched)
        own = {path: code for path, code in unwatched.items() if any(is_within(path, watch.folder) for watch in watches)}
        return describe_health(
            observer=self.observer_name,
            trouble=self._schedule.find_trouble(),
            unwatched=own,
            missed=self._missed.get(workspace_id, MissedChanges()),
        )

    @property
    def n_watches(self) -> int:
        """How much is watched now: what counts against inotify's limit, elsewhere folders."""
        return self._schedule.n_watches

    @property
    def observer_name(self) -> str:
        """What listens: `inotify`, `fsevents`, the class's name for any other; "none" while nothing does."""
        observer = self._schedule.observer
        return NO_OBSERVER if observer is None else getattr(observer, "system", type(observer).__name__)

    def stop(self) -> None:
        """End all threads, waiting for them a few seconds at most. Nothing can be watched afterwards."""
        with self._lock:
            self._is_stopped = True
            self._plans.clear()
            self._routes = {}
            self._schedule.close()

    def _follow_plans(self) -> frozenset[str]:
        routes: dict[Spot, tuple[Route, ...]] = {}
        for workspace_id, (root, watches) in self._plans.items():
            for watch in watches:
                spot = Spot(watch.folder, watch.is_recursive)
                route = Route(workspace_id=workspace_id, root=root, is_link_target=watch.is_link_target)
                routes[spot] = (*routes.get(spot, ()), route)
        self._routes = routes
        return self._find_ids(self._schedule.follow(routes))

    def _forget_missed(self) -> None:
        for workspace_id, changes in self._missed.items():
            changes.forget(partial(_is_gone, self._plans[workspace_id].root))

    def _find_ids(self, spots: Iterable[Spot]) -> frozenset[str]:
        routes = self._routes
        return frozenset(route.workspace_id for spot in spots for route in routes.get(spot, ()))

    # On watchdog's threads, without the lock: a thread that holds it may be waiting for them to end.

    def _hear(self, spot: Spot, event: FileSystemEvent) -> None:
        for ring in find_rings(event):
            for route in self._routes.get(spot, ()):
                placed = place_ring(ring, route)
                if placed is not None:
                    self.n_events += 1
                    self._note_heard(route, placed.path)
                    self._on_event(route.workspace_id, placed.path, placed.is_finished, placed.is_folder)

    def _note_heard(self, route: Route, path: str) -> None:
        changes = self._missed.get(route.workspace_id)
        # What a link's target tells says nothing of the folders of the workspace.
        if changes is not None and not route.is_link_target:
            changes.note_event(find_folder(path))

    def _doubt(self, reason: str) -> None:
        if not self._is_stopped:
            self._on_doubt(reason)


def _is_gone(root: str, folder: str) -> bool:
    return not os.path.isdir(os.path.join(root, folder))
