"""How do writes and questions about the past get their turn, and who learns what they changed?

Each is a job of the lane, before other work of its workspace that waits. What a write changed is told as of any sync; after every
sync, the records learn what others have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from memsyncd.engine.edit import EditOutcome
from memsyncd.engine.lane import Lane, Steps
from memsyncd.engine.outside import PRUNE_AFTER, catch_up, prune
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.rounds import Rounds
from memsyncd.engine.stalls import StallMonitor
from memsyncd.engine.workspaces import Workspace

T = TypeVar("T")
Job = Callable[[Workspace, SyncPolicy, Clock], Steps[T]]
"""What the lane shall do for a workspace, by the policy that is in force when its turn comes."""


class Writers:
    """Hands jobs to the lane. Lives on the running loop."""

    def __init__(
        self, lane: Lane, rounds: Rounds, clock: Clock, stalls: StallMonitor, *, on_written: Callable[[Workspace], None]
    ) -> None:
        """`on_written(workspace)` is called on the loop after every change that was carried out."""
        self._loop = asyncio.get_running_loop()
        self._lane = lane
        self._rounds = rounds
        self._clock = clock
        self._stalls = stalls
        self._on_written = on_written
        self._looking: set[str] = set()

    def edit(self, workspace: Workspace, job: Job[EditOutcome[T]]) -> Future[EditOutcome[T]]:
        """Have a change made; whoever listens hears of it as of any sync."""
        future = self.ask(workspace, job)
        future.add_done_callback(partial(self._ended, workspace))
        return future

    def ask(self, workspace: Workspace, job: Job[T]) -> Future[T]:
        """Have a job done that needs the records."""
        self._stalls.arm()
        return self._lane.submit(workspace.id, partial(self._start, workspace, job), is_urgent=True)

    def note_synced(self, workspace: Workspace) -> None:
        """Have the records learn what all notes say, unless they know: each sync tells them of changes from then on."""
        is_wanted = self._rounds.policy.history.is_enabled and workspace.records is not None and not workspace.is_seen
        if is_wanted and workspace.id not in self._looking:
            self._looking.add(workspace.id)
            self._go_on(workspace, catch_up, then=partial(self._caught_up, workspace))

    def _caught_up(self, workspace: Workspace) -> None:
        self._looking.discard(workspace.id)
        self._rounds.tidy_later(workspace)

    def _go_on(self, workspace: Workspace, job: Job[bool], *, then: Callable[[], None] | None = None) -> None:
        """Have a long job done a slice at a time, each behind what waits by then; `then` is called on the loop at the end."""
        self._stalls.arm()
        future = self._lane.submit(workspace.id, partial(self._start, workspace, job))
        future.add_done_callback(partial(self._slice_ended, workspace, job, then))

    def _slice_ended(self, workspace: Workspace, job: Job[bool], then: Callable[[], None] | None, future: Future[bool]) -> None:
        """On the lane's thread."""
        if not future.cancelled() and future.exception() is None and future.result():
            self._go_on(workspace, job, then=then)
        elif then is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(then)

    def _start(self, workspace: Workspace, job: Job[T]) -> Steps[T]:
        return job(workspace, self._rounds.policy, self._clock)

    def _ended(self, workspace: Workspace, future: Future[EditOutcome[Any]]) -> None:
        """On the lane's thread."""
        if future.cancelled() or future.exception() is not None:
            return
        edited = future.result()
        try:
            self._loop.call_soon_threadsafe(self._tell, workspace, edited)
        except RuntimeError:
            return  # the loop has ended, and with it everybody who could listen

    def _tell(self, workspace: Workspace, edited: EditOutcome[Any]) -> None:
        self._stalls.relax()
        if workspace.n_unpruned >= PRUNE_AFTER:
            self._go_on(workspace, prune)
        outcome = edited.synced or edited.failure
        if outcome is not None:
            self._on_written(workspace)
            self._rounds.take_over(workspace, outcome)
