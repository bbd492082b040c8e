"""Buffer file events and report, on the event loop, the paths that have settled.

Events arrive on watchdog's thread and are handed to the loop in batches. There the debouncer
decides when each workspace's paths are settled. The paths announced since the last full scan are
kept, so that a scan can tell which changes no event has announced. Some events arrive late:
watchdog holds an event back that may be half of a move, and a busy machine delays the others.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable

from memsyncd.core.changes.debounce import DebouncePolicy, Debouncer, Settled
from memsyncd.engine.clock import Clock
from memsyncd.engine.job_completions import call_soon

# Announced paths kept for each workspace; beyond it the root itself counts as announced.
RECENT_LIMIT = 4096
# How long an event may be delayed: a change that a scan finds counts as unannounced after that.
LATE_S = 1.0
ROOT = ""

_Event = tuple[str, str, bool, bool]


class EventBuffer:
    """Collects events; calls `on_settled` on the loop it was made on, once per due workspace."""

    def __init__(
        self, policy: DebouncePolicy, clock: Clock, on_settled: Callable[[Settled[str]], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._on_settled = on_settled
        self._debouncer: Debouncer[str] = Debouncer(policy)
        self._lock = threading.Lock()
        self._events: list[_Event] = []
        self._recent: dict[str, dict[str, float]] = {}
        """For each workspace the announced paths, with the time of their last event."""
        self._timer: asyncio.TimerHandle | None = None

    def set_policy(self, policy: DebouncePolicy) -> None:
        """Use another policy. Drops what is pending, so the caller must call `push_all`."""
        self._debouncer = Debouncer(policy)

    def push(self, workspace_id: str, path: str, *, is_finished: bool, is_folder: bool) -> None:
        """Add an event for a path; from any thread."""
        with self._lock:
            self._events.append((workspace_id, path, is_finished, is_folder))
            is_first = len(self._events) == 1
        if is_first:
            call_soon(self._loop, self._process)

    def push_all(self, workspace_ids: Iterable[str]) -> None:
        """Mark everything in these workspaces as changed; on the loop."""
        for workspace_id in workspace_ids:
            self._debouncer.push_all(workspace_id, self._clock.now_s())
        self._arm()

    def find_unannounced(
        self, workspace_id: str, paths: list[str], report: Callable[[list[str]], None]
    ) -> None:
        """Report the paths without an event, for them or a folder above, since the last full scan.

        If there are any, reports LATE_S later, when late events have arrived.
        """
        if not self._unannounced(workspace_id, paths):
            report([])
        else:
            delayed = lambda: report(self._unannounced(workspace_id, paths))  # noqa: E731
            self._loop.call_later(LATE_S, delayed)

    def _unannounced(self, workspace_id: str, paths: list[str]) -> list[str]:
        recent = self._recent.get(workspace_id, {})
        return [path for path in paths if not _is_announced(path, recent)]

    def forget_recent(self, workspace_id: str, began_s: float) -> None:
        """Forget the events that a full scan which began at `began_s` has covered.

        Keeps those of the last 2 * LATE_S for a delayed `find_unannounced`.
        """
        before_s = min(began_s, self._clock.now_s() - 2 * LATE_S)
        recent = self._recent.pop(workspace_id, {})
        kept = {path: event_s for path, event_s in recent.items() if event_s >= before_s}
        if kept:
            self._recent[workspace_id] = kept

    def forget(self, workspace_id: str) -> None:
        """Drop all events of a workspace."""
        self._debouncer.drop(workspace_id)
        self._recent.pop(workspace_id, None)

    def _process(self) -> None:
        now_s = self._clock.now_s()
        with self._lock:
            events, self._events = self._events, []
        for workspace_id, path, is_finished, is_folder in events:
            recent = self._recent.setdefault(workspace_id, {})
            recent[path if len(recent) < RECENT_LIMIT or path in recent else ROOT] = now_s
            self._debouncer.push(
                workspace_id, path, now_s, is_finished=is_finished, is_folder=is_folder
            )
        self._report_settled()

    def _report_settled(self) -> None:
        for settled in self._debouncer.pop_settled(self._clock.now_s()):
            self._on_settled(settled)
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_s = self._debouncer.next_deadline_s()
        if deadline_s is not None:
            delay_s = max(0.0, deadline_s - self._clock.now_s())
            self._timer = self._loop.call_later(delay_s, self._report_settled)


def _is_announced(path: str, recent: Collection[str]) -> bool:
    while path not in recent:
        if path == ROOT:
            return False
        path = path.rpartition("/")[0]
    return True
