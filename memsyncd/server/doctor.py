"""What is found when a client has workspaces examined? What the daemon knows of them, what their databases say, and, if it is
asked to verify, whether the index equals the disk.

Each step reads in a thread and is short, so that searches go between. What fails for one workspace is a finding of that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from memsyncd.engine.browse import find_problems
from memsyncd.engine.doctor import examine_index, examine_records
from memsyncd.engine.findings import Finding, judge_condition, judge_problems
from memsyncd.engine.house import House
from memsyncd.engine.policies import Clock
from memsyncd.engine.proof import Compared, compare_piece, compare_rest, cut_pieces, judge_proof, list_pieces
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import MemsyncdError, StoreCorrupt
from memsyncd.server.freshness import OPEN_S, wait_until_open
from memsyncd.server.session import Session
from memsyncd.wire.doctor import DoctorParams, DoctorResult, FindingInfo

SYNC_ROUNDS = 3
"""How often notes that were saved while they were compared are synced and compared again."""

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Doctor:
    """Examines workspaces for sessions. `in_thread` runs what reads away from the loop."""

    def __init__(self, house: House, clock: Clock, in_thread: InThread) -> None:
        self._house = house
        self._clock = clock
        self._in_thread = in_thread

    async def examine(self, _session: Session, params: DoctorParams) -> DoctorResult:
        """Examine one workspace, or all. Raises WorkspaceNotFound."""
        if params.workspace is None:
            chosen = sorted(self._house.workspaces.values(), key=lambda workspace: (workspace.entry.name, workspace.id))
        else:
            chosen = [self._house.find(params.workspace)]
        await wait_until_open(chosen, OPEN_S)
        return DoctorResult(
            findings=[
                _to_info(workspace, finding)
                for workspace in chosen
                for finding in await self._examine_one(workspace, is_verified=params.verify)
            ]
        )

    async def _examine_one(self, workspace: Workspace, *, is_verified: bool) -> list[Finding]:
        health = self._house.watching.health(workspace)
        found = judge_condition(workspace.condition, health, self._house.policy, now_s=self._clock.wall_s())
        faults = len(workspace.condition.faults)
        found += await self._try("problems", lambda: judge_problems(find_problems(workspace)[faults:]))
        found += await self._try("index", partial(examine_index, workspace, is_thorough=is_verified))
        found += await self._try("records", partial(examine_records, workspace, is_thorough=is_verified))
        is_damaged = any(finding.check == "index" and finding.level == "error" for finding in found)
        if is_damaged:
            self._house.rounds.report_damage(StoreCorrupt("index.db is damaged", workspace=workspace.id))
        if is_verified and not is_damaged and workspace.readers is not None:
            found += await self._verify(workspace)
        return found

    async def _try(self, check: str, look: Callable[[], list[Finding]]) -> list[Finding]:
        try:
            return list(await self._in_thread(look))
        except MemsyncdError as failure:
            return [_cannot(check, failure)]

    async def _verify(self, workspace: Workspace) -> list[Finding]:
        compared, late = Compared(), 0
        try:
            pieces = await self._in_thread(partial(list_pieces, workspace))
            for is_last in (False,) * SYNC_ROUNDS + (True,):
                for paths in pieces:
                    await self._in_thread(self._compare(workspace, paths, compared))
                if is_last or not compared.late:
                    break
                late += len(compared.late)
                pieces = cut_pieces(sorted(compared.late))
                await asyncio.wrap_future(self._house.rounds.sync(workspace))
            await self._in_thread(partial(compare_rest, workspace, compared))
        except MemsyncdError as failure:
            return [_cannot("verify", failure)]
        return judge_proof(compared, n_synced=max(0, late - len(compared.late)))

    def _compare(self, workspace: Workspace, paths: tuple[str, ...], compared: Compared) -> Callable[[], None]:
        now_ns, policy = self._clock.wall_ns(), self._house.policy
        return partial(compare_piece, workspace, policy, paths, compared, now_ns=now_ns)


def _cannot(check: str, failure: MemsyncdError) -> Finding:
    return Finding(level="error", check=check, what=f"this could not be looked at: {failure.message}", remedy=failure.hint)


def _to_info(workspace: Workspace, finding: Finding) -> FindingInfo:
    return FindingInfo(
        workspace=workspace.id,
        level=finding.level,
        check=finding.check,
        what=finding.what,
        where=finding.where,
        remedy=finding.remedy,
    )
