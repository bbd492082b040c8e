"""List the commands and the module of each; only the module of the called command is imported.

Commands that call an operation come from its declaration (`terminal/_generated`); the others are
listed here.
"""

from __future__ import annotations

import sys

from memsyncd.terminal._generated import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from memsyncd.terminal.parser import Command


class Entry:
    """One command: its summary, and the module whose `COMMANDS` has it; none for an operation."""

    __slots__ = ("module", "summary")

    def __init__(self, module: str, summary: str) -> None:
        self.module: Final = module
        self.summary: Final = summary


_FIRST = frozenset({"init", "doctor"})
_GROUPS: dict[str, dict[str, Entry]] = {
    "Find": {
        "ui": Entry("panel", "open the panel, a page of notes, search, history and state"),
    },
    "Write": {},
    "Set up": {
        "init": Entry("init", "create a first MEMORY.md and .memories/"),
        "config": Entry("config", "show or check the configuration, or print its path"),
        "integrate": Entry(
            "integrate", "connect a coding agent: Claude Code, Codex, Cursor and others"
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
    """Return the commands by their headings: where people begin, what operations do, the rest."""
    groups: dict[str, dict[str, Entry]] = {}
    for group, entries in _GROUPS.items():
        first = {name: entry for name, entry in entries.items() if name in _FIRST}
        made = {
            name: Entry("", summary)
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
    """Return a command; its module is imported now. Raises KeyError for an unknown name."""
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
