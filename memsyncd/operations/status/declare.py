"""Parameters, results and operations about the daemon: ping, status, problems, doctor, metrics, log
and panel.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from memsyncd.errors import BadConfig, NoteNotFound, Unsafe
from memsyncd.operations.fields import (
    Name,
    NoParams,
    Params,
    Result,
    State,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    ALL_BY_DEFAULT,
    FINDS,
    OPENS,
    READS,
    Command,
    Operation,
    Shape,
)
from memsyncd.operations.workspaces.declare import (
    CollectionInfo,
)

# --- ping, status -----------------------------------------------------------------------------


class Pong(Result, frozen=True, kw_only=True):
    name: str
    version: str
    protocol: int
    pid: int


class WorkspaceCounts(Result, frozen=True, kw_only=True):
    """The counts of a workspace that `status` and `metrics` report."""

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
    """Notes that the history has not recorded yet: if such a note changes, the text before the
    change is not kept."""
    problems: int
    index_bytes: int
    """Size of index.db with its -wal file."""
    index_wal_bytes: int
    """Size of index.db-wal; it is truncated after quiet time, unless another program reads the
    database."""
    records_wal_bytes: int
    last_sync_at: float | None
    """When the last sync began, of all notes or of saved notes alone."""


class WorkspaceStatus(WorkspaceCounts, frozen=True, kw_only=True):
    root: str
    reasons: list[str]
    """Why the state is not `ready`, and further notices, each with a remedy."""
    watcher: str
    """`inotify`, `fsevents`, … while events arrive; `timed` if only timed scans see changes; `off`
    if switched off."""
    missed_events: int
    failed_syncs: int


class AgentCall(Result, frozen=True, kw_only=True):
    """A client of agents that is in the log of agents."""

    name: str
    """Such as `claude-code`."""
    last_call_at: float


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
    """Why a second daemon could start on the same folders, or why clients may not find this daemon;
    null while both folders are locked."""
    http: str | None
    """URL of the loopback port; null if no port is open."""
    http_token: str | None
    """The file with the token that requests to the port must have."""
    config: str
    sqlite: str
    agents: list[AgentCall] | None
    """The clients of agents in the log of the workspaces, the latest call first; null while
    `agents.enabled` of the configuration is false."""
    workspaces: list[WorkspaceStatus]
    collections: list[CollectionInfo]


# --- doctor -----------------------------------------------------------------------------------


class DoctorParams(WorkspaceParams, frozen=True, kw_only=True):
    verify: bool = False
    """Parse every note again and compare it with its rows in the index."""


class FindingInfo(Result, frozen=True, kw_only=True):
    """The result of one check."""

    level: Literal["ok", "info", "warning", "error"]
    """`info` needs no action."""
    check: str
    """A stable word, such as `index` or `watcher`."""
    what: str
    where: str
    """A path, relative to the workspace's root or absolute; empty if the finding has no single
    place."""
    remedy: str
    workspace: str | None
    """An id; null for a finding that concerns all workspaces."""


class DoctorResult(Result, frozen=True, kw_only=True):
    findings: list[FindingInfo]


# --- panel ------------------------------------------------------------------------------------


class PanelAddress(Result, frozen=True, kw_only=True):
    """The address of the panel. It works once, within `expires_s`."""

    url: str
    expires_s: float


class LogTail(Result, frozen=True, kw_only=True):
    lines: list[str]
    """The last lines of the log, at most 200, the oldest first; each is cut to 500 characters."""


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """The OpenRPC document, as plain data."""

    openrpc: str
    info: dict[str, str]
    methods: list[dict[str, Any]]
    components: dict[str, Any]
    notifications: list[dict[str, Any]] = msgspec.field(name="x-notifications")
    """OpenRPC does not describe notifications."""


class ProblemsParams(WorkspaceParams, frozen=True, kw_only=True):
    path: Name | None = None
    """Only the problems of this note."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    """Only the first so many; by default all."""


class ProblemInfo(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    line: int
    code: str
    problem: str
    hint: str


class Problems(Result, frozen=True, kw_only=True):
    problems: list[ProblemInfo]
    n_problems: int = 0
    """How many problems there are, also beyond `limit`."""


# --- metrics ----------------------------------------------------------------------------------


class MetricsParams(Params, frozen=True, kw_only=True):
    text: bool = False
    """Return the metrics as Prometheus text as well."""


class Durations(Result, frozen=True, kw_only=True):
    """A histogram of durations. Percentiles are as exact as the buckets are narrow, and null if
    nothing was measured yet.
    """

    total: int
    sum_s: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    longest_ms: float
    buckets: list[tuple[float, int]]
    """Each bound in seconds, with the number of durations up to it."""


class ProcessMetrics(Result, frozen=True, kw_only=True):
    """Resources of the daemon's process. `max_fds` is null where there is no limit."""

    rss_bytes: int
    cpu_s_total: float
    """It includes processes that indexed for the daemon and have ended."""
    index_workers: int
    """How many processes index for the daemon now."""
    index_workers_rss_bytes: int
    threads: int
    fds: int
    max_fds: int | None
    lost_log_lines_total: int


