"""When is each workspace looked at, and what follows from what was seen?

Doorbells say which paths are dirty and when to look, a sync what is so. Besides there is a full look at the start, at every
doubt about the watcher, when somebody asks, and every `reconcile_s`. All of this runs on the event loop; the work itself on the
lane. Nothing wakes up but the reconcile and what an event or a request has set going.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import Any

from memsyncd.core.changes.debounce import DebouncePolicy, Settled
from memsyncd.core.changes.watchplan import is_relevant
from memsyncd.engine.doorbells import ROOT, Doorbells
from memsyncd.engine.gathering import Gathering, call_soon
from memsyncd.engine.healing import UNFINISHED, Healing
from memsyncd.engine.indexing import Opened, build_index, open_workspace, rebuild_index, tidy_workspace
from memsyncd.engine.lane import Lane
from memsyncd.engine.outside import follow_disk
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.reminders import Reminders
from memsyncd.engine.stalls import StallMonitor
from memsyncd.engine.sync import SyncDone, SyncRequest
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import MemsyncdError, ShuttingDown, StoreCorrupt, StoreFailed
from memsyncd.logs import Event, get_log

TIDY_AFTER_S = 5.0
"""Quiet time after which deleted text leaves the index's files."""
GRACE_SLACK_S = 0.02

log = get_log("engine")


