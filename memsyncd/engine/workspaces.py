"""Run all registered workspaces: open, close, add, remove and reload them.

`Workspaces` joins the registry, the worker, the scheduler and the watch service. It runs on the
event loop; the server calls it for workspaces, scans and edits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import msgspec

from memsyncd.config import Config
from memsyncd.core.changes.debounce import ROOT
from memsyncd.core.histogram import DurationHistogram
from memsyncd.core.turns import StallPolicy
from memsyncd.engine.accesses import FLUSH_S, note_accesses, store_accesses, store_noted
from memsyncd.engine.answers import note_answer, store_answers
from memsyncd.engine.clock import Clock
from memsyncd.engine.job_completions import Timers, call_soon
from memsyncd.engine.rebuild import close_workspace
from memsyncd.engine.records import release_records
from memsyncd.engine.registry import (
    DEFAULT_SETTINGS,
    FolderCheck,
    ProjectCollection,
    Registry,
    find_slug,
)
from memsyncd.engine.scheduler import Scheduler
from memsyncd.engine.stalls import StallMonitor
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.vector_upkeep import VectorUpkeep
from memsyncd.engine.watching import Watching
from memsyncd.engine.worker import Job, WorkerPool, heartbeat
from memsyncd.engine.workspace import Entry, Settings, Workspace, index_fingerprint
from memsyncd.errors import MemsyncdError, NoteNotFound, WorkspaceNotFound
from memsyncd.files.folder_kinds import ProjectListing, list_projects
from memsyncd.files.scope import find_identity, find_present, find_worktree_root, is_within_folder
from memsyncd.logs import Event, get_log
from memsyncd.operations.agents.declare import AgentAnswer

# No workspace's id, so that the worker runs it between two steps of any other job.
HEARTBEAT_KEY = "heartbeat"
PREPARATION_KEY = "preparation"
# Purposes of timers.
ACCESSES, LISTING = "accesses", "listing"
SLEPT_S = 1.0
# Within this time a reconcile's jobs are submitted and the loop is asleep again, on a busy machine
# as well.
SUBMITTED_WITHIN_S = 0.1
# The limit of `stop`. Running jobs get at least half; SQLite rolls an interrupted commit back.
STOP_S = 2.0
DEFAULT_STALLS = StallPolicy()

log = get_log("engine")

OnSynced = Callable[[Workspace, SyncDone], None]


class Counters(msgspec.Struct, kw_only=True):
    """Counts of the work for a workspace; they only grow and survive its reopening.

    Counted on the event loop. Failures and missed events are counted in its `Condition`.
    """

    syncs: DurationHistogram = msgspec.field(default_factory=DurationHistogram)
    """All syncs, also those that found nothing new."""
    n_changing_syncs: int = 0
    n_added: int = 0
    n_modified: int = 0
    n_moved: int = 0
    n_removed: int = 0
    n_upserted: int = 0
    n_deleted: int = 0
    n_writes: int = 0
    """Completed changes that clients requested, of one note or many."""

    def count_sync(self, done: SyncDone) -> None:
        self.syncs.add(done.duration_ms / 1000)
        self.n_changing_syncs += bool(done.paths)
        if not done.is_rebuild:
            self.n_added += len(done.added)
            self.n_modified += len(done.modified)
            self.n_moved += len(done.moved)
            self.n_removed += len(done.removed)
        self.n_upserted += done.n_upserted
        self.n_deleted += done.n_deleted


class PathPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace that a path belongs to, by its id.

    In a linked worktree it is the main one's, and `worktree` the folder that stands for its root.
    `present` are the files and folders of memory that this folder has, `shared` the others, which
    the root has. Without any `present`, the folder shares all memory of the main one.
    """

    workspace_id: str
    worktree: str = ""
    present: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


