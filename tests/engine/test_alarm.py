"""A timer that any thread sets and cancels; on Linux without waking the loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable

import pytest

from memsyncd.engine.stalls import Alarm, FileAlarm, LoopAlarm, make_alarm
from tests.engine.test_job_completions import count_turns

LIMIT_S = 30.0
MAKERS = [LoopAlarm, *([FileAlarm] if sys.platform == "linux" else [])]


@pytest.mark.parametrize("make", MAKERS)
def test_a_timer_set_by_a_thread_calls_once_on_the_loop(
    make: Callable[[Callable[[], None]], Alarm],
) -> None:
    async def scenario() -> None:
        called: list[int] = []
        is_called = asyncio.Event()

        def note() -> None:
            called.append(threading.get_ident())
            is_called.set()

        alarm = make(note)
        await asyncio.to_thread(alarm.set, 60.0)
        await asyncio.to_thread(alarm.set, 0.02)
        await asyncio.wait_for(is_called.wait(), LIMIT_S)
        await asyncio.sleep(0.05)
        alarm.close()
        assert called == [threading.get_ident()]

    asyncio.run(scenario())


@pytest.mark.parametrize("make", MAKERS)
def test_a_cancelled_timer_does_not_call(make: Callable[[Callable[[], None]], Alarm]) -> None:
    async def scenario() -> None:
        called: list[str] = []
        by_thread, by_loop, closed = (
            make(lambda name=name: called.append(name))  # type: ignore[misc]
            for name in ("thread", "loop", "closed")
        )
        for alarm in (by_thread, by_loop, closed):
            alarm.set(0.05)
        await asyncio.to_thread(by_thread.cancel)
        by_loop.cancel()
        closed.close()
        if isinstance(closed, FileAlarm):
            closed.set(0.01)  # of its number may be another file by now
        await asyncio.sleep(0.15)
        assert called == []

    asyncio.run(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="needs a timer that is a file")
def test_a_thread_that_sets_and_cancels_the_timer_does_not_wake_the_loop() -> None:
    async def scenario() -> None:
        alarm = make_alarm(lambda: None)

        def use() -> None:
            for _ in range(100):
                alarm.set(60.0)
                alarm.cancel()

        assert await count_turns(use) <= 1
        alarm.close()

    asyncio.run(scenario())
