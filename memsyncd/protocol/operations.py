"""Parameters and results of the methods that operate the daemon: ping, status, workspaces, sync,
doctor, semantic search.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.protocol.fields import Name, Params, Result, State, TimeoutMs, Value, WorkspaceParams

Globs = Annotated[list[Value], msgspec.Meta(max_length=100)]


# --- ping, status -----------------------------------------------------------------------------


class Pong(Result, frozen=True, kw_only=True):
    name: str
    version: str
    protocol: int
    pid: int


class WorkspaceCounts(Result, frozen=True, kw_only=True):
    """What `status` and `metrics` report of a workspace."""

    id: str
    name: str
    state: State
    generation: int
    files: int
    sections: int
    chunks: int
    pending: int
    """Notes that differ from the index, and paths with events that no scan has covered yet;
    during a first index, notes still to be read."""
    unrecorded: int
    """Notes that the history has not recorded yet: if one of them changes, the text before is not
    kept."""
    problems: int
    index_bytes: int
    """Size of index.db with its -wal file."""
    index_wal_bytes: int
    """Size of index.db-wal; it is truncated after quiet time, unless another program reads the
    database."""
    records_wal_bytes: int
    last_sync_at: float | None
    """When the last sync began, be it of all notes or of those that were saved."""


class WorkspaceStatus(WorkspaceCounts, frozen=True, kw_only=True):
    root: str
    reasons: list[str]
    """Why the state is not `ready`, and further notices, each with what to do about it."""
    watcher: str
    """`inotify`, `fsevents`, … while events arrive; `timed` if only timed scans see changes; `off`
    if switched off."""
    missed_events: int
    failed_syncs: int


class CollectionInfo(Result, frozen=True, kw_only=True):
    """A folder of an agent, in which the memory folder of each project is a workspace."""

    id: str
    name: str
    root: str
    preset: Literal["claude-code"]
    exclude: list[str]
    """Names of projects' folders, as globs, that are left out."""
    source: Literal["config", "added"]
    is_missing: bool
    """True if the folder cannot be listed."""
    workspaces: list[str]
    """The ids of its workspaces."""


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
    """Why no new client can connect; null while the socket is in place."""
    lock_problem: str | None
    """Why a second daemon could start on the same folders, or clients may not find this one; null
    while both folders are locked."""
    http: str | None
    """URL of the loopback port; null without one."""
    http_token: str | None
    """The file with the token that requests to the port must have."""
    config: str
    sqlite: str
    workspaces: list[WorkspaceStatus]
    collections: list[CollectionInfo]


# --- workspaces -------------------------------------------------------------------------------


class AddParams(Params, frozen=True, kw_only=True):
    path: Name
    name: Name | None = None
    preset: Literal["memory", "vault", "claude-code"] | None = None
    """`memory`: MEMORY.md and .memories/; `vault`: every note beneath the folder; `claude-code`:
    the path is Claude Code's folder, and the memory folder of each project in it is a workspace.
    Without one and without `include`, the folder's content decides."""
    include: Globs = msgspec.field(default_factory=list)
    exclude: Globs = msgspec.field(default_factory=list)
    read_only: Globs = msgspec.field(default_factory=list)
    """More notes, to which memsyncd never writes."""
    memory_dir: Value | None = None
    """The folder to which memories are written, relative to the path; `.` for the path itself."""
    user: bool = False
    """Make it the user-wide workspace, whose pinned notes and preferences join every context."""


class RemoveParams(Params, frozen=True, kw_only=True):
    workspace: Name


class WorkspaceInfo(Result, frozen=True, kw_only=True):
    id: str
    name: str
    root: str
    include: list[str]
    exclude: list[str]
    read_only: list[str]
    preset: Literal["memory", "vault"]
    memory_dir: str
    """The folder of the memory tool and of new notes, relative to `root`; `.` for `root` itself."""
    user: bool
    """True for the user-wide workspace."""
    source: Literal["config", "added"]
    has_memory: bool
    collection: str | None
    """The id of the collection that it belongs to."""
    main: str | None
    """The id of the workspace of the main git worktree, for a linked one that holds memory itself.
    It is a workspace from when a path in it is first named until its folder is gone."""
    project: str | None
    """The path of the project whose agent keeps its memory here, if that is known. The path leads
    to this workspace unless it is in one of its own."""


class WorkspaceList(Result, frozen=True, kw_only=True):
    workspaces: list[WorkspaceInfo]
    collections: list[CollectionInfo]


class Found(Result, frozen=True, kw_only=True):
    what: str
    """What the folder was recognised as."""
    notes: int
    """Notes that the workspace has."""
    is_complete: bool
    """False if there are more, of these or the others, than could be counted within seconds."""
    others: int
    """Notes beneath the folder that the workspace does not have, if it has none at all."""
    namesakes: list[str] = msgspec.field(default_factory=list)
    """Without memory: files such as `memory.md` and `pkg/MEMORY.md`, which are not read as it."""
    read_only: list[str]
    """The globs of the workspace's read-only notes; of instructions for agents those that are
    there."""
    worktree: str | None = None
    """The folder that was named, in a linked git worktree: it is the workspace, since it holds
    memory itself, or it shares the memory of the workspace."""
    shared: list[str] = msgspec.field(default_factory=list)
    """The files and folders, by absolute paths, of which a worktree that holds memory itself shares
    the main one's."""


