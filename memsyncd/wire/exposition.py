"""How do metrics read in the text format of Prometheus? Families with their help and type, a sample a line.

Every name begins with `memsyncd_`, so that the text can stand beside that of others, as in a folder of node_exporter's textfile
collector. What only ever grows ends in `_total`; durations are histograms in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args, get_type_hints

from memsyncd.wire.metrics import Durations, MetricsResult, WorkspaceMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES: tuple[str, ...] = get_args(get_type_hints(WorkspaceMetrics)["state"])

Labels = dict[str, str]
Sample = tuple[Labels, float]


def render_metrics(metrics: MetricsResult) -> str:
    """The whole text; ends with a newline."""
    families = (*_tell_process(metrics), *_tell_clients(metrics), *_tell_requests(metrics), *_tell_workspaces(metrics.workspaces))
    return "".join(families)


def _tell_process(metrics: MetricsResult) -> Iterator[str]:
    process, watcher = metrics.process, metrics.watcher
    yield _family("build_info", "gauge", "The daemon's version.", [({"version": metrics.version}, 1)])
    yield _one("start_time_seconds", "gauge", "When the daemon began, in seconds since 1970.", metrics.started_at)
    yield _one("resident_memory_bytes", "gauge", "Resident memory.", process.rss_bytes)
    yield _one("cpu_seconds_total", "counter", "Processor time, user and system.", process.cpu_s_total)
    yield _one("threads", "gauge", "Threads.", process.threads)
    yield _one("open_fds", "gauge", "Open file descriptors.", process.fds)
    if process.max_fds is not None:
        yield _one("max_fds", "gauge", "How many file descriptors may be open.", process.max_fds)
    lost = process.lost_log_lines_total
    yield _one("lost_log_lines_total", "counter", "Lines of the log that could not be written.", lost)
    yield _one("watches", "gauge", "What the operating system watches: inotify watches, elsewhere folders.", watcher.watches)
    yield _one("events_total", "counter", "Events heard that concerned a workspace.", watcher.events_total)
    yield _one("watcher_doubts_total", "counter", "Times that events may have been lost.", watcher.doubts_total)
    yield _one("watcher_rebuilds_total", "counter", "Times that watching began anew.", watcher.rebuilds_total)


def _tell_clients(metrics: MetricsResult) -> Iterator[str]:
    clients, queue = metrics.clients, metrics.queue
    yield _one("clients", "gauge", "Connected clients.", clients.connected)
    yield _one("clients_accepted_total", "counter", "Connections let in.", clients.accepted_total)
    yield _one("clients_refused_total", "counter", "Connections turned away.", clients.refused_total)
    yield _one("clients_dropped_total", "counter", "Connections cut.", clients.dropped_total)
    yield _one("requests_running", "gauge", "Requests that run as tasks.", queue.requests_running)
    yield _one("requests_waiting", "gauge", "Requests that wait for their turn.", queue.requests_waiting)
    yield _one("reads_in_threads", "gauge", "Reads for clients in a thread, or waiting for one.", queue.in_threads)
    yield _one("lane_jobs", "gauge", "Jobs on the writer's lane, or waiting for it.", queue.lane_jobs)


def _tell_requests(metrics: MetricsResult) -> Iterator[str]:
    requests = metrics.requests
    took = [({"method": one.method}, one.answered) for one in requests]
    yield _histogram("request_duration_seconds", "From taking up a request until its answer was ready.", took)
    failed = [({"method": one.method, "code": code}, float(n)) for one in requests for code, n in one.failed_total.items()]
    yield _family("requests_failed_total", "counter", "Requests answered with an error.", failed)
    abandoned = [({"method": one.method}, float(one.abandoned_total)) for one in requests]
    yield _family("requests_abandoned_total", "counter", "Requests whose client did not wait for the answer.", abandoned)


def _tell_workspaces(workspaces: list[WorkspaceMetrics]) -> Iterator[str]:
    def each(name: str, kind: str, told: str, field: str) -> str:
        values = [({"workspace": one.id}, getattr(one, field)) for one in workspaces]
        return _family(name, kind, told, [(labels, value) for labels, value in values if value is not None])

    def split(name: str, told: str, label: str, field: str) -> str:
        samples = [({"workspace": one.id, label: word}, n) for one in workspaces for word, n in getattr(one, field).items()]
        return _family(name, "counter", told, samples)

    states = [({"workspace": one.id, "state": state}, float(one.state == state)) for one in workspaces for state in STATES]
    yield _family("workspace_state", "gauge", "1 for the state that the workspace is in.", states)
    yield each("workspace_heard", "gauge", "0 while only timed scans see changes.", "is_heard")
    yield each("generation", "gauge", "Grows with each committed change of the index.", "generation")
    yield each("notes", "gauge", "Indexed notes.", "files")
    yield each("sections", "gauge", "Indexed sections.", "sections")
    yield each("chunks", "gauge", "Indexed chunks.", "chunks")
    yield each("pending_notes", "gauge", "Notes known to differ from the index.", "pending")
    yield each("unrecorded_notes", "gauge", "Notes that the history has yet to record.", "unrecorded")
    yield each("problems", "gauge", "What is odd about notes and folders.", "problems")
    yield each("skipped_files", "gauge", "Files and folders that cannot be indexed as they are.", "skipped_files")
    yield each("index_bytes", "gauge", "Size of the index on the disk.", "index_bytes")
    yield each("index_wal_bytes", "gauge", "Size of index.db-wal.", "index_wal_bytes")
    yield each("records_wal_bytes", "gauge", "Size of records.db-wal.", "records_wal_bytes")
    told = "When the last full look that succeeded began, in seconds since 1970."
    yield each("last_sync_timestamp_seconds", "gauge", told, "last_sync_at")
    took = [({"workspace": one.id}, one.syncs) for one in workspaces]
    yield _histogram("sync_duration_seconds", "Syncs, also those that found nothing new.", took)
    yield each("changing_syncs_total", "counter", "Syncs that changed the index.", "changing_syncs_total")
    yield each("failed_syncs_total", "counter", "Syncs that failed.", "failed_syncs_total")
    yield split("notes_changed_total", "Notes by what became of them.", "change", "notes_total")
    yield split("chunks_changed_total", "Chunks by what became of them.", "change", "chunks_total")
    yield each("missed_events_total", "counter", "Changes that no event had announced.", "missed_events_total")
    yield each("index_rebuilds_total", "counter", "Times that the index was built anew.", "rebuilds_total")
    yield each("writes_total", "counter", "Changes that were asked for and carried out.", "writes_total")
    yield each("revisions_total", "counter", "Revisions recorded.", "revisions_total")


def _one(name: str, kind: str, told: str, value: float) -> str:
    return _family(name, kind, told, [({}, value)])


def _family(name: str, kind: str, told: str, samples: Iterable[Sample]) -> str:
    lines = [_sample(name, labels, value) for labels, value in samples]
    return _head(name, kind, told) + "".join(lines)


def _histogram(name: str, told: str, rows: Iterable[tuple[Labels, Durations]]) -> str:
    lines = []
    for labels, took in rows:
        lines += [_sample(f"{name}_bucket", {**labels, "le": _number(bound)}, n) for bound, n in took.buckets]
        lines.append(_sample(f"{name}_bucket", {**labels, "le": "+Inf"}, took.total))
        lines.append(_sample(f"{name}_sum", labels, took.sum_s))
        lines.append(_sample(f"{name}_count", labels, took.total))
    return _head(name, "histogram", told) + "".join(lines)


def _head(name: str, kind: str, told: str) -> str:
    return f"# HELP memsyncd_{name} {told}\n# TYPE memsyncd_{name} {kind}\n"


def _sample(name: str, labels: Labels, value: float) -> str:
    told = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
    return f"memsyncd_{name}{{{told}}} {_number(value)}\n" if told else f"memsyncd_{name} {_number(value)}\n"


def _number(value: float) -> str:
    """Whole numbers as such, others to the last digit."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
