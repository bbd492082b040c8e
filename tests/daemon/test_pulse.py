"""Which part of the daemon is named for making no progress: real lanes and threads, wedged for real."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from memsyncd.daemon.pulse import Pulse, take_a_step
from memsyncd.engine.lane import Lane, Steps

PATIENT_S, HASTY_S = 10.0, 0.2


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane("memsyncd-index")
    yield lane
    assert lane.stop(PATIENT_S)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a wedged part waits for; opened at the end of each test."""
    gate = threading.Event()
    yield gate
    gate.set()


def find_stalled(submit: Callable[[], Future[None]], limits_s: list[float], between: Callable[[], None]) -> list[tuple[str, ...]]:
    async def ask() -> list[tuple[str, ...]]:
        pulse = Pulse({"writer": lambda: asyncio.wrap_future(submit())})
        answers = []
        for limit_s in limits_s:
            answers.append(await pulse.find_stalled(limit_s))
            between()
        return answers

    return asyncio.run(ask())


def submit_to(lane: Lane) -> Callable[[], Future[None]]:
    return lambda: lane.submit("pulse", take_a_step, is_urgent=True)


def test_an_idle_writer_makes_progress(lane: Lane) -> None:
    assert find_stalled(submit_to(lane), [PATIENT_S, PATIENT_S], lambda: None) == [(), ()]


def test_a_writer_that_is_busy_for_long_in_short_steps_makes_progress(lane: Lane, gate: threading.Event) -> None:
    def index() -> Steps[None]:
        while not gate.wait(0.001):
            yield

    lane.submit("ws", index)
    assert find_stalled(submit_to(lane), [PATIENT_S], lambda: None) == [()]


def test_a_writer_that_hangs_in_a_step_is_named_until_it_goes_on(lane: Lane, gate: threading.Event) -> None:
    is_hanging = threading.Event()

    def hang() -> Steps[None]:
        is_hanging.set()
        gate.wait()
        yield

    lane.submit("ws", hang)
    assert is_hanging.wait(PATIENT_S)
    assert find_stalled(submit_to(lane), [HASTY_S, PATIENT_S], gate.set) == [("writer",), ()]


def test_one_that_hangs_is_asked_once(gate: threading.Event) -> None:
    asked: list[int] = []
    with ThreadPoolExecutor(1) as thread:

        def submit() -> Future[None]:
            asked.append(1)
            return thread.submit(lambda: gate.wait() and None)

        assert find_stalled(submit, [HASTY_S] * 3, lambda: None) == [("writer",)] * 3
        gate.set()
    assert len(asked) == 1


def test_an_answer_that_is_a_failure_is_an_answer() -> None:
    failed: Future[None] = Future()
    failed.set_exception(OSError("no"))
    assert find_stalled(lambda: failed, [PATIENT_S], lambda: None) == [()]
