"""A timer that any thread sets and cancels; on Linux without waking the loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable

import pytest

from memsyncd.engine.stalls import Alarm, FileAlarm, LoopAlarm, make_alarm
from tests.engine.test_job_completions import count_turns

LIMIT_S = 30.0
DELAY_S = 0.05
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
        set_s = time.monotonic()
        for alarm in (by_thread, by_loop, closed):
            alarm.set(DELAY_S)
        by_loop.cancel()
        closed.close()
        if isinstance(closed, FileAlarm):
            closed.set(0.01)  # another file may have its number by now
        await asyncio.to_thread(by_thread.cancel)
        # On a busy machine the timer has run off before the thread cancels it.
        is_in_time = time.monotonic() - set_s < DELAY_S
        await asyncio.sleep(3 * DELAY_S)
        assert called == [] or (called == ["thread"] and not is_in_time)

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
