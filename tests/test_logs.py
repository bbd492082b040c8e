from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, TextIO

import pytest
import structlog

from memsyncd.logs import (
    ROOT,
    Event,
    LineHandler,
    count_lost_lines,
    get_log,
    is_debugging,
    set_up_logs,
)


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, own_level = list(root.handlers), root.level, logging.getLogger(ROOT).level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger(ROOT).setLevel(own_level)
    logging.captureWarnings(capture=False)


def set_up(
    stream: TextIO | None,
    level: Literal["debug", "info", "warning", "error"] = "info",
    form: Literal["auto", "json", "console"] = "json",
) -> LineHandler:
    return set_up_logs(level=level, format=form, stream=stream, is_terminal=False)


def test_a_line_is_one_json_object_with_time_level_and_event_first() -> None:
    stream = io.StringIO()
    set_up(stream)
    get_log("engine").info(Event.SYNC_DONE, workspace="shop-1", added=2)
    fields = json.loads(stream.getvalue())
    assert list(fields) == ["at", "level", "event", "workspace", "added"]
    assert fields["event"] == "sync_done"
    assert fields["at"].endswith("Z")


def test_a_terminal_gets_short_lines_and_a_file_gets_json() -> None:
    stream = io.StringIO()
    set_up_logs(level="info", format="auto", stream=stream, is_terminal=True)
    get_log("watch").warning(
        Event.EVENTS_LOST, reason="queue overflow", workspace="shop", duration_ms=1.234
    )
    assert (
        stream.getvalue()[9:]
        == 'warning events_lost reason="queue overflow" workspace=shop duration_ms=1.2\n'
    )


def test_control_characters_never_reach_a_terminal() -> None:
    stream = io.StringIO()
    set_up(stream, form="console")
    get_log("watch").info(Event.WATCH_DEGRADED, path='a\x1b]8;;x\x07\n"\u202e\udc80.md')
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r'path="a\x1b]8;;x\x07\n\"\u202e\udc80.md"')


def test_any_text_is_ascii_in_json() -> None:
    stream = io.StringIO()
    set_up(stream)
    get_log("watch").info(Event.WATCH_DEGRADED, path="é\udc80\n")
    assert stream.getvalue().isascii()
    assert json.loads(stream.getvalue())["path"] == "é\udc80\n"


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_is_shown_on_request(form: Literal["json", "console"]) -> None:
    stream = io.StringIO()
    set_up(stream, form=form)
    try:
        raise ValueError("odd\x1b")
    except ValueError:
        get_log("server").error(Event.REQUEST_FAILED, method="search", exc_info=True)
    assert "ValueError: odd" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    get_log("server").error(Event.REQUEST_FAILED, exc_info=True)


def test_fields_may_have_the_names_of_a_log_records_attributes() -> None:
    stream = io.StringIO()
    set_up(stream)
    get_log("server").info(Event.CONFIG_WARNING, name="n", message="m", args="a", module="x")
    assert json.loads(stream.getvalue())["args"] == "a"


def test_libraries_are_logged_from_warnings_up_whatever_the_level() -> None:
    stream = io.StringIO()
    set_up(stream, level="debug")
    logging.getLogger("watchdog.observers").debug("an event: %s", "secret")
    logging.getLogger("asyncio").error("odd: %s", 1)
    (line,) = stream.getvalue().splitlines()
    fields = json.loads(line)
    assert (fields["event"], fields["logger"], fields["message"]) == (
        "library_message",
        "asyncio",
        "odd: 1",
    )


def test_warnings_of_python_are_lines_too() -> None:
    stream = io.StringIO()
    set_up(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(capture=False)
    assert json.loads(stream.getvalue())["logger"] == "py.warnings"


def test_the_level_can_change_while_loggers_are_in_use() -> None:
    stream = io.StringIO()
    log = get_log("server")
    set_up(stream)
    log.debug(Event.CONFIG_WARNING)
    log.info(Event.DAEMON_READY)
    set_up(stream, level="debug")
    log.debug(Event.CONFIG_WARNING, method="ping")
    set_up(stream, level="error")
    log.info(Event.DAEMON_STOPPED)
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == [
        "daemon_ready",
        "config_warning",
    ]


def test_a_closed_or_missing_stream_loses_lines_and_raises_nothing() -> None:
    stream = io.StringIO()
    handler = set_up(stream)
    stream.close()
    get_log("server").error(Event.REQUEST_FAILED)
    assert handler.n_lost_lines == count_lost_lines() == 1


def test_is_debugging_follows_the_level() -> None:
    for level, is_so in (("info", False), ("debug", True), ("error", False)):
        set_up(io.StringIO(), level=level)
        assert is_debugging() is is_so


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_loses_lines_and_raises_nothing() -> None:
    stream = open("/dev/full", "w", encoding="ascii")  # noqa: SIM115
    handler = set_up(stream)
    for _ in range(3):
        get_log("server").error(Event.REQUEST_FAILED)
    assert handler.n_lost_lines == 3
    with suppress(OSError):
        stream.close()


def test_a_value_that_cannot_be_rendered_loses_its_own_line_only() -> None:
    class Unrenderable:
        def __str__(self) -> str:
            raise RuntimeError("no")

    stream = io.StringIO()
    handler = set_up(stream)
    get_log("server").info(Event.CONFIG_WARNING, client=Unrenderable())
    get_log("server").info(Event.DAEMON_READY)
    assert handler.n_lost_lines == 1
    assert json.loads(stream.getvalue())["event"] == "daemon_ready"


def test_a_pipe_without_a_reader_does_not_end_the_process() -> None:
    script = (
        "import sys; from memsyncd.logs import *\n"
        "set_up_logs(level='info', format='json', stream=sys.stderr, is_terminal=False)\n"
        "log = get_log('server')\n"
        "[log.info(Event.DAEMON_READY) for _ in range(1000)]\n"
        "print('alive')\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=writer,
        check=False,
        timeout=30,
    )
    os.close(writer)
    assert done.stdout == b"alive\n"


def test_events_can_be_captured_in_tests() -> None:
    set_up(io.StringIO())
    with structlog.testing.capture_logs() as events:
        get_log("engine").info(Event.SYNC_DONE, added=1)
    assert events == [{"event": "sync_done", "added": 1, "log_level": "info"}]
