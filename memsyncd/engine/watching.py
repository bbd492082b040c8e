"""Keep the watched folders in step with the workspaces, and repair a watcher that loses events.

Calls of the watcher may take seconds, so they run as tasks, in order, on a thread of their own.
When events may be lost, a task plans all watches again and checks the watcher; the watcher is
rebuilt if needed, and everything is scanned. A disk that does not answer blocks that thread: then a
new watcher on another thread continues without the workspace that was being planned or watched,
until the blocked call returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from memsyncd.core.turns import StallPolicy
from memsyncd.engine.clock import Clock
from memsyncd.engine.job_completions import call_soon, call_when_awake
from memsyncd.engine.registry import ProjectCollection, is_project_event
from memsyncd.engine.scheduler import Scheduler
from memsyncd.engine.stalls import StallMonitor
from memsyncd.engine.worker import WorkerPool
from memsyncd.engine.workspace import WATCH_LIMIT, Workspace
from memsyncd.errors import ShuttingDown
from memsyncd.logs import Event, get_log
from memsyncd.watch.health import WatchHealth
from memsyncd.watch.watcher import NO_OBSERVER, Plan, Watcher

WATCH_FAULT = "watch"
# Not the key of a watcher, so that a probe does not wait for a blocked one.
PROBE_KEY = "probe"
# A slow task counts as blocked after this share of `takeover_s` without progress.
BLOCKED_SHARE = 0.8
BLOCKED_REASON = (
    "its disk did not answer when its folders were to be watched:"
    " changes are found by timed scans until it does; check the mount"
)
FAILED_REASON = "the watcher failed: changes are found by timed scans only; read the daemon's log"
# A check of so many folders takes no longer than a hand-over to another thread and back.
FEW_FOLDERS = 256
# Folders that appear while a plan is carried out are found by planning again. If they never cease
# to appear, the next check finds them.
PLAN_ATTEMPTS = 4

log = get_log("watch")

T = TypeVar("T")


# --- on the watcher's thread ---


class CheckResult(NamedTuple):
    """The reasons to rebuild the watcher, and the ids of workspaces with newly watched folders."""

    reasons: tuple[str, ...]
    newly_watched: frozenset[str]


Watched = Workspace | ProjectCollection


class WatchTask(msgspec.Struct, eq=False):
    """One call of the watcher on its thread: plan and watch folders, check or rebuild the watcher.

    `key` is the task's in the worker pool. `links` has the folders where the links of each
    workspace led when it was planned last, and `pruned` what its scan had left out then.
    `workspace_id` names the workspace whose folders the task reads now, if they belong to one
    alone. While `is_watching`, the watcher cannot be called by another thread. An abandoned task
    starts nothing more.
    """

    key: str
    watcher: Watcher
    links: dict[str, frozenset[str]]
    pruned: dict[str, frozenset[str]]
    is_first_of_watcher: bool
    workspace_id: str | None = None
    is_watching: bool = False
    is_abandoned: bool = False

    def find_accessed(self) -> frozenset[str]:
        """The ids of workspaces whose folders the task reads now; empty if unknown."""
        accessed = self.watcher.accessed_ids if self.is_watching else frozenset()
        planned = frozenset() if self.workspace_id is None else frozenset({self.workspace_id})
        return accessed or planned

    def drop(self, workspace_id: str) -> None:
        self.is_watching = True
        self.links.pop(workspace_id, None)
        self.pruned.pop(workspace_id, None)
        self.watcher.drop(workspace_id)

    def replan(self, workspaces: Iterable[Watched]) -> frozenset[str]:
        """Plan and watch the folders of these workspaces.

        Returns the ids of workspaces, these or others, with folders that are or may be newly
        watched.
        """
        planned = {workspace.id: workspace for workspace in workspaces}
        # A change in the folder of a link's new target may have come before it was watched.
        links = {key: workspace.link_folders for key, workspace in planned.items()}
        changed = frozenset(
            key for key in planned if links[key] != self.links.get(key, frozenset())
        )
        self.links |= links
        remaining = set(planned)
        for _ in range(PLAN_ATTEMPTS):
            plans = {key: self._plan(planned[key]) for key in remaining if not self.is_abandoned}
            newly_watched = self._set_plans(plans)
            changed |= newly_watched
            remaining = planned.keys() & newly_watched
            if not remaining:
                break
        return changed | self._walk_changed(planned)

    def _walk_changed(self, planned: dict[str, Watched]) -> frozenset[str]:
        """Walk the folders of workspaces that leave out other folders than when they were planned
        last, or that may be watched now because their permissions have changed.
        """
        now = {key: workspace.pruned or frozenset() for key, workspace in planned.items()}
        changed = {key for key in now if now[key] != self.pruned.get(key, frozenset())}
        for key in planned:
            self.workspace_id = key
            if not self.is_abandoned and self.watcher.may_watch_again(key):
                changed.add(key)
        self.workspace_id = None
        self.pruned |= now
        if not changed or self.is_abandoned:
            return frozenset()
        self.is_watching = True
        newly_watched = self.watcher.walk(changed)
        self.is_watching = False
        return newly_watched

    def check(self, workspaces: Iterable[Watched], now_s: float) -> CheckResult:
        newly_watched = self.replan(workspaces)
        if self.is_abandoned:
            return CheckResult((), newly_watched)
        self.workspace_id, self.is_watching = None, True
        newly_watched |= self.watcher.walk()
        return CheckResult(self.watcher.check(now_s), newly_watched)

    def rebuild(self, now_s: float) -> float | None:
        self.is_watching = True
        return self.watcher.rebuild(now_s)

    def _plan(self, workspace: Watched) -> Plan:
        self.workspace_id = workspace.id
        watches = workspace.plan_watches(_is_folder)
        return Plan(workspace.entry.root, watches, workspace.is_pruned)

    def _set_plans(self, plans: dict[str, Plan]) -> frozenset[str]:
        # All at once costs less. A new watcher takes them one by one: if a disk blocks it, the
        # workspace is known.
        is_first = self.is_first_of_watcher
        parts = [{key: plan} for key, plan in plans.items()] if is_first else [plans]
        newly_watched: frozenset[str] = frozenset()
        for part in parts:
            if self.is_abandoned:
                break
            self.workspace_id = next(iter(part)) if is_first else None
            self.is_watching = True
            newly_watched |= self.watcher.set_plans(part)
            self.is_watching = False
        return newly_watched


# --- on the event loop ---


class Watching:
    """Keeps a Watcher in step with the workspaces. Use it on the loop that `scheduler` runs on."""

    def __init__(
        self, scheduler: Scheduler, clock: Clock, stalls: StallMonitor, policy: StallPolicy
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        self._clock = clock
        self._stalls = stalls
        self._policy = policy
        self._pool = WorkerPool("memsyncd-watch", policy=policy, on_returned=stalls.note_returned)
        stalls.add_pool(self._pool)
        # Not the same pool: events wait for no call of the watcher, and a probe for no event.
        self._event_pool = WorkerPool(
            "memsyncd-folders", policy=policy, on_returned=stalls.note_returned
        )
        stalls.add_pool(self._event_pool)
        self._watched: dict[str, Watched] = {}
        # For the watcher's thread: where the links of each workspace led when it was planned last.
        self._links: dict[str, frozenset[str]] = {}
        self._pruned: dict[str, frozenset[str]] = {}
        # Workspaces whose disk blocks a task, with the key of that task.
        self._blocked: dict[str, str] = {}
        self._is_check_queued = False
        self._retry: asyncio.TimerHandle | None = None
        # The reasons that were logged for a watcher that does not work; empty once it does.
        self._reported: tuple[str, ...] = ()
        self.n_losses = self.n_rebuilds = self._n_events_before = 0
        self._numbers = itertools.count(1)
        self._task: WatchTask | None = None
        # The progress of a slow task when it was checked, and since when there is no more.
        self._slow_task: tuple[tuple[frozenset[str], int], float] | None = None
        self._start_watcher()
        scheduler.defer = self._defer

    def _start_watcher(self) -> None:
        self._key = f"watcher {next(self._numbers)}"
        self._is_first = True
        self.watcher = Watcher(
            self._on_event,
            self._report_from_thread,
            self._run_later,
            find_max_folders=lambda: self._scheduler.config.sync.max_watched_folders,
        )

    @property
    def is_on(self) -> bool:
        return self._scheduler.config.sync.enabled and self._scheduler.config.sync.sync_on_change

    def add(self, workspace: Watched) -> None:
        """Watch the folders of a workspace, and have its first scan wait for that."""
        self._watched[workspace.id] = workspace
        if isinstance(workspace, Workspace) and self.is_on:
            self._scheduler.await_watches(workspace)
            self._run(lambda task: task.replan((workspace,)), partial(self._added, workspace))
        else:
            self.replan(workspace)

    def forget(self, workspace: Watched) -> None:
        self._watched.pop(workspace.id, None)
        self._blocked.pop(workspace.id, None)
        self._run(lambda task: task.drop(workspace.id), lambda _: None)

    def replan(self, workspace: Watched) -> None:
        """Plan the watches of this workspace again; scan it if a folder is newly watched."""
        is_known = self._watched.get(workspace.id) is workspace
        if is_known and self.is_on and not self._is_blocked(workspace):
            self._run(lambda task: task.replan((workspace,)), self._scan_newly_watched)

    def supervise(self) -> None:
        """Plan all watches again, and check that the watcher works; repair it if it does not."""
        if self.is_on:
            self._run(self._check, self._checked)

    def prepare_check(self) -> Callable[[], object]:
        """The same as a call for another thread, which checks a few folders itself, and does not
        wake the loop if all is well.
        """
        if not self.is_on:
            return lambda: None
        task = self._make_task()

        def check() -> None:
            is_small = task.watcher.n_watches <= FEW_FOLDERS
            submit = self._pool.call_here if is_small else self._pool.call
            self._submit(task, self._check, self._checked, submit, self._is_uneventful)

        return check

    def report_events_lost(self, reason: str) -> None:
        """Events were or will be lost: plan, check and scan everything.

        Reports that come before the check begins lead to one check.
        """
        log.warning(Event.EVENTS_LOST, reason=reason)
        self.n_losses += 1
        if not self._is_check_queued and self.is_on:
            self._is_check_queued = True
            self._run(self._check, self._checked_after_loss)

    def note_reconciled(self, workspace: Workspace, missed: Collection[str]) -> None:
        """A timed scan has ended and found changes without an event at the paths `missed`.

        The third scan in a row that does so in one folder has the watcher rebuilt.
        """
        if workspace.has_unwatched_folders:
            return  # they have no events
        if self.is_on and self.watcher.note_scan(workspace.id, missed):
            self._run(self._rebuild, self._rebuilt)

    def note_slow(self) -> None:
        """A step of some pool takes long, or has returned.

        Replaces a watcher that a disk blocks, and watches the workspaces again whose disk answers.
        """
        self._scheduler.scan_unwatched()
        running = self._pool.running_steps()
        for workspace_id, key in list(self._blocked.items()):
            if key not in running:
                del self._blocked[workspace_id]
                if (workspace := self._watched.get(workspace_id)) is not None:
                    self.replan(workspace)
        if self._key in running and running[self._key].is_detached:
            self._note_slow_task()
        else:
            self._slow_task = None

    def health(self, workspace: Workspace) -> WatchHealth:
        if not self.is_on:
            return WatchHealth(mode="off", observer="none")
        if self._is_blocked(workspace):
            name = self.watcher.observer_name
            return WatchHealth(mode="timed", observer=name, reasons=(BLOCKED_REASON,))
        return self.watcher.health(workspace.id)

    def find_unhandled(self) -> Future[None] | None:
        """A future that is done once the events are handled that have occurred by now; None if
        there are none.
        """
        handled: Future[None] = Future()
        is_waiting = self.watcher.call_when_handled(partial(handled.set_result, None))
        return handled if is_waiting else None

    @property
    def n_events(self) -> int:
        """The events that concerned a workspace."""
        return self._n_events_before + self.watcher.n_events

    def probe(self) -> Future[None]:
        """A future that is done as soon as the watcher's pool makes progress.

        It fails with ShuttingDown once stopped.
        """
        return self._pool.call(lambda: None, PROBE_KEY)

    def stop(self, timeout_s: float) -> bool:
        """End the watcher's threads. False if one is blocked and left behind."""
        if self._retry is not None:
            self._retry.cancel()
        end_s = time.monotonic() + timeout_s
        stopped = self._pool.call(self.watcher.stop, self._key)
        with contextlib.suppress(TimeoutError, ShuttingDown):
            stopped.result(timeout_s)
        has_ended = self._event_pool.stop(max(0.0, end_s - time.monotonic()))
        return self._pool.stop(max(0.0, end_s - time.monotonic())) and has_ended

    def _list_workspaces(self) -> list[Workspace]:
        return [
            watched for watched in list(self._watched.values()) if isinstance(watched, Workspace)
        ]

    def _on_event(self, workspace_id: str, path: str, is_finished: bool, is_folder: bool) -> None:
        """Handle a file event; from any thread."""
        watched = self._watched.get(workspace_id)
        if not isinstance(watched, ProjectCollection):
            self._scheduler.on_event(workspace_id, path, is_finished, is_folder)
        elif is_project_event(path):
            call_soon(self._loop, watched.on_changed)

    def _defer(self, call: Callable[[], None]) -> None:
        self.watcher.defer(call)

    # --- blocked disks ---

    def _is_blocked(self, workspace: Watched) -> bool:
        return workspace.id in self._blocked

    def _note_slow_task(self) -> None:
        """Abandon the watcher if its task does not make progress.

        A task that walks a large tree takes long as well, but enters ever more folders.
        """
        now_s, progress = time.monotonic(), (self.watcher.accessed_ids, self.watcher.progress)
        if self._slow_task is None or self._slow_task[0] != progress:
            self._slow_task = progress, now_s
        elif now_s - self._slow_task[1] >= BLOCKED_SHARE * self._policy.takeover_s:
            self._slow_task = None
            self._abandon_watcher()

    def _abandon_watcher(self) -> None:
        """Abandon the blocked task and its watcher.

        A new watcher continues without the workspaces that block the task.
        """
        task = self._task
        if task is None or task.key != self._key:
            return
        task.is_abandoned = True
        self._blocked |= dict.fromkeys(task.find_accessed(), task.key)
        self._n_events_before += task.watcher.n_events
        is_watching = task.is_watching
        self._start_watcher()
        # A watcher that is blocked itself can be stopped only after its blocked call.
        stopped = self._pool.call(
            task.watcher.stop, task.key if is_watching else f"end of {task.key}"
        )
        # Its step may count as a short one, and nothing else may look then if the disk answers.
        stopped.add_done_callback(lambda _: self._stalls.note_returned(task.key))
        self._is_check_queued = False
        self.report_events_lost("a disk does not answer")

    # --- calls on the watcher's thread ---

    def _check(self, task: WatchTask) -> CheckResult:
        # Before the work: a loss that is reported meanwhile may concern folders already checked.
        self._is_check_queued = False
        answering = [
            watched for watched in list(self._watched.values()) if not self._is_blocked(watched)
        ]
        return task.check(answering, self._clock.now_s())

    def _rebuild(self, task: WatchTask) -> float | None:
        return task.rebuild(self._clock.now_s())

    def _run_later(self, call: Callable[[], None], key: str) -> None:
        """Make a call that follows an event, on a thread that a hung disk may block."""
        self._event_pool.call(call, key)

    def _report_from_thread(self, reason: str) -> None:
        call_soon(self._loop, lambda: self.report_events_lost(reason))

    # --- their results, on the loop ---

    def _checked_after_loss(self, result: CheckResult) -> None:
        if not result.reasons:
            self._scheduler.scan_all()
        self._checked(result)

    def _is_uneventful(self, result: CheckResult) -> bool:
        """True if a check has found nothing that is not reported; on any thread."""
        if result.reasons or result.newly_watched or self._reported:
            return False
        return all(map(self._is_health_reported, self._list_workspaces()))

    def _checked(self, result: CheckResult) -> None:
        if result.reasons and result.reasons != self._reported:
            log.warning(Event.WATCH_DEGRADED, reason="; ".join(result.reasons))
        self._reported = result.reasons
        if result.reasons:
            self._run(self._rebuild, self._rebuilt)
        self._scan_newly_watched(result.newly_watched)

    def _rebuilt(self, retry_from_s: float | None) -> None:
        if retry_from_s is not None:
            # Too soon after the last rebuild: timed scans continue, and one timer waits.
            if self._retry is None:
                delay_s = max(0.0, retry_from_s - self._clock.now_s())
                self._retry = self._loop.call_later(delay_s, self._try_again)
            return
        if self.watcher.observer_name != NO_OBSERVER:
            log.info(Event.WATCH_REBUILT, watcher=self.watcher.observer_name)
        self.n_rebuilds += 1
        for workspace in list(self._watched.values()):
            self.replan(workspace)
        self._scheduler.scan_all()
        self._report_health()

    def _try_again(self) -> None:
        self._retry = None
        self.supervise()
        self._scheduler.scan_all()

    def _added(self, workspace: Workspace, newly_watched: frozenset[str]) -> None:
        if self._watched.get(workspace.id) is workspace:
            self._scheduler.note_watched(workspace, is_new=workspace.id in newly_watched)
        self._scan_newly_watched(newly_watched - {workspace.id})

    def _scan_newly_watched(self, newly_watched: frozenset[str]) -> None:
        for watched in [self._watched[key] for key in newly_watched & self._watched.keys()]:
            if isinstance(watched, ProjectCollection):
                watched.on_changed()
            else:
                self._scheduler.scan(watched)
        self._report_health()

    def _report_health(self) -> None:
        for workspace in self._list_workspaces():
            health = self.health(workspace)
            workspace.set_fault(WATCH_FAULT, "; ".join(health.faults))
            workspace.set_notice(WATCH_LIMIT, health.limit)

    def _is_health_reported(self, workspace: Workspace) -> bool:
        health, condition = self.health(workspace), workspace.condition
        reported = condition.faults.get(WATCH_FAULT, ""), condition.notices.get(WATCH_LIMIT, "")
        return reported == ("; ".join(health.faults), health.limit)

    def _run(self, call: Callable[[WatchTask], T], on_done: Callable[[T], None]) -> None:
        """Call on the watcher's thread, then `on_done` with the result on the loop.

        A failure is reported as a fault of every workspace.
        """
        self._submit(self._make_task(), call, on_done, self._pool.call)

    def _make_task(self) -> WatchTask:
        is_first, self._is_first = self._is_first, False
        return WatchTask(
            self._key, self.watcher, self._links, self._pruned, is_first_of_watcher=is_first
        )

    def _submit(
        self,
        task: WatchTask,
        call: Callable[[WatchTask], T],
        on_done: Callable[[T], None],
        submit: Callable[[Callable[[], T | None], str], Future[T | None]],
        can_wait: Callable[[T], bool] = lambda _result: False,
    ) -> None:
        """From any thread; `on_done` is called on the loop, which a result that `can_wait` does not
        wake.
        """

        def run() -> T | None:
            if task.key != self._key:
                return None
            self._task = task
            return call(task)

        def finish(done: Future[T | None]) -> None:
            result = None if done.exception() else done.result()
            deliver = call_when_awake if result is not None and can_wait(result) else call_soon
            deliver(self._loop, lambda: self._finish(task, done, on_done))

        submit(run, task.key).add_done_callback(finish)

    def _finish(self, task: WatchTask, done: Future[Any], on_done: Callable[[Any], None]) -> None:
        failure = done.exception()
        if isinstance(failure, ShuttingDown) or task.key != self._key:
            return
        if failure is None:
            on_done(done.result())
            return
        log.error(Event.WATCH_DEGRADED, reason=type(failure).__name__, exc_info=failure)
        self._scheduler.scan_unwatched()
        for workspace in self._list_workspaces():
            workspace.set_fault(WATCH_FAULT, FAILED_REASON)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
