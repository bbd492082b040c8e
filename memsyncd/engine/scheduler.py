"""Decide when each workspace is scanned and which job follows from a result.

The event buffer says which paths changed and when to scan them. A full scan also runs at the start,
when the watcher may have lost events, on request, and every `reconcile_s`. A change that a client
asks for, and a query about the past, is a job that goes before waiting jobs of its workspace; its
result is handled like a sync's. After each sync the history records the changes of other programs.

Events come on the watcher's threads and go from there to the worker, which does the work; the rest
runs on the event loop. Only the reconcile wakes the process up by itself, besides what an event or
a request has started.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import msgspec

from memsyncd.config import Config
from memsyncd.core.changes.debounce import (
    ROOT,
    AnnouncedPaths,
    DebouncePolicy,
    Debouncer,
    Settled,
    is_walk_cheaper,
)
from memsyncd.core.changes.watchplan import is_ignore_file, is_relevant
from memsyncd.engine.checks import Database, IdleChecks
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import EditOutcome
from memsyncd.engine.external_changes import (
    PRUNE_AFTER,
    has_changes_to_record,
    prune_slice,
    record_changes,
    record_slice,
    sync_and_record,
    sync_notes,
)
from memsyncd.engine.index_process import BULK_BYTES
from memsyncd.engine.index_worker import Filled
from memsyncd.engine.job_completions import Timers, call_soon, call_when_awake
from memsyncd.engine.rebuild import (
    INCOMPLETE,
    RebuildPolicy,
    build_index,
    fill_new_index,
    open_workspace,
    rebuild_index,
    tidy_workspace,
)
from memsyncd.engine.records import release_damaged_records
from memsyncd.engine.sync import SyncDone, SyncRequest
from memsyncd.engine.worker import Job, Pause, WorkerPool
from memsyncd.engine.workspace import Condition, Workspace
from memsyncd.errors import ShuttingDown, StoreCorrupt, StoreFailed
from memsyncd.logs import Event, get_log

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
        """The announced paths of each workspace since its last full scan."""
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

        Keeps the events of the last 2 * LATE_S for a delayed `find_unannounced`.
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
        for key in settled:
            self._on_settled(key)
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
        """Set the timer. It is not moved when a deadline is put off: it asks again when it ends."""
        if self._timer is not None:
            self._timer.cancel()
        if self._due_s is not None:
            delay_s = max(0.0, self._due_s - self._clock.now_s())
            self._timer = self._loop.call_later(delay_s, self._time_out)

    def _time_out(self) -> None:
        self._timer = self._due_s = None
        self._report_settled(self._clock.now_s())


# So long after a change the databases are tidied. A later change does not put it off, because
# queries are slower the more there is to merge.
TIDY_AFTER_S = 5.0
GRACE_SLACK_S = 0.02
# Turns of the event loop from the end of a save's sync until requests that waited for it have gone
# on, have ended, and their answers are sent.
ANSWER_TURNS = 5
FILLING = "rebuild"
# A scan of so many notes leaves megabytes of freed memory, and takes longer than to wake the loop.
LARGE_SCAN_NOTES = 1000
# The first scan of a workspace waits for these.
OPENED, WATCHED = "opened", "watched"
# The key of a job that checks the watches; no workspace has it.
CHECK = "check"

log = get_log("engine")

T = TypeVar("T")

# Makes a job for a workspace, with the configuration in force when the worker starts it.
JobFactory = Callable[[Workspace, Config, Clock], Job[T]]


class _Saves(msgspec.Struct, eq=False):
    """The announced paths that one sync scans. Other paths join them until the sync starts, which
    makes `request`.

    `indexed` is done when the sync has committed, or has failed: before anything that follows, so
    that a request which waits for the save goes on first.
    """

    paths: set[str]
    request: SyncRequest = SyncRequest()
    indexed: Future[None] = msgspec.field(default_factory=Future)


class Scheduler:
    """Submits the jobs of all workspaces to the worker. Make it on the running loop."""

    def __init__(
        self,
        *,
        worker: WorkerPool,
        config: Config,
        clock: Clock,
        on_synced: Callable[[Workspace, SyncDone], None],
        on_written: Callable[[Workspace], None],
        on_folders: Callable[[Workspace], None],
        on_reconciled: Callable[[Workspace, Collection[str]], None],
    ) -> None:
        """All callbacks are called on the loop.

        `on_synced(workspace, done)` is called after every sync, `on_written(workspace)` after
        every change that a client asked for, and `on_folders(workspace)` when the folders to
        watch may have changed. `on_reconciled(workspace, missed)` gets the paths of changes that
        a reconcile found and no event had announced.
        """
        self._loop = asyncio.get_running_loop()
        self._worker = worker
        self.config = config
        self._clock = clock
        self._on_synced = on_synced
        self._on_written = on_written
        self._on_folders = on_folders
        self._on_reconciled = on_reconciled
        self.defer: Callable[[Callable[[], None]], None] = lambda call: call()
        """Runs a call that can wait until the worker has started: a thread that wakes up earlier
        competes with it for the interpreter's lock. Called on any thread."""
        self.on_building: Callable[[], None] = lambda: None
        """Called on the loop whenever the rebuild of an index begins."""
        self.on_tidied: Callable[[], None] = lambda: None
        """Called on the loop some seconds after a change of a workspace."""
        self._workspaces: dict[str, Workspace] = {}
        self._events = EventBuffer(config.sync, clock, self._settled, self._defer)
        self._timers = Timers()
        self._rebuilds = RebuildPolicy(clock, self._rebuild_or_build)
        self.checks = IdleChecks(lambda: worker.is_busy, self._found_damage)
        self._awaited: dict[str, set[str]] = {}
        """For each workspace whose first scan has not been submitted, the events that it waits for.
        """
        self._scans: dict[str, Future[SyncDone]] = {}
        self._saves: dict[str, Future[None]] = {}
        """For each workspace `_Saves.indexed` of the last paths that events have announced."""
        self._waiting_saves: dict[str, _Saves] = {}
        """For each workspace the paths of such a sync that has not started; `_saves_lock` guards
        them."""
        self._saves_lock = threading.Lock()
        self._whole_scans: dict[str, Future[SyncDone]] = {}
        """For each workspace the last scan of everything that events have asked for."""
        self._unstable: dict[str, set[str]] = {}
        """For each workspace the notes that changed while they were read, or were emptied a moment
        ago."""
        self._reconciles: dict[str, Future[Any]] = {}
        self._check: Future[object] | None = None
        self._n_checks = itertools.count()
        self._missing_roots: set[str] = set()
        self._recording: set[str] = set()
        self._filling: dict[str, Future[SyncDone]] = {}
        """Rebuilds whose new index a process fills, while jobs go on with the old one."""

    def _defer(self, call: Callable[[], None]) -> None:
        self.defer(call)

    def add(self, workspace: Workspace, *, is_urgent: bool = False) -> None:
        """Open a workspace's databases and, if syncing is on, scan everything."""
        self._workspaces[workspace.id] = workspace
        self._awaited[workspace.id] = {OPENED}
        self._open(workspace, is_urgent=is_urgent)

    def _open(self, workspace: Workspace, *, is_urgent: bool = False) -> None:
        job = self._make_opening(workspace)
        workspace.opening = self._submit(workspace, job, self._opened, is_urgent=is_urgent)

    def _make_opening(self, workspace: Workspace) -> Callable[[], Job[str]]:
        def count_open() -> int:  # on the worker's thread
            return sum(workspace.holds_files for workspace in list(self._workspaces.values()))

        return partial(open_workspace, workspace, self.config, self._clock, count_open)

    def forget(self, workspace: Workspace) -> None:
        """Schedule nothing more for a workspace; its running job ends by itself."""
        self._workspaces.pop(workspace.id, None)
        self._events.forget(workspace.id)
        self._awaited.pop(workspace.id, None)
        self._scans.pop(workspace.id, None)
        self._saves.pop(workspace.id, None)
        self._waiting_saves.pop(workspace.id, None)
        self._whole_scans.pop(workspace.id, None)
        self._unstable.pop(workspace.id, None)
        self._reconciles.pop(workspace.id, None)
        self._missing_roots.discard(workspace.id)
        self._timers.cancel_all(workspace.id)
        self._rebuilds.forget(workspace)
        self._filling.pop(workspace.id, None)

    def set_config(self, config: Config) -> None:
        """Use another configuration, and scan everything, because pending events are dropped."""
        self.config = config
        self._events.set_policy(config.sync)
        self.scan_all()

    # --- the first scan ---
    #
    # Folders are watched first: a scan at the same time would have to be repeated, and the two
    # threads would compete for the interpreter's lock.

    def await_watches(self, workspace: Workspace) -> None:
        """Have the first scan of a workspace that was just added wait for `note_watched`."""
        self._awaited[workspace.id].add(WATCHED)

    def note_watched(self, workspace: Workspace, *, is_new: bool) -> None:
        """The folders of a workspace that was added are watched; `is_new` if some were not before.

        Begins its first scan, or another one if that did not wait and folders are newly watched.
        """
        if workspace.id in self._awaited:
            self._scan_first(workspace, WATCHED)
        elif is_new:
            self.scan(workspace)

    def scan_unwatched(self) -> None:
        """Let no first scan wait for watches any longer: watching takes long, or has failed."""
        for workspace_id in list(self._awaited):
            self._scan_first(self._workspaces[workspace_id], WATCHED)

    def _scan_first(self, workspace: Workspace, reached: str) -> None:
        awaited = self._awaited.get(workspace.id, set())
        awaited.discard(reached)
        if not awaited:
            self._awaited.pop(workspace.id, None)
            self._sync(workspace, only=None)

    # --- events ---

    def on_event(self, workspace_id: str, path: str, is_finished: bool, is_folder: bool) -> None:
        """Handle a file event; from any thread."""
        workspace = self._workspaces.get(workspace_id)
        if workspace is None or not (self.config.sync.enabled and self.config.sync.sync_on_change):
            return
        includes, excludes = workspace.scope.includes, workspace.scope.exclude
        if is_relevant(path, is_folder=is_folder, includes=includes, excludes=excludes):
            is_own = not is_ignore_file(path, includes)
            if not is_own:
                path, is_finished, is_folder = path.rpartition("/")[0], False, True
            workspace.note_unscanned(path, self._clock.now_s(), is_own=is_own)
            self._events.push(workspace_id, path, is_finished=is_finished, is_folder=is_folder)

    def scan_all(self) -> None:
        """Scan all workspaces as soon as possible; on the loop."""
        if self.config.sync.enabled:
            for workspace in self._workspaces.values():
                workspace.note_unscanned(ROOT, self._clock.now_s())
            self._events.push_all(self._workspaces)

    def _settled(self, settled: Settled[str]) -> None:
        """From any thread."""
        workspace = self._workspaces.get(settled.key)
        if workspace is None:
            return
        if workspace.condition.state == "stalled":
            # A full scan follows once the disk answers; until then jobs would only pile up.
            return
        if settled.folders:
            call_soon(self._loop, partial(self._on_folders, workspace))
        if ROOT in settled.folders:
            scans = (self._scans, self._whole_scans)
            if not any(_is_waiting(futures.get(workspace.id)) for futures in scans):
                self._whole_scans[workspace.id] = self._sync(workspace, only=None)
        else:
            self._sync_saves(workspace, settled.paths | settled.folders)

    def _sync_saves(self, workspace: Workspace, paths: Collection[str]) -> None:
        """Sync announced paths together with earlier ones whose sync has not started: if saves come
        faster than they are indexed, a sync for each would keep all other jobs waiting.
        """
        with self._saves_lock:
            waiting = self._waiting_saves.get(workspace.id)
            if waiting is not None:
                waiting.paths.update(paths)
                return
            saves = self._waiting_saves[workspace.id] = _Saves(set(paths))
            self._saves[workspace.id] = saves.indexed
            job = self._submit(
                workspace,
                partial(self._sync_save, workspace, saves),
                lambda workspace, done: self._synced(saves.request, workspace, done),
                is_urgent=True,
                deliver=self._after_answers,
            )
            job.add_done_callback(lambda _: _set_done(saves.indexed))

    # --- requests ---

    def find_save(self, workspace: Workspace) -> Future[None] | None:
        """A future that is done when a save is indexed whose sync waits or runs; None without such
        a save.
        """
        save = self._saves.get(workspace.id)
        return None if save is None or save.done() else save

    def scan(self, workspace: Workspace) -> Future[SyncDone]:
        """Sync everything that is on disk now or later.

        Requests that come before a waiting scan has started share it.
        """
        waiting = self._scans.get(workspace.id)
        if waiting is not None and _is_waiting(waiting):
            return waiting
        future = self._sync(workspace, only=None, is_urgent=True, releases_memory=False)
        self._scans[workspace.id] = future
        return future

    def sync(self, workspace: Workspace, *, is_full: bool = False) -> Future[SyncDone]:
        """Sync as `scan`, but delete missing notes without the grace.

        With `is_full` every note is read again.
        """
        return self._sync(workspace, only=None, is_urgent=True, is_full=is_full, grace_s=0.0)

    def rebuild(self, workspace: Workspace) -> Future[SyncDone]:
        """Build a new index beside the old one and replace that."""
        return self._begin_build(workspace, rebuild_index)

    def _rebuild_or_build(self, workspace: Workspace) -> Future[SyncDone]:
        """Rebuild; without an open index, only if no earlier job has made one by then."""
        build = build_index if workspace.index is None else rebuild_index
        return self._begin_build(workspace, build)

    def _begin_build(self, workspace: Workspace, build: Callable[..., Any]) -> Future[SyncDone]:
        workspace.change(is_indexing=True)  # until it has ended, whether it succeeds or fails
        self.on_building()
        if (running := self._filling.get(workspace.id)) is not None:
            return running
        if workspace.index is None:
            job = partial(build, workspace, self.config, self._clock)
            return self._submit(workspace, job, self._rebuilt)
        return self._begin_filling(workspace)

    def _begin_filling(self, workspace: Workspace) -> Future[SyncDone]:
        """Have a new index filled while the workspace's jobs go on with the old one."""
        built = self._filling[workspace.id] = Future()
        fill = partial(fill_new_index, workspace, self.config)
        filling = self._worker.submit(f"{workspace.id} {FILLING}", fill)

        def report(filling: Future[Filled | None]) -> None:
            call_soon(self._loop, partial(self._filled, workspace, filling, built))

        filling.add_done_callback(report)
        return built

    def _filled(
        self, workspace: Workspace, filling: Future[Filled | None], built: Future[SyncDone]
    ) -> None:
        """Replace the index by the one that was filled, or rebuild it without a process."""
        if self._filling.get(workspace.id) is built:
            del self._filling[workspace.id]
        failure = filling.exception()
        if failure is None:
            rebuild = partial(rebuild_index, workspace, self.config, self._clock, filling.result())
            job = self._submit(workspace, rebuild, self._rebuilt)
            job.add_done_callback(partial(_pass_on, built))
            return
        _pass_on(built, filling)
        is_ours = self._workspaces.get(workspace.id) is workspace
        if is_ours and not isinstance(failure, ShuttingDown):
            self._failed(workspace, failure, self._clock.now_s())

    def edit(
        self, workspace: Workspace, factory: JobFactory[EditOutcome[T]]
    ) -> Future[EditOutcome[T]]:
        """Run a job that changes notes; its sync is handled as any other."""
        future = self.run(workspace, factory)
        future.add_done_callback(partial(self._edit_ended, workspace))
        return future

    def run(self, workspace: Workspace, factory: JobFactory[T]) -> Future[T]:
        """Run a job that needs the records, before waiting jobs of the workspace."""
        job = partial(self._start, workspace, factory)
        return self._worker.submit(workspace.id, job, is_urgent=True)

    def quick_check(self, workspace: Workspace) -> None:
        """Open an index that could not be opened, or scan if its file is not in its place; costs
        microseconds.
        """
        self.reopen(workspace)
        if workspace.index is not None and not workspace.index.file_guard.is_in_place():
            self._scan_lost(workspace)

    def check_read(self, workspace: Workspace) -> None:
        """Scan if the index's file was not in its place when it was read last."""
        if workspace.index is not None and workspace.index.pool.has_lost_file:
            self._scan_lost(workspace)

    def _scan_lost(self, workspace: Workspace) -> None:
        if self.config.sync.enabled:
            self.scan(workspace)

    def report_damage(self, failure: StoreFailed) -> None:
        """Handle a query's failure in the store.

        Damage is handled as if a sync had met it; otherwise a scan checks the file.
        """
        workspace = self._workspaces.get(str(failure.data.get("workspace")))
        if workspace is None:
            return
        if workspace.open_failure is not None:
            self.reopen(workspace)
        elif isinstance(failure, StoreCorrupt):
            self._failed(workspace, failure, self._clock.now_s())
        else:
            self.scan(workspace)

    def _found_damage(self, workspace: Workspace, database: Database, finding: str) -> None:
        """Repair a database in which a check has found damage."""
        if self._workspaces.get(workspace.id) is not workspace:
            return
        if database is workspace.index:
            reason = f"index.db is damaged: {finding}"
            damage = StoreCorrupt(reason, hint="memsyncd rebuilds it by itself")
            self._failed(workspace, damage, self._clock.now_s())
        elif database is workspace.records:
            # Opening it again checks it, sets it aside if it is damaged, and reports that.
            job = partial(release_damaged_records, workspace)
            self._submit(workspace, job, lambda workspace, _: self.scan(workspace), is_urgent=True)

    def reopen(self, workspace: Workspace) -> None:
        """Open an index that could not be opened, if the last attempt was long enough ago."""
        if workspace.may_reopen(self._clock.now_s()):
            self._open(workspace, is_urgent=True)

    # --- reconcile ---

    def reconcile(self, check: Callable[[], object]) -> None:
        """Scan every workspace in full; changes without an event are counted.

        `check` is called behind the scans, on the same thread: two threads that compete for the
        interpreter's lock wake up again and again.
        """
        # A workspace whose last reconcile still waits gets no second one, however long it waits.
        workspaces = self._workspaces.values() if self.config.sync.enabled else ()
        due = [workspace for workspace in workspaces if self._is_reconciled(workspace)]
        with self._worker.batch():
            self._reconciles |= {workspace.id: self._reconcile(workspace) for workspace in due}
            if not _is_waiting(self._check):
                # Not behind a check that a disk blocks.
                self._check = self._worker.call(check, f"{CHECK} {next(self._n_checks)}")

    def _is_reconciled(self, workspace: Workspace) -> bool:
        return workspace.id not in self._reconciles or self._reconciles[workspace.id].done()

    def _reconcile(self, workspace: Workspace) -> Future[Any]:
        if workspace.index is None:
            return self._submit(workspace, self._make_opening(workspace), self._opened)
        self._rebuilds.retry(workspace)
        return self._sync(workspace, only=None, is_reconcile=True)

    # --- submitting jobs ---

    def _sync(
        self,
        workspace: Workspace,
        *,
        only: frozenset[str] | None,
        is_urgent: bool = False,
        is_full: bool = False,
        grace_s: float | None = None,
        releases_memory: bool = True,
        is_reconcile: bool = False,
    ) -> Future[SyncDone]:
        request = self._make_request(
            workspace, only, is_full=is_full, grace_s=grace_s, releases_memory=releases_memory
        )
        job = partial(sync_and_record, workspace, self.config, self._clock, request)
        before = workspace.condition if is_reconcile else None
        # Changes that a retry finds had their events before the failure.
        is_reconcile = is_reconcile and not _is_retry(workspace)
        on_done = partial(self._synced, request, is_reconcile=is_reconcile)
        is_urgent = is_urgent or request.only is not None
        return self._submit(workspace, job, on_done, is_urgent=is_urgent, before=before)

    def _make_request(
        self,
        workspace: Workspace,
        only: frozenset[str] | None,
        *,
        is_full: bool = False,
        grace_s: float | None = None,
        releases_memory: bool = True,
    ) -> SyncRequest:
        return SyncRequest(
            only=None if _is_retry(workspace) else only,
            is_full=is_full,
            grace_s=self.config.sync.delete_grace_s if grace_s is None else grace_s,
            bulk_bytes=BULK_BYTES,
            releases_memory=releases_memory,
        )

    def _after_answers(self, call: Callable[[], object]) -> None:
        """Call on the loop once it has answered the requests that waited for a save. From any
        thread.
        """
        call_soon(self._loop, partial(self._pass_turns, ANSWER_TURNS, call))

    def _pass_turns(self, n_turns: int, call: Callable[[], object]) -> None:
        self._loop.call_soon(*((self._pass_turns, n_turns - 1, call) if n_turns > 1 else (call,)))

    def _submit(
        self,
        workspace: Workspace,
        job: Callable[[], Any],
        on_done: Callable[[Workspace, Any], object],
        *,
        is_urgent: bool = False,
        is_next: bool = False,
        before: Condition | None = None,
        deliver: Callable[[Callable[[], None]], None] | None = None,
    ) -> Future[Any]:
        """From any thread; `on_done` is called on the loop, to which `deliver` hands it over.

        With the condition `before` a sync, the loop is not woken if that has changed nothing.
        """
        future = self._worker.submit(workspace.id, job, is_urgent=is_urgent, is_next=is_next)
        wake, wait = partial(call_soon, self._loop), partial(call_when_awake, self._loop)

        # The callbacks must refer to the future by their argument alone: a cycle would keep the
        # result, which has all paths of a first index, until the garbage is collected.
        def report(done: Future[Any]) -> None:
            ended = partial(self._ended, workspace, on_done, done, self._clock.now_s())
            can_wait = before is not None and _is_uneventful(before, workspace, done)
            (deliver or (wait if can_wait else wake))(ended)

        future.add_done_callback(report)
        return future

    def _sync_save(self, workspace: Workspace, saves: _Saves) -> Job[SyncDone]:
        """Sync, and have the changes recorded by the next job: a request that waits for the save
        need not wait for the recording as well.
        """
        config, clock = self.config, self._clock
        request = saves.request = self._start_saves(workspace, saves)
        done = yield from sync_notes(workspace, config, clock, request)
        if has_changes_to_record(workspace, done):
            record = partial(self._record_save, workspace, config, clock, done)
            self._submit(workspace, record, lambda _workspace, _done: None, is_next=True)
        # Before the requests are answered that wait for the save.
        self._note_scanned(workspace, request, done)
        _set_done(saves.indexed)
        return done

    def _start_saves(self, workspace: Workspace, saves: _Saves) -> SyncRequest:
        """Return the request for all paths that have come until now; no other path joins them."""
        with self._saves_lock:
            if self._waiting_saves.get(workspace.id) is saves:
                del self._waiting_saves[workspace.id]
        is_whole = is_walk_cheaper(len(saves.paths), workspace.condition.counts.files)
        return self._make_request(workspace, None if is_whole else frozenset(saves.paths))

    def _record_save(
        self, workspace: Workspace, config: Config, clock: Clock, done: SyncDone
    ) -> Job[None]:
        """Record the changes once the requests that waited for them are answered: both at once
        would compete for the interpreter's lock.
        """
        answered: Future[None] = Future()
        began_s = time.monotonic()
        self._after_answers(partial(answered.set_result, None))
        yield Pause(answered, lambda: began_s)
        yield from record_changes(workspace, config, clock, done)

    def _start(self, workspace: Workspace, factory: JobFactory[T]) -> Job[T]:
        return factory(workspace, self.config, self._clock)

    # --- handling results ---

    def _ended(
        self,
        workspace: Workspace,
        on_done: Callable[[Workspace, Any], object],
        future: Future[Any],
        at_s: float,
    ) -> None:
        if future.cancelled() or self._workspaces.get(workspace.id) is not workspace:
            return
        failure = future.exception()
        if failure is None:
            on_done(workspace, future.result())
        elif not isinstance(failure, ShuttingDown):
            self._failed(workspace, failure, at_s)

    def _failed(self, workspace: Workspace, failure: BaseException, at_s: float) -> None:
        self._awaited.pop(workspace.id, None)
        n_failed = workspace.condition.n_failed_syncs + 1
        is_indexing = workspace.id in self._filling
        workspace.change(is_indexing=is_indexing, n_failed_syncs=n_failed)
        if isinstance(failure, StoreCorrupt) and workspace.index is not None:
            workspace.index.checks.note_damage()
        self._rebuilds.on_failure(workspace, failure, at_s)

    def _opened(self, workspace: Workspace, rebuild_reason: str) -> None:
        if rebuild_reason and workspace.index is None:
            self._awaited.pop(workspace.id, None)
            self._rebuilds.replace(workspace, rebuild_reason)
            return
        # The files may still hold text that was deleted just before the last stop.
        self.tidy_later(workspace)
        if self.config.sync.enabled:
            self._scan_first(workspace, OPENED)
        else:
            self._awaited.pop(workspace.id, None)
            workspace.change(is_indexing=False)

    def _rebuilt(self, workspace: Workspace, done: SyncDone) -> None:
        log.info(
            Event.INDEX_REBUILT,
            workspace=workspace.id,
            generation=done.generation,
            duration_ms=round(done.duration_ms),
        )
        self._synced(SyncRequest(), workspace, done)
        # A note saved while the new file was filled may be in neither index.
        self._sync(workspace, only=None)

    def _synced(
        self,
        request: SyncRequest,
        workspace: Workspace,
        done: SyncDone,
        *,
        is_reconcile: bool = False,
    ) -> None:
        self._note_scanned(workspace, request, done)
        if request.only is None:
            self._rebuilds.on_success(workspace, done.began_s)
        workspace.change(is_indexing=workspace.id in self._filling)
        self._log_root(workspace)
        if done.index_fault:
            self._rebuilds.replace(workspace, done.index_fault)
        if done.has_new_folders:
            self._on_folders(workspace)
        self._sync_later(workspace, done)
        if done.paths:
            self.tidy_later(workspace)
        if is_reconcile:
            if not done.paths:
                self.checks.start(workspace)
            report = partial(self._count_missed, workspace)
            self._events.find_unannounced(workspace.id, done.discovered, report)
        if request.only is None:
            self._events.forget_recent(workspace.id, done.began_s)
        self._on_synced(workspace, done)

    def _note_scanned(self, workspace: Workspace, request: SyncRequest, done: SyncDone) -> None:
        """From any thread."""
        scanned = None if request.only is None else request.only.union(done.paths)
        workspace.note_scanned(scanned, done.began_s)

    def _count_missed(self, workspace: Workspace, unannounced: list[str]) -> None:
        is_watched = self.config.sync.sync_on_change and not workspace.has_unwatched_folders
        if unannounced and is_watched:
            n_missed = workspace.condition.n_missed_events + len(unannounced)
            workspace.change(n_missed_events=n_missed)
            log.warning(Event.MISSED_EVENTS, workspace=workspace.id, count=len(unannounced))
        if self._workspaces.get(workspace.id) is workspace:
            self._on_reconciled(workspace, unannounced)

    def _log_root(self, workspace: Workspace) -> None:
        """Log once that the folder is missing, and once that it is back."""
        is_missing = workspace.condition.root_state != "present"
        if is_missing != (workspace.id in self._missing_roots):
            self._missing_roots ^= {workspace.id}
            event = Event.WORKSPACE_MISSING if is_missing else Event.WORKSPACE_BACK
            log.warning(event, workspace=workspace.id, root=workspace.entry.root)

    def _sync_later(self, workspace: Workspace, done: SyncDone) -> None:
        """Sync notes with a pending delete, and unstable ones, once more without an event."""
        if done.pending_deletes:
            # The timer runs to the end of the grace: syncs of other notes must not restart it.
            sync = partial(self._sync, workspace, only=frozenset(done.pending_deletes))
            delay_s = done.pending_delete_s + GRACE_SLACK_S
            self._timers.set(workspace.id, "pending delete", delay_s, sync)
        if done.unstable:
            self._unstable.setdefault(workspace.id, set()).update(done.unstable)
            delay_s = max(self.config.sync.max_wait_s, GRACE_SLACK_S)
            self._timers.set(
                workspace.id, "unstable", delay_s, partial(self._sync_unstable, workspace)
            )

    def _sync_unstable(self, workspace: Workspace) -> None:
        self._sync(workspace, only=frozenset(self._unstable.pop(workspace.id, ())))

    def tidy_later(self, workspace: Workspace) -> None:
        """Tidy the databases after a while; on the loop."""
        is_ours = self._workspaces.get(workspace.id) is workspace
        if is_ours and not self._timers.is_set(workspace.id, "tidy"):
            tidy = partial(self._tidy, workspace)
            self._timers.set(workspace.id, "tidy", TIDY_AFTER_S, tidy)

    def _tidy(self, workspace: Workspace) -> None:
        def on_done(workspace: Workspace, is_tidy: bool | None) -> None:
            if is_tidy is None:
                self._tidy(workspace)  # behind the jobs that wait
                return
            self.on_tidied()
            if is_tidy:
                self.checks.start(workspace)
            else:
                self.tidy_later(workspace)

        is_awaited = partial(self._worker.is_awaited, workspace.id)
        self._submit(workspace, partial(tidy_workspace, workspace, is_awaited), on_done)

    # --- edits and the history ---

    def _edit_ended(self, workspace: Workspace, future: Future[EditOutcome[Any]]) -> None:
        """On the worker's thread."""
        if not future.cancelled() and future.exception() is None:
            call_soon(self._loop, partial(self._edited, workspace, future.result()))

    def _edited(self, workspace: Workspace, edited: EditOutcome[Any]) -> None:
        if workspace.n_unpruned >= PRUNE_AFTER:
            self.run_slices(workspace, prune_slice)
        if edited.synced is None and edited.failure is None:
            return
        self._on_written(workspace)
        if self._workspaces.get(workspace.id) is not workspace:
            return
        if edited.failure is not None:
            self._failed(workspace, edited.failure, self._clock.now_s())
        elif edited.synced is not None:
            self._synced(SyncRequest(only=frozenset()), workspace, edited.synced)

    def start_recording(self, workspace: Workspace) -> None:
        """Record the texts of all notes, unless that is done or runs: later syncs add changes."""
        is_possible = self.config.history.enabled and workspace.records is not None
        if is_possible and not workspace.is_recorded and workspace.id not in self._recording:
            self._recording.add(workspace.id)
            self.run_slices(workspace, record_slice, then=partial(self._recorded, workspace))

    def _recorded(self, workspace: Workspace) -> None:
        self._recording.discard(workspace.id)
        self.tidy_later(workspace)

    def run_slices(
        self,
        workspace: Workspace,
        factory: JobFactory[bool],
        *,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Run a long job in slices, each behind the jobs that wait by then.

        A slice returns whether another must follow. `then` is called on the loop in the end.
        """
        future = self._worker.submit(workspace.id, partial(self._start, workspace, factory))
        future.add_done_callback(partial(self._slice_ended, workspace, factory, then))

    def _slice_ended(
        self,
        workspace: Workspace,
        factory: JobFactory[bool],
        then: Callable[[], None] | None,
        future: Future[bool],
    ) -> None:
        """On the worker's thread."""
        if not future.cancelled() and future.exception() is None and future.result():
            self.run_slices(workspace, factory, then=then)
        elif then is not None:
            call_soon(self._loop, then)


def _set_done(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _is_waiting(job: Future[Any] | None) -> bool:
    """True for a job that has not started."""
    return job is not None and not job.running() and not job.done()


def _is_uneventful(before: Condition, workspace: Workspace, job: Future[Any]) -> bool:
    """True if a sync of a few notes found nothing new, needs no follow-up and ended in the
    condition `before` itself, in which nothing is wrong.
    """
    if job.cancelled() or job.exception() is not None:
        return False
    done: SyncDone = job.result()
    if not done.is_quiet or done.n_unchanged >= LARGE_SCAN_NOTES:
        return False
    now = workspace.condition
    is_same = (before.state, before.notices, before.scan_problems) == (
        now.state,
        now.notices,
        now.scan_problems,
    )
    return is_same and now.state == "ready"


def _is_retry(workspace: Workspace) -> bool:
    """True if a failure may have left more undone than the paths of a sync."""
    return bool(workspace.condition.faults.keys() & INCOMPLETE)


def _pass_on(to: Future[T], ended: Future[Any]) -> None:
    """Give one future the result or failure of another."""
    if ended.cancelled():
        to.cancel()
    elif not to.set_running_or_notify_cancel():
        return
    elif (failure := ended.exception()) is not None:
        to.set_exception(failure)
    else:
        to.set_result(ended.result())
