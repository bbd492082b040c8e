"""WorkerPool: a step that does not return keeps its thread and blocks no other key."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memsyncd.core.turns import StallPolicy
from memsyncd.engine import clock as clock_module
from memsyncd.engine.clock import read_busy_s
from memsyncd.engine.worker import Job, Pause, WorkerPool, heartbeat
from memsyncd.errors import ShuttingDown


class StepLog:
    """The steps that jobs ran, in order. `gate` blocks the worker until all jobs are queued."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.gate = threading.Event()

    def job(self, name: str, n_steps: int = 1, result: object = None) -> Job[object]:
        try:
            for step in range(1, n_steps + 1):
                self.lines.append(f"{name}{step}")
                if step < n_steps:
                    yield
        except GeneratorExit:
            self.lines.append(f"{name} closed")
            raise
        return result

    def hold(self) -> Job[None]:
        assert self.gate.wait(30)
        return
        yield


@pytest.fixture
def step_log() -> StepLog:
    return StepLog()


def test_jobs_are_counted_from_submission_until_their_end(
    worker: WorkerPool, step_log: StepLog
) -> None:
    assert worker.count_jobs() == 0
    worker.submit("a", step_log.hold)
    last = [worker.submit(key, lambda: step_log.job("x")) for key in ("a", "b")]
    assert worker.count_jobs() == 3
    step_log.gate.set()
    for job in last:
        job.result(30)
    assert worker.submit("a", heartbeat).result(30) is None


def test_a_pool_is_busy_at_every_moment_until_the_last_job_has_ended(
    worker: WorkerPool, step_log: StepLog
) -> None:
    """`is_busy` is read without the lock: between two steps, a job must not seem to be gone."""
    seen: list[bool] = []

    class Queues(dict[str, Any]):
        def pop(self, key: str) -> Any:  # type: ignore[override]
            jobs = super().pop(key)
            seen.append(worker.is_busy)
            return jobs

    worker._queues = Queues()
    worker.submit("a", lambda: step_log.job("x", n_steps=3)).result(30)
    assert seen == [True, True, True]
    wait_until(lambda: not worker.is_busy)


@pytest.fixture
def worker() -> Iterator[WorkerPool]:
    pool = WorkerPool("memsyncd-test")
    yield pool
    pool.stop(10)


def fail() -> Job[None]:
    raise ZeroDivisionError("no")
    yield


def test_a_pool_reports_its_first_job_and_the_end_of_its_last(
    worker: WorkerPool, step_log: StepLog
) -> None:
    is_idle = threading.Event()
    worker.on_busy = lambda: step_log.lines.append("busy")

    def note_idle() -> None:
        step_log.lines.append("idle")
        is_idle.set()

    worker.on_idle = note_idle
    for names in (("a", "b"), ("c",)):
        is_idle.clear()
        with worker.batch():
            for name in names:
                worker.submit(name, partial(step_log.job, name))
        assert is_idle.wait(30)
    assert step_log.lines == ["busy", "a1", "b1", "idle", "busy", "c1", "idle"]


def test_jobs_of_one_key_run_in_order_and_never_two_at_a_time(
    worker: WorkerPool, step_log: StepLog
) -> None:
    worker.submit("a", step_log.hold)
    last = [worker.submit("a", lambda name=name: step_log.job(name, 2)) for name in "xyz"][-1]
    step_log.gate.set()
    last.result(30)
    assert step_log.lines == ["x1", "x2", "y1", "y2", "z1", "z2"]


@pytest.mark.parametrize("is_urgent", [False, True])
def test_keys_take_turns_step_by_step(
    worker: WorkerPool, step_log: StepLog, is_urgent: bool
) -> None:
    worker.submit("first", step_log.hold)
    futures = [
        worker.submit(key, lambda key=key: step_log.job(key, 3), is_urgent=is_urgent)
        for key in "abc"
    ]
    step_log.gate.set()
    for future in futures:
        future.result(30)
    assert step_log.lines == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3"]


