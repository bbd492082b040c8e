"""Parameters, results and operations of sections that say nearly the same."""

from __future__ import annotations

from typing import Annotated

import msgspec

from memsyncd.operations.fields import (
    Freshness,
    Keyword,
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
    ALL_BY_DEFAULT,
    OPENS,
    READS,
    Command,
    Extra,
    Operation,
    Paths,
    Python,
    Shape,
)
from memsyncd.operations.search.declare import AnsweringWorkspace
from memsyncd.operations.sections import (
    Filters,
    FoundSection,
    Score,
)
from memsyncd.operations.semantic.declare import SemanticState


class SimilarParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Name | None = None
    """Compare this section, `PATH#heading`, or each section of this note with other notes. Name
    either a section, a note, a text or a topic."""
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)] | None = None
    """Compare this text."""
    topic: Keyword | None = None
    """Compare the sections of this topic, which their key `topic` or the title of their note names.
    The similar sections have another topic."""
    min_similarity: Score | None = None
    """From 0 to 1; from 0.7 of the words in common, texts say nearly the same. With vectors, it is
    a cosine, by default clearly above the usual cosine in this workspace. Without vectors, it is
    the share of words, and of pairs of adjacent words, in common, by default 0.3."""
    limit: Limit = 10
    """At most so many sections, and so many topics."""
    nearest: Limit | None = None
    """The so many nearest sections, or topics, however far they are. It stands in place of
    `min_similarity` and `limit`. Without vectors, the sections that have any of the longest words
    are compared."""
    include_archived: bool = False
    """Archived sections too."""


class SimilarSection(FoundSection, frozen=True, kw_only=True):
    workspace: str
    digest: str
    """The digest of the file when it was indexed."""
    similarity: float


class SimilarTopic(Result, frozen=True, kw_only=True):
    """A topic that is similar to the requested one."""

    topic: str
    similarity: float
    """The value of its most similar section with vectors, else of the words of all its sections."""
    n_sections: int
    anchor: str
    """Its most similar section."""
    path: str
    """The note of that section."""


class SimilarSections(Result, frozen=True, kw_only=True):
    sections: list[SimilarSection]
    """The most similar first."""
    topics: list[SimilarTopic] = msgspec.field(default_factory=list)
    """If the request names a topic: the topics of similar sections, the most similar first."""
    semantic: SemanticState = "off"
    """`off` if words were compared. If vectors were compared: `ready` if all sections have vectors,
    else `partial`."""
    semantic_pending: int = 0
    freshness: Freshness | None = None


class DuplicatesParams(WorkspaceParams, frozen=True, kw_only=True):
    min_similarity: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.7
    """The share of words, and of pairs of adjacent words, that copies have in common at least."""
    limit: Limit = 20
    """At most so many groups."""
    filters: Filters = Filters()
    timeout_ms: TimeoutMs | None = None


class Copy(SectionPlace, frozen=True, kw_only=True):
    """A section that has near copies."""

    digest: str
    """The digest of the file when it was indexed."""
    similarity: float
    """The share of words in common with the first section of the group."""


class DuplicateGroup(Result, frozen=True, kw_only=True):
    sections: list[Copy]
    """The longest first: it is likely to say all that the others say. At most 100 are named."""
    n_sections: int
    """How many sections the group has."""
    similarity: float
    """The lowest similarity, by words, of the pairs that make the group."""
    cosine: float | None
    """The lowest cosine of the pairs that vectors found; null if they found none."""


class Duplicates(Result, frozen=True, kw_only=True):
    """A plan: nothing is changed."""

    workspace: str
    groups: list[DuplicateGroup]
    """The largest first."""
    n_groups: int
    """How many groups were found, also beyond `limit`."""
    how_to_merge: str
    semantic: SemanticState = "off"
    """`ready` if copies in other words were looked for, too; `partial` if some sections have no
    vector yet; else `off`."""
    semantic_pending: int = 0
    freshness: Freshness | None = None


