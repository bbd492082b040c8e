"""Parameters, results and operations: count sections, and how often they were recalled."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.errors import NoteNotFound
from memsyncd.operations.fields import (
    Freshness,
    Limit,
    Name,
    Result,
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
from memsyncd.operations.sections import (
    Filters,
)

GROUPS = (
    "kind", "tag", "task", "month", "size", "session", "source", "priority", "lifecycle", "status"
)  # fmt: skip
"""Groups to count by, besides `meta` for all other keys, and `meta:KEY` for the values of a key."""


class StatsParams(WorkspaceParams, frozen=True, kw_only=True):
    filters: Filters = Filters()
    by: Annotated[list[Name], msgspec.Meta(max_length=10)] = msgspec.field(
        default_factory=lambda: ["kind", "tag", "task", "month", "size"]
    )
    """Count by `kind`, `tag`, `task`, `month`, `size` (the default), `session`, `source`,
    `priority`, `lifecycle`, `status`, `meta` (other keys) or `meta:KEY` (its values)."""
    limit: Limit = 20
    """At most so many values of each group. The commonest come first; months and sizes keep their
    order."""


class ValueCount(Result, frozen=True, kw_only=True):
    value: str | None
    """The value; null for sections without a value."""
    sections: int
    notes: int


class MemoryStats(Result, frozen=True, kw_only=True):
    """Counts of the sections that pass the filters, and of their notes."""

    workspace: str
    sections: int
    notes: int
    bytes: int
    """The size of these notes, including their other sections."""
    counts: dict[str, list[ValueCount]]
    """The counts of each group. A section counts once for each of its tags."""
    freshness: Freshness


class AccessParams(WorkspaceParams, frozen=True, kw_only=True):
    """Accesses that the caller has noticed itself, such as sections that it read from the file.
    Each call counts once for each section, even if the session is the same.
    """

    anchors: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=1000)]
    """Sections by their anchors, or the paths of whole notes."""


class RecordedAccesses(Result, frozen=True, kw_only=True):
    workspace: str
    sections: int
    """How many of the named sections and notes were counted."""
    unknown: list[str]
    """The anchors and paths that the index does not have. The call fails if it has none of them."""


class AccessStatsParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Name | None = None
    """A section, with all sections beneath it."""
    path: Name | None = None
    """A note or folder. Without a note or section, the whole workspace is meant."""
    sort: Literal["count", "last"] = "count"
    """The most often recalled first (`count`), or the most recently recalled (`last`)."""
    limit: Limit = 20
    """At most so many sections."""


class SectionAccesses(Result, frozen=True, kw_only=True):
    anchor: str
    count: int
    """How often it was recalled; each session counts once."""
    sessions: int
    """How many of these were sessions whose names are still known."""
    last_at: float
    is_indexed: bool
    """False while no note has such a section, because it or its heading was deleted or
    rewritten."""


class AccessStats(Result, frozen=True, kw_only=True):
    """How often sections were recalled, including accesses of this moment."""

    workspace: str
    sections: int
    """How many sections have a count, also beyond `limit`."""
    accesses: int
    counts: list[SectionAccesses]


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="stats",
        params=StatsParams,
        result=MemoryStats,
        summary="Count sections and notes by kind, tag, task, month, size and other metadata.",
        shape=Shape.STEPS,
        run="stats.run:count",
        errors=READS,
        route="GET /v1/stats",
        reads=True,
        worktree="own",
        command=Command(
            words="stats",
            group="Find",
            summary="count sections by kind, tag, task, month and size",
            usages={"by": "--by G"},
            show="show_counts",
            found="sections",
            examples=(
                "memsyncd stats",
                "memsyncd stats --by task --after 'last month'",
                "memsyncd stats --kind decision --by month --json",
                "memsyncd stats --by meta:owner",
            ),
        ),
        python=Python(name="stats", positional=("*by",), kwargs="filters"),
    ),
    Operation(
        name="access.stats",
        params=AccessStatsParams,
        result=AccessStats,
        summary="Count how often sections were recalled, and when last.",
        shape=Shape.STEPS,
        run="stats.run:list_accesses",
        errors=OPENS,
        route="GET /v1/accesses",
        reads=True,
        paths=Paths(absolute=("path", "anchor", "note"), resolved=("anchor", "path")),
        command=Command(
            words="accesses",
            lists="counts",
            group="Find",
            omit=("anchor", "path", "sort"),
            extra=(
                Extra(
                    name="target",
                    usage="[ANCHOR|PATH]",
                    help="a section, note or folder; without one, the whole workspace",
                    is_argument=True,
                ),
                Extra(
                    usage="--last",
                    help="the most recently recalled first, not the most often",
                    field="sort",
                    value="last",
                ),
            ),
            prepare="name_place",
            show="show_accesses",
            found="counts",
            examples=(
                "memsyncd accesses",
                "memsyncd accesses .memories/redis.md --last",
                "memsyncd accesses '.memories/errors.md#timeouts' --json",
            ),
        ),
        python=Python(name="access_stats", positional=("target",)),
    ),
    Operation(
        name="access.record",
        params=AccessParams,
        result=RecordedAccesses,
        summary="Count accesses that the caller has noticed itself.",
        shape=Shape.STEPS,
        run="stats.run:record_accesses",
        errors=(*READS, NoteNotFound),
        paths=Paths(resolved=("anchors",)),
        python=Python(
            name="record_access",
            positional=("*anchors",),
            doc="Each call counts once, in any session. It raises NoteNotFound if none of the"
            " sections exists.",
        ),
    ),
)
