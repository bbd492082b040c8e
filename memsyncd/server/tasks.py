"""Answers the methods for tasks and sessions of agents.

What they write is a section that is appended as by `note.add`: one change set, which one undo takes
back.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from memsyncd.engine import tasks
from memsyncd.engine.clock import Clock
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest
from memsyncd.protocol import tasks as protocol
from memsyncd.protocol.memory import Added, NoteAddParams
from memsyncd.protocol.signals import Signal, SignalInboxParams
from memsyncd.server.session import InThread, MethodCall, Session
from memsyncd.server.waits import OPEN_S, wait_until_open
from memsyncd.server.writes import make_place

SUMMARY_CHARS = 60


class TaskMethods:
    """Carries out the methods. `add` and `read_inbox` are those of `note.add` and `signal.inbox`,
    and `in_thread` runs what only reads off the event loop.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        in_thread: InThread,
        *,
        add: MethodCall,
        read_inbox: MethodCall,
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._in_thread = in_thread
        self._add_note = add
        self._read_inbox = read_inbox
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

    async def _ask(self, answer: Callable[..., Any], _session: Session, params: Any) -> Any:
        """Answer from the index of the workspace that the parameters name."""
        return await self._read(self._workspaces.find(params.workspace), answer, params)

    async def _read(self, workspace: Workspace, answer: Callable[..., Any], *params: Any) -> Any:
        await wait_until_open([workspace], OPEN_S)
        config, now_s = self._workspaces.config, self._clock.wall_s()
        return await self._in_thread(partial(answer, workspace, config, *params, now_s=now_s))

    async def _add(self, session: Session, params: Any, fields: dict[str, Any]) -> Added:
        """Append a section in the name of the request's client."""
        by = {"client": params.client, "workspace": params.workspace}
        note = NoteAddParams(**by, timeout_ms=params.timeout_ms, **fields)
        outcome = self._add_note(session, note)
        added = await outcome if inspect.isawaitable(outcome) else outcome
        assert isinstance(added, Added)
        return added

    # --- tasks ---

    async def _build_context(
        self, session: Session, params: protocol.TaskContextParams
    ) -> protocol.TaskContext:
        found: protocol.TaskContext = await self._ask(tasks.build_task_context, session, params)
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
        summary: protocol.TaskSummary
        summary, is_new = await self._ask(tasks.summarize_task, session, params)
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
        found: protocol.Triage
        found, fields = await self._ask(tasks.triage, session, params)
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
        workspace = self._workspaces.find(params.workspace)
        block: protocol.SessionBlock = await self._read(
            workspace, tasks.build_session_block, params, ()
        )
        signals = await self._list_signals(session, replace(params, task=block.task))
        if not signals:
            return block
        shown: protocol.SessionBlock = await self._read(
            workspace, tasks.build_session_block, params, signals
        )
        return shown

    async def _list_signals(
        self, session: Session, params: protocol.SessionResumeParams
    ) -> list[Signal]:
        inbox = SignalInboxParams(
            agent=params.agent,
            session=params.session,
            task=params.task,
            workspace=params.workspace,
        )
        outcome = self._read_inbox(session, inbox)
        box: Any = await outcome if inspect.isawaitable(outcome) else outcome
        found: list[Signal] = box.signals
        return found
