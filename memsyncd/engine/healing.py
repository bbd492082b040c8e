"""What is said of a job that failed, and what heals it?

A full disk and what nobody foresaw are said until a full look succeeds. An index that a person deleted or replaced is built anew
at once; so is a damaged one, but if damage comes back only when ten minutes are over. Until then it is said, whatever syncs
meanwhile make of the rest. Lives on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from memsyncd.engine.indexing import INDEX_FAULT, may_rebuild
from memsyncd.engine.policies import Clock
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import IndexUnfit, MemsyncdError, StoreCorrupt, StoreFull
from memsyncd.logs import Event, get_log

SYNC_FAULT, FULL_FAULT = "sync", "disk_full"
UNFINISHED = frozenset({SYNC_FAULT, FULL_FAULT, INDEX_FAULT})
"""Faults under which more may be undone than what rang since."""
AGAIN = "again within ten minutes: it is rebuilt when they are over, or now with: memsyncd reindex"

log = get_log("engine")


class Healing:
    """Rebuilds by calling `rebuild(workspace)`."""

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

    def take(self, workspace: Workspace, failure: BaseException, at_s: float) -> None:
        """A job failed at `at_s`. What is not begun here, the next full look tries again."""
        self._failed_at_s[workspace.id] = at_s
        if isinstance(failure, StoreFull):
            workspace.set_fault(FULL_FAULT, f"{failure.message}: {failure.hint}")
            log.error(Event.STORE_FULL, workspace=workspace.id, reason=failure.message)
        elif isinstance(failure, (StoreCorrupt, IndexUnfit)):
            self.mend(workspace, failure)
        else:
            # A failure that has a name needs no traceback to be understood.
            name, trace = (failure.message, None) if isinstance(failure, MemsyncdError) else (_name(failure), failure)
            workspace.set_fault(SYNC_FAULT, f"the last sync failed: {name}")
            log.error(Event.SYNC_FAILED, workspace=workspace.id, reason=name, exc_info=trace)

    def has_succeeded(self, workspace: Workspace, began_s: float) -> None:
        """A full look has, that began at `began_s`. What failed since is not over, though it was told of before this look."""
        if began_s < self._failed_at_s.get(workspace.id, began_s):
            return
        for fault in (SYNC_FAULT, FULL_FAULT):
            workspace.set_fault(fault, "")

    def replace(self, workspace: Workspace, reason: str) -> None:
        """What stands there will not do, because somebody did something to it or it is another version's."""
        log.warning(Event.INDEX_CORRUPT, workspace=workspace.id, reason=reason)
        self._begin(workspace, reason)

    def mend(self, workspace: Workspace, damage: MemsyncdError) -> None:
        """The index was found damaged."""
        self._damage[workspace.id] = damage
        if may_rebuild(workspace, damage, self._clock.now_s()):
            log.error(Event.INDEX_CORRUPT, workspace=workspace.id, reason=damage.message)
            self._begin(workspace, damage.message)
        elif not self._is_rebuilding(workspace) and AGAIN not in workspace.condition.faults.get(INDEX_FAULT, ""):
            workspace.set_fault(INDEX_FAULT, f"{damage.message}, {AGAIN}")
            log.error(Event.INDEX_CORRUPT, workspace=workspace.id, reason=f"{damage.message}, {AGAIN}")

    def go_on(self, workspace: Workspace) -> None:
        """Time has passed: mend what had to wait."""
        is_harmed = INDEX_FAULT in workspace.condition.faults and not self._is_rebuilding(workspace)
        if is_harmed and workspace.id in self._damage:
            self.mend(workspace, self._damage[workspace.id])

    def _begin(self, workspace: Workspace, reason: str) -> None:
        workspace.set_fault(INDEX_FAULT, f"{reason}; it is being rebuilt")
        if not self._is_rebuilding(workspace):
            self._rebuilds[workspace.id] = self._rebuild(workspace)

    def _is_rebuilding(self, workspace: Workspace) -> bool:
        rebuild = self._rebuilds.get(workspace.id)
        return rebuild is not None and not rebuild.done()


def _name(failure: BaseException) -> str:
    """What the system says, without the path that it says it of; else what it is called."""
    return str(failure.strerror) if isinstance(failure, OSError) and failure.strerror else type(failure).__name__
