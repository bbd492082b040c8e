"""Answers the methods for tasks and sessions of agents.

A method that writes appends a section as `note.add` does: one change set, which one undo takes
back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from memsyncd.engine import tasks
from memsyncd.engine.clock import Clock
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest
from memsyncd.operations.inbox import read_inbox
from memsyncd.operations.notes.declare import Added, NoteAddParams
from memsyncd.operations.signals.declare import SignalInboxParams
from memsyncd.operations.tasks import declare as protocol
from memsyncd.server.reads import Reads, WorkspaceMethods
from memsyncd.server.session import MethodCall, Session
from memsyncd.server.writes import WRITE_S, Writes, make_place

SUMMARY_CHARS = 60
T = TypeVar("T")


class TaskMethods(WorkspaceMethods):
    """Carries out the methods, with those of writes."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        reads: Reads,
        writes: Writes,
    ) -> None:
        super().__init__(workspaces, clock, reads)
        self._writes = writes
        self.methods: dict[str, MethodCall] = {
            "task.ready": partial(self._ask, tasks.list_ready),
            "task.list": partial(self._ask, tasks.list_task),
            "task.context": self._build_context,
            "task.checkpoint": self._add_checkpoint,
            "task.summarize": self._summarize,
            "session.start": self._start_session,
            "session.resume": self._resume_session,
            "triage": self._triage,
            "profile": partial(self._ask, tasks.compute_profile),
        }

    async def _ask(self, answer: Callable[..., T], _session: Session, params: Any) -> T:
        return await self._read(answer, params)

    async def _add(self, session: Session, params: Any, fields: dict[str, Any]) -> Added:
        """Append a section in the name of the request's client."""
        note = NoteAddParams(
            client=params.client,
            workspace=params.workspace,
            timeout_ms=params.timeout_ms,
            **fields,
        )
        return await self._writes.add_section(session, note)

    # --- tasks ---

    async def _build_context(
        self, _session: Session, params: protocol.TaskContextParams
    ) -> protocol.TaskContext:
        found = await self._read(tasks.build_task_context, params)
        workspace = self._workspaces.find(params.workspace)
        if params.track_access:
            caller = params.caller_session
            self._workspaces.note_accesses(workspace, found.included, session=caller)
        return found

    async def _add_checkpoint(self, session: Session, params: protocol.CheckpointParams) -> Added:
        if params.task is None and params.session is None:
            hint = "name a task or a session"
            raise BadRequest("a checkpoint is of a task or a session, and none is named", hint=hint)
        fields = {
            "content": params.content,
            "kind": "checkpoint",
            "metadata": params.metadata,
            "task": params.task,
            "session": params.session,
            "lifecycle": "task" if params.task else "session",
        }
        return await self._add(session, params, fields)

    async def _summarize(
        self, session: Session, params: protocol.TaskSummarizeParams
    ) -> protocol.TaskSummary:
        summary, is_new = await self._read(tasks.summarize_task, params)
        if params.dry_run or not is_new:
            return summary
        fields = {
            "content": summary.text.strip(),
            "summary": f"Summary of {params.task}",
            "kind": "summary",
            "task": params.task,
            "lifecycle": "task",
        }
        added = await self._add(session, params, fields)
        return replace(summary, added=make_place(added))

    async def _triage(self, session: Session, params: protocol.TriageParams) -> protocol.Triage:
        found, fields = await self._read(tasks.triage, params)
        if fields is None:
            return found
        added = await self._add(session, params, fields)
        return replace(found, promoted=make_place(added))

    # --- sessions ---

    async def _start_session(
        self, session: Session, params: protocol.SessionStartParams
    ) -> protocol.SessionStarted:
        of_task = f" of task {params.task}" if params.task else ""
        text = params.content or f"Session {params.session}{of_task} began."
        fields = {
            "content": text,
            "summary": f"Session {params.session}"[:SUMMARY_CHARS],
            "kind": "session",
            "session": params.session,
            "task": params.task,
            "lifecycle": "session",
        }
        added = await self._add(session, params, fields)
        resume = protocol.SessionResumeParams(
            session=params.session,
            task=params.task,
            agent=params.agent,
            max_bytes=params.max_bytes,
            mark=params.mark,
            workspace=params.workspace,
        )
        block = await self._resume_session(session, resume)
        return protocol.SessionStarted(
            workspace=added.workspace,
            generation=added.generation,
            is_indexed=added.is_indexed,
            change_set=added.change_set,
            added=make_place(added),
            text=block.text,
        )

    async def _resume_session(
        self, _session: Session, params: protocol.SessionResumeParams
    ) -> protocol.SessionBlock:
        block = await self._read(tasks.build_session_block, params, ())
        inbox = SignalInboxParams(
            agent=params.agent,
            session=params.session,
            task=block.task,
            workspace=params.workspace,
        )
        workspace = self._workspaces.find(params.workspace)
        job = partial(read_inbox, params=inbox)
        signals = (await self._writes.run(workspace, job, WRITE_S)).signals
        if not signals:
            return block
        return await self._read(tasks.build_session_block, params, signals)
