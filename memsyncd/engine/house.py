"""Which workspaces are being looked after, and who comes and goes?

The one place that joins registry, lane, rounds and watching. It lives on the event loop; whoever serves clients asks it for
workspaces and for looks at them.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from memsyncd.core.scheduling import StallPolicy
from memsyncd.engine.doorbells import ROOT
from memsyncd.engine.indexing import close_workspace
from memsyncd.engine.lane import Lane, take_a_step
from memsyncd.engine.opening import release_records
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.registry import Registry, SeenFolder
from memsyncd.engine.rounds import Rounds
from memsyncd.engine.stalls import StallMonitor
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.tally import Tally
from memsyncd.engine.watching import Watching
from memsyncd.engine.workspaces import Entry, Workspace
from memsyncd.engine.writers import Writers
from memsyncd.errors import MemsyncdError
from memsyncd.files.scope import find_identity
from memsyncd.logs import Event, get_log

STEP_KEY = "step"
"""No workspace's id, so that the writer comes to it between two steps of whatever it does."""
SLEPT_S = 1.0
STOP_S = 2.0
"""What runs when the daemon stops gets half of this at least; a commit that is cut off is undone by SQLite."""
DEFAULT_STALLS = StallPolicy()

log = get_log("engine")

OnSynced = Callable[[Workspace, SyncDone], None]


