"""Run jobs on daemon threads, at most `n_workers` steps at a time.

A job is a generator: at each `yield` a job of another key may run. Jobs of one key run in the
order of submission and never overlap; between keys an urgent job goes first, the others take
turns. A job that yields a `Pause` waits for something outside of the pool without a thread. Threads
sleep while there is nothing to do.

A step that takes long keeps its thread but loses its place in the pool: another thread serves the
other keys, so that each key holds at most one thread. The pool has no timer: `stalls` calls
`detach_overdue` while there are jobs.

The pool with one place is the worker, which runs the jobs that write; `QueryPool` reads for
clients.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from memsyncd.core.turns import StallPolicy, Step, choose_key, find_overdue
from memsyncd.engine.clock import read_activity
from memsyncd.errors import ShuttingDown

QUERY_STOP_S = 0.5
# A thread that will wake up by itself within this time is not woken for a batch.
EXPECTED_WITHIN_S = 0.2

P = ParamSpec("P")
T = TypeVar("T")


class Pause(msgspec.Struct, eq=False):
    """Yielded by a job that waits for `ended`: until then no job of its key runs.

    `read_progress_s` returns when the awaited work last made progress: without progress for long,
    the key counts as stalled, like a key whose step does not return.
    """

    ended: Future[Any]
    read_progress_s: Callable[[], float]


# A job runs up to its next `yield` at a time; it yields nothing, or a Pause. Its return value is
# its result.
Job = Generator[Any, None, T]


class _QueuedJob(msgspec.Struct, eq=False):
    start: Callable[[], Job[Any]]
    is_urgent: bool
    may_stall: bool
    done: Future[Any]
    running: Job[Any] | None = None


class _Outcome(msgspec.Struct):
    """The result or the failure of a job."""

    value: Any = None
    failure: BaseException | None = None

    def report(self, done: Future[Any]) -> None:
        if done.cancelled():
            return
        if self.failure is None:
            done.set_result(self.value)
        else:
            done.set_exception(self.failure)


class WorkerPool:
    """Threads that run jobs. `submit` may be called from any thread; results come in the future.

    The threads are daemon threads: the interpreter's exit waits for none of them.
    `on_returned(key)` is called on a worker thread after a step that had lost its place returns.
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
        self.on_busy: Callable[[], None] = _do_nothing
        """Called when the first job comes, on the thread that submits it, with the pool's lock."""
        self.on_idle: Callable[[], None] = _do_nothing
        """Called when no job is left, on a worker's thread."""
        self._queues: dict[str, deque[_QueuedJob]] = {}
        self._running: dict[str, Step] = {}
        self._paused: dict[str, Pause] = {}
        self._slow: set[str] = set()
        """Keys whose last step took so long that the next one is detached from the beginning."""
        self._lock = threading.RLock()
        self._threads: set[threading.Thread] = set()
        self._n_jobs = 0
        """Jobs that wait or run; unlike the queues, right at every moment without the lock."""
        self._n_batched: int | None = None
        """The jobs of a batch that is being submitted; None if there is none."""
        self._n_attached = 0
        """Threads that have a place in the pool."""
        self._sleepers: deque[threading.Lock] = deque()
        """A lock for each thread that sleeps and that nobody has woken: the thread waits for it."""
        self._expected_s = self._wakes_at_s = -math.inf
        """When jobs are expected, and when the thread that sleeps until then wakes up."""
        self._numbers = itertools.count(1)
        self._is_stopping = False

    def submit(
        self,
        key: str,
        start: Callable[[], Job[T]],
        *,
        is_urgent: bool = False,
        is_next: bool = False,
        may_stall: bool = True,
    ) -> Future[T]:
        """Queue a job behind the other jobs of its key.

        With `is_next`, which only the running job of that key may use, it is the next one instead.
        A job that waits when the pool stops, or is submitted later, fails with ShuttingDown. With
        `may_stall=False` it keeps its place in the pool however long a step takes.
        """
        job = _QueuedJob(start=start, is_urgent=is_urgent, may_stall=may_stall, done=Future())
        with self._lock:
            if self._is_stopping:
                job.done.set_exception(_make_shutting_down())
                return job.done
            jobs = self._queues.setdefault(key, deque())
            jobs.insert(1 if is_next else len(jobs), job)
            self._n_jobs += 1
            if self._n_jobs == 1:
                self.on_busy()
            if self._n_batched is None:
                self._wake()
            else:
                self._n_batched += 1
        return job.done

    def call(self, call: Callable[[], T], key: str | None = None) -> Future[T]:
        """Run a function once: behind other jobs of its key, or as soon as a thread is free."""
        name = f"#{next(self._numbers)}" if key is None else key
        return self.submit(name, lambda: _call_once(call), may_stall=key is not None)

    def call_here(self, call: Callable[[], T], key: str) -> Future[T]:
        """As `call`, but on this thread, at once, unless jobs wait or run or the key is slow.

        For calls that take less time than to wake another thread. The call counts as a step of the
        pool.
        """
        job = _QueuedJob(
            start=lambda: _call_once(call), is_urgent=False, may_stall=True, done=Future()
        )
        with self._lock:
            is_free = not (self._n_jobs or self._is_stopping or key in self._slow)
            if is_free:
                self._queues[key] = deque([job])
                self._n_jobs += 1
                self._n_attached += 1
                self.on_busy()
                self._running[key] = Step(time.monotonic(), thread_id=threading.get_native_id())
        if not is_free:
            return self.call(call, key)
        outcome = _run_step(job)
        assert isinstance(outcome, _Outcome)
        with self._lock:
            is_detached = self._put_back(key, outcome)
            self._n_attached -= not is_detached
            is_idle = not self._n_jobs
            if not is_idle:
                self._wake()
        if is_idle:
            self.on_idle()
        outcome.report(job.done)
        if is_detached:
            self._on_returned(key)
        return job.done

    def expect(self, at_s: float) -> None:
        """A batch will be submitted shortly before this monotonic time: a thread that sleeps then
        wakes up by itself.
        """
        with self._lock:
            self._expected_s = at_s

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Start none of the jobs submitted inside before all of them are queued, and wake no thread
        for them earlier, or at all if one is about to wake up by itself.

        A thread that is woken contends with the submitter for the interpreter's lock, and waits
        again, once or several times.
        """
        with self._lock:
            self._n_batched = 0
            try:
                yield
            finally:
                n_batched, self._n_batched = self._n_batched, None
                is_expected = 0.0 < self._wakes_at_s - time.monotonic() <= EXPECTED_WITHIN_S
                for _ in range(0 if is_expected else n_batched):
                    self._wake()

    def detach_overdue(self, now_s: float) -> None:
        """Give the places of steps that take too long to other threads."""
        with self._lock:
            for key in find_overdue(self._running, now_s, self._policy):
                if self._queues[key][0].may_stall:
                    self._detach(key)
                    self._wake()

    @property
    def is_busy(self) -> bool:
        """True while jobs wait or run. Takes no lock."""
        return self._n_jobs > 0

    def running_steps(self) -> dict[str, Step]:
        """The steps that run now and may stall, by key; a paused job counts as one.

        A step that computes, or waits for a processor, is active at each look.
        """
        with self._lock:
            steps = {
                key: self._look(key, step)
                for key, step in list(self._running.items())
                if self._queues[key][0].may_stall
            }
            paused = self._paused.items()
            return steps | {
                key: Step(pause.read_progress_s(), is_detached=True) for key, pause in paused
            }

    def stop(self, timeout_s: float) -> bool:
        """Refuse new jobs, end running ones at their next step and fail waiting ones.

        Returns False if a step has not returned within `timeout_s`.
        """
        with self._lock:
            self._is_stopping = True
            while self._sleepers:
                self._sleepers.popleft().release()
            threads = list(self._threads)
        end_s = time.monotonic() + timeout_s
        for thread in threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        self._fail_waiting()
        return not any(thread.is_alive() for thread in threads)

    def is_alive(self) -> bool:
        return any(thread.is_alive() for thread in list(self._threads))

    def is_awaited(self, key: str) -> bool:
        """True if another job waits for the running one of this key. From any thread."""
        with self._lock:
            return len(self._queues.get(key, ())) > 1

    def count_jobs(self) -> int:
        """The number of jobs that wait or run."""
        return self._n_jobs

    # --- with the lock ---

    def _wake(self) -> None:
        """Let a thread take the next job, if one may run."""
        if self._sleepers:
            # Removed here, not by the thread that wakes up: the next `submit` must not rely on it.
            self._sleepers.popleft().release()
        elif self._has_room() and self._choose() is not None:
            self._start_thread()

    def _has_room(self) -> bool:
        return self._n_attached < self._n_workers and not self._is_stopping

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._threads.add(thread)
        self._n_attached += 1
        thread.start()

    def _choose(self) -> str | None:
        queues = self._queues.items()
        waiting = [(key, any(job.is_urgent for job in jobs)) for key, jobs in queues]
        return choose_key(waiting, self._running.keys() | self._paused.keys())

    def _detach(self, key: str) -> None:
        step = self._running[key]
        activity = read_activity(step.thread_id)
        self._running[key] = replace(step, is_detached=True, activity=activity)
        self._slow.add(key)
        self._n_attached -= 1

    def _look(self, key: str, step: Step) -> Step:
        """Note whether the thread of a detached step has been active since the last look."""
        if not step.is_detached:
            return step
        activity = read_activity(step.thread_id)
        if activity != step.activity:
            step = replace(step, activity=activity, active_s=time.monotonic())
            self._running[key] = step
        return step

    def _take(self) -> tuple[str, _QueuedJob] | None:
        """Wait for a job to run a step of; None if the thread must end."""
        while not self._is_stopping:
            key = self._choose()
            if key is not None:
                self._running[key] = Step(time.monotonic(), thread_id=threading.get_native_id())
                if key in self._slow and self._queues[key][0].may_stall:
                    self._detach(key)
                    self._wake()
                return key, self._queues[key][0]
            self._sleep()
        return None

    def _sleep(self) -> None:
        """Wait until another thread needs this one, or until jobs are expected."""
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleepers.append(sleeper)
        left_s = self._expected_s - time.monotonic()
        # One thread is enough.
        is_timed = left_s > 0 and self._wakes_at_s < self._expected_s
        if is_timed:
            self._wakes_at_s = self._expected_s
        self._lock.release()
        try:
            sleeper.acquire(timeout=left_s if is_timed else -1)
        finally:
            self._lock.acquire()
            if is_timed:
                self._wakes_at_s = -math.inf
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def _put_back(self, key: str, result: _Outcome | Pause | None) -> bool:
        """Move the key of a returned step to the end of the queue.

        Returns True if the step had lost its place in the pool.
        """
        step, jobs = self._running.pop(key), self._queues.pop(key)
        if isinstance(result, _Outcome):
            jobs.popleft()
            self._n_jobs -= 1
        elif isinstance(result, Pause):
            self._paused[key] = result
        if jobs:
            self._queues[key] = jobs
        if time.monotonic() - step.since_s < self._policy.takeover_s:
            self._slow.discard(key)
        return step.is_detached

    # --- on the workers' threads ---

    def _run(self) -> None:
        while True:
            with self._lock:
                taken = self._take()
                if taken is None:
                    self._end_thread()
                    return
            key, job = taken
            result = _run_step(job)
            if not isinstance(result, _Outcome) and self._is_stopping:
                result = _close(job)
            with self._lock:
                is_detached = self._put_back(key, result)
                if is_detached:
                    self._n_attached += 1
                is_idle = not self._n_jobs
            if is_idle:
                self.on_idle()
            if isinstance(result, _Outcome):
                result.report(job.done)
            elif result is not None:
                result.ended.add_done_callback(partial(self._resume, key))
            if is_detached:
                self._on_returned(key)
                if self._end_surplus():
                    return

    def _resume(self, key: str, ended: Future[Any]) -> None:
        """Let the job go on; on any thread."""
        with self._lock:
            # Jobs that waited when the pool stopped are gone, and their pauses with them.
            pause = self._paused.get(key)
            if pause is not None and pause.ended is ended:
                del self._paused[key]
                self._wake()

    def _end_surplus(self) -> bool:
        """End this thread, unless the pool has room for it. True if it must end."""
        with self._lock:
            if self._n_attached <= self._n_workers:
                return False
            self._end_thread()
            self._wake()
            return True

    def _end_thread(self) -> None:
        self._n_attached -= 1
        self._threads.discard(threading.current_thread())

    def _fail_waiting(self) -> None:
        """Fail waiting jobs; a job between two steps runs its cleanup on this thread.

        A job whose step is still running is left to its thread.
        """
        with self._lock:
            left = self._take_waiting()
        for job in left:
            if job.running is not None or job.done.set_running_or_notify_cancel():
                _close(job).report(job.done)

    def _take_waiting(self) -> list[_QueuedJob]:
        left: list[_QueuedJob] = []
        for key, jobs in self._queues.items():
            kept = [jobs.popleft()] if key in self._running else []
            left += jobs
            jobs.clear()
            jobs.extend(kept)
        self._paused.clear()
        self._queues = {key: jobs for key, jobs in self._queues.items() if jobs}
        self._n_jobs -= len(left)
        return left


def _run_step(job: _QueuedJob) -> _Outcome | Pause | None:
    """Run one step; return the outcome if the job has ended, or the Pause that it yielded."""
    try:
        if job.running is None:
            if not job.done.set_running_or_notify_cancel():
                return _Outcome()
            job.running = job.start()
        pause: Pause | None = next(job.running)
    except StopIteration as end:
        return _Outcome(end.value)
    except BaseException as failure:  # noqa: BLE001 - it ends this job alone
        return _Outcome(failure=failure)
    return pause


def _close(job: _QueuedJob) -> _Outcome:
    """End a job between two steps."""
    if job.running is not None:
        try:
            job.running.close()
        except BaseException as error:  # noqa: BLE001 - the other waiting jobs must be failed, too
            return _Outcome(failure=error)
    return _Outcome(failure=_make_shutting_down())


def _do_nothing() -> None:
    pass


def _call_once(call: Callable[[], T]) -> Job[T]:
    yield from ()
    return call()


def _make_shutting_down() -> ShuttingDown:
    return ShuttingDown("memsyncd is stopping", hint="run: memsyncd start")


def heartbeat() -> Job[None]:
    """A job of one empty step: it ends as soon as the worker makes progress."""
    yield


# --- reading for clients ---


class QueryPool(Executor):
    """Threads that read for clients, so that the event loop reads nothing.

    Reading a workspace's disk may block. One such read of each workspace runs at a time, so that a
    disk that does not answer holds one thread at most, which the pool replaces; reads of an index
    alone are not limited by workspace. `n_done` counts the calls that have ended: a long
    verification uses it to notice that it waits behind others.
    """

    def __init__(
        self,
        n_threads: int,
        *,
        on_returned: Callable[[str], None] = lambda _key: None,
    ) -> None:
        self.pool = WorkerPool("memsyncd-query", n_threads, on_returned=on_returned)
        self.n_done = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function that touches no disk of a workspace."""
        return self._count_end(self.pool.call(lambda: fn(*args, **kwargs)))

    def read_disk(self, key: str, read: Callable[[], T]) -> Future[T]:
        """Call a function that may block on a disk, behind other reads of the same key.

        The key is a workspace's id, or a path.
        """
        return self._count_end(self.pool.call(read, key))

    # Executor names the parameters.
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:  # noqa: ARG002
        """Fail waiting calls and give running calls a moment to end; a blocked thread is
        abandoned.
        """
        self.pool.stop(QUERY_STOP_S if wait else 0.0)

    def _count_end(self, future: Future[T]) -> Future[T]:
        future.add_done_callback(self._count)
        return future

    def _count(self, future: Future[T]) -> None:
        self.n_done += not future.cancelled()


def call_within(seconds: float, call: Callable[[], T], default: T) -> T:
    """Call a function that may block on a disk; return `default` if it takes longer.

    Raises what the function raises.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as failure:  # noqa: BLE001 - it is raised to the caller
            done.set_exception(failure)

    threading.Thread(target=run, name="memsyncd-ask", daemon=True).start()
    try:
        return done.result(seconds)
    except TimeoutError:
        if done.done():
            raise
        return default
