"""Who does the work that must not be done twice at once? One thread, in steps, a job after another.

A job is a generator function: each `yield` is a place where another workspace's job may go between. Jobs of one key run in
the order given, never two at a time; between keys an urgent job goes first, the others take turns. The thread sleeps when
there is nothing to do. What was started is waited for: `stop` closes the generators, which is where they clean up.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from memsyncd.errors import ShuttingDown

T = TypeVar("T")
Steps = Generator[None, None, T]


@dataclass(slots=True, eq=False)
class _Job:
    start: Callable[[], Steps[Any]]
    is_urgent: bool
    done: Future[Any]
    steps: Steps[Any] | None = None


class Lane:
    """A thread that runs jobs. `submit` may be called from any thread; results and failures come in the future."""

    def __init__(self, name: str) -> None:
        self._queues: dict[str, deque[_Job]] = {}
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, key: str, start: Callable[[], Steps[T]], *, is_urgent: bool = False) -> Future[T]:
        """Queue a job behind those of the same key. After `stop` it fails with ShuttingDown, as one does that waits then."""
        job = _Job(start=start, is_urgent=is_urgent, done=Future())
        with self._changed:
            if self._is_stopping:
                job.done.set_exception(_is_leaving())
                return job.done
            self._queues.setdefault(key, deque()).append(job)
            self._changed.notify()
        return job.done

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Begin with what is submitted inside only once all of it is there: who submits need not take turns with the thread."""
        with self._changed:
            yield

    def stop(self, timeout_s: float) -> bool:
        """Refuse new jobs, end the running one at its next step, fail those that wait. False if the thread goes on."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def count_jobs(self) -> int:
        """How many jobs wait or run."""
        with self._changed:
            return sum(map(len, self._queues.values()))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queues and not self._is_stopping:
                    self._changed.wait()
                if self._is_stopping:
                    break
                key = self._pick()
                job = self._queues[key][0]
            if self._step(job):
                with self._changed:
                    self._finish(key)
        self._abandon()

    def _pick(self) -> str:
        """The first key whose jobs include an urgent one, else the next in turn."""
        for key, jobs in self._queues.items():
            if any(job.is_urgent for job in jobs):
                return key
        return next(iter(self._queues))

    def _finish(self, key: str) -> None:
        jobs = self._queues.pop(key)
        jobs.popleft()
        if jobs:
            self._queues[key] = jobs

    def _step(self, job: _Job) -> bool:
        """Run one step; True if the job has ended. To take turns, a key that goes on moves to the end."""
        try:
            if job.steps is None:
                if not job.done.set_running_or_notify_cancel():
                    return True
                job.steps = job.start()
            next(job.steps)
        except StopIteration as end:
            job.done.set_result(end.value)
            return True
        except BaseException as failure:  # noqa: BLE001 - one job's failure ends one job; its owner hears of it
            job.done.set_exception(failure)
            return True
        self._give_way(job)
        return False

    def _give_way(self, job: _Job) -> None:
        with self._changed:
            for key, jobs in self._queues.items():
                if jobs[0] is job:
                    self._queues[key] = self._queues.pop(key)
                    return

    def _abandon(self) -> None:
        for job in itertools.chain.from_iterable(self._queues.values()):
            failure: BaseException = _is_leaving()
            if job.steps is not None:
                try:
                    job.steps.close()
                except BaseException as error:  # noqa: BLE001 - who waits for the others must hear of it all the same
                    failure = error
            elif not job.done.set_running_or_notify_cancel():
                continue
            job.done.set_exception(failure)
        self._queues.clear()


def take_a_step() -> Steps[None]:
    """The shortest job that a lane can have."""
    yield


def _is_leaving() -> ShuttingDown:
    return ShuttingDown("memsyncd is stopping", hint="run: memsyncd start")
