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


def make_backup() -> Command:
    return Command(
        load_action("records", "save_backup"),
        arguments=(
            Argument("file", "FILE", "the file to write; - writes it to stdout"),
        ),
        options=(
            Option("--force", "overwrite FILE if it exists"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd backup history.db", "memsyncd backup - -w notes | ssh host 'cat > notes.db'"),
        gone={"-f": "to overwrite the file: --force"},
    )


def make_restore() -> Command:
    return Command(
        load_action("records", "restore_backup"),
        arguments=(
            Argument("file", "FILE", "a file written by `memsyncd backup`; - reads it from stdin. Notes stay unchanged, and the present history is set aside, not deleted. Secrets that were purged come back only if the file still has them"),
        ),
        options=(
            Option("--adopt", "restore even the history of another workspace", field="adopt"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd restore history.db", "ssh host cat notes.db | memsyncd restore - -w notes"),
        gone={"--replace": "leave it out: a restore sets the present history aside by itself"},
    )
