"""Parameters, results and operations: append what a step of a run produced."""

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
    """The file it comes from, kept as the source."""


class CaptureParams(WriteParams, frozen=True, kw_only=True):
    """The results of one step of a run: artifacts, an error, answers. Secrets in it are masked, and
    what the notes hold already of the same run is not written again.
    """

    step: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    """The step's name; the configuration names its kind, as `[[step]]`."""
    artifacts: Annotated[list[CapturedText], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=list
    )
    """Texts that it produced."""
    error: str | None = None
    """Why the step failed; written as kind tool_run with the tag failure."""
    answers: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """Questions of an interview with their answers, written as one section."""
    run_id: Word | None = None
    """The run, kept with each section."""
    kind: Word | None = None
    """By default that of the step."""
    tags: Tags = msgspec.field(default_factory=list)
    """Besides the step's name."""
    overview: Heading = "Overview"
    """The heading for the text before the first `## `; if empty, it is made from that text."""
    trigger: Literal["failure", "decision", "summary", "interview"] | None = None
    """Sent by hooks: nothing is written unless `[capture]` of the configuration allows it."""


class Captured(Written, frozen=True, kw_only=True):
    added: list[AddedSection]
    """The sections that are new."""
    is_allowed: bool
    """False if the configuration does not let hooks write this."""


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="capture",
        params=CaptureParams,
        result=Captured,
        summary="Append what a step of a run produced: artifacts, its failure, answers.",
        shape=Shape.STEPS,
        run="capture.run:capture_step",
        errors=WRITES,
        route="POST /v1/capture",
        command=Command(
            words="capture",
            group="Write",
            summary="append what a step produced: artifacts, failure, answers",
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
                "kind": "the kind; by default that of the step",
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
                " file. Secrets are masked, and what the notes hold already of the same run is not"
                " added again. Raises BadRequest if there is nothing to write."
            ),
        ),
    ),
)
