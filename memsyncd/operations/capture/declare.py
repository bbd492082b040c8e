"""Parameters, results and operations: append what a step of a run produced."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Params,
    Word,
    WriteParams,
)
from memsyncd.operations.operation import (
    WRITES,
    Operation,
)
from memsyncd.operations.writes import (
    AddedSection,
    Heading,
    Tags,
    Written,
)


class CapturedText(Params, frozen=True, kw_only=True):
    """A text that a step produced."""

    content: str
    """Markdown; each `## ` heading begins a section of its own."""
    path: Word = ""
    """The file it comes from, kept as the source."""


class CaptureParams(WriteParams, frozen=True, kw_only=True):
    """What one step of a run produced: artifacts, an error, answers. Secrets in it are masked, and
    what the notes hold already of the same run is not written again.
    """

    step: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    """The step's name; `[[step]]` of the configuration names its kind."""
    artifacts: Annotated[list[CapturedText], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=list
    )
    error: str | None = None
    """Why the step failed; written as kind tool_run with the tag failure."""
    answers: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """Questions of an interview with their answers, written as one section."""
    run_id: Word | None = None
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
        errors=WRITES,
        route="POST /v1/capture",
    ),
)
