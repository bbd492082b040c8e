"""Decide whose turn it is: which job of a worker pool and which request of a client runs next, when
a long read pauses for short ones, and which running step holds its worker for too long.

Each job of a pool has a key, the workspace. Two jobs of one key never run at the same time. A step
that has not returned for `takeover_s` gives its place in the pool to another thread, which serves
all other keys. After `stalled_s` its key counts as stalled. The caller passes the time as `now_s`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec


class StallPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long a step may take, in seconds. A healthy commit or VACUUM takes seconds too, so a
    takeover must be harmless for it.
    """

    takeover_s: float = 2.0
    stalled_s: float = 10.0


class Step(msgspec.Struct, frozen=True):
    """A running step. `is_detached` is true once its worker has given up its place in the pool."""

    since_s: float
    is_detached: bool = False
    thread_id: int = 0
    activity: tuple[int, ...] = ()
    """Numbers that change while its thread runs, as they were at the last check."""
    active_s: float = -math.inf
    """The time of the last check that found these numbers changed."""

    @property
    def silent_since_s(self) -> float:
        """The last time at which the step began or its thread was seen to work."""
        return max(self.since_s, self.active_s)


def choose_key(waiting: Iterable[tuple[str, bool]], running: Collection[str]) -> str | None:
    """The first waiting key with an urgent job, else the first waiting key; running keys are left
    out. `waiting` has keys and whether their job is urgent, in the order of turns.
    """
    first = None
    for key, is_urgent in waiting:
        if key in running:
            continue
        if is_urgent:
            return key
        first = key if first is None else first
    return first


def find_overdue(running: Mapping[str, Step], now_s: float, policy: StallPolicy) -> list[str]:
    """The keys whose steps should give up their places now."""
    return [
        key
        for key, step in running.items()
        if not step.is_detached and now_s - step.since_s >= policy.takeover_s
    ]


def find_stalled(
    running: Mapping[str, Step], now_s: float, policy: StallPolicy
) -> dict[str, float]:
    """The keys that count as stalled, with the time in seconds since which each has stalled."""
    return {
        key: step.silent_since_s
        for key, step in running.items()
        if now_s - step.silent_since_s >= policy.stalled_s
    }


def find_next_check_s(running: Iterable[Step], now_s: float, policy: StallPolicy) -> float:
    """The seconds until the next check: then the first step may pass a limit. A step that begins
    meanwhile is included.
    """
    ages_s = [now_s - step.silent_since_s for step in running]
    limits_s = (policy.takeover_s, policy.stalled_s)
    return min(
        [
            policy.takeover_s,
            *(limit_s - age_s for age_s in ages_s for limit_s in limits_s if limit_s > age_s),
        ]
    )


def describe_stall(root: str, seconds: float, database: str = "") -> str:
    """The message for a workspace whose disk does not answer. `database` is the path of one of its
    databases, if the disk of the database does not answer.
    """
    place = f"{database}, a database of {root}," if database else root
    return (
        f"the disk under {place} has not answered for {seconds:.0f} s: what is saved in {root} is"
        " not indexed meanwhile, and what is indexed stays searchable; check the mount"
    )


# --- Turns of clients -----------------------------------------------------------------------------
# Clients take turns (round-robin), and the jobs of one client start in the order in which they
# came. Clients that need little time go before clients that need much. The estimate is the time
# that a client's last jobs took, doubled if it has several jobs. One start in four belongs to the
# client that has waited longest, so that no client waits for ever. Long jobs never take all slots,
# so that a short job need not wait until a long one ends.

QUICK_S = 0.03
"""A job is long if its expected time is above this. A search over 10,000 chunks takes 3 to 10 ms
for a few words, and 20 ms for a long sentence.
"""
UNKNOWN_S = 0.1
"""Expected time of a job from a client that has sent several jobs, before the first has ended."""
MAX_PASSED_OVER = 3
"""How many jobs of others may start in a row before the client that has waited longest."""

Job = TypeVar("Job")


