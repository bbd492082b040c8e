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
    Operation,
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
    """Any of these, exactly but for case, in the `keywords` of a section."""
    topic: Keyword | None = None
    kind: Name | None = None
    text: str = ""
    """Words to search for; by default the keywords."""
    max_tokens: MaxTokens = 2000
    """Limit of all texts together."""
    follow: RelationNames = msgspec.field(default_factory=list)
    """Relations such as `resolved_by`: the memories that typed links lead to come right behind the
    one that leads to them."""
    filters: Filters = Filters()
    workspace: Name | None = None


class RecalledMemory(RelatedMeta, frozen=True, kw_only=True):
    """A section with those beneath it."""

    relation: str | None = None
    """A relation that was followed to it."""
    related_to: str | None = None
    """The memory from which it was followed."""
    mark: str = ""
    """The line to put above the text for a model if it tries to instruct its reader."""
    text: str
    """Without the section's comment. That of the most important memory, or with words of the best
    match, is cut, with `…`, if it is larger than the budget."""
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
        errors=READS,
        route="GET /v1/recall",
        reads=True,
    ),
)
