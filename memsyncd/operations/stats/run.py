"""Counts sections by their metadata, and how often they were recalled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from memsyncd.config import Config
from memsyncd.core.guard.secrets import redact
from memsyncd.engine.accesses import count_accesses, expand_noted, follow_notes, store_noted
from memsyncd.engine.browse import READ_LIMIT_S, require_place
from memsyncd.engine.clock import Clock
from memsyncd.engine.metadata import NO_ACCESSES
from memsyncd.engine.plan import complete_filters
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.recovery import recover
from memsyncd.engine.redaction import must_redact
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound, StoreFailed
from memsyncd.operations.call import Call
from memsyncd.operations.fields import TrackedParams
from memsyncd.operations.revisions import parse_target
from memsyncd.operations.stats.declare import (
    GROUPS,
    AccessParams,
    AccessStats,
    AccessStatsParams,
    MemoryStats,
    RecordedAccesses,
    SectionAccesses,
    StatsParams,
    ValueCount,
)
from memsyncd.store.accesses import Recalls, SectionKey
from memsyncd.store.counts import META
from memsyncd.store.lookup import count_sections
from memsyncd.store.sections import read_anchors

# How long a job may wait for a reader of the index.
ACCESS_READ_S = 2.0


def compute_stats(
    workspace: Workspace,
    config: Config,
    params: StatsParams,
    *,
    now_s: float,
    accesses: Mapping[str, int],
) -> dict[str, Any]:
    """Count sections and notes; return the fields of `MemoryStats` that come from the index.

    Raises BadRequest for an unknown group.
    """
    for group in params.by:
        name, colon, key = group.partition(":")
        if not (key.strip() if colon and name == META else group in (*GROUPS, META)):
            hint = f"use one of {', '.join(GROUPS)}, {META} or {META}:KEY"
            raise BadRequest(f"sections are not counted by {group[:40]}", hint=hint)
    filters = complete_filters(params.filters, config, now_s, accesses)
    with workspace.acquire(READ_LIMIT_S) as reader:
        counted = count_sections(reader, filters, params.by, most=params.limit)
        show = redact if must_redact(reader, config) else str
    return {
        "sections": counted.n_sections,
        "notes": counted.n_notes,
        "bytes": counted.n_bytes,
        "counts": {
            group: [
                ValueCount(value=value and show(value), sections=n_sections, notes=n_notes)
                for value, n_sections, n_notes in counts
            ]
            for group, counts in counted.groups.items()
        },
    }


def find_unknown_anchors(workspace: Workspace, anchors: Iterable[str]) -> list[str]:
    """Return the anchors that name no section and no note of the index. May block."""
    unknown: list[str] = []
    with workspace.acquire(READ_LIMIT_S) as reader:
        by_path: dict[str, set[str]] = {}
        for anchor in anchors:
            path = anchor.rpartition("#")[0] if "#" in anchor else anchor
            present = by_path.setdefault(path, set(read_anchors(reader, path)))
            if not present or ("#" in anchor and anchor not in present):
                unknown.append(anchor)
    return unknown


def compute_access_stats(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    *,
    path: str | None,
    slugs: str | None,
    params: AccessStatsParams,
) -> Job[AccessStats]:
    """List the counts of a place, with the accesses that are noted but not stored yet. Raises
    StoreFailed, and NoteNotFound if there are no counts and no such section, note or folder.

    Accesses that cannot be stored now, as on a full disk, are counted all the same.
    """
    records = require_records(workspace, clock)
    waiting: Mapping[SectionKey, Recalls] = {}
    try:
        recover(workspace, clock)
        store_noted(workspace, config)
        yield from follow_notes(workspace)
    except StoreFailed:
        with workspace.accesses.lock:
            noted = dict(workspace.accesses.noted)
        waiting = expand_noted(workspace, noted)
    accesses, is_by_time = records.accesses, params.sort == "last"
    with accesses.supposing(waiting, max_sections=config.access.max_sections):
        counted = accesses.find(path=path, slugs=slugs, is_by_time=is_by_time, limit=params.limit)
        n_sections, n = accesses.total(path=path, slugs=slugs)
    if not n_sections and path is not None:
        require_place(workspace, path, slugs)
    with workspace.acquire(ACCESS_READ_S) as reader:
        paths = {section.path for section in counted}
        present = {each: set(read_anchors(reader, each)) for each in paths}
    return AccessStats(
        workspace=workspace.id,
        sections=n_sections,
        accesses=n,
        counts=[
            SectionAccesses(
                anchor=anchor,
                count=section.count,
                sessions=section.n_sessions,
                last_at=section.last_at_s,
                is_indexed=anchor in present[section.path],
            )
            for section in counted
            if (anchor := f"{section.path}#{section.slugs}")
        ],
    )


# --- the operations -----------------------------------------------------------------------------


async def count(call: Call, params: StatsParams) -> MemoryStats:
    workspace = await call.open()

    def read() -> dict[str, Any]:
        # Only the tier of a section depends on its accesses.
        accesses = count_accesses(workspace) if params.filters.tier else NO_ACCESSES
        return compute_stats(workspace, call.config, params, now_s=call.now_s, accesses=accesses)

    read_freshness = call.watch_freshness()
    counts = await call.read(read)
    return MemoryStats(workspace=workspace.id, freshness=read_freshness(), **counts)


async def list_accesses(call: Call, params: AccessStatsParams) -> AccessStats:
    target = parse_target(params, call.workspace.scope.memory_dir)
    job = partial(compute_access_stats, path=target.path, slugs=target.heading, params=params)
    return await call.run_job(job)


async def record_accesses(call: Call, params: AccessParams) -> RecordedAccesses:
    workspace = await call.open()
    anchors = list(dict.fromkeys(params.anchors))
    unknown = await call.read(partial(find_unknown_anchors, workspace, anchors))
    if len(unknown) == len(anchors):
        raise NoteNotFound(
            f"there is no section {anchors[0]}", hint="list the sections: memsyncd list"
        )
    counted = [anchor for anchor in anchors if anchor not in unknown]
    # No session is named, because a session counts once and each call is to count.
    call.note_accesses(counted, TrackedParams())
    return RecordedAccesses(workspace=workspace.id, sections=len(counted), unknown=unknown)
