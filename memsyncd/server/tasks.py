"""Answers the methods for tasks, sessions and signals of agents.

What those of tasks and sessions write is a section that is appended as by `note.add`: one change
set, which one undo takes back. A signal is sent to the subscriptions that it concerns once it is on
the disk. A subscription first gets what its reader has not acknowledged, so that it misses nothing
between an earlier connection and this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from memsyncd.engine import tasks
from memsyncd.engine.clock import Clock
from memsyncd.engine.job_completions import call_soon
from memsyncd.engine.signals import (
    ack_signals,
    list_addresses,
    name_reader,
    read_inbox,
    read_outbox,
    send_signal,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest
from memsyncd.operations.notes.declare import Added, NoteAddParams
from memsyncd.operations.signals.declare import (
    SignalAckParams,
    SignalBox,
    SignalInboxParams,
    SignalOutboxParams,
    SignalReader,
    SignalsAcked,
    SignalSendParams,
    SignalSent,
)
from memsyncd.operations.tasks import declare as protocol
from memsyncd.server.reads import Reads, WorkspaceMethods
from memsyncd.server.session import MethodCall, Session
from memsyncd.server.subscriptions import Subscriptions
from memsyncd.server.writes import WRITE_S, Writes, make_place

SUMMARY_CHARS = 60
MAX_BACKLOG = 200
T = TypeVar("T")


class TaskMethods(WorkspaceMethods):
    """Carries out the methods, with those of writes."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        reads: Reads,
        writes: Writes,
        subscriptions: Subscriptions,
    ) -> None:
        super().__init__(workspaces, clock, reads)
        self._writes = writes
        self._subscriptions = subscriptions
        subscriptions.send_backlog = self._send_backlog
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
            "signal.send": self._send,
            "signal.inbox": self._read_inbox,
            "signal.outbox": self._read_outbox,
            "signal.ack": self._ack,
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
        self, session: Session, params: protocol.SessionResumeParams
    ) -> protocol.SessionBlock:
        block = await self._read(tasks.build_session_block, params, ())
        inbox = SignalInboxParams(
            agent=params.agent,
            session=params.session,
            task=block.task,
            workspace=params.workspace,
        )
        signals = (await self._read_inbox(session, inbox)).signals
        if not signals:
            return block
        return await self._read(tasks.build_session_block, params, signals)

    # --- signals ---

    async def _send(self, session: Session, params: SignalSendParams) -> SignalSent:
        workspace = self._workspaces.find(params.workspace)
        list_addresses(params)
        job = partial(send_signal, params=params, sender=params.client or session.name)
        sent = await self._writes.run(workspace, job, WRITE_S)
        if sent.is_new:
            self._subscriptions.notify_signal(workspace, sent.signal)
        return sent

    async def _read_inbox(self, _session: Session, params: SignalInboxParams) -> SignalBox:
        workspace = self._workspaces.find(params.workspace)
        name_reader(params)
        job = partial(read_inbox, params=params)
        return await self._writes.run(workspace, job, WRITE_S)

    async def _read_outbox(self, session: Session, params: SignalOutboxParams) -> SignalBox:
        workspace = self._workspaces.find(params.workspace)
        job = partial(read_outbox, params=params, sender=params.client or session.name)
        return await self._writes.run(workspace, job, WRITE_S)

    async def _ack(self, _session: Session, params: SignalAckParams) -> SignalsAcked:
        workspace = self._workspaces.find(params.workspace)
        name_reader(params)
        job = partial(ack_signals, params=params)
        return await self._writes.run(workspace, job, WRITE_S)

    def _send_backlog(self, workspace: Workspace, reader: SignalReader, subscription: str) -> None:
        """Send the unread signals to a subscription that has just begun."""
        loop = asyncio.get_running_loop()
        params = SignalInboxParams(
            agent=reader.agent, session=reader.session, task=reader.task, limit=MAX_BACKLOG
        )
        found = self._workspaces.scheduler.run(workspace, partial(read_inbox, params=params))

        def deliver(done: Future[SignalBox]) -> None:
            if not done.cancelled() and done.exception() is None:
                for signal in done.result().signals:
                    self._subscriptions.notify_signal(workspace, signal, subscription)

        found.add_done_callback(lambda done: call_soon(loop, partial(deliver, done)))