def test_no_job_of_a_batch_starts_before_all_are_queued(
    worker: WorkerPool, step_log: StepLog
) -> None:
    with worker.batch():
        slow = worker.submit("slow", lambda: step_log.job("slow", 2))
        urgent = worker.submit("urgent", lambda: step_log.job("urgent", 1), is_urgent=True)
        time.sleep(0.1)  # for a worker that would begin at once
        assert step_log.lines == []
    slow.result(30)
    assert urgent.done()
    assert step_log.lines == ["urgent1", "slow1", "slow2"]


def test_a_batch_wakes_no_thread_before_all_of_its_jobs_are_queued(
    worker: WorkerPool, step_log: StepLog
) -> None:
    worker.call(lambda: None).result(30)
    wait_until(lambda: len(worker._sleepers) == 1)
    with worker.batch():
        jobs = [worker.submit(key, lambda key=key: step_log.job(key)) for key in "abc"]
        assert len(worker._sleepers) == 1
    assert not worker._sleepers
    for job in jobs:
        job.result(30)


def test_a_batch_that_is_expected_wakes_no_thread(worker: WorkerPool, step_log: StepLog) -> None:
    for _ in range(2):
        worker.expect(time.monotonic() + 0.09)
        worker.call(lambda: None).result(30)
        wait_until(lambda: len(worker._sleepers) == 1)
        with worker.batch():
            jobs = [worker.submit(key, lambda key=key: step_log.job(key)) for key in "ab"]
        # Unless the machine was so busy that the thread had already woken up.
        assert len(worker._sleepers) == 1 or worker._wakes_at_s < time.monotonic()
        for job in jobs:
            job.result(30)
    assert step_log.lines == ["a1", "b1"] * 2


def test_jobs_that_are_not_expected_are_not_delayed(worker: WorkerPool) -> None:
    worker.expect(time.monotonic() + 3600.0)
    for _ in range(3):
        assert worker.call(lambda: "done").result(30) == "done"
    with worker.batch():
        job = worker.call(lambda: "done")
    assert job.result(30) == "done"
    worker.expect(time.monotonic() + 0.01)
    worker.call(lambda: None).result(30)
    # The thread wakes up, finds nothing, and sleeps until it is needed.
    wait_until(lambda: worker._wakes_at_s < 0 and len(worker._sleepers) == 1)
    assert worker.call(lambda: "done").result(30) == "done"


def test_a_running_job_sees_that_another_of_its_key_waits(worker: WorkerPool) -> None:
    seen: list[bool] = []
    gate = threading.Event()

    def look(key: str) -> Job[None]:
        assert gate.wait(30)
        seen.append(worker.is_awaited(key))
        return
        yield

    jobs = [worker.submit(key, partial(look, key)) for key in ("a", "a", "b")]
    gate.set()
    for job in jobs:
        job.result(30)
    assert seen == [True, False, False]
    assert not worker.is_awaited("a")


def test_an_urgent_job_goes_before_others_between_their_steps(
    worker: WorkerPool, step_log: StepLog
) -> None:
    worker.submit("first", step_log.hold)
    slow = worker.submit("slow", lambda: step_log.job("slow", 3))
    urgent = worker.submit("urgent", lambda: step_log.job("urgent", 2), is_urgent=True)
    step_log.gate.set()
    slow.result(30)
    assert urgent.done()
    assert step_log.lines == ["urgent1", "urgent2", "slow1", "slow2", "slow3"]


def test_an_urgent_job_speeds_up_earlier_jobs_of_its_key_and_overtakes_none(
    worker: WorkerPool, step_log: StepLog
) -> None:
    worker.submit("first", step_log.hold)
    other = worker.submit("other", lambda: step_log.job("other", 1))
    worker.submit("a", lambda: step_log.job("early", 2))
    worker.submit("a", lambda: step_log.job("late", 1), is_urgent=True)
    step_log.gate.set()
    other.result(30)
    assert step_log.lines == ["early1", "early2", "late1", "other1"]


