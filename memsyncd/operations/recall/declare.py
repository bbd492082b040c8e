"""Parameters, results and operations: recall memories by keywords, topic and kind."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Freshness,
    Keyword,
    Name,
    Result,
    TimeoutMs,
    TrackedParams,
    WorkspaceNames,
)
from memsyncd.operations.operation import (
    READS,
    Command,
    Extra,
    Operation,
    Python,
    Shape,
    ToolAction,
)
from memsyncd.operations.search.declare import AnsweringWorkspace
from memsyncd.operations.sections import (
    Filters,
    MaxTokens,
    RelatedMeta,
    RelationNames,
)
from memsyncd.operations.tasks.declare import AGENT_TOOL

RecallStage = Literal["keywords", "topic and kind", "words"]


class RecallParams(TrackedParams, frozen=True, kw_only=True):
    """At least one criterion. The first stage that finds memories answers: the keywords (with topic
    and kind, if these are set), then only topic and kind, then the words of the text.
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
    """Show the memories to which this relation leads, such as `resolved_by`, right behind the
    memory that has the typed links."""
    filters: Filters = Filters()
    workspace: WorkspaceNames = None
    wait: Literal["none", "disk"] = "none"
    min_generation: int | None = None
    timeout_ms: TimeoutMs | None = None


class RecalledMemory(RelatedMeta, frozen=True, kw_only=True):
    """A section with all sections beneath it."""

    workspace: str
    relation: str | None = None
    """A relation that was followed to this memory."""
    related_to: str | None = None
    """The memory from which the relation was followed."""
    mark: str = ""
    """The line to put above the text for a model if it tries to instruct its reader."""
    text: str
    """The text, without the section's comment. The text of the most important memory, or of the
    best match of a search for words, is cut, with `…`, if it is larger than the budget."""
    tokens: int


class RecallAnswer(Result, frozen=True, kw_only=True):
    """The part of an answer that depends on the criteria and the index."""

    stage: RecallStage | None
    """The first stage at which any workspace has found memories; null if none has."""
    memories: list[RecalledMemory]
    """The memories of all workspaces, the most important first, then the last accessed or
    updated."""
    tokens: int
    left_out: int
    """The number of found memories for which the budget has no room. Only the 500 most important
    sections of each workspace that pass the filters are compared and counted."""
    query_problems: list[str] = msgspec.field(default_factory=list)
    """As in the result of `search`, if words were searched for."""
    excluded: list[str] = msgspec.field(default_factory=list)
    """As in the result of `search`, if words were searched for."""


class Recalled(RecallAnswer, frozen=True, kw_only=True):
    workspaces: list[AnsweringWorkspace]
    """The workspaces that were asked, in order of the request."""
    freshness: Freshness
    took_ms: float


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="recall",
        params=RecallParams,
        result=Recalled,
        summary="Recall memories by keywords, topic and kind, within a budget of tokens.",
        shape=Shape.JOIN,
        run="recall.run:answer_recall",
        errors=READS,
        route="GET /v1/recall",
        reads=True,
        worktree="join",
        waits=True,
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="recall",
            fields={"content": "text", "keywords": "keywords", "topic": "topic", "kind": "kind"},
        ),
        text="recall.text:render_recalled",
        content="answers:list_recalled",
        command=Command(
            words="recall",
            lists="memories",
            group="Find",
            summary="recall memories by keywords, topic and kind, within a budget",
            arguments=("keywords [KEYWORD…]",),
            extra=(Extra(usage="--all", help="recall from all workspaces"),),
            action="recall_memories",
            examples=(
                "memsyncd recall redis timeout",
                "memsyncd recall redis --all",
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
