"""Parameters, results and operations: recall memories by keywords, topic and kind."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Freshness,
    Name,
    Result,
    TrackedParams,
)
from memsyncd.operations.operation import (
    READS,
    Command,
    Operation,
    Python,
    Shape,
)
from memsyncd.operations.sections import (
    Filters,
    MaxTokens,
    RelatedMeta,
    RelationNames,
)

RecallStage = Literal["keywords", "topic and kind", "words"]


Keyword = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class RecallParams(TrackedParams, frozen=True, kw_only=True):
    """At least one criterion. The first stage that finds memories answers: the keywords (with topic
    and kind, if given), then topic and kind alone, then the words of the text.
    """

    keywords: Annotated[list[Keyword], msgspec.Meta(max_length=20)] = msgspec.field(
        default_factory=list
    )
    """Any of these keywords. They are compared with the `keywords` and the `tags` of a section,
    exactly but for case."""
    topic: Keyword | None = None
    """Only memories of this topic: of this key `topic`, or else of notes with this title."""
    kind: Name | None = None
    """Only memories of this kind."""
    text: str = ""
    """Words, if nothing else finds a memory; by default the keywords."""
    max_tokens: MaxTokens = 2000
    """The budget of all texts together, 100 to 50,000 tokens."""
    follow: RelationNames = msgspec.field(default_factory=list)
    """Show what this relation leads to: `resolved_by`. The memories that typed links lead to come
    right behind the memory that has the links."""
    filters: Filters = Filters()
    workspace: Name | None = None


class RecalledMemory(RelatedMeta, frozen=True, kw_only=True):
    """A section with all sections beneath it."""

    relation: str | None = None
    """A relation that was followed to it."""
    related_to: str | None = None
    """The memory from which it was followed."""
    mark: str = ""
    """The line to put above the text for a model if it tries to instruct its reader."""
    text: str
    """Without the section's comment. The text of the most important memory, or of the best match if
    words were searched for, is cut, with `…`, if it is larger than the budget."""
    tokens: int


class Recalled(Result, frozen=True, kw_only=True):
    workspace: str
    stage: RecallStage | None
    """The stage that found them; null if none did."""
    memories: list[RecalledMemory]
    """The most important first, then the last accessed or updated."""
    tokens: int
    left_out: int
    """Memories that were found, and for which the budget has no room."""
    freshness: Freshness | None = None
    query_problems: list[str] = msgspec.field(default_factory=list)
    """As in the result of `search`, if words were searched for."""
    excluded: list[str] = msgspec.field(default_factory=list)
    """As in the result of `search`, if words were searched for."""


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="recall",
        params=RecallParams,
        result=Recalled,
        summary="Recall memories by keywords, topic and kind, within a budget of tokens.",
        shape=Shape.STEPS,
        run="recall.run:answer",
        errors=READS,
        route="GET /v1/recall",
        reads=True,
        command=Command(
            words="recall",
            group="Find",
            summary="recall memories by keywords, topic and kind, within a budget",
            arguments=("keywords [KEYWORD…]",),
            show="show_recalled",
            found="memories",
            examples=(
                "memsyncd recall redis timeout",
                "memsyncd recall --topic auth --kind error --follow resolved_by",
            ),
        ),
        python=Python(
            name="recall",
            positional=("*keywords",),
            doc="It searches by any of the keywords, else by topic and kind, else by words, the"
            " most important first. It raises BadRequest without a criterion.",
        ),
    ),
)
