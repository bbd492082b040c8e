"""Detect a workspace whose disk does not answer, and keep the other workspaces running.

A timer runs only while a worker pool has jobs; without jobs nothing wakes up. It lets each pool
detach the steps that take too long, and reports workspaces whose steps take even longer as
stalled. Runs on the event loop.
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
        self._loop_thread = threading.get_ident()
        self._workspaces = workspaces
        self._policy = policy
        self._on_checked = on_checked
        self._on_stalled = on_stalled
        self._on_recovered = on_recovered
        self._pools: list[WorkerPool] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: dict[str, Workspace] = {}
        self._futures: dict[str, asyncio.Future[None]] = {}

    def add_pool(self, pool: WorkerPool) -> None:
        self._pools.append(pool)

    def arm(self) -> None:
        """A job was submitted, or is about to be on the loop: check its progress after a while.

        From any thread.
        """
        # A timer that is running now is not cancelled before the job has ended.
        if self._timer is not None:
            return
        if threading.get_ident() == self._loop_thread:
            self._set_timer()
        elif self._is_busy():
            call_soon(self._loop, self._arm_if_busy)

    def _arm_if_busy(self) -> None:
        if self._timer is None and self._is_busy():
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer = self._loop.call_later(self._policy.takeover_s, self._check)

    def disarm_if_idle(self) -> None:
        """A job has ended: cancel the timer if it was the last."""
        # Taken before the look at the pools: a job that is submitted after that look arms again.
        timer, self._timer = self._timer, None
        if timer is not None and (self._stalled or self._is_busy()):
            self._timer = timer
        elif timer is not None:
            timer.cancel()

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
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_s = time.monotonic()
        for pool in self._pools:
            pool.detach_overdue(now_s)
        running = find_oldest([pool.running_steps() for pool in self._pools])
        self._on_checked()
        self._report(find_stalled(running, now_s, self._policy), now_s)
        if self._stalled or self._is_busy():
            delay_s = find_next_check_s(running.values(), now_s, self._policy)
            self._timer = self._loop.call_later(delay_s, self._check)

    def _report(self, stalled: Mapping[str, float], now_s: float) -> None:
        """Set and clear the faults of workspaces; call back for those whose state changed."""
        found = {key: self._workspaces[key] for key in stalled if key in self._workspaces}
        before, self._stalled = self._stalled, found
        for key, workspace in found.items():
            text = describe_stall(workspace.entry.root, now_s - stalled[key])
            workspace.set_fault(STALL_FAULT, text)
            if before.get(key) is not workspace:
                self._begin(workspace)
        for key, workspace in before.items():
            if found.get(key) is not workspace:
                workspace.set_fault(STALL_FAULT, "")
                if self._workspaces.get(key) is workspace:
                    log.info(Event.WORKSPACE_RECOVERED, workspace=workspace.id)
                    self._on_recovered(workspace)

    def _begin(self, workspace: Workspace) -> None:
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
