"""Runs reads for clients on the query threads in fair turns; says which the event loop may try.

The time of a read counts from its request's arrival. One that is overdue before its turn comes is
refused then and does not run. A read of a workspace's disk takes no turn: the disk may block it,
and the query threads run one of each workspace at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from memsyncd.core.fairqueue import FairQueue, Flow
from memsyncd.engine.house import House
from memsyncd.engine.policies import Clock
from memsyncd.engine.queries import QueryThreads
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import NotFresh, StoreFailed
from memsyncd.server.session import Session, current_request
from memsyncd.server.waits import make_stall_error, wait_for_work
from memsyncd.store.patience import Patience

REST_FACTOR = 10
"""After a try in vain on the event loop the next one waits so many times as long as it took."""

DISK_S = 30.0
"""How long a read waits for its disk; one that is known to be stalled is not waited for."""

Waiter = asyncio.Future[Any]
"""Of a read that waits; its result is the `Started` of the queue."""
T = TypeVar("T")


class Reads:
    """Reads on `threads`, at most `max_running` at once, for the client of the current request."""

    def __init__(self, house: House, threads: QueryThreads, clock: Clock, max_running: int) -> None:
        self.threads = threads
        self._house = house
        self._clock = clock
        self._turns = ReadTurns(max_running)
        self.n_pending = 0
        """Reads that wait or run."""
        house.stalls.watch(threads.pool)

    async def run(self, read: Callable[[], T], end_s: float = math.inf, *, disk_of: Workspace | None = None) -> T:
        """Return what `read` gives. It is stopped when the client leaves, and at `end_s` by the clock.

        A read of a workspace's disk names the workspace. Raises NotFresh if the turn does not come
        until `end_s`, or if that disk does not answer. An index that fails meanwhile is looked after.
        """
        self.n_pending += 1
        try:
            if disk_of is not None:
                return await self._read_disk(disk_of, read, end_s)
            origin = current_request.get()
            async with self._turns.turn(origin.session.reads if origin else Flow(), end_s) as turn:
                return await self._run_in_thread(read, Patience(end_s - self._clock.now_s()), turn)
        except StoreFailed as failure:
            self._house.rounds.report_damage(failure)
            raise
        finally:
            self.n_pending -= 1
            self._house.stalls.relax()

    async def _run_in_thread(self, read: Callable[[], T], patience: Patience, turn: Turn) -> T:
        def run() -> T:
            # Not by the wall clock: waiting for other threads is no sign of a long read.
            began_s = time.thread_time()
            try:
                return patience.run(read)
            finally:
                turn.took_s = time.thread_time() - began_s

        try:
            return await asyncio.wrap_future(self.threads.submit(run))
        finally:
            patience.give_up()

    async def _read_disk(self, workspace: Workspace, read: Callable[[], T], end_s: float) -> T:
        if self._house.stalls.is_stalled(workspace):
            raise make_stall_error(workspace)
        self._house.stalls.arm()
        patience = Patience(end_s - self._clock.now_s())
        future = self.threads.read_disk(workspace.id, partial(patience.run, read))
        try:
            return await wait_for_work(self._house, workspace, future, DISK_S)
        finally:
            patience.give_up()
            future.cancel()


class Turn:
    """A read's slot. Its holder sets `took_s`, by which the client's next reads are judged."""

    __slots__ = ("took_s",)

    def __init__(self) -> None:
        self.took_s: float | None = None


class ReadTurns:
    """Lets reads wait for their turn; at most `max_running` run, for which there are threads."""

    __slots__ = ("_queue",)

    def __init__(self, max_running: int) -> None:
        self._queue: FairQueue[Waiter] = FairQueue(max_running)

    @contextlib.asynccontextmanager
    async def turn(self, flow: Flow[Waiter], end_s: float = math.inf) -> AsyncIterator[Turn]:
        """Hold a slot inside. Raises NotFresh if there is none until `end_s`, by the loop's clock."""
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._queue.push(flow, waiter)
        self._start_waiting()
        timer = None if end_s == math.inf else loop.call_at(end_s, _expire, waiter)
        turn = Turn()
        try:
            await waiter
            if loop.time() >= end_s:
                raise overdue()
            yield turn
        finally:
            if timer is not None:
                timer.cancel()
            waiter.cancel()
            if waiter.cancelled() or waiter.exception() is not None:
                self._queue.remove(flow, waiter)
            else:
                self._queue.finish(waiter.result(), turn.took_s)
            self._start_waiting()

    def _start_waiting(self) -> None:
        for started in iter(self._queue.start_next, None):
            if started.job.done():  # expired, or its client has left: its task is about to see that
                self._queue.finish(started)
            else:
                started.job.set_result(started)


def overdue() -> NotFresh:
    """What a request is answered whose time was over before it could run."""
    return NotFresh(
        "the time for this request was over before its turn came: other requests ran meanwhile",
        hint="ask again, send fewer requests at once, or ask with a longer timeout_ms",
    )


def _expire(waiter: Waiter) -> None:
    if not waiter.done():
        waiter.set_exception(overdue())


class LoopTurns:
    """Which searches are tried on the event loop before they go to a thread.

    A try in vain holds up all clients, and a thread does its work again. So a client gets none while
    another request of its own waits or runs, and none while its searches take long. After a try in
    vain clients of which no short search is known get none for ten times as long as that took.
    """

    __slots__ = ("_clock", "_rest_until_s")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rest_until_s = -math.inf

    def may_try(self, session: Session) -> bool:
        if session.n_pending or session.reads.is_slow:
            return False
        return session.reads.expected_s is not None or self._clock.now_s() >= self._rest_until_s

    @contextlib.contextmanager
    def trying(self, session: Session) -> Iterator[None]:
        """The try. What is raised inside was in vain."""
        began_s = time.thread_time()
        try:
            yield
        except BaseException:
            self._rest_until_s = self._clock.now_s() + REST_FACTOR * (time.thread_time() - began_s)
            raise
        session.reads.note(time.thread_time() - began_s)


def find_arrival_s(clock: Clock) -> float:
    """When the current request arrived; now, if there is none."""
    origin = current_request.get()
    return clock.now_s() if origin is None else origin.arrived_s
