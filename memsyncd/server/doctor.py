"""What is found when a client has workspaces examined? What the daemon knows of them, what their
databases say, and, if it is asked to verify, whether the index equals the disk.

Each step reads in a thread and is short, so that searches go between. What fails for one workspace
is a finding of that one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from memsyncd.engine.browse import find_problems
from memsyncd.engine.doctor import (
    asks_for_rebuild,
    examine_index,
    examine_index_alone,
    examine_place,
    examine_records,
    say_mended,
    say_unexamined,
    say_unopened,
)
from memsyncd.engine.findings import (
    Finding,
    has_errors,
    judge_clock,
    judge_condition,
    judge_problems,
    judge_progress,
    judge_socket_problem,
)
from memsyncd.engine.policies import Clock
from memsyncd.engine.proof import (
    Compared,
    compare_piece,
    compare_rest,
    cut_pieces,
    judge_proof,
    list_pieces,
)
from memsyncd.engine.scheduler import JobFactory
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import MemsyncdError, NotFresh, StoreCorrupt, StoreFailed
from memsyncd.protocol.operations import DoctorParams, DoctorResult, FindingInfo
from memsyncd.server.freshness import OPEN_S, wait_for_work, wait_until_open
from memsyncd.server.session import Session

SYNC_ROUNDS = 3
"""How often notes that were saved while they were compared are synced and compared again."""
LANE_S = 20.0
"""How long an examination waits for its turn on the lane, where much may have to be indexed
first."""
VERIFY_S = 3600.0
"""How long notes that were saved meanwhile are waited for: verifying takes its time, and ends with
a stalled disk."""
STEP_S = 10.0
"""Writer and watcher take steps of milliseconds, seldom of seconds; who takes none for so long
stands still."""

InThread = Callable[..., Awaitable[Any]]

FindSocket = Callable[[], tuple[str, str]]


class Doctor:
    """Examines workspaces for sessions. `in_thread` runs what reads away from the loop."""

    def __init__(
        self,
        house: Workspaces,
        clock: Clock,
        in_thread: InThread,
        find_socket: FindSocket = lambda: ("", ""),
    ) -> None:
        """`find_socket` gives the socket's path and why no new client can connect, empty if one
        can.
        """
        self._house = house
        self._find_socket = find_socket
        self._clock = clock
        self._in_thread = in_thread
        self._clock_began_s = self._read_clock_s()
        self._steps: dict[str, asyncio.Future[None]] = {}
        self._owed_since_s = 0.0

    async def examine(self, _session: Session, params: DoctorParams) -> DoctorResult:
        """Examine one workspace, or all. Raises WorkspaceNotFound."""
        if params.workspace is None:
            chosen = sorted(
                self._house.by_id.values(),
                key=lambda workspace: (workspace.entry.name, workspace.id),
            )
        else:
            chosen = [self._house.find(params.workspace)]
        await wait_until_open(chosen, OPEN_S)
        drift_s = self._read_clock_s() - self._clock_began_s
        stalled = await self._find_stalled()
        own = [
            *judge_socket_problem(*self._find_socket()),
            *judge_clock(drift_s),
            *judge_progress(stalled),
        ]
        found = [_to_info(None, finding) for finding in own]
        for workspace in chosen:
            if "writer" in stalled or self._house.stalls.is_stalled(workspace):
                own = await self._look_from_aside(workspace)
            else:
                own = await self._examine_one(workspace, is_verified=params.verify)
            found += [_to_info(workspace.id, finding) for finding in own]
        return DoctorResult(findings=found)

    async def _examine_one(self, workspace: Workspace, *, is_verified: bool) -> list[Finding]:
        # First, for any other reading that met damage would have it mended.
        index = await self._examine_index(workspace, is_verified=is_verified)
        found = [*await self._look_from_aside(workspace), *index]
        found += [
            *await self._try(
                "records", partial(examine_records, workspace, is_thorough=is_verified)
            )
        ]
        if asks_for_rebuild(index):
            self._house.scheduler.report_damage(
                StoreCorrupt("index.db is damaged", workspace=workspace.id)
            )
        elif is_verified and not self._house.stalls.is_stalled(workspace):
            found += await self._verify(workspace)
        return found

    async def _look_from_aside(self, workspace: Workspace) -> list[Finding]:
        """What can be seen of it without the writer and without its notes."""
        health, now_s = self._house.watching.health(workspace), self._clock.wall_s()
        found = judge_condition(
            workspace.condition, health, self._house.policy, now_s=now_s, pending=workspace.pending
        )
        if workspace.index is not None:
            found += await self._try("problems", partial(_look_at_problems, workspace))
        return found

    async def _find_stalled(self) -> tuple[str, ...]:
        """Who makes no progress. One that owes a step is not asked again: who comes later waits for
        the rest of its time.
        """
        if all(step.done() for step in self._steps.values()):
            with contextlib.suppress(RuntimeError):  # the daemon is being stopped
                steps = {"writer": self._house.heartbeat(), "watcher": self._house.watching.probe()}
                self._steps = {name: asyncio.wrap_future(step) for name, step in steps.items()}
                self._owed_since_s = self._clock.now_s()
        if self._steps:
            await asyncio.wait(
                self._steps.values(),
                timeout=max(self._owed_since_s + STEP_S - self._clock.now_s(), 0),
            )
        return tuple(name for name, step in self._steps.items() if not step.done())

    async def _examine_index(self, workspace: Workspace, *, is_verified: bool) -> list[Finding]:
        if workspace.index is None and workspace.condition.is_indexing and not is_verified:
            return [
                say_unopened(workspace)
            ]  # nobody need wait until it is built to hear that it is
        found = await self._ask_lane(workspace, examine_place)
        if any(finding.check == "index" for finding in found):
            return found  # it is not open, not there, or another
        whole = await self._try("index", partial(examine_index, workspace, is_thorough=is_verified))
        if has_errors(whole):
            alone = await self._ask_lane(
                workspace, partial(examine_index_alone, is_thorough=is_verified)
            )
            whole = alone if has_errors(alone) else [say_mended(whole), *alone]
        return [*found, *whole]

    async def _ask_lane(
        self, workspace: Workspace, job: JobFactory[list[Finding]]
    ) -> list[Finding]:
        try:
            return list(
                await wait_for_work(
                    self._house, workspace, self._house.scheduler.run(workspace, job), LANE_S
                )
            )
        except NotFresh:
            # What it means that a disk does not answer is found with the workspace's other faults.
            return [] if self._house.stalls.is_stalled(workspace) else [say_unexamined(workspace)]
        except StoreFailed as failure:
            self._house.scheduler.report_damage(failure)
            return [_cannot("index", failure)]
        except MemsyncdError as failure:
            return [_cannot("index", failure)]

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
                    await self._in_thread(
                        self._compare(workspace, paths, compared), disk_of=workspace
                    )
                if is_last or not compared.late:
                    break
                late += len(compared.late)
                pieces = cut_pieces(sorted(compared.late))
                await wait_for_work(
                    self._house, workspace, self._house.scheduler.sync(workspace), VERIFY_S
                )
            await self._in_thread(partial(compare_rest, workspace, compared))
        except MemsyncdError as failure:
            return [_cannot("verify", failure)]
        return judge_proof(compared, n_synced=max(0, late - len(compared.late)))

    def _read_clock_s(self) -> float:
        """The wall clock without the time that went by, awake and asleep: it changes only if
        somebody sets the clock.
        """
        return self._clock.wall_s() - self._clock.now_s() - self._clock.asleep_s()

    def _compare(
        self, workspace: Workspace, paths: tuple[str, ...], compared: Compared
    ) -> Callable[[], None]:
        now_ns, policy = self._clock.wall_ns(), self._house.policy
        return partial(compare_piece, workspace, policy, paths, compared, now_ns=now_ns)


def _look_at_problems(workspace: Workspace) -> list[Finding]:
    # A problem without a path is a fault of the workspace, which is found as such.
    return judge_problems(problem for problem in find_problems(workspace) if problem.path)


def _cannot(check: str, failure: MemsyncdError) -> Finding:
    return Finding(
        level="error",
        check=check,
        what=f"this could not be looked at: {failure.message}",
        remedy=failure.hint,
    )


def _to_info(workspace: str | None, finding: Finding) -> FindingInfo:
    return FindingInfo(
        workspace=workspace,
        level=finding.level,
        check=finding.check,
        what=finding.what,
        where=finding.where,
        remedy=finding.remedy,
    )