class House:
    """All workspaces while the daemon runs. Make it on the running loop."""

    def __init__(
        self,
        *,
        registry: Registry,
        state_dir: Path,
        cache_dir: Path,
        policy: SyncPolicy,
        clock: Clock,
        on_reconcile: Callable[[], None] = lambda: None,
        stall_policy: StallPolicy = DEFAULT_STALLS,
    ) -> None:
        """`on_reconcile` is called before each timed look, for what the daemon itself wants to look at then."""
        self._loop = asyncio.get_running_loop()
        self._registry = registry
        self._state_dir = state_dir
        self._cache_dir = cache_dir
        self._clock = clock
        self.workspaces: dict[str, Workspace] = {}
        self.stalls = StallMonitor(
            self.workspaces,
            stall_policy,
            on_checked=self._steps_checked,
            on_stalled=self._stalled,
            on_recovered=self._recovered,
        )
        self._lane = Lane("memsyncd-index", policy=stall_policy, on_returned=self.stalls.note_returned)
        self.stalls.watch(self._lane)
        self._listeners: list[OnSynced] = []
        self._on_reconcile = on_reconcile
        self.rounds = Rounds(
            lane=self._lane,
            policy=policy,
            clock=clock,
            on_synced=self._synced,
            on_folders=self._follow,
            on_reconciled=self._reconciled,
            stalls=self.stalls,
        )
        self.watching = Watching(self.rounds, clock, self.stalls, stall_policy)
        self.writers = Writers(self._lane, self.rounds, clock, self.stalls, on_written=self._written)
        self._tallies: dict[str, Tally] = {}
        self._recovered_s: dict[str, float] = {}
        self._reconcile: asyncio.TimerHandle | None = None
        self._asleep_s = clock.asleep_s()

    @property
    def policy(self) -> SyncPolicy:
        return self.rounds.policy

    def start(self, configured: Iterable[Entry]) -> None:
        """Look after every registered workspace, and reconcile from now on."""
        trouble = self._registry.read(configured)
        if trouble:
            log.warning(Event.CONFIG_WARNING, reason=trouble)
        for entry in self._registry.entries.values():
            self._open(entry)
        self._arm()

    def stop(self) -> bool:
        """Stop watching, end what runs at its next step, close the databases. Takes STOP_S at most, whatever does not return.

        False if a step has not returned: its thread and the databases of its workspace are left as they are.
        """
        if self._reconcile is not None:
            self._reconcile.cancel()
        self.stalls.stop()
        began_s = time.monotonic()
        is_unwatched = self.watching.stop(STOP_S / 2)
        is_idle = self._lane.stop(max(STOP_S / 2, STOP_S - (time.monotonic() - began_s)))
        blocked = self._lane.find_running()
        for workspace in self.workspaces.values():
            if workspace.id not in blocked:
                workspace.close()
        return is_unwatched and is_idle

    def listen(self, on_synced: OnSynced) -> None:
        """Have `on_synced` called on the loop after every sync."""
        self._listeners.append(on_synced)

    def tally(self, workspace: Workspace) -> Tally:
        """What was done for it; goes on when it is opened anew."""
        return self._tallies.setdefault(workspace.id, Tally())

    def take_step(self) -> Future[None]:
        """Have the writer's lane take one step for nobody: done as soon as it makes progress."""
        self.stalls.arm()
        return self._lane.submit(STEP_KEY, take_a_step, is_urgent=True)

    def count_jobs(self) -> int:
        """How many jobs of all workspaces wait for the writer's lane or run on it."""
        return self._lane.count_jobs()

    def find(self, text: str | None) -> Workspace:
        """As `Registry.find`; a path that is not a root is looked for on the disk, which may block."""
        return self.workspaces[self._registry.find(text).id]

    def is_root(self, text: str) -> bool:
        """True if this is exactly the root of a workspace. Looks at no disk."""
        return any(workspace.entry.root == text for workspace in self.workspaces.values())

    def find_near(self, path: str) -> Workspace | None:
        """As `Registry.find_near`."""
        entry = self._registry.find_near(path)
        return None if entry is None else self.workspaces.get(entry.id)

    def find_id(self, path: str) -> str:
        """The id of the workspace that a path belongs to; on any thread, for it may block. Raises WorkspaceNotFound."""
        return self._registry.find(path).id

    def see_folder(self, path: str, silent: Collection[str]) -> SeenFolder:
        """As `Registry.see_folder`."""
        return self._registry.see_folder(path, silent)

    def add(
        self,
        path: str,
        *,
        name: str,
        include: Iterable[str],
        exclude: Iterable[str],
        seen: SeenFolder | None = None,
    ) -> Workspace:
        """Register a folder and look after it from now on. Raises as `Registry.make_entry` and `Registry.add`.

        Looks at no disk but the registry's own if the folder was `seen` before.
        """
        root = seen.root if seen is not None else None
        made = self._registry.make_entry(path, name=name, include=include, exclude=exclude, seen=root)
        entry = self._registry.add(made, seen)
        known = self.workspaces.get(entry.id)
        if known is not None and known.entry == entry:
            return known
        if known is not None:
            self._close(known)
        self._release_gone()
        log.info(Event.WORKSPACE_ADDED, workspace=entry.id, root=entry.root)
        return self._open(entry, known)

    def _release_gone(self) -> None:
        """Close the records of workspaces whose folder is gone, before another is opened: that may be the same folder, moved."""
        for workspace in self.workspaces.values():
            if find_identity(workspace.entry.root) is None:
                self._lane.submit(workspace.id, partial(release_records, workspace), is_urgent=True)

    def remove(self, workspace: Workspace) -> None:
        """Forget a workspace and drop its index; notes and records stay. Raises as `Registry.remove`."""
        self._registry.remove(workspace.entry)
        self._tallies.pop(workspace.id, None)
        self._recovered_s.pop(workspace.id, None)
        self._close(workspace, then=partial(shutil.rmtree, workspace.index_path.parent, ignore_errors=True))
        log.info(Event.WORKSPACE_REMOVED, workspace=workspace.id)

    def reload(self, policy: SyncPolicy, configured: Iterable[Entry]) -> None:
        """Go on by another policy and other configured workspaces; those that differ are opened anew."""
        reading = (policy.chunking, policy.guard, policy.max_file_bytes)
        is_same_reading = reading == (self.policy.chunking, self.policy.guard, self.policy.max_file_bytes)
        was_on = self.watching.is_on
        self._registry.configure(configured)
        self.rounds.set_policy(policy)
        before = dict(self.workspaces)
        for workspace in before.values():
            entry = self._registry.entries.get(workspace.id)
            if entry != workspace.entry or not is_same_reading or was_on != self.watching.is_on:
                self._close(workspace)
            else:
                # A history that was switched on has to know what stands there before anybody changes it.
                self.writers.note_synced(workspace)
        for entry in self._registry.entries.values():
            if entry.id not in self.workspaces:
                self._open(entry, before.get(entry.id))
        self._arm()

    def _open(self, entry: Entry, before: Workspace | None = None) -> Workspace:
        workspace = Workspace(
            entry,
            self.policy,
            index_path=self._cache_dir / entry.id / "index.db",
            records_path=self._state_dir / entry.id / "records.db",
        )
        if before is not None:
            workspace.count_on(before)
        self.workspaces[entry.id] = workspace
        self.rounds.add(workspace)
        self.watching.add(workspace)
        return workspace

    def _close(self, workspace: Workspace, *, then: Callable[[], None] | None = None) -> None:
        self.workspaces.pop(workspace.id, None)
        self.rounds.forget(workspace)
        self.watching.forget(workspace)
        self.stalls.arm()
        closed = self._lane.submit(workspace.id, partial(close_workspace, workspace))
        if then is not None:
            closed.add_done_callback(lambda _: then())

    def _follow(self, workspace: Workspace) -> None:
        self.watching.replan(workspace)

    def _reconciled(self, workspace: Workspace, missed: Collection[str]) -> None:
        self.watching.note_reconciled(workspace, missed)

    def _steps_checked(self) -> None:
        self.watching.note_slow()

    def _stalled(self, workspace: Workspace) -> None:
        """Its disk does not answer: what changes there meanwhile is not known."""
        workspace.note_unscanned(ROOT, self._clock.now_s())

    def _recovered(self, workspace: Workspace) -> None:
        """The disk answers again: look for what was saved meanwhile."""
        # Not again and again for a disk that is merely slow, so that each look takes long enough to count as stalled.
        now_s = self._clock.now_s()
        is_first = now_s - self._recovered_s.get(workspace.id, float("-inf")) > self.policy.reconcile_s
        if self.policy.is_enabled and is_first:
            self._recovered_s[workspace.id] = now_s
            self.rounds.look(workspace)

    def _synced(self, workspace: Workspace, done: SyncDone) -> None:
        """After each sync, whatever led to it: its figures, its line in the log, and then those who listen."""
        self.tally(workspace).count_sync(done)
        (log.info if done.paths else log.debug)(Event.SYNC_DONE, workspace=workspace.id, **done.describe())
        self.writers.note_synced(workspace)
        for listener in self._listeners:
            listener(workspace, done)

    def _written(self, workspace: Workspace) -> None:
        self.tally(workspace).n_writes += 1

    def _arm(self) -> None:
        if self._reconcile is not None:
            self._reconcile.cancel()
        self._reconcile = self._loop.call_later(self.policy.reconcile_s, self._reconcile_all)

    def _reconcile_all(self) -> None:
        self._arm()
        self._on_reconcile()
        asleep_s = self._clock.asleep_s()
        if asleep_s - self._asleep_s > SLEPT_S:
            self.watching.report_events_lost("the machine has slept")
        self._asleep_s = asleep_s
        try:
            # Not both at once: two threads that want Python's one lock wake up for it again and again.
            self.rounds.reconcile(then=self.watching.supervise)
        except MemsyncdError as failure:
            log.error(Event.SYNC_FAILED, reason=failure.message)
