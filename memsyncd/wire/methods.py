"""Which methods does the socket offer, and what are the parameters and the result of each?

Every struct refuses unknown fields; `METHODS` is the table that discovery, the handlers and the documents are made from.
Times are seconds since 1970 (`_at`) or durations with their unit in the name; lines are 1-based and inclusive.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
Line = Annotated[int, msgspec.Meta(ge=1)]
TimeoutMs = Annotated[int, msgspec.Meta(ge=1, le=600_000)]
Score = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class Params(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Parameters of one method."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one method, or a part of one."""


# --- ping, status ---------------------------------------------------------------------------------------------------


class NoParams(Params, frozen=True, kw_only=True):
    pass


class WorkspaceParams(Params, frozen=True, kw_only=True):
    workspace: str | None = None


class Pong(Result, frozen=True, kw_only=True):
    name: str
    version: str
    protocol: int
    pid: int


class WorkspaceStatus(Result, frozen=True, kw_only=True):
    id: str
    name: str
    root: str
    state: Literal["indexing", "ready", "degraded", "missing"]
    reasons: list[str]
    """Why the state is not `ready`, in words a person can act on."""
    watcher: str
    """`inotify`, `fsevents`, … while events arrive; `timed` when only timed scans see changes; `off` when switched off."""
    generation: int
    files: int
    sections: int
    chunks: int
    pending: int
    """Notes known to differ from the index and not yet indexed; during a first index, those still to be read."""
    last_sync_at: float | None
    problems: int
    index_bytes: int
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
    config: str
    sqlite: str
    workspaces: list[WorkspaceStatus]


# --- workspaces -----------------------------------------------------------------------------------------------------


class AddParams(Params, frozen=True, kw_only=True):
    path: str
    name: str | None = None
    include: list[str] = []
    exclude: list[str] = []


class RemoveParams(Params, frozen=True, kw_only=True):
    workspace: str


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


# --- sync -----------------------------------------------------------------------------------------------------------


class SyncParams(Params, frozen=True, kw_only=True):
    workspace: str | None = None
    full: bool = False
    """Read and hash every note again, whatever its size and times say."""
    rebuild: bool = False
    """Drop the derived tables and build them anew; the old index answers meanwhile."""
    timeout_ms: TimeoutMs | None = None


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


# --- search, get, list ----------------------------------------------------------------------------------------------


class Filters(Params, frozen=True, kw_only=True):
    """Each list means any of; different keys mean all of. `path` takes a path, a folder or a glob."""

    kind: list[str] = []
    tag: list[str] = []
    path: list[str] = []


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
    synced_at: float | None
    state: str


class SearchResult(Result, frozen=True, kw_only=True):
    hits: list[Hit]
    relaxed: bool
    """True if no hit holds every word."""
    why_empty: str | None
    freshness: Freshness
    took_ms: float


class GetParams(Params, frozen=True, kw_only=True):
    anchor: str | None = None
    path: str | None = None
    start_line: Line | None = None
    end_line: Line | None = None
    workspace: str | None = None


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


class ListParams(Params, frozen=True, kw_only=True):
    workspace: str | None = None
    path: str | None = None
    kind: str | None = None
    tag: str | None = None


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


# --- subscriptions --------------------------------------------------------------------------------------------------


class SubscribeParams(Params, frozen=True, kw_only=True):
    workspace: str | None = None
    paths: list[str] = []
    """Globs; empty for all."""
    since: int | None = None
    """Send what changed after this generation first (needs `workspace`)."""


class Subscribed(Result, frozen=True, kw_only=True):
    subscription: str
    generations: dict[str, int]


class UnsubscribeParams(Params, frozen=True, kw_only=True):
    subscription: str


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


class Method(msgspec.Struct, frozen=True):
    """One row of the table: what goes in, what comes out, what it is for."""

    params: type[Params]
    result: type[msgspec.Struct]
    summary: str


class Discovery(Result, frozen=True, kw_only=True):
    """The OpenRPC document, as plain data."""

    openrpc: str
    info: dict[str, str]
    methods: list[dict[str, object]]
    components: dict[str, object]


METHODS: dict[str, Method] = {
    "ping": Method(NoParams, Pong, "Say who answers."),
    "rpc.discover": Method(NoParams, Discovery, "Describe these methods as an OpenRPC document."),
    "status": Method(WorkspaceParams, Status, "Say how the daemon and its workspaces are."),
    "workspace.add": Method(AddParams, Workspaces, "Watch and index a folder."),
    "workspace.remove": Method(RemoveParams, Workspaces, "Stop watching a folder and drop its index; notes stay."),
    "workspace.list": Method(NoParams, Workspaces, "List the workspaces."),
    "sync": Method(SyncParams, SyncReport, "Make the index say what the disk says, and say what changed."),
    "search": Method(SearchParams, SearchResult, "Find passages by words and phrases."),
    "get": Method(GetParams, Got, "Read a section, a note or some of its lines."),
    "list": Method(ListParams, Listing, "List notes and sections."),
    "problems": Method(WorkspaceParams, Problems, "List what is odd about notes and folders."),
    "subscribe": Method(SubscribeParams, Subscribed, "Be told of changes by `changed` notifications."),
    "unsubscribe": Method(UnsubscribeParams, Unsubscribed, "Be told no more."),
}
