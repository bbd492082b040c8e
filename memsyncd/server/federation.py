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
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from memsyncd.engine.clock import Clock
from memsyncd.engine.search import RunOptions
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest, MemsyncdError, NotFresh
from memsyncd.operations.search.declare import AnsweringWorkspace
from memsyncd.operations.similar.declare import Patterns, PatternsParams
from memsyncd.operations.workspace_info import choose_named, describe_freshness
from memsyncd.server.reads import NamedWorkspace
from memsyncd.server.session import InThread, Session
from memsyncd.server.waits import OPEN_S, wait_until_open

if TYPE_CHECKING:
    from memsyncd.operations.similar import patterns

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
    parts: Sequence[WorkspaceRead[T]], worktrees: Mapping[str, NamedWorkspace]
) -> list[AnsweringWorkspace]:
    """Name the workspaces that were asked, `worktrees` by the id of the workspace read for each."""
    return [describe_workspace_part(one.workspace, worktrees, one.error) for one in parts]


def describe_workspace_part(
    workspace: Workspace,
    worktrees: Mapping[str, NamedWorkspace],
    error: MemsyncdError | None = None,
) -> AnsweringWorkspace:
    entry, named = workspace.entry, worktrees.get(workspace.id)
    return AnsweringWorkspace(
        id=entry.id,
        name=entry.name,
        root=entry.root,
        worktree=None if named is None else named.worktree or named.workspace.entry.root,
        user=entry.is_user_wide,
        failure=None if error is None else f"{error.message}: {error.hint}".rstrip(": "),
        code=None if error is None else error.code,
    )


# --- patterns ------------------------------------------------------------------------------------


PATTERNS_S = 20.0


class PatternFinder:
    """Finds what recurs: asks workspaces in two rounds, and compares what they have read.

    Each round has half of the time. A workspace that fails or is late in either is named in the
    answer and left out, as in a search of several. `in_thread` runs what computes off the event
    loop.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        federation: Federation,
        in_thread: InThread,
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._federation = federation
        self._in_thread = in_thread

    async def find(self, _session: Session, params: PatternsParams) -> Patterns:
        # Needed by few; its import takes a millisecond.
        from memsyncd.operations.similar import patterns

        start_s = self._clock.now_s()
        chosen = choose_named(self._workspaces, params.workspace)
        are_named = params.workspace not in (None, "*")
        if len(chosen) < params.min_workspaces and are_named:
            raise BadRequest(
                f"patterns: fewer are named than min_workspaces, {params.min_workspaces}",
                hint="name more workspaces, or * for all",
            )
        limit_s = params.timeout_ms / 1000 if params.timeout_ms else PATTERNS_S
        end_s = start_s + limit_s
        counted = await self._federation.ask_each(
            chosen,
            self._prepare,
            lambda workspace, options: patterns.read_categories(
                workspace, params, options.timeout_s or limit_s
            ),
            start_s + limit_s / 2,
        )
        read = await self._read(counted, params, end_s)
        rounds: tuple[Sequence[WorkspaceRead[Any]], ...] = (counted, read)
        errors = {one.workspace.id: one.error for several in rounds for one in several}
        values = [one.value for one in read if one.value is not None]
        found = await self._in_thread(partial(patterns.find_patterns, values, params), end_s)
        return Patterns(
            patterns=found[: params.limit],
            n_patterns=len(found),
            compared=sum(len(one.sections) for one in values),
            left_out=sum(one.n_left_out for one in values),
            workspaces=[describe_workspace_part(one, {}, errors.get(one.id)) for one in chosen],
            freshness=describe_freshness(
                chosen, self._workspaces.config, now_s=self._clock.now_s()
            ),
            took_ms=round((self._clock.now_s() - start_s) * 1000, 3),
        )

    async def _prepare(self, workspace: Workspace) -> RunOptions:
        await wait_until_open([workspace], OPEN_S)
        return RunOptions(now_s=self._clock.wall_s())

    async def _read(
        self,
        counted: list[WorkspaceRead[dict[patterns.Category, int]]],
        params: PatternsParams,
        end_s: float,
    ) -> list[WorkspaceRead[patterns.ReadSections]]:
        """Read the sections of the kinds and topics that several workspaces have."""
        from memsyncd.operations.similar import patterns

        counts = {one.workspace.id: one.value for one in counted if one.value}
        common = patterns.find_shared_categories([*counts.values()], params.min_workspaces)
        chosen = [
            one.workspace
            for one in counted
            if not common.isdisjoint(counts.get(one.workspace.id, ()))
        ]
        most = max(
            patterns.MIN_PATTERN_SECTIONS, patterns.MAX_PATTERN_SECTIONS // max(1, len(chosen))
        )
        config = self._workspaces.config

        def read(workspace: Workspace, options: RunOptions) -> patterns.ReadSections:
            own = {key: n for key, n in counts[workspace.id].items() if key in common}
            return patterns.read_category_sections(
                workspace, own.keys(), sum(own.values()), config, options, most=most
            )

        return await self._federation.ask_each(chosen, self._prepare, read, end_s)
