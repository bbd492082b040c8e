"""`search`: find passages by words, phrases and filters."""

from __future__ import annotations

from typing import Literal

import msgspec

from memsyncd.operations.fields import (
    Freshness,
    Limit,
    Result,
    SectionPlace,
    TimeoutMs,
    TrackedParams,
    WorkspaceNames,
)
from memsyncd.operations.operation import (
    READS,
    Command,
    Extra,
    Operation,
    Shape,
    Tool,
    ToolArgument,
)
from memsyncd.operations.sections import (
    Filters,
    FoundSection,
    RelatedMeta,
    RelationNames,
    Score,
    Sort,
)
from memsyncd.operations.semantic.declare import SemanticState

# --- search -----------------------------------------------------------------------------------


class SearchParams(TrackedParams, frozen=True, kw_only=True):
    query: str
    """Words, "phrases", -not, prefix*, and each filter as a word: `kind:decision`."""
    workspace: WorkspaceNames = None
    limit: Limit | None = None
    """The most hits; by default 10, or the configured number."""
    filters: Filters = Filters()
    min_score: Score | None = None
    """Only hits with at least this score, from 0 to 1."""
    sort: Sort = "relevance"
    """The order of the hits. With words, the best `limit` hits are ordered; filters alone select
    by it."""
    wait: Literal["none", "disk"] = "none"
    min_generation: int | None = None
    timeout_ms: TimeoutMs | None = None
    explain: bool = False
    """Show the parts of each score."""
    follow: RelationNames = msgspec.field(default_factory=list)
    """Show the sections to which this relation leads, such as `resolved_by`: each hit comes with
    the sections to which its typed links lead."""
    track_access: bool = False


class RelatedSection(FoundSection, frozen=True, kw_only=True):
    """A section with its subsections, or a whole note, to which a typed link leads.

    The anchor of a whole note is the anchor of its first section.
    """

    relation: str
    """The relation that was followed from the hit to this section."""
    workspace: str | None = None
    """The id of its workspace, if it is another one than the workspace of the hit."""
    workspace_name: str | None = None
    """The name of that workspace: `NAME:PATH#heading` names the section."""
    snippet: str
    """Plain text of one line: its beginning."""


class Hit(RelatedMeta, frozen=True, kw_only=True):
    """A passage of a section, or of neighbouring sections that state no metadata of their own."""

    workspace: str
    sections: list[SectionPlace] = msgspec.field(default_factory=list)
    """The sections of the passage by line, if it has several; else empty. Anchor and heading of the
    hit belong to the snippet."""
    snippet: str
    """Plain text of one line, with matched words between `**` and `**`."""
    labels: list[str] = msgspec.field(default_factory=list)
    """At most 3 properties as `key: value`, of the note's front matter and of the section; those
    that hold a matched word come first."""
    mark: str = ""
    """The line to put above the snippet for a model if heading, snippet or `related` try to
    instruct their reader."""
    score: float
    digest: str
    """Digest of the file as indexed."""
    matched: list[str]
    """The words of the query that the hit holds, themselves or in another form of the same stem,
    such as `timeouts` for `timeout`."""
    matched_related: list[str]
    """The words of the query of which the hit holds only related words, such as `electrician` for
    `electrics`. A hit without both was found only by its meaning."""
    related: list[RelatedSection] = msgspec.field(default_factory=list)
    """The sections to which the relations in `follow` lead, at most 20, in order of the links."""
    explain: dict[str, float] | None = None
    worth: float | None = None
    """The worth of its section, on request (`explain`)."""


def list_anchors(hit: Hit) -> list[str]:
    """Return the sections of a hit, the section of the snippet first."""
    return list(dict.fromkeys([hit.anchor, *(section.anchor for section in hit.sections)]))


class SearchAnswer(Result, frozen=True, kw_only=True):
    """The part of a search's result that depends on the query and the index."""

    hits: list[Hit]
    relaxed: bool
    """True if no hit holds every word itself."""
    why_empty: str | None
    did_you_mean: str | None
    """If no hit holds a word: the query with similar indexed words in place of mistyped words, if
    it has hits."""
    semantic: SemanticState = "off"
    """Whether vectors took part: `ready` with vectors of all chunks, `partial` while some are
    pending; `off` if only words decided, because there are no vectors or they came too late."""
    semantic_pending: int = 0
    """The number of chunks without a vector yet, which only their words find."""
    semantic_reason: str | None = None
    """Why only words decided although semantic search is on, or why it is `partial`."""
    query_problems: list[str] = msgspec.field(default_factory=list)
    """The parts of the query that do not count as typed, such as `after:2026-02-30`, which was read
    as words, and words beyond the limits of 32 terms and 1,024 characters."""
    excluded: list[str] = msgspec.field(default_factory=list)
    """The exclusions of the query, as typed: `-m`, `-kind:todo`. A passage that holds the excluded
    word and the word before it as typed, such as `commit -m`, is found all the same.
    """


