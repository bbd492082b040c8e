from __future__ import annotations

import re

import pytest

from memsyncd.cli.commands import (
    ENTRIES,
    SHARED,
    load_command,
    name_options,
    render_first_help,
    render_help,
    render_overview,
)
from memsyncd.core.editing.kinds import DEFAULT_KINDS
from memsyncd.core.search.filters import FILTER_NAMES
from memsyncd.errors import BadRequest
from memsyncd.terminal.parser import parse_command
from memsyncd.terminal.terminal import Paint
from memsyncd.terminal.wrap import display_width

PLAIN = Paint()
COLOUR = Paint(has_colour=True)


INNER = {
    f"{name} {action}": each
    for name in ENTRIES
    for action, each in load_command(name).commands.items()
}
EVERY = {name: load_command(name) for name in ENTRIES} | INNER


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_help_of_every_command_names_its_options_and_fits(width: int) -> None:
    for name, command in EVERY.items():
        summary = command.summary if name in INNER else ENTRIES[name].summary
        text = render_help(name, summary, command, PLAIN, width=width)
        flags = [flag for option in command.options for flag in option.flags]
        assert [(name, flag) for flag in flags if flag not in text] == []
        reported = text.partition("Examples")[0]
        assert all(display_width(line) <= max(width, 80) for line in reported.splitlines()), name


def test_the_help_of_a_command_names_its_subcommands() -> None:
    text = render_help("memory", "edit notes", EVERY["memory"], PLAIN, width=80)
    assert [name for name in INNER if name.startswith("memory ") and f"  {name} " not in text] == []
    assert "memsyncd memory COMMAND --help" in text


def test_the_help_of_every_command_describes_its_arguments() -> None:
    for name, command in EVERY.items():
        text = render_help(name, "summary", command, PLAIN, width=80)
        reported = " ".join(text.split())
        # The list of subcommands describes the argument that chooses one.
        missing = [
            argument.metavar
            for argument in command.arguments
            if argument.choices != (*command.commands,) or not argument.choices
            if f"{argument.metavar} {argument.help}" not in reported
        ]
        assert missing == [], name


@pytest.mark.parametrize(
    ("name", "message", "hint", "named"),
    [
        (
            "search",
            "parameter `limit`: expected a whole number up to 200",
            "rpc.discover describes every parameter",
            ("search: --limit: expected a whole number up to 200", "see `memsyncd search --help`"),
        ),
        (
            "promote",
            "parameter `tag` is missing",
            "parameters: anchor, task, tag",
            ("promote: --tag is missing", "see `memsyncd promote --help`"),
        ),
        (
            "session start",
            "parameter `session`: is empty",
            "rpc.discover describes every parameter",
            ("session start: SESSION: is empty", "see `memsyncd session start --help`"),
        ),
        (
            "search",
            "parameter `filters.tag[...]`: expected at most 200 characters",
            "rpc.discover describes every parameter",
            ("search: --tag: expected at most 200 characters", "see `memsyncd search --help`"),
        ),
        (
            "topic create",
            "the topic a.md is there already",
            "append to it with on_similar: append, or name another note",
            (
                "the topic a.md is there already",
                "append to it with --on-similar append, or name another note",
            ),
        ),
        (
            "search",
            "too slow",
            "ask with a longer timeout_ms",
            ("too slow", "ask with a longer --timeout-ms"),
        ),
        ("search", "no note is there", "", ("no note is there", "")),
    ],
)
def test_an_error_of_the_daemon_names_options_in_place_of_parameters(
    name: str, message: str, hint: str, named: tuple[str, str]
) -> None:
    args = parse_command(name, EVERY[name], ["--help"])
    assert name_options(BadRequest(message, hint=hint), name, EVERY[name], args) == named


@pytest.mark.parametrize(
    ("words", "parameter", "named"),
    [
        ("search foo -n 100000000", "limit", "search: -n"),
        ("search foo --limit=100000000", "limit", "search: --limit"),
        ("undo 0", "change_set", "undo: 0"),
        ("undo --change-set 999 a.md", "change_set", "undo: --change-set"),
        ("context redis --max-tokens 0", "max_tokens", "context: --max-tokens"),
    ],
)
def test_an_error_names_an_option_as_it_was_typed(words: str, parameter: str, named: str) -> None:
    name, *rest = words.split()
    error = BadRequest(f"parameter `{parameter}`: expected a whole number from 100")
    args = parse_command(name, EVERY[name], rest)
    message, _ = name_options(error, name, EVERY[name], args)
    assert message == f"{named}: expected a whole number from 100"


def test_the_help_names_all_kinds_that_are_configured_by_default() -> None:
    for name in ("remember", "search"):
        [kind] = [option for option in load_command(name).options if option.name == "kind"]
        named = kind.help.partition(": ")[2].partition(", or ")[0]
        assert named.split(", ") == list(DEFAULT_KINDS)


def test_the_first_help_screen_has_ten_commands_and_the_whole_help_has_all() -> None:
    first, whole = render_first_help(PLAIN), render_overview(PLAIN, width=80)
    assert sum(f"\n  {name} " in first for name in ENTRIES) == 10
    assert all(f"\n  {name} " in whole for name in ENTRIES)
    assert all(option.flags[-1] in whole for option in SHARED)
    every = [option.flags for name in ENTRIES for option in load_command(name).options]
    assert all(option.flags in every for option in SHARED)


def test_the_help_of_search_names_every_filter_that_a_query_may_have() -> None:
    shown = render_help("search", "find", load_command("search"), PLAIN, width=80)
    assert all(re.search(rf"^  .*\b{name}:", shown, re.MULTILINE) for name in FILTER_NAMES)
