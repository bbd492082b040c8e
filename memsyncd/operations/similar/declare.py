"""Parameters, results and operations of sections that say nearly the same."""

from __future__ import annotations

from typing import Annotated

import msgspec

from memsyncd.operations.fields import (
    Freshness,
    Limit,
    Name,
    Params,
    Result,
    SectionPlace,
    TimeoutMs,
    Values,
    WorkspaceNames,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    OPENS,
    READS,
    Operation,
    Paths,
)
from memsyncd.operations.recall.declare import Keyword
from memsyncd.operations.search.declare import AnsweringWorkspace
from memsyncd.operations.sections import (
    Filters,
    FoundSection,
    Score,
)
from memsyncd.operations.semantic.declare import SemanticState


class SimilarParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Name | None = None
    """A section; or `text`; or `topic`."""
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)] | None = None
    topic: Keyword | None = None
    """The sections whose metadata names it; what is similar to them is of other topics, or none."""
    min_similarity: Score | None = None
    """From 0 to 1. With vectors the cosine, by default what is clearly above the usual one of this
    workspace; without, the share of words, and of pairs of adjacent words, in common, by default
    0.3: from 0.7 on both say nearly the same."""
    limit: Limit = 10
    include_archived: bool = False


class SimilarSection(FoundSection, frozen=True, kw_only=True):
    workspace: str
    digest: str
    """Digest of the file as indexed."""
    similarity: float


class SimilarSections(Result, frozen=True, kw_only=True):
    sections: list[SimilarSection]
    """The most similar first."""
    semantic: SemanticState = "off"
    """`off` if words were compared; with vectors, whether all sections have theirs."""
    semantic_pending: int = 0
    freshness: Freshness | None = None


class DuplicatesParams(WorkspaceParams, frozen=True, kw_only=True):
    min_similarity: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.7
    """The share of words, and of pairs of adjacent words, that copies have in common."""
    limit: Limit = 20
    """Groups."""
    filters: Filters = Filters()


class Copy(SectionPlace, frozen=True, kw_only=True):
    """A section of which there are near copies."""

    digest: str
    """Digest of the file as indexed."""
    similarity: float
    """Words in common with the first of the group."""


class DuplicateGroup(Result, frozen=True, kw_only=True):
    sections: list[Copy]
    """The longest first: it is likely to hold what the others say."""
    similarity: float
    """The lowest by words of the pairs that make the group."""
    cosine: float | None
    """The lowest of vectors; null where vectors did not find a pair."""


class Duplicates(Result, frozen=True, kw_only=True):
    """A plan: nothing is changed."""

    workspace: str
    groups: list[DuplicateGroup]
    """The largest first."""
    n_groups: int
    """All that were found, before `limit`."""
    how_to_merge: str
    semantic: SemanticState = "off"
    """Whether copies in other words were looked for, too."""
    semantic_pending: int = 0
    freshness: Freshness | None = None


class PatternsParams(Params, frozen=True, kw_only=True):
    workspace: WorkspaceNames = "*"
    """Two or more; by default all."""
    kind: Values = msgspec.field(default_factory=list)
    topic: Keyword | None = None
    min_similarity: Annotated[float, msgspec.Meta(ge=0.1, le=1.0)] = 0.5
    """As in `similar`."""
    min_workspaces: Annotated[int, msgspec.Meta(ge=2, le=200)] = 2
    limit: Limit = 20
    """Patterns, those of most workspaces first."""
    timeout_ms: TimeoutMs | None = None


class PatternSection(FoundSection, frozen=True, kw_only=True):
    workspace: str
    snippet: str
    """Plain text of one line: its beginning."""


class Pattern(Result, frozen=True, kw_only=True):
    """Sections of several workspaces that have the same kind and topic, and similar texts."""

    kind: str | None
    topic: str | None
    similarity: float
    """Each section is at least so similar to another one."""
    n_workspaces: int
    sections: list[PatternSection]


class Patterns(Result, frozen=True, kw_only=True):
    patterns: list[Pattern]
    n_patterns: int
    """All that were found, before `limit`."""
    compared: int
    """Sections that were compared: those with a kind or topic that several workspaces have."""
    left_out: int
    """Sections that were too many to be compared: the notes saved last come first."""
    workspaces: list[AnsweringWorkspace]
    freshness: Freshness
    took_ms: float


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="similar",
        params=SimilarParams,
        result=SimilarSections,
        summary="Find the sections that say nearly what a section or a text says.",
        errors=OPENS,
        route="GET /v1/similar",
        reads=True,
        paths=Paths(absolute=("path", "anchor", "note"), are_from_root=True),
    ),
    Operation(
        name="patterns",
        params=PatternsParams,
        result=Patterns,
        summary="List what recurs in several workspaces: the same kind and topic, similar texts.",
        errors=READS,
        route="GET /v1/patterns",
    ),
    Operation(
        name="duplicates",
        params=DuplicatesParams,
        result=Duplicates,
        summary="Plan which sections to merge: groups of near copies. Nothing is changed.",
        errors=READS,
        route="GET /v1/duplicates",
        reads=True,
    ),
)
