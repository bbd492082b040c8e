"""How is a workspace's index opened, rebuilt, tidied and given up?

Jobs for the lane. An index that will not do is rebuilt in a file beside it while the old one, if it opens, goes on answering,
and swapped in by a rename. What a person deleted or replaced is rebuilt at once; damage that comes back while running, at most
once in ten minutes; a full disk is waited for and never a reason to rebuild.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from memsyncd.engine.lane import Steps
from memsyncd.engine.opening import open_records, tell_logs
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.recovery import recover
from memsyncd.engine.sync import RECORDS_FAULT, SyncDone, SyncRequest, sync_workspace
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import IndexUnfit, MemsyncdError, NotFresh, StoreCorrupt, StoreFailed, WorkspaceNotFound
from memsyncd.logs import get_log
from memsyncd.store.index import Index, remove_index, replace_index
from memsyncd.store.pool import ConnectionPool
from memsyncd.store.schema import compute_fingerprint

DAMAGE_REBUILD_INTERVAL_S = 600.0
INDEX_FAULT = "index"
log = get_log("engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What opening found: nothing (`is_new`), or something that will not do (`rebuild_reason`)."""

    is_new: bool = False
    rebuild_reason: str = ""


def fingerprint_of(policy: SyncPolicy) -> str:
    return compute_fingerprint(f"{policy.chunking} {policy.guard}")


