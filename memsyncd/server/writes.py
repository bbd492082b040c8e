"""Answers the methods that write notes, and those that read and undo their history.

What needs records.db runs on the worker, where the edits of a workspace run one after another;
`view` reads in a thread. A write whose turn does not come in time is cancelled, and the answer says
that nothing was written; one that has started is waited for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict
from msgspec.structs import replace as replace_fields

from memsyncd.core.editing.additions import check_addition
from memsyncd.engine import (
    additions,
    field_edits,
    memory_tool,
)
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import Decide, EditOutcome, edit_workspace
from memsyncd.engine.metadata import find_similar_kind
from memsyncd.engine.scheduler import JobFactory
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import (
    BadRequest,
    Busy,
    EditRefused,
    MemsyncdError,
    NoteNotFound,
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
    wait_until_recovered,
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
        self.methods: dict[str, MethodCall] = {
            "memory": self._memory,
            "note.add": self._add,
            "note.add_many": self._add_many,
            "validate": self._validate,
            "memory.clear": self._clear,
        }

    # --- memory tool, new sections ---

    async def _memory(
        self, session: Session, params: protocol.MemoryParams
    ) -> protocol.MemoryResult:
        workspace = self._workspaces.find(params.workspace)
        params = replace_fields(params, client=params.client or session.name)
        if params.command == "view":
            await wait_until_recovered(workspace, READ_S)
            read = partial(memory_tool.view, workspace, params)
            outcome = EditOutcome(answer=await self._in_thread(read, disk_of=workspace))
        else:
            decide = memory_tool.make_decision(workspace, self._workspaces.config, params)
            outcome = await self.edit(workspace, decide, params.timeout_ms)
        answer = outcome.answer
        return protocol.MemoryResult(
            text=answer.text,
            digest=answer.digest,
            is_searched=answer.is_searched,
            updated_links=[one for one in answer.updated_links if one not in outcome.skipped],
            skipped_links=sorted({*answer.skipped_links, *outcome.skipped}),
            **describe_write(workspace, outcome),
        )

    async def _add(self, session: Session, params: protocol.NoteAddParams) -> protocol.Added:
        added = await self._add_unless_similar(session, params)
        similar_kind = find_similar_kind(self._workspaces.config.kinds, params.kind)
        return replace_fields(added, similar_kind=similar_kind)

    async def _add_unless_similar(
        self, session: Session, params: protocol.NoteAddParams
    ) -> protocol.Added:
        """Append a section; or, as the request wishes, append to one that says nearly the same, or
        only report that one.
        """
        workspace, config = self._workspaces.find(params.workspace), self._workspaces.config
        addition = additions.make_addition(params)
        check_addition(addition, most_chars=config.memory.max_content_chars)
        text = f"{params.summary}\n\n{params.content}"
        find = partial(field_edits.find_near, texts=[text])
        near = await self.find_near(workspace, find, params.on_similar)
        there = field_edits.choose_near(workspace, config, near, params.on_similar)
        if there is None:
            added = await self.add_section(session, params)
            return replace_fields(added, similar=near)
        if params.on_similar == "report":
            return _report_near(workspace, near)
        decide = field_edits.make_append_there_decision(
            workspace,
            config,
            addition,
            there,
            command="note.add",
            **self.stamp(session, params.client),
        )
        try:
            outcome = await self.edit(workspace, decide, params.timeout_ms)
        except (EditRefused, NoteNotFound):
            # The section has another form, or was removed meanwhile: the text must not be lost.
            return replace_fields(await self.add_section(session, params), similar=near)
        return protocol.Added(
            action="appended",
            similar=near,
            **asdict(make_place(outcome.answer)),
            **describe_write(workspace, outcome),
        )

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
        outcome = await self._append(session, workspace, "note.add", [params], params)
        return protocol.Added(
            **asdict(outcome.answer[0]),
            **describe_write(workspace, outcome),
        )

    async def _add_many(
        self, session: Session, params: protocol.NoteAddManyParams
    ) -> protocol.AddedMany:
        workspace = self._workspaces.find(params.workspace)
        outcome = await self._append(session, workspace, "note.add_many", params.items, params)
        return protocol.AddedMany(added=outcome.answer, **describe_write(workspace, outcome))

    async def _append(
        self,
        session: Session,
        workspace: Workspace,
        command: str,
        sections: Sequence[protocol.NewSection],
        params: protocol.NoteAddParams | protocol.NoteAddManyParams,
    ) -> EditOutcome[list[AddedSection]]:
        decide = additions.make_addition_decision(
            workspace,
            self._workspaces.config,
            sections,
            command=command,
            **self.stamp(session, params.client),
        )
        return await self.edit(workspace, decide, params.timeout_ms)

    async def _validate(
        self, _session: Session, params: protocol.ValidateParams
    ) -> protocol.Validation:
        config = self._workspaces.config
        if params.section is not None:
            if params.path is not None:
                raise BadRequest("name either a section or a path", hint="leave one of the two out")
            return additions.validate_section(params.section, config)
        workspace = await self._find_open(params.workspace)
        check = partial(additions.validate_notes, workspace, config, params.path)
        return await self._in_thread(check)

    async def _clear(self, session: Session, params: protocol.ClearParams) -> protocol.Cleared:
        workspace = self._workspaces.find(params.workspace)
        if not params.confirm:
            raise BadRequest(
                "every note of memory would be removed",
                hint="send confirm: true; undo brings them back",
            )
        decide = memory_tool.make_clear_decision(workspace, client=params.client or session.name)
        outcome = await self.edit(workspace, decide, params.timeout_ms)
        return protocol.Cleared(
            removed=outcome.answer,
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


def _report_near(workspace: Workspace, near: Sequence[SimilarSection]) -> protocol.Added:
    """The answer that names what says nearly the same; nothing is written."""
    return protocol.Added(
        action="reported",
        similar=list(near),
        **asdict(make_place(near[0])),
        **describe_write(workspace, EditOutcome(answer=None)),
    )


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
