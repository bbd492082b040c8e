"""Which commands are there, and where does each live? Only the module of the command that is called is imported."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from memsyncd.cli.grammar import Command


class Entry:
    """One row: the module with a `COMMANDS` that holds the command, and what it is for."""

    __slots__ = ("module", "summary")

    def __init__(self, module: str, summary: str) -> None:
        self.module: Final = module
        self.summary: Final = summary


GROUPS: dict[str, dict[str, Entry]] = {
    "Find": {
        "search": Entry("search", "find passages by words and phrases"),
        "context": Entry("context", "make a block of memory for a prompt, within a budget"),
        "get": Entry("get", "print a section, a note or some of its lines"),
        "list": Entry("workspaces", "list workspaces, or notes with --notes"),
        "watch": Entry("watch", "print changes as they are indexed, one a line"),
    },
    "Write": {
        "remember": Entry("remember", "append a section to the note of its kind, or to one that is named"),
        "memory": Entry("memory", "view and edit notes by the commands of the memory tool"),
        "history": Entry("history", "list what changed in notes, when, and who wrote it"),
        "diff": Entry("history", "show what a revision changed"),
        "undo": Entry("undo", "put back what stood before a revision"),
    },
    "Set up": {
        "init": Entry("init", "make a MEMORY.md and .memories/ to begin with"),
        "add": Entry("workspaces", "watch and index a folder"),
        "remove": Entry("workspaces", "stop watching a folder and drop its index; notes stay"),
        "config": Entry("config", "show or check the configuration, or say where it lies"),
        "hook": Entry("hook", "print what programs tell a model of its memory"),
        "completion": Entry("completion", "print a completion script for bash, zsh or fish"),
    },
    "Run": {
        "run": Entry("lifecycle", "be the daemon, in the foreground"),
        "start": Entry("lifecycle", "start the daemon in the background"),
        "stop": Entry("lifecycle", "stop the daemon"),
        "restart": Entry("lifecycle", "stop the daemon and start it again"),
        "service": Entry("service", "have systemd or launchd run the daemon"),
    },
    "Look after": {
        "status": Entry("status", "say how the daemon and its workspaces are"),
        "doctor": Entry("doctor.command", "find what is not well, and say what to do about it"),
        "metrics": Entry("metrics", "print the daemon's counters as Prometheus reads them"),
        "problems": Entry("status", "list what is odd about notes and folders"),
        "sync": Entry("sync", "make the index say what the disk says, now"),
        "reindex": Entry("sync", "drop the index and build it anew; searches go on meanwhile"),
        "export": Entry("records", "print the history of a workspace as JSON lines, to keep or to import elsewhere"),
        "import": Entry("records", "take in history that was exported; what is there already stays as it is"),
    },
}
ENTRIES: dict[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def load_command(name: str) -> Command:
    """Import the command's module. Raises KeyError for a name that is no command."""
    from importlib import import_module

    commands: dict[str, Command] = import_module(f"memsyncd.cli.{ENTRIES[name].module}").COMMANDS
    return commands[name]
