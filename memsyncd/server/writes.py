"""Answers the methods that write notes, and those that read and undo their history.

What needs records.db runs on the worker, where the edits of a workspace run one after another;
`view` reads in a thread. A write whose turn does not come in time is cancelled, and the answer says
that nothing was written; one that has started is waited for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from memsyncd.engine import (
    additions,
    field_edits,
)
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import Decide, EditOutcome, edit_workspace
from memsyncd.engine.scheduler import JobFactory
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import (
    Busy,
    MemsyncdError,
    NotFresh,
)
from memsyncd.operations.notes import declare as protocol
from memsyncd.operations.similar.declare import SimilarSection
from memsyncd.operations.writes import AddedSection, OnSimilar
from memsyncd.server.reads import Reads, WorkspaceMethods
from memsyncd.server.session import MethodCall, Session
from memsyncd.server.waits import (
    OPEN_S,
    make_stall_error,
    wait_unless_stalled,
    wait_until_open,
)

# How long a write waits for its turn by default.
WRITE_S = 30.0
READ_S = 10.0
# How long adding a section looks for similar ones.
SIMILAR_S = 0.5

T = TypeVar("T")


class Writes(WorkspaceMethods):
    """Carries out the methods."""

    def __init__(self, workspaces: Workspaces, clock: Clock, reads: Reads) -> None:
        super().__init__(workspaces, clock, reads)
        self.methods: dict[str, MethodCall] = {}

    # --- new sections ---

    async def find_near(
        self,
        workspace: Workspace,
        find: Callable[..., list[SimilarSection]],
        on_similar: OnSimilar,
    ) -> list[SimilarSection]:
        """Find sections that say nearly the same as the text to be written. Adding a section does
        not wait for an index that is not open.
        """
        is_needed = on_similar != "add"
        if is_needed:
            await wait_until_open([workspace], OPEN_S)
        elif workspace.readers is None:
            return []
        end_s = self._clock.now_s() + (READ_S if is_needed else SIMILAR_S)
        run = partial(find, workspace, self._workspaces.config, now_s=self._clock.wall_s())
        try:
            return await self._in_thread(run, end_s)
        except MemsyncdError:
            if is_needed:
                raise
            return []

    async def add_section(self, session: Session, params: protocol.NoteAddParams) -> protocol.Added:
        """Append a section without a search for similar ones."""
        workspace = self._workspaces.find(params.workspace)
        decide = additions.make_addition_decision(
            workspace,
            self._workspaces.config,
            [params],
            command="note.add",
            **self.stamp(session, params.client),
        )
        outcome = await self.edit(workspace, decide, params.timeout_ms)
        return protocol.Added(
            **asdict(outcome.answer[0]),
            **describe_write(workspace, outcome),
        )

    # --- turns on the worker ---

    def stamp(self, session: Session, client: str | None) -> dict[str, str]:
        """Return who makes a change and when, as keyword arguments of decisions."""
        return {"client": client or session.name, "at": render_time(self._clock.wall_s())}

    async def decide(
        self, session: Session, workspace: Workspace, make: Callable[..., Decide[T]], params: Any
    ) -> EditOutcome[T]:
        """Carry out the decision that `make` returns for a request's parameters."""
        by = self.stamp(session, params.client)
        decide = make(workspace, self._workspaces.config, params, **by)
        return await self.edit(workspace, decide, params.timeout_ms)

    async def edit(
        self, workspace: Workspace, decide: Decide[T], timeout_ms: int | None
    ) -> EditOutcome[T]:
        withdrawn = threading.Event()
        job = partial(edit_workspace, decide=decide, withdrawn=withdrawn)
        try:
            return await self.run_edit(workspace, job, timeout_ms)
        except NotFresh:
            withdrawn.set()
            raise

    async def run_edit(
        self, workspace: Workspace, job: JobFactory[EditOutcome[T]], timeout_ms: int | None
    ) -> EditOutcome[T]:
        future = self._workspaces.scheduler.edit(workspace, job)
        return await wait_for_turn(self._workspaces, workspace, future, _read_timeout_s(timeout_ms))

    async def run(self, workspace: Workspace, job: JobFactory[T], timeout_s: float = READ_S) -> T:
        future = self._workspaces.scheduler.run(workspace, job)
        return await wait_for_turn(self._workspaces, workspace, future, timeout_s)


async def wait_for_turn(
    workspaces: Workspaces, workspace: Workspace, future: Future[T], timeout_s: float
) -> T:
    """Return the result of a job of the worker.

    Raises Busy if its turn does not come in time, or cannot because the disk is stalled. A job that
    has started is waited for, unless its disk does not answer: then NotFresh.
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


def make_place(
    section: protocol.Added | SimilarSection | field_edits.FieldWritten,
) -> AddedSection:
    """Return the place of a section alone."""
    return msgspec.convert(section, AddedSection, from_attributes=True)


def _make_not_done_error(workspaces: Workspaces, workspace: Workspace, timeout_s: float) -> Busy:
    if workspaces.stalls.is_stalled(workspace):
        failure = make_stall_error(workspace)
        return Busy(f"nothing was done: {failure.message}", hint=failure.hint)
    return Busy(
        f"after {timeout_s:.1f} s its turn had not come, and nothing was done",
        hint="retry in a moment; see the running work: memsyncd status",
    )


def _read_timeout_s(timeout_ms: int | None) -> float:
    return timeout_ms / 1000 if timeout_ms else WRITE_S


def describe_write(workspace: Workspace, outcome: EditOutcome[Any]) -> dict[str, Any]:
    """The fields of `Written`, which every answer to a write has."""
    return {
        "workspace": workspace.id,
        "generation": workspace.condition.generation,
        "is_indexed": outcome.failure is None,
        "change_set": outcome.change_set,
    }


def render_time(wall_s: float) -> str:
    text = datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="seconds")
    return text.replace("+00:00", "Z")
