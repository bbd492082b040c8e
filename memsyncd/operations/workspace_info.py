"""Choose workspaces by their names, and describe the freshness of workspaces, and collections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from msgspec.structs import replace as replace_fields

from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import ProjectCollection
from memsyncd.engine.workspace import Workspace, read_freshness
from memsyncd.engine.workspaces import Workspaces
from memsyncd.operations.fields import Freshness
from memsyncd.operations.workspaces.declare import CollectionInfo

ALL_WORKSPACES = "*"
WORST_FIRST = ("stalled", "missing", "degraded", "indexing")


def choose_workspaces(workspaces: Workspaces, name: str | None) -> list[Workspace]:
    """Return the workspace with this name, or all if it is None. Raises WorkspaceNotFound."""
    return workspaces.sorted() if name is None else [workspaces.find(name)]


def choose_named(workspaces: Workspaces, names: str | list[str] | None) -> list[Workspace]:
    """Return the workspaces with these names, each once. `*` names all workspaces except linked
    worktrees, because their notes are mostly copies. Raises WorkspaceNotFound.
    """
    if names == ALL_WORKSPACES:
        return [workspace for workspace in workspaces.sorted() if not workspace.entry.main]
    if not isinstance(names, list):
        return [workspaces.find(names)]
    chosen = [workspace for name in names for workspace in choose_named(workspaces, name)]
    return list({workspace.id: workspace for workspace in chosen}.values())


def describe_collections(workspaces: Workspaces) -> list[CollectionInfo]:
    """Describe all collections, by name."""
    collections = sorted(workspaces.collections.values(), key=attrgetter("entry.name"))
    return [describe_collection(collection, workspaces) for collection in collections]


def describe_collection(collection: ProjectCollection, workspaces: Workspaces) -> CollectionInfo:
    entry = collection.entry
    members = [each for each in workspaces.sorted() if each.entry.collection == entry.id]
    return CollectionInfo(
        id=entry.id,
        name=entry.name,
        root=entry.root,
        preset="claude-code",
        exclude=list(entry.exclude),
        source=entry.source,
        is_missing=collection.is_missing,
        workspaces=[workspace.id for workspace in members],
    )


def describe_freshness(
    workspaces: Sequence[Workspace], config: Config, *, now_s: float
) -> Freshness:
    """Combine the freshness of workspaces: the worst state, the oldest scan, the highest
    generation.

    `now_s` is a time of the monotonic clock.
    """
    conditions = [workspace.condition for workspace in workspaces]
    scans = [condition.synced_at_s for condition in conditions]
    parts = [read_freshness(workspace, config, now_s=now_s) for workspace in workspaces]
    states = {part.state for part in parts}
    reasons = dict.fromkeys(reason for part in parts for reason in part.reasons)
    is_scanned = bool(scans) and None not in scans
    return Freshness(
        generation=max((condition.generation for condition in conditions), default=0),
        pending=sum(part.pending for part in parts),
        unrecorded=sum(condition.n_unrecorded for condition in conditions),
        synced_at=min(scan for scan in scans if scan is not None) if is_scanned else None,
        state=next((state for state in WORST_FIRST if state in states), "ready"),
        reason="; ".join(reasons) or None,
    )


def measure_freshness(
    workspaces: Workspaces, chosen: Sequence[Workspace], clock: Clock
) -> Freshness:
    """Return the freshness of these workspaces, and check that the file of each index exists."""
    for workspace in chosen:
        workspaces.scheduler.check_read(workspace)
    return describe_freshness(chosen, workspaces.config, now_s=clock.now_s())


def watch_freshness(
    workspaces: Workspaces, chosen: Sequence[Workspace], clock: Clock
) -> Callable[[], Freshness]:
    """Return a function to call after a read that begins now: it returns the freshness of the read.

    Changes that are pending now, including unread events, may be indexed during the read without
    being in its result. So they count as pending, and the generation is the one of now, which the
    read surely has.
    """
    n_unread = int(workspaces.watching.find_unhandled() is not None)
    before = describe_freshness(chosen, workspaces.config, now_s=clock.now_s())

    def describe() -> Freshness:
        after = measure_freshness(workspaces, chosen, clock)
        n_pending = max(n_unread, before.pending, after.pending)
        return replace_fields(after, pending=n_pending, generation=before.generation)

    return describe