class PatternsParams(Params, frozen=True, kw_only=True):
    workspace: WorkspaceNames = "*"
    """Two or more workspaces; by default all."""
    kind: Values = msgspec.field(default_factory=list)
    """Only of this kind."""
    topic: Keyword | None = None
    """Only of this topic. The topic of a section is its key `topic`, else the title of its
    note."""
    min_similarity: Annotated[float, msgspec.Meta(ge=0.1, le=1.0)] = 0.5
    """From 0.1 to 1. It is the share of words, and of pairs of adjacent words, in common."""
    by: Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern='^[^"]+$')] | None = None
    """Compare the sections of different values of this key, in place of different workspaces. It is
    `task`, `session`, `source`, a part of a nested source (`source.client`), or a key of your own.
    One workspace is enough."""
    min_workspaces: Annotated[int, msgspec.Meta(ge=2, le=200)] = 2
    """Only patterns of at least so many workspaces, or values of the key `by`."""
    limit: Limit = 20
    """At most so many patterns. Patterns of the most workspaces, or values, come first."""
    timeout_ms: TimeoutMs | None = None


class PatternSection(FoundSection, frozen=True, kw_only=True):
    workspace: str
    value: str | None = None
    """Its value of the key `by`, if the request names one."""
    snippet: str
    """The beginning of the section, as one line of plain text."""


class Pattern(Result, frozen=True, kw_only=True):
    """Sections of several workspaces, or of several values of the key `by`, that have the same kind
    and topic, and similar texts.
    """

    kind: str | None
    topic: str | None
    similarity: float
    """Each section is at least so similar to another section of the pattern: by words, or by the
    cosine of their vectors if only vectors found it."""
    n_workspaces: int
    values: list[str] = msgspec.field(default_factory=list)
    """The values of the key `by` that its sections have."""
    sections: list[PatternSection]


class Patterns(Result, frozen=True, kw_only=True):
    patterns: list[Pattern]
    n_patterns: int
    """How many patterns were found, also beyond `limit`."""
    compared: int
    """How many sections were compared: sections with a kind or topic that several workspaces, or
    values of the key `by`, have."""
    left_out: int
    """How many sections were too many to compare. The sections of the notes saved last are compared
    first."""
    semantic: SemanticState = "off"
    """`ready` or `partial` if vectors found sections of one workspace that say the same in other
    words, as they do with `by`; else `off`."""
    workspaces: list[AnsweringWorkspace]
    freshness: Freshness
    took_ms: float


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="similar",
        params=SimilarParams,
        result=SimilarSections,
        summary="Find the sections that say nearly what a section, a note or a text says.",
        shape=Shape.STEPS,
        run="similar.run:find",
        errors=OPENS,
        route="GET /v1/similar",
        reads=True,
        paths=Paths(absolute=("path", "anchor", "note"), are_from_root=True, resolved=("anchor",)),
        command=Command(
            words="similar",
            lists="sections topics",
            has_ids=True,
            group="Find",
            summary="find sections that say nearly what a section, note or text says",
            arguments=("anchor [NOTE|SECTION]",),
            usages={"topic": "--topic TOPIC", "nearest": "-k --nearest N"},
            help={
                "anchor": "a section, PATH#heading, or a note",
                "topic": "list the topics that are similar to this one",
                "nearest": "the N nearest, however far they are",
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
                "memsyncd similar .memories/errors.md",
                "memsyncd similar --text 'Redis gives up after 30 s.'",
                "memsyncd similar --topic redis -k 3",
                "memsyncd similar --duplicates --path .memories",
            ),
        ),
        python=Python(name="similar", positional=("text",), returns="sections"),
    ),
    Operation(
        name="patterns",
        params=PatternsParams,
        result=Patterns,
        summary="List similar sections of several workspaces that have the same kind and topic.",
        errors=READS,
        route="GET /v1/patterns",
        command=Command(
            words="patterns",
            extra=(ALL_BY_DEFAULT,),
            lists="patterns",
            group="Find",
            summary="list memories that recur in several workspaces",
            usages={"by": "--by KEY"},
            help={
                "by": "compare different values of this key, such as source.client, instead of"
                " workspaces",
                "workspace": "compare these workspaces: a name, an id or a folder in it; by default"
                " all",
            },
            prepare="compare_all",
            show="show_patterns",
            found="patterns",
            examples=(
                "memsyncd patterns",
                "memsyncd patterns --kind error --min-workspaces 3",
                "memsyncd patterns -w api -w web --topic redis",
                "memsyncd patterns -w consulting --by source.client",
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
