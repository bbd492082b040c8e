"""How do the engine's values read on the wire? Field by field: what goes out is decided here and
nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

from memsyncd.core.model import Problem
from memsyncd.engine import recall
from memsyncd.engine.browse import PlaceRead
from memsyncd.engine.findings import describe_recording
from memsyncd.engine.policies import SyncPolicy
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workspace import Condition, Freshness, Workspace, read_freshness
from memsyncd.protocol import fields, operations
from memsyncd.protocol import search as search_protocol
from memsyncd.store.lookup import StoredNote, StoredSection
from memsyncd.watch.health import WatchHealth

WORST_FIRST = ("stalled", "missing", "degraded", "indexing")


def to_info(workspace: Workspace) -> operations.WorkspaceInfo:
    entry = workspace.entry
    return operations.WorkspaceInfo(
        id=entry.id,
        name=entry.name,
        root=entry.root,
        include=list(entry.include),
        exclude=list(entry.exclude),
        source=entry.source,
        has_memory=bool(workspace.has_memory),
    )


def to_workspace_status(
    workspace: Workspace, health: WatchHealth, fresh: Freshness
) -> operations.WorkspaceStatus:
    condition, entry = workspace.condition, workspace.entry
    reasons = _find_reasons(condition)
    return operations.WorkspaceStatus(
        id=entry.id,
        name=entry.name,
        root=entry.root,
        state=fresh.state,
        reasons=[*reasons, fresh.overdue] if fresh.overdue else reasons,
        watcher=health.mode if health.mode != "events" else health.observer,
        generation=condition.generation,
        files=condition.counts.files,
        sections=condition.counts.sections,
        chunks=condition.counts.chunks,
        pending=fresh.pending,
        unrecorded=condition.n_unrecorded,
        last_sync_at=condition.synced_at_s,
        problems=condition.n_problems,
        index_bytes=condition.index_bytes,
        index_wal_bytes=condition.index_wal_bytes,
        records_wal_bytes=condition.records_wal_bytes,
        missed_events=condition.n_missed_events,
        failed_syncs=condition.n_failed_syncs,
    )


def _find_reasons(condition: Condition) -> list[str]:
    said = [
        text for said in (condition.faults, condition.notices) for _, text in sorted(said.items())
    ]
    return [*said, *filter(None, [describe_recording(condition)])]


def to_freshness_of(
    workspaces: Sequence[Workspace], policy: SyncPolicy, *, now_s: float
) -> fields.Freshness:
    """How fresh an answer from these workspaces is: the state of the least ready, the oldest look,
    the latest generation.
    """
    conditions = [workspace.condition for workspace in workspaces]
    looks = [condition.synced_at_s for condition in conditions]
    fresh = [read_freshness(workspace, policy, now_s=now_s) for workspace in workspaces]
    states = {one.state for one in fresh}
    reasons = [reason for one in fresh for reason in (one.stall, one.overdue) if reason]
    return fields.Freshness(
        generation=max((condition.generation for condition in conditions), default=0),
        pending=sum(one.pending for one in fresh),
        unrecorded=sum(condition.n_unrecorded for condition in conditions),
        synced_at=None
        if not looks or None in looks
        else min(look for look in looks if look is not None),
        state=next((state for state in WORST_FIRST if state in states), "ready"),
        reason="; ".join(reasons) or None,
    )


def to_report(workspace: Workspace, done: SyncDone) -> operations.SyncReport:
    return operations.SyncReport(
        workspace=workspace.id,
        generation=done.generation,
        added=len(done.added),
        modified=len(done.modified),
        moved=len(done.moved),
        removed=len(done.removed),
        unchanged=done.n_unchanged,
        failed=[
            operations.Failed(path=problem.path, problem=problem.problem) for problem in done.failed
        ],
        chunks=operations.ChunkCounts(
            upserted=done.n_upserted, deleted=done.n_deleted, kept=done.n_kept, moved=done.n_shifted
        ),
        duration_ms=round(done.duration_ms, 2),
    )


def to_hit(hit: recall.Hit, *, is_explained: bool) -> search_protocol.Hit:
    section = hit.section
    return search_protocol.Hit(
        workspace=hit.workspace.id,
        anchor=section.anchor,
        path=hit.path,
        start_line=hit.span.start,
        end_line=hit.span.end,
        heading=list(section.heading),
        snippet=hit.snippet,
        score=hit.score,
        kind=section.kind,
        tags=list(section.tags),
        importance=section.importance,
        digest=section.digest,
        matched=list(hit.matched),
        explain=hit.parts if is_explained else None,
    )


def to_got(workspace: Workspace, read: PlaceRead) -> search_protocol.Got:
    section = read.section
    return search_protocol.Got(
        workspace=workspace.id,
        anchor=section.anchor if section else None,
        path=read.path,
        start_line=read.span.start,
        end_line=read.span.end,
        text=read.text,
        digest=read.digest,
        heading=list(section.heading) if section else [],
        kind=section.kind if section else None,
        tags=list(section.tags) if section else [],
        importance=section.importance if section else None,
        n_lines=read.n_lines,
    )


def to_note_info(note: StoredNote) -> search_protocol.NoteInfo:
    return search_protocol.NoteInfo(
        path=note.path,
        title=note.title,
        digest=note.digest,
        size_bytes=note.size_bytes,
        modified_at=note.mtime_ns / 1e9,
        n_lines=note.n_lines,
        kind=note.kind,
        tags=list(note.tags),
        sections=[_to_section_info(section) for section in note.sections],
    )


def to_problem_info(workspace: Workspace, problem: Problem) -> search_protocol.ProblemInfo:
    return search_protocol.ProblemInfo(
        workspace=workspace.id,
        path=problem.path,
        line=problem.line,
        code=problem.code,
        problem=problem.problem,
        hint=problem.hint,
    )


def _to_section_info(section: StoredSection) -> search_protocol.SectionInfo:
    return search_protocol.SectionInfo(
        anchor=section.anchor,
        heading=list(section.heading),
        level=section.level,
        start_line=section.span.start,
        end_line=section.span.end,
        kind=section.kind,
        tags=list(section.tags),
        importance=section.importance,
        status=section.status,
    )
