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
    Operation,
    Paths,
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
    """Also `session`, `source`, `priority`, `lifecycle`, `status`, `meta` for the keys of free
    metadata, and `meta:KEY` for the values of a key."""
    limit: Limit = 20
    """Values of each group, the commonest first; months and sizes in their order."""


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
    """Of these notes as a whole."""
    counts: dict[str, list[ValueCount]]
    """By group; a section counts once for each of its tags."""
    freshness: Freshness


class AccessParams(WorkspaceParams, frozen=True, kw_only=True):
    """Accesses that the caller has noticed itself, such as sections that it read from the file.
    Each call counts once for each section, whatever the session.
    """

    anchors: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=1000)]
    """Sections, or the paths of whole notes."""


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
        errors=READS,
        route="GET /v1/stats",
        reads=True,
        worktree="own",
    ),
    Operation(
        name="access.stats",
        params=AccessStatsParams,
        result=AccessStats,
        summary="Count how often sections were recalled, and when last.",
        errors=OPENS,
        route="GET /v1/accesses",
        reads=True,
        paths=Paths(absolute=("path", "anchor", "note")),
    ),
    Operation(
        name="access.record",
        params=AccessParams,
        result=RecordedAccesses,
        summary="Count accesses that the caller has noticed itself.",
        errors=(*READS, NoteNotFound),
    ),
)
