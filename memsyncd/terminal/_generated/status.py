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


def make_status() -> Command:
    return Command(
        call_operation("status", "status", show="show_status", is_wide=True),
        options=(
            Option("--all", "all workspaces, which is the default"),
            Option("-w --workspace WS", "only this workspace", field="workspace"),
            make_format(("id", "name", "state", "generation", "files", "sections", "chunks", "pending", "unrecorded", "problems", "index_bytes", "index_wal_bytes", "records_wal_bytes", "last_sync_at", "root", "reasons", "watcher", "missed_events", "failed_syncs")),
            JSON,
        ),
        examples=("memsyncd status", "memsyncd status -w notes --json"),
        lists="workspaces",
    )


def make_problems() -> Command:
    return Command(
        call_operation("status", "problems", show="show_problems", is_wide=True),
        options=(
            Option("--path P", "only of this note", field="path"),
            Option("-n --limit N", "only the first so many; by default all", field="limit"),
            Option("--all", "all workspaces, which is the default"),
            Option("-w --workspace WS", "only this workspace", field="workspace"),
            PATHS,
            make_format(("workspace", "path", "line", "code", "problem", "hint")),
            JSON,
        ),
        examples=("memsyncd problems", "memsyncd problems -w ."),
        lists="problems",
    )


def make_metrics() -> Command:
    return Command(
        load_action("status", "print_metrics"),
        options=(
            JSON,
        ),
        examples=("memsyncd metrics", "memsyncd metrics --json"),
    )