def test_a_job_can_queue_the_next_one_of_its_key(worker: WorkerPool, step_log: StepLog) -> None:
    def lead() -> Job[None]:
        worker.submit("a", lambda: step_log.job("next"), is_next=True)
        yield from step_log.job("a", 2)

    first = worker.submit("a", step_log.hold)
    jobs = [worker.submit("a", lead), worker.submit("a", lambda: step_log.job("last"))]
    step_log.gate.set()
    for job in (first, *jobs):
        job.result(30)
    assert step_log.lines == ["a1", "a2", "next1", "last1"]


@pytest.mark.parametrize("start", [fail, lambda: 1 / 0], ids=["in_a_step", "at_its_start"])
def test_a_job_that_fails_fails_alone(
    worker: WorkerPool, step_log: StepLog, start: Callable[[], Any]
) -> None:
    with pytest.raises(ZeroDivisionError):
        worker.submit("a", start).result(30)
    assert worker.submit("a", lambda: step_log.job("a", 3, 5)).result(30) == 5
    assert worker.is_alive()


def test_a_cancelled_job_does_not_start(worker: WorkerPool, step_log: StepLog) -> None:
    worker.submit("a", step_log.hold)
    unwanted = worker.submit("a", lambda: step_log.job("unwanted"))
    wanted = worker.submit("a", lambda: step_log.job("wanted"))
    assert unwanted.cancel()
    step_log.gate.set()
    wanted.result(30)
    assert step_log.lines == ["wanted1"]
    with pytest.raises(CancelledError):
        unwanted.result(0)


def test_stopping_ends_the_running_job_at_its_next_step_and_fails_waiting_jobs(
    step_log: StepLog,
) -> None:
    worker = WorkerPool("memsyncd-test")
    begun, go_on = threading.Event(), threading.Event()

    def long() -> Job[None]:
        try:
            begun.set()
            assert go_on.wait(30)
            yield
            step_log.lines.append("went on")
        finally:
            step_log.lines.append("cleaned up")

    running = worker.submit("a", long)
    waiting = worker.submit("a", lambda: step_log.job("waiting"))
    other = worker.submit("b", lambda: step_log.job("other"))
    assert begun.wait(30)
    assert not worker.stop(0.01)
    go_on.set()
    assert worker.stop(10)
    for future in (running, waiting, other):
        with pytest.raises(ShuttingDown):
            future.result(0)
    assert step_log.lines == ["cleaned up"]
    with pytest.raises(ShuttingDown):
        worker.submit("a", step_log.hold).result(0)


def test_a_job_whose_cleanup_fails_does_not_keep_other_jobs_waiting() -> None:
    worker = WorkerPool("memsyncd-test")
    begun, go_on = threading.Event(), threading.Event()

    def untidy() -> Job[None]:
        try:
            begun.set()
            assert go_on.wait(30)
            yield
        finally:
            raise OSError("cannot clean up")

    running, waiting = worker.submit("a", untidy), worker.submit("b", fail)
    assert begun.wait(30)
    assert not worker.stop(0)
    go_on.set()
    assert worker.stop(10)
    assert isinstance(running.exception(0), ShuttingDown | OSError)
    assert isinstance(waiting.exception(0), ShuttingDown)


class Wait:
    """A job that pauses, and what it waits for."""

    def __init__(self) -> None:
        self.ended: Future[str] = Future()
        self.has_begun, self.is_closed = threading.Event(), False

    def job(self) -> Job[str]:
        self.has_begun.set()
        try:
            yield Pause(self.ended, lambda: 7.0)
        except GeneratorExit:
            self.is_closed = True
            raise
        return self.ended.result()


def test_what_a_job_has_waited_for_is_freed_without_a_garbage_collection(
    worker: WorkerPool,
) -> None:
    ended: Future[str] = Future()
    awaited = weakref.ref(ended)

    def pause(ended: Future[str]) -> Job[str]:
        yield Pause(ended, lambda: 0.0)
        return ended.result()

    paused = worker.submit("a", partial(pause, ended))
    worker.submit("b", heartbeat).result(30)
    gc.disable()
    try:
        ended.set_result("a result")
        assert paused.result(30) == "a result"
        del ended, paused
        worker.submit("b", heartbeat).result(30)  # the worker's thread keeps its last job
        assert awaited() is None
    finally:
        gc.enable()


