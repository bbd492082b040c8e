"""List the commands and the module of each. Only the module of the called command is imported.

Commands that call an operation come from its declaration (`terminal/_generated`). The others are
listed here.
"""

from __future__ import annotations

import sys

from memsyncd.terminal._generated import COMMANDS, FIRST
from memsyncd.terminal.parser import (
    ALL,
    EVERYWHERE,
    JSON,
    PATHS,
    Option,
    make_format,
    make_workspace_option,
)
from memsyncd.terminal.wrap import wrap_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import SimpleNamespace as Args
    from typing import Final

    from memsyncd.errors import MemsyncdError
    from memsyncd.terminal.parser import Command
    from memsyncd.terminal.terminal import Paint


class Entry:
    """One command: its summary, and the module whose `COMMANDS` contains it. The module is empty
    for a command that is generated.
    """

    __slots__ = ("is_first", "module", "summary")

    def __init__(self, module: str, summary: str, *, is_first: bool = False) -> None:
        self.module: Final = module
        self.summary: Final = summary
        # It is on the first help screen.
        self.is_first: Final = is_first


# These commands stand first under their heading.
_FIRST = frozenset({"init", "doctor"})
_GROUPS: dict[str, dict[str, Entry]] = {
    "Find": {
        "ui": Entry(
            "panel", "open the panel, a page of notes, search, history and state", is_first=True
        ),
    },
    "Write": {},
    "Set up": {
        "init": Entry("init", "create a first MEMORY.md and .memories/"),
        "config": Entry("config", "show or check the configuration, or print its path"),
        "integrate": Entry(
            "integrate",
            "connect the coding agents of this machine, or one of them",
            is_first=True,
        ),
        "mcp": Entry("mcp", "connect an agent by MCP on stdin and stdout"),
        "hook": Entry("hook", "answer the hooks of coding agents, from their JSON on stdin"),
        "merge-driver": Entry(
            "git_merges", "merge two versions of a note by sections; git calls this"
        ),
        "completion": Entry("completion", "print a completion script for bash, zsh or fish"),
    },
    "Run": {
        "run": Entry("daemon", "run the daemon in the foreground"),
        "start": Entry("daemon", "start the daemon in the background"),
        "stop": Entry("daemon", "stop the daemon"),
        "restart": Entry("daemon", "stop the daemon and start it again"),
        "service": Entry("service", "have systemd or launchd run the daemon"),
    },
    "Maintain": {
        "doctor": Entry("doctor.command", "check everything, and name a remedy for each finding"),
    },
}


def _list_groups() -> dict[str, dict[str, Entry]]:
    """Return the commands by heading. Under each heading: commands for the first steps, commands of
    operations, the others.
    """
    groups: dict[str, dict[str, Entry]] = {}
    for group, entries in _GROUPS.items():
        first = {name: entry for name, entry in entries.items() if name in _FIRST}
        made = {
            name: Entry("", summary, is_first=name in FIRST)
            for name, (heading, summary, _) in COMMANDS.items()
            if heading == group
        }
        groups[group] = {**first, **made, **entries}
    return groups


GROUPS = _list_groups()
ENTRIES: dict[str, Entry] = {
    name: entry for group in GROUPS.values() for name, entry in group.items()
}


def load_command(name: str) -> Command:
    """Import the module of a command and return the command. Raises KeyError if it is unknown."""
    if name in COMMANDS:
        generated = f"memsyncd.terminal._generated.{COMMANDS[name][2]}"
        __import__(generated)
        command: Command = getattr(sys.modules[generated], f"make_{name.replace('-', '_')}")()
        return command
    module = f"memsyncd.cli.{ENTRIES[name].module}"
    # `importlib` itself imports `warnings`: half a millisecond of each command.
    __import__(module)
    commands: dict[str, Command] = sys.modules[module].COMMANDS
    return commands[name]


INTRO = "memsyncd keeps markdown memories indexed while you write them, and answers searches."
ONE = "`memsyncd COMMAND --help` describes one command."
SHARED = (
    make_workspace_option(),
    ALL,
    Option("-n --limit N", "at most N hits, notes, revisions or lines"),
    PATHS,
    make_format(("path", "start_line")),
    JSON,
    Option("-y --yes", "do it without a question"),
    *EVERYWHERE,
)
"""Options that many commands have, for the help."""
BEGIN = "`memsyncd run --init ~/notes` makes a folder with first notes, and indexes it."
MAX_WIDTH = 100
COLUMN = 26


def render_first_help(paint: Paint) -> str:
    """Render the ten commands that one needs first."""
    first = {name: entry for name, entry in ENTRIES.items() if entry.is_first}
    lines = [INTRO, "", f"{paint('bold', 'Usage')}  memsyncd COMMAND …", ""]
    lines += _render_entries(first, paint)
    rest = f"`memsyncd help --all` lists all {len(ENTRIES)} commands, and what their options share."
    return "\n".join([*lines, "", BEGIN, rest, ONE])