class AddedWorkspaces(Result, frozen=True, kw_only=True):
    workspaces: list[WorkspaceInfo]
    found: Found
    collections: list[CollectionInfo]
    """The collection that was added; `workspaces` are its own."""


# --- discover ---------------------------------------------------------------------------------


class DiscoverParams(Params, frozen=True, kw_only=True):
    path: Name | None = None
    """The folder whose repository's rules for agents are listed."""
    claude_dir: Name | None = None
    """Claude Code's folder, if it is not `~/.claude`."""
    codex_dir: Name | None = None
    """Codex's folder, if it is not `~/.codex`."""
    config_dir: Name | None = None
    """The folder of programs' configurations, if it is not `~/.config`."""
    zk_dir: Name | None = None
    """zk's notebook, if zk's own configuration does not name it."""


class FoundPlace(Result, frozen=True, kw_only=True):
    """A place on this machine that has notes."""

    name: str
    what: str
    path: str
    notes: int
    is_complete: bool
    """False if there may be more notes than could be counted within seconds."""
    workspace: str | None
    """The name of the workspace or collection that it is."""
    refusal: str
    """Why it cannot be added, or empty."""
    add: AddParams | None
    """The parameters of `workspace.add` that add it; null if nothing is to be added."""
    command: str
    """The command that does the same."""


class Discovered(Result, frozen=True, kw_only=True):
    places: list[FoundPlace]


# --- sync -------------------------------------------------------------------------------------


class SyncParams(WorkspaceParams, frozen=True, kw_only=True):
    full: bool = False
    """Read and hash every note again, whatever its size and times."""
    rebuild: bool = False
    """Drop the derived tables and build them again; the old index answers meanwhile."""
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


# --- doctor -----------------------------------------------------------------------------------


class DoctorParams(WorkspaceParams, frozen=True, kw_only=True):
    verify: bool = False
    """Parse every note again and compare it with everything the index holds of it."""


class FindingInfo(Result, frozen=True, kw_only=True):
    """The result of one check."""

    level: Literal["ok", "info", "warning", "error"]
    """`info` needs no action."""
    check: str
    """A stable word, such as `index` or `watcher`."""
    what: str
    where: str
    """A path, relative to the workspace's root or absolute; empty if there is no single place."""
    remedy: str
    workspace: str | None
    """An id; null for a finding that concerns all workspaces."""


class DoctorResult(Result, frozen=True, kw_only=True):
    findings: list[FindingInfo]


# --- panel ------------------------------------------------------------------------------------


class PanelAddress(Result, frozen=True, kw_only=True):
    """The address of the panel. It is valid once, within `expires_s`."""

    url: str
    expires_s: float


class LogTail(Result, frozen=True, kw_only=True):
    lines: list[str]
    """The oldest first, as they were written; at most 200, cut to 500 characters."""


# --- semantic search -----------------------------------------------------------------------------


SemanticState = Literal["off", "partial", "ready"]


class SemanticStatus(Result, frozen=True, kw_only=True):
    """How much of a workspace semantic search covers.

    `partial`: some chunks have no vector yet, or the model is being loaded; what there is counts.
    `ready` and not `loaded`: the process has ended, idle; the next question starts it.
    """

    state: SemanticState
    pending: int = 0
    """Chunks without a vector of the embedder."""
    total: int = 0
    """Chunks of the index."""
    embedder: str | None = None
    """The name of the model; null if it is off."""
    loaded: bool = False
    """The next question is compared. Until the model and the vectors are in memory, words alone
    answer, and the answer says `off`.
    """
    reason: str | None = None
    """Why it is off, partial or not loaded, and what to do."""
    failed: bool = False
    """The reason is a failure, which is reported once: it does not go on by itself."""


class SemanticWarmParams(WorkspaceParams, frozen=True, kw_only=True):
    again: bool = False
    """Make all vectors again, not only those that are missing."""


class WorkspaceVectorsInfo(Result, frozen=True, kw_only=True):
    workspace: str
    name: str
    semantic: SemanticStatus


class VectorProcessInfo(Result, frozen=True, kw_only=True):
    """The process that holds the model and the vectors."""

    pid: int
    rss_bytes: int


class SemanticReport(Result, frozen=True, kw_only=True):
    enabled: bool
    """`[semantic] enabled` of the configuration."""
    process: VectorProcessInfo | None
    """null while nothing is asked of it: it ends when idle."""
    workspaces: list[WorkspaceVectorsInfo]
    reason: str | None = None
    """Why it is off for all workspaces although it is enabled, and what to do."""
