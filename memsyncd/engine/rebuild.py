"""Open, rebuild, tidy and close a workspace's index, and decide when a failure needs a rebuild.

An unusable index is rebuilt in a file beside it, which replaces it by a rename; meanwhile the old
one, if it opens, answers queries. An index that was deleted, replaced or made by another version
is rebuilt at once; a damaged one at most once in ten minutes. A full disk never causes a rebuild.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.index_process import BULK_BYTES, fill_index
from memsyncd.engine.index_worker import Filled, FillProgress
from memsyncd.engine.records import open_records, report_wal_sizes
from memsyncd.engine.recovery import recover
from memsyncd.engine.sync import RECORDS_FAULT, SyncDone, SyncRequest, sync_workspace
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace, index_fingerprint
from memsyncd.errors import (
    IndexUnfit,
    MemsyncdError,
    NotFresh,
    StoreCorrupt,
    StoreFailed,
    StoreFull,
)
from memsyncd.logs import Event, get_log
from memsyncd.store.connection import check_room
from memsyncd.store.index import Counts, Index, read_counts, remove_index, replace_index
from memsyncd.store.integrity import read_generation, read_text_bytes
from memsyncd.store.pool import ConnectionPool
from memsyncd.store.records import Records

DAMAGE_REBUILD_INTERVAL_S = 600.0
READ_S = 1.0
SYNC_FAULT, FULL_FAULT, INDEX_FAULT = "sync", "disk_full", "index"
# Faults after which more may be out of date than the paths announced since.
INCOMPLETE = frozenset({SYNC_FAULT, FULL_FAULT, INDEX_FAULT})
AGAIN = "again within ten minutes: it is rebuilt when they are over, or now with: memsyncd reindex"

log = get_log("engine")


# --- opening and closing ---


def open_workspace(
    workspace: Workspace, config: Config, clock: Clock, count_open: Callable[[], int] = lambda: 0
) -> Job[str]:
    """Open both databases, unless they are open. `count_open` returns how many other workspaces
    have open files.

    Records that do not open are a fault; an index that does not open must be rebuilt: returns why.
    """
    if not workspace.holds_files:
        try:
            check_room(count_open())
        except StoreFailed as failure:
            workspace.open_failure, workspace.open_failed_s = failure, clock.now_s()
            raise
        workspace.holds_files = True
    open_records(workspace, clock)
    recovered = _recover(workspace, clock)
    yield
    if workspace.index is not None:
        workspace.open_failure = None
        return ""
    try:
        remove_index(rebuild_path(workspace))
        index = _open_index(workspace.index_path, config)
    except (IndexUnfit, StoreCorrupt) as failure:
        # The old file answers the queries it can until the new one replaces it.
        workspace.close_old_readers()
        workspace.old_readers = old = ConnectionPool(str(workspace.index_path))
        workspace.open_failure = None
        generation, counts = _read_old(old)
        workspace.change(
            generation=max(workspace.condition.generation, generation),
            counts=counts or workspace.condition.counts,
        )
        return failure.message
    except StoreFailed as failure:
        workspace.open_failure, workspace.open_failed_s = failure, clock.now_s()
        raise
    if recovered and not index.is_new:
        yield from _sync_recovered(workspace, config, clock, index, recovered)
    workspace.put_index(index)
    workspace.set_fault(INDEX_FAULT, "")
    return ""


def _open_index(
    path: Path, config: Config, *, generation: int = 0, is_sound: bool = False
) -> Index:
    """Open an index, or create it, with the settings on which its rows depend."""
    fingerprint = index_fingerprint(config)
    kinds = config.kinds
    return Index(path, fingerprint, kinds=kinds, generation=generation, is_sound=is_sound)


def _read_old(readers: ConnectionPool) -> tuple[int, Counts | None]:
    """Return the generation and the counts of an index that is rebuilt; 0 and None if unknown. The
    counts make its scores comparable with other workspaces' scores.

    The new index continues from the generation: a client may have kept it to ask what has changed
    since.
    """
    generation, counts = 0, None
    unreadable = contextlib.suppress(MemsyncdError, LookupError, ValueError)
    with unreadable, readers.acquire(READ_S) as reader:
        generation = read_generation(reader)
        counts = read_counts(reader)
    return generation, counts


def _recover(workspace: Workspace, clock: Clock) -> frozenset[str]:
    """Finish interrupted edits before queries can see half of one; return the changed paths."""
    try:
        return recover(workspace, clock)
    except StoreFailed as failure:
        workspace.set_fault(RECORDS_FAULT, f"records.db: {failure.message}")
        return frozenset()


def _sync_recovered(
    workspace: Workspace, config: Config, clock: Clock, index: Index, recovered: frozenset[str]
) -> Job[None]:
    """Sync these notes before queries read the index; the first full sync makes up a failure."""
    try:
        with contextlib.suppress(MemsyncdError):
            request = SyncRequest(only=recovered, index=index)
            yield from sync_workspace(workspace, config, clock, request)
    except BaseException:
        index.close()
        raise


def close_workspace(workspace: Workspace) -> Job[None]:
    """Close both databases for good; later jobs of the workspace fail with WorkspaceNotFound."""
    workspace.is_closed = True
    # In the first step: the next job may belong to the workspace that has the same folder now.
    workspace.close()
    yield from ()


def require_records(workspace: Workspace, clock: Clock) -> Records:
    """Open the records. Raises StoreFailed if that fails, and what `open_records` raises."""
    open_records(workspace, clock)
    if workspace.records is None:
        hint = "see what is wrong with: memsyncd status"
        raise StoreFailed("records.db cannot be opened", hint=hint)
    return workspace.records


# --- rebuilding ---


def rebuild_path(workspace: Workspace) -> Path:
    """The file that a rebuild fills. Outside of a rebuild it can only be left by a crash."""
    return workspace.index_path.with_name("index.db.new")


def rebuild_index(
    workspace: Workspace, config: Config, clock: Clock, filled: Filled | None = None
) -> Job[SyncDone]:
    """Index the whole disk into a new file and replace the old one by it.

    If `fill_new_index` has filled that file, only later changes are indexed. On failure the old
    index, if open, is kept.
    """
    workspace.check_open()
    workspace.change(is_indexing=True)
    done = yield from _complete_new_index(workspace, config, clock, filled)
    index = _replace_index(workspace, config)
    # The sync also checked the old file, whose damage is over now.
    done.generation, done.index_fault, done.is_rebuild = index.generation, "", True
    workspace.set_fault(INDEX_FAULT, "")
    workspace.change(n_rebuilds=workspace.condition.n_rebuilds + 1)
    return done


def fill_new_index(workspace: Workspace, config: Config) -> Job[Filled | None]:
    """Have a process index the whole disk into the file at `rebuild_path`.

    Other jobs of the workspace may run meanwhile. Returns None if that is not possible, or not
    worth it.
    """
    workspace.check_open()
    if _read_text_bytes(workspace) <= BULK_BYTES:
        return None
    remove_index(rebuild_path(workspace))
    return (yield from _fill_new_file(workspace, config))


def _read_text_bytes(workspace: Workspace) -> int:
    """The size of the indexed notes; 0 if the index, which may be damaged, cannot tell."""
    with contextlib.suppress(MemsyncdError), workspace.acquire(READ_S) as reader:
        return read_text_bytes(reader)
    return 0


def _fill_new_file(workspace: Workspace, config: Config) -> Job[Filled | None]:
    path = rebuild_path(workspace)
    try:
        generation = _next_generation(workspace)
        return (yield from fill_index(workspace, config, path, _ignore, generation=generation))
    except BaseException:
        remove_index(path)
        raise


def _ignore(_progress: FillProgress) -> None:
    """The condition describes the index that answers."""


def _next_generation(workspace: Workspace) -> int:
    old_generation = workspace.index.generation if workspace.index else 0
    return max(workspace.condition.generation, old_generation) + 1


def _complete_new_index(
    workspace: Workspace, config: Config, clock: Clock, filled: Filled | None
) -> Job[SyncDone]:
    """Index the notes that the file at `rebuild_path` does not have yet; remove the file on
    failure.
    """
    path = rebuild_path(workspace)
    if filled is None:
        remove_index(path)
    done = yield from _sync_new_index(workspace, config, clock, has_process=filled is None)
    if done.is_bulk:
        filled = yield from _fill_new_file(workspace, config)
        done = yield from _sync_new_index(workspace, config, clock, has_process=False)
    if filled is not None:
        include_filled(done, filled)
    return done


def _sync_new_index(
    workspace: Workspace, config: Config, clock: Clock, *, has_process: bool
) -> Job[SyncDone]:
    path, generation = rebuild_path(workspace), _next_generation(workspace)
    fresh = Index(
        path, index_fingerprint(config), kinds=config.kinds, generation=generation, is_sound=True
    )
    try:
        bulk_bytes = BULK_BYTES if has_process else None
        request = SyncRequest(index=fresh, bulk_bytes=bulk_bytes)
        done = yield from sync_workspace(workspace, config, clock, request)
        if done.root_state != "present":
            raise NotFresh(
                "the workspace's folder is missing: its index is kept",
                hint="bring the folder back, or remove the workspace",
            )
        while not done.is_bulk and fresh.tidy():
            yield
    except BaseException:
        fresh.close()
        remove_index(path)
        raise
    fresh.close()
    return done


def _replace_index(workspace: Workspace, config: Config) -> Index:
    """Move the filled index to its place and open it."""
    old, old_readers = workspace.index, workspace.old_readers
    # Connections keep the old file open. SQLite sees that it moved and leaves the new WAL alone.
    with contextlib.ExitStack() as ends:
        for readers in (old.pool if old is not None else None, old_readers):
            if readers is not None:
                ends.enter_context(readers.pausing_opens())
        replace_index(workspace.index_path, rebuild_path(workspace))
    index = Index(
        workspace.index_path, index_fingerprint(config), kinds=config.kinds, is_sound=True
    )
    workspace.put_index(index)
    if old is not None:
        old.close()
    workspace.changes.clear()
    return index


def build_index(workspace: Workspace, config: Config, clock: Clock) -> Job[SyncDone]:
    """Rebuild the index if none is open; otherwise sync, because an earlier job has made one."""
    if workspace.index is None:
        return (yield from rebuild_index(workspace, config, clock))
    return (yield from sync_workspace(workspace, config, clock, SyncRequest()))


def update_index(
    workspace: Workspace, config: Config, clock: Clock, request: SyncRequest
) -> Job[SyncDone]:
    """Sync; the caller has opened the records. Without an open index, open or rebuild one first."""
    if workspace.index is not None:
        if request.only is None and request.releases_memory:
            workspace.index.pool.release_idle()
        return (yield from _sync(workspace, config, clock, request))
    workspace.check_files()
    rebuild_reason = yield from open_workspace(workspace, config, clock)
    has_new_folders = False
    if rebuild_reason:
        rebuilt = yield from rebuild_index(workspace, config, clock)
        has_new_folders = rebuilt.has_new_folders
    done = yield from _sync(workspace, config, clock, request)
    done.has_new_folders = done.has_new_folders or has_new_folders
    return done


def _sync(
    workspace: Workspace, config: Config, clock: Clock, request: SyncRequest
) -> Job[SyncDone]:
    """Sync; many new notes are indexed by a process first."""
    done = yield from sync_workspace(workspace, config, clock, request)
    if not done.is_bulk:
        return done
    filled = yield from _fill_open_index(workspace, config)
    request = replace(request, bulk_bytes=None)
    done = yield from sync_workspace(workspace, config, clock, request)
    if filled is not None:
        include_filled(done, filled)
    return done


def _fill_open_index(workspace: Workspace, config: Config) -> Job[Filled | None]:
    """Close the open index, which queries go on to read, while a process fills it."""
    index = workspace.index
    if index is None:
        raise AssertionError("the index is open")
    workspace.old_readers = ConnectionPool(str(workspace.index_path))
    workspace.index = None
    index.close()

    def report(progress: FillProgress) -> None:
        # Notes that are still to be read count as pending if the process fails, too.
        workspace.change(
            pending=progress.pending,
            generation=progress.generation,
            counts=progress.counts,
            index_bytes=progress.index_bytes,
        )

    try:
        filled = yield from fill_index(
            workspace, config, workspace.index_path, report, generation=index.generation
        )
    except StoreFailed:
        _open_filled(workspace, config, is_sound=index.is_new)
        raise
    _open_filled(workspace, config, is_sound=index.is_new)
    return filled


def _open_filled(workspace: Workspace, config: Config, *, is_sound: bool) -> None:
    """Open the index that a process has filled, and that queries read."""
    index = Index(
        workspace.index_path, index_fingerprint(config), kinds=config.kinds, is_sound=is_sound
    )
    workspace.put_index(index)
    # Which of its changes came with which generation is not known.
    workspace.changes.clear()


def include_filled(done: SyncDone, filled: Filled) -> None:
    """Add the notes that a process has indexed before the sync."""
    done.added = [*filled.added, *done.added]
    done.modified = [*filled.modified, *done.modified]
    done.moved = [*filled.moved, *done.moved]
    done.n_unchanged = max(0, done.n_unchanged - len(filled.added) - len(filled.modified))
    moved = itertools.chain.from_iterable(filled.moved)
    done.paths = [*filled.added, *filled.modified, *moved, *done.paths]
    done.n_upserted += filled.n_upserted
    done.n_deleted += filled.n_deleted
    done.duration_ms += filled.duration_ms


def tidy_workspace(
    workspace: Workspace, is_awaited: Callable[[], bool] = lambda: False
) -> Job[bool | None]:
    """Merge in short steps, and truncate WALs that are large or hold text that must leave the
    files.

    Returns False if a running query prevented it, None if steps are left and `is_awaited()` is
    true, because other jobs of the workspace wait.
    """
    while workspace.index is not None and workspace.index.tidy():
        if is_awaited():
            return None
        yield
    is_tidy = True
    # The next write to the records meets the same failure and reports it.
    with contextlib.suppress(StoreFailed):
        is_tidy = workspace.records is None or workspace.records.tidy()
    if workspace.index is not None:
        workspace.change(index_bytes=workspace.index.size_bytes())
        is_tidy = is_tidy and workspace.index.is_tidy
    report_wal_sizes(workspace)
    return is_tidy


# --- deciding ---


def may_rebuild(workspace: Workspace, failure: MemsyncdError, now_s: float) -> bool:
    """True if `failure` calls for a rebuild and damage caused none in the last ten minutes.

    Notes the time of the rebuild that the caller must begin then.
    """
    if not isinstance(failure, (StoreCorrupt, IndexUnfit)):
        return False
    last_s = workspace.rebuilt_after_damage_s
    if last_s is not None and now_s - last_s < DAMAGE_REBUILD_INTERVAL_S:
        return False
    workspace.rebuilt_after_damage_s = now_s
    return True


class RebuildPolicy:
    """Turns the failures of jobs into faults, and begins rebuilds with `rebuild(workspace)`.

    A full disk or an unexpected failure is a fault until a full scan succeeds. Damage within ten
    minutes of the last rebuild is a fault until a retry repairs it. Runs on the event loop.
    """

    def __init__(self, clock: Clock, rebuild: Callable[[Workspace], Future[SyncDone]]) -> None:
        self._clock = clock
        self._rebuild = rebuild
        self._damage: dict[str, MemsyncdError] = {}
        self._failed_at_s: dict[str, float] = {}
        self._rebuilds: dict[str, Future[SyncDone]] = {}

    def forget(self, workspace: Workspace) -> None:
        self._damage.pop(workspace.id, None)
        self._failed_at_s.pop(workspace.id, None)
        self._rebuilds.pop(workspace.id, None)

    def on_failure(self, workspace: Workspace, failure: BaseException, at_s: float) -> None:
        """Handle a job's failure at `at_s`; the next full scan retries what this does not begin."""
        self._failed_at_s[workspace.id] = at_s
        if isinstance(failure, StoreFull):
            # Every scan and save fails until there is space: one line, not one for each.
            if FULL_FAULT not in workspace.condition.faults:
                log.error(Event.STORE_FULL, workspace=workspace.id, reason=failure.message)
            workspace.set_fault(FULL_FAULT, f"{failure.message}: {failure.hint}")
        elif isinstance(failure, (StoreCorrupt, IndexUnfit)):
            self.repair(workspace, failure)
        else:
            is_known = isinstance(failure, MemsyncdError)
            name = failure.message if isinstance(failure, MemsyncdError) else _describe(failure)
            text = f"the last sync failed: {name}"
            is_new = workspace.condition.faults.get(SYNC_FAULT) != text
            workspace.set_fault(SYNC_FAULT, text)
            # A known failure is understood without a traceback, and when it is said once.
            trace = None if is_known else failure
            if is_new or trace:
                log.error(Event.SYNC_FAILED, workspace=workspace.id, reason=name, exc_info=trace)

    def on_success(self, workspace: Workspace, began_s: float) -> None:
        """A full scan that began at `began_s` succeeded: clear the faults older than it."""
        if began_s < self._failed_at_s.get(workspace.id, began_s):
            return
        for fault in (SYNC_FAULT, FULL_FAULT):
            workspace.set_fault(fault, "")

    def replace(self, workspace: Workspace, reason: str) -> None:
        """Rebuild an index that was deleted, replaced, tampered with or made by another version."""
        log.warning(Event.INDEX_CORRUPT, workspace=workspace.id, reason=reason)
        self._begin(workspace, reason)

    def repair(self, workspace: Workspace, damage: MemsyncdError) -> None:
        """Rebuild a damaged index, or set a fault if the last rebuild is too recent."""
        self._damage[workspace.id] = damage
        fault = workspace.condition.faults.get(INDEX_FAULT, "")
        if may_rebuild(workspace, damage, self._clock.now_s()):
            log.error(Event.INDEX_CORRUPT, workspace=workspace.id, reason=damage.message)
            self._begin(workspace, damage.message)
        elif not self._is_rebuilding(workspace) and AGAIN not in fault:
            reason = f"{damage.message}, {AGAIN}"
            workspace.set_fault(INDEX_FAULT, reason)
            log.error(Event.INDEX_CORRUPT, workspace=workspace.id, reason=reason)

    def retry(self, workspace: Workspace) -> None:
        """Repair an index that is still damaged, if enough time has passed."""
        is_idle = not self._is_rebuilding(workspace)
        is_damaged = INDEX_FAULT in workspace.condition.faults and is_idle
        if is_damaged and workspace.id in self._damage:
            self.repair(workspace, self._damage[workspace.id])

    def _begin(self, workspace: Workspace, reason: str) -> None:
        workspace.set_fault(INDEX_FAULT, f"{reason}; it is being rebuilt")
        if not self._is_rebuilding(workspace):
            self._rebuilds[workspace.id] = self._rebuild(workspace)

    def _is_rebuilding(self, workspace: Workspace) -> bool:
        rebuild = self._rebuilds.get(workspace.id)
        return rebuild is not None and not rebuild.done()


def _describe(failure: BaseException) -> str:
    """The system's message without the path, or the name of the exception."""
    if isinstance(failure, OSError) and failure.strerror:
        return str(failure.strerror)
    return type(failure).__name__
