"""Decides which client's job runs next when more jobs wait than may run at once.

Clients take turns (round-robin), and the jobs of one client start in the order in which they came.
Clients whose jobs are short go before clients whose jobs are long, but one start in four belongs to
the latter, so that nobody waits for ever. Jobs of slow clients never take all slots, so that a
short job does not wait until a long one ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

QUICK_S = 0.02
"""A client whose jobs are expected to take no longer is quick. Searches of a few words over 10,000
chunks take 3 to 10 ms.
"""
QUICK_IN_A_ROW = 3
"""Starts of quick clients in a row while a slow one waits."""

Job = TypeVar("Job")


@dataclass(slots=True, eq=False)
class Flow(Generic[Job]):
    """The jobs of one client. Keep one for as long as the client lives."""

    expected_s: float | None = None
    """What its next job is expected to take; None until one has ended."""
    n_running: int = 0
    waiting: deque[Job] = field(default_factory=deque)

    @property
    def is_slow(self) -> bool:
        """True if its jobs are long. While none has ended: if there is more than one of them."""
        if self.expected_s is None:
            return len(self.waiting) + self.n_running > 1
        return self.expected_s > QUICK_S

    def note(self, took_s: float) -> None:
        """A job of this client has taken so long: the last one counts half."""
        self.expected_s = took_s if self.expected_s is None else (self.expected_s + took_s) / 2


class Started(NamedTuple, Generic[Job]):
    """A job that holds a slot until it is handed to `FairQueue.finish`."""

    flow: Flow[Job]
    job: Job
    was_slow: bool


class FairQueue(Generic[Job]):
    """Waiting jobs of any number of clients, and how many run.

    `n_slots` jobs run at once, of slow clients at most `n_slow_slots`: by default all but one, and
    one if there is but one.
    """

    __slots__ = ("_flows", "_n_quick_in_a_row", "_n_slots", "_n_slow_running", "_n_slow_slots", "n_running")

    def __init__(self, n_slots: int, *, n_slow_slots: int | None = None) -> None:
        self._n_slots = n_slots
        self._n_slow_slots = max(1, n_slots - 1) if n_slow_slots is None else n_slow_slots
        self._flows: dict[Flow[Job], None] = {}  # those with jobs waiting, the next one first
        self._n_slow_running = 0
        self._n_quick_in_a_row = 0
        self.n_running = 0

    @property
    def n_waiting(self) -> int:
        return sum(len(flow.waiting) for flow in self._flows)

    def push(self, flow: Flow[Job], job: Job) -> None:
        """Let the job wait; `start_next` says when to start it."""
        flow.waiting.append(job)
        self._flows.setdefault(flow)

    def start_next(self) -> Started[Job] | None:
        """The next job, which holds a slot from now on; None if none may start now.

        Call it until it gives None after each `push` and `finish`.
        """
        flow = self._choose() if self.n_running < self._n_slots else None
        if flow is None:
            return None
        was_slow = flow.is_slow
        started = Started(flow, flow.waiting.popleft(), was_slow)
        del self._flows[flow]
        if flow.waiting:
            self._flows[flow] = None  # at the end: the others come first now
        flow.n_running += 1
        self.n_running += 1
        self._n_slow_running += started.was_slow
        self._n_quick_in_a_row = 0 if started.was_slow else self._n_quick_in_a_row + 1
        return started

    def finish(self, started: Started[Job], took_s: float | None = None) -> None:
        """The job has ended, or will not run after all: its slot is free.

        `took_s` tells how long it took, if it ran, and so what to expect of the client's next.
        """
        started.flow.n_running -= 1
        self.n_running -= 1
        self._n_slow_running -= started.was_slow
        if took_s is not None:
            started.flow.note(took_s)

    def remove(self, flow: Flow[Job], job: Job) -> bool:
        """Let the job wait no longer. False if it does not wait."""
        if job not in flow.waiting:
            return False
        flow.waiting.remove(job)
        if not flow.waiting:
            del self._flows[flow]
        return True

    def clear(self, flow: Flow[Job]) -> list[Job]:
        """Take out all that waits of one client."""
        jobs = list(flow.waiting)
        flow.waiting.clear()
        self._flows.pop(flow, None)
        return jobs

    def clear_all(self) -> list[Job]:
        return [job for flow in tuple(self._flows) for job in self.clear(flow)]

    def _choose(self) -> Flow[Job] | None:
        quick = next((flow for flow in self._flows if not flow.is_slow), None)
        if self._n_slow_running >= self._n_slow_slots or (quick is not None and self._n_quick_in_a_row < QUICK_IN_A_ROW):
            return quick
        return next((flow for flow in self._flows if flow.is_slow), quick)
