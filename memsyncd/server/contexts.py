"""How is the method `context` carried out? Wait for what it wants to see, build the block away from
the loop, name its parts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from memsyncd.core.search.context import Budget, ContextLines
from memsyncd.engine.context import AskedContext, Built, build_context
from memsyncd.engine.policies import Clock, SearchPolicy
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.protocol import fields
from memsyncd.protocol import search as search_protocol
from memsyncd.protocol.search import ContextParams
from memsyncd.server import convert
from memsyncd.server.asked import read_filters
from memsyncd.server.freshness import OPEN_S, WAIT_S, wait_for_disk, wait_until_open
from memsyncd.server.reads import request_arrival_s
from memsyncd.server.session import Session
from memsyncd.server.subscriptions import Subscriptions

InThread = Callable[..., Awaitable[Any]]


class Contexts:
    """Builds blocks for sessions. `in_thread` runs what reads away from the loop, `find_policy`
    says what is configured now.
    """

    def __init__(
        self,
        house: Workspaces,
        subscriptions: Subscriptions,
        clock: Clock,
        in_thread: InThread,
        find_policy: Callable[[], SearchPolicy],
    ) -> None:
        self._house = house
        self._subscriptions = subscriptions
        self._clock = clock
        self._in_thread = in_thread
        self._find_policy = find_policy

    async def build(
        self, _session: Session, params: ContextParams
    ) -> search_protocol.ContextResult:
        began_s = request_arrival_s(self._clock)
        workspace, policy = self._house.find(params.workspace), self._find_policy()
        was_open = workspace.readers is not None
        asked = _read_context(params, policy, self._clock.wall_s())
        if params.wait == "disk" or params.min_generation is not None:
            asked = await self._wait(workspace, params, asked, began_s)
            end_s = began_s + asked.timeout_s
        else:
            await wait_until_open([workspace], OPEN_S)
            # To open an index is no part of the default limit.
            end_s = (
                began_s if was_open or params.timeout_ms else self._clock.now_s()
            ) + asked.timeout_s
        built = await self._in_thread(partial(build_context, workspace, asked, policy), end_s)
        now_s = self._clock.now_s()
        freshness = convert.to_freshness_of([workspace], self._house.policy, now_s=now_s)
        return _to_result(workspace, built, freshness, took_ms=(now_s - began_s) * 1000)

    async def _wait(
        self, workspace: Workspace, params: ContextParams, asked: AskedContext, began_s: float
    ) -> AskedContext:
        """The question once the index says what it wants to see, with what is left of its time."""
        until_s = began_s + (params.timeout_ms / 1000 if params.timeout_ms else WAIT_S)
        hidden = asked.hidden
        if params.min_generation is not None:
            await wait_until_open([workspace], until_s - began_s)
            await self._subscriptions.wait_for_generation(
                [workspace], params.min_generation, until_s - began_s
            )
        if params.wait == "disk":
            hidden = await wait_for_disk(self._house, [workspace], until_s - self._clock.now_s())
        return replace(asked, hidden=hidden, timeout_s=until_s - began_s)


def _read_context(params: ContextParams, policy: SearchPolicy, now_s: float) -> AskedContext:
    return AskedContext(
        query=params.query,
        filters=read_filters(params.filters),
        budget=Budget(max_tokens=params.max_tokens, max_bytes=params.max_bytes),
        heading=" ".join(params.heading.split()),
        timeout_s=params.timeout_ms / 1000 if params.timeout_ms else policy.timeout_s,
        now_s=now_s,
    )


def _to_result(
    workspace: Workspace, built: Built, freshness: fields.Freshness, *, took_ms: float
) -> search_protocol.ContextResult:
    return search_protocol.ContextResult(
        workspace=workspace.id,
        text=built.block.text,
        tokens=built.block.n_tokens,
        included=_to_parts(built.block.included),
        left_out=_to_parts(built.block.omitted),
        unranked=built.n_unranked,
        why_empty=built.why_empty,
        freshness=freshness,
        took_ms=round(took_ms, 3),
    )


def _to_parts(parts: Sequence[ContextLines]) -> list[search_protocol.ContextPart]:
    return [
        search_protocol.ContextPart(
            anchor=part.chunk.anchor,
            path=part.chunk.path,
            start_line=part.span.start,
            end_line=part.span.end,
            heading=list(part.chunk.heading),
            kind=part.chunk.kind,
            reason=part.reason,
        )
        for part in parts
    ]
