from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from memsyncd.engine import gathering as gathering_module
from memsyncd.engine.gathering import AT_A_TIME, Gathering
from memsyncd.engine.sync import SyncDone

QUIET = SyncDone(started_at_s=0.0, began_s=0.0)
NEWS = SyncDone(started_at_s=0.0, began_s=0.0, paths=["a.md"])
THEN = "then"


class Story:
    """What was told on the loop, in order, of jobs that end on a thread when the test says so."""

    def __init__(self, n_jobs: int) -> None:
        self.told: list[object] = []
        self.gathering = Gathering(n_jobs, lambda: self.told.append(THEN))
        self._thread = ThreadPoolExecutor(1)

    async def end(self, name: object, outcome: SyncDone | Exception = QUIET) -> None:
        """Let a job end, and the loop do what that makes it do."""
        job: Future[SyncDone] = Future()
        job.add_done_callback(lambda _: self.gathering.take(job, partial(self.told.append, name)))
        finish = job.set_exception if isinstance(outcome, Exception) else job.set_result
        await asyncio.get_running_loop().run_in_executor(self._thread, finish, outcome)  # type: ignore[arg-type]
        await let_all_be_told()


async def let_all_be_told() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering_module, "PATIENCE_S", 0.05)


async def wait_for(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never was")


def test_what_tells_nothing_new_waits_for_the_last_of_them() -> None:
    async def live() -> None:
        story = Story(3)
        await story.end("a")
        await story.end("b")
        assert story.told == []
        await story.end("c")
        assert story.told == ["a", "b", "c", THEN]

    asyncio.run(live())


@pytest.mark.parametrize("outcome", [NEWS, ValueError("no")])
def test_news_and_failures_are_told_at_once_with_what_waits(outcome: SyncDone | Exception) -> None:
    async def live() -> None:
        story = Story(3)
        await story.end("a")
        await story.end("b", outcome)
        assert story.told == ["a", "b"]
        await story.end("c")
        assert story.told == ["a", "b", "c", THEN]

    asyncio.run(live())


@pytest.mark.usefixtures("without_patience")
def test_one_that_takes_long_holds_up_nobody() -> None:
    async def live() -> None:
        story = Story(4)
        await story.end("a")
        await wait_for(lambda: THEN in story.told)
        assert sorted(map(str, story.told)) == ["a", THEN]
        await story.end("b")
        await story.end("c")
        assert story.told[2:] == ["b", "c"]
        await story.end("slow")
        assert story.told[4:] == ["slow"]

    asyncio.run(live())


def test_with_nothing_to_wait_for_there_is_no_waiting() -> None:
    async def live() -> None:
        story = Story(0)
        await wait_for(lambda: story.told == [THEN])

    asyncio.run(live())


def test_clients_have_their_turn_between_the_results_of_many() -> None:
    async def live() -> None:
        n_jobs = 3 * AT_A_TIME
        story = Story(n_jobs)
        turns: list[int] = []

        def take_turn() -> None:
            turns.append(len(story.told))
            if THEN not in story.told:
                asyncio.get_running_loop().call_soon(take_turn)

        for name in range(n_jobs - 1):
            await story.end(name)
        take_turn()
        await story.end("last")
        await wait_for(lambda: THEN in story.told)
        assert max(after - before for before, after in itertools.pairwise(turns)) <= AT_A_TIME + 1

    asyncio.run(live())


def test_jobs_that_end_after_the_loop_are_told_to_nobody() -> None:
    async def live() -> Story:
        return Story(1)

    story = asyncio.run(live())
    job: Future[SyncDone] = Future()
    job.set_result(NEWS)
    story.gathering.take(job, partial(story.told.append, "late"))
    assert story.told == []
