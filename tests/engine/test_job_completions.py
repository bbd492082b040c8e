"""Results for the event loop: some wake it, others wait until it is awake."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from memsyncd.engine.job_completions import call_soon, call_when_awake

LIMIT_S = 30.0


def test_a_call_that_can_wait_is_made_when_something_else_wakes_the_loop() -> None:
    async def scenario() -> None:
        loop, called = asyncio.get_running_loop(), list[str]()

        def ask() -> None:
            call_when_awake(loop, lambda: called.append("first"))

        assert await count_turns(ask) <= 1
        await asyncio.to_thread(call_soon, loop, lambda: called.append("second"))
        await asyncio.sleep(0)
        assert called == ["first", "second"]

    asyncio.run(scenario())


def test_a_loop_that_checks_its_callers_is_woken_for_calls_that_can_wait() -> None:
    async def scenario() -> None:
        loop, is_called = asyncio.get_running_loop(), asyncio.Event()
        thread = threading.Thread(target=call_when_awake, args=(loop, is_called.set))
        thread.start()
        await asyncio.wait_for(is_called.wait(), LIMIT_S)
        thread.join()

    asyncio.run(scenario(), debug=True)


def test_a_call_for_a_loop_that_has_ended_is_ignored() -> None:
    async def scenario() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    called: list[str] = []
    call_when_awake(asyncio.run(scenario()), lambda: called.append("late"))
    assert called == []


async def count_turns(call: Callable[[], None], seconds: float = 0.1) -> int:
    """How often the loop wakes up while another thread makes a call and some time passes, besides
    at the end of that time.
    """
    loop: Any = asyncio.get_running_loop()
    select, n_turns = loop._selector.select, 0

    def count(timeout: float | None = None) -> Any:
        nonlocal n_turns
        found = select(timeout)
        n_turns += timeout != 0
        return found

    thread = threading.Thread(target=call)
    loop._selector.select = count
    loop.call_soon(thread.start)
    await asyncio.sleep(seconds)
    loop._selector.select = select
    thread.join()
    return n_turns - 1
