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


def make_index_project() -> Command:
    return Command(
        call_operation("project", "index_project", show="show_summaries"),
        options=(
            Option("--apply", "do it; otherwise only print what would change", field="apply"),
            Option("--plan DIGEST", "carry out only this plan, by the digest that a call without apply returned", field="plan"),
            Option("--source PATH[=TAG,TAG]…", "summarise this file as well; its last part may have wildcards", name="sources", parse=load_parser("project", "parse_source"), field="sources"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd index-project", "memsyncd index-project --source docs/rules.md=index:invariants --apply"),
        gone={"--dry-run": "leave it out: without --apply, only the plan is shown"},
    )


def make_sources() -> Command:
    return Command(
        call_operation("project", "sources", show="show_sources"),
        options=(
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            PATHS,
            make_format(("path", "tags", "files")),
            JSON,
        ),
        examples=("memsyncd sources",),
        in_each=True,
        lists="sources",
    )
