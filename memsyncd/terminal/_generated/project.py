"""The commands of one capability.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations

from memsyncd.terminal.actions import call_operation, load_action, load_parser
from memsyncd.terminal.parser import (
    JSON,
    JSON_LINES,
    Argument,
    Command,
    Option,
    make_group,
    parse_fraction,
    parse_pair,
)


def make_index_project() -> Command:
    return Command(
        call_operation("project", "index_project", show="show_summaries"),
        options=(
            Option("--source PATH[=TAG,TAG]…", "summarise this file as well; its last part may have wildcards", name="sources", parse=load_parser("project", "parse_source"), field="sources"),
            Option("--dry-run", "change nothing; print the changes that would be made", field="dry_run"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd index-project --dry-run", "memsyncd index-project --source docs/rules.md=index:invariants"),
    )


def make_sources() -> Command:
    return Command(
        call_operation("project", "sources", show="show_sources"),
        options=(
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd sources",),
    )
