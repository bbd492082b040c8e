"""The commands of one capability.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations

from memsyncd.terminal.actions import call_operation, load_action, load_parser
from memsyncd.terminal.parser import (
    IDS,
    JSON,
    JSON_LINES,
    Argument,
    Command,
    Option,
    make_group,
    parse_fraction,
    parse_pair,
)


def make_status() -> Command:
    return Command(
        call_operation("status", "status", show="show_status", is_wide=True),
        options=(
            Option("-w --workspace WS", "only this workspace", field="workspace"),
            JSON,
        ),
        examples=("memsyncd status", "memsyncd status -w notes --json"),
    )


def make_problems() -> Command:
    return Command(
        call_operation("status", "problems", show="show_problems", is_wide=True),
        options=(
            Option("-w --workspace WS", "only this workspace", field="workspace"),
            JSON,
        ),
        examples=("memsyncd problems", "memsyncd problems -w ."),
    )


def make_metrics() -> Command:
    return Command(
        load_action("status", "print_metrics"),
        options=(
            JSON,
        ),
        examples=("memsyncd metrics", "memsyncd metrics --json"),
    )