class Rounds:
    """Looks after workspaces on the running loop. `on_synced(workspace, done)` is called on the loop after every sync."""

    def __init__(
        self,
        *,
        lane: Lane,
        policy: SyncPolicy,
        clock: Clock,
        on_synced: Callable[[Workspace, SyncDone], None],
        on_folders: Callable[[Workspace], None],
        on_reconciled: Callable[[Workspace, Collection[str]], None],
        stalls: StallMonitor,
    ) -> None:
        """`on_folders(workspace)` is called when folders may have come or gone, so that other ones should be watched.

        `on_reconciled(workspace, missed)` has the paths of changes that a timed scan found and no event had announced.
        """
        self._loop = asyncio.get_running_loop()
        self._lane = lane
        self._stalls = stalls
        self.policy = policy
        self._clock = clock
        self._on_synced = on_synced
        self._on_folders = on_folders
        self._on_reconciled = on_reconciled
        self.on_building: Callable[[], None] = lambda: None
        """Called on the loop whenever an index begins to be made anew."""
        self._workspaces: dict[str, Workspace] = {}
        self._doorbells = Doorbells(DebouncePolicy(policy.quiet_s, policy.max_wait_s), clock, self._settled)
        self._reminders = Reminders()
        self._healing = Healing(clock, self._build)
        self._looks: dict[str, Future[SyncDone]] = {}
        self._timed: dict[str, Future[Any]] = {}
        self._missing_roots: set[str] = set()

    # --- what comes and goes ---

    def add(self, workspace: Workspace) -> None:
        """Open a workspace's databases and, if syncing is on, look at everything."""
        self._workspaces[workspace.id] = workspace
        workspace.opening = self._submit(workspace, partial(open_workspace, workspace, self.policy, self._clock), self._opened)

    def forget(self, workspace: Workspace) -> None:
        """Look at it no more; what runs for it ends by itself."""
        self._workspaces.pop(workspace.id, None)
        self._doorbells.forget(workspace.id)
        self._looks.pop(workspace.id, None)
        self._timed.pop(workspace.id, None)
        self._missing_roots.discard(workspace.id)
        self._reminders.forget(workspace.id)
        self._healing.forget(workspace)

    def set_policy(self, policy: SyncPolicy) -> None:
        """Go on by another policy; what is pending is looked at in full."""
        self.policy = policy
        self._doorbells.set_policy(DebouncePolicy(policy.quiet_s, policy.max_wait_s))
        self.ring_all()

    def hear(self, workspace_id: str, path: str, is_finished: bool, is_folder: bool) -> None:
        """An event, on any thread."""
        workspace = self._workspaces.get(workspace_id)
        if workspace is None or not (self.policy.is_enabled and self.policy.is_on_change):
            return
        if is_relevant(path, is_folder=is_folder, includes=workspace.includes, excludes=workspace.scope.exclude):
            workspace.note_unscanned(path, self._clock.now_s())
            self._doorbells.ring(workspace_id, path, is_finished=is_finished, is_folder=is_folder)

    def ring_all(self) -> None:
        """Look at everything, now; on the loop."""
        if self.policy.is_enabled:
            for workspace in self._workspaces.values():
                workspace.note_unscanned(ROOT, self._clock.now_s())
            self._doorbells.ring_all(self._workspaces)

    def _settled(self, settled: Settled[str]) -> None:
        workspace = self._workspaces.get(settled.key)
        if workspace is None:
            return
        if workspace.condition.state == "stalled":
            return  # everything is looked at once the disk answers again; until then jobs would only pile up
        if settled.is_wide:
            self._on_folders(workspace)
        self._sync(workspace, only=None if settled.is_wide else settled.paths)

    # --- looks that somebody asks for ---

    def look(self, workspace: Workspace) -> Future[SyncDone]:
        """Look at everything on disk at this moment or later; those who ask while one waits to begin share it."""
        waiting = self._looks.get(workspace.id)
        if waiting is not None and not waiting.running() and not waiting.done():
            return waiting
        future = self._sync(workspace, only=None, is_urgent=True)
        self._looks[workspace.id] = future
        return future

    def sync(self, workspace: Workspace, *, is_full: bool = False) -> Future[SyncDone]:
        """As `look`, without the grace: what is not there now goes. With `is_full` every note is read again."""
        return self._sync(workspace, only=None, is_urgent=True, is_full=is_full, grace_s=0.0)

    def rebuild(self, workspace: Workspace) -> Future[SyncDone]:
        """Make the index anew beside the old one."""
        return self._begin_build(workspace, rebuild_index)

    def _build(self, workspace: Workspace) -> Future[SyncDone]:
        """The same, unless none is open and a sync makes one before this has its turn."""
        return self._begin_build(workspace, build_index if workspace.index is None else rebuild_index)

    def _begin_build(self, workspace: Workspace, build: Callable[..., Any]) -> Future[SyncDone]:
        workspace.change(is_indexing=True)  # until it has ended, however it ends
        built = self._submit(workspace, partial(build, workspace, self.policy, self._clock), self._rebuilt)
        self.on_building()
        return built

    def report_damage(self, failure: StoreFailed) -> None:
        """A query failed in the store: heal damage as if a sync had met it, else look whether the file is still there."""
        workspace = self._workspaces.get(str(failure.data.get("workspace")))
        if workspace is not None and workspace.open_failure is not None:
            self._try_to_open(workspace)
        elif workspace is not None:
            self._failed(workspace, failure, self._clock.now_s()) if isinstance(failure, StoreCorrupt) else self.look(workspace)

    def glance(self, workspace: Workspace) -> None:
        """Somebody asks about this workspace: look at once if the index's file is not where it was. Costs microseconds."""
        if workspace.open_failure is not None:
            self._try_to_open(workspace)
        elif self.policy.is_enabled and workspace.index is not None and not workspace.index.is_in_place():
            self.look(workspace)

    def _try_to_open(self, workspace: Workspace) -> None:
        """Somebody asks for an index that could not be opened."""
        if workspace.may_be_opened(self._clock.now_s()):
            steps = partial(open_workspace, workspace, self.policy, self._clock)
            workspace.opening = self._submit(workspace, steps, self._opened, is_urgent=True)

    def take_over(self, workspace: Workspace, outcome: SyncDone | MemsyncdError) -> None:
        """Somebody else's job has synced some paths, or could not: what follows from it follows."""
        if self._workspaces.get(workspace.id) is not workspace:
            return
        if isinstance(outcome, SyncDone):
            self._synced(SyncRequest(only=frozenset()), workspace, outcome)
        else:
            self._failed(workspace, outcome, self._clock.now_s())

    def reconcile(self, then: Callable[[], None]) -> None:
        """Look at every workspace in full, and call `then`; what an event should have told and did not is counted."""
        # One that is still to come is enough, however long the lane is held up.
        workspaces = self._workspaces.values() if self.policy.is_enabled else ()
        due = [one for one in workspaces if one.id not in self._timed or self._timed[one.id].done()]
        gathering = Gathering(len(due), then)
        with self._lane.together():
            self._timed |= {one.id: self._look_by_the_clock(one, gathering) for one in due}

    def _look_by_the_clock(self, workspace: Workspace, gathering: Gathering) -> Future[Any]:
        if workspace.index is None:
            steps = partial(open_workspace, workspace, self.policy, self._clock)
            return self._submit(workspace, steps, self._opened, gathering=gathering)
        self._healing.go_on(workspace)
        return self._sync(workspace, only=None, gathering=gathering)

    def _sync(
        self,
        workspace: Workspace,
        *,
        only: frozenset[str] | None,
        is_urgent: bool = False,
        is_full: bool = False,
        grace_s: float | None = None,
        gathering: Gathering | None = None,
    ) -> Future[SyncDone]:
        if workspace.condition.faults.keys() & UNFINISHED:
            only = None  # what failed has left more undone than these paths
        grace_s = self.policy.delete_grace_s if grace_s is None else grace_s
        request = SyncRequest(only=only, is_full=is_full, grace_s=grace_s)
        steps = partial(follow_disk, workspace, self.policy, self._clock, request)
        done = partial(self._synced, request, is_timed=gathering is not None)
        return self._submit(workspace, steps, done, is_urgent=is_urgent or only is not None, gathering=gathering)

    def _submit(
        self,
        workspace: Workspace,
        steps: Callable[[], Any],
        on_done: Callable[[Workspace, Any], None],
        *,
        is_urgent: bool = False,
        gathering: Gathering | None = None,
    ) -> Future[Any]:
        self._stalls.arm()
        future = self._lane.submit(workspace.id, steps, is_urgent=is_urgent)
        tell = partial(self._ended, workspace, on_done, future)
        hand_over = partial(call_soon, self._loop) if gathering is None else partial(gathering.take, future)
        future.add_done_callback(lambda _: hand_over(partial(tell, self._clock.now_s())))
        return future

    # --- what follows ---

    def _ended(self, workspace: Workspace, on_done: Callable[[Workspace, Any], None], future: Future[Any], at_s: float) -> None:
        self._stalls.relax()
        if future.cancelled() or self._workspaces.get(workspace.id) is not workspace:
            return
        failure = future.exception()
        if failure is None:
            on_done(workspace, future.result())
        elif not isinstance(failure, ShuttingDown):
            self._failed(workspace, failure, at_s)

    def _opened(self, workspace: Workspace, opened: Opened) -> None:
        if opened.rebuild_reason and workspace.index is None:
            self._healing.replace(workspace, opened.rebuild_reason)
            return
        # What was deleted just before the last stop may still stand in the files.
        self.tidy_later(workspace)
        if self.policy.is_enabled:
            self._sync(workspace, only=None)
        else:
            workspace.change(is_indexing=False)

    def _synced(self, request: SyncRequest, workspace: Workspace, done: SyncDone, *, is_timed: bool = False) -> None:
        workspace.note_scanned(None if request.only is None else request.only.union(done.paths), done.began_s)
        if request.only is None:
            self._healing.has_succeeded(workspace, done.began_s)
        workspace.change(is_indexing=False)
        self._say_root(workspace)
        if done.index_trouble:
            self._healing.replace(workspace, done.index_trouble)
        if done.has_new_folders:
            self._on_folders(workspace)
        self._look_again(workspace, done)
        if done.paths:
            self.tidy_later(workspace)
        if is_timed:
            self._doorbells.find_unannounced(workspace.id, done.discovered, partial(self._count_missed, workspace))
        if request.only is None:
            self._doorbells.forget_rung(workspace.id, done.began_s)
        self._on_synced(workspace, done)

    def _rebuilt(self, workspace: Workspace, done: SyncDone) -> None:
        log.info(Event.INDEX_REBUILT, workspace=workspace.id, generation=done.generation, duration_ms=round(done.duration_ms))
        self._synced(SyncRequest(), workspace, done)
        # What was saved while the new file was filled may be in neither.
        self._sync(workspace, only=None)

    def _count_missed(self, workspace: Workspace, unannounced: list[str]) -> None:
        if unannounced and self.policy.is_on_change:
            workspace.change(n_missed_events=workspace.condition.n_missed_events + len(unannounced))
            log.warning(Event.MISSED_EVENTS, workspace=workspace.id, count=len(unannounced))
        if self._workspaces.get(workspace.id) is workspace:
            self._on_reconciled(workspace, unannounced)

    def _say_root(self, workspace: Workspace) -> None:
        """Log once that the folder is gone, and once that it is back."""
        is_missing = workspace.condition.root_state != "present"
        if is_missing != (workspace.id in self._missing_roots):
            self._missing_roots ^= {workspace.id}
            event = Event.WORKSPACE_MISSING if is_missing else Event.WORKSPACE_BACK
            log.warning(event, workspace=workspace.id, root=workspace.entry.root)

    def _look_again(self, workspace: Workspace, done: SyncDone) -> None:
        """Notes within their grace, or still growing, are looked at once more by themselves."""
        if done.waiting:
            # Until its end, not its length: looks at other notes must not put off this one.
            look = partial(self._sync, workspace, only=frozenset(done.waiting))
            self._reminders.set(workspace.id, "grace", done.waiting_s + GRACE_SLACK_S, look)
        if done.growing:
            # At everything, for the reminder replaces one about other notes.
            look = partial(self._sync, workspace, only=None)
            self._reminders.set(workspace.id, "growing", max(self.policy.max_wait_s, GRACE_SLACK_S), look)

    def tidy_later(self, workspace: Workspace) -> None:
        """Have the databases tidied after quiet time; on the loop."""
        if self._workspaces.get(workspace.id) is workspace:
            self._reminders.set(workspace.id, "tidy", TIDY_AFTER_S, partial(self._tidy, workspace))

    def _tidy(self, workspace: Workspace) -> None:
        again = self.tidy_later
        self._submit(workspace, partial(tidy_workspace, workspace), lambda w, is_tidy: None if is_tidy else again(w))

    def _failed(self, workspace: Workspace, failure: BaseException, at_s: float) -> None:
        workspace.change(is_indexing=False, n_failed_syncs=workspace.condition.n_failed_syncs + 1)
        self._healing.take(workspace, failure, at_s)
