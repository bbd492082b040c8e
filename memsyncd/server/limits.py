"""How much clients may ask of the server, and the order in which what they ask for runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from memsyncd.core.fairqueue import FairQueue, Flow, Started

ROUND_S = 0.004
"""How long the event loop works on lines that were read before it reads new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one client, or all of them together, can take. A time of 0 s means: no limit."""

    max_clients: int = 256
    max_line_bytes: int = 4 * 1024 * 1024
    max_running: int = 8
    """Slow requests at once, of all clients together; more wait their turn."""
    max_pending_per_client: int = 32
    """Requests of one client without an answer yet; at this many its further lines wait unread."""
    max_write_buffer_bytes: int = 8 * 1024 * 1024
    """A client that leaves more than this unread is dropped."""
    max_reply_bytes: int = 8 * 1024 * 1024
    max_held_bytes: int = 64 * 1024 * 1024
    """Unfinished lines and unread answers of all clients together; beyond it whoever holds most is dropped."""
    line_timeout_s: float = 10.0
    """From the first byte of a line to its newline."""
    write_timeout_s: float = 30.0
    """How long a client may leave a full buffer wholly unread."""
    idle_timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """Something that waits for its turn: exactly one of the two is called, once.

    `start` gets what it must call when the job is done.
    """

    start: Callable[[Callable[[], None]], None]
    drop: Callable[[], None]


class Turns:
    """Starts jobs as a fair queue says, at most `max_running` at once."""

    __slots__ = ("_queue",)

    def __init__(self, max_running: int) -> None:
        self._queue: FairQueue[Job] = FairQueue(max_running, n_slow_slots=max_running)

    @property
    def n_running(self) -> int:
        return self._queue.n_running

    @property
    def n_waiting(self) -> int:
        return self._queue.n_waiting

    def submit(self, flow: Flow[Job], job: Job) -> None:
        """Start the job now or when its turn comes."""
        self._queue.push(flow, job)
        self._start_waiting()

    def forget(self, flow: Flow[Job]) -> None:
        """Drop what this client still has waiting."""
        for job in self._queue.clear(flow):
            job.drop()

    def forget_all(self) -> None:
        for job in self._queue.clear_all():
            job.drop()

    def _start_waiting(self) -> None:
        for started in iter(self._queue.start_next, None):
            started.job.start(partial(self._finish, started))

    def _finish(self, started: Started[Job]) -> None:
        self._queue.finish(started)
        self._start_waiting()


class Worker(Protocol):
    """What `Backlog` gives turns to."""

    def work_on(self) -> None: ...


class Backlog:
    """Connections with lines that were read and are not carried out yet take turns.

    Between rounds the event loop reads new bytes, so that a client that sends one line does not wait
    until those are done that have sent thousands.
    """

    __slots__ = ("_is_scheduled", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[Worker, None] = {}
        self._is_scheduled = False

    def add(self, worker: Worker) -> None:
        """Give it a turn after those that wait already. Once more before its turn: nothing."""
        self._waiting.setdefault(worker)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_round)

    def _run_round(self) -> None:
        self._is_scheduled = False
        until_s = self._loop.time() + ROUND_S
        while self._waiting and self._loop.time() < until_s:
            worker = next(iter(self._waiting))
            del self._waiting[worker]
            worker.work_on()
        self._schedule()
