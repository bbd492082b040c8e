"""What do the counters of the whole daemon say? Gathered at once, from what loop, house and process
know at this moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from memsyncd import __version__
from memsyncd.core.histogram import BUCKET_BOUNDS_S, DurationHistogram
from memsyncd.engine.findings import UNFOUND, UNREADABLE
from memsyncd.engine.policies import Clock
from memsyncd.engine.workspace import Workspace, read_freshness
from memsyncd.engine.workspaces import Workspaces
from memsyncd.protocol import metrics as wire
from memsyncd.protocol.metrics import render_metrics
from memsyncd.server.requests import MethodCounters, ServerCounters
from memsyncd.server.session import Session

SKIPPED = UNFOUND | UNREADABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much the server has to do now, and what it has had since the start."""

    n_clients: int
    n_running: int
    n_waiting: int
    counts: ServerCounters


class Metrics:
    """Carries out `metrics`. The callables are asked each time; `count_reads` says how many reads
    are in threads.
    """

    def __init__(
        self,
        house: Workspaces,
        clock: Clock,
        *,
        started_at_s: float,
        read_process: Callable[[], wire.ProcessMetrics],
        read_load: Callable[[], Load],
        count_reads: Callable[[], int],
    ) -> None:
        self._house = house
        self._clock = clock
        self._started_at_s = started_at_s
        self._read_process = read_process
        self._read_load = read_load
        self._count_reads = count_reads

    def tell(self, _session: Session, params: wire.MetricsParams) -> wire.MetricsResult:
        house, load = self._house, self._read_load()
        uptime_s = self._clock.now_s() - self._started_at_s
        watching = house.watching
        told = wire.MetricsResult(
            version=__version__,
            started_at=round(self._clock.wall_s() - uptime_s, 3),
            uptime_s=round(uptime_s, 3),
            process=self._read_process(),
            clients=wire.ClientMetrics(
                connected=load.n_clients,
                accepted_total=load.counts.accepted,
                refused_total=load.counts.refused,
                dropped_total=load.counts.dropped,
            ),
            queue=wire.QueueMetrics(
                requests_running=load.n_running,
                requests_waiting=load.n_waiting,
                in_threads=self._count_reads(),
                lane_jobs=house.count_jobs(),
            ),
            watcher=wire.WatcherMetrics(
                watches=watching.watcher.n_watches,
                events_total=watching.n_events,
                doubts_total=watching.n_losses,
                rebuilds_total=watching.n_rebuilds,
            ),
            requests=[
                _to_requests(method, count) for method, count in sorted(load.counts.methods.items())
            ],
            workspaces=[
                self._tell_workspace(workspace) for _, workspace in sorted(house.by_id.items())
            ],
        )
        return msgspec.structs.replace(told, text=render_metrics(told)) if params.text else told

    def _tell_workspace(self, workspace: Workspace) -> wire.WorkspaceMetrics:
        condition, tally = workspace.condition, self._house.counters(workspace)
        fresh = read_freshness(workspace, self._house.policy, now_s=self._clock.now_s())
        return wire.WorkspaceMetrics(
            id=workspace.id,
            name=workspace.entry.name,
            state=fresh.state,
            is_heard=self._house.watching.health(workspace).mode == "events",
            generation=condition.generation,
            files=condition.counts.files,
            sections=condition.counts.sections,
            chunks=condition.counts.chunks,
            pending=fresh.pending,
            unrecorded=condition.n_unrecorded,
            problems=condition.n_problems,
            skipped_files=len(
                {problem.path for problem in condition.scan_problems if problem.code in SKIPPED}
            ),
            index_bytes=condition.index_bytes,
            index_wal_bytes=condition.index_wal_bytes,
            records_wal_bytes=condition.records_wal_bytes,
            last_sync_at=None if condition.synced_at_s is None else round(condition.synced_at_s, 3),
            syncs=_to_durations(tally.syncs),
            changing_syncs_total=tally.n_changing_syncs,
            failed_syncs_total=condition.n_failed_syncs,
            notes_total={
                "added": tally.n_added,
                "modified": tally.n_modified,
                "moved": tally.n_moved,
                "removed": tally.n_removed,
            },
            chunks_total={"upserted": tally.n_upserted, "deleted": tally.n_deleted},
            missed_events_total=condition.n_missed_events,
            rebuilds_total=condition.n_rebuilds,
            writes_total=tally.n_writes,
            revisions_total=workspace.n_revisions,
        )


def _to_requests(method: str, count: MethodCounters) -> wire.RequestMetrics:
    return wire.RequestMetrics(
        method=method,
        answered=_to_durations(count.answered),
        failed_total=dict(sorted(count.failed.items())),
        abandoned_total=count.n_abandoned,
    )


def _to_durations(latencies: DurationHistogram) -> wire.Durations:
    p50_ms, p95_ms, p99_ms = (_to_ms(latencies.quantile(share)) for share in (0.50, 0.95, 0.99))
    return wire.Durations(
        total=latencies.n,
        sum_s=round(latencies.sum_s, 6),
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        longest_ms=round(latencies.longest_s * 1000, 3),
        buckets=list(zip(BUCKET_BOUNDS_S, latencies.cumulative_counts(), strict=True)),
    )


def _to_ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
