"""Is every request counted once, however it ends? Real sockets, and a desk that behaves in the ways a method can."""

from __future__ import annotations

import asyncio
from typing import Any

from memsyncd.server.requests import Limits


def test_requests_are_counted_by_method_and_by_how_they_ended(serve) -> None:
    async def story() -> None:
        async with serve() as serving:
            client = await serving.connect()
            for _ in range(3):
                await client.ask("ping")
            await client.ask("get", path="a.md")
            await client.ask("status")
            await client.ask("no.such")
            client.write(b"nonsense\n")
            await client.read()
            assert show(serving) == {
                "ping": (3, {}, 0),
                "get": (1, {"conflict": 1}, 0),
                "status": (1, {"internal": 1}, 0),
                "invalid": (2, {"bad_request": 2}, 0),
            }
            assert (serving.server.counters.requests, serving.server.counters.failed_requests) == (7, 4)

    asyncio.run(story())


def test_each_request_is_told_of_once_also_in_batches_and_without_an_id(serve, wait_until) -> None:
    async def story() -> None:
        async with serve() as serving:
            client = await serving.connect()
            ping = {"jsonrpc": "2.0", "method": "ping", "id": 1}
            client.write([ping, ping, {"jsonrpc": "2.0", "method": "ping"}, 7])
            await client.read()
            client.send("get", None, path="a.md")
            await wait_until(lambda: len(serving.answered) == 5)
            assert [one.method for one in serving.answered] == ["ping", "ping", "ping", "invalid", "get"]
            assert all(one.took_s >= 0 and one.error is None for one in serving.answered)

    asyncio.run(story())


def test_a_slow_request_takes_the_time_that_its_client_waited(serve, wait_until) -> None:
    async def story() -> None:
        async with serve() as serving:
            client = await serving.connect()
            client.send("search", query="x")
            await wait_until(lambda: serving.desk.started)
            await asyncio.sleep(0.05)
            serving.desk.gate.set()
            await client.read()
            (answered,) = serving.answered
            assert answered.took_s >= 0.05
            assert serving.server.counters.methods["search"].answered.longest_s == answered.took_s

    asyncio.run(story())


def test_time_spent_waiting_for_a_turn_counts(serve, wait_until) -> None:
    async def story() -> None:
        async with serve(Limits(max_running=1)) as serving:
            first, second = await serving.connect(), await serving.connect()
            first.send("search", query="x")
            await wait_until(lambda: serving.desk.started == 1)
            second.send("search", query="x")
            await wait_until(lambda: serving.server.n_waiting == 1)
            assert serving.server.n_running == 1
            await asyncio.sleep(0.05)
            serving.desk.gate.set()
            await first.read()
            await second.read()
            assert all(one.took_s >= 0.05 for one in serving.answered)
            assert serving.server.n_waiting == 0

    asyncio.run(story())


def test_requests_whose_client_leaves_are_abandoned_and_no_failures(serve, wait_until) -> None:
    async def story() -> None:
        async with serve(Limits(max_running=1)) as serving:
            client = await serving.connect()
            client.send("search", 1, query="runs")
            client.send("search", 2, query="waits")
            await wait_until(lambda: serving.server.n_waiting == 1)
            client.close()
            await wait_until(lambda: len(serving.answered) == 2)
            assert show(serving) == {"search": (0, {}, 2)}
            assert serving.server.counters.failed_requests == 0

    asyncio.run(story())


def test_clients_are_counted_when_they_come(serve, wait_until) -> None:
    async def story() -> None:
        async with serve(Limits(max_clients=2)) as serving:
            clients = [await serving.connect() for _ in range(2)]
            for client in clients:
                await client.ask("ping")
                client.send("search", query="x")
            await (await serving.connect()).read()
            counts = serving.server.counters
            assert (counts.accepted, counts.refused, serving.server.n_clients) == (2, 1, 2)

    asyncio.run(story())


def show(serving: Any) -> dict[str, tuple[int, dict[str, int], int]]:
    counts = serving.server.counters.methods
    return {method: (count.answered.n, count.failed, count.n_abandoned) for method, count in counts.items()}
