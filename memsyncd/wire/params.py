"""What does each method of the socket take? One struct each; unknown fields are refused.

Lines are 1-based and inclusive.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
Line = Annotated[int, msgspec.Meta(ge=1)]
TimeoutMs = Annotated[int, msgspec.Meta(ge=1, le=600_000)]
Name = Annotated[str, msgspec.Meta(max_length=8192)]
"""Of a note, section, folder, workspace, kind or tag: the longest anchor is shorter."""
Value = Annotated[str, msgspec.Meta(max_length=512)]
Values = Annotated[list[Value], msgspec.Meta(max_length=32)]
Globs = Annotated[list[Value], msgspec.Meta(max_length=100)]
Score = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
MaxTokens = Annotated[int, msgspec.Meta(ge=100, le=50_000)]
MaxBytes = Annotated[int, msgspec.Meta(ge=100, le=1_000_000)]
HeadingText = Annotated[str, msgspec.Meta(max_length=200)]


class Params(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Parameters of one method."""


class NoParams(Params, frozen=True, kw_only=True):
    pass


class WorkspaceParams(Params, frozen=True, kw_only=True):
    workspace: Name | None = None


class AddParams(Params, frozen=True, kw_only=True):
    path: Name
    name: Name | None = None
    include: Globs = []
    exclude: Globs = []


class RemoveParams(Params, frozen=True, kw_only=True):
    workspace: Name


class SyncParams(Params, frozen=True, kw_only=True):
    workspace: Name | None = None
    full: bool = False
    """Read and hash every note again, whatever its size and times say."""
    rebuild: bool = False
    """Drop the derived tables and build them anew; the old index answers meanwhile."""
    timeout_ms: TimeoutMs | None = None


class Filters(Params, frozen=True, kw_only=True):
    """Each list means any of; different keys mean all of."""

    kind: Values = []
    tag: Values = []
    path: Values = []
    """Paths, folders or globs; what names nothing from the root on is looked for beneath `.memories/`."""
    section: Values = []
    """Words of a heading, or anchors; what is beneath counts too."""
    task: Values = []
    after: Name | None = None
    """A day, month or year (`2026-03-01`, `2026-03`, `2026`): from its first day on. Only what has a date is found."""
    before: Name | None = None
    """Likewise: up to the day before."""
    archived: bool = False
    """Only what is archived, instead of only what is not."""


class SearchParams(Params, frozen=True, kw_only=True):
    query: str
    workspace: Name | None = None
    limit: Limit | None = None
    filters: Filters = Filters()
    min_score: Score | None = None
    wait: Literal["none", "disk"] = "none"
    min_generation: int | None = None
    timeout_ms: TimeoutMs | None = None
    explain: bool = False


class ContextParams(Params, frozen=True, kw_only=True):
    query: str = ""
    """Left out, the block is what a session begins with: pinned, MEMORY.md, the project's, the most recent."""
    workspace: Name | None = None
    max_tokens: MaxTokens = 2000
    """Of the whole text, at 4 characters a token and one for each character of a script without spaces."""
    max_bytes: MaxBytes | None = None
    """Of the whole text in UTF-8."""
    filters: Filters = Filters()
    heading: HeadingText = "## Prior Knowledge"
    """The text's first line; empty for none."""
    wait: Literal["none", "disk"] = "none"
    min_generation: int | None = None
    timeout_ms: TimeoutMs | None = None


class GetParams(Params, frozen=True, kw_only=True):
    anchor: Name | None = None
    path: Name | None = None
    start_line: Line | None = None
    end_line: Line | None = None
    workspace: Name | None = None


class ListParams(Params, frozen=True, kw_only=True):
    workspace: Name | None = None
    path: Name | None = None
    kind: Name | None = None
    tag: Name | None = None


class SubscribeParams(Params, frozen=True, kw_only=True):
    workspace: Name | None = None
    paths: Values = []
    """Globs; empty for all."""
    since: int | None = None
    """Send what changed after this generation first (needs `workspace`)."""


class UnsubscribeParams(Params, frozen=True, kw_only=True):
    subscription: Name
