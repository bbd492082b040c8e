"""The commands that call an operation, by name, and which operations only read.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations


READING = frozenset({"access.stats", "context", "diff", "duplicates", "field.history", "get", "history", "links", "list", "list.folder", "log.agents", "memory.export", "profile", "recall", "records.backup", "search", "session.list", "session.resume", "share.log", "share.status", "signal.inbox", "signal.outbox", "similar", "sources", "stats", "status", "sync", "task.context", "task.list", "task.ready", "topic.get", "topic.list", "validate"})
"""Operations that change neither notes nor records."""
READING_IF: dict[str, dict[str, object]] = {"memory": {"command": "view"}, "triage": {"promote": None}, "index_project": {"apply": None}, "topic.archive": {"apply": None}, "topic.restore": {"apply": None}, "task.summarize": {"apply": None}, "archive": {"apply": None}, "archive.restore": {"apply": None}, "cleanup": {"apply": None}, "promote": {"apply": None}, "share.init": {"apply": None}}
"""Parameters with which an operation that writes only reads."""
READING_TOOLS = frozenset({"memory_search", "memory_context", "memory_get"})
"""Tools of MCP that only read."""
CURRENT: dict[str, tuple[str, ...]] = {"note.add": ("task", "session"), "task.context": ("task",), "task.checkpoint": ("task", "session"), "task.summarize": ("task",), "session.start": ("session", "task"), "session.end": ("session", "task"), "session.resume": ("session", "task")}
"""Fields that the environment may give, by operation."""


COMMANDS: dict[str, tuple[str, str, str]] = {
    "status": ("Maintain", "show the state of the daemon and its workspaces", "status"),
    "problems": ("Maintain", "list the problems of notes and folders", "status"),
    "metrics": ("Maintain", "print the daemon's counters in Prometheus format", "status"),
    "search": ("Find", "find passages by words and phrases", "search"),
    "context": ("Find", "print memory for a prompt, within a budget", "context"),
    "recall": ("Find", "recall memories by keywords, topic and kind, within a budget", "recall"),
    "remember": ("Write", "append a section to the note of its kind, or to a named note", "notes"),
    "memory": ("Write", "view and edit notes with the commands of the memory tool", "notes"),
    "clear": ("Write", "remove every note of memory, after a question", "notes"),
    "check": ("Write", "check notes: metadata, and what is odd about their text", "notes"),
    "get": ("Find", "print a section, a note or some of its lines", "notes"),
    "list": ("Find", "list workspaces; notes with --notes, a filter, --sort or -n", "notes"),
    "set": ("Write", "change status, metadata, relations or title of a memory; '' removes one", "memories"),
    "done": ("Write", "finish a memory: its status becomes done", "memories"),
    "relate": ("Write", "relate a memory to another, such as `resolves`", "memories"),
    "choose": ("Write", "keep one of two texts that a merge has left of a memory, or both", "memories"),
    "forget": ("Write", "remove a memory from its note; undo restores it", "memories"),
    "replace": ("Write", "write a memory in place of an outdated one, which is archived", "memories"),
    "links": ("Find", "list links between notes, backlinks and dangling links", "links"),
    "similar": ("Find", "find sections that say nearly what a section, note or text says", "similar"),
    "patterns": ("Find", "list memories that recur in several workspaces", "similar"),
    "stats": ("Find", "count sections by kind, tag, task, month and size", "stats"),
    "accesses": ("Find", "count how often sections were recalled, and when last", "stats"),
    "capture": ("Write", "append the results of a step: artifacts, failure, answers", "capture"),
    "index-project": ("Write", "summarise README, manifests and CI of a project; its plan first", "project"),
    "sources": ("Write", "list the files that index-project summarises", "project"),
    "history": ("Write", "list the changes of notes, with time and writer", "history"),
    "diff": ("Write", "show what a change did to a note, or to all of its notes", "history"),
    "undo": ("Write", "restore the text from before a change", "history"),
    "topic": ("Write", "notes as topics with fields: append, history, archive", "topics"),
    "task": ("Write", "list, checkpoint and summarise tasks, and print their context", "tasks"),
    "session": ("Write", "begin and resume sessions of agents", "tasks"),
    "triage": ("Write", "count sections tagged as bugs, and make tasks of them", "tasks"),
    "profile": ("Find", "list what holds for the whole project", "tasks"),
    "signal": ("Write", "send and read signals between agents", "signals"),
    "log": ("Maintain", "show what memory has given to agents", "agents"),
    "archive": ("Maintain", "archive memories by name, filters or worth; its plan first", "upkeep"),
    "unarchive": ("Maintain", "restore archived memories, byte for byte", "upkeep"),
    "cleanup": ("Maintain", "archive memories past their time; its plan first", "upkeep"),
    "promote": ("Write", "copy a memory to the project's note, as lasting knowledge", "upkeep"),
    "add": ("Set up", "watch and index a folder", "workspaces"),
    "remove": ("Set up", "stop watching a folder and delete its index; notes stay", "workspaces"),
    "discover": ("Set up", "list memories of agents, vaults and rules here; add them", "workspaces"),
    "sync": ("Maintain", "bring the index up to date with the disk now", "workspaces"),
    "reindex": ("Maintain", "rebuild the index; searches go on meanwhile", "workspaces"),
    "watch": ("Find", "print changes as they are indexed, one a line", "changes"),
    "semantic": ("Maintain", "search by meaning, too: status, enable, disable, warm", "semantic"),
    "backup": ("Maintain", "save the history of a workspace to a file", "records"),
    "restore": ("Maintain", "put a saved history back, here or on another machine", "records"),
    "import": ("Write", "import memories of another system, or of an export", "transfer"),
    "export": ("Maintain", "export the memories of a workspace to a file", "transfer"),
    "share": ("Set up", "share memory with your other machines, by git", "share"),
}
"""The heading, the summary and the module of each command."""


FIRST = frozenset({"status", "search", "context", "remember", "get", "history", "undo", "add"})
"""The commands on the first help screen."""
