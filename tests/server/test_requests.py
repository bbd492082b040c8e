"""The order, the limits and the counters of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.scheduling import Flow
from memsyncd.server.requests import LineScheduler, QueuedRequest, RequestQueue
from memsyncd.server.session import Limits

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["submit", "done", "clear"]), st.integers(0, 3)), max_size=60
)


@given(ACTIONS, st.integers(1, 3))
def test_each_request_is_started_or_dropped_once_and_the_limit_holds(
    actions: list[tuple[str, int]], max_running: int
) -> None:
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
    for action, owner in actions:
        if action == "submit":
            n_submitted += 1
            queue.submit(flows[owner], make_request(n_submitted))
        elif action == "done" and running:
            running.pop(0)()
        elif action == "clear":
            queue.clear(flows[owner])
        assert queue.n_running == len(running) <= max_running
        assert queue.n_running == max_running or not queue.n_waiting
    queue.clear_all()
    assert sorted(number for _, number in seen) == list(range(1, n_submitted + 1))


class BusyConnection:
    """Has `n_lines` lines and processes one a turn."""

    def __init__(self, scheduler: LineScheduler, n_lines: int, name: str, seen: list[str]) -> None:
        self._scheduler, self._n_lines, self._name, self._seen = scheduler, n_lines, name, seen

    def process_lines(self) -> None:
        self._seen.append(self._name)
        self._n_lines -= 1
        if self._n_lines:
            self._scheduler.add(self)


def test_clients_with_many_lines_take_turns_and_the_loop_runs_between_rounds() -> None:
    async def scenario() -> None:
        scheduler, seen = LineScheduler(asyncio.get_running_loop()), []
        for name in ("a", "b"):
            busy = BusyConnection(scheduler, 100_000, name, seen)
            scheduler.add(busy)
            scheduler.add(busy)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 2 <= len(seen) < 200_000
        assert seen[:4] == ["a", "b", "a", "b"]
        while len(seen) < 200_000:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0)
        assert seen.count("a") == 100_000

    asyncio.run(scenario())


# --- counters, through a real socket ---


def test_requests_are_counted_by_method_and_outcome(serve) -> None:
    async def scenario() -> None:
        async with serve() as serving:
            client = await serving.connect()
            for _ in range(3):
                await client.ask("ping")
            await client.ask("get", path="a.md")
            await client.ask("status")
            await client.ask("no.such")
            client.write(b"nonsense\n")
            await client.read()
            assert counters_of(serving) == {
                "ping": (3, {}, 0),
                "get": (1, {"conflict": 1}, 0),
                "status": (1, {"internal": 1}, 0),
                "invalid": (2, {"bad_request": 2}, 0),
            }
            assert (serving.server.counters.requests, serving.server.counters.failed_requests) == (
                7,
                4,
            )

    asyncio.run(scenario())


def test_each_request_is_reported_once_also_in_batches_and_without_an_id(serve, wait_until) -> None:
    async def scenario() -> None:
        async with serve() as serving:
            client = await serving.connect()
            ping = {"jsonrpc": "2.0", "method": "ping", "id": 1}
            client.write([ping, ping, {"jsonrpc": "2.0", "method": "ping"}, 7])
            await client.read()
            client.send("get", None, path="a.md")
            await wait_until(lambda: len(serving.answered) == 5)
            assert [one.method for one in serving.answered] == [
                "ping",
                "ping",
                "ping",
                "invalid",
                "get",
            ]
            assert all(one.took_s >= 0 and one.error is None for one in serving.answered)

    asyncio.run(scenario())


def test_the_duration_of_a_request_is_the_time_that_its_client_waited(serve, wait_until) -> None:
    async def scenario() -> None:
        async with serve() as serving:
            client = await serving.connect()
            client.send("search", query="x")
            await wait_until(lambda: serving.handlers.started)
            await asyncio.sleep(0.05)
            serving.handlers.gate.set()
            await client.read()
            (answered,) = serving.answered
            assert answered.took_s >= 0.05
            assert serving.server.counters.methods["search"].answered.longest_s == answered.took_s

    asyncio.run(scenario())


def test_the_duration_includes_the_time_in_the_queue(serve, wait_until) -> None:
    async def scenario() -> None:
        async with serve(Limits(max_running=1)) as serving:
            first, second = await serving.connect(), await serving.connect()
            first.send("search", query="x")
            await wait_until(lambda: serving.handlers.started == 1)
            second.send("search", query="x")
            await wait_until(lambda: serving.server.n_waiting == 1)
            assert serving.server.n_running == 1
            await asyncio.sleep(0.05)
            serving.handlers.gate.set()
            await first.read()
            await second.read()
            assert all(one.took_s >= 0.05 for one in serving.answered)
            assert serving.server.n_waiting == 0

    asyncio.run(scenario())


def test_requests_of_disconnected_clients_count_as_abandoned_not_as_failed(
    serve, wait_until
) -> None:
    async def scenario() -> None:
        async with serve(Limits(max_running=1)) as serving:
            client = await serving.connect()
            client.send("search", 1, query="runs")
            client.send("search", 2, query="waits")
            await wait_until(lambda: serving.server.n_waiting == 1)
            client.close()
            await wait_until(lambda: len(serving.answered) == 2)
            assert counters_of(serving) == {"search": (0, {}, 2)}
            assert serving.server.counters.failed_requests == 0

    asyncio.run(scenario())


def test_accepted_and_refused_clients_are_counted(serve, wait_until) -> None:
    async def scenario() -> None:
        async with serve(Limits(max_clients=2)) as serving:
            clients = [await serving.connect() for _ in range(2)]
            for client in clients:
                await client.ask("ping")
                client.send("search", query="x")
            await (await serving.connect()).read()
            counts = serving.server.counters
            assert (counts.accepted, counts.refused, serving.server.n_clients) == (2, 1, 2)

    asyncio.run(scenario())


def counters_of(serving: Any) -> dict[str, tuple[int, dict[str, int], int]]:
    counts = serving.server.counters.methods
    return {
        method: (count.answered.n, count.failed, count.n_abandoned)
        for method, count in counts.items()
    }