class ClientMetrics(Result, frozen=True, kw_only=True):
    connected: int
    accepted_total: int
    refused_total: int
    """Connections of other users, and connections above the limit."""
    dropped_total: int
    """Connections that were cut: of slow readers, with unfinished lines, and of silent clients
    whose place another client needed."""


class QueueMetrics(Result, frozen=True, kw_only=True):
    """Work that is queued or running now."""

    requests_running: int
    requests_waiting: int
    in_threads: int
    """Reads for clients that run in a thread or wait for a thread."""
    worker_jobs: int
    """Scans, writes and queries of the history that run on the worker or wait for it."""


class WatcherMetrics(Result, frozen=True, kw_only=True):
    watches: int
    """Watches that count against the limit of inotify; on other systems, watched folders."""
    events_total: int
    events_lost_total: int
    rebuilds_total: int


class RequestMetrics(Result, frozen=True, kw_only=True):
    """Requests of one method; `invalid` counts lines that are not a request of any method."""

    method: str
    answered: Durations
    """Durations of answered requests, including requests that failed."""
    failed_total: dict[str, int]
    """How many requests failed, by error code."""
    abandoned_total: int
    """Requests whose client left before the answer."""


class WorkspaceMetrics(WorkspaceCounts, frozen=True, kw_only=True):
    is_watched: bool
    """False while only timed scans see changes."""
    skipped_files: int
    """Files and folders that are memory by their path but cannot be indexed."""
    syncs: Durations
    changing_syncs_total: int
    failed_syncs_total: int
    notes_total: dict[str, int]
    """How many notes were `added`, `modified`, `moved` and `removed`."""
    chunks_total: dict[str, int]
    """How many chunks were `upserted` and `deleted`."""
    missed_events_total: int
    rebuilds_total: int
    writes_total: int
    revisions_total: int


class MetricsResult(Result, frozen=True, kw_only=True):
    version: str
    started_at: float
    uptime_s: float
    process: ProcessMetrics
    clients: ClientMetrics
    queue: QueueMetrics
    watcher: WatcherMetrics
    requests: list[RequestMetrics]
    """Counters of each requested method, by name."""
    workspaces: list[WorkspaceMetrics]
    text: str | msgspec.UnsetType = msgspec.UNSET


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="ping",
        params=NoParams,
        result=Pong,
        summary="Name the daemon and its version.",
        shape=Shape.DAEMON,
        run="status.run:name_daemon",
    ),
    Operation(
        name="rpc.discover",
        params=NoParams,
        result=Discovery,
        summary="Describe these methods as an OpenRPC document.",
    ),
    Operation(
        name="status",
        params=WorkspaceParams,
        result=Status,
        summary="Report the state of the daemon and its workspaces.",
        shape=Shape.DAEMON,
        run="status.run:report",
        errors=FINDS,
        route="GET /v1/status",
        reads=True,
        worktree="own",
        command=Command(
            words="status",
            is_first=True,
            extra=(ALL_BY_DEFAULT,),
            lists="workspaces",
            group="Maintain",
            summary="show the state of the daemon and its workspaces",
            help={"workspace": "only this workspace"},
            show="show_status",
            examples=("memsyncd status", "memsyncd status -w notes --json"),
        ),
    ),
    Operation(
        name="panel.open",
        params=NoParams,
        result=PanelAddress,
        summary="Open a port for the panel, and return an address that opens it once.",
        shape=Shape.DAEMON,
        run="status.run:open_panel",
        errors=(BadConfig, Unsafe),
    ),
    Operation(
        name="log.tail",
        params=NoParams,
        result=LogTail,
        summary="Return the last lines of the daemon's log.",
        shape=Shape.DAEMON,
        run="status.run:tail_log",
    ),
    Operation(
        name="doctor",
        params=DoctorParams,
        result=DoctorResult,
        summary="Examine workspaces and give a remedy for each finding.",
        errors=OPENS,
        worktree="own",
    ),
    Operation(
        name="problems",
        params=ProblemsParams,
        result=Problems,
        summary="List the problems of notes and folders.",
        shape=Shape.DAEMON,
        run="status.run:list_problems",
        errors=(*READS, NoteNotFound),
        worktree="own",
        command=Command(
            words="problems",
            extra=(ALL_BY_DEFAULT,),
            lists="problems",
            group="Maintain",
            help={"path": "only of this note", "workspace": "only this workspace"},
            show="show_problems",
            examples=("memsyncd problems", "memsyncd problems -w ."),
        ),
    ),
    Operation(
        name="metrics",
        params=MetricsParams,
        result=MetricsResult,
        summary=(
            "Return counters and durations of requests, syncs and writes, and the process's "
            "resources."
        ),
        shape=Shape.DAEMON,
        run="status.run:measure",
        route="GET /metrics",
        command=Command(
            words="metrics",
            group="Maintain",
            summary="print the daemon's counters in Prometheus format",
            omit=("text",),
            action="print_metrics",
            examples=("memsyncd metrics", "memsyncd metrics --json"),
        ),
    ),
)
