from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.fairqueue import Flow
from memsyncd.server.requests import LineScheduler, QueuedRequest, RequestQueue

ACTS = st.lists(st.tuples(st.sampled_from(["submit", "done", "clear"]), st.integers(0, 3)), max_size=60)


@given(ACTS, st.integers(1, 3))
def test_every_job_is_started_or_dropped_once_and_never_too_many_at_once(acts: list[tuple[str, int]], max_running: int) -> None:
    queue = RequestQueue(max_running)
    flows: list[Flow[QueuedRequest]] = [Flow() for _ in range(4)]
    seen: list[tuple[str, int]] = []
    running: list[Callable[[], None]] = []

    def make_request(number: int) -> QueuedRequest:
        def start(done: Callable[[], None]) -> None:
            seen.append(("start", number))
            running.append(done)

        return QueuedRequest(start, lambda: seen.append(("drop", number)))

    n_submitted = 0
    for act, owner in acts:
        if act == "submit":
            n_submitted += 1
            queue.submit(flows[owner], make_request(n_submitted))
        elif act == "done" and running:
            running.pop(0)()
        elif act == "clear":
            queue.clear(flows[owner])
        assert queue.n_running == len(running) <= max_running
        assert queue.n_running == max_running or not queue.n_waiting
    queue.clear_all()
    assert sorted(number for _, number in seen) == list(range(1, n_submitted + 1))


class BusyConnection:
    """Has so many lines to take, one a turn."""

    def __init__(self, scheduler: LineScheduler, n_lines: int, name: str, seen: list[str]) -> None:
        self._scheduler, self._n_lines, self._name, self._seen = scheduler, n_lines, name, seen

    def process_lines(self) -> None:
        self._seen.append(self._name)
        self._n_lines -= 1
        if self._n_lines:
            self._scheduler.add(self)


def test_clients_with_many_lines_take_turns_and_the_loop_goes_on_meanwhile() -> None:
    async def story() -> None:
        scheduler, seen = LineScheduler(asyncio.get_running_loop()), []
        for name in ("a", "b"):
            busy = BusyConnection(scheduler, 100_000, name, seen)
            scheduler.add(busy)
            scheduler.add(busy)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 2 <= len(seen) < 200_000
        assert seen[:4] == ["a", "b", "a", "b"]
        while len(seen) < 200_000:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        assert seen.count("a") == 100_000

    asyncio.run(story())
