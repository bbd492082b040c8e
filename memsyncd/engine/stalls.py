"""Notices that a workspace's disk does not answer, has other threads go on with the other workspaces, and says so.

A timer runs only while a worker pool has jobs; without jobs nothing wakes up. Lives on the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from memsyncd.core.scheduling import StallPolicy, Step, describe_stall, find_next_check_s, find_stalled
from memsyncd.engine.gathering import call_soon
from memsyncd.engine.workers import WorkerPool
from memsyncd.engine.workspaces import STALL_FAULT, Workspace
from memsyncd.logs import Event, get_log

log = get_log("engine")


class StallMonitor:
    """Watches the running steps of worker pools. Steps are known by their keys, those of a workspace by its id."""

    def __init__(
        self,
        workspaces: Mapping[str, Workspace],
        policy: StallPolicy,
        *,
        on_checked: Callable[[], None],
        on_stalled: Callable[[Workspace], None],
        on_recovered: Callable[[Workspace], None],
    ) -> None:
        """`on_checked()` is called after each look at the steps, when those that take long have lost their places."""
        self._loop = asyncio.get_running_loop()
        self._workspaces = workspaces
        self._policy = policy
        self._on_checked = on_checked
        self._on_stalled = on_stalled
        self._on_recovered = on_recovered
        self._pools: list[WorkerPool] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: dict[str, Workspace] = {}
        self._expecting: dict[str, set[asyncio.Future[None]]] = {}

    def watch(self, pool: WorkerPool) -> None:
        self._pools.append(pool)

    def arm(self) -> None:
        """A job was submitted: look after a while whether it gets on."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._policy.takeover_s, self._check)

    def relax(self) -> None:
        """A job has ended: if it was the last, nothing need be looked at."""
        if self._timer is not None and not self._stalled and not any(pool.is_busy for pool in self._pools):
            self._timer.cancel()
            self._timer = None

    def note_returned(self, _key: str) -> None:
        """A step that had lost its place has returned; on any thread."""
        call_soon(self._loop, self._check)

    def is_stalled(self, workspace: Workspace) -> bool:
        return self._stalled.get(workspace.id) is workspace

    def expect(self, workspace: Workspace) -> asyncio.Future[None]:
        """A future that is done once this workspace is stalled, for a request that waits. Give it back to `dismiss`."""
        future: asyncio.Future[None] = self._loop.create_future()
        if self.is_stalled(workspace):
            future.set_result(None)
        self._expecting.setdefault(workspace.id, set()).add(future)
        return future

    def dismiss(self, workspace: Workspace, future: asyncio.Future[None]) -> None:
        future.cancel()
        expecting = self._expecting.get(workspace.id, set())
        expecting.discard(future)
        if not expecting:
            self._expecting.pop(workspace.id, None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_s = time.monotonic()
        for pool in self._pools:
            pool.relieve(now_s)
        running = find_oldest([pool.find_running() for pool in self._pools])
        self._on_checked()
        self._say(find_stalled(running, now_s, self._policy), now_s)
        if self._stalled or any(pool.is_busy for pool in self._pools):
            delay_s = find_next_check_s(running.values(), now_s, self._policy)
            self._timer = self._loop.call_later(delay_s, self._check)

    def _say(self, stalled: Mapping[str, float], now_s: float) -> None:
        found = {key: self._workspaces[key] for key in stalled if key in self._workspaces}
        before, self._stalled = self._stalled, found
        for key, workspace in found.items():
            workspace.set_fault(STALL_FAULT, describe_stall(workspace.entry.root, now_s - stalled[key]))
            if before.get(key) is not workspace:
                self._begin(workspace)
        for key, workspace in before.items():
            if found.get(key) is not workspace:
                workspace.set_fault(STALL_FAULT, "")
                if self._workspaces.get(key) is workspace:
                    log.info(Event.WORKSPACE_RECOVERED, workspace=workspace.id)
                    self._on_recovered(workspace)

    def _begin(self, workspace: Workspace) -> None:
        log.error(Event.WORKSPACE_STALLED, workspace=workspace.id, root=workspace.entry.root)
        for future in self._expecting.get(workspace.id, ()):
            if not future.done():
                future.set_result(None)
        self._on_stalled(workspace)


def find_oldest(running: Sequence[Mapping[str, Step]]) -> dict[str, Step]:
    """Of each key the step that has run longest in any pool."""
    oldest: dict[str, Step] = {}
    for steps in running:
        for key, step in steps.items():
            if key not in oldest or step.since_s < oldest[key].since_s:
                oldest[key] = step
    return oldest
