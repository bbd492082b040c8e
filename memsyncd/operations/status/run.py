"""Reports the state of the daemon and its workspaces: status, problems, metrics, the end of the
log.

Everything is read from memory on the event loop, except the problems, which are in the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from memsyncd import PROTOCOL, __version__
from memsyncd.config import Config
from memsyncd.core.histogram import BUCKET_BOUNDS_S, DurationHistogram
from memsyncd.engine.answers import find_last_calls
from memsyncd.engine.browse import LIST_NOTES, find_problems, has_note
from memsyncd.engine.checks import SKIPPED, UNREADABLE, describe_progress, describe_recording
from memsyncd.engine.workspace import Condition, Workspace, read_freshness
from memsyncd.errors import NoteNotFound
from memsyncd.logs import read_recent_lines
from memsyncd.operations.daemon import Daemon, MethodCounters
from memsyncd.operations.fields import NoParams, State, WorkspaceParams
from memsyncd.operations.status.declare import (
    AgentCall,
    ClientMetrics,
    Durations,
    LogTail,
    MetricsParams,
    MetricsResult,
    PanelAddress,
    Pong,
    Problems,
    ProblemsParams,
    QueueMetrics,
    RequestMetrics,
    Status,
    WatcherMetrics,
    WorkspaceMetrics,
    WorkspaceStatus,
)
from memsyncd.operations.status.text import render_metrics
from memsyncd.operations.workspace_info import choose_workspaces, describe_collections
from memsyncd.watch.health import WatchHealth


def name_daemon(daemon: Daemon, _params: NoParams) -> Pong:
    return Pong(name="memsyncd", version=__version__, protocol=PROTOCOL, pid=daemon.facts.pid)


def tail_log(_daemon: Daemon, _params: NoParams) -> LogTail:
    return LogTail(lines=read_recent_lines())


async def open_panel(daemon: Daemon, _params: NoParams) -> PanelAddress:
    return await daemon.facts.open_panel()


async def list_problems(daemon: Daemon, params: ProblemsParams) -> Problems:
    """List the problems of a workspace, or of all. Raises WorkspaceNotFound, and NoteNotFound if a
    path has neither a problem nor a note.
    """
    kinds = daemon.workspaces.config.kinds
    chosen = choose_workspaces(daemon.workspaces, params.workspace)
    problems = [
        problem
        for workspace in chosen
        for problem in await daemon.read(partial(find_problems, workspace, kinds, path=params.path))
    ]
    if params.path is not None and not problems:
        checks = [partial(has_note, workspace, params.path) for workspace in chosen]
        if not any([await daemon.read(check) for check in checks]):
            raise NoteNotFound(f"no note is indexed at {params.path}", hint=LIST_NOTES)
    return Problems(problems=problems[: params.limit], n_problems=len(problems))


# --- status -------------------------------------------------------------------------------------


def report(daemon: Daemon, params: WorkspaceParams) -> Status:
    """Report the state of the daemon and of a workspace, or of all. Raises WorkspaceNotFound."""
    facts, load = daemon.facts, daemon.facts.read_load()
    url, token_file = facts.find_http() or (None, None)
    chosen = choose_workspaces(daemon.workspaces, params.workspace)
    for workspace in chosen:
        daemon.workspaces.scheduler.quick_check(workspace)
    return Status(
        version=__version__,
        protocol=PROTOCOL,
        pid=facts.pid,
        uptime_s=round(daemon.clock.now_s() - facts.started_at_s, 3),
        rss_bytes=facts.read_process().rss_bytes,
        clients=load.n_clients,
        requests=load.counts.requests,
        failed_requests=load.counts.failed_requests,
        socket=facts.socket,
        socket_problem=facts.find_socket_problem() or None,
        lock_problem=facts.find_lock_problem() or None,
        http=url,
        http_token=token_file,
        config=facts.find_config(),
        sqlite=facts.sqlite,
        agents=_list_agents(chosen) if daemon.workspaces.config.agents.enabled else None,
        workspaces=[_describe_now(daemon, workspace) for workspace in chosen],
        collections=describe_collections(daemon.workspaces) if params.workspace is None else [],
    )


def _list_agents(workspaces: Sequence[Workspace]) -> list[AgentCall]:
    calls = Counter[str]()
    for workspace in workspaces:
        calls |= Counter(find_last_calls(workspace))
    return [AgentCall(name=name, last_call_at=id_ / 1e6) for name, id_ in calls.most_common()]


def _describe_now(daemon: Daemon, workspace: Workspace) -> WorkspaceStatus:
    health = daemon.workspaces.watching.health(workspace)
    return describe_status(workspace, health, daemon.workspaces.config, now_s=daemon.clock.now_s())


def describe_status(
    workspace: Workspace, health: WatchHealth, config: Config, *, now_s: float
) -> WorkspaceStatus:
    """Describe the state of a workspace. `now_s` is a time of the monotonic clock."""
    condition, fresh = workspace.condition, read_freshness(workspace, config, now_s=now_s)
    return WorkspaceStatus(
        **_describe_counts(workspace, fresh.state, fresh.pending, config),
        root=workspace.entry.root,
        reasons=[
            *condition.hindrances,
            *_list_notices(condition),
            *filter(None, [fresh.overdue]),
        ],
        watcher=health.mode if health.mode != "events" else health.observer,
        missed_events=condition.n_missed_events,
        failed_syncs=condition.n_failed_syncs,
    )


def _describe_counts(
    workspace: Workspace, state: State, pending: int, config: Config
) -> dict[str, Any]:
    """Return the fields of `WorkspaceCounts`."""
    condition = workspace.condition
    return {
        "id": workspace.id,
        "name": workspace.entry.name,
        "state": state,
        "generation": condition.generation,
        "files": condition.counts.files,
        "sections": condition.counts.sections,
        "chunks": condition.counts.chunks,
        "pending": pending,
        "unrecorded": condition.n_unrecorded,
        "problems": condition.count_problems(config.kinds),
        "index_bytes": condition.index_bytes,
        "index_wal_bytes": condition.index_wal_bytes,
        "records_wal_bytes": condition.records_wal_bytes,
        "last_sync_at": max(
            filter(None, (condition.synced_at_s, condition.partly_synced_at_s)), default=None
        ),
    }


def _list_notices(condition: Condition) -> list[str]:
    """Return the notices that only `status` has, besides the reasons that every answer has."""
    notices = sorted(condition.notices.items())
    texts = [text for _, text in notices if text not in condition.hindrances]
    running = (describe_progress(condition), describe_recording(condition))
    return [*texts, *filter(None, running)]


# --- metrics ------------------------------------------------------------------------------------


def measure(daemon: Daemon, params: MetricsParams) -> MetricsResult:
    """Return the counters of the daemon and its workspaces, with `text` in Prometheus' format."""
    workspaces, load = daemon.workspaces, daemon.facts.read_load()
    uptime_s = daemon.clock.now_s() - daemon.facts.started_at_s
    watching = workspaces.watching
    result = MetricsResult(
        version=__version__,
        started_at=round(daemon.clock.wall_s() - uptime_s, 3),
        uptime_s=round(uptime_s, 3),
        process=daemon.facts.read_process(),
        clients=ClientMetrics(
            connected=load.n_clients,
            accepted_total=load.counts.accepted,
            refused_total=load.counts.refused,
            dropped_total=load.counts.dropped,
        ),
        queue=QueueMetrics(
            requests_running=load.n_running,
            requests_waiting=load.n_waiting,
            in_threads=daemon.count_reads(),
            worker_jobs=workspaces.count_jobs(),
        ),
        watcher=WatcherMetrics(
            watches=watching.watcher.n_watches,
            events_total=watching.n_events,
            events_lost_total=watching.n_losses,
            rebuilds_total=watching.n_rebuilds,
        ),
        requests=[
            _describe_requests(method, count)
            for method, count in sorted(load.counts.methods.items())
        ],
        workspaces=[
            _measure_workspace(daemon, workspace)
            for _, workspace in sorted(workspaces.by_id.items())
        ],
    )
    return replace(result, text=render_metrics(result)) if params.text else result


