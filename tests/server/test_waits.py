"""How a search waits for saves: futures of other threads, on a real event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from memsyncd.server.waits import wait_for_saves

LIMIT_S = 30.0


def test_a_search_waits_for_the_saves_that_are_known_once_the_events_are_handled() -> None:
    unhandled, saves = Future[None](), [Future[None](), Future[None]()]
    known: list[Future[None]] = []
    n_wake_ups = 0

    async def scenario() -> None:
        nonlocal n_wake_ups
        waiting = asyncio.ensure_future(wait_for_saves(unhandled, lambda: known, LIMIT_S))
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()

        call_soon = loop.call_soon_threadsafe

        def count(call: Callable[..., object], *given: Any) -> asyncio.Handle:
            nonlocal n_wake_ups
            n_wake_ups += 1
            return call_soon(call, *given)

        loop.call_soon_threadsafe = count  # type: ignore[method-assign, assignment]

        def handle_and_index() -> None:
            known.extend(saves)
            for future in (unhandled, *saves):
                future.set_result(None)

        thread = threading.Thread(target=handle_and_index)
        thread.start()
        await waiting
        thread.join()

    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))
    assert n_wake_ups == 1  # only the last save has woken the loop


def test_a_search_waits_no_longer_than_it_may() -> None:
    unhandled, save = Future[None](), Future[None]()

    async def scenario() -> None:
        await wait_for_saves(unhandled, list, 0.001)
        await wait_for_saves(None, lambda: [save], 0.001)
        await wait_for_saves(None, list, LIMIT_S)  # there is nothing to wait for

    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))
    # What comes too late is ignored.
    unhandled.set_result(None)
    save.set_result(None)
