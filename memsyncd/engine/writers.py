"""How do writes and questions about the past get their turn, and who learns what they changed?

Each is a job of the lane, before other work of its workspace that waits. What a write changed is told as of any sync; after every
sync, the records learn what others have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from memsyncd.engine.edit import Edited
from memsyncd.engine.lane import Lane, Steps
from memsyncd.engine.outside import see_changes
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.rounds import Rounds
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workspaces import Workspace

T = TypeVar("T")
Job = Callable[[Workspace, SyncPolicy, Clock], Steps[T]]
"""What the lane shall do for a workspace, by the policy that is in force when its turn comes."""


class Writers:
    """Hands jobs to the lane. Lives on the running loop."""

    def __init__(self, lane: Lane, rounds: Rounds, clock: Clock, *, on_written: Callable[[Workspace], None]) -> None:
        """`on_written(workspace)` is called on the loop after every change that was carried out."""
        self._loop = asyncio.get_running_loop()
        self._lane = lane
        self._rounds = rounds
        self._clock = clock
        self._on_written = on_written
        self._seen: set[str] = set()

    def edit(self, workspace: Workspace, job: Job[Edited[T]]) -> Future[Edited[T]]:
        """Have a change made; whoever listens hears of it as of any sync."""
        future = self.ask(workspace, job)
        future.add_done_callback(partial(self._ended, workspace))
        return future

    def ask(self, workspace: Workspace, job: Job[T]) -> Future[T]:
        """Have a job done that needs the records."""
        return self._lane.submit(workspace.id, partial(self._start, workspace, job), is_urgent=True)

    def note_synced(self, workspace: Workspace, done: SyncDone) -> None:
        """Have the records learn what was changed: after a workspace's first sync of all there is, then of what each one saw."""
        if workspace.records is None:
            # Once they can be opened again, everything has to be looked at.
            self._seen.discard(workspace.id)
        elif workspace.id not in self._seen:
            self._seen.add(workspace.id)
            self._see(workspace, None)
        elif done.paths:
            self._see(workspace, frozenset((*done.paths, *done.discovered, *done.removed)))

    def forget(self, workspace: Workspace) -> None:
        """It is looked after no more; when it comes again, everything is looked at again."""
        self._seen.discard(workspace.id)

    def _start(self, workspace: Workspace, job: Job[T]) -> Steps[T]:
        return job(workspace, self._rounds.policy, self._clock)

    def _see(self, workspace: Workspace, only: frozenset[str] | None) -> None:
        self._lane.submit(workspace.id, partial(self._start, workspace, partial(see_changes, only=only)))

    def _ended(self, workspace: Workspace, future: Future[Edited[Any]]) -> None:
        """On the lane's thread."""
        if future.cancelled() or future.exception() is not None:
            return
        edited = future.result()
        try:
            self._loop.call_soon_threadsafe(self._tell, workspace, edited)
        except RuntimeError:
            return  # the loop has ended, and with it everybody who could listen

    def _tell(self, workspace: Workspace, edited: Edited[Any]) -> None:
        outcome = edited.synced or edited.failure
        if outcome is not None:
            self._on_written(workspace)
            self._rounds.take_over(workspace, outcome)
