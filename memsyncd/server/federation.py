"""Asks several workspaces at once, so that one that fails or is slow does not affect the others.

At first each read gets a share of the time, with which all together need half of it; those that
are late get what is left in a second round. A workspace that has not answered in time, or whose
disk or index fails, is named in the answer with the reason, and the others answer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from memsyncd.engine.clock import Clock
from memsyncd.engine.search import RunOptions
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import MemsyncdError, NotFresh
from memsyncd.protocol.search import AnsweringWorkspace

# Reads of one request that run at one time; the others of a client wait in its own turn.
N_CONCURRENT = 2
MIN_SHARE_S = 0.02
# How long after its limit a read may return, before its thread counts as blocked.
GRACE_S = 0.25
# Of the time of a request, what waiting for the disk may take.
WAIT_SHARE = 0.75

T = TypeVar("T")
Prepare = Callable[[Workspace], Awaitable[RunOptions]]
"""Waits until a workspace can be read."""
Read = Callable[[Workspace, RunOptions], T]


class WorkspaceRead(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What one workspace has answered, or the error for which it is left out."""

    workspace: Workspace
    value: T | None = None
    error: MemsyncdError | None = None


class Federation:
    """Asks workspaces by `run`, which is `Reads.run`: it is given a read and when it has to end."""

    def __init__(self, run: Callable[[Any, float], Awaitable[Any]], clock: Clock) -> None:
        self._run = run
        self._clock = clock

    async def ask_each(
        self, chosen: Sequence[Workspace], prepare: Prepare, read: Read[T], end_s: float
    ) -> list[WorkspaceRead[T]]:
        """Return the parts of all workspaces, in their order. Raises an error if there is no other
        part.
        """
        semaphore = asyncio.Semaphore(N_CONCURRENT)
        options: dict[str, RunOptions] = {}

        async def ask_first(workspace: Workspace) -> T:
            options[workspace.id] = await prepare(workspace)
            async with semaphore:
                share_s = self._share(end_s, 2 * len(chosen))
                return await self._ask(workspace, read, options[workspace.id], share_s)

        async def ask_again(workspace: Workspace) -> T:
            async with semaphore:
                share_s = self._share(end_s, n_late)
                return await self._ask(workspace, read, options[workspace.id], share_s)

        parts = await asyncio.gather(*(_catch(ask_first(one), one) for one in chosen))
        late = {one.workspace.id for one in parts if isinstance(one.error, _LateError)}
        n_late = len(late)
        again = [
            _catch(ask_again(one.workspace), one.workspace)
            for one in parts
            if one.workspace.id in late and end_s > self._clock.now_s()
        ]
        answered = {one.workspace.id: one for one in await asyncio.gather(*again)}
        parts = [answered.get(one.workspace.id, one) for one in parts]
        errors = [one.error for one in parts if one.error is not None]
        if errors and len(errors) == len(parts):
            raise errors[0]
        return parts

    def _share(self, end_s: float, n_reads: int) -> float:
        left_s = end_s - self._clock.now_s()
        return max(MIN_SHARE_S, left_s / math.ceil(n_reads / N_CONCURRENT))

    async def _ask(
        self, workspace: Workspace, read: Read[T], options: RunOptions, limit_s: float
    ) -> T:
        limited = replace(options, timeout_s=limit_s)
        try:
            async with asyncio.timeout(limit_s + GRACE_S):
                end_s = self._clock.now_s() + limit_s
                value: T = await self._run(partial(read, workspace, limited), end_s)
                return value
        except (TimeoutError, NotFresh) as error:
            raise _LateError(
                "the workspace had no time to answer", hint="ask again, or with a longer timeout_ms"
            ) from error


class _LateError(NotFresh):
    """A read took longer than its share of the time."""


async def _catch(read: Awaitable[T], workspace: Workspace) -> WorkspaceRead[T]:
    try:
        return WorkspaceRead(workspace=workspace, value=await read)
    except MemsyncdError as error:
        return WorkspaceRead(workspace=workspace, error=error)


def describe_parts(
    parts: Sequence[WorkspaceRead[T]], worktrees: Mapping[str, str]
) -> list[AnsweringWorkspace]:
    """Name the workspaces that were asked; `worktrees` are the folders that were named, by id."""
    return [describe_workspace_part(one.workspace, worktrees, one.error) for one in parts]


def describe_workspace_part(
    workspace: Workspace, worktrees: Mapping[str, str], error: MemsyncdError | None = None
) -> AnsweringWorkspace:
    entry = workspace.entry
    return AnsweringWorkspace(
        id=entry.id,
        name=entry.name,
        root=entry.root,
        worktree=worktrees.get(entry.id),
        user=entry.is_user_wide,
        failure=None if error is None else f"{error.message}: {error.hint}".rstrip(": "),
        code=None if error is None else error.code,
    )
