"""What does each method of the socket take? One struct each; unknown fields are refused.

Lines are 1-based and inclusive.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
Line = Annotated[int, msgspec.Meta(ge=1)]
TimeoutMs = Annotated[int, msgspec.Meta(ge=1, le=600_000)]
Values = Annotated[list[str], msgspec.Meta(max_length=32)]
Score = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
MaxTokens = Annotated[int, msgspec.Meta(ge=100, le=50_000)]
MaxBytes = Annotated[int, msgspec.Meta(ge=100, le=1_000_000)]
HeadingText = Annotated[str, msgspec.Meta(max_length=200)]


class Params(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Parameters of one method."""


class NoParams(Params, frozen=True, kw_only=True):
    pass


class WorkspaceParams(Params, frozen=True, kw_only=True):
    workspace: str | None = None


class AddParams(Params, frozen=True, kw_only=True):
    path: str
    name: str | None = None
    include: list[str] = []
    exclude: list[str] = []


class RemoveParams(Params, frozen=True, kw_only=True):
    workspace: str


class SyncParams(Params, frozen=True, kw_only=True):
    workspace: str | None = None
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
    after: str | None = None
    """A day, month or year (`2026-03-01`, `2026-03`, `2026`): from its first day on. Only what has a date is found."""
    before: str | None = None
    """Likewise: up to the day before."""
    archived: bool = False
    """Only what is archived, instead of only what is not."""


class SearchParams(Params, frozen=True, kw_only=True):
    query: str
    workspace: str | None = None
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
    workspace: str | None = None
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
    anchor: str | None = None
    path: str | None = None
    start_line: Line | None = None
    end_line: Line | None = None
    workspace: str | None = None


class ListParams(Params, frozen=True, kw_only=True):
    workspace: str | None = None
    path: str | None = None
    kind: str | None = None
    tag: str | None = None


class SubscribeParams(Params, frozen=True, kw_only=True):
    workspace: str | None = None
    paths: list[str] = []
    """Globs; empty for all."""
    since: int | None = None
    """Send what changed after this generation first (needs `workspace`)."""


class UnsubscribeParams(Params, frozen=True, kw_only=True):
    subscription: str
