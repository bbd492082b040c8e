"""The commands of one capability.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations

from memsyncd.terminal.actions import call_operation, load_action, load_parser
from memsyncd.terminal.parser import (
    IDS,
    JSON,
    ALL,
    JSON_LINES,
    PATHS,
    Argument,
    Command,
    Option,
    make_format,
    make_group,
    parse_fraction,
    parse_pair,
    parse_whole,
)


def make_import() -> Command:
    return Command(
        call_operation("transfer", "memory.import", show="show_imported", prepare="name_file"),
        arguments=(
            Argument("file", "FILE", "the file with the memories; for basic-memory the folder of its notes"),
        ),
        options=(
            Option("--from FORMAT", "the system that wrote it: jsonl is memsyncd's own export: jsonl (default), lumenflow, fogsift, flowstate, basic-memory or claude-mem", name="format", choices=("jsonl", "lumenflow", "fogsift", "flowstate", "basic-memory", "claude-mem"), field="format"),
            Option("--dry-run", "write nothing, only report", name="apply", value=False, field="apply"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd import --from lumenflow .lumenflow/memory/memory.jsonl --dry-run", "memsyncd import --from claude-mem ~/.claude-mem/claude-mem.db"),
    )


def make_export() -> Command:
    return Command(
        call_operation("transfer", "memory.export", show="show_exported", prepare="choose_format"),
        arguments=(
            Argument("file", "FILE", "the file to write"),
        ),
        options=(
            Option("--jsonl", "a line of JSON for each memory (the default)"),
            Option("--sqlite", "a SQLite file with `memories` and `memories_fts`"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd export --jsonl memories.jsonl", "memsyncd export --sqlite memories.db"),
    )
