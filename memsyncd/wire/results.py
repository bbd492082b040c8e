"""What does each method of the socket give? One struct each, and one for each part.

Times are seconds since 1970 (`_at`) or durations with their unit in the name; lines are 1-based and inclusive.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one method, or a part of one."""


class Pong(Result, frozen=True, kw_only=True):
    name: str
    version: str
    protocol: int
    pid: int


class WorkspaceStatus(Result, frozen=True, kw_only=True):
    id: str
    name: str
    root: str
    state: Literal["indexing", "ready", "degraded", "missing", "stalled"]
    reasons: list[str]
    """Why the state is not `ready`, and what else should be known of it, in words a person can act on."""
    watcher: str
    """`inotify`, `fsevents`, … while events arrive; `timed` when only timed scans see changes; `off` when switched off."""
    generation: int
    files: int
    sections: int
    chunks: int
    pending: int
    """Notes known to differ from the index and not yet indexed, or paths that events announced and no scan has looked at yet;
    during a first index, those still to be read."""
    unrecorded: int
    """Notes that the history has yet to record: of what is changed in one meanwhile, the text before is not kept."""
    last_sync_at: float | None
    problems: int
    index_bytes: int
    """Of index.db with its -wal file."""
    index_wal_bytes: int
    """Of index.db-wal alone; it is emptied after quiet time, unless another program reads."""
    records_wal_bytes: int
    missed_events: int
    failed_syncs: int


class Status(Result, frozen=True, kw_only=True):
    version: str
    protocol: int
    pid: int
    uptime_s: float
    rss_bytes: int
    clients: int
    requests: int
    failed_requests: int
    socket: str
    socket_problem: str | None
    config: str
    sqlite: str
    workspaces: list[WorkspaceStatus]


class WorkspaceInfo(Result, frozen=True, kw_only=True):
    id: str
    name: str
    root: str
    include: list[str]
    exclude: list[str]
    source: Literal["config", "added"]
    has_memory: bool


class Workspaces(Result, frozen=True, kw_only=True):
    workspaces: list[WorkspaceInfo]


class Failed(Result, frozen=True, kw_only=True):
    path: str
    problem: str


class ChunkCounts(Result, frozen=True, kw_only=True):
    upserted: int
    deleted: int
    kept: int
    moved: int


class SyncReport(Result, frozen=True, kw_only=True):
    workspace: str
    generation: int
    added: int
    modified: int
    moved: int
    removed: int
    unchanged: int
    failed: list[Failed]
    chunks: ChunkCounts
    duration_ms: float


class Hit(Result, frozen=True, kw_only=True):
    workspace: str
    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]
    snippet: str
    """Plain text of one line, matched words between `**` and `**`."""
    score: float
    kind: str | None
    tags: list[str]
    importance: float | None
    digest: str
    """Of the file as indexed."""
    matched: list[str]
    explain: dict[str, float] | None = None


class Freshness(Result, frozen=True, kw_only=True):
    generation: int
    pending: int
    unrecorded: int
    synced_at: float | None
    state: str
    """`ready` only if nothing is known that no scan has looked at, and no scan is overdue."""
    reason: str | None
    """Why scans are overdue or a disk does not answer; null if neither is so. `status` says the rest."""


class SearchResult(Result, frozen=True, kw_only=True):
    hits: list[Hit]
    relaxed: bool
    """True if no hit holds every word."""
    why_empty: str | None
    did_you_mean: str | None
    """If there is no hit: the query with words of the index in place of mistyped ones, where that finds something."""
    freshness: Freshness
    took_ms: float


class ContextPart(Result, frozen=True, kw_only=True):
    """Lines of a section."""

    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]
    kind: str | None
    reason: str
    """Of what is included: `match`, `pinned`, `MEMORY.md`, `project` or `recent`; of what is not: `no room`."""


class ContextResult(Result, frozen=True, kw_only=True):
    workspace: str
    text: str
    """A block of markdown for a prompt, empty if nothing is relevant."""
    tokens: int
    included: list[ContextPart]
    """Best first; the text has them in order of note and line."""
    left_out: list[ContextPart]
    unranked: int
    """Chunks that match besides: only the best are ranked, and these are less than all that is included or left out."""
    why_empty: str | None
    freshness: Freshness
    took_ms: float


class Got(Result, frozen=True, kw_only=True):
    workspace: str
    anchor: str | None
    path: str
    start_line: int
    end_line: int
    text: str
    digest: str
    heading: list[str]
    kind: str | None
    tags: list[str]
    importance: float | None
    n_lines: int
    """Of the whole note."""


class SectionInfo(Result, frozen=True, kw_only=True):
    anchor: str
    heading: list[str]
    level: int
    start_line: int
    end_line: int
    kind: str | None
    tags: list[str]
    importance: float | None
    status: str | None


class NoteInfo(Result, frozen=True, kw_only=True):
    path: str
    title: str
    digest: str
    size_bytes: int
    modified_at: float
    n_lines: int
    kind: str | None
    tags: list[str]
    sections: list[SectionInfo]


class Listing(Result, frozen=True, kw_only=True):
    workspace: str
    notes: list[NoteInfo]
    freshness: Freshness


class ProblemInfo(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    line: int
    code: str
    problem: str
    hint: str


class Problems(Result, frozen=True, kw_only=True):
    problems: list[ProblemInfo]


class Subscribed(Result, frozen=True, kw_only=True):
    subscription: str
    generations: dict[str, int]


class Unsubscribed(Result, frozen=True, kw_only=True):
    subscription: str


class Changed(Result, frozen=True, kw_only=True):
    """The parameters of the notification `changed`."""

    subscription: str
    workspace: str
    generation: int
    paths: list[str]
    chunks: int
    """How many chunks were written or deleted."""
    complete: bool = True
    """False if older changes were forgotten: list or search again."""


class Discovery(Result, frozen=True, kw_only=True):
    """The OpenRPC document, as plain data."""

    openrpc: str
    info: dict[str, str]
    methods: list[dict[str, Any]]
    components: dict[str, Any]
    notifications: list[dict[str, Any]] = msgspec.field(name="x-notifications")
    """OpenRPC has no word for them."""
