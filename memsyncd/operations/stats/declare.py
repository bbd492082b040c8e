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
"""Beside them there are `meta`, and `meta:KEY` for any key."""


class StatsParams(WorkspaceParams, frozen=True, kw_only=True):
    filters: Filters = Filters()
    by: Annotated[list[Name], msgspec.Meta(max_length=10)] = msgspec.field(
        default_factory=lambda: ["kind", "tag", "task", "month", "size"]
    )
    """Count by `kind`, `tag`, `task`, `month`, `size` (these by default), `session`, `source`,
    `priority`, `lifecycle`, `status`, `meta` (other keys) or `meta:KEY` (its values)."""
    limit: Limit = 20
    """At most so many values of each. The commonest come first; months and sizes in their order."""


class ValueCount(Result, frozen=True, kw_only=True):
    value: str | None
    """Null for sections without one."""
    sections: int
    notes: int


class MemoryStats(Result, frozen=True, kw_only=True):
    """Counts of the sections that pass the filters, and of their notes."""

    workspace: str
    sections: int
    notes: int
    bytes: int
    """The size of these notes as a whole."""
    counts: dict[str, list[ValueCount]]
    """By group; a section counts once for each of its tags."""
    freshness: Freshness


class AccessParams(WorkspaceParams, frozen=True, kw_only=True):
    """Accesses that the caller has noticed itself, such as sections that it read from the file.
    Each call counts once for each section, whatever the session.
    """

    anchors: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=1000)]
    """Sections by their anchors, or the paths of whole notes."""


class RecordedAccesses(Result, frozen=True, kw_only=True):
    workspace: str
    sections: int
    """The named sections and notes that were counted."""
    unknown: list[str]
    """The anchors of which the index has no section; if it has none at all, the call fails."""


class AccessStatsParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Name | None = None
    """A section, with those beneath it."""
    path: Name | None = None
    """A note or folder; without a note or section the whole workspace is meant."""
    sort: Literal["count", "last"] = "count"
    """The most often or the most recently recalled first."""
    limit: Limit = 20
    """At most so many sections."""


class SectionAccesses(Result, frozen=True, kw_only=True):
    anchor: str
    count: int
    """Each session counts once."""
    sessions: int
    """Sessions among them that are remembered."""
    last_at: float
    is_indexed: bool
    """False while no note has such a section: it was deleted, or rewritten with its heading."""


class AccessStats(Result, frozen=True, kw_only=True):
    """How often sections were recalled, with accesses that were noted just now."""

    workspace: str
    sections: int
    """With a count, before `limit`."""
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
            doc="Each call counts once, whatever the session. It raises NoteNotFound if none of the"
            " sections exists.",
        ),
    ),
)
