"""Runs jobs on daemon threads, at most `n_workers` steps at a time, and goes on when a step does not return.

A job is a generator function: each `yield` is a place where another key's job may go between. Jobs of one key run in the order
given, never two at a time; between keys an urgent job goes first, the others take turns. Threads sleep when there is nothing to
do. A step that takes long keeps its thread but loses its place in the pool: another thread serves the other keys, so that each
key holds at most one thread. Whoever owns the pool calls `relieve` while there are jobs; the pool has no timer of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from memsyncd.core.scheduling import StallPolicy, Step, choose_key, find_overdue
from memsyncd.errors import ShuttingDown

T = TypeVar("T")
Steps = Generator[None, None, T]


@dataclass(slots=True, eq=False)
class _Job:
    start: Callable[[], Steps[Any]]
    is_urgent: bool
    may_stall: bool
    done: Future[Any]
    steps: Steps[Any] | None = None


@dataclass(slots=True)
class _Outcome:
    """How a job has ended."""

    value: Any = None
    failure: BaseException | None = None

    def tell(self, done: Future[Any]) -> None:
        if done.cancelled():
            return
        if self.failure is None:
            done.set_result(self.value)
        else:
            done.set_exception(self.failure)


class WorkerPool:
    """Threads that run jobs. `submit` may be called from any thread; results and failures come in the future.

    The threads are daemon threads, and the interpreter's end waits for none of them. `on_returned(key)` is called on a worker's
    thread after a step that had lost its place in the pool.
    """

    def __init__(
        self,
        name: str,
        n_workers: int = 1,
        *,
        policy: StallPolicy | None = None,
        on_returned: Callable[[str], None] = lambda _key: None,
    ) -> None:
        self._name = name
        self._n_workers = n_workers
        self._policy = policy or StallPolicy()
        self._on_returned = on_returned
        self._queues: dict[str, deque[_Job]] = {}
        self._running: dict[str, Step] = {}
        self._slow: set[str] = set()
        """Keys whose last step took so long that the next one gets a thread of its own at once."""
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._n_attached = self._n_idle = 0
        """Threads that have a place in the pool, and those of them that sleep."""
        self._numbers = itertools.count(1)
        self._is_stopping = False

    def submit(self, key: str, start: Callable[[], Steps[T]], *, is_urgent: bool = False, may_stall: bool = True) -> Future[T]:
        """Queue a job behind those of the same key. After `stop` it fails with ShuttingDown, as one does that waits then.

        One that cannot stall keeps its place in the pool however long it takes.
        """
        job = _Job(start=start, is_urgent=is_urgent, may_stall=may_stall, done=Future())
        with self._changed:
            if self._is_stopping:
                job.done.set_exception(_is_leaving())
                return job.done
            self._queues.setdefault(key, deque()).append(job)
            self._wake()
        return job.done

    def call(self, call: Callable[[], T], key: str | None = None) -> Future[T]:
        """Have this called once: behind other jobs of its key, or without a key as soon as a thread is free."""
        name = f"#{next(self._numbers)}" if key is None else key
        return self.submit(name, lambda: _call_once(call), may_stall=key is not None)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Begin with what is submitted inside only once all of it is there: who submits need not take turns with the thread."""
        with self._changed:
            yield

    def relieve(self, now_s: float) -> None:
        """Have other threads take the places of steps that take too long."""
        with self._changed:
            for key in find_overdue(self._running, now_s, self._policy):
                if self._queues[key][0].may_stall:
                    self._detach(key)
                    self._wake()

    @property
    def is_busy(self) -> bool:
        """True while jobs wait or run. Takes no lock."""
        return bool(self._queues)

    def find_running(self) -> dict[str, Step]:
        """The steps that run now and may stall, by their keys."""
        with self._changed:
            return {key: step for key, step in self._running.items() if self._queues[key][0].may_stall}

    def stop(self, timeout_s: float) -> bool:
        """Refuse new jobs, end those that run at their next step, fail those that wait. False if a step has not returned."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            threads = list(self._threads)
        end_s = time.monotonic() + timeout_s
        for thread in threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        self._abandon()
        return not any(thread.is_alive() for thread in threads)

    def is_alive(self) -> bool:
        return any(thread.is_alive() for thread in list(self._threads))

    def count_jobs(self) -> int:
        """How many jobs wait or run."""
        with self._changed:
            return sum(map(len, self._queues.values()))

    # --- with the lock ---

    def _wake(self) -> None:
        """See that a thread takes what may run."""
        if self._n_idle:
            self._n_idle -= 1  # here and not by who wakes up: the next to submit must not count on the same thread
            self._changed.notify()
        elif self._n_attached < self._n_workers and not self._is_stopping and self._choose() is not None:
            self._begin_thread()

    def _begin_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._threads.add(thread)
        self._n_attached += 1
        thread.start()

    def _choose(self) -> str | None:
        waiting = ((key, any(job.is_urgent for job in jobs)) for key, jobs in self._queues.items())
        return choose_key(waiting, self._running)

    def _detach(self, key: str) -> None:
        self._running[key] = replace(self._running[key], is_detached=True)
        self._slow.add(key)
        self._n_attached -= 1

    def _take(self) -> tuple[str, _Job] | None:
        """The job to run the next step of; None if the thread should end. Waits for one."""
        while not self._is_stopping:
            key = self._choose()
            if key is not None:
                self._running[key] = Step(time.monotonic())
                if key in self._slow and self._queues[key][0].may_stall:
                    self._detach(key)
                    self._wake()
                return key, self._queues[key][0]
            self._n_idle += 1
            self._changed.wait()
        return None

    def _put_back(self, key: str, *, is_over: bool) -> bool:
        """A step has returned: the key goes to the end of the queue. True if it had lost its place in the pool."""
        step, jobs = self._running.pop(key), self._queues.pop(key)
        if is_over:
            jobs.popleft()
        if jobs:
            self._queues[key] = jobs
        if time.monotonic() - step.since_s < self._policy.takeover_s:
            self._slow.discard(key)
        return step.is_detached

    # --- on the workers' threads ---

    def _run(self) -> None:
        while True:
            with self._changed:
                taken = self._take()
                if taken is None:
                    self._end_thread()
                    return
            key, job = taken
            outcome = _take_step(job)
            if outcome is None and self._is_stopping:
                outcome = _close(job)
            with self._changed:
                is_late = self._put_back(key, is_over=outcome is not None)
                if is_late:
                    self._n_attached += 1
            if outcome is not None:
                outcome.tell(job.done)
            if is_late:
                self._on_returned(key)
                if self._is_surplus():
                    return

    def _is_surplus(self) -> bool:
        """Another has taken this thread's place: end it, unless there is room again."""
        with self._changed:
            if self._n_attached <= self._n_workers:
                return False
            self._end_thread()
            self._wake()
            return True

    def _end_thread(self) -> None:
        self._n_attached -= 1
        self._threads.discard(threading.current_thread())

    def _abandon(self) -> None:
        """Fail what waits; a job between two steps cleans up here, one whose step goes on when that returns."""
        with self._changed:
            left = self._take_waiting()
        for job in left:
            if job.steps is not None or job.done.set_running_or_notify_cancel():
                _close(job).tell(job.done)

    def _take_waiting(self) -> list[_Job]:
        left: list[_Job] = []
        for key, jobs in self._queues.items():
            kept = [jobs.popleft()] if key in self._running else []
            left += jobs
            jobs.clear()
            jobs.extend(kept)
        self._queues = {key: jobs for key, jobs in self._queues.items() if jobs}
        return left


def _take_step(job: _Job) -> _Outcome | None:
    """Run one step; how the job has ended, if it has."""
    try:
        if job.steps is None:
            if not job.done.set_running_or_notify_cancel():
                return _Outcome()
            job.steps = job.start()
        next(job.steps)
    except StopIteration as end:
        return _Outcome(end.value)
    except BaseException as failure:  # noqa: BLE001 - one job's failure ends one job; its owner hears of it
        return _Outcome(failure=failure)
    return None


def _close(job: _Job) -> _Outcome:
    """End a job between two steps."""
    if job.steps is not None:
        try:
            job.steps.close()
        except BaseException as error:  # noqa: BLE001 - who waits for the others must hear of it all the same
            return _Outcome(failure=error)
    return _Outcome(failure=_is_leaving())


def _call_once(call: Callable[[], T]) -> Steps[T]:
    yield from ()
    return call()


def _is_leaving() -> ShuttingDown:
    return ShuttingDown("memsyncd is stopping", hint="run: memsyncd start")