def render_overview(paint: Paint, *, width: int) -> str:
    """Render the list of all commands, in groups, and the options that several have."""
    lines = [INTRO, "", f"{paint('bold', 'Usage')}  memsyncd COMMAND …"]
    for group, entries in GROUPS.items():
        lines += ["", paint("bold", group), *_render_entries(entries, paint)]
    rows = [_render_option(option) for option in SHARED]
    lines += ["", paint("bold", "Options with one meaning in every command")]
    return "\n".join([*lines, *_render_rows(rows, paint, width), "", BEGIN, ONE])


def _render_entries(entries: dict[str, Entry], paint: Paint) -> list[str]:
    width = max(map(len, ENTRIES)) + 2
    return [
        f"  {paint('cyan', name)}{' ' * (width - len(name))}{entry.summary}"
        for name, entry in entries.items()
    ]


def render_help(name: str, summary: str, command: Command, paint: Paint, *, width: int) -> str:
    """Render the help of one command."""
    words = [f"memsyncd {name}", *(argument.usage for argument in command.arguments), "[OPTIONS]"]
    lines = [
        f"{paint('bold', 'Usage')}  {' '.join(words)}",
        "",
        f"{summary[0].upper()}{summary[1:]}.",
    ]
    if command.commands:
        rows = [(f"{name} {action}", each.summary) for action, each in command.commands.items()]
        lines += ["", paint("bold", "Commands"), *_render_rows(rows, paint, width)]
    rows = [
        (argument.metavar, argument.help)
        for argument in command.arguments
        if not command.commands or argument.choices != (*command.commands,)
    ]
    if rows:
        lines += ["", paint("bold", "Arguments"), *_render_rows(rows, paint, width)]
    lines += [
        "",
        paint("bold", "Options"),
        *_render_rows([_render_option(option) for option in command.options], paint, width),
    ]
    if command.query_filters:
        lines += ["", paint("bold", "Filters as words of the query; -kind:K excludes")]
        filters = " ".join(command.query_filters)
        lines += [f"  {line}" for line in wrap_words(filters, min(width, MAX_WIDTH) - 2)]
    if command.examples:
        lines += ["", paint("bold", "Examples"), *(f"  {example}" for example in command.examples)]
    if command.commands:
        lines += ["", f"`memsyncd {name} COMMAND --help` describes one command."]
    return "\n".join(lines)


def _render_option(option: Option) -> tuple[str, str]:
    lead = "" if len(option.flags) > 1 else "    "
    repeated = "; may be repeated" if option.is_repeated else ""
    value = (
        f" {option.metavar}"
        if option.needs_value
        else f"[={option.metavar}]"
        if option.metavar
        else ""
    )
    return f"{lead}{', '.join(option.flags)}{value}", option.help + repeated


def _render_rows(rows: list[tuple[str, str]], paint: Paint, width: int) -> Iterator[str]:
    for term, text in rows:
        lines = list(wrap_words(text, max(min(width, MAX_WIDTH) - COLUMN - 2, 30)))
        gap = " " * (COLUMN - len(term))
        if len(term) >= COLUMN:
            yield f"  {paint('cyan', term)}"
            yield from (" " * (COLUMN + 2) + line for line in lines)
        else:
            yield f"  {paint('cyan', term)}{gap}{lines[0]}"
            yield from (" " * (COLUMN + 2) + line for line in lines[1:])


# --- errors of the daemon -----------------------------------------------------------------------

_PARAMETER = r"(?s)parameter `([^`]*)`(.*)"


def name_options(error: MemsyncdError, name: str, command: Command, args: Args) -> tuple[str, str]:
    """Return the message and the hint of an error. The names of parameters are replaced by the
    options and arguments of the command, in the message as they were typed.
    """
    import re  # late, because only a refused request needs it

    words = {argument.name: argument.metavar for argument in command.arguments}
    words |= {option.name: option.flags[-1] for option in command.options}
    message, hint = error.message, error.hint
    if match := re.fullmatch(_PARAMETER, message):
        place = match[1].partition("[")[0].rpartition(".")[2]
        option = args.typed.get(place) or words.get(place, place)
        numbers = [getattr(args, argument.name, None) for argument in command.arguments]
        if option.startswith("-") and option not in args.typed.values():
            # The number of a change is an argument, too.
            option = next((n for n in numbers if isinstance(n, str) and n.isdecimal()), option)
        message = f"{name}: {option}{match[2]}"
        hint = hint if hint.startswith("one of") else f"see `memsyncd {name} --help`"
    if "confirm" in words:
        hint = hint.replace("confirm: true", words["confirm"])
    for parameter, word in words.items():
        # A name without an underscore may be a plain word of the sentence.
        if "_" in parameter:
            hint = re.sub(rf"\b{parameter}\b:?", word, hint)
    return message, hint
