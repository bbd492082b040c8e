"""How do the folders that are watched follow the workspaces, and what heals a watcher that has gone deaf?

Everything that the watcher does may take seconds, so it happens on one thread of its own, in order. After a doubt the watches are
planned anew, checked, rebuilt if need be, and everything is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

from memsyncd.core.changes.watchplan import plan_watches
from memsyncd.engine.policies import Clock
from memsyncd.engine.rounds import Rounds
from memsyncd.engine.workspaces import Workspace
from memsyncd.logs import Event, get_log
from memsyncd.watch.health import WatchHealth
from memsyncd.watch.supervisor import Plan, Watcher

PLAN_ATTEMPTS = 4
"""Folders that come while a plan is carried out are found by planning again; those that come for ever, by the next doubt."""
WATCH_FAULT = "watch"

log = get_log("watch")

T = TypeVar("T")


class _Checked(NamedTuple):
    """Why the watcher should be rebuilt, and the ids of workspaces of which more is watched now than before."""

    reasons: tuple[str, ...]
    grown: frozenset[str]


class Watching:
    """Keeps a Watcher in step with the workspaces. To be used on the loop that `rounds` runs on."""

    def __init__(self, rounds: Rounds, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._rounds = rounds
        self._clock = clock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memsyncd-watch")
        self._workspaces: dict[str, Workspace] = {}
        self._links: dict[str, frozenset[str]] = {}
        """Where each workspace's links led when it was planned last; for the watcher's thread."""
        self._is_doubted = False
        self._retry: asyncio.TimerHandle | None = None
        self.n_doubts = self.n_rebuilds = 0
        self.watcher = Watcher(rounds.hear, self._doubt_from_thread)

    @property
    def is_on(self) -> bool:
        return self._rounds.policy.is_enabled and self._rounds.policy.is_on_change

    def add(self, workspace: Workspace) -> None:
        self._workspaces[workspace.id] = workspace
        self.follow(workspace)

    def forget(self, workspace: Workspace) -> None:
        self._workspaces.pop(workspace.id, None)
        self._run(partial(self._drop, workspace.id), _ignore)

    def follow(self, workspace: Workspace) -> None:
        """Plan this workspace's watches anew; if more is watched than before, look at everything."""
        if self._workspaces.get(workspace.id) is workspace and self.is_on:
            self._run(partial(self._follow, (workspace,)), self._followed)

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
        return self.watcher.health(workspace.id)

    def take_turn(self) -> Future[None]:
        """Have the watcher's thread do nothing once: done as soon as it makes progress. Raises RuntimeError once stopped."""
        return self._thread.submit(_do_nothing)

    def stop(self) -> None:
        """End the watcher's threads, waiting a few seconds at most."""
        if self._retry is not None:
            self._retry.cancel()
        self._thread.submit(self.watcher.stop)
        self._thread.shutdown(wait=True, cancel_futures=False)

    # --- on the watcher's thread ---

    def _drop(self, workspace_id: str) -> None:
        self._links.pop(workspace_id, None)
        self.watcher.drop(workspace_id)

    def _follow(self, workspaces: Iterable[Workspace]) -> frozenset[str]:
        """Returns the ids of workspaces, these or others, of which more is watched now, or may be."""
        planned = {workspace.id: workspace for workspace in workspaces}
        # Where links newly lead, something may have come or gone before anybody listened.
        links = {one: workspace.link_folders for one, workspace in planned.items()}
        grown = frozenset(one for one in planned if links[one] != self._links.get(one, frozenset()))
        self._links |= links
        again = set(planned)
        for _ in range(PLAN_ATTEMPTS):
            more = self.watcher.set_plans({one: _plan(planned[one]) for one in again})
            grown |= more
            again = planned.keys() & more
            if not again:
                break
        return grown

    def _check(self) -> _Checked:
        # Before the work: a doubt that comes amid it may concern what has been checked already.
        self._is_doubted = False
        grown = self._follow(list(self._workspaces.values())) | self.watcher.walk()
        return _Checked(self.watcher.check(self._clock.now_s()), grown)

    def _rebuild(self) -> float | None:
        return self.watcher.rebuild(self._clock.now_s())

    def _doubt_from_thread(self, reason: str) -> None:
        try:
            self._loop.call_soon_threadsafe(self.doubt, reason)
        except RuntimeError:
            return  # the loop has ended

    # --- on the loop ---

    def doubt(self, reason: str) -> None:
        """Events were or will be lost: plan, check and look at everything. Doubts that come together are one."""
        log.warning(Event.WATCH_DOUBT, reason=reason)
        self.n_doubts += 1
        if not self._is_doubted and self.is_on:
            self._is_doubted = True
            self._run(self._check, self._checked_after_doubt)

    def _checked_after_doubt(self, checked: _Checked) -> None:
        if not checked.reasons:
            self._rounds.ring_all()
        self._checked(checked)

    def _checked(self, checked: _Checked) -> None:
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

    def _run(self, call: Callable[[], T], on_done: Callable[[T], None]) -> None:
        """Call on the watcher's thread, then `on_done` with the result on the loop; a failure is a degraded watcher."""

        def finish(done: Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._finish, done, on_done)

        with contextlib.suppress(RuntimeError):  # stopped: nothing is watched any more
            self._thread.submit(call).add_done_callback(finish)

    def _finish(self, done: Future[T], on_done: Callable[[T], None]) -> None:
        failure = done.exception()
        if failure is None:
            on_done(done.result())
            return
        log.error(Event.WATCH_DEGRADED, reason=type(failure).__name__, exc_info=failure)
        for workspace in self._workspaces.values():
            workspace.set_fault(WATCH_FAULT, "the watcher failed: changes are seen by timed scans only")


def _plan(workspace: Workspace) -> Plan:
    watches = plan_watches(workspace.entry.root, workspace.includes, is_folder=_is_folder, link_folders=workspace.link_folders)
    return Plan(workspace.entry.root, watches)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _ignore(_result: object) -> None:
    pass


def _do_nothing() -> None:
    pass