class Flow(msgspec.Struct, Generic[Job], eq=False):
    """The jobs of one client. Keep it while the client is connected."""

    expected_s: float | None = None
    """Expected time of its next job; None until one has ended."""
    n_running: int = 0
    waiting: deque[Job] = msgspec.field(default_factory=deque)

    @property
    def is_slow(self) -> bool:
        """True if its jobs are long. Until one has ended: true if it has more than one job."""
        if self.expected_s is None:
            return self.n_jobs > 1
        return self.expected_s > QUICK_S

    @property
    def n_jobs(self) -> int:
        return len(self.waiting) + self.n_running

    @property
    def level(self) -> int:
        """How much time the client needs: 0 for up to `QUICK_S`, and one more for each doubling.

        Levels are coarse, because the clients of one level take turns. More than two jobs count as
        two: otherwise a client with many jobs would wait until the clients with few had ended.
        """
        if self.expected_s is None:
            wanted_s = 2 * UNKNOWN_S if self.n_jobs > 1 else QUICK_S
        else:
            wanted_s = min(self.n_jobs, 2) * self.expected_s
        return max(0, math.ceil(math.log2(max(wanted_s, QUICK_S) / QUICK_S)))

    def note(self, took_s: float) -> None:
        """Record the time of an ended job. The last job counts half of the expected time."""
        self.expected_s = took_s if self.expected_s is None else (self.expected_s + took_s) / 2


class Started(NamedTuple, Generic[Job]):
    """A job that holds a slot until it is handed to `FairQueue.finish`."""

    flow: Flow[Job]
    job: Job
    was_slow: bool


class FairQueue(Generic[Job]):
    """Waiting jobs of any number of clients, and the number of running jobs.

    At most `n_slots` jobs run at once, and at most `n_slow_slots` jobs of slow clients: by default
    all slots but one, and at least one.
    """

    __slots__ = (
        "_flows",
        "_n_passed_over",
        "_n_slots",
        "_n_slow_running",
        "_n_slow_slots",
        "n_running",
    )

    def __init__(self, n_slots: int, *, n_slow_slots: int | None = None) -> None:
        self._n_slots = n_slots
        self._n_slow_slots = max(1, n_slots - 1) if n_slow_slots is None else n_slow_slots
        self._flows: dict[Flow[Job], None] = {}  # clients with waiting jobs, the next one first
        self._n_slow_running = 0
        self._n_passed_over = 0
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

        After each `push` and `finish`, call it until it returns None.
        """
        flow = self._choose() if self.n_running < self._n_slots else None
        if flow is None:
            return None
        is_first = flow is next(iter(self._flows))
        self._n_passed_over = 0 if is_first else self._n_passed_over + 1
        was_slow = flow.is_slow
        started = Started(flow, flow.waiting.popleft(), was_slow)
        del self._flows[flow]
        if flow.waiting:
            self._flows[flow] = None  # at the end, behind the other clients
        flow.n_running += 1
        self.n_running += 1
        self._n_slow_running += started.was_slow
        return started

    def finish(self, started: Started[Job], took_s: float | None = None) -> None:
        """Free the slot of a job that has ended, or that will not run after all.

        `took_s` is the time that the job took; None if it did not run.
        """
        started.flow.n_running -= 1
        self.n_running -= 1
        self._n_slow_running -= started.was_slow
        if took_s is not None:
            started.flow.note(took_s)

    def remove(self, flow: Flow[Job], job: Job) -> bool:
        """Remove a waiting job. False if it does not wait."""
        if job not in flow.waiting:
            return False
        flow.waiting.remove(job)
        if not flow.waiting:
            del self._flows[flow]
        return True

    def clear(self, flow: Flow[Job]) -> list[Job]:
        """Remove and return all waiting jobs of one client."""
        jobs = list(flow.waiting)
        flow.waiting.clear()
        self._flows.pop(flow, None)
        return jobs

    def clear_all(self) -> list[Job]:
        return [job for flow in tuple(self._flows) for job in self.clear(flow)]

    def _choose(self) -> Flow[Job] | None:
        may_be_slow = self._n_slow_running < self._n_slow_slots
        eligible = [flow for flow in self._flows if may_be_slow or not flow.is_slow]
        if not eligible:
            return None
        if self._n_passed_over >= MAX_PASSED_OVER:
            return eligible[0]
        return min(eligible, key=lambda flow: flow.level)  # the first of equal ones


# --- Pauses of long reads -------------------------------------------------------------------------


class Pauses(msgspec.Struct):
    """When one long read may pause for short ones. After each pause the read runs at least as long
    as the pause took, so that pauses never take more than half of its time.
    """

    run_until_s: float = -math.inf

    def may_begin(self, now_s: float) -> bool:
        return now_s >= self.run_until_s

    def note(self, began_s: float, ended_s: float) -> None:
        """Record a pause that has ended."""
        self.run_until_s = ended_s + (ended_s - began_s)
