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


def make_watch() -> Command:
    return Command(
        load_action("changes", "watch_changes"),
        options=(
            Option("--path G…", "only notes that match", name="paths", field="paths"),
            Option("--all", "watch all workspaces"),
            Option("-w --workspace WS", "watch this workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON_LINES,
        ),
        examples=("memsyncd watch", "memsyncd watch --all --json"),
    )