def _measure_workspace(daemon: Daemon, workspace: Workspace) -> WorkspaceMetrics:
    condition, counters = workspace.condition, daemon.workspaces.counters(workspace)
    config = daemon.workspaces.config
    fresh = read_freshness(workspace, config, now_s=daemon.clock.now_s())
    return WorkspaceMetrics(
        **_describe_counts(workspace, fresh.state, fresh.pending, config),
        is_watched=daemon.workspaces.watching.health(workspace).mode == "events",
        skipped_files=_count_skipped_files(condition),
        syncs=_describe_durations(counters.syncs),
        changing_syncs_total=counters.n_changing_syncs,
        failed_syncs_total=condition.n_failed_syncs,
        notes_total={
            "added": counters.n_added,
            "modified": counters.n_modified,
            "moved": counters.n_moved,
            "removed": counters.n_removed,
        },
        chunks_total={"upserted": counters.n_upserted, "deleted": counters.n_deleted},
        missed_events_total=condition.n_missed_events,
        rebuilds_total=condition.n_rebuilds,
        writes_total=counters.n_writes,
        revisions_total=workspace.n_revisions,
    )


def _count_skipped_files(condition: Condition) -> int:
    codes = SKIPPED | UNREADABLE
    return len({problem.path for problem in condition.scan_problems if problem.code in codes})


def _describe_requests(method: str, count: MethodCounters) -> RequestMetrics:
    return RequestMetrics(
        method=method,
        answered=_describe_durations(count.answered),
        failed_total=dict(sorted(count.failed.items())),
        abandoned_total=count.n_abandoned,
    )


def _describe_durations(durations: DurationHistogram) -> Durations:
    p50_ms, p95_ms, p99_ms = (_to_ms(durations.quantile(share)) for share in (0.50, 0.95, 0.99))
    return Durations(
        total=durations.n,
        sum_s=round(durations.sum_s, 6),
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        longest_ms=round(durations.longest_s * 1000, 3),
        buckets=list(zip(BUCKET_BOUNDS_S, durations.cumulative_counts(), strict=True)),
    )


def _to_ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