def test_a_paused_job_holds_up_its_own_key_alone_and_needs_no_thread(worker: WorkerPool) -> None:
    wait = Wait()
    paused, behind = worker.submit("a", wait.job), worker.submit("a", heartbeat)
    for _ in range(3):
        worker.submit("b", heartbeat).result(30)
    assert wait.has_begun.wait(30)
    assert not paused.done()
    assert not behind.done()
    assert worker.count_jobs() == 2
    wait.ended.set_result("over")
    assert paused.result(30) == "over"
    behind.result(30)


def test_a_job_that_pauses_for_what_has_ended_goes_on_at_once(worker: WorkerPool) -> None:
    wait = Wait()
    wait.ended.set_result("over")
    assert worker.submit("a", wait.job).result(30) == "over"


def test_a_paused_job_counts_as_a_step_that_began_at_its_last_progress(worker: WorkerPool) -> None:
    wait = Wait()
    paused = worker.submit("a", wait.job)
    assert wait.has_begun.wait(30)
    worker.submit("b", heartbeat).result(30)
    assert worker.running_steps()["a"].since_s == 7.0
    wait.ended.set_result("over")
    paused.result(30)
    assert "a" not in worker.running_steps()


def test_stopping_closes_a_paused_job(worker: WorkerPool) -> None:
    wait = Wait()
    paused = worker.submit("a", wait.job)
    assert wait.has_begun.wait(30)
    assert worker.stop(30)
    assert wait.is_closed
    with pytest.raises(ShuttingDown):
        paused.result(0)
    wait.ended.set_result("too late")


WAIT_S = 60.0
POLICY = StallPolicy(takeover_s=5.0, stalled_s=10.0)
LATER_S = 2 * POLICY.takeover_s


