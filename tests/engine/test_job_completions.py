from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from memsyncd.engine import job_completions
from memsyncd.engine.job_completions import CALLS_PER_TURN, CompletionBatch
from memsyncd.engine.sync import SyncDone

QUIET = SyncDone(started_at_s=0.0, began_s=0.0)
NEWS = SyncDone(started_at_s=0.0, began_s=0.0, paths=["a.md"])
THEN = "then"


class BatchLog:
    """The callbacks that ran on the loop, in order; `end` ends one job on a thread."""

    def __init__(self, n_jobs: int) -> None:
        self.called: list[object] = []
        self.batch = CompletionBatch(n_jobs, lambda: self.called.append(THEN))
        self._thread = ThreadPoolExecutor(1)

    async def end(self, name: object, outcome: SyncDone | Exception = QUIET) -> None:
        """End a job, and let the loop run the callbacks that are due."""
        job: Future[SyncDone] = Future()
        job.add_done_callback(lambda _: self.batch.add(job, partial(self.called.append, name)))
        finish = job.set_exception if isinstance(outcome, Exception) else job.set_result
        # type: ignore[arg-type]
        await asyncio.get_running_loop().run_in_executor(self._thread, finish, outcome)
        await run_callbacks()


async def run_callbacks() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def short_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_completions, "MAX_DELAY_S", 0.05)


async def wait_for(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition never became true")


def test_results_without_news_wait_for_the_last_job() -> None:
    async def scenario() -> None:
        log = BatchLog(3)
        await log.end("a")
        await log.end("b")
        assert log.called == []
        await log.end("c")
        assert log.called == ["a", "b", "c", THEN]

    asyncio.run(scenario())


@pytest.mark.parametrize("outcome", [NEWS, ValueError("no")])
def test_news_and_failures_are_delivered_at_once_with_waiting_results(
    outcome: SyncDone | Exception,
) -> None:
    async def scenario() -> None:
        log = BatchLog(3)
        await log.end("a")
        await log.end("b", outcome)
        assert log.called == ["a", "b"]
        await log.end("c")
        assert log.called == ["a", "b", "c", THEN]

    asyncio.run(scenario())


@pytest.mark.usefixtures("short_delay")
def test_a_slow_job_delays_no_other_result() -> None:
    async def scenario() -> None:
        log = BatchLog(4)
        await log.end("a")
        await wait_for(lambda: THEN in log.called)
        assert sorted(map(str, log.called)) == ["a", THEN]
        await log.end("b")
        await log.end("c")
        assert log.called[2:] == ["b", "c"]
        await log.end("slow")
        assert log.called[4:] == ["slow"]

    asyncio.run(scenario())


def test_a_batch_without_jobs_ends_at_once() -> None:
    async def scenario() -> None:
        log = BatchLog(0)
        await wait_for(lambda: log.called == [THEN])

    asyncio.run(scenario())


def test_the_loop_serves_clients_between_many_results() -> None:
    async def scenario() -> None:
        n_jobs = 3 * CALLS_PER_TURN
        log = BatchLog(n_jobs)
        turns: list[int] = []

        def take_turn() -> None:
            turns.append(len(log.called))
            if THEN not in log.called:
                asyncio.get_running_loop().call_soon(take_turn)

        for name in range(n_jobs - 1):
            await log.end(name)
        take_turn()
        await log.end("last")
        await wait_for(lambda: THEN in log.called)
        assert (
            max(after - before for before, after in itertools.pairwise(turns)) <= CALLS_PER_TURN + 1
        )

    asyncio.run(scenario())


def test_a_job_that_ends_after_the_loop_is_ignored() -> None:
    async def scenario() -> BatchLog:
        return BatchLog(1)

    log = asyncio.run(scenario())
    job: Future[SyncDone] = Future()
    job.set_result(NEWS)
    log.batch.add(job, partial(log.called.append, "late"))
    assert log.called == []
