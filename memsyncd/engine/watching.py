"""Keeps the folders that are watched in step with the workspaces, and heals a watcher that receives no events.

Everything that the watcher does may take seconds, so it happens on a thread of its own, in order. After a doubt the watches are
planned anew, checked, rebuilt if need be, and everything is looked at. A disk that does not answer blocks that thread: then a new
watcher on another thread goes on without the workspace that was being planned or watched, until the blocked call returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

from memsyncd.core.scheduling import StallPolicy
from memsyncd.engine.gathering import call_soon
from memsyncd.engine.policies import Clock
from memsyncd.engine.rounds import Rounds
from memsyncd.engine.stalls import StallMonitor
from memsyncd.engine.watchturn import Checked, WatchTurn
from memsyncd.engine.workers import WorkerPool
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import ShuttingDown
from memsyncd.logs import Event, get_log
from memsyncd.watch.health import WatchHealth
from memsyncd.watch.supervisor import Watcher

WATCH_FAULT = "watch"
TURN_KEY = "turn"
"""No watcher's key, so that a proof of progress waits for none that is blocked."""
BLOCKED_SHARE = 0.8
"""Of the time until a step loses its place: so long a slow turn must have watched nothing more to count as blocked."""
SILENT_REASON = "its disk did not answer when it was to be watched: changes are seen by timed scans until it does"

log = get_log("watch")

T = TypeVar("T")


