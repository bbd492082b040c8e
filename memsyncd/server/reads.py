"""Runs reads for clients on the query threads in fair turns; says which the event loop may try.

The time of a read counts from its request's arrival. One that is overdue before its turn comes is
refused then and does not run.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from typing import Any, TypeVar

from memsyncd.core.fairqueue import FairQueue, Flow
from memsyncd.engine.policies import Clock
from memsyncd.errors import NotFresh
from memsyncd.server.session import Session, current_request
from memsyncd.store.patience import Patience

REST_FACTOR = 10
"""After a try in vain on the event loop the next one waits so many times as long as it took."""

Waiter = asyncio.Future[Any]
"""Of a read that waits; its result is the `Started` of the queue."""
T = TypeVar("T")


class Reads:
    """Reads on `threads`, at most `max_running` at once, for the client of the current request."""

    def __init__(self, threads: Executor, clock: Clock, max_running: int) -> None:
        self._threads = threads
        self._clock = clock
        self._turns = ReadTurns(max_running)
        self.n_pending = 0
        """Reads that wait or run."""

    async def run(self, read: Callable[[], T], end_s: float = math.inf) -> T:
        """What `read` gives, when it is the client's turn.

        It is stopped when the client leaves, and at `end_s` by the clock.

        Raises NotFresh if its turn does not come until then.
        """
        origin = current_request.get()
        self.n_pending += 1
        try:
            async with self._turns.turn(origin.session.reads if origin else Flow(), end_s) as turn:
                return await self._run_in_thread(read, Patience(end_s - self._clock.now_s()), turn)
        finally:
            self.n_pending -= 1

    async def _run_in_thread(self, read: Callable[[], T], patience: Patience, turn: Turn) -> T:
        def run() -> T:
            # Not by the wall clock: waiting for other threads is no sign of a long read.
            began_s = time.thread_time()
            try:
                return patience.run(read)
            finally:
                turn.took_s = time.thread_time() - began_s

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, run)
        finally:
            patience.give_up()


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
