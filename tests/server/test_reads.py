"""The order of reads, their time limits, which searches the event loop tries, and waiting for work."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from memsyncd.core.turns import QUICK_S, Flow
from memsyncd.engine.clock import Clock
from memsyncd.engine.worker import QueryPool
from memsyncd.errors import NotFresh
from memsyncd.server.dispatch import wait_for_turn
from memsyncd.server.reads import LoopAdmission, ReadQueue, Reads, wait_for_work, wait_until_done
from memsyncd.server.session import RequestOrigin, Session, current_request
from memsyncd.store.connection import pause_or_end
from tests.server.test_handlers import CLOCK, HandlersBench, run


async def hold(
    queue: ReadQueue, flow: Flow, name: str, seen: list[str], took_s: float | None = None
) -> None:
    async with queue.slot(flow) as slot:
        seen.append(name)
        slot.took_s = took_s
        await asyncio.sleep(0)


async def test_reads_of_clients_take_turns_and_a_quick_client_goes_first() -> None:
    queue, seen = ReadQueue(1), []
    flows: dict[str, Flow] = {name: Flow(expected_s=1.0) for name in "ab"} | {
        "q": Flow(expected_s=0.001)
    }
    names = [*(f"{name}{number}" for name in "ab" for number in range(9)), "q0"]
    await asyncio.gather(*(hold(queue, flows[name[0]], name, seen) for name in names))
    assert seen[:8] == ["a0", "q0", "a1", "b0", "a2", "b1", "a3", "b2"]
    assert len(seen) == len(names)


async def test_an_overdue_read_is_refused_at_once_and_does_not_run() -> None:
    loop, queue = asyncio.get_running_loop(), ReadQueue(1)
    async with queue.slot(Flow()):
        with pytest.raises(NotFresh, match="before it could run"):
            async with queue.slot(Flow(), loop.time() + 0.01):
                raise AssertionError
    with pytest.raises(NotFresh):
        async with queue.slot(Flow(), loop.time()):
            raise AssertionError
    async with queue.slot(Flow(), loop.time() + 60):
        pass


@pytest.mark.parametrize("is_granted", [False, True])
async def test_a_slot_is_released_however_its_holder_ends(is_granted: bool) -> None:
    queue, seen = ReadQueue(1), []
    held = asyncio.create_task(hold(queue, Flow(), "held", seen))
    waiting = asyncio.create_task(hold(queue, Flow(), "waiting", seen))
    await asyncio.sleep(0)
    # The read that got a slot in this turn of the loop is cancelled before its task runs.
    (held if is_granted else waiting).cancel()
    held.cancel()
    await asyncio.gather(held, waiting, return_exceptions=True)
    async with asyncio.timeout(20):
        await hold(queue, Flow(), "last", seen)
    assert seen[-1] == "last"


def make_session() -> Session:
    return Session(session_id=1, peer_pid=1, send=lambda _line: True)


def burn(seconds: float) -> None:
    until_s = time.thread_time() + seconds
    while time.thread_time() < until_s:
        pass


def test_after_a_failed_try_only_clients_of_quick_searches_are_tried_on_the_loop_for_a_while() -> (
    None
):
    now_s = [100.0]
    admission = LoopAdmission(Clock(now_s=lambda: now_s[0], wall_ns=time.time_ns))
    quick, heavy, unknown = make_session(), make_session(), make_session()
    with admission.trying(quick):
        pass
    assert quick.reads.expected_s is not None
    assert all(admission.may_try(session) for session in (quick, heavy, unknown))
    with contextlib.suppress(NotFresh), admission.trying(heavy):
        burn(0.002)
        raise NotFresh("there is more to look up than can be done in a hurry")
    assert [admission.may_try(session) for session in (quick, heavy, unknown)] == [
        True,
        False,
        False,
    ]
    now_s[0] += 0.01
    assert not admission.may_try(unknown)
    now_s[0] += 1
    assert admission.may_try(unknown)


def test_a_client_with_a_pending_request_or_slow_searches_is_not_tried_on_the_loop() -> None:
    admission = LoopAdmission(Clock(now_s=time.monotonic, wall_ns=time.time_ns))
    busy, slow = make_session(), make_session()
    busy.n_pending = 1
    slow.reads.note(2 * QUICK_S)
    assert not admission.may_try(busy)
    assert not admission.may_try(slow)
    for _ in range(3):
        slow.reads.note(0.0)
    assert admission.may_try(slow)


def test_a_read_is_long_if_its_clients_earlier_reads_were_long() -> None:
    async def scenario() -> list[bool]:
        queue, found = ReadQueue(1), []
        for flow in (Flow(expected_s=2 * QUICK_S), Flow(expected_s=QUICK_S / 2), Flow()):
            async with queue.slot(flow) as slot:
                found.append(slot.is_long)
        return found

    assert asyncio.run(scenario()) == [True, False, False]


# --- Waiting --------------------------------------------------------------------------------------


def test_a_failure_after_its_client_has_left_is_no_error_of_the_loop(tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()

    async def leave(bench: HandlersBench) -> None:
        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: reported.append(context))
        workspace = await bench.add(tmp_path / "proj")
        for wait in (
            lambda work: wait_for_turn(bench.workspaces, workspace, work, 60.0),
            lambda work: wait_for_work(bench.workspaces, workspace, work, 60.0),
            lambda work: wait_until_done([work], 60.0),
        ):
            work: Future[None] = Future()
            task = asyncio.ensure_future(wait(work))
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            work.set_exception(ValueError("nobody waits"))
            del task, work
            await asyncio.sleep(0.01)
            gc.collect()
        assert reported == []

    run(tmp_path, leave)


def test_no_other_read_waits_for_a_long_work_which_ends_when_its_client_leaves(
    tmp_path: Path,
) -> None:
    async def scenario(bench: HandlersBench) -> None:
        threads, session, ended = QueryPool(2), make_session(), threading.Event()
        reads = Reads(bench.workspaces, threads, CLOCK, 1)
        session.reads.note(2 * QUICK_S)
        current_request.set(RequestOrigin(session, CLOCK.now_s()))
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            loop.call_soon_threadsafe(begun.set)
            try:
                while True:
                    pause_or_end()
                    time.sleep(0.001)
            finally:
                ended.set()

        async with asyncio.timeout(60):
            long_work = asyncio.create_task(reads.run(work, is_long=True))
            await begun.wait()
            assert await reads.run(lambda: "answered") == "answered"
            next_work = asyncio.create_task(reads.run(lambda: "done", is_long=True))
            assert await reads.run(lambda: "answered") == "answered"
            long_work.cancel()
            assert await next_work == "done"
        assert await loop.run_in_executor(None, ended.wait, 60)
        threads.shutdown()

    run(tmp_path, scenario)