class AnsweringWorkspace(Result, frozen=True, kw_only=True):
    """A workspace that was asked, with an error if the answer leaves it out."""

    id: str
    name: str
    root: str
    """The folder to which paths are relative."""
    worktree: str | None
    """The folder in a linked git worktree that stands for `root`, if the request names it."""
    user: bool
    """True for the user-wide workspace, whose parts of a block are labelled `user-wide`."""
    failure: str | None
    """Why the workspace is left out; null if the answer has it."""
    code: str | None
    """The code of that error."""


class SearchResult(SearchAnswer, frozen=True, kw_only=True):
    workspaces: list[AnsweringWorkspace]
    """The workspaces that were asked, in order of the request."""
    freshness: Freshness
    took_ms: float


# --- the operation ----------------------------------------------------------------------------

WORKSPACES_ARGUMENT = ToolArgument("workspace", "Others, by name or path; `*` for all.")
KIND_ARGUMENT = ToolArgument(
    "kind", "Only of these, such as decision, error.", "filters.kind", splits_words=True
)
TAG_ARGUMENT = ToolArgument("tag", "Only with one of these.", "filters.tag", splits_words=True)
FOLLOW_ARGUMENT = ToolArgument(
    "follow", "Relations to follow, such as resolved_by.", splits_words=True
)
_PATH = ToolArgument("path", "Only in these notes, folders or globs.", "filters.path")

OPERATIONS = (
    Operation(
        name="search",
        params=SearchParams,
        result=SearchResult,
        summary="Find passages by words, phrases and filters.",
        shape=Shape.JOIN,
        run="search.run:answer_search",
        quick="search.run:is_quick",
        errors=READS,
        route="GET /v1/search",
        reads=True,
        worktree="join",
        waits=True,
        tool=Tool(
            name="memory_search",
            title="Search memory",
            description=(
                "Find passages in the project's memory by words and phrases: "
                "`path:start-end`, heading and snippet; memory_get reads more. Use it before "
                "deciding, and when something may have been settled earlier."
            ),
            arguments=(
                ToolArgument(
                    "query",
                    'Words, "a phrase", -without.',
                    is_required=True,
                ),
                ToolArgument("limit", "Most hits; 10 by default."),
                KIND_ARGUMENT,
                TAG_ARGUMENT,
                _PATH,
                ToolArgument(
                    "after",
                    "Only from this day on: 2026-03-01, 2026-03, 7d.",
                    "filters.after",
                ),
                ToolArgument("before", "Only before such a day.", "filters.before"),
                FOLLOW_ARGUMENT,
                WORKSPACES_ARGUMENT,
            ),
            is_read_only=True,
        ),
        text="search.text:render_hits",
        content="answers:list_hits",
        command=Command(
            words="search",
            is_first=True,
            lists="hits",
            has_ids=True,
            group="Find",
            summary="find passages by words and phrases",
            arguments=("query QUERY…",),
            help={
                "query": 'words, "phrases", -not, prefix*, and filters as words',
                "limit": "at most N hits (default 10)",
                "explain": "say in three lines why a hit was found; --json has all parts",
            },
            extra=(
                Extra(usage="--all", help="search all workspaces"),
                Extra(
                    usage="--open N",
                    help="open the first hit, or the Nth, in $VISUAL or $EDITOR",
                    bare=1,
                ),
            ),
            action="search",
            keeps_exclusions=True,
            examples=(
                "memsyncd search redis timeout",
                "memsyncd search 'why did we choose \"connection pool\"' -draft",
                "memsyncd search token --kind decision --wait --json",
                "memsyncd search token --all --open",
                "memsyncd search token -w api -w web",
                "memsyncd search redis timeout --kind error --follow resolved_by",
            ),
        ),
    ),
)
