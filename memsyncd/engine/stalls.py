"""Detect a workspace whose disk does not answer, and keep the other workspaces running.

A timer runs only while a worker pool has jobs; without jobs nothing wakes up. The pools set and
cancel it, from any thread. When it ends, each pool detaches the steps that take too long, and
workspaces whose steps take even longer are reported as stalled, on the event loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from memsyncd.core.scheduling import (
    StallPolicy,
    Step,
    describe_stall,
    find_next_check_s,
    find_stalled,
)
from memsyncd.engine.alarm import make_alarm
from memsyncd.engine.job_completions import call_soon
from memsyncd.engine.worker import WorkerPool
from memsyncd.engine.workspace import STALL_FAULT, Workspace
from memsyncd.logs import Event, get_log

log = get_log("engine")


class StallMonitor:
    """Checks the running steps of worker pools. The key of a workspace's steps is its id."""

    def __init__(
        self,
        workspaces: Mapping[str, Workspace],
        policy: StallPolicy,
        *,
        on_checked: Callable[[], None],
        on_stalled: Callable[[Workspace], None],
        on_recovered: Callable[[Workspace], None],
    ) -> None:
        """`on_checked()` is called after each check, when overdue steps have been detached."""
        self._loop = asyncio.get_running_loop()
        self._workspaces = workspaces
        self._policy = policy
        self._on_checked = on_checked
        self._on_stalled = on_stalled
        self._on_recovered = on_recovered
        self._pools: list[WorkerPool] = []
        self._lock = threading.Lock()
        self._alarm = make_alarm(self._check)
        self._is_set = False
        self._stalled: dict[str, Workspace] = {}
        self._futures: dict[str, asyncio.Future[None]] = {}

    def add_pool(self, pool: WorkerPool) -> None:
        self._pools.append(pool)
        pool.on_busy, pool.on_idle = self._begin, self._end_if_idle

    @property
    def is_checking(self) -> bool:
        """True while the timer runs."""
        return self._is_set

    def _begin(self) -> None:
        """A pool has got a job: check its progress after a while. From any thread."""
        with self._lock:
            if not self._is_set:
                self._set(self._policy.takeover_s)

    def _end_if_idle(self) -> None:
        """A pool has no job any more: cancel the timer if none has. From any thread."""
        # A job that is submitted after this look sets the timer again.
        with self._lock:
            if self._is_set and not (self._stalled or self._is_busy()):
                self._is_set = False
                self._alarm.cancel()

    def _set(self, delay_s: float) -> None:
        self._is_set = True
        self._alarm.set(delay_s)

    def _is_busy(self) -> bool:
        return any(pool.is_busy for pool in self._pools)

    def note_returned(self, _key: str) -> None:
        """Check again, as a detached step has returned; from any thread."""
        call_soon(self._loop, self._check)

    def is_stalled(self, workspace: Workspace) -> bool:
        return self._stalled.get(workspace.id) is workspace

    def expect(self, workspace: Workspace) -> asyncio.Future[None]:
        """A future that is done once this workspace is stalled. Requests share it."""
        future = self._futures.setdefault(workspace.id, self._loop.create_future())
        if self.is_stalled(workspace):
            self._release(workspace)
        return future

    def stop(self) -> None:
        """From any thread."""
        self._alarm.cancel()
        call_soon(self._loop, self._alarm.close)

    def _check(self) -> None:
        now_s = time.monotonic()
        for pool in self._pools:
            pool.detach_overdue(now_s)
        running = find_oldest([pool.running_steps() for pool in self._pools])
        self._on_checked()
        self._report(find_stalled(running, now_s, self._policy), now_s)
        delay_s = find_next_check_s(running.values(), now_s, self._policy)
        with self._lock:
            if self._stalled or self._is_busy():
                self._set(delay_s)
            else:
                self._is_set = False
                self._alarm.cancel()

    def _report(self, stalled: Mapping[str, float], now_s: float) -> None:
        """Set and clear the faults of workspaces; call back for those whose state changed."""
        found = {key: self._workspaces[key] for key in stalled if key in self._workspaces}
        before, self._stalled = self._stalled, found
        for key, workspace in found.items():
            text = describe_stall(workspace.entry.root, now_s - stalled[key])
            workspace.set_fault(STALL_FAULT, text)
            if before.get(key) is not workspace:
                self._stall(workspace)
        for key, workspace in before.items():
            if found.get(key) is not workspace:
                workspace.set_fault(STALL_FAULT, "")
                if self._workspaces.get(key) is workspace:
                    log.info(Event.WORKSPACE_RECOVERED, workspace=workspace.id)
                    self._on_recovered(workspace)

    def _stall(self, workspace: Workspace) -> None:
        root = workspace.entry.root
        log.error(Event.WORKSPACE_STALLED, workspace=workspace.id, root=root)
        self._release(workspace)
        self._on_stalled(workspace)

    def _release(self, workspace: Workspace) -> None:
        future = self._futures.pop(workspace.id, None)
        if future is not None:
            future.set_result(None)


def find_oldest(running: Sequence[Mapping[str, Step]]) -> dict[str, Step]:
    """For each key the step that has run longest in any pool."""
    oldest: dict[str, Step] = {}
    for steps in running:
        for key, step in steps.items():
            if key not in oldest or step.since_s < oldest[key].since_s:
                oldest[key] = step
    return oldest
