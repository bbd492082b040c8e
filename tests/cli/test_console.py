"""The methods that a command may call if the current folder is in no workspace, and its advice."""

from __future__ import annotations

import io

import pytest

from memsyncd.cli.commands import load_command
from memsyncd.operations.table import OPERATIONS
from memsyncd.terminal._generated import READING
from memsyncd.terminal.console import Console, only_reads, report_state
from memsyncd.terminal.parser import parse_command
from memsyncd.terminal.terminal import Terminal


def test_the_methods_that_read_are_methods_that_carry_no_name_of_a_writer() -> None:
    writers = {
        name
        for name, operation in OPERATIONS.items()
        if "client" in operation.params.__struct_fields__
    }
    # Its `client` is the owner of the outbox.
    assert READING & writers == {"signal.outbox"}
    assert OPERATIONS.keys() >= READING


def test_every_method_that_http_answers_to_get_reads() -> None:
    answered = {
        name
        for name, operation in OPERATIONS.items()
        if operation.route.startswith("GET ") and "workspace" in operation.params.__struct_fields__
    }
    # A command does not call these on one workspace.
    assert answered - READING == {"patterns", "subscribe"}


@pytest.mark.parametrize(
    ("method", "params", "is_reading"),
    [
        ("archive", {"apply": False}, True),
        ("archive", {"apply": True}, False),
        ("memory", {"command": "view"}, True),
        ("memory", {"command": "delete"}, False),
        ("triage", {"promote": None}, True),
        ("triage", {"promote": "a.md#b"}, False),
        ("memory.clear", {"confirm": True}, False),
        ("history.purge", {}, False),
        ("signal.ack", {}, False),
        ("records.restore", {}, False),
        ("a.method.of.tomorrow", {}, False),
    ],
)
def test_a_call_reads_only_if_it_is_known_to(
    method: str, params: dict[str, object], is_reading: bool
) -> None:
    assert only_reads(method, params) is is_reading


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("search foo", "--wait includes them"),
        ("context", "--wait includes them"),
        ("list --notes", "to wait for them: memsyncd sync"),
        ("links", "to wait for them: memsyncd sync"),
    ],
)
def test_a_command_advises_only_an_option_that_it_has(words: str, advice: str) -> None:
    name, *rest = words.split()
    errors = io.StringIO()
    console = Console(Terminal(io.StringIO(), errors, {}), {})
    answer = {"freshness": {"pending": 21, "state": "ready"}}
    report_state(answer, parse_command(name, load_command(name), rest), console)
    assert f"21 notes not indexed yet; {advice}" in errors.getvalue()
