"""`context`: make a block of memory for a prompt, within a budget."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Freshness,
    Result,
    SectionPlace,
    TaskName,
    TimeoutMs,
    TrackedParams,
    Word,
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
from memsyncd.operations.search.declare import (
    FOLLOW_ARGUMENT,
    KIND_ARGUMENT,
    TAG_ARGUMENT,
    WORKSPACES_ARGUMENT,
    AnsweringWorkspace,
)
from memsyncd.operations.sections import (
    Filters,
    MaxBytes,
    MaxTokens,
    RelatedMeta,
    RelationNames,
    Sort,
)
from memsyncd.operations.semantic.declare import SemanticState

HeadingText = Annotated[str, msgspec.Meta(max_length=200)]


class ContextParams(TrackedParams, frozen=True, kw_only=True):
    query: str = ""
    """The subject; without one, the context of a new session: MEMORY.md, pinned notes, preferences
    and errors, the project's profile, recent notes."""
    task: TaskName | None = None
    """Begin with the memories of this task: the profile, the last checkpoint, summaries, what can
    be worked on, discoveries and all others. They get at most three fifths of the room as long as
    other notes need it. A fact stands in the block once, however often it was promoted or
    summarised."""
    session: TaskName | None = None
    """Begin with the memories of this session, and of the task that it names last."""
    profile: bool = False
    """Begin with what holds for the whole project: the sections whose lifecycle is `project`."""
    agent: Word | None = None
    """Show the unread signals to this agent, the session and the task at the top. They are shown if
    a single workspace answers, and stay unread."""
    workspace: WorkspaceNames = None
    max_tokens: MaxTokens = 2000
    """The most tokens, from 100 to 50,000. Four characters count as a token, and so does each
    character of a script without spaces."""
    max_bytes: MaxBytes | None = None
    """The most bytes of the block."""
    sort: Sort = "relevance"
    """The order in which the block shows sections. `relevance` orders them by paths and lines. If
    the query has words, the best sections get the room, else the first in this order."""
    filters: Filters = Filters()
    heading: HeadingText = "## Prior Knowledge"
    """The first line; empty for none."""
    mark: bool = True
    """Add a line below the heading if the text tries to instruct its reader."""
    follow: RelationNames = msgspec.field(default_factory=list)
    """Show the sections to which this relation leads, such as `resolved_by`. Behind an included
    section come the sections to which its typed links lead, in at most half of the room; their
    labels name the relation."""
    user: bool = True
    """Add pinned notes and preferences of the user-wide workspace, if it exists. They get at most a
    quarter of the room, and no room that the best part of the answer needs."""
    wait: Literal["none", "disk"] = "none"
    min_generation: int | None = None
    timeout_ms: TimeoutMs | None = None


class ContextPart(RelatedMeta, frozen=True, kw_only=True):
    """Lines of a section that the text includes, and the section's metadata."""

    workspace: str
    reason: str
    """`match`, `MEMORY.md`, `pinned`, `important` (preferences and errors), `project`, `recent` or
    `related`, if a relation was followed to it; for memories of the project, a task or a session
    `profile`, `checkpoint`, `summary`, `discovery`, `ready`, `task` or `session`."""
    relation: str | None = None
    """A relation that was followed to this section."""
    related_to: str | None = None
    """The section from which the relation was followed."""


class LeftOutPart(SectionPlace, frozen=True, kw_only=True):
    """Lines of a section that the text leaves out."""

    workspace: str
    kind: str | None
    reason: str
    """`no room`, or `the same as ANCHOR`, which the text includes."""


class ContextAnswer(Result, frozen=True, kw_only=True):
    """The part of a context's result that depends on the query and the index."""

    workspace: str
    """The first workspace that was asked."""
    text: str
    """A block of markdown for a prompt, empty if nothing is relevant."""
    tokens: int
    included: list[ContextPart]
    """The included parts, the best first; the text orders them by note and line."""
    left_out: list[LeftOutPart]
    """The parts that the text leaves out, the best first, at most 20."""
    unranked: int
    """The number of further matching chunks, which rank below all included and left-out parts: only
    the best chunks are ranked."""
    why_empty: str | None
    n_left_out: int = 0
    """How many parts are left out in all."""
    task: str | None = None
    """The task that the block is about; the session may have named it."""
    signals: list[int] = msgspec.field(default_factory=list)
    """The numbers of the unread signals. They stay unread until they are acknowledged."""
    semantic: SemanticState = "off"
    """As in the result of `search`."""
    semantic_pending: int = 0
    semantic_reason: str | None = None
    query_problems: list[str] = msgspec.field(default_factory=list)
    """As in the result of `search`."""
    excluded: list[str] = msgspec.field(default_factory=list)
    """As in the result of `search`."""


class ContextResult(ContextAnswer, frozen=True, kw_only=True):
    workspaces: list[AnsweringWorkspace]
    """The workspaces that were asked, in order of the request, and the user-wide one."""
    freshness: Freshness
    took_ms: float


OPERATIONS = (
    Operation(
        name="context",
        params=ContextParams,
        result=ContextResult,
        summary="Make a block of memory for a prompt, within a budget.",
        shape=Shape.JOIN,
        run="context.run:answer_context",
        errors=READS,
        route="GET /v1/context",
        reads=True,
        worktree="join",
        waits=True,
        tool=Tool(
            name="memory_context",
            title="Recall context",
            description=(
                "Return what memory holds on a task, as one block within a token budget. Call it "
                "at the start of a task, with the task as query; without a query it "
                "returns what every session should know."
            ),
            arguments=(
                ToolArgument("query", "The task or question."),
                ToolArgument("task", "Begin with its memories; also session, profile=true."),
                ToolArgument("max_tokens", "2000 by default."),
                KIND_ARGUMENT,
                TAG_ARGUMENT,
                FOLLOW_ARGUMENT,
                WORKSPACES_ARGUMENT,
            ),
            accepts=("session", "profile", "agent"),
            is_read_only=True,
        ),
        text="context.text:render_context",
        content="answers:list_context",
        command=Command(
            words="context",
            is_first=True,
            lists="included",
            group="Find",
            summary="print memory for a prompt, within a budget",
            arguments=("query [QUERY…]",),
            gone={"-n": "-n counts hits or lines; tokens are: --max-tokens N"},
            help={
                "query": "the subject; without one, the context of a new session",
                "heading": "the first line (default '## Prior Knowledge'); '' for none",
            },
            extra=(Extra(usage="--all", help="use all workspaces"),),
            action="context",
            keeps_exclusions=True,
            examples=(
                "memsyncd context",
                "memsyncd context why postgres --max-tokens 500",
                "memsyncd context --task WU-123 --max-tokens 1000",
                "memsyncd context --kind decision --heading '## Decisions so far'",
            ),
        ),
    ),
)
