"""Buffer file events and report the paths that have settled.

An event that settles a path, such as a finished save in a quiet workspace, is reported on the
thread that pushed it; a timer on the event loop reports the paths that need quiet. The paths
announced since the last full scan are kept, so that a scan can tell which changes no event has
announced. Some events arrive late: watchdog holds an event back that may be half of a move, and a
busy machine delays the others.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable

from memsyncd.core.changes.debounce import AnnouncedPaths, DebouncePolicy, Debouncer, Settled
from memsyncd.engine.clock import Clock
from memsyncd.engine.job_completions import call_soon

# How long an event may be delayed: a change that a scan finds counts as unannounced after that.
LATE_S = 1.0


class EventBuffer:
    """Collects events; calls `on_settled` once per due workspace, from any thread.

    Create it on the running loop. Methods may be called from any thread unless stated otherwise.
    """

    def __init__(
        self,
        policy: DebouncePolicy,
        clock: Clock,
        on_settled: Callable[[Settled[str]], None],
        defer: Callable[[Callable[[], None]], None],
    ) -> None:
        """`defer` makes a call a moment later, or at once."""
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._on_settled = on_settled
        self._defer = defer
        self._lock = threading.Lock()
        self._debouncer: Debouncer[str] = Debouncer(policy)
        self._recent: dict[str, AnnouncedPaths] = {}
        """Those of each workspace since its last full scan."""
        self._timer: asyncio.TimerHandle | None = None
        self._due_s: float | None = None
        """The time of the timer, or of the one that the loop was asked to set."""

    def set_policy(self, policy: DebouncePolicy) -> None:
        """Use another policy. Drops what is pending, so the caller must call `push_all`."""
        with self._lock:
            self._debouncer = Debouncer(policy)

    def push(self, workspace_id: str, path: str, *, is_finished: bool, is_folder: bool) -> None:
        """Add an event for a path."""
        now_s = self._clock.now_s()
        with self._lock:
            self._recent.setdefault(workspace_id, AnnouncedPaths()).add(path, now_s)
            self._debouncer.push(
                workspace_id, path, now_s, is_finished=is_finished, is_folder=is_folder
            )
        self._report_settled(now_s)

    def push_all(self, workspace_ids: Iterable[str]) -> None:
        """Mark everything in these workspaces as changed."""
        now_s = self._clock.now_s()
        with self._lock:
            for workspace_id in workspace_ids:
                self._debouncer.push_all(workspace_id, now_s)
        self._report_settled(now_s)

    def find_unannounced(
        self, workspace_id: str, paths: list[str], report: Callable[[list[str]], None]
    ) -> None:
        """Report the paths without an event, for them or a folder above, since the last full scan.

        If there are any, reports LATE_S later, when late events have arrived. On the loop.
        """
        if not self._unannounced(workspace_id, paths):
            report([])
        else:
            delayed = lambda: report(self._unannounced(workspace_id, paths))  # noqa: E731
            self._loop.call_later(LATE_S, delayed)

    def _unannounced(self, workspace_id: str, paths: list[str]) -> list[str]:
        with self._lock:
            recent = self._recent.get(workspace_id)
            return [path for path in paths if recent is None or not recent.covers(path)]

    def forget_recent(self, workspace_id: str, began_s: float) -> None:
        """Forget the events that a full scan which began at `began_s` has covered.

        Keeps those of the last 2 * LATE_S for a delayed `find_unannounced`.
        """
        before_s = min(began_s, self._clock.now_s() - 2 * LATE_S)
        with self._lock:
            if (recent := self._recent.get(workspace_id)) is not None:
                recent.forget_before(before_s)

    def forget(self, workspace_id: str) -> None:
        """Drop all events of a workspace."""
        with self._lock:
            self._debouncer.drop(workspace_id)
            self._recent.pop(workspace_id, None)

    def _report_settled(self, now_s: float) -> None:
        with self._lock:
            settled = self._debouncer.pop_settled(now_s)
            deadline_s = self._debouncer.next_deadline_s()
            is_sooner = deadline_s is not None and (self._due_s is None or deadline_s < self._due_s)
            if is_sooner:
                self._due_s = deadline_s
        for one in settled:
            self._on_settled(one)
        if is_sooner:
            # Most saves are finished within a moment and need no timer.
            self._defer(self._request_timer)

    def _request_timer(self) -> None:
        with self._lock:
            self._due_s = self._debouncer.next_deadline_s()
            is_needed = self._due_s is not None
        if is_needed:
            call_soon(self._loop, self._arm)

    # --- on the loop ---

    def _arm(self) -> None:
        """Set the timer. It is not moved when a deadline is put off: it asks again."""
        if self._timer is not None:
            self._timer.cancel()
        if self._due_s is not None:
            delay_s = max(0.0, self._due_s - self._clock.now_s())
            self._timer = self._loop.call_later(delay_s, self._time_out)

    def _time_out(self) -> None:
        self._timer = self._due_s = None
        self._report_settled(self._clock.now_s())
