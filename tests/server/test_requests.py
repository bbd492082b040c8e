"""The order, the limits, the counters and the log lines of requests."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.turns import Flow
from memsyncd.logs import ROOT, Event, set_up_logs
from memsyncd.server.requests import (
    ABANDONED,
    MAX_CLIENT_WARNINGS,
    MAX_WARNINGS,
    WINDOW_S,
    CompletedRequest,
    LineScheduler,
    QueuedRequest,
    RequestLog,
    RequestQueue,
    make_client_log,
)
from memsyncd.server.session import Limits, Session

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
    """Has `n_lines` lines and processes one line in each turn."""

    def __init__(self, scheduler: LineScheduler, n_lines: int, name: str, seen: list[str]) -> None:
        self._scheduler, self._n_lines, self._name, self._seen = scheduler, n_lines, name, seen

    def process_lines(self) -> None:
        self._seen.append(self._name)
        self._n_lines -= 1
        if self._n_lines:
            self._scheduler.add(self)


async def test_clients_with_many_lines_take_turns_and_the_loop_runs_between_rounds() -> None:
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


# --- counters, through a real socket ---


async def test_requests_are_counted_by_method_and_outcome(serve) -> None:
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


async def test_each_request_is_reported_once_also_in_batches_and_without_an_id(
    serve, wait_until
) -> None:
    async with serve() as serving:
        client = await serving.connect()
        ping = {"jsonrpc": "2.0", "method": "ping", "id": 1}
        client.write([ping, ping, {"jsonrpc": "2.0", "method": "ping"}, 7])
        await client.read()
        client.send("get", None, path="a.md")
        await wait_until(lambda: len(serving.answered) == 5)
        assert [request.method for request in serving.answered] == [
            "ping",
            "ping",
            "ping",
            "invalid",
            "get",
        ]
        assert all(request.took_s >= 0 and request.error is None for request in serving.answered)


async def test_the_duration_of_a_request_is_the_time_that_its_client_waited_also_in_the_queue(
    serve, wait_until
) -> None:
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
        durations = [request.took_s for request in serving.answered]
        assert min(durations) >= 0.05
        assert serving.server.counters.methods["search"].answered.longest_s == max(durations)
        assert serving.server.n_waiting == 0


async def test_requests_of_disconnected_clients_count_as_abandoned_not_as_failed(
    serve, wait_until
) -> None:
    async with serve(Limits(max_running=1)) as serving:
        client = await serving.connect()
        client.send("search", 1, query="runs")
        client.send("search", 2, query="waits")
        await wait_until(lambda: serving.server.n_waiting == 1)
        client.close()
        await wait_until(lambda: len(serving.answered) == 2)
        assert counters_of(serving) == {"search": (0, {}, 2)}
        assert serving.server.counters.failed_requests == 0


def counters_of(serving: Any) -> dict[str, tuple[int, dict[str, int], int]]:
    counts = serving.server.counters.methods
    return {
        method: (count.answered.n, count.failed, count.n_abandoned)
        for method, count in counts.items()
    }


# --- log lines ---

LinesOf = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> Iterator[LinesOf]:
    """A function that returns the log lines since its last call. The level is debug by default."""
    root = logging.getLogger()
    handlers, level, own_level = list(root.handlers), root.level, logging.getLogger(ROOT).level
    stream = io.StringIO()
    set_up_logs(
        level=getattr(request, "param", "debug"), format="json", stream=stream, is_terminal=False
    )

    def take() -> list[dict[str, Any]]:
        taken = [json.loads(line) for line in stream.getvalue().splitlines()]
        stream.seek(0)
        stream.truncate()
        return taken

    yield take
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger(ROOT).setLevel(own_level)
    logging.captureWarnings(capture=False)


class LogWithClock:
    """A request log with a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.log = RequestLog(lambda: self.now_s)
        self.session = Session(session_id=1, peer_pid=42, send=lambda _line: True)

    def end(self, code: str = "", error: Exception | None = None) -> None:
        self.log.add(CompletedRequest(self.session, "search", 0.00123, code, error))


def test_a_result_is_logged_at_debug(lines: LinesOf) -> None:
    LogWithClock().end()
    (line,) = lines()
    del line["at"]
    assert line == {
        "level": "debug",
        "event": "request_done",
        "method": "search",
        "client": "pid 42",
        "duration_ms": 1.2,
    }


@pytest.mark.parametrize("lines", ["info"], indirect=True)
def test_results_and_ordinary_errors_are_not_logged_at_info(lines: LinesOf) -> None:
    life = LogWithClock()
    for code in (
        "",
        ABANDONED,
        "workspace_not_found",
        "note_not_found",
        "conflict",
        "edit_refused",
    ):
        life.end(code)
    assert lines() == []


def test_a_client_is_logged_under_the_name_that_it_gives_itself(lines: LinesOf) -> None:
    life = LogWithClock()
    life.session.client = "editor"
    life.end("note_not_found")
    (line,) = lines()
    assert (line["level"], line["client"], line["code"]) == ("debug", "editor", "note_not_found")


def test_a_refused_request_is_a_warning_without_a_traceback(lines: LinesOf) -> None:
    LogWithClock().end("timeout")
    (line,) = lines()
    assert (line["level"], line["event"], line["code"]) == ("warning", "request_failed", "timeout")
    assert not {"exception", "omitted"} & line.keys()


def test_an_internal_error_is_logged_with_its_traceback_in_one_line(lines: LinesOf) -> None:
    LogWithClock().end("internal", ValueError("odd"))
    (line,) = lines()
    assert (line["level"], line["method"], line["code"], line["reason"]) == (
        "error",
        "search",
        "internal",
        "ValueError",
    )
    assert "ValueError: odd" in line["exception"]


def test_warnings_over_the_limit_are_counted_and_the_next_line_has_their_number(
    lines: LinesOf,
) -> None:
    life = LogWithClock()
    for _ in range(MAX_WARNINGS + 1000):
        life.end("bad_request")
    assert len(lines()) == MAX_WARNINGS
    life.now_s += WINDOW_S
    life.end("bad_request")
    life.end("bad_request")
    assert [line.get("omitted") for line in lines()] == [1000, None]


def test_warnings_of_refused_clients_are_limited(lines: LinesOf) -> None:
    now_s = [100.0]
    warn = make_client_log(Event.CLIENT_REFUSED, lambda: now_s[0])
    for _ in range(500):
        warn("too many clients")
    refusals = lines()
    assert len(refusals) == MAX_CLIENT_WARNINGS
    assert refusals[0]["reason"] == "too many clients"
    now_s[0] += WINDOW_S
    warn("it belongs to user 7")
    (line,) = lines()
    assert (line["event"], line["reason"], line["omitted"]) == (
        "client_refused",
        "it belongs to user 7",
        500 - MAX_CLIENT_WARNINGS,
    )
