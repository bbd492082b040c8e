"""Parameters, results and operations: append the results of a step of a run."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    AddedSection,
    Heading,
    Params,
    Tags,
    Word,
    WriteParams,
    Written,
)
from memsyncd.operations.operation import (
    WRITES,
    Command,
    Extra,
    Operation,
    Python,
    Shape,
)


class CapturedText(Params, frozen=True, kw_only=True):
    """A text that a step produced."""

    content: str
    """Markdown; each `## ` heading begins a section of its own."""
    path: Word = ""
    """The file that the text comes from; it is kept as the source."""


class CaptureParams(WriteParams, frozen=True, kw_only=True):
    """The results of one step of a run: artifacts, an error, answers. Secrets are masked. Text of
    the same run that the notes have already is not written again.
    """

    step: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    """The step's name; `[[step]]` of the configuration gives its kind."""
    artifacts: Annotated[list[CapturedText], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=list
    )
    """The texts that the step produced."""
    error: str | None = None
    """Why the step failed. It is written with the kind `tool_run` and the tag `failure`."""
    answers: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """Questions of an interview with their answers, written as one section."""
    run_id: Word | None = None
    """The id of the run; each section states it."""
    kind: Word | None = None
    """The kind of the sections; by default the kind of the step."""
    tags: Tags = msgspec.field(default_factory=list)
    """Tags of the sections, besides the step's name."""
    overview: Heading = "Overview"
    """The heading for the text before the first `## `; if empty, it is made from that text."""
    trigger: Literal["failure", "decision", "summary", "interview"] | None = None
    """The event of a hook that sends this. Nothing is written unless `[capture]` of the
    configuration allows this event."""


class Captured(Written, frozen=True, kw_only=True):
    added: list[AddedSection]
    """The new sections."""
    is_allowed: bool
    """False if the configuration does not let hooks write after this event."""


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="capture",
        params=CaptureParams,
        result=Captured,
        summary="Append the results of a step of a run: artifacts, its failure, answers.",
        shape=Shape.STEPS,
        run="capture.run:capture_step",
        errors=WRITES,
        route="POST /v1/capture",
        command=Command(
            words="capture",
            group="Write",
            summary="append the results of a step: artifacts, failure, answers",
            arguments=("step STEP",),
            omit=("artifacts", "overview", "trigger"),
            extra=(
                Extra(
                    name="file",
                    usage="[FILE…]",
                    help="a markdown file that it produced; - for stdin",
                    is_argument=True,
                ),
                Extra(usage="--stdin", help="read an artifact from stdin, like FILE -"),
            ),
            usages={"run_id": "--run-id ID", "answers": "--answer QUESTION=ANSWER…"},
            help={
                "error": "the step failed with this message",
                "answers": "an answer of an interview",
                "kind": "the kind; by default the kind of the step",
                "tags": "add this tag",
            },
            prepare="make_artifacts",
            show="show_captured",
            examples=(
                "memsyncd capture research report.md --run-id r-7",
                "memsyncd capture build --run-id r-7 --error 'exit 2: no rule to make target x'",
                "memsyncd capture interview --answer 'Core problem=notes are lost'",
            ),
        ),
        python=Python(
            name="capture",
            positional=("step", "*artifacts"),
            omit=("overview", "trigger"),
            doc=(
                "An artifact is its text, or a dictionary with `content` and the `path` of its"
                " file. Secrets are masked. Text of the same run that the notes have already is not"
                " added again. Raises BadRequest if there is nothing to write."
            ),
        ),
    ),
)
