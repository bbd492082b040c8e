from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from memsyncd.engine.worker import Job, Worker, heartbeat
from memsyncd.errors import ShuttingDown


class Story:
    """What jobs did, in order. `gate` holds the lane until the jobs of a test are all queued."""

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
def story() -> Story:
    return Story()


def test_jobs_are_counted_from_their_coming_until_their_end(lane: Worker, story: Story) -> None:
    assert lane.count_jobs() == 0
    lane.submit("a", story.hold)
    last = [lane.submit(key, lambda: story.job("x")) for key in ("a", "b")]
    assert lane.count_jobs() == 3
    story.gate.set()
    for job in last:
        job.result(30)
    assert lane.submit("a", heartbeat).result(30) is None


@pytest.fixture
def lane() -> Iterator[Worker]:
    one = Worker("memsyncd-test")
    yield one
    one.stop(10)


def fail() -> Job[None]:
    raise ZeroDivisionError("no")
    yield


def test_a_job_gives_its_result(lane: Worker, story: Story) -> None:
    assert lane.submit("a", lambda: story.job("a", 3, "done")).result(10) == "done"
    assert story.lines == ["a1", "a2", "a3"]


def test_jobs_of_one_key_run_in_order_and_never_two_at_a_time(lane: Worker, story: Story) -> None:
    lane.submit("a", story.hold)
    last = [lane.submit("a", lambda name=name: story.job(name, 2)) for name in "xyz"][-1]
    story.gate.set()
    last.result(10)
    assert story.lines == ["x1", "x2", "y1", "y2", "z1", "z2"]


def test_keys_take_turns_step_by_step(lane: Worker, story: Story) -> None:
    lane.submit("first", story.hold)
    futures = [lane.submit(key, lambda key=key: story.job(key, 3)) for key in "abc"]
    story.gate.set()
    for future in futures:
        future.result(10)
    assert story.lines == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3"]


def test_nothing_begins_until_all_is_there_that_is_submitted_together(lane: Worker, story: Story) -> None:
    with lane.batch():
        slow = lane.submit("slow", lambda: story.job("slow", 2))
        urgent = lane.submit("urgent", lambda: story.job("urgent", 1), is_urgent=True)
        time.sleep(0.1)  # for a lane that would begin at once
        assert story.lines == []
    slow.result(10)
    assert urgent.done()
    assert story.lines == ["urgent1", "slow1", "slow2"]


def test_an_urgent_job_goes_before_others_between_their_steps(lane: Worker, story: Story) -> None:
    lane.submit("first", story.hold)
    slow = lane.submit("slow", lambda: story.job("slow", 3))
    urgent = lane.submit("urgent", lambda: story.job("urgent", 2), is_urgent=True)
    story.gate.set()
    slow.result(10)
    assert urgent.done()
    assert story.lines == ["urgent1", "urgent2", "slow1", "slow2", "slow3"]


def test_an_urgent_job_hurries_those_of_its_key_before_it_and_overtakes_none(lane: Worker, story: Story) -> None:
    lane.submit("first", story.hold)
    other = lane.submit("other", lambda: story.job("other", 1))
    lane.submit("a", lambda: story.job("early", 2))
    lane.submit("a", lambda: story.job("late", 1), is_urgent=True)
    story.gate.set()
    other.result(10)
    assert story.lines == ["early1", "early2", "late1", "other1"]


def test_urgent_jobs_take_turns_among_themselves(lane: Worker, story: Story) -> None:
    lane.submit("first", story.hold)
    futures = [lane.submit(key, lambda key=key: story.job(key, 2), is_urgent=True) for key in "ab"]
    story.gate.set()
    for future in futures:
        future.result(10)
    assert story.lines == ["a1", "b1", "a2", "b2"]


def test_a_job_that_fails_fails_alone(lane: Worker, story: Story) -> None:
    with pytest.raises(ZeroDivisionError):
        lane.submit("a", fail).result(10)
    assert lane.submit("a", lambda: story.job("a", 1, 5)).result(10) == 5
    assert lane.is_alive()


def test_a_job_that_cannot_even_begin_fails_alone(lane: Worker, story: Story) -> None:
    def start() -> Job[None]:
        raise KeyError("no")

    with pytest.raises(KeyError):
        lane.submit("a", start).result(10)
    assert lane.submit("b", lambda: story.job("b", 1, 5)).result(10) == 5


def test_a_job_that_nobody_wants_any_more_does_not_begin(lane: Worker, story: Story) -> None:
    lane.submit("a", story.hold)
    unwanted = lane.submit("a", lambda: story.job("unwanted"))
    wanted = lane.submit("a", lambda: story.job("wanted"))
    assert unwanted.cancel()
    story.gate.set()
    wanted.result(10)
    assert story.lines == ["wanted1"]
    with pytest.raises(CancelledError):
        unwanted.result(0)


def test_stopping_ends_the_running_job_at_its_next_step_and_fails_those_that_wait(story: Story) -> None:
    lane = Worker("memsyncd-test")
    begun, go_on = threading.Event(), threading.Event()

    def long() -> Job[None]:
        try:
            begun.set()
            assert go_on.wait(30)
            yield
            story.lines.append("went on")
        finally:
            story.lines.append("cleaned up")

    running = lane.submit("a", long)
    waiting = lane.submit("a", lambda: story.job("waiting"))
    other = lane.submit("b", lambda: story.job("other"))
    assert begun.wait(10)
    assert not lane.stop(0.01)
    go_on.set()
    assert lane.stop(10)
    for future in (running, waiting, other):
        with pytest.raises(ShuttingDown):
            future.result(0)
    assert story.lines == ["cleaned up"]
    with pytest.raises(ShuttingDown):
        lane.submit("a", story.hold).result(0)


def test_a_job_that_fails_to_clean_up_keeps_nobody_else_waiting() -> None:
    lane = Worker("memsyncd-test")
    begun, go_on = threading.Event(), threading.Event()

    def untidy() -> Job[None]:
        try:
            begun.set()
            assert go_on.wait(30)
            yield
        finally:
            raise OSError("cannot clean up")

    running, waiting = lane.submit("a", untidy), lane.submit("b", fail)
    assert begun.wait(10)
    assert not lane.stop(0)
    go_on.set()
    assert lane.stop(10)
    assert isinstance(running.exception(0), ShuttingDown | OSError)
    assert isinstance(waiting.exception(0), ShuttingDown)


def test_a_lane_with_nothing_to_do_ends_at_once() -> None:
    lane = Worker("memsyncd-test")
    assert lane.is_alive()
    assert lane.stop(10)
    assert not lane.is_alive()
