"""Answers the methods that operate the daemon: ping, status, metrics, workspaces and sync.

Conditions, counters and health of workspaces are read here on the event loop and become the
protocol's structs, each in one function.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace as replace_fields

from memsyncd import PROTOCOL, __version__
from memsyncd.config import Config
from memsyncd.core.globs import Globs
from memsyncd.core.histogram import BUCKET_BOUNDS_S, DurationHistogram
from memsyncd.core.notepath import is_instruction
from memsyncd.engine.checks import SKIPPED, UNREADABLE, describe_progress, describe_recording
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import DEFAULT_SETTINGS, FolderCheck, ProjectCollection
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workspace import Condition, Entry, Settings, Workspace, read_freshness
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest
from memsyncd.files.scan import NoteCount
from memsyncd.logs import read_recent_lines
from memsyncd.operations.fields import Freshness, NoParams, State, WorkspaceParams
from memsyncd.operations.semantic.declare import (
    SemanticReport,
    SemanticWarmParams,
    VectorProcessInfo,
    WorkspaceVectorsInfo,
)
from memsyncd.operations.status import metrics
from memsyncd.operations.status.declare import LogTail, PanelAddress, Pong, Status, WorkspaceStatus
from memsyncd.operations.workspaces.declare import (
    AddedWorkspaces,
    AddParams,
    ChunkCounts,
    CollectionInfo,
    Failed,
    Found,
    RemoveParams,
    SyncParams,
    SyncReport,
    WorkspaceInfo,
    WorkspaceList,
)
from memsyncd.server.reads import PathLookup
from memsyncd.server.requests import MethodCounters, ServerCounters
from memsyncd.server.session import MethodCall, Outcome, Session
from memsyncd.server.waits import wait_for_work
from memsyncd.watch.health import WatchHealth

SYNC_S = 600.0
# How long the notes of an added folder are counted.
COUNT_S = 2.0
# A repository with instructions for agents, or notes that an include names.
WITHOUT_MEMORY = "no MEMORY.md and no .memories/ yet"
PRESET_NAMES = {
    "memory": "MEMORY.md and .memories/",
    "vault": "folder of notes",
    "claude-code": "projects of Claude Code",
}
ALL_WORKSPACES = "*"
WORST_FIRST = ("stalled", "missing", "degraded", "indexing")


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The server's current load, and its counters since the start."""

    n_clients: int
    n_running: int
    n_waiting: int
    counts: ServerCounters


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the daemon; the callables are called for each request."""

    pid: int
    socket: str
    find_config: Callable[[], str]
    """The configuration's path, and whether there is a file."""
    sqlite: str
    started_at_s: float
    read_process: Callable[[], metrics.ProcessMetrics]
    read_load: Callable[[], Load]
    find_http: Callable[[], tuple[str, str] | None] = lambda: None
    """The URL of the port and the file of its token, once a port is open."""
    open_panel: Callable[[], Awaitable[PanelAddress]]
    read_rss: Callable[[int], int]
    find_socket_problem: Callable[[], str] = lambda: ""
    find_lock_problem: Callable[[], str] = lambda: ""


