"""Answers `patterns`: asks several workspaces in two rounds, and compares what they have read.

Each round has half of the time. A workspace that fails or is late in either is named in the answer
and left out, as in a search of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from memsyncd.engine import similar
from memsyncd.engine.clock import Clock
from memsyncd.engine.search import RunOptions
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest
from memsyncd.protocol.search import Patterns, PatternsParams
from memsyncd.server.federation import Federation, WorkspaceRead, describe_workspace_part
from memsyncd.server.operations import choose_named, describe_freshness
from memsyncd.server.session import InThread, MethodCall, Session
from memsyncd.server.waits import OPEN_S, wait_until_open

PATTERNS_S = 20.0


class PatternMethods:
    """Carries out the method; `in_thread` runs what computes off the event loop."""

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
        self.methods: dict[str, MethodCall] = {"patterns": self._find}

    async def _find(self, _session: Session, params: PatternsParams) -> Patterns:
        start_s = self._clock.now_s()
        chosen = choose_named(self._workspaces, params.workspace)
        are_named = params.workspace not in (None, "*")
        if len(chosen) < params.min_workspaces and are_named:
            raise BadRequest(
                f"patterns: there are {len(chosen)} workspaces, fewer than min_workspaces",
                hint="name more workspaces, or * for all",
            )
        limit_s = params.timeout_ms / 1000 if params.timeout_ms else PATTERNS_S
        end_s = start_s + limit_s
        counted = await self._federation.ask_each(
            chosen,
            self._prepare,
            lambda one, options: similar.read_categories(one, params, options.timeout_s or limit_s),
            start_s + limit_s / 2,
        )
        read = await self._read(counted, params, end_s)
        rounds: tuple[Sequence[WorkspaceRead[Any]], ...] = (counted, read)
        errors = {one.workspace.id: one.error for several in rounds for one in several}
        values = [one.value for one in read if one.value is not None]
        found = await self._in_thread(partial(similar.find_patterns, values, params), end_s)
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
        counted: list[WorkspaceRead[dict[similar.Category, int]]],
        params: PatternsParams,
        end_s: float,
    ) -> list[WorkspaceRead[similar.ReadSections]]:
        """Read the sections of the kinds and topics that several workspaces have."""
        counts = {one.workspace.id: one.value for one in counted if one.value}
        common = similar.find_shared_categories([*counts.values()], params.min_workspaces)
        chosen = [
            one.workspace
            for one in counted
            if not common.isdisjoint(counts.get(one.workspace.id, ()))
        ]
        most = max(
            similar.MIN_PATTERN_SECTIONS, similar.MAX_PATTERN_SECTIONS // max(1, len(chosen))
        )
        config = self._workspaces.config

        def read(workspace: Workspace, options: RunOptions) -> similar.ReadSections:
            own = {key: n for key, n in counts[workspace.id].items() if key in common}
            return similar.read_category_sections(
                workspace, own.keys(), sum(own.values()), config, options, most=most
            )

        return await self._federation.ask_each(chosen, self._prepare, read, end_s)
