"""How are the methods carried out that write, and those that tell what was written? From wire to
acts and back.

Whatever touches records.db runs on the lane, where writers of a workspace take turns; `view` reads
in a thread. A write whose turn does not come in time is taken back and says that nothing was
written; one that has begun is waited for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from memsyncd.core.editing.additions import Addition
from memsyncd.core.editing.diff import render_diff
from memsyncd.engine import backup, history, memory, remember, undo
from memsyncd.engine.edit import Act, Decide, Edited, edit_workspace
from memsyncd.engine.policies import Clock
from memsyncd.engine.scheduler import JobFactory
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest, Busy, NotFresh
from memsyncd.protocol import memory as wire
from memsyncd.server.freshness import forget, say_stalled, wait_unless_stalled, wait_until_recovered
from memsyncd.server.session import Outcome, Session
from memsyncd.store.backup import find_staged
from memsyncd.store.history import Revision

WRITE_S = 30.0
"""How long a write waits for its turn unless it says."""
LOOK_S = 10.0

InThread = Callable[..., Awaitable[Any]]
T = TypeVar("T")


class Writing:
    """Carries out writes for sessions. `in_thread` runs what only reads away from the loop."""

    def __init__(self, house: Workspaces, clock: Clock, in_thread: InThread) -> None:
        self._house = house
        self._clock = clock
        self._in_thread = in_thread
        self.methods: dict[str, Callable[[Session, Any], Outcome]] = {
            "memory": self._memory,
            "note.add": self._add,
            "note.add_many": self._add_many,
            "history": self._list,
            "diff": self._diff,
            "undo": self._undo,
            "history.purge": self._purge,
            "memory.clear": self._clear,
            "records.backup": self._back_up,
            "records.restore": self._restore,
        }

    async def _memory(self, session: Session, params: wire.MemoryParams) -> wire.MemoryResult:
        workspace = self._house.find(params.workspace)
        asked = memory.Asked(
            command=params.command,
            path=params.path,
            view_range=params.view_range,
            file_text=params.file_text,
            old_str=params.old_str,
            new_str=params.new_str,
            insert_line=params.insert_line,
            insert_text=params.insert_text,
            old_path=params.old_path,
            new_path=params.new_path,
            if_digest=params.if_digest,
            dialect=params.dialect,
            client=_name_client(session, params.client),
        )
        if params.command == "view":
            await wait_until_recovered(workspace, LOOK_S)
            edited = Edited(
                answer=await self._in_thread(
                    partial(memory.view, workspace, asked), disk_of=workspace
                )
            )
        else:
            decide = memory.find_decision(workspace, self._house.policy, asked)
            edited = await self._edit(workspace, decide, params.timeout_ms)
        return wire.MemoryResult(
            text=edited.answer.text, digest=edited.answer.digest, **_tell(workspace, edited)
        )

    async def _add(self, session: Session, params: wire.NoteAddParams) -> wire.Added:
        workspace = self._house.find(params.workspace)
        edited = await self._append(session, workspace, "note.add", [params], params)
        return wire.Added(**_to_added(edited.answer[0]), **_tell(workspace, edited))

    async def _add_many(self, session: Session, params: wire.NoteAddManyParams) -> wire.AddedMany:
        workspace = self._house.find(params.workspace)
        edited = await self._append(session, workspace, "note.add_many", params.items, params)
        added = [wire.AddedSection(**_to_added(one)) for one in edited.answer]
        return wire.AddedMany(added=added, **_tell(workspace, edited))

    async def _append(
        self,
        session: Session,
        workspace: Workspace,
        command: str,
        sections: list[Any],
        params: wire.NoteAddParams | wire.NoteAddManyParams,
    ) -> Edited[list[remember.AddedSection]]:
        decide = remember.find_decision(
            workspace,
            self._house.policy,
            [_to_item(section) for section in sections],
            command=command,
            client=_name_client(session, params.client),
            at=_render_time(self._clock.wall_s()),
        )
        return await self._edit(workspace, decide, params.timeout_ms)

    async def _list(self, _session: Session, params: wire.HistoryParams) -> wire.History:
        workspace = self._house.find(params.workspace)
        subject = history.parse_subject(anchor=params.anchor, path=params.path)
        job = partial(
            history.list_revisions, subject=subject, limit=params.limit, before=params.before
        )
        found = await self._ask(workspace, job)
        return wire.History(
            workspace=workspace.id, revisions=[_to_revision(revision) for revision in found]
        )

    async def _diff(self, _session: Session, params: wire.DiffParams) -> wire.Diff:
        workspace = self._house.find(params.workspace)
        subject = history.parse_subject(anchor=params.anchor, path=params.path)
        job = partial(
            history.read_change, subject=subject, revision=params.revision, is_to_now=params.to_now
        )
        change = await self._ask(workspace, job)
        revision = change.revision
        render = partial(
            render_diff,
            change.old,
            change.new,
            old_name=revision.old_path or revision.path,
            new_name=revision.path,
        )
        return wire.Diff(
            workspace=workspace.id,
            path=revision.path,
            revision=revision.id,
            old_digest=revision.old_digest,
            new_digest=change.new_digest,
            diff=await self._in_thread(render),
        )

    async def _undo(self, session: Session, params: wire.UndoParams) -> wire.Undone:
        workspace = self._house.find(params.workspace)
        if (
            params.revision is None
            and params.act is None
            and params.path is None
            and params.anchor is None
        ):
            raise BadRequest(
                "what shall be undone is not said",
                hint="name a path, an anchor, a revision or an act",
            )
        job = partial(
            undo.undo,
            subject=history.parse_subject(anchor=params.anchor, path=params.path),
            revision=params.revision,
            act=params.act,
            client=_name_client(session, params.client),
        )
        future = self._house.scheduler.edit(workspace, job)
        edited = await await_turn(
            self._house, workspace, future, _read_timeout_s(params.timeout_ms)
        )
        return wire.Undone(
            act=edited.act,
            undone=[_to_revision(revision) for revision in edited.answer.revisions],
            paths=[
                wire.PathState(path=path, digest=digest) for path, digest in edited.answer.digests
            ],
            **_tell(workspace, edited),
        )

    async def _purge(self, _session: Session, params: wire.PurgeParams) -> wire.Purged:
        workspace = self._house.find(params.workspace)
        if not (params.all or params.anchor or params.path or params.revision or params.containing):
            raise BadRequest(
                "what shall be forgotten is not said",
                hint="name a path, an anchor, a revision, a text (containing), or all",
            )
        job = partial(
            history.purge,
            subject=history.parse_subject(anchor=params.anchor, path=params.path),
            revision=params.revision,
            containing=params.containing,
        )
        done = await self._ask(workspace, job)
        return wire.Purged(
            workspace=workspace.id,
            revisions=done.n_revisions,
            texts=done.n_texts,
            is_clean=done.is_clean,
            still_in=list(done.still_in),
            set_aside=list(done.set_aside),
        )

    async def _clear(self, session: Session, params: wire.ClearParams) -> wire.Cleared:
        workspace = self._house.find(params.workspace)
        if not params.confirm:
            raise BadRequest(
                "every note of memory would be removed",
                hint="send confirm: true; undo brings them back",
            )
        edited = await self._edit(
            workspace, undo.clear(workspace, client=_name_client(session, params.client)), None
        )
        return wire.Cleared(act=edited.act, removed=edited.answer, **_tell(workspace, edited))

    async def _back_up(self, _session: Session, params: wire.BackupParams) -> wire.Backup:
        workspace = self._house.find(params.workspace)
        future = self._house.scheduler.run(workspace, backup.back_up_records)
        made = await await_turn(self._house, workspace, future, WRITE_S)
        return wire.Backup(
            workspace=workspace.id,
            path=str(made.path),
            revisions=made.n_revisions,
            bytes=made.n_bytes,
        )

    async def _restore(self, session: Session, params: wire.RestoreParams) -> wire.Restored:
        workspace = self._house.find(params.workspace)
        path = str(find_staged(workspace.records_path))
        if params.prepare:
            await self._ask(workspace, partial(backup.prepare_restore, is_replacing=params.replace))
            return wire.Restored(
                workspace=workspace.id,
                path=path,
                revisions=0,
                recorded=0,
                dropped=0,
                set_aside=None,
            )
        job = partial(
            backup.restore_records,
            is_replacing=params.replace,
            client=_name_client(session, params.client),
        )
        future = self._house.scheduler.edit(workspace, job)
        restored = (await await_turn(self._house, workspace, future, WRITE_S)).answer
        return wire.Restored(
            workspace=workspace.id,
            path=path,
            revisions=restored.n_revisions,
            recorded=restored.n_recorded,
            dropped=restored.n_dropped,
            set_aside=None if restored.set_aside is None else str(restored.set_aside),
        )

    async def _edit(
        self, workspace: Workspace, decide: Decide[T], timeout_ms: int | None
    ) -> Edited[T]:
        withdrawn = threading.Event()

        def decide_if_wanted() -> tuple[Act, T]:
            decided = decide()
            if withdrawn.is_set():
                raise Busy(
                    "the write was withdrawn: its disk did not answer in time", hint="try again"
                )
            return decided

        future = self._house.scheduler.edit(
            workspace, partial(edit_workspace, decide=decide_if_wanted)
        )
        try:
            return await await_turn(self._house, workspace, future, _read_timeout_s(timeout_ms))
        except NotFresh:
            withdrawn.set()
            raise

    async def _ask(self, workspace: Workspace, job: JobFactory[T]) -> T:
        return await await_turn(
            self._house, workspace, self._house.scheduler.run(workspace, job), LOOK_S
        )


async def await_turn(
    house: Workspaces, workspace: Workspace, future: Future[T], timeout_s: float
) -> T:
    """What a job of the lane gives. Raises Busy if its turn does not come in time, or will not
    because the disk is stalled.

    One that has begun is waited for, but for a disk that does not answer: then NotFresh.
    """
    waiting = asyncio.wrap_future(future)
    if not await wait_unless_stalled(house, workspace, waiting, timeout_s):
        if future.cancel():
            raise _say_not_done(house, workspace, timeout_s)
        if not await wait_unless_stalled(house, workspace, waiting):
            failure = say_stalled(workspace)
            hint = (
                "what has begun is carried out in full or not at all once it does: see memsyncd"
                f" history; {failure.hint}"
            )
            waiting.add_done_callback(forget)
            raise NotFresh(failure.message, hint=hint)
    return waiting.result()


def _say_not_done(house: Workspaces, workspace: Workspace, timeout_s: float) -> Busy:
    if house.stalls.is_stalled(workspace):
        failure = say_stalled(workspace)
        return Busy(f"nothing was done: {failure.message}", hint=failure.hint)
    return Busy(
        f"after {timeout_s:.1f} s its turn had not come, and nothing was done",
        hint="try again in a moment; see what goes on with: memsyncd status",
    )


def _read_timeout_s(timeout_ms: int | None) -> float:
    return timeout_ms / 1000 if timeout_ms else WRITE_S


def _tell(workspace: Workspace, edited: Edited[Any]) -> dict[str, Any]:
    """What every answer to a write says."""
    return {
        "workspace": workspace.id,
        "generation": workspace.condition.generation,
        "is_indexed": edited.failure is None,
    }


def _name_client(session: Session, said: str | None) -> str:
    return said or session.name


def _render_time(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _to_item(section: wire.NewSection) -> remember.Item:
    addition = Addition(
        content=section.content,
        summary=section.summary,
        kind=section.kind,
        tags=tuple(section.tags),
        importance=section.importance,
        priority=section.priority,
        lifecycle=section.lifecycle,
        source=section.source,
        task=section.task,
        session=section.session,
        created=section.created,
    )
    return remember.Item(addition=addition, note=section.note)


def _to_added(added: remember.AddedSection) -> dict[str, Any]:
    return {
        "anchor": added.anchor,
        "path": added.path,
        "start_line": added.span.start,
        "end_line": added.span.end,
        "digest": added.digest,
    }


def _to_revision(revision: Revision) -> wire.RevisionInfo:
    return wire.RevisionInfo(
        revision=revision.id,
        act=revision.act,
        at=revision.at_s,
        client=revision.client,
        command=revision.command,
        path=revision.path,
        old_path=revision.old_path,
        old_digest=revision.old_digest,
        new_digest=revision.new_digest,
        old_bytes=revision.old_bytes,
        new_bytes=revision.new_bytes,
        is_kept=revision.is_kept,
    )