class Operations:
    """Carries out the methods. `count_reads` counts the reads that are in threads."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        places: PathLookup,
        facts: Facts,
        count_reads: Callable[[], int],
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._places = places
        self._facts = facts
        self._count_reads = count_reads
        self.methods: dict[str, MethodCall] = {
            "ping": self._ping,
            "status": self._status,
            "metrics": self._metrics,
            "log.tail": lambda _session, _params: LogTail(lines=read_recent_lines()),
            "panel.open": lambda _session, _params: facts.open_panel(),
            "workspace.add": self._add,
            "workspace.remove": self._remove,
            "workspace.list": self._list,
            "sync": self._sync,
            "semantic.status": self._describe_vectors,
            "semantic.warm": self._warm,
        }

    # --- ping, status ---

    def _ping(self, _session: Session, _params: NoParams) -> Pong:
        return Pong(name="memsyncd", version=__version__, protocol=PROTOCOL, pid=self._facts.pid)

    def _status(self, _session: Session, params: WorkspaceParams) -> Status:
        facts, load = self._facts, self._facts.read_load()
        url, token_file = facts.find_http() or (None, None)
        chosen = choose_workspaces(self._workspaces, params.workspace)
        for workspace in chosen:
            self._workspaces.scheduler.quick_check(workspace)
        return Status(
            version=__version__,
            protocol=PROTOCOL,
            pid=facts.pid,
            uptime_s=round(self._clock.now_s() - facts.started_at_s, 3),
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
            workspaces=[self._describe_status(workspace) for workspace in chosen],
            collections=self._describe_collections() if params.workspace is None else [],
        )

    def _describe_collections(self) -> list[CollectionInfo]:
        found = sorted(self._workspaces.collections.values(), key=lambda one: one.entry.name)
        return [describe_collection(one, self._workspaces) for one in found]

    def _describe_status(self, workspace: Workspace) -> WorkspaceStatus:
        health = self._workspaces.watching.health(workspace)
        now_s = self._clock.now_s()
        return describe_status(workspace, health, self._workspaces.config, now_s=now_s)

    # --- semantic search ---

    def _describe_vectors(
        self, _session: Session, params: WorkspaceParams | SemanticWarmParams
    ) -> SemanticReport:
        service = self._workspaces.vectors.service
        pids = service.pids
        return SemanticReport(
            enabled=self._workspaces.config.semantic.enabled,
            process=VectorProcessInfo(pid=pids[0], rss_bytes=self._facts.read_rss(pids[0]))
            if pids
            else None,
            workspaces=[
                WorkspaceVectorsInfo(
                    workspace=one.id, name=one.entry.name, semantic=one.vectors.status()
                )
                for one in choose_workspaces(self._workspaces, params.workspace)
            ],
            reason=(service.is_enabled and service.off_reason) or None,
        )

    def _warm(self, session: Session, params: SemanticWarmParams) -> SemanticReport:
        self._workspaces.vectors.retry()
        for workspace in choose_workspaces(self._workspaces, params.workspace):
            self._workspaces.vectors.refresh(workspace, is_asked=True, is_again=params.again)
        return self._describe_vectors(session, params)

    # --- workspaces ---

    def _add(self, _session: Session, params: AddParams) -> Outcome:
        path = os.path.expanduser(params.path)
        if not path.startswith("/") or "\0" in path:
            hint = "send the folder's absolute path"
            raise BadRequest("this is not an absolute path", hint=hint)
        return self._add_at(path, params)

    async def _add_at(self, path: str, params: AddParams) -> AddedWorkspaces:
        seen = await self._places.check_new(path)
        settings = Settings(
            name=params.name or "",
            include=tuple(params.include),
            exclude=tuple(params.exclude),
            read_only=tuple(params.read_only),
            preset=params.preset or "",
            memory_dir=params.memory_dir or "",
            is_user_wide=params.user,
        )
        made = self._workspaces.make_entry(path, seen, settings)
        if made.is_collection:
            return await self._add_collection(made, seen)
        is_chosen_here = made.is_vault and params.preset is None
        count = None
        if seen.known is None:
            count = await self._places.count_notes(made, self._workspaces.config, COUNT_S)
            if is_chosen_here and not count.is_complete:
                raise _make_size_error(made.root, count.n_notes)
        if seen.main and settings == DEFAULT_SETTINGS:
            main = self._workspaces.find(seen.main)
            added = self._workspaces.open_worktree(main, seen.root.path)
        else:
            added = self._workspaces.add(path, settings=settings, seen=seen)
        await self._places.detect_memory([added])
        found = await self._describe_found(added, seen, count)
        if added.entry.main:
            named = await self._places.find(added.id)
            root = self._workspaces.find(added.entry.main).entry.root
            found = replace_fields(found, shared=[f"{root}/{place}" for place in named.shared])
        infos = [describe_workspace(added)]
        return AddedWorkspaces(workspaces=infos, collections=[], found=found)

    async def _add_collection(self, made: Entry, seen: FolderCheck) -> AddedWorkspaces:
        listed = self._workspaces.add_collection(made, seen)
        # A disk that does not answer: they are added as soon as it does.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(listed, COUNT_S)
        collection = self._workspaces.collections[made.id]
        info = describe_collection(collection, self._workspaces)
        members = [self._workspaces.by_id[key] for key in info.workspaces]
        await self._places.detect_memory(members)
        end_s = self._clock.now_s() + COUNT_S
        n_notes, is_complete = 0, True
        for member in members:
            left_s = max(end_s - self._clock.now_s(), 0.0)
            config = self._workspaces.config
            count = await self._places.count_notes(member.entry, config, left_s)
            n_notes += count.n_notes
            is_complete = is_complete and count.is_complete
        return AddedWorkspaces(
            workspaces=[describe_workspace(member) for member in members],
            collections=[info],
            found=Found(
                what=PRESET_NAMES["claude-code"],
                notes=n_notes,
                is_complete=is_complete,
                others=0,
                read_only=[],
            ),
        )

    async def _describe_found(
        self, added: Workspace, seen: FolderCheck, count: NoteCount | None
    ) -> Found:
        if count is None:  # a known workspace may have more settings than those of this request
            config = self._workspaces.config
            count = await self._places.count_notes(added.entry, config, COUNT_S)
        n_others, is_complete = 0, count.is_complete
        namesakes: tuple[str, ...] = ()
        if not (added.entry.is_vault or (count.n_notes and added.has_memory)):
            whole = replace_fields(added.entry, preset="vault")
            others = await self._places.count_notes(whole, self._workspaces.config, COUNT_S / 2)
            namesakes = () if added.has_memory else others.namesakes
            if not count.n_notes:
                n_others, is_complete = others.n_notes, others.is_complete
        preset = added.entry.preset or "memory"
        is_as_recognised = seen.place is not None and seen.place.preset == preset
        what = seen.place.what if seen.place and is_as_recognised else PRESET_NAMES[preset]
        if what == PRESET_NAMES["memory"] and added.has_memory is False and count.n_notes:
            what = WITHOUT_MEMORY
        return Found(
            what=what,
            notes=count.n_notes,
            is_complete=is_complete,
            others=n_others,
            namesakes=list(namesakes),
            read_only=_list_read_only(added.entry, seen.rules),
            worktree=seen.worktree or None,
        )

    def _remove(self, _session: Session, params: RemoveParams) -> WorkspaceList:
        collection = self._workspaces.find_collection(params.workspace)
        if collection is not None:
            removed = describe_collection(collection, self._workspaces)
            gone = self._workspaces.remove_collection(collection)
            infos = [describe_workspace(workspace) for workspace in gone]
            return WorkspaceList(workspaces=infos, collections=[removed])
        workspace = self._workspaces.find(params.workspace)
        info = describe_workspace(workspace)
        self._workspaces.remove(workspace)
        return WorkspaceList(workspaces=[info], collections=[])

    async def _list(self, _session: Session, _params: NoParams) -> WorkspaceList:
        await self._places.detect_memory(self._workspaces.sorted())
        found = self._workspaces.sorted()
        return WorkspaceList(
            workspaces=[describe_workspace(workspace) for workspace in found],
            collections=self._describe_collections(),
        )

    async def _sync(self, _session: Session, params: SyncParams) -> SyncReport:
        workspace = self._workspaces.find(params.workspace)
        future = (
            self._workspaces.scheduler.rebuild(workspace)
            if params.rebuild
            else self._workspaces.scheduler.sync(workspace, is_full=params.full)
        )
        timeout_s = params.timeout_ms / 1000 if params.timeout_ms else SYNC_S
        done = await wait_for_work(self._workspaces, workspace, future, timeout_s)
        return describe_sync(workspace, done)

    # --- metrics ---

    def _metrics(self, _session: Session, params: metrics.MetricsParams) -> metrics.MetricsResult:
        workspaces, load = self._workspaces, self._facts.read_load()
        uptime_s = self._clock.now_s() - self._facts.started_at_s
        watching = workspaces.watching
        result = metrics.MetricsResult(
            version=__version__,
            started_at=round(self._clock.wall_s() - uptime_s, 3),
            uptime_s=round(uptime_s, 3),
            process=self._facts.read_process(),
            clients=metrics.ClientMetrics(
                connected=load.n_clients,
                accepted_total=load.counts.accepted,
                refused_total=load.counts.refused,
                dropped_total=load.counts.dropped,
            ),
            queue=metrics.QueueMetrics(
                requests_running=load.n_running,
                requests_waiting=load.n_waiting,
                in_threads=self._count_reads(),
                worker_jobs=workspaces.count_jobs(),
            ),
            watcher=metrics.WatcherMetrics(
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
                self._measure_workspace(workspace)
                for _, workspace in sorted(workspaces.by_id.items())
            ],
        )
        return (
            replace_fields(result, text=metrics.render_metrics(result)) if params.text else result
        )

    def _measure_workspace(self, workspace: Workspace) -> metrics.WorkspaceMetrics:
        condition, counters = workspace.condition, self._workspaces.counters(workspace)
        fresh = read_freshness(workspace, self._workspaces.config, now_s=self._clock.now_s())
        return metrics.WorkspaceMetrics(
            **_describe_counts(workspace, fresh.state, fresh.pending),
            is_watched=self._workspaces.watching.health(workspace).mode == "events",
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


def _make_size_error(root: str, n_notes: int) -> BadRequest:
    message = f"{root} has more than {n_notes:,} notes: more than could be counted in {COUNT_S:g} s"
    hint = "name a folder within, or choose what to index: memsyncd add PATH --include 'docs/**'"
    return BadRequest(message, hint=hint)


# --- workspaces, freshness, syncs ---------------------------------------------------------------


def choose_workspaces(workspaces: Workspaces, name: str | None) -> list[Workspace]:
    """The workspace of this name, or all without one. Raises WorkspaceNotFound."""
    return workspaces.sorted() if name is None else [workspaces.find(name)]


def choose_named(workspaces: Workspaces, names: str | list[str] | None) -> list[Workspace]:
    """The workspaces with these names, each once; `*` names all but linked worktrees, whose notes
    are mostly copies. Raises WorkspaceNotFound.
    """
    if names == ALL_WORKSPACES:
        return [one for one in workspaces.sorted() if not one.entry.main]
    if not isinstance(names, list):
        return [workspaces.find(names)]
    chosen = [one for name in names for one in choose_named(workspaces, name)]
    return list({one.id: one for one in chosen}.values())


def describe_workspace(workspace: Workspace) -> WorkspaceInfo:
    entry = workspace.entry
    return WorkspaceInfo(
        id=entry.id,
        name=entry.name,
        root=entry.root,
        include=list(entry.include),
        exclude=list(entry.exclude),
        read_only=list(entry.read_only),
        preset=entry.folder_preset,
        memory_dir=entry.memory_folder,
        user=entry.is_user_wide,
        source=entry.source,
        has_memory=bool(workspace.has_memory),
        collection=entry.collection or None,
        project=entry.project or None,
        main=entry.main or None,
    )


def _list_read_only(entry: Entry, rules: Iterable[str]) -> list[str]:
    """Return the read-only globs of a workspace, with those of `rules`, the instructions for agents
    in its folder, that belong to it.
    """
    exclude = Globs.parse_excludes(entry.exclude)
    own = (
        one
        for one in rules
        # In a vault they are notes like others, which only people write.
        if (one in entry.all_read_only or (is_instruction(one) and one not in entry.include))
        and not exclude.matches(one)
    )
    return list(dict.fromkeys((*entry.read_only, *own)))


def describe_collection(collection: ProjectCollection, workspaces: Workspaces) -> CollectionInfo:
    entry = collection.entry
    members = [one for one in workspaces.sorted() if one.entry.collection == entry.id]
    return CollectionInfo(
        id=entry.id,
        name=entry.name,
        root=entry.root,
        preset="claude-code",
        exclude=list(entry.exclude),
        source=entry.source,
        is_missing=collection.is_missing,
        workspaces=[one.id for one in members],
    )


def describe_status(
    workspace: Workspace, health: WatchHealth, config: Config, *, now_s: float
) -> WorkspaceStatus:
    """Describe the state of a workspace. `now_s` is of the monotonic clock."""
    condition, fresh = workspace.condition, read_freshness(workspace, config, now_s=now_s)
    return WorkspaceStatus(
        **_describe_counts(workspace, fresh.state, fresh.pending),
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


def _describe_counts(workspace: Workspace, state: State, pending: int) -> dict[str, Any]:
    """The fields of `WorkspaceCounts`."""
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
        "problems": condition.n_problems,
        "index_bytes": condition.index_bytes,
        "index_wal_bytes": condition.index_wal_bytes,
        "records_wal_bytes": condition.records_wal_bytes,
        "last_sync_at": max(
            filter(None, (condition.synced_at_s, condition.partly_synced_at_s)), default=None
        ),
    }


def _list_notices(condition: Condition) -> list[str]:
    """Return what `status` says besides the reasons that every answer has."""
    notices = sorted(condition.notices.items())
    texts = [text for _, text in notices if text not in condition.hindrances]
    running = (describe_progress(condition), describe_recording(condition))
    return [*texts, *filter(None, running)]


def describe_freshness(
    workspaces: Sequence[Workspace], config: Config, *, now_s: float
) -> Freshness:
    """Combine the freshness of workspaces: the worst state, the oldest scan, the latest
    generation. `now_s` is of the monotonic clock.
    """
    conditions = [workspace.condition for workspace in workspaces]
    scans = [condition.synced_at_s for condition in conditions]
    fresh = [read_freshness(workspace, config, now_s=now_s) for workspace in workspaces]
    states = {one.state for one in fresh}
    reasons = dict.fromkeys(reason for one in fresh for reason in one.reasons)
    is_scanned = bool(scans) and None not in scans
    return Freshness(
        generation=max((condition.generation for condition in conditions), default=0),
        pending=sum(one.pending for one in fresh),
        unrecorded=sum(condition.n_unrecorded for condition in conditions),
        synced_at=min(scan for scan in scans if scan is not None) if is_scanned else None,
        state=next((state for state in WORST_FIRST if state in states), "ready"),
        reason="; ".join(reasons) or None,
    )


def measure_freshness(
    workspaces: Workspaces, chosen: Sequence[Workspace], clock: Clock
) -> Freshness:
    """Return the freshness of what was read, and check that the file of each index is there."""
    for workspace in chosen:
        workspaces.scheduler.check_read(workspace)
    return describe_freshness(chosen, workspaces.config, now_s=clock.now_s())


def watch_freshness(
    workspaces: Workspaces, chosen: Sequence[Workspace], clock: Clock
) -> Callable[[], Freshness]:
    """Return a call for after a read that begins now. What is pending now, unread events included,
    may be indexed during the read without being in it: it counts as pending, and the generation is
    the one that surely was read.
    """
    n_unread = int(workspaces.watching.find_unhandled() is not None)
    before = describe_freshness(chosen, workspaces.config, now_s=clock.now_s())

    def describe() -> Freshness:
        after = measure_freshness(workspaces, chosen, clock)
        n_pending = max(n_unread, before.pending, after.pending)
        return replace_fields(after, pending=n_pending, generation=before.generation)

    return describe


def describe_sync(workspace: Workspace, done: SyncDone) -> SyncReport:
    return SyncReport(
        workspace=workspace.id,
        generation=done.generation,
        added=len(done.added),
        modified=len(done.modified),
        moved=len(done.moved),
        removed=len(done.removed),
        unchanged=done.n_unchanged,
        failed=[Failed(path=one.path, problem=one.problem) for one in done.failed],
        chunks=ChunkCounts(
            upserted=done.n_upserted,
            deleted=done.n_deleted,
            kept=done.n_kept,
            moved=done.n_shifted,
        ),
        duration_ms=round(done.duration_ms, 2),
    )


# --- metrics ------------------------------------------------------------------------------------


def _count_skipped_files(condition: Condition) -> int:
    codes = SKIPPED | UNREADABLE
    return len({problem.path for problem in condition.scan_problems if problem.code in codes})


def _describe_requests(method: str, count: MethodCounters) -> metrics.RequestMetrics:
    return metrics.RequestMetrics(
        method=method,
        answered=_describe_durations(count.answered),
        failed_total=dict(sorted(count.failed.items())),
        abandoned_total=count.n_abandoned,
    )


def _describe_durations(durations: DurationHistogram) -> metrics.Durations:
    p50_ms, p95_ms, p99_ms = (_to_ms(durations.quantile(share)) for share in (0.50, 0.95, 0.99))
    return metrics.Durations(
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