class Watching:
    """Keeps a Watcher in step with the workspaces. To be used on the loop that `rounds` runs on."""

    def __init__(self, rounds: Rounds, clock: Clock, stalls: StallMonitor, policy: StallPolicy) -> None:
        self._loop = asyncio.get_running_loop()
        self._rounds = rounds
        self._clock = clock
        self._stalls = stalls
        self._policy = policy
        self._pool = WorkerPool("memsyncd-watch", policy=policy, on_returned=stalls.note_returned)
        stalls.watch(self._pool)
        self._workspaces: dict[str, Workspace] = {}
        self._links: dict[str, frozenset[str]] = {}
        """Where each workspace's links led when it was planned last; for the watcher's thread."""
        self._silent: dict[str, str] = {}
        """Workspaces whose disk blocked a turn, with the key under which it is blocked."""
        self._is_doubted = False
        self._retry: asyncio.TimerHandle | None = None
        self.n_doubts = self.n_rebuilds = self._n_events_before = 0
        self._numbers = itertools.count(1)
        self._turn: WatchTurn | None = None
        self._slow_turn: tuple[int, float] | None = None
        """Of a turn that takes long how much was watched when it was looked at, and since when it is so much."""
        self._begin_watcher()

    def _begin_watcher(self) -> None:
        self._key = f"watcher {next(self._numbers)}"
        self._is_first = True
        self.watcher = Watcher(self._rounds.hear, self._doubt_from_thread)

    @property
    def is_on(self) -> bool:
        return self._rounds.policy.is_enabled and self._rounds.policy.is_on_change

    def add(self, workspace: Workspace) -> None:
        self._workspaces[workspace.id] = workspace
        self.follow(workspace)

    def forget(self, workspace: Workspace) -> None:
        self._workspaces.pop(workspace.id, None)
        self._silent.pop(workspace.id, None)
        self._run(lambda turn: turn.drop(workspace.id), _ignore)

    def note_slow(self) -> None:
        """A step of some pool takes long, or has returned: go on without what blocks the watcher, and with what does no more."""
        running = self._pool.find_running()
        for workspace_id, key in list(self._silent.items()):
            if key not in running:
                del self._silent[workspace_id]
                if workspace_id in self._workspaces:
                    self.follow(self._workspaces[workspace_id])
        if self._key in running and running[self._key].is_detached:
            self._note_slow_turn()
        else:
            self._slow_turn = None

    def follow(self, workspace: Workspace) -> None:
        """Plan this workspace's watches anew; if more is watched than before, look at everything."""
        if self._workspaces.get(workspace.id) is workspace and self.is_on and self._is_answering(workspace):
            self._run(lambda turn: turn.follow((workspace,)), self._followed)

    def supervise(self) -> None:
        """Plan all watches anew, check that the watcher lives and hears what stands there; heal it if not."""
        if self.is_on:
            self._run(self._check, self._checked)

    def note_reconciled(self, workspace: Workspace, missed: Collection[str]) -> None:
        """A timed scan is over and found changes at the paths `missed` that no event had announced.

        Three times in a row in one folder, the watcher is rebuilt.
        """
        if self.is_on and self.watcher.note_scan(workspace.id, missed):
            self._run(self._rebuild, self._rebuilt)

    def health(self, workspace: Workspace) -> WatchHealth:
        if not self.is_on:
            return WatchHealth(mode="off", observer="none")
        if not self._is_answering(workspace):
            return WatchHealth(mode="timed", observer=self.watcher.observer_name, reasons=(SILENT_REASON,))
        return self.watcher.health(workspace.id)

    @property
    def n_events(self) -> int:
        """Events that concerned a workspace."""
        return self._n_events_before + self.watcher.n_events

    def take_turn(self) -> Future[None]:
        """Have the watcher's pool do nothing once: done as soon as it makes progress. Fails with ShuttingDown once stopped."""
        self._stalls.arm()
        return self._pool.call(_do_nothing, TURN_KEY)

    def stop(self, timeout_s: float) -> bool:
        """End the watcher's threads. False if one is blocked; it is left to itself."""
        if self._retry is not None:
            self._retry.cancel()
        end_s = time.monotonic() + timeout_s
        ended = self._pool.call(self.watcher.stop, self._key)
        with contextlib.suppress(TimeoutError, ShuttingDown):
            ended.result(timeout_s)
        return self._pool.stop(max(0.0, end_s - time.monotonic()))

    def _is_answering(self, workspace: Workspace) -> bool:
        return workspace.id not in self._silent

    def _note_slow_turn(self) -> None:
        """One that watches a large tree takes long, too, but then ever more is watched."""
        now_s, n_watches = time.monotonic(), self.watcher.n_watches
        if self._slow_turn is None or self._slow_turn[0] != n_watches:
            self._slow_turn = n_watches, now_s
        elif now_s - self._slow_turn[1] >= BLOCKED_SHARE * self._policy.takeover_s:
            self._slow_turn = None
            self._abandon_watcher()

    def _abandon_watcher(self) -> None:
        """Leave the blocked turn to itself: a new watcher goes on without the workspace that it was about."""
        turn = self._turn
        if turn is None or turn.key != self._key:
            return
        turn.is_abandoned = True
        if turn.workspace_id is not None:
            self._silent[turn.workspace_id] = turn.key
        self._n_events_before += turn.watcher.n_events
        is_blocked = turn.is_watching
        self._begin_watcher()
        # One that is blocked ends behind its blocked call.
        self._pool.call(turn.watcher.stop, turn.key if is_blocked else f"end of {turn.key}")
        self._is_doubted = False
        self.doubt("a disk does not answer")

    # --- on the watcher's thread ---

    def _check(self, turn: WatchTurn) -> Checked:
        # Before the work: a doubt that comes amid it may concern what has been checked already.
        self._is_doubted = False
        workspaces = [workspace for workspace in list(self._workspaces.values()) if self._is_answering(workspace)]
        return turn.check(workspaces, self._clock.now_s())

    def _rebuild(self, turn: WatchTurn) -> float | None:
        return turn.rebuild(self._clock.now_s())

    def _doubt_from_thread(self, reason: str) -> None:
        call_soon(self._loop, lambda: self.doubt(reason))

    # --- on the loop ---

    def doubt(self, reason: str) -> None:
        """Events were or will be lost: plan, check and look at everything. Doubts that come together are one."""
        log.warning(Event.EVENTS_LOST, reason=reason)
        self.n_doubts += 1
        if not self._is_doubted and self.is_on:
            self._is_doubted = True
            self._run(self._check, self._checked_after_doubt)

    def _checked_after_doubt(self, checked: Checked) -> None:
        if not checked.reasons:
            self._rounds.ring_all()
        self._checked(checked)

    def _checked(self, checked: Checked) -> None:
        if checked.reasons:
            log.warning(Event.WATCH_DEGRADED, reason="; ".join(checked.reasons))
            self._run(self._rebuild, self._rebuilt)
        self._followed(checked.grown)

    def _rebuilt(self, retry_from_s: float | None) -> None:
        if retry_from_s is not None:
            # Too soon after the last one: timed looks go on meanwhile, and one timer waits for the moment.
            if self._retry is None:
                self._retry = self._loop.call_later(max(0.0, retry_from_s - self._clock.now_s()), self._try_again)
            return
        log.info(Event.WATCH_REBUILT, watcher=self.watcher.observer_name)
        self.n_rebuilds += 1
        for workspace in list(self._workspaces.values()):
            self.follow(workspace)
        self._rounds.ring_all()
        self._say_health()

    def _try_again(self) -> None:
        self._retry = None
        self.supervise()
        self._rounds.ring_all()

    def _followed(self, grown: frozenset[str]) -> None:
        for workspace_id in grown & self._workspaces.keys():
            self._rounds.look(self._workspaces[workspace_id])
        self._say_health()

    def _say_health(self) -> None:
        for workspace in self._workspaces.values():
            health = self.health(workspace)
            workspace.set_fault(WATCH_FAULT, "; ".join(health.reasons))

    def _run(self, call: Callable[[WatchTurn], T], on_done: Callable[[T], None]) -> None:
        """Call on the watcher's thread, then `on_done` with the result on the loop; a failure is a degraded watcher."""
        turn = WatchTurn(self._key, self.watcher, self._links, is_first=self._is_first)
        self._is_first = False
        self._stalls.arm()

        def take() -> T | None:
            if turn.key != self._key:
                return None
            self._turn = turn
            return call(turn)

        def finish(done: Future[T | None]) -> None:
            call_soon(self._loop, lambda: self._finish(turn, done, on_done))

        self._pool.call(take, turn.key).add_done_callback(finish)

    def _finish(self, turn: WatchTurn, done: Future[Any], on_done: Callable[[Any], None]) -> None:
        self._stalls.relax()
        failure = done.exception()
        if isinstance(failure, ShuttingDown) or turn.key != self._key:
            return
        if failure is None:
            on_done(done.result())
            return
        log.error(Event.WATCH_DEGRADED, reason=type(failure).__name__, exc_info=failure)
        for workspace in self._workspaces.values():
            workspace.set_fault(WATCH_FAULT, "the watcher failed: changes are seen by timed scans only")


def _ignore(_result: object) -> None:
    pass


def _do_nothing() -> None:
    pass
