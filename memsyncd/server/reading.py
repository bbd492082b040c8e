"""Reads for clients away from the event loop, and looks after an index that fails meanwhile."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from memsyncd.engine.house import House
from memsyncd.engine.queries import QueryThreads
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import StoreFailed
from memsyncd.server.freshness import say_stalled, wait_for_work
from memsyncd.store.patience import Patience

DISK_S = 30.0
"""How long a reading waits for its disk; one that is known to be stalled is not waited for."""

T = TypeVar("T")


class Reading:
    """Hands readings to the query threads; `n_reads` of them wait or run."""

    def __init__(self, house: House, threads: QueryThreads) -> None:
        self._house = house
        self._threads = threads
        self.n_reads = 0
        house.stalls.watch(threads.pool)

    async def in_thread(self, read: Callable[[], T], limit_s: float = math.inf, *, disk_of: Workspace | None = None) -> T:
        """Read away from the loop, until the client leaves.

        What reads the disk of a workspace says so: NotFresh if that does not answer.
        """
        self.n_reads += 1
        patience = Patience(limit_s)
        try:
            if disk_of is None:
                return await asyncio.wrap_future(self._threads.submit(patience.run, read))
            return await self._read_disk(disk_of, partial(patience.run, read))
        except StoreFailed as failure:
            self._house.rounds.report_damage(failure)
            raise
        finally:
            patience.give_up()
            self.n_reads -= 1
            self._house.stalls.relax()

    async def _read_disk(self, workspace: Workspace, read: Callable[[], T]) -> T:
        if self._house.stalls.is_stalled(workspace):
            raise say_stalled(workspace)
        self._house.stalls.arm()
        future = self._threads.read_disk(workspace.id, read)
        try:
            return await wait_for_work(self._house, workspace, future, DISK_S)
        finally:
            future.cancel()
