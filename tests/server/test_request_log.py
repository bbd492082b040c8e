"""The log line of each request: the log is real, requests are reported as the server does."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memsyncd.logs import ROOT, Event, set_up_logs
from memsyncd.server.request_log import (
    MAX_CLIENT_WARNINGS,
    MAX_WARNINGS,
    WINDOW_S,
    RequestLog,
    make_client_log,
)
from memsyncd.server.requests import ABANDONED, CompletedRequest
from memsyncd.server.session import Session

LinesOf = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> Iterator[LinesOf]:
    """Returns the lines since the last call. The level is debug unless the test sets another."""
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
