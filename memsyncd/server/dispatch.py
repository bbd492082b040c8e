"""Carries out declared operations, each by its shape: its function gets a call to work with.

The edits of a workspace run one after another on the worker, and so do the jobs that need
records.db. A write whose turn does not come in time is cancelled, and the answer says that nothing
was written. The end of a write that has started is waited for.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.engine.additions import make_addition_decision
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import Decide, EditOutcome, edit_workspace
from memsyncd.engine.places import name_elsewhere, resolve_names
from memsyncd.engine.scheduler import JobFactory
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import Busy, MemsyncdError, NotFresh
from memsyncd.operations.agents.declare import AgentAnswer
from memsyncd.operations.call import SharedMemory
from memsyncd.operations.fields import Freshness, OnSimilar, TrackedParams
from memsyncd.operations.notes.declare import Added, NewSection
from memsyncd.operations.operation import Operation, Shape, load_function
from memsyncd.operations.share.background import MemorySharing
from memsyncd.operations.signals.declare import Signal
from memsyncd.operations.similar.declare import SimilarSection
from memsyncd.operations.workspace_info import watch_freshness
from memsyncd.server.reads import (
    OPEN_S,
    WAIT_S,
    Reads,
    make_stall_error,
    request_arrival_s,
    wait_for_work,
    wait_unless_stalled,
    wait_until_open,
    wait_until_recovered,
)
from memsyncd.server.session import Session
from memsyncd.server.subscriptions import Subscriptions

# How long a write waits for its turn by default, and a job that reads records.
WRITE_S = 30.0
READ_S = 10.0
# How long adding a section looks for similar sections. If the index has no answer by then, the
# section is added all the same.
SIMILAR_S = 0.5

T = TypeVar("T")


class OperationDispatcher:
    """Carries out operations for sessions."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        reads: Reads,
        subscriptions: Subscriptions,
        sharing: MemorySharing,
        max_reply_bytes: int,
    ) -> None:
        self.workspaces = workspaces
        self.sharing = sharing
        self.clock = clock
        self.reads = reads
        self.subscriptions = subscriptions
        self.max_reply_bytes = max_reply_bytes
        self._functions: dict[str, Callable[..., Any]] = {}

    async def carry_out(
        self,
        operation: Operation,
        session: Session,
        params: Any,
        shared: SharedMemory | None = None,
    ) -> msgspec.Struct:
        """Return the result of one call of an operation. If the workspace of the parameters is a
        linked worktree, `shared` is the memory that it shares.
        """
        run = self._functions.get(operation.name)
        if run is None:
            run = self._functions[operation.name] = load_function(operation.run)
        call = ServerCall(self, session, params, shared)
        if operation.reads and _may_name_another(params):
            named = await call.read(partial(name_elsewhere, call.workspace, params))
            if named is not params:
                params, call = named, ServerCall(self, session, named)
        if fields := operation.paths.resolved:
            resolve = partial(resolve_names, may_be_gone=operation.paths.may_be_gone)
            params = await call.read(partial(resolve, call.workspace, params, fields))
        if operation.shape is Shape.READ:
            await call.open()
            return await call.read(partial(run, call, params))
        steps: Awaitable[msgspec.Struct] = run(call, params)
        return await steps


def _may_name_another(params: Any) -> bool:
    """True if a note or section is named with a colon, which may follow a workspace's name."""
    names = (getattr(params, "anchor", None), getattr(params, "path", None))
    return any(isinstance(name, str) and ":" in name for name in names)


