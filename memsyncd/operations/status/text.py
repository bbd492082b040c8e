"""Render metrics in Prometheus' text format.

The names of counters end in `_total`. Counters start at zero with the daemon, and for a workspace
that is added again. Bounds of histogram buckets are inclusive and in seconds. Every name begins
with `memsyncd_`, so that the text can be merged with the text of other programs, for example in a
folder of the textfile collector of node_exporter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from memsyncd.operations.fields import State
from memsyncd.operations.status.declare import (
    Durations,
    MetricsResult,
    WorkspaceMetrics,
)

STATES: tuple[str, ...] = get_args(State)

Labels = dict[str, str]
Sample = tuple[Labels, float]


def render_metrics(metrics: MetricsResult) -> str:
    """Return the whole text; it ends with a newline."""
    return "".join(
        (
            *_render_process(metrics),
            *_render_clients(metrics),
            *_render_requests(metrics),
            *_render_workspaces(metrics.workspaces),
        )
    )


def _render_process(metrics: MetricsResult) -> Iterator[str]:
    process, watcher = metrics.process, metrics.watcher
    version = [({"version": metrics.version}, 1.0)]
    yield _family("build_info", "gauge", "Version of the daemon.", version)
    started_at = metrics.started_at
    yield _gauge("start_time_seconds", "Start of the daemon, in seconds since 1970.", started_at)
    yield _gauge("resident_memory_bytes", "Resident memory.", process.rss_bytes)
    yield _counter("cpu_seconds_total", "Processor time, user and system.", process.cpu_s_total)
    yield _gauge("index_workers", "Processes that index for the daemon.", process.index_workers)
    rss_bytes = process.index_workers_rss_bytes
    yield _gauge(
        "index_workers_resident_memory_bytes", "Resident memory of these processes.", rss_bytes
    )
    yield _gauge("threads", "Threads.", process.threads)
    yield _gauge("open_fds", "Open file descriptors.", process.fds)
    if process.max_fds is not None:
        yield _gauge("max_fds", "Limit of open file descriptors.", process.max_fds)
    lost = process.lost_log_lines_total
    yield _counter("lost_log_lines_total", "Log lines that could not be written.", lost)
    yield _gauge("watches", "Watches of inotify; elsewhere watched folders.", watcher.watches)
    yield _counter("events_total", "Events that concerned a workspace.", watcher.events_total)
    lost = watcher.events_lost_total
    yield _counter("watcher_events_lost_total", "Times that events may have been lost.", lost)
    yield _counter("watcher_rebuilds_total", "Rebuilds of the watcher.", watcher.rebuilds_total)


def _render_clients(metrics: MetricsResult) -> Iterator[str]:
    clients, queue = metrics.clients, metrics.queue
    yield _gauge("clients", "Connected clients.", clients.connected)
    yield _counter("clients_accepted_total", "Accepted connections.", clients.accepted_total)
    yield _counter("clients_refused_total", "Refused connections.", clients.refused_total)
    yield _counter("clients_dropped_total", "Dropped connections.", clients.dropped_total)
    yield _gauge("requests_running", "Requests that run as tasks.", queue.requests_running)
    yield _gauge("requests_waiting", "Requests in the queue.", queue.requests_waiting)
    yield _gauge("reads_in_threads", "Reads in a thread or waiting for a thread.", queue.in_threads)
    yield _gauge("worker_jobs", "Jobs of the worker, running or waiting.", queue.worker_jobs)


def _render_requests(metrics: MetricsResult) -> Iterator[str]:
    requests = metrics.requests
    took = [({"method": request.method}, request.answered) for request in requests]
    help_text = "From the arrival of a request until its answer was ready."
    yield _histogram("request_duration_seconds", help_text, took)
    failed = [
        ({"method": request.method, "code": code}, float(n))
        for request in requests
        for code, n in request.failed_total.items()
    ]
    yield _family("requests_failed_total", "counter", "Requests answered with an error.", failed)
    abandoned = [
        ({"method": request.method}, float(request.abandoned_total)) for request in requests
    ]
    help_text = "Requests whose client left before the answer."
    yield _family("requests_abandoned_total", "counter", help_text, abandoned)


def _render_workspaces(workspaces: list[WorkspaceMetrics]) -> Iterator[str]:
    states = [
        ({"workspace": workspace.id, "state": state}, float(workspace.state == state))
        for workspace in workspaces
        for state in STATES
    ]
    yield _family("workspace_state", "gauge", "1 for the state of the workspace.", states)
    for name, kind, help_text, field in _PLAIN_FAMILIES:
        values = [({"workspace": each.id}, getattr(each, field)) for each in workspaces]
        samples = [(labels, value) for labels, value in values if value is not None]
        yield _family(name, kind, help_text, samples)
    for name, help_text, label, field in _LABELLED_COUNTERS:
        samples = [
            ({"workspace": workspace.id, label: word}, n)
            for workspace in workspaces
            for word, n in getattr(workspace, field).items()
        ]
        yield _family(name, "counter", help_text, samples)
    syncs = [({"workspace": workspace.id}, workspace.syncs) for workspace in workspaces]
    help_text = "Syncs, including syncs without a change."
    yield _histogram("sync_duration_seconds", help_text, syncs)


_PLAIN_FAMILIES = (
    ("workspace_watched", "gauge", "0 while only timed scans see changes.", "is_watched"),
    ("generation", "gauge", "Grows with each committed change of the index.", "generation"),
    ("notes", "gauge", "Indexed notes.", "files"),
    ("sections", "gauge", "Indexed sections.", "sections"),
    ("chunks", "gauge", "Indexed chunks.", "chunks"),
    ("pending_notes", "gauge", "Notes known to differ from the index.", "pending"),
    ("unrecorded_notes", "gauge", "Notes that the history has not recorded yet.", "unrecorded"),
    ("problems", "gauge", "Problems of notes and folders.", "problems"),
    ("skipped_files", "gauge", "Files and folders that cannot be indexed.", "skipped_files"),
    ("index_bytes", "gauge", "Size of the index on the disk.", "index_bytes"),
    ("index_wal_bytes", "gauge", "Size of index.db-wal.", "index_wal_bytes"),
    ("records_wal_bytes", "gauge", "Size of records.db-wal.", "records_wal_bytes"),
    (
        "last_sync_timestamp_seconds",
        "gauge",
        "Start of the last successful full scan, in seconds since 1970.",
        "last_sync_at",
    ),
    ("changing_syncs_total", "counter", "Syncs that changed the index.", "changing_syncs_total"),
    ("failed_syncs_total", "counter", "Syncs that failed.", "failed_syncs_total"),
    ("missed_events_total", "counter", "Changes without an event.", "missed_events_total"),
    ("index_rebuilds_total", "counter", "Rebuilds of the index.", "rebuilds_total"),
    ("writes_total", "counter", "Changes made on request.", "writes_total"),
    ("revisions_total", "counter", "Recorded revisions.", "revisions_total"),
)
_LABELLED_COUNTERS = (
    ("notes_changed_total", "Notes by change.", "change", "notes_total"),
    ("chunks_changed_total", "Chunks by change.", "change", "chunks_total"),
)


def _gauge(name: str, help_text: str, value: float) -> str:
    return _family(name, "gauge", help_text, [({}, value)])


def _counter(name: str, help_text: str, value: float) -> str:
    return _family(name, "counter", help_text, [({}, value)])


def _family(name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> str:
    lines = [_sample(name, labels, value) for labels, value in samples]
    return _head(name, kind, help_text) + "".join(lines)


def _histogram(name: str, help_text: str, rows: Iterable[tuple[Labels, Durations]]) -> str:
    lines = []
    for labels, took in rows:
        for bound, n in took.buckets:
            lines.append(_sample(f"{name}_bucket", {**labels, "le": _number(bound)}, n))
        lines.append(_sample(f"{name}_bucket", {**labels, "le": "+Inf"}, took.total))
        lines.append(_sample(f"{name}_sum", labels, took.sum_s))
        lines.append(_sample(f"{name}_count", labels, took.total))
    return _head(name, "histogram", help_text) + "".join(lines)


def _head(name: str, kind: str, help_text: str) -> str:
    return f"# HELP memsyncd_{name} {help_text}\n# TYPE memsyncd_{name} {kind}\n"


def _sample(name: str, labels: Labels, value: float) -> str:
    text = ",".join(f'{label}="{_escape(value)}"' for label, value in labels.items())
    return (
        f"memsyncd_{name}{{{text}}} {_number(value)}\n"
        if text
        else f"memsyncd_{name} {_number(value)}\n"
    )


def _number(value: float) -> str:
    """Return whole numbers without a fraction, others with every digit."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