class Workspaces:
    """All workspaces while the daemon runs. Make it on the running loop."""

    def __init__(
        self,
        *,
        registry: Registry,
        state_dir: Path,
        cache_dir: Path,
        config: Config,
        clock: Clock,
        on_reconcile: Callable[[], None] = lambda: None,
        stall_policy: StallPolicy = DEFAULT_STALLS,
    ) -> None:
        """`on_reconcile` is called before each reconcile, for the daemon's own checks."""
        self._loop = asyncio.get_running_loop()
        self._registry = registry
        self._state_dir = state_dir
        self._cache_dir = cache_dir
        self._clock = clock
        self.by_id: dict[str, Workspace] = {}
        self.collections: dict[str, ProjectCollection] = {}
        self.stalls = StallMonitor(
            self.by_id,
            stall_policy,
            on_checked=self._steps_checked,
            on_stalled=self._stalled,
            on_recovered=self._recovered,
        )
        self._worker = WorkerPool(
            "memsyncd-index", policy=stall_policy, on_returned=self.stalls.note_returned
        )
        self.stalls.add_pool(self._worker)
        self._listeners: list[OnSynced] = []
        self._on_reconcile = on_reconcile
        self.scheduler = Scheduler(
            worker=self._worker,
            config=config,
            clock=clock,
            on_synced=self._synced,
            on_written=self._written,
            on_folders=self._follow,
            on_reconciled=self._reconciled,
        )
        self.watching = Watching(self.scheduler, clock, self.stalls, stall_policy)
        self.vectors = VectorUpkeep(config.semantic)
        self._counters: dict[str, Counters] = {}
        self._recovered_s: dict[str, float] = {}
        self._timers = Timers()
        self._timer: asyncio.TimerHandle | None = None
        self._asleep_s = clock.asleep_s()

    @property
    def config(self) -> Config:
        return self.scheduler.config

    def start(self, configured: Iterable[Entry]) -> None:
        """Open every registered workspace and begin to reconcile."""
        trouble = self._registry.read(configured)
        if trouble:
            log.warning(Event.CONFIG_WARNING, reason=trouble)
        for entry in self._registry.entries.values():
            self._open(entry)
        for entry in self._registry.collections.values():
            self._open_collection(entry)
        self._arm()

    def stop(self) -> bool:
        """Stop watching, end running jobs at their next step and close the databases.

        Takes at most STOP_S. Returns False if a step has not returned by then: its thread and the
        databases of its workspace are left as they are.
        """
        if self._timer is not None:
            self._timer.cancel()
        self.stalls.stop()
        began_s = time.monotonic()
        is_unasked = self.vectors.stop()
        is_unchecked = self.scheduler.checks.stop(STOP_S / 4)
        is_unwatched = self.watching.stop(STOP_S / 2)
        left_s = STOP_S - (time.monotonic() - began_s)
        is_idle = self._worker.stop(max(STOP_S / 2, left_s))
        blocked = self._worker.running_steps()
        for workspace in self.by_id.values():
            if workspace.id not in blocked:
                with contextlib.suppress(MemsyncdError):
                    store_answers(workspace, self.config.agents)
                    store_noted(workspace, self.config)
                workspace.close()
        return is_unwatched and is_idle and is_unchecked and is_unasked

    def listen(self, on_synced: OnSynced) -> None:
        """Call `on_synced` on the loop after every sync."""
        self._listeners.append(on_synced)

    def counters(self, workspace: Workspace) -> Counters:
        """The workspace's counters; they survive its reopening."""
        return self._counters.setdefault(workspace.id, Counters())

    def heartbeat(self) -> Future[None]:
        """Submit an empty job to the worker: done as soon as the worker makes progress."""
        return self._worker.submit(HEARTBEAT_KEY, heartbeat, is_urgent=True)

    def prepare(self, job: Callable[[], Job[None]]) -> None:
        """Run a job that belongs to no workspace on the worker, in turns with the workspaces'
        jobs.
        """
        self._worker.submit(PREPARATION_KEY, job, may_stall=False)

    def call(self, call: Callable[[], None]) -> None:
        """Call a function, which touches no disk, on the worker's thread, between steps of jobs."""
        self._worker.call(call)

    def count_jobs(self) -> int:
        """The number of jobs of all workspaces that wait for the worker or run."""
        return self._worker.count_jobs()

    def note_accesses(
        self, workspace: Workspace, anchors: Sequence[str], *, session: str | None
    ) -> None:
        """Count accesses of sections unless that is switched off, and store them some seconds after
        the first; on the loop.
        """
        if not (anchors and self.config.access.enabled):
            return
        note_accesses(workspace, anchors, session=session, at_s=self._clock.wall_s())
        self._store_soon(workspace)

    def note_answer(self, workspace: Workspace, answer: AgentAnswer) -> AgentAnswer | None:
        """Note an answer to an agent, and store it some seconds later; on the loop. Return it as it
        is kept; None if answers are not kept.
        """
        if not self.config.agents.enabled:
            return None
        kept = note_answer(workspace, self.config.agents, answer)
        self._store_soon(workspace)
        return kept

    def _store_soon(self, workspace: Workspace) -> None:
        if not self._timers.is_set(workspace.id, ACCESSES):
            store = partial(self._store_accesses, workspace)
            self._timers.set(workspace.id, ACCESSES, FLUSH_S, store)

    def _store_accesses(self, workspace: Workspace) -> None:
        if self.by_id.get(workspace.id) is workspace:
            self.scheduler.run_slices(workspace, store_accesses)

    # --- finding a workspace ---

    def sorted(self) -> list[Workspace]:
        """All workspaces by name and id."""
        return sorted(
            self.by_id.values(), key=lambda workspace: (workspace.entry.name, workspace.id)
        )

    def find(self, text: str | None) -> Workspace:
        """As `Registry.find`; may block, because a path that is no root is resolved on disk."""
        return self.by_id[self._registry.find(text, self.config.sync.worktrees).id]

    def find_by_name(self, name: str) -> Workspace | None:
        """Return the only workspace with this name or id; from any thread, without the disk."""
        named = [each for each in [*self.by_id.values()] if name in (each.id, each.entry.name)]
        mains = [workspace for workspace in named if not workspace.entry.main]
        return mains[0] if len(mains) == 1 else None

    def is_root(self, text: str) -> bool:
        """True if this is exactly the root of a workspace that is no linked worktree, or names a
        collection. Does not access the disk.
        """
        entries = (workspace.entry for workspace in self.by_id.values())
        is_known = any(entry.root == text and not entry.main for entry in entries)
        return is_known or self.find_collection(text) is not None

    def find_worktree(self, text: str) -> Workspace | None:
        """The workspace of a linked worktree with this name or id. Does not access the disk."""
        entries = (workspace.entry for workspace in self.by_id.values())
        ids = (entry.id for entry in entries if entry.main and text in (entry.name, entry.id))
        return self.by_id.get(next(ids, ""))

    def find_near(self, path: str) -> Workspace | None:
        """As `Registry.find_near`."""
        entry = self._registry.find_near(path)
        return None if entry is None else self.by_id.get(entry.id)

    def find_place(self, path: str) -> PathPlace:
        """Find the workspace that a path belongs to; from any thread, because it may block. Raises
        WorkspaceNotFound.
        """
        entry = self._registry.find(path, self.config.sync.worktrees)
        real = os.path.realpath(os.path.expanduser(path))
        folder = find_worktree_root(real, entry.root)
        if not folder:
            return PathPlace(workspace_id=entry.id)
        return self._describe_worktree(entry, folder)

    def read_worktree(self, workspace: Workspace) -> PathPlace:
        """Describe a linked worktree that is a workspace; from any thread, because it may block."""
        main = self._registry.entries[workspace.entry.main]
        return self._describe_worktree(main, workspace.entry.root)

    def _describe_worktree(self, main: Entry, folder: str) -> PathPlace:
        present = find_present(folder, main.memory_places)
        others = [place for place in main.memory_places if place not in present]
        is_sharing = self.config.sync.worktrees == "shared"
        shared = find_present(main.root, others) if is_sharing else ()
        return PathPlace(workspace_id=main.id, worktree=folder, present=present, shared=shared)

    def open_worktree(self, main: Workspace, folder: str) -> Workspace:
        """Return the workspace of a folder in a linked worktree that holds memory itself; it is
        registered when it is first named. Raises StoreFailed.
        """
        return self._open_registered(self._registry.note_worktree(main.entry, folder))

    def find_file(self, path: str) -> tuple[str, PathPlace]:
        """Return the real path of a file that is named by an absolute path, and where it belongs;
        from any thread, because it may block. Raises WorkspaceNotFound, and NoteNotFound for a file
        of a linked worktree whose memory is all in the main one.
        """
        # A link is a note by its own name.
        above = os.path.realpath(os.path.dirname(path))
        real = os.path.join(above, os.path.basename(path))
        place = self.find_place(above)
        root = place.worktree or self._registry.entries[place.workspace_id].root
        if not is_within_folder(real, root):
            raise WorkspaceNotFound(
                "this path is in no workspace", hint="add the folder with: memsyncd add PATH"
            )
        if place.worktree and not place.present and os.path.isfile(real):
            main = self._registry.entries[place.workspace_id].root
            message = "this file is not indexed: its git worktree shares the memory of the main one"
            raise NoteNotFound(message, hint=f"open the file itself, or name a note of {main}")
        return real, place

    def find_user_wide(self) -> Workspace | None:
        """The user-wide workspace, if there is one."""
        return next(
            (workspace for workspace in self.by_id.values() if workspace.entry.is_user_wide), None
        )

    def find_collection(self, text: str) -> ProjectCollection | None:
        """As `Registry.find_collection`."""
        entry = self._registry.find_collection(text)
        return None if entry is None else self.collections.get(entry.id)

    # --- collections ---

    def add_collection(self, entry: Entry, seen: FolderCheck) -> asyncio.Future[None]:
        """Register a collection and list its projects; done once they are workspaces.

        Raises as `Registry.add`.
        """
        entry = self._registry.add(entry, seen)
        collection = self.collections.get(entry.id)
        if collection is not None and collection.entry == entry:
            return self.list_projects(collection)
        if collection is not None:
            self._close_collection(collection)
        log.info(Event.WORKSPACE_ADDED, workspace=entry.id, root=entry.root)
        return self._open_collection(entry)

    def remove_collection(self, collection: ProjectCollection) -> list[Workspace]:
        """Forget a collection and its workspaces, and return these. Raises as `Registry.remove`."""
        self._registry.remove(collection.entry)
        self._close_collection(collection)
        gone = [
            workspace for workspace in self.sorted() if workspace.entry.collection == collection.id
        ]
        for workspace in gone:
            self._forget(workspace)
        return gone

    def list_projects(self, collection: ProjectCollection) -> asyncio.Future[None]:
        """List a collection's projects on the worker and open the memory folders that are new.

        Projects are listed at the start, after events in the collection and at each reconcile. One
        listing runs at a time; a request meanwhile has another one follow.
        """
        listed = self._loop.create_future()
        collection.waiters.append(listed)
        if len(collection.waiters) == 1:
            self._start_listing(collection)
        return listed

    def _start_listing(self, collection: ProjectCollection) -> None:
        root, waiters = collection.entry.root, tuple(collection.waiters)
        entries = [workspace.entry for workspace in self.by_id.values()]
        members = [entry for entry in entries if entry.collection == collection.id]
        projects = {find_slug(entry): entry.project for entry in members}
        future = self._worker.call(partial(list_projects, root, projects), collection.id)
        future.add_done_callback(
            lambda done: call_soon(self._loop, lambda: self._listed(collection, done, waiters))
        )

    def _listed(
        self,
        collection: ProjectCollection,
        done: Future[ProjectListing | None],
        waiters: Collection[asyncio.Future[None]],
    ) -> None:
        if self.collections.get(collection.id) is collection and done.exception() is None:
            self._note_listing(collection, done.result())
        for waiter in waiters:
            collection.waiters.remove(waiter)
            if not waiter.done():
                waiter.set_result(None)
        if collection.waiters:
            self._start_listing(collection)

    def _note_listing(self, collection: ProjectCollection, listing: ProjectListing | None) -> None:
        collection.is_missing = listing is None
        if listing is None:
            self.watching.replan(collection)  # a folder nearer to it may be there now
            return
        try:
            fresh = self._registry.note_projects(collection.entry, listing.projects)
        except MemsyncdError as failure:  # the next listing tries again
            log.error(Event.SYNC_FAILED, workspace=collection.id, reason=failure.message)
            return
        for workspace in self.by_id.values():
            workspace.entry = self._registry.entries.get(workspace.id, workspace.entry)
        for entry in fresh:
            log.info(Event.WORKSPACE_ADDED, workspace=entry.id, root=entry.root)
            self._open(entry)
        self._scan_moved(collection, {project.slug for project in listing.projects})
        # A folder in which a first note is awaited may have come, and it needs a watch of its own.
        collection.awaited = listing.awaited
        self.watching.replan(collection)

    def _scan_moved(self, collection: ProjectCollection, present: Collection[str]) -> None:
        """Scan the workspaces whose folder is gone or back: its own watch has no event of that."""
        for workspace in list(self.by_id.values()):
            is_missing = workspace.condition.root_state == "missing"
            is_member = workspace.entry.collection == collection.id
            if is_member and (find_slug(workspace.entry) in present) == is_missing:
                self.scheduler.scan(workspace)

    def _open_collection(self, entry: Entry) -> asyncio.Future[None]:
        collection = ProjectCollection(entry, lambda: self._list_soon(collection))
        self.collections[entry.id] = collection
        self.watching.add(collection)
        return self.list_projects(collection)

    def _list_soon(self, collection: ProjectCollection) -> None:
        """List the projects once the events of the same moment have come."""
        is_open = self.collections.get(collection.id) is collection
        if is_open and not self._timers.is_set(collection.id, LISTING):
            delay_s = self.config.sync.debounce_ms / 1000
            self._timers.set(
                collection.id, LISTING, delay_s, lambda: self.list_projects(collection)
            )

    def _close_collection(self, collection: ProjectCollection) -> None:
        self.collections.pop(collection.id, None)
        self.watching.forget(collection)
        self._timers.cancel_all(collection.id)

    # --- adding and removing ---

    def check_folder(self, path: str, silent: Collection[str]) -> FolderCheck:
        """As `Registry.check_folder`."""
        return self._registry.check_folder(path, silent, self.config.sync.worktrees)

    def make_entry(self, path: str, seen: FolderCheck, settings: Settings) -> Entry:
        """As `Registry.make_entry`, for a folder that was checked."""
        return self._registry.make_entry(path, settings, seen=seen.root, place=seen.place)

    def add(
        self, path: str, *, settings: Settings = DEFAULT_SETTINGS, seen: FolderCheck | None = None
    ) -> Workspace:
        """Register a folder and open it. Raises as `Registry.make_entry` and `Registry.add`.

        Touches no disk but the registry's own if `seen` is the folder's check.
        """
        seen = seen or self.check_folder(path, ())
        return self._open_registered(
            self._registry.add(self.make_entry(path, seen, settings), seen)
        )

    def _open_registered(self, entry: Entry) -> Workspace:
        workspace = self.by_id.get(entry.id)
        if workspace is not None and workspace.entry == entry:
            return workspace
        if workspace is not None:
            self._close(workspace)
        log.info(Event.WORKSPACE_ADDED, workspace=entry.id, root=entry.root)
        # Together, and urgent: a scan between the two, which finds the folder gone, would open its
        # records again.
        with self._worker.batch():
            self._release_gone()
            return self._open(entry, workspace, is_urgent=True)

    def _release_gone(self) -> None:
        """Close the records of workspaces whose folder is gone, before another is opened.

        The other may be the same folder, moved.
        """
        for workspace in self.by_id.values():
            # Here, on the loop, a disk that does not answer must not be touched.
            is_stalled = self.stalls.is_stalled(workspace)
            if not is_stalled and find_identity(workspace.entry.root) is None:
                job = partial(release_records, workspace)
                self._worker.submit(workspace.id, job, is_urgent=True)

    def remove(self, workspace: Workspace) -> None:
        """Forget a workspace and delete its index; its notes and records are kept.

        Raises as `Registry.remove`.
        """
        self._registry.remove(workspace.entry)
        for other in self.sorted():
            if other.entry.main == workspace.id:
                self._forget(other)
        collection = self.collections.get(workspace.entry.collection)
        if collection is not None:
            collection.entry = self._registry.collections[collection.id]
        self._forget(workspace)

    def _forget(self, workspace: Workspace) -> None:
        self._counters.pop(workspace.id, None)
        self._recovered_s.pop(workspace.id, None)
        folder = workspace.index_path.parent
        self._close(workspace, then=partial(shutil.rmtree, folder, ignore_errors=True))
        log.info(Event.WORKSPACE_REMOVED, workspace=workspace.id)

    def reload(self, config: Config, configured: Iterable[Entry]) -> None:
        """Use another config and other configured workspaces; reopen those that differ."""
        is_same = _describe_reading(config) == _describe_reading(self.config)
        was_on = self.watching.is_on
        self._registry.configure(configured)
        self.scheduler.set_config(config)
        self.vectors.configure(config.semantic)
        before = dict(self.by_id)
        for workspace in before.values():
            entry = self._registry.entries.get(workspace.id)
            if entry != workspace.entry or not is_same or was_on != self.watching.is_on:
                self._close(workspace)
            else:
                # A history that was switched on must know the notes' texts before they change.
                self.scheduler.start_recording(workspace)
        for entry in self._registry.entries.values():
            if entry.id not in self.by_id:
                self._open(entry, before.get(entry.id))
        for collection in list(self.collections.values()):
            if self._registry.collections.get(collection.id) != collection.entry:
                self._close_collection(collection)
        for entry in self._registry.collections.values():
            if entry.id not in self.collections:
                self._open_collection(entry)
        # The limit of folders may be another one.
        self.watching.supervise()
        self._arm()

    def _open(
        self, entry: Entry, before: Workspace | None = None, *, is_urgent: bool = False
    ) -> Workspace:
        workspace = Workspace(
            entry,
            self.config,
            index_path=self._cache_dir / entry.id / "index.db",
            records_path=self._state_dir / entry.id / "records.db",
        )
        workspace.find_other = self.find_by_name
        if before is not None:
            workspace.continue_counts(before)
        self.by_id[entry.id] = workspace
        self.vectors.open(workspace)
        self.scheduler.add(workspace, is_urgent=is_urgent)
        self.watching.add(workspace)
        return workspace

    def _close(self, workspace: Workspace, *, then: Callable[[], None] | None = None) -> None:
        self.by_id.pop(workspace.id, None)
        self._timers.cancel_all(workspace.id)
        self.scheduler.forget(workspace)
        self.watching.forget(workspace)
        self.vectors.close(workspace)
        workspace.cancel()
        closed = self._worker.submit(workspace.id, partial(_close_job, workspace, self.config))
        if then is not None:
            closed.add_done_callback(lambda _: then())

    # --- callbacks ---

    def _follow(self, workspace: Workspace) -> None:
        self.watching.replan(workspace)

    def _reconciled(self, workspace: Workspace, missed: Collection[str]) -> None:
        self.watching.note_reconciled(workspace, missed)
        # `git worktree remove` removes the notes as well; the history is kept like any workspace's.
        if workspace.entry.main and workspace.condition.root_state == "missing":
            with contextlib.suppress(MemsyncdError):
                self.remove(workspace)

    def _steps_checked(self) -> None:
        self.watching.note_slow()

    def _stalled(self, workspace: Workspace) -> None:
        """The disk does not answer, so anything there may change without an event."""
        workspace.note_unscanned(ROOT, self._clock.now_s())
        workspace.read_unopened_index()

    def _recovered(self, workspace: Workspace) -> None:
        """The disk answers again: scan for changes made meanwhile."""
        # Once per reconcile_s: on a disk that is merely slow, each scan itself counts as stalled.
        now_s = self._clock.now_s()
        last_s = self._recovered_s.get(workspace.id, float("-inf"))
        if self.config.sync.enabled and now_s - last_s > self.config.sync.reconcile_s:
            self._recovered_s[workspace.id] = now_s
            self.scheduler.scan(workspace)

    def _synced(self, workspace: Workspace, done: SyncDone) -> None:
        """Count a sync, call the listeners and log it."""
        self.counters(workspace).count_sync(done)
        self.scheduler.start_recording(workspace)
        self.vectors.note_synced(workspace)
        for listener in self._listeners:
            listener(workspace, done)
        log_sync = log.info if done.paths else log.debug
        log_sync(Event.SYNC_DONE, workspace=workspace.id, **done.describe())

    def _written(self, workspace: Workspace) -> None:
        self.counters(workspace).n_writes += 1

    # --- reconcile ---

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = self.config.sync.reconcile_s
        self._timer = self._loop.call_later(delay_s, self._reconcile)
        self._worker.expect(time.monotonic() + delay_s + SUBMITTED_WITHIN_S)

    def _reconcile(self) -> None:
        self._arm()
        self._on_reconcile()
        asleep_s = self._clock.asleep_s()
        for collection in list(self.collections.values()):
            if self.config.sync.enabled:
                self.list_projects(collection)
        if asleep_s - self._asleep_s > SLEPT_S:
            self.watching.report_events_lost("the machine has slept")
        self._asleep_s = asleep_s
        try:
            self.scheduler.reconcile(self.watching.prepare_check())
        except MemsyncdError as failure:
            log.error(Event.SYNC_FAILED, reason=failure.message)


def _close_job(workspace: Workspace, config: Config) -> Job[None]:
    with contextlib.suppress(MemsyncdError):
        store_answers(workspace, config.agents)
        store_noted(workspace, config)
    yield from close_workspace(workspace)


def _describe_reading(config: Config) -> tuple[object, ...]:
    """The settings on which the rows of an index depend."""
    return index_fingerprint(config), config.sync.max_file_bytes
