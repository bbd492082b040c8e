"""Carries out declared operations: each by its shape, with what its function may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import msgspec

from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import Decide, EditOutcome
from memsyncd.engine.scheduler import JobFactory
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.operations.fields import Freshness, TrackedParams
from memsyncd.operations.notes.declare import Added, NoteAddParams
from memsyncd.operations.operation import Operation, Shape, load_function
from memsyncd.operations.signals.declare import Signal
from memsyncd.operations.similar.declare import SimilarSection
from memsyncd.operations.workspace_info import watch_freshness
from memsyncd.operations.writes import OnSimilar
from memsyncd.server.reads import Reads
from memsyncd.server.session import Session
from memsyncd.server.subscriptions import Subscriptions
from memsyncd.server.waits import (
    OPEN_S,
    WAIT_S,
    wait_for_work,
    wait_until_open,
    wait_until_recovered,
)
from memsyncd.server.writes import READ_S, WRITE_S, Writes, describe_write, render_time

T = TypeVar("T")


class OperationDispatcher:
    """Carries out operations for sessions."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        reads: Reads,
        writes: Writes,
        subscriptions: Subscriptions,
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._reads = reads
        self._writes = writes
        self._subscriptions = subscriptions
        self._functions: dict[str, Callable[..., Any]] = {}

    async def carry_out(
        self, operation: Operation, session: Session, params: Any
    ) -> msgspec.Struct:
        """Return the result of one call of an operation."""
        run = self._functions.get(operation.name)
        if run is None:
            run = self._functions[operation.name] = load_function(operation.run)
        call = ServerCall(
            self._workspaces,
            self._clock,
            self._reads,
            self._writes,
            self._subscriptions,
            session,
            params,
        )
        if operation.shape is Shape.READ:
            await call.open()
            return await call.read(partial(run, call, params))
        steps: Awaitable[msgspec.Struct] = run(call, params)
        return await steps


class ServerCall:
    """One call of an operation, as `operations.call.Call` describes it."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        reads: Reads,
        writes: Writes,
        subscriptions: Subscriptions,
        session: Session,
        params: Any,
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._reads = reads
        self._writes = writes
        self._subscriptions = subscriptions
        self._session = session
        self._params = params
        self.now_s = clock.wall_s()

    @cached_property
    def workspace(self) -> Workspace:
        return self._workspaces.find(self._params.workspace)

    @property
    def config(self) -> Config:
        return self._workspaces.config

    @property
    def writer(self) -> str:
        return getattr(self._params, "client", None) or self._session.name

    @property
    def stamp(self) -> dict[str, str]:
        return {"client": self.writer, "at": render_time(self.now_s)}

    async def open(self) -> Workspace:
        await wait_until_open([self.workspace], OPEN_S)
        return self.workspace

    async def wait_until_recovered(self) -> None:
        await wait_until_recovered(self.workspace, READ_S)

    async def read(self, read: Callable[[], T], *, on_disk: bool = False) -> T:
        return await self._reads.run(read, disk_of=self.workspace if on_disk else None)

    async def run_job(self, job: JobFactory[T], *, is_write: bool = False) -> T:
        return await self._writes.run(self.workspace, job, WRITE_S if is_write else READ_S)

    async def edit(self, decide: Decide[T]) -> EditOutcome[T]:
        return await self._writes.edit(self.workspace, decide, self._params.timeout_ms)

    async def add_section(self, **fields: Any) -> Added:
        params = NoteAddParams(
            client=self._params.client,
            workspace=self._params.workspace,
            timeout_ms=self._params.timeout_ms,
            **fields,
        )
        return await self._writes.add_section(self._session, params)

    async def run_edit(self, job: JobFactory[EditOutcome[T]]) -> EditOutcome[T]:
        timeout_ms = getattr(self._params, "timeout_ms", None)
        return await self._writes.run_edit(self.workspace, job, timeout_ms)

    def tidy_later(self) -> None:
        self._workspaces.scheduler.tidy_later(self.workspace)

    async def find_near(
        self, find: Callable[..., list[SimilarSection]], on_similar: OnSimilar
    ) -> list[SimilarSection]:
        return await self._writes.find_near(self.workspace, find, on_similar)

    async def scan(self) -> None:
        scan = self._workspaces.scheduler.scan(self.workspace)
        await wait_for_work(self._workspaces, self.workspace, scan, WAIT_S)

    def watch_freshness(self) -> Callable[[], Freshness]:
        return watch_freshness(self._workspaces, [self.workspace], self._clock)

    def note_accesses(self, anchors: Sequence[str], params: TrackedParams) -> None:
        if params.track_access:
            session = params.caller_session
            self._workspaces.note_accesses(self.workspace, anchors, session=session)

    def notify_signal(self, signal: Signal) -> None:
        self._subscriptions.notify_signal(self.workspace, signal)

    def describe_write(self, outcome: EditOutcome[Any]) -> dict[str, Any]:
        return describe_write(self.workspace, outcome)
