"""What does `metrics` take and give? Counts since the daemon began, and how much of everything there is at this moment.

What only ever grows ends in `_total`; it begins anew with the daemon, and a workspace's when the workspace is added again. Bounds
of buckets are seconds, each included in its own.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from memsyncd.wire.params import Params
from memsyncd.wire.results import Result


class MetricsParams(Params, frozen=True, kw_only=True):
    text: bool = False
    """Give the same as text, too, in the format that Prometheus reads."""


class Durations(Result, frozen=True, kw_only=True):
    """How long things took. `p50_ms` and so on are as exact as the buckets are narrow; None if there was nothing."""

    total: int
    sum_s: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    longest_ms: float
    buckets: list[tuple[float, int]]
    """Of each bound, how many took no longer."""


class ProcessMetrics(Result, frozen=True, kw_only=True):
    """What the daemon takes of the system. `max_fds` is None where there is no limit."""

    rss_bytes: int
    cpu_s_total: float
    threads: int
    fds: int
    max_fds: int | None
    lost_log_lines_total: int


class ClientMetrics(Result, frozen=True, kw_only=True):
    connected: int
    accepted_total: int
    refused_total: int
    """Another user's, or one too many."""
    dropped_total: int
    """Slow readers, unfinished lines, silent ones in the way of others."""


class QueueMetrics(Result, frozen=True, kw_only=True):
    """What is to be done at this moment."""

    requests_running: int
    requests_waiting: int
    in_threads: int
    """Reads for clients in a thread, or waiting for one."""
    lane_jobs: int
    """Looks, writes and questions about the past on the writer's lane, or waiting for it."""


class WatcherMetrics(Result, frozen=True, kw_only=True):
    watches: int
    """What counts against inotify's limit; elsewhere folders."""
    events_total: int
    doubts_total: int
    rebuilds_total: int


class RequestMetrics(Result, frozen=True, kw_only=True):
    """Requests of one method; `invalid` stands for what could not be read as a request of any."""

    method: str
    answered: Durations
    """Errors are answers, too."""
    failed_total: dict[str, int]
    """By the error's code."""
    abandoned_total: int
    """Their clients did not wait for the answer."""


class WorkspaceMetrics(Result, frozen=True, kw_only=True):
    id: str
    name: str
    state: Literal["indexing", "ready", "degraded", "missing", "stalled"]
    is_heard: bool
    """False while only timed scans see changes."""
    generation: int
    files: int
    sections: int
    chunks: int
    pending: int
    unrecorded: int
    """Notes that the history has yet to record."""
    problems: int
    skipped_files: int
    """Files and folders that are memory by their place, and cannot be indexed as they are."""
    index_bytes: int
    index_wal_bytes: int
    records_wal_bytes: int
    last_sync_at: float | None
    syncs: Durations
    changing_syncs_total: int
    failed_syncs_total: int
    notes_total: dict[str, int]
    """By what became of them: added, modified, moved, removed."""
    chunks_total: dict[str, int]
    """By what became of them: upserted, deleted."""
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
    """Of the methods that were asked for, by name."""
    workspaces: list[WorkspaceMetrics]
    text: str | msgspec.UnsetType = msgspec.UNSET
