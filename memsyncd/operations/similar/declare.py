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
    Command,
    Extra,
    Operation,
    Paths,
    Python,
    Shape,
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
    """Compare this section, `PATH#heading`; or else `text`, or `topic`."""
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)] | None = None
    """Compare this text."""
    topic: Keyword | None = None
    """Compare the sections of this topic. Their metadata names it; sections that are similar to
    them are of other topics, or none."""
    min_similarity: Score | None = None
    """From 0 to 1; from 0.7 of the words on both say nearly the same. With vectors it is the
    cosine, by default one that is clearly above the usual one of this workspace; without, the share
    of words, and of pairs of adjacent words, in common, by default 0.3."""
    limit: Limit = 10
    """At most so many sections."""
    include_archived: bool = False
    """Archived sections too."""


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
    """At most so many groups."""
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
    """Only of this kind."""
    topic: Keyword | None = None
    """Only of this topic."""
    min_similarity: Annotated[float, msgspec.Meta(ge=0.1, le=1.0)] = 0.5
    """From 0.1 to 1. It is the share of words, and of pairs of adjacent words, in common."""
    min_workspaces: Annotated[int, msgspec.Meta(ge=2, le=200)] = 2
    """In so many workspaces at least."""
    limit: Limit = 20
    """At most so many patterns. The patterns of most workspaces come first."""
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
        shape=Shape.STEPS,
        run="similar.run:find",
        errors=OPENS,
        route="GET /v1/similar",
        reads=True,
        paths=Paths(absolute=("path", "anchor", "note"), are_from_root=True, resolved=("anchor",)),
        command=Command(
            words="similar",
            group="Find",
            summary="find sections that say nearly what a section or text says",
            arguments=("anchor [SECTION]",),
            usages={"topic": "--topic TOPIC"},
            help={
                "anchor": "a section: PATH#heading",
                "limit": "at most so many sections or groups",
            },
            extra=(
                Extra(usage="--stdin", help="compare a text read from stdin"),
                Extra(
                    usage="--duplicates", help="plan which sections to merge: groups of near copies"
                ),
                Extra(usage="--path P…", help="with --duplicates: only this note, folder or glob"),
            ),
            action="ask_for_similar",
            examples=(
                "memsyncd similar '.memories/errors.md#redis-timeouts'",
                "memsyncd similar --text 'Redis gives up after 30 s.'",
                "memsyncd similar --duplicates --path .memories",
            ),
        ),
        python=Python(name="similar", positional=("text",), returns="sections"),
    ),
    Operation(
        name="patterns",
        params=PatternsParams,
        result=Patterns,
        summary="List what recurs in several workspaces: the same kind and topic, similar texts.",
        errors=READS,
        route="GET /v1/patterns",
        command=Command(
            words="patterns",
            group="Find",
            summary="list what recurs in several workspaces",
            help={
                "workspace": "compare these workspaces: a name, an id or a folder in it; by default"
                " all"
            },
            prepare="compare_all",
            show="show_patterns",
            found="patterns",
            examples=(
                "memsyncd patterns",
                "memsyncd patterns --kind error --min-workspaces 3",
                "memsyncd patterns -w api -w web --topic redis",
            ),
        ),
        python=Python(name="patterns"),
    ),
    Operation(
        name="duplicates",
        params=DuplicatesParams,
        result=Duplicates,
        summary="Plan which sections to merge: groups of near copies. Nothing is changed.",
        shape=Shape.STEPS,
        run="similar.run:plan_merging",
        errors=READS,
        route="GET /v1/duplicates",
        reads=True,
        python=Python(name="duplicates", kwargs="filters"),
    ),
)
