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


def make_capture() -> Command:
    return Command(
        call_operation("capture", "capture", show="show_captured", prepare="make_artifacts"),
        arguments=(
            Argument("step", "STEP", "the step's name; [[step]] of the configuration gives its kind", field="step"),
            Argument("file", "[FILE…]", "a markdown file that it produced; - for stdin"),
        ),
        options=(
            Option("--error TEXT", "the step failed with this message", field="error"),
            Option("--answer QUESTION=ANSWER…", "an answer of an interview", name="answers", parse=parse_pair, field="answers", collect=dict),
            Option("--run-id ID", "the id of the run; each section states it", field="run_id"),
            Option("--kind K", "the kind; by default the kind of the step", field="kind"),
            Option("--tag T…", "add this tag", name="tags", field="tags"),
            Option("--stdin", "read an artifact from stdin, like FILE -"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd capture research report.md --run-id r-7", "memsyncd capture build --run-id r-7 --error 'exit 2: no rule to make target x'", "memsyncd capture interview --answer 'Core problem=notes are lost'"),
    )