def open_workspace(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Steps[Opened]:
    """Open both databases, unless they are. Records that cannot be are a fault, an index that cannot be a reason to rebuild."""
    check_wanted(workspace)
    open_records(workspace, clock)
    recovered = _recover(workspace, clock)
    yield
    if workspace.index is not None:
        workspace.open_failure = None
        return Opened()
    try:
        remove_index(find_aside(workspace))
        index = Index(workspace.index_path, fingerprint_of(policy))
    except (IndexUnfit, StoreCorrupt) as failure:
        # Whatever the old file can still answer, it answers until the new one is swapped in.
        workspace.old_readers = ConnectionPool(str(workspace.index_path))
        workspace.open_failure = None
        return Opened(rebuild_reason=failure.message)
    except StoreFailed as failure:
        workspace.open_failure, workspace.open_failed_s = failure, clock.now_s()
        raise
    if recovered and not index.is_new:
        yield from _sync_recovered(workspace, policy, clock, index, recovered)
    workspace.index, workspace.open_failure = index, None
    workspace.set_fault(INDEX_FAULT, "")
    workspace.change(generation=index.generation, counts=index.counts, index_bytes=index.size_bytes())
    return Opened(is_new=index.is_new)


def _recover(workspace: Workspace, clock: Clock) -> frozenset[str]:
    """Finish what was interrupted, before anybody is answered from its half."""
    try:
        return recover(workspace, clock)
    except StoreFailed as failure:
        workspace.set_fault(RECORDS_FAULT, f"records.db: {failure.message}")
        return frozenset()


def _sync_recovered(
    workspace: Workspace, policy: SyncPolicy, clock: Clock, index: Index, recovered: frozenset[str]
) -> Steps[None]:
    """Sync these notes before anybody can read the index. What fails is left to the first full sync."""
    try:
        with contextlib.suppress(MemsyncdError):
            yield from sync_workspace(workspace, policy, clock, SyncRequest(only=recovered, index=index))
    except BaseException:
        index.close()
        raise


def rebuild_index(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Steps[SyncDone]:
    """Index the whole disk into a new file beside the old one and swap it in. On failure the old one, if open, stays."""
    check_wanted(workspace)
    aside = find_aside(workspace)
    remove_index(aside)
    generation = max(workspace.condition.generation, workspace.index.generation if workspace.index else 0)
    fresh = Index(aside, fingerprint_of(policy), generation=generation + 1)
    workspace.change(is_indexing=True)
    try:
        done = yield from sync_workspace(workspace, policy, clock, SyncRequest(is_full=True, index=fresh))
        if done.root_state != "present":
            raise NotFresh(
                "the workspace's folder is missing: its index is kept", hint="bring the folder back, or remove the workspace"
            )
        while fresh.tidy():
            yield
    except BaseException:
        fresh.close()
        remove_index(aside)
        raise
    fresh.close()
    old, old_readers = workspace.index, workspace.old_readers
    # The old file's connections go on with what they have open, and SQLite, seeing it moved, leaves the new one's WAL alone.
    with contextlib.ExitStack() as ends:
        for readers in (old.pool if old is not None else None, old_readers):
            if readers is not None:
                ends.enter_context(readers.pausing_opens())
        replace_index(workspace.index_path, aside)
    workspace.index = index = Index(workspace.index_path, fingerprint_of(policy))
    workspace.old_readers = workspace.open_failure = None
    for one in (old, old_readers):
        if one is not None:
            one.close()
    workspace.changes.clear()
    # The sync looked at the old file too, and what was wrong with that is over.
    done.generation, done.index_trouble, done.is_rebuild = index.generation, "", True
    workspace.set_fault(INDEX_FAULT, "")
    workspace.change(
        generation=index.generation,
        counts=index.counts,
        index_bytes=index.size_bytes(),
        n_rebuilds=workspace.condition.n_rebuilds + 1,
    )
    return done


def build_index(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Steps[SyncDone]:
    """As `rebuild_index` where no index is open; if a sync has made one while this waited its turn, another is enough."""
    if workspace.index is None:
        return (yield from rebuild_index(workspace, policy, clock))
    return (yield from sync_workspace(workspace, policy, clock, SyncRequest()))


def find_aside(workspace: Workspace) -> Path:
    """The file that a rebuild fills. One that is there when nothing is rebuilt is what a crash has left."""
    return workspace.index_path.with_name("index.db.new")


def update_index(workspace: Workspace, policy: SyncPolicy, clock: Clock, request: SyncRequest) -> Steps[SyncDone]:
    """Sync. While there is no open index to write, because none would do and none could be made, that is tried first."""
    if workspace.index is not None:
        open_records(workspace, clock)
        if request.only is None:
            workspace.index.pool.close_idle()
        done = yield from sync_workspace(workspace, policy, clock, request)
        tell_logs(workspace)
        return done
    opened = yield from open_workspace(workspace, policy, clock)
    has_new_folders = False
    if opened.rebuild_reason:
        has_new_folders = (yield from rebuild_index(workspace, policy, clock)).has_new_folders
    done = yield from sync_workspace(workspace, policy, clock, request)
    done.has_new_folders = done.has_new_folders or has_new_folders
    return done


def tidy_workspace(workspace: Workspace) -> Steps[bool]:
    """Merge and empty the WAL in short steps, so that deleted text leaves the files. False if a query that ran kept it there."""
    while workspace.index is not None and workspace.index.tidy():
        yield
    is_tidy = _tidy_records(workspace)
    if workspace.index is not None:
        workspace.change(index_bytes=workspace.index.size_bytes())
        is_tidy = is_tidy and workspace.index.is_tidy
    tell_logs(workspace)
    return is_tidy


def _tidy_records(workspace: Workspace) -> bool:
    # That they cannot be written is found out, and said, by whoever writes to them.
    with contextlib.suppress(StoreFailed):
        return workspace.records is None or workspace.records.tidy()
    return True


def close_workspace(workspace: Workspace) -> Steps[None]:
    """Close both databases for good. Jobs of this workspace that still come fail with WorkspaceNotFound."""
    workspace.is_over = True
    # At once, for the next job may be of the workspace that this one's folder has become.
    workspace.close()
    yield from ()


def may_rebuild(workspace: Workspace, failure: MemsyncdError, now_s: float) -> bool:
    """True if `failure` asks for a rebuild and damage has not been healed within the last ten minutes; notes that it will be."""
    if not isinstance(failure, (StoreCorrupt, IndexUnfit)):
        return False
    last_s = workspace.rebuilt_after_damage_s
    if last_s is not None and now_s - last_s < DAMAGE_REBUILD_INTERVAL_S:
        return False
    workspace.rebuilt_after_damage_s = now_s
    return True


def check_wanted(workspace: Workspace) -> None:
    """Raise WorkspaceNotFound if it was closed for good."""
    if workspace.is_over:
        raise WorkspaceNotFound("the workspace has been removed", hint="add it again: memsyncd add PATH")
