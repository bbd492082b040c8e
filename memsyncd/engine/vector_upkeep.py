"""Keep the vectors of all workspaces up to date, and report what is wrong with them.

After each change of an index the vector process is asked for missing vectors, once for changes that
come together and after a pause, so that a save is indexed before any vector is made. Faults become
notices of the workspace, and each is logged once until all vectors are there again.
"""

from __future__ import annotations

import asyncio
from functools import partial

from memsyncd.config import SemanticConfig
from memsyncd.engine.job_completions import Timers, call_soon
from memsyncd.engine.workspace import SEMANTIC_FAULT, SEMANTIC_NOTICE, Workspace
from memsyncd.logs import Event, get_log
from memsyncd.semantic.messages import Report
from memsyncd.semantic.vector_client import IndexState, VectorService

DELAY_S = 1.0
# A failure is followed by another attempt after this time, and each further one after twice as
# long.
RETRY_S, MAX_RETRY_S = 30.0, 600.0
# Purposes of timers.
REFRESH, RETRY = "refresh", "retry"

log = get_log("engine")


class VectorUpkeep:
    """The vectors of all workspaces. Make it on the running loop, where all methods are called."""

    def __init__(self, config: SemanticConfig) -> None:
        self._loop = asyncio.get_running_loop()
        self.service = VectorService(
            config, lambda report: call_soon(self._loop, partial(self._reported, report))
        )
        self._workspaces: dict[str, Workspace] = {}
        self._timers = Timers()
        self._generations: dict[str, int] = {}
        """The last generation of each workspace for which vectors were asked."""
        self._logged: dict[str, str] = {}
        self._passing: set[str] = set()
        """The workspaces whose notice holds until all vectors are there."""

    def open(self, workspace: Workspace) -> None:
        """Give a workspace its vectors."""
        self._workspaces[workspace.id] = workspace
        self._generations.pop(workspace.id, None)
        workspace.vectors = self.service.add(
            workspace.id, workspace.index_path, partial(_read_state, workspace)
        )
        self._note_off(workspace)

    def close(self, workspace: Workspace) -> None:
        """Forget a workspace that is closed, perhaps to be opened again."""
        if self._workspaces.get(workspace.id) is workspace:
            del self._workspaces[workspace.id]
            self.service.release(workspace.id)
            self._timers.cancel_all(workspace.id)

    def configure(self, config: SemanticConfig) -> None:
        if self.service.configure(config):
            self._generations.clear()
            self._logged.clear()
            for workspace in self._workspaces.values():
                self._timers.cancel(workspace.id, RETRY)
                self._note_off(workspace)
                self.note_synced(workspace)

    def stop(self) -> bool:
        """End the process; False if it has not ended in time. From any thread."""
        return self.service.stop()

    def note_synced(self, workspace: Workspace) -> None:
        """Have vectors made of the new chunks of an index, soon."""
        is_known = self._generations.get(workspace.id) == workspace.condition.generation
        is_due = self._timers.is_set(workspace.id, REFRESH)
        if not (self.service.off_reason or is_known or is_due):
            refresh = partial(self._refresh_due, workspace)
            self._timers.set(workspace.id, REFRESH, DELAY_S, refresh)

    def refresh(
        self, workspace: Workspace, *, is_asked: bool = False, is_again: bool = False
    ) -> None:
        """Have missing vectors made now, or with `is_again` all vectors. With `is_asked` the model
        is loaded even if nothing is missing.
        """
        self._timers.cancel(workspace.id, REFRESH)
        self._generations[workspace.id] = workspace.condition.generation
        self.service.refresh(workspace.id, is_asked=is_asked, is_again=is_again)

    def retry(self) -> None:
        """Let failed work be tried again; `refresh` follows."""
        before = self.service.off_reason
        self.service.retry()
        if self.service.off_reason != before:
            for workspace in self._workspaces.values():
                self._note_off(workspace)

    def _note_off(self, workspace: Workspace) -> None:
        """Report why semantic search does not work although it is switched on."""
        is_enabled = self.service.is_enabled
        reason = self.service.off_reason if is_enabled else ""
        workspace.set_notice(SEMANTIC_FAULT, reason)
        if not is_enabled:
            workspace.set_notice(SEMANTIC_NOTICE, "")
        if reason and reason not in self._logged.values():
            log.warning(Event.SEMANTIC_FAILED, workspace=workspace.id, reason=reason)
        self._logged[workspace.id] = reason

    def _refresh_due(self, workspace: Workspace) -> None:
        is_open = self._workspaces.get(workspace.id) is workspace
        # The sync that ends the indexing comes here again.
        if is_open and not workspace.condition.is_indexing:
            self.refresh(workspace)

    def _retry_later(self, workspace: Workspace, delay_s: float) -> None:
        """Try again after a while: nothing tells that the cause of a failure is gone."""
        retry = partial(self._retry_due, workspace, delay_s)
        self._timers.set(workspace.id, RETRY, delay_s, retry)

    def _retry_due(self, workspace: Workspace, delay_s: float) -> None:
        self._retry_later(workspace, min(MAX_RETRY_S, 2 * delay_s))
        self.refresh(workspace)

    def _reported(self, report: Report) -> None:
        workspace = self._workspaces.get(report.workspace)
        if workspace is None:
            return
        workspace.set_notice(SEMANTIC_FAULT, report.fault)
        if not report.fault:
            self._timers.cancel(workspace.id, RETRY)
        elif not self._timers.is_set(workspace.id, RETRY):
            self._retry_later(workspace, RETRY_S)
        if report.notice:
            workspace.set_notice(SEMANTIC_NOTICE, report.notice)
            (self._passing.add if report.is_passing else self._passing.discard)(workspace.id)
            log.warning(Event.SEMANTIC_FAILED, workspace=workspace.id, reason=report.notice)
        if report.fault and self._logged.get(workspace.id) != report.fault:
            self._logged[workspace.id] = report.fault
            log.warning(Event.SEMANTIC_FAILED, workspace=workspace.id, reason=report.fault)
        if report.is_over and not report.pending and not report.fault:
            self._logged.pop(workspace.id, None)
            if workspace.id in self._passing:
                self._passing.remove(workspace.id)
                workspace.set_notice(SEMANTIC_NOTICE, "")
            log.debug(Event.SEMANTIC_READY, workspace=workspace.id, count=report.total)


def _read_state(workspace: Workspace) -> IndexState:
    condition, index = workspace.condition, workspace.index
    return IndexState(
        opening=0 if index is None else index.opening,
        n_chunks=condition.counts.chunks,
        # While an index is filled, chunks that it lacks are not gone.
        is_complete=not condition.is_indexing and condition.n_to_fill == 0,
    )
