"""Base structs and constrained field types of the protocol.

Times are seconds since 1970 (`_at`, `at`) or durations with their unit in the name. Lines are
1-based and inclusive.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
Line = Annotated[int, msgspec.Meta(ge=1)]
TimeoutMs = Annotated[int, msgspec.Meta(ge=1, le=600_000)]
Name = Annotated[str, msgspec.Meta(max_length=8192)]
"""A note, section, folder, workspace, kind or tag: the longest anchor is shorter."""
WorkspaceNames = Name | Annotated[list[Name], msgspec.Meta(min_length=1, max_length=200)] | None
"""One workspace, several, or `*` for all; null for the only one."""
ClientName = Annotated[str, msgspec.Meta(max_length=64)]
Word = Annotated[str, msgspec.Meta(max_length=200)]
Value = Annotated[str, msgspec.Meta(max_length=512)]
Values = Annotated[list[Value], msgspec.Meta(max_length=32)]
State = Literal["indexing", "ready", "degraded", "missing", "stalled"]
"""State of a workspace."""


class Params(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Parameters of one method. Unknown fields are refused."""


class NoParams(Params, frozen=True, kw_only=True):
    pass


class WorkspaceParams(Params, frozen=True, kw_only=True):
    workspace: Name | None = None


class TrackedParams(Params, frozen=True, kw_only=True):
    """Parameters of a method that returns sections, which counts as an access of each."""

    track_access: bool = True
    """Count an access for each section that is returned; `access.stats` has the counts."""
    caller_session: Name | None = None
    """The session of the caller, which counts once for each section; without one every access
    counts."""


class WriteParams(WorkspaceParams, frozen=True, kw_only=True):
    """Parameters of a method that writes."""

    client: ClientName | None = None
    """The name of the writer, which `history` shows; by default that of the connection."""
    timeout_ms: TimeoutMs | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one method, or a part of one."""


class SectionPlace(Result, frozen=True, kw_only=True):
    """Where a section is: its note and its lines, 1-based and inclusive."""

    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]


class Freshness(Result, frozen=True, kw_only=True):
    """How current the index was when a request was answered."""

    generation: int
    pending: int
    unrecorded: int
    """Notes that the history has not recorded yet."""
    synced_at: float | None
    state: str
    """`ready` only if no scan is overdue, all folders are watched and all notes could be read."""
    reason: str | None
    """Why the state is not `ready`, as `status` says it too; null otherwise."""
