"""Which methods a command may call on the only workspace, in a folder that is in none, and which
parameters commands that call one method send."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest

from memsyncd.cli.commands import ENTRIES, load_command
from memsyncd.operations.table import OPERATIONS
from memsyncd.terminal._generated import READING
from memsyncd.terminal.console import Console, only_reads
from memsyncd.terminal.parser import Command, Option
from memsyncd.terminal.terminal import Terminal


def test_the_methods_that_read_are_methods_that_carry_no_name_of_a_writer() -> None:
    writers = {name for name, one in OPERATIONS.items() if "client" in one.params.__struct_fields__}
    # Whose outbox it is.
    assert READING & writers == {"signal.outbox"}
    assert OPERATIONS.keys() >= READING


def test_every_method_that_http_answers_to_get_reads() -> None:
    answered = {
        name
        for name, one in OPERATIONS.items()
        if one.route.startswith("GET ") and "workspace" in one.params.__struct_fields__
    }
    # They are not called on one workspace.
    assert answered - READING == {"patterns", "subscribe"}


@pytest.mark.parametrize(
    ("method", "params", "is_reading"),
    [
        ("archive", {"dry_run": True}, True),
        ("archive", {"dry_run": False}, False),
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


# Values of options that take others than a text or a number.
SAMPLES = {
    "--range": "1-2",
    "--expires": "7d",
    "--meta": "a=b",
    "--answer": "a=b",
    "--field": "a=b",
    "--source": "a",
}


# Arguments that name a folder which must be there.
WORDS = {"PATH": "."}


class Sent(Exception):
    """What a command would send."""


class Recorder(Console):
    """Stops a command at its request."""

    def call_on(self, workspace: str | None, method: str, **params: object) -> dict[str, Any]:
        raise Sent(method, params)

    def call(self, method: str, **params: object) -> dict[str, Any]:
        raise Sent(method, params)

    def set_timeout_ms(self, timeout_ms: int | None) -> None:
        """Without a connection there is none to set it of."""

    @property
    def roots(self) -> dict[str, str]:
        return {}


def list_calling() -> list[tuple[str, Command]]:
    every = []
    for name in ENTRIES:
        command = load_command(name)
        every += [(f"{name} {action}", each) for action, each in command.commands.items()]
        every.append((name, command))
    return [
        (name, each)
        for name, each in every
        if re.search("make_action|call_operation", each.run.__qualname__)
    ]


CALLING = list_calling()


def make_args(command: Command, given: Option) -> SimpleNamespace:
    args = SimpleNamespace(params={})
    for option in command.options:
        nothing = [] if option.is_repeated else None if option.metavar else False
        setattr(args, option.name, nothing)
    for argument in command.arguments:
        value = argument.choices[0] if argument.choices else WORDS.get(argument.usage, "1")
        setattr(args, argument.name, [value] if argument.is_repeated else value)
        if argument.field:
            args.params[argument.field] = getattr(args, argument.name)
    if given.name == "stdin":
        return args
    value = True
    if given.metavar:
        value = given.parse(SAMPLES.get(given.flags[-1], [*given.choices, "1"][0]))
    setattr(args, given.name, [value] if given.is_repeated else value)
    if given.field:
        outer, _, inner = given.field.partition(".")
        kept = getattr(args, given.name) if given.metavar else given.value
        args.params[outer] = {inner: kept} if inner else kept
    return args


def test_most_commands_are_found() -> None:
    assert len(CALLING) > 35


@pytest.mark.parametrize(("name", "command"), CALLING, ids=[name for name, _ in CALLING])
def test_every_option_of_a_command_is_a_parameter_of_its_method(
    name: str, command: Command, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1").write_text("an artifact")
    monkeypatch.chdir(tmp_path)
    for option in command.options:
        args = make_args(command, option)
        with pytest.raises(Sent) as caught:
            command.run(args, Recorder(Terminal(io.StringIO(), io.StringIO(), {}), {}))
        method, params = caught.value.args
        sent = {key for key, value in params.items() if value is not None}
        assert sent <= {*OPERATIONS[method].params.__struct_fields__}, f"{name} {option.flags}"