class Block:
    """Jobs that wait until they are released, and the order in which they ran."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self._go_on = threading.Event()
        self.lines: list[str] = []
        self.n_running = self.most_running = 0
        self._lock = threading.Lock()

    def steps(self, name: str = "blocked") -> Job[str]:
        self.began.release()
        self._go_on.wait(WAIT_S)
        try:
            yield
            self.lines.append(name)
        except GeneratorExit:
            self.lines.append(f"{name} closed")
            raise
        return name

    def count(self) -> None:
        with self._lock:
            self.n_running += 1
            self.most_running = max(self.most_running, self.n_running)
        time.sleep(0.005)
        with self._lock:
            self.n_running -= 1

    def wait(self, n_times: int = 1) -> None:
        for _ in range(n_times):
            assert self.began.acquire(timeout=WAIT_S)

    def release(self) -> None:
        self._go_on.set()


@pytest.fixture
def block() -> Iterator[Block]:
    made = Block()
    yield made
    made.release()


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool("memsyncd-test", policy=POLICY)
    yield made
    made.stop(WAIT_S)


def detach(pool: WorkerPool) -> None:
    """Detach the running steps as if they had taken long."""
    pool.detach_overdue(time.monotonic() + LATER_S)


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_step_that_does_not_return_blocks_only_its_own_key(
    pool: WorkerPool, block: Block
) -> None:
    blocked = pool.submit("a", block.steps)
    block.wait()
    behind, other = pool.call(lambda: "behind", "a"), pool.call(lambda: "other", "b")
    detach(pool)
    assert other.result(WAIT_S) == "other"
    assert not behind.done()
    block.release()
    assert behind.result(WAIT_S) == "behind"
    assert blocked.result(0) == "blocked"


def test_a_step_that_computes_is_never_silent_and_one_that_waits_is(
    pool: WorkerPool, block: Block
) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def compute() -> None:
        has_begun.set()
        while not may_end.is_set():
            sum(range(1000))

    busy = pool.call(compute, "busy")
    assert has_begun.wait(WAIT_S)
    detach(pool)
    waiting = pool.submit("waiting", block.steps)
    block.wait()
    detach(pool)
    first = pool.running_steps()["waiting"].silent_since_s
    seen: set[float] = set()

    def has_been_active() -> bool:
        seen.add(pool.running_steps()["busy"].silent_since_s)
        return len(seen) > 5

    wait_until(has_been_active)
    steps = pool.running_steps()
    assert steps["waiting"].silent_since_s == pytest.approx(first, abs=1.0)
    assert steps["busy"].silent_since_s > steps["busy"].since_s
    may_end.set()
    block.release()
    assert busy.result(WAIT_S) is None
    assert waiting.result(WAIT_S) == "blocked"


def test_where_no_thread_is_told_of_the_whole_process_counts(
    pool: WorkerPool, block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu_s = [5.25]
    monkeypatch.setattr(clock_module, "_read_schedule", lambda _thread_id: ())
    monkeypatch.setattr(time, "process_time", lambda: cpu_s[0])
    blocked = pool.submit("a", block.steps)
    block.wait()
    detach(pool)
    began = pool.running_steps()["a"]
    cpu_s[0] = 5.75
    assert pool.running_steps()["a"].silent_since_s == began.since_s
    cpu_s[0] = 7.5
    assert pool.running_steps()["a"].silent_since_s > began.since_s
    block.release()
    assert blocked.result(WAIT_S) == "blocked"


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the system does not count what threads do"
)
def test_a_process_that_runs_or_waits_for_a_processor_is_busy_and_a_stopped_one_is_not() -> None:
    one, *_ = os.sched_getaffinity(0)
    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(2)]
    try:
        for process in busy:
            os.sched_setaffinity(process.pid, {one})
        wait_until(lambda: all(read_busy_s(process.pid) > 0.02 for process in busy))
        os.kill(busy[0].pid, signal.SIGSTOP)
        wait_until(lambda: read_state(busy[0].pid) == "T")
        stopped_s, other_s = (read_busy_s(process.pid) for process in busy)
        wait_until(lambda: read_busy_s(busy[1].pid) > other_s + 0.02)
        assert read_busy_s(busy[0].pid) == stopped_s
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert read_busy_s(busy[0].pid) == 0.0


def read_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_each_blocked_key_holds_one_thread_for_any_number_of_jobs(
    pool: WorkerPool, block: Block
) -> None:
    for key in "abc":
        for _ in range(4):
            pool.submit(key, block.steps)
        block.wait()
        detach(pool)
        detach(pool)
    assert pool.call(lambda: "other", "d").result(WAIT_S) == "other"
    assert len(pool._threads) == 4
    block.release()
    wait_until(lambda: not pool.is_busy)
    wait_until(lambda: len(pool._threads) == 1)


def test_when_a_blocked_step_returns_jobs_run_one_at_a_time_again(
    pool: WorkerPool, block: Block
) -> None:
    pool.submit("a", block.steps)
    block.wait()
    detach(pool)
    pool.call(lambda: None, "b").result(WAIT_S)
    block.release()
    wait_until(lambda: not pool.is_busy)
    for future in [pool.call(block.count, key) for key in "abcdef" for _ in range(3)]:
        future.result(WAIT_S)
    assert block.most_running == 1


def test_the_next_step_of_a_slow_key_is_detached_from_the_beginning(block: Block) -> None:
    pool = WorkerPool("memsyncd-test", policy=StallPolicy(takeover_s=0.05, stalled_s=10.0))
    first = threading.Event()
    slow = pool.call(lambda: first.wait(WAIT_S), "a")
    time.sleep(0.1)
    detach(pool)
    first.set()
    slow.result(WAIT_S)
    pool.submit("a", block.steps)
    block.wait()
    assert pool.call(lambda: "other", "b").result(WAIT_S) == "other"
    block.release()
    assert pool.stop(WAIT_S)


def test_a_call_without_a_key_keeps_its_place_for_any_time(pool: WorkerPool, block: Block) -> None:
    pool.call(lambda: next(block.steps()))
    block.wait()
    waiting = pool.call(lambda: "waiting", "b")
    detach(pool)
    assert not waiting.done()
    assert pool.running_steps() == {}
    block.release()
    assert waiting.result(WAIT_S) == "waiting"


def test_two_calls_at_once_take_two_threads(block: Block) -> None:
    pool = WorkerPool("memsyncd-test", 2, policy=POLICY)
    assert pool.call(int).result(WAIT_S) == 0
    time.sleep(0.05)  # so that the thread sleeps
    pool.call(lambda: next(block.steps()))
    pool.call(lambda: next(block.steps()))
    block.wait(2)
    block.release()
    assert pool.stop(WAIT_S)


def test_on_returned_is_called_when_a_detached_step_returns(block: Block) -> None:
    returned: list[str] = []
    worker = WorkerPool("memsyncd-test", policy=POLICY, on_returned=returned.append)
    worker.call(int, "b").result(WAIT_S)
    worker.submit("a", block.steps)
    block.wait()
    detach(worker)
    assert returned == []
    block.release()
    wait_until(lambda: bool(returned))
    assert returned == ["a"]
    assert worker.stop(WAIT_S)


def test_a_call_is_made_here_unless_the_pool_has_jobs(pool: WorkerPool, block: Block) -> None:
    here = threading.get_ident()
    assert pool.call_here(threading.get_ident, "a").result(0) == here
    pool.call(lambda: None).result(WAIT_S)
    assert pool.call_here(threading.get_ident, "a").result(0) == here
    with pytest.raises(KeyError):
        pool.call_here(lambda: {}["no"], "a").result(0)
    assert not pool.is_busy

    pool.submit("b", block.steps)
    block.wait()
    queued = pool.call_here(threading.get_ident, "a")
    assert not queued.done()
    block.release()
    assert queued.result(WAIT_S) != here
    assert pool.stop(WAIT_S)
    with pytest.raises(ShuttingDown):
        pool.call_here(threading.get_ident, "a").result(0)


def test_a_call_that_is_made_here_and_blocks_holds_up_its_own_key_alone(block: Block) -> None:
    returned: list[str] = []
    pool = WorkerPool("memsyncd-test", policy=POLICY, on_returned=returned.append)
    thread = threading.Thread(
        target=pool.call_here, args=(lambda: next(block.steps()), "a"), daemon=True
    )
    thread.start()
    block.wait()
    same, other = pool.call(lambda: "same", "a"), pool.call(lambda: "other", "b")
    assert list(pool.running_steps()) == ["a"]
    pool.detach_overdue(time.monotonic() + LATER_S)
    assert other.result(WAIT_S) == "other"
    assert not same.done()
    block.release()
    assert same.result(WAIT_S) == "same"
    thread.join(WAIT_S)
    assert returned == ["a"]
    assert pool.stop(WAIT_S)


def test_stopping_waits_for_no_blocked_step_and_cleans_up_all_others(block: Block) -> None:
    worker = WorkerPool("memsyncd-test", policy=POLICY)
    has_begun = threading.Event()

    def half_done() -> Job[None]:
        try:
            has_begun.set()
            while True:
                yield
        finally:
            block.lines.append("cleaned up")

    half = worker.submit("b", half_done)
    assert has_begun.wait(WAIT_S)
    blocked = worker.submit("a", block.steps)
    block.wait()
    behind = worker.submit("a", lambda: block.steps("behind"))
    assert not worker.stop(0.1)
    assert block.lines == ["cleaned up"]
    for future in (half, behind):
        assert isinstance(future.exception(0), ShuttingDown)
    block.release()
    assert isinstance(blocked.exception(WAIT_S), ShuttingDown)
    assert block.lines == ["cleaned up", "blocked closed"]
    assert worker.stop(WAIT_S)
