from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.fairqueue import Flow
from memsyncd.server.limits import Backlog, Job, Turns

ACTS = st.lists(st.tuples(st.sampled_from(["submit", "done", "forget"]), st.integers(0, 3)), max_size=60)


@given(ACTS, st.integers(1, 3))
def test_every_job_is_started_or_dropped_once_and_never_too_many_at_once(acts: list[tuple[str, int]], max_running: int) -> None:
    turns = Turns(max_running)
    flows: list[Flow[Job]] = [Flow() for _ in range(4)]
    seen: list[tuple[str, int]] = []
    running: list[Callable[[], None]] = []

    def make_job(number: int) -> Job:
        def start(done: Callable[[], None]) -> None:
            seen.append(("start", number))
            running.append(done)

        return Job(start, lambda: seen.append(("drop", number)))

    n_submitted = 0
    for act, owner in acts:
        if act == "submit":
            n_submitted += 1
            turns.submit(flows[owner], make_job(n_submitted))
        elif act == "done" and running:
            running.pop(0)()
        elif act == "forget":
            turns.forget(flows[owner])
        assert turns.n_running == len(running) <= max_running
        assert turns.n_running == max_running or not turns.n_waiting
    turns.forget_all()
    assert sorted(number for _, number in seen) == list(range(1, n_submitted + 1))


class Busy:
    """Has so many lines to take, one a turn."""

    def __init__(self, backlog: Backlog, n_lines: int, name: str, seen: list[str]) -> None:
        self._backlog, self._n_lines, self._name, self._seen = backlog, n_lines, name, seen

    def work_on(self) -> None:
        self._seen.append(self._name)
        self._n_lines -= 1
        if self._n_lines:
            self._backlog.add(self)


def test_clients_with_many_lines_take_turns_and_the_loop_goes_on_meanwhile() -> None:
    async def story() -> None:
        backlog, seen = Backlog(asyncio.get_running_loop()), []
        for name in ("a", "b"):
            busy = Busy(backlog, 100_000, name, seen)
            backlog.add(busy)
            backlog.add(busy)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 2 <= len(seen) < 200_000
        assert seen[:4] == ["a", "b", "a", "b"]
        while len(seen) < 200_000:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        assert seen.count("a") == 100_000

    asyncio.run(story())
