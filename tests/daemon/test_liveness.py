"""Which parts of the daemon are reported as stalled: real workers and threads that really hang."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memsyncd.config import Config
from memsyncd.core.turns import StallPolicy
from memsyncd.daemon.systemd import Liveness, make_probes
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import Registry
from memsyncd.engine.worker import Job, QueryPool, WorkerPool, heartbeat
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import Busy
from memsyncd.server.places import PathLookup

PATIENT_S, HASTY_S = 10.0, 0.2


@pytest.fixture
def worker() -> Iterator[WorkerPool]:
    worker = WorkerPool("memsyncd-index")
    yield worker
    assert worker.stop(PATIENT_S)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Blocks a part of the daemon; set at the end of each test."""
    gate = threading.Event()
    yield gate
    gate.set()


def find_stalled(
    submit: Callable[[], Future[None]], limits_s: list[float], between: Callable[[], None]
) -> list[tuple[str, ...]]:
    async def probe() -> list[tuple[str, ...]]:
        liveness = Liveness({"writer": lambda: asyncio.wrap_future(submit())}, {})
        answers = []
        for limit_s in limits_s:
            answers.append(await liveness.find_stalled(limit_s))
            between()
        return answers

    return asyncio.run(probe())


def submit_to(worker: WorkerPool) -> Callable[[], Future[None]]:
    return lambda: worker.submit("liveness", heartbeat, is_urgent=True)


def test_an_idle_writer_makes_progress(worker: WorkerPool) -> None:
    assert find_stalled(submit_to(worker), [PATIENT_S, PATIENT_S], lambda: None) == [(), ()]


def test_a_writer_with_a_long_job_in_short_steps_makes_progress(
    worker: WorkerPool, gate: threading.Event
) -> None:
    def index() -> Job[None]:
        while not gate.wait(0.001):
            yield

    worker.submit("ws", index)
    assert find_stalled(submit_to(worker), [PATIENT_S], lambda: None) == [()]


def test_a_writer_that_hangs_in_a_step_is_reported_until_it_continues(
    worker: WorkerPool, gate: threading.Event
) -> None:
    is_hanging = threading.Event()

    def hang() -> Job[None]:
        is_hanging.set()
        gate.wait()
        yield

    worker.submit("ws", hang)
    assert is_hanging.wait(PATIENT_S)
    assert find_stalled(submit_to(worker), [HASTY_S, PATIENT_S], gate.set) == [("writer",), ()]


def test_a_part_that_hangs_is_probed_once(gate: threading.Event) -> None:
    probed: list[int] = []
    with ThreadPoolExecutor(1) as thread:

        def submit() -> Future[None]:
            probed.append(1)
            return thread.submit(lambda: gate.wait() and None)

        assert find_stalled(submit, [HASTY_S] * 3, lambda: None) == [("writer",)] * 3
        gate.set()
    assert len(probed) == 1


def test_only_the_hanging_part_of_a_running_engine_is_reported(
    tmp_path: Path, gate: threading.Event
) -> None:
    clock = Clock(now_s=time.monotonic, wall_ns=time.time_ns)
    is_hanging = threading.Event()
    registry = Registry(tmp_path / "workspaces.json", home="/nowhere", uid=os.geteuid())

    async def scenario(block: Callable[[Workspaces, Job[None]], object]) -> tuple[str, ...]:
        workspaces = Workspaces(
            registry=registry,
            state_dir=tmp_path,
            cache_dir=tmp_path,
            config=Config(),
            clock=clock,
        )
        with ThreadPoolExecutor(1) as threads:
            liveness = Liveness(make_probes(workspaces, threads), {})
            assert await liveness.find_stalled(PATIENT_S) == ()
            block(workspaces, hang())
            assert await asyncio.to_thread(is_hanging.wait, PATIENT_S)
            stalled = await liveness.find_stalled(HASTY_S)
            gate.set()
            assert await liveness.find_stalled(PATIENT_S) == ()
            await asyncio.get_running_loop().run_in_executor(None, workspaces.stop)
        gate.clear()
        is_hanging.clear()
        return stalled

    def hang() -> Job[None]:
        is_hanging.set()
        gate.wait()
        yield

    assert asyncio.run(
        scenario(lambda workspaces, job: workspaces._worker.submit("ws", lambda: job))
    ) == ("writer",)
    assert asyncio.run(
        scenario(lambda workspaces, job: workspaces.watching._pool.call(lambda: next(job)))
    ) == ("watcher",)


def test_a_disk_that_blocks_one_workspace_is_no_reason_to_restart_the_daemon(
    tmp_path: Path, gate: threading.Event
) -> None:
    clock = Clock(now_s=time.monotonic, wall_ns=time.time_ns)
    is_hanging = threading.Event()
    registry = Registry(tmp_path / "workspaces.json", home="/nowhere", uid=os.geteuid())
    stalls = StallPolicy(takeover_s=0.1, stalled_s=0.2)

    def hang() -> Job[None]:
        is_hanging.set()
        gate.wait()
        yield

    async def scenario() -> tuple[str, ...]:
        workspaces = Workspaces(
            registry=registry,
            state_dir=tmp_path,
            cache_dir=tmp_path,
            config=Config(),
            clock=clock,
            stall_policy=stalls,
        )
        threads = QueryPool(1)
        liveness = Liveness(make_probes(workspaces, threads), {})
        workspaces._worker.submit("ws", hang)
        assert await asyncio.to_thread(is_hanging.wait, PATIENT_S)
        stalled = await liveness.find_stalled(PATIENT_S)
        gate.set()
        await asyncio.to_thread(workspaces.stop)
        threads.shutdown()
        return stalled

    assert asyncio.run(scenario()) == ()


def test_a_probe_that_fails_is_progress() -> None:
    failed: Future[None] = Future()
    failed.set_exception(OSError("no"))
    assert find_stalled(lambda: failed, [PATIENT_S], lambda: None) == [()]


def test_query_threads_with_more_reads_than_time_make_progress_until_they_hang() -> None:
    step = threading.Semaphore(0)

    async def scenario(threads: QueryPool) -> None:
        loop = asyncio.get_running_loop()
        liveness = Liveness(
            {"store": lambda: loop.run_in_executor(threads, int)}, {"store": lambda: threads.n_done}
        )
        reads = [threads.submit(step.acquire) for _ in range(8)]
        loop.call_soon(step.release)
        assert await liveness.find_stalled(10 * HASTY_S) == ()
        assert sum(read.done() for read in reads) == 1
        assert await liveness.find_stalled(HASTY_S) == ("store",)
        # A read that is cancelled is no progress.
        loop.call_soon(reads[-1].cancel)
        assert await liveness.find_stalled(HASTY_S) == ("store",)
        step.release(len(reads))
        assert await liveness.find_stalled(PATIENT_S) == ()

    with QueryPool(2) as threads:
        try:
            asyncio.run(scenario(threads))
        finally:
            step.release(8)


def test_a_read_that_computes_is_no_disk_that_does_not_answer(gate: threading.Event) -> None:
    def compute() -> str:
        end_s = time.thread_time() + 3 * HASTY_S
        while time.thread_time() < end_s:
            pass
        return "counted"

    async def scenario(threads: QueryPool, workspaces: Any = None) -> None:
        lookup = PathLookup(workspaces, threads, "")
        assert await lookup._run("/notes/many", compute, HASTY_S) == "counted"
        with pytest.raises(Busy):
            await lookup._run("/notes/gone", gate.wait, HASTY_S)
        gate.set()

    with QueryPool(1) as threads:
        asyncio.run(scenario(threads))