class ServerCall:
    """One call of an operation, as `operations.call.Call` describes it."""

    def __init__(
        self,
        dispatcher: OperationDispatcher,
        session: Session,
        params: Any,
        shared: SharedMemory | None = None,
    ) -> None:
        self._workspaces = dispatcher.workspaces
        self._clock = dispatcher.clock
        self._reads = dispatcher.reads
        self._subscriptions = dispatcher.subscriptions
        self.sharing = dispatcher.sharing
        self._session = session
        self._params = params
        self.shared = shared
        self.max_reply_bytes = dispatcher.max_reply_bytes
        self.now_s = self._clock.wall_s()

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
        return {"client": self.writer, "at": _render_time(self.now_s)}

    async def open(self, workspace: Workspace | None = None) -> Workspace:
        workspace = workspace or self.workspace
        await wait_until_open([workspace], OPEN_S)
        return workspace

    async def wait_until_recovered(self) -> None:
        await wait_until_recovered(self.workspace, READ_S)

    # --- reads ---

    @cached_property
    def _end_s(self) -> float:
        """When the time of the request is over, by its `timeout_ms`."""
        timeout_ms = getattr(self._params, "timeout_ms", None)
        return request_arrival_s(self._clock) + timeout_ms / 1000 if timeout_ms else math.inf

    async def read(
        self,
        read: Callable[[], T],
        *,
        on_disk: bool = False,
        is_long: bool = False,
        limit_s: float | None = None,
    ) -> T:
        end_s = self._end_s if limit_s is None else self._clock.now_s() + limit_s
        disk_of = self.workspace if on_disk else None
        return await self._reads.run(read, end_s, disk_of=disk_of, is_long=is_long)

    async def find_near(
        self, find: Callable[..., list[SimilarSection]], on_similar: OnSimilar
    ) -> list[SimilarSection]:
        is_needed = on_similar != "add"
        if is_needed:
            await self.open()
        elif self.workspace.readers is None:
            return []  # adding a section does not wait for an index that is not open
        run = partial(find, self.workspace, self.config, now_s=self._clock.wall_s())
        try:
            return await self.read(run, limit_s=READ_S if is_needed else SIMILAR_S)
        except MemsyncdError:
            if is_needed:
                raise
            return []

    async def scan(self) -> None:
        scan = self._workspaces.scheduler.scan(self.workspace)
        await wait_for_work(self._workspaces, self.workspace, scan, WAIT_S)

    def watch_freshness(self, *others: Workspace) -> Callable[[], Freshness]:
        return watch_freshness(self._workspaces, [self.workspace, *others], self._clock)

    # --- turns on the worker ---

    async def run_job(self, job: JobFactory[T], *, is_write: bool = False) -> T:
        future = self._workspaces.scheduler.run(self.workspace, job)
        return await self._wait_for_turn(future, WRITE_S if is_write else READ_S)

    async def edit(self, decide: Decide[T]) -> EditOutcome[T]:
        withdrawn = threading.Event()
        try:
            return await self.run_edit(partial(edit_workspace, decide=decide, withdrawn=withdrawn))
        except NotFresh:
            withdrawn.set()
            raise

    async def run_edit(self, job: JobFactory[EditOutcome[T]]) -> EditOutcome[T]:
        timeout_ms = getattr(self._params, "timeout_ms", None)
        future = self._workspaces.scheduler.edit(self.workspace, job)
        return await self._wait_for_turn(future, timeout_ms / 1000 if timeout_ms else WRITE_S)

    async def _wait_for_turn(self, future: Future[T], timeout_s: float) -> T:
        return await wait_for_turn(self._workspaces, self.workspace, future, timeout_s)

    async def add_section(self, **fields: Any) -> Added:
        decide = make_addition_decision(
            self.workspace,
            self.config,
            [NewSection(**fields)],
            command="note.add",
            **self.stamp,
        )
        outcome = await self.edit(decide)
        return Added(**asdict(outcome.answer[0]), **self.describe_write(outcome))

    def describe_write(self, outcome: EditOutcome[Any]) -> dict[str, Any]:
        return {
            "workspace": self.workspace.id,
            "generation": self.workspace.condition.generation,
            "is_indexed": outcome.failure is None,
            "change_set": outcome.change_set,
        }

    # --- afterwards ---

    def tidy_later(self) -> None:
        self._workspaces.scheduler.tidy_later(self.workspace)

    def note_accesses(self, anchors: Sequence[str], params: TrackedParams) -> None:
        if params.track_access:
            session = params.caller_session
            self._workspaces.note_accesses(self.workspace, anchors, session=session)

    def note_answer(self, answer: AgentAnswer) -> None:
        self._subscriptions.note_answer(self.workspace, replace(answer, at=self._clock.wall_s()))

    def notify_signal(self, signal: Signal) -> None:
        self._subscriptions.notify_signal(self.workspace, signal)


async def wait_for_turn(
    workspaces: Workspaces, workspace: Workspace, future: Future[T], timeout_s: float
) -> T:
    """Return the result of a job of the worker.

    Raises Busy if its turn does not come in time, or cannot come because the disk is stalled. The
    end of a job that has started is waited for, unless its disk does not answer: then NotFresh.
    """
    waiting = asyncio.wrap_future(future)
    if not await wait_unless_stalled(workspaces, workspace, waiting, timeout_s):
        if future.cancel():
            raise _make_not_done_error(workspaces, workspace, timeout_s)
        if not await wait_unless_stalled(workspaces, workspace, waiting):
            failure = make_stall_error(workspace)
            hint = (
                "the change that was started will be completed or rolled back:"
                f" see memsyncd history; {failure.hint}"
            )
            raise NotFresh(f"whether it was done is not known: {failure.message}", hint=hint)
    return waiting.result()


def _make_not_done_error(workspaces: Workspaces, workspace: Workspace, timeout_s: float) -> Busy:
    if workspaces.stalls.is_stalled(workspace):
        failure = make_stall_error(workspace)
        return Busy(f"nothing was done: {failure.message}", hint=failure.hint)
    return Busy(
        f"after {timeout_s:.1f} s its turn had not come, and nothing was done",
        hint="retry in a moment; see the running work: memsyncd status",
    )


def _render_time(wall_s: float) -> str:
    text = datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="seconds")
    return text.replace("+00:00", "Z")
