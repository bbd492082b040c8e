"""Examines workspaces for the method `doctor`: state, databases, and on request index against disk.

Each step reads in a thread and is short, so that searches run in between. A failure in a workspace
is a finding about it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace as replace_fields

from memsyncd.engine.browse import find_problems
from memsyncd.engine.checks import (
    check_condition,
    check_problems,
    has_errors,
    make_finding,
)
from memsyncd.engine.clock import Clock
from memsyncd.engine.scheduler import JobFactory
from memsyncd.engine.verify import (
    Comparison,
    compare_batch,
    describe_comparison,
    describe_unopened,
    examine_index,
    examine_index_on_worker,
    examine_records,
    find_orphans,
    list_batches,
    needs_rebuild,
    split_batches,
)
from memsyncd.engine.workspace import Workspace, read_freshness
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import MemsyncdError, NotFresh, StoreCorrupt, StoreFailed
from memsyncd.operations.status.declare import DoctorParams, DoctorResult, FindingInfo
from memsyncd.operations.workspace_info import choose_workspaces
from memsyncd.server.reads import OPEN_S, wait_for_work, wait_until_open
from memsyncd.server.session import InThread, Session
from memsyncd.store.connection import ACCESS_HINT

# How often notes are synced and compared again that were saved while they were compared.
MAX_SYNCS = 3
# How long an examination waits for its turn on the worker, which may have much to index first.
TURN_S = 20.0
# How long to wait for notes that were saved meanwhile: verifying takes long, and ends if the disk
# stalls.
VERIFY_S = 3600.0
# Steps of writer and watcher take milliseconds, seldom seconds. If they take no step for this time,
# they are stalled.
STEP_S = 10.0


class Doctor:
    """Examines workspaces for sessions. `in_thread` runs reads off the event loop."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        in_thread: InThread,
        find_problems: Callable[[], tuple[str, str, str]],
    ) -> None:
        """`find_problems` returns the socket's path, why no new client can connect, and why the
        folders are not locked; a reason is empty if there is no such problem.
        """
        self._workspaces = workspaces
        self._find_problems = find_problems
        self._clock = clock
        self._in_thread = in_thread
        self._steps: dict[str, asyncio.Future[None]] = {}
        self._owed_since_s = 0.0

    async def examine(self, _session: Session, params: DoctorParams) -> DoctorResult:
        """Examine one workspace, or all. Raises WorkspaceNotFound."""
        chosen = choose_workspaces(self._workspaces, params.workspace)
        await wait_until_open(chosen, OPEN_S)
        stalled = await self._find_stalled()
        socket, socket_problem, lock_problem = self._find_problems()
        findings = [
            *(
                [make_finding("socket", where=socket, text=socket_problem)]
                if socket_problem
                else []
            ),
            *([make_finding("lock", text=lock_problem)] if lock_problem else []),
            *(make_finding("no_progress", part=name) for name in stalled),
        ]
        for workspace in chosen:
            if "writer" in stalled or self._workspaces.stalls.is_stalled(workspace):
                own = await self._check_state(workspace)
            else:
                own = await self._examine_one(workspace, is_verified=params.verify)
            findings += [replace_fields(finding, workspace=workspace.id) for finding in own]
        return DoctorResult(findings=findings)

    async def _examine_one(self, workspace: Workspace, *, is_verified: bool) -> list[FindingInfo]:
        # This read comes first, because any other read that meets damage starts a rebuild.
        index = await self._examine_index(workspace, is_verified=is_verified)
        findings = [*await self._check_state(workspace), *index]
        findings += [
            *await self._examine(
                "records", partial(examine_records, workspace, is_thorough=is_verified)
            )
        ]
        if needs_rebuild(index):
            self._workspaces.scheduler.report_damage(
                StoreCorrupt("index.db is damaged", workspace=workspace.id)
            )
        elif is_verified and not self._workspaces.stalls.is_stalled(workspace):
            findings += await self._verify(workspace)
        return findings

    async def _check_state(self, workspace: Workspace) -> list[FindingInfo]:
        """Check the state that needs neither the writer nor the reading of notes."""
        config = self._workspaces.config
        findings = check_condition(
            workspace.condition,
            read_freshness(workspace, config, now_s=self._clock.now_s()),
            self._workspaces.watching.health(workspace),
            config,
            name=workspace.entry.name,
            now_s=self._clock.wall_s(),
        )
        if workspace.index is not None:
            findings += await self._examine("problems", partial(_check_problems, workspace))
        return findings

    async def _find_stalled(self) -> tuple[str, ...]:
        """Name the parts that make no progress. A part that still owes a step gets no second step:
        a later request waits for the rest of its time.
        """
        if all(step.done() for step in self._steps.values()):
            with contextlib.suppress(RuntimeError):  # the daemon is being stopped
                steps = {
                    "writer": self._workspaces.heartbeat(),
                    "watcher": self._workspaces.watching.probe(),
                }
                self._steps = {name: asyncio.wrap_future(step) for name, step in steps.items()}
                self._owed_since_s = self._clock.now_s()
        if self._steps:
            await asyncio.wait(
                self._steps.values(),
                timeout=max(self._owed_since_s + STEP_S - self._clock.now_s(), 0),
            )
        return tuple(name for name, step in self._steps.items() if not step.done())

    async def _examine_index(self, workspace: Workspace, *, is_verified: bool) -> list[FindingInfo]:
        if workspace.index is None and workspace.condition.is_indexing and not is_verified:
            return [describe_unopened(workspace)]  # known without waiting until it is built
        if workspace.index is not None:
            findings = await self._examine(
                "index", partial(examine_index, workspace, is_thorough=is_verified)
            )
            if not has_errors(findings):
                return findings
        # A rebuild may have replaced the file meanwhile; while the worker reads, none can.
        job: JobFactory[list[FindingInfo]] = partial(
            examine_index_on_worker, is_thorough=is_verified
        )
        try:
            work = self._workspaces.scheduler.run(workspace, job)
            findings = await wait_for_work(self._workspaces, workspace, work, TURN_S)
        except NotFresh:
            # A disk that does not answer is a fault of the workspace, and already a finding.
            if self._workspaces.stalls.is_stalled(workspace):
                return []
            return [make_finding("index_waiting", n=workspace.condition.n_pending)]
        except MemsyncdError as failure:
            if isinstance(failure, StoreFailed):
                self._workspaces.scheduler.report_damage(failure)
            return [_make_failure("index", failure)]
        return findings

    async def _examine(
        self, check: str, read: Callable[[], list[FindingInfo]]
    ) -> list[FindingInfo]:
        try:
            return list(await self._in_thread(read))
        except MemsyncdError as failure:
            return [_make_failure(check, failure)]
        except OSError as failure:
            reason = failure.strerror or type(failure).__name__
            return [_make_failure(check, StoreFailed(reason, hint=ACCESS_HINT))]

    async def _verify(self, workspace: Workspace) -> list[FindingInfo]:
        comparison, n_changed = Comparison(), 0
        try:
            batches = await self._in_thread(partial(list_batches, workspace), disk_of=workspace)
            for is_last in (False,) * MAX_SYNCS + (True,):
                for paths in batches:
                    await self._in_thread(
                        self._compare(workspace, paths, comparison), disk_of=workspace
                    )
                if is_last or not comparison.changed:
                    break
                n_changed += len(comparison.changed)
                batches = split_batches(sorted(comparison.changed))
                await wait_for_work(
                    self._workspaces,
                    workspace,
                    self._workspaces.scheduler.sync(workspace),
                    VERIFY_S,
                )
            await self._in_thread(partial(find_orphans, workspace, comparison))
        except MemsyncdError as failure:
            return [_make_failure("verify", failure)]
        n_synced = max(0, n_changed - len(comparison.changed))
        return describe_comparison(comparison, n_synced=n_synced)

    def _compare(
        self, workspace: Workspace, paths: tuple[str, ...], comparison: Comparison
    ) -> Callable[[], None]:
        now_ns, config = self._clock.wall_ns(), self._workspaces.config
        return partial(compare_batch, workspace, config, paths, comparison, now_ns=now_ns)


def _check_problems(workspace: Workspace) -> list[FindingInfo]:
    # A problem without a path is a fault of the workspace, and already a finding.
    return check_problems(problem for problem in find_problems(workspace) if problem.path)


def _make_failure(check: str, failure: MemsyncdError) -> FindingInfo:
    return make_finding("failure", check=check, text=failure.message, hint=failure.hint)
