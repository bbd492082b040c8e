"""A step that does not return keeps its thread and holds up no other key."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from memsyncd.core.scheduling import StallPolicy
from memsyncd.engine.worker import Job, Worker, WorkerPool
from memsyncd.errors import ShuttingDown

WAIT_S = 20.0
POLICY = StallPolicy(takeover_s=5.0, stalled_s=10.0)
LATER_S = 2 * POLICY.takeover_s


class Block:
    """Jobs that wait until they are let go, and what is known of them."""

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


def relieve(pool: WorkerPool) -> None:
    """As if its running steps had taken long."""
    pool.detach_overdue(time.monotonic() + LATER_S)


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_step_that_does_not_return_holds_up_its_own_key_alone(pool: WorkerPool, block: Block) -> None:
    blocked = pool.submit("a", block.steps)
    block.wait()
    behind, other = pool.call(lambda: "behind", "a"), pool.call(lambda: "other", "b")
    relieve(pool)
    assert other.result(WAIT_S) == "other"
    assert not behind.done()
    block.release()
    assert behind.result(WAIT_S) == "behind"
    assert blocked.result(0) == "blocked"


def test_as_long_as_steps_take_no_longer_than_they_may_one_runs_at_a_time(pool: WorkerPool, block: Block) -> None:
    done = [pool.call(block.count, key) for key in "abcdef" for _ in range(3)]
    pool.detach_overdue(time.monotonic())
    for future in done:
        future.result(WAIT_S)
    assert block.most_running == 1


def test_each_key_that_is_blocked_holds_one_thread_however_many_jobs_it_has(pool: WorkerPool, block: Block) -> None:
    for key in "abc":
        for _ in range(4):
            pool.submit(key, block.steps)
        block.wait()
        relieve(pool)
        relieve(pool)
    assert pool.call(lambda: "other", "d").result(WAIT_S) == "other"
    assert len(pool._threads) == 4
    block.release()
    wait_until(lambda: not pool.is_busy)
    wait_until(lambda: len(pool._threads) == 1)


def test_when_a_blocked_step_returns_jobs_run_one_at_a_time_again(pool: WorkerPool, block: Block) -> None:
    pool.submit("a", block.steps)
    block.wait()
    relieve(pool)
    pool.call(lambda: None, "b").result(WAIT_S)
    block.release()
    wait_until(lambda: not pool.is_busy)
    for future in [pool.call(block.count, key) for key in "abcdef" for _ in range(3)]:
        future.result(WAIT_S)
    assert block.most_running == 1


def test_the_next_step_of_a_key_that_was_slow_holds_up_nobody_from_the_beginning(block: Block) -> None:
    pool = WorkerPool("memsyncd-test", policy=StallPolicy(takeover_s=0.05, stalled_s=10.0))
    first = threading.Event()
    slow = pool.call(lambda: first.wait(WAIT_S), "a")
    time.sleep(0.1)
    relieve(pool)
    first.set()
    slow.result(WAIT_S)
    pool.submit("a", block.steps)
    block.wait()
    assert pool.call(lambda: "other", "b").result(WAIT_S) == "other"
    block.release()
    assert pool.stop(WAIT_S)


def test_what_has_no_key_keeps_its_place_however_long_it_takes(pool: WorkerPool, block: Block) -> None:
    pool.call(lambda: next(block.steps()))
    block.wait()
    waiting = pool.call(lambda: "waiting", "b")
    relieve(pool)
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


def test_it_is_told_when_a_step_that_had_lost_its_place_returns(block: Block) -> None:
    returned: list[str] = []
    lane = Worker("memsyncd-test", policy=POLICY, on_returned=returned.append)
    lane.call(int, "b").result(WAIT_S)
    lane.submit("a", block.steps)
    block.wait()
    relieve(lane)
    assert returned == []
    block.release()
    wait_until(lambda: bool(returned))
    assert returned == ["a"]
    assert lane.stop(WAIT_S)


def test_stopping_waits_for_no_blocked_step_and_cleans_up_all_others(block: Block) -> None:
    lane = Worker("memsyncd-test", policy=POLICY)
    has_begun = threading.Event()

    def half_done() -> Job[None]:
        try:
            has_begun.set()
            while True:
                yield
        finally:
            block.lines.append("cleaned up")

    half = lane.submit("b", half_done)
    assert has_begun.wait(WAIT_S)
    blocked = lane.submit("a", block.steps)
    block.wait()
    behind = lane.submit("a", lambda: block.steps("behind"))
    began_s = time.monotonic()
    assert not lane.stop(0.1)
    assert time.monotonic() - began_s < POLICY.takeover_s
    assert block.lines == ["cleaned up"]
    for future in (half, behind):
        assert isinstance(future.exception(0), ShuttingDown)
    block.release()
    assert isinstance(blocked.exception(WAIT_S), ShuttingDown)
    assert block.lines == ["cleaned up", "blocked closed"]
    assert lane.stop(WAIT_S)
