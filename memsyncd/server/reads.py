"""Run reads for clients on the query threads in fair turns; wait for indexes, scans and jobs.

The time of a read counts from its request's arrival. A read that is overdue before a slot is free
is refused and does not run. A read of a workspace's disk takes no slot: the disk may block it, and
the query threads run a single disk read per workspace at a time. A long work, such as a plan over
all sections, waits for other long works alone: no other read waits for it, and it pauses for them.

Requests wait for an index to open, for a scan of the disk and for jobs, each with a time limit. The
work itself continues when the time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from memsyncd.core.turns import FairQueue, Flow
from memsyncd.engine.clock import Clock
from memsyncd.engine.worker import QueryPool
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import Busy, NotFresh, StoreFailed
from memsyncd.server.session import Session, current_request
from memsyncd.store.connection import CancellationToken

if TYPE_CHECKING:
    pass
from collections.abc import Iterable, Sequence
from concurrent.futures import Future

from memsyncd.engine.job_completions import call_soon
from memsyncd.engine.sync import UNSEEN_PROBLEMS, describe_unseen
from memsyncd.engine.workspace import STALL_FAULT

REST_FACTOR = 10
"""After a failed try on the event loop the next try waits for this many times its duration."""
DISK_TIMEOUT_S = 30.0
"""How long a read waits for its disk; a read of a disk that is known to be stalled is refused."""

Waiter = asyncio.Future[Any]
"""The future of a waiting read; its result is the `Started` of the queue."""


class Reads:
    """Runs reads on `threads`, at most `max_running` at once, for the client of the request."""

    def __init__(
        self, workspaces: Workspaces, threads: QueryPool, clock: Clock, max_running: int
    ) -> None:
        self.threads = threads
        self._workspaces = workspaces
        self._clock = clock
        self._queue = ReadQueue(max_running)
        self._long_works = ReadQueue(1)
        self.n_pending = 0
        """Reads that wait or run."""
        self.on_long_work_ended: Callable[[], None] = lambda: None
        """Called after each long work, which leaves much freed memory behind."""
        workspaces.stalls.add_pool(threads.pool)

    async def run(
        self,
        read: Callable[[], T],
        end_s: float = math.inf,
        *,
        disk_of: Workspace | None = None,
        is_long: bool = False,
    ) -> T:
        """Return the result of `read`. It is stopped when the client leaves, and at `end_s`.
        `is_long` says that it is a long work, which must read in steps.

        A read of a workspace's disk names the workspace. Raises NotFresh if no slot is free until
        `end_s`, or if that disk does not answer. A damaged index is reported for its repair.
        """
        self.n_pending += 1
        try:
            if disk_of is not None:
                return await self._read_disk(disk_of, read, end_s)
            origin = current_request.get()
            # The time of a long work says nothing about the client's other reads.
            flow: Flow[Waiter] = origin.session.reads if origin and not is_long else Flow()
            queue = self._long_works if is_long else self._queue
            async with queue.slot(flow, end_s) as slot:
                left_s = end_s - self._clock.now_s()
                token = CancellationToken(left_s, is_long=is_long or slot.is_long)
                return await self._run_in_thread(read, token, slot)
        except StoreFailed as failure:
            self._workspaces.scheduler.report_damage(failure)
            raise
        finally:
            self.n_pending -= 1
            if is_long:
                self.on_long_work_ended()

    async def _run_in_thread(
        self, read: Callable[[], T], token: CancellationToken, slot: Slot
    ) -> T:
        def run() -> T:
            # Processor time: a read that waits for other threads is not a long one.
            began_s = time.thread_time()
            try:
                return token.run(read)
            finally:
                slot.took_s = time.thread_time() - began_s

        try:
            return await asyncio.wrap_future(self.threads.submit(run))
        finally:
            token.cancel()

    async def _read_disk(self, workspace: Workspace, read: Callable[[], T], end_s: float) -> T:
        if self._workspaces.stalls.is_stalled(workspace):
            raise make_stall_error(workspace)
        token = CancellationToken(end_s - self._clock.now_s())
        future = self.threads.read_disk(workspace.id, partial(token.run, read))
        try:
            waiting = asyncio.wrap_future(future)
            if await wait_unless_stalled(self._workspaces, workspace, waiting, DISK_TIMEOUT_S):
                return waiting.result()
            if self._workspaces.stalls.is_stalled(workspace):
                raise make_stall_error(workspace)
            raise NotFresh(
                f"reading the notes took longer than {DISK_TIMEOUT_S:.0f} s and was given up",
                hint="name fewer notes, or narrow what is asked for",
            )
        finally:
            token.cancel()
            future.cancel()


class Slot:
    """The place of a running read. Its holder sets `took_s`, by which the queue orders reads.

    `is_long` says whether the client's reads were long so far.
    """

    __slots__ = ("is_long", "took_s")

    def __init__(self, *, is_long: bool) -> None:
        self.is_long = is_long
        self.took_s: float | None = None


class ReadQueue:
    """Lets reads wait for a slot, in the order of a fair queue; there are `max_running` slots."""

    __slots__ = ("_queue",)

    def __init__(self, max_running: int) -> None:
        self._queue: FairQueue[Waiter] = FairQueue(max_running)

    @contextlib.asynccontextmanager
    async def slot(self, flow: Flow[Waiter], end_s: float = math.inf) -> AsyncIterator[Slot]:
        """Hold a slot. Raises NotFresh if there is none until `end_s`, by the loop's clock."""
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._queue.push(flow, waiter)
        self._start_waiting()
        timer = None if end_s == math.inf else loop.call_at(end_s, _expire, waiter)
        slot = None
        try:
            started = await waiter
            if loop.time() >= end_s:
                raise overdue_error()
            slot = Slot(is_long=started.was_slow)
            yield slot
        finally:
            if timer is not None:
                timer.cancel()
            waiter.cancel()
            if waiter.cancelled() or waiter.exception() is not None:
                self._queue.remove(flow, waiter)
            else:
                self._queue.finish(waiter.result(), None if slot is None else slot.took_s)
            self._start_waiting()

    def _start_waiting(self) -> None:
        for started in iter(self._queue.start_next, None):
            if started.job.done():  # expired or cancelled: its task has not run since
                self._queue.finish(started)
            else:
                started.job.set_result(started)


def overdue_error() -> NotFresh:
    """Make the error of a request whose time was over before it could run."""
    return NotFresh(
        "the time for this request was over before it could run: other requests ran meanwhile",
        hint="ask again, send fewer requests at once, or ask with a longer timeout_ms",
    )


def _expire(waiter: Waiter) -> None:
    if not waiter.done():
        waiter.set_exception(overdue_error())


class LoopAdmission:
    """Decides which searches are tried on the event loop before they go to a thread.

    A failed try holds up all clients, and a thread repeats its work. So a client gets no try while
    another request of its own waits or runs, and no try while its searches take long. After a
    failed try, clients without a known short search get no try for ten times its duration.
    """

    __slots__ = ("_clock", "_rest_until_s")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rest_until_s = -math.inf

    def may_try(self, session: Session, n_own: int = 0) -> bool:
        """True if a search may be tried on the event loop. `n_own` is the number of the session's
        pending requests that stand for this search.
        """
        if session.n_pending > n_own or session.reads.is_slow:
            return False
        return session.reads.expected_s is not None or self._clock.now_s() >= self._rest_until_s

    @contextlib.contextmanager
    def trying(self, session: Session) -> Iterator[None]:
        """Measure the try inside. It has failed if it raises."""
        began_s = time.thread_time()
        try:
            yield
        except BaseException:
            took_s = time.thread_time() - began_s
            self._rest_until_s = self._clock.now_s() + REST_FACTOR * took_s
            raise
        session.reads.note(time.thread_time() - began_s)


def request_arrival_s(clock: Clock) -> float:
    """Return when the current request arrived; without a request, the present time."""
    origin = current_request.get()
    return clock.now_s() if origin is None else origin.arrived_s


# --- waiting --------------------------------------------------------------------------------------

# How long a request waits for the disk by default.
WAIT_S = 10.0
# How long a request waits for a workspace to open, if the daemon has just started or the workspace
# was just added.
OPEN_S = 2.0
STALL_HINT = (
    "see what the folder is mounted from; `umount -l` detaches a disk that does not come back"
)

T = TypeVar("T")


async def wait_until_open(workspaces: Sequence[Workspace], timeout_s: float) -> None:
    """Wait until each index can be read or has failed to open, at most `timeout_s`."""
    opening = [
        workspace.opening
        for workspace in workspaces
        if workspace.readers is None and workspace.opening is not None
    ]
    await wait_until_done(opening, timeout_s)


async def wait_until_done(futures: Iterable[Future[Any]], timeout_s: float) -> None:
    """Wait until the futures are done, at most `timeout_s`. Their work goes on in any case.

    This takes a few microseconds, much less than `asyncio.wait`.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + timeout_s
    for future in futures:
        done = loop.create_future()
        timer = loop.call_at(end_s, _release, done)
        # Called at once if the future is done.
        release = partial(call_soon, loop, partial(_release, done))
        future.add_done_callback(lambda _, release=release: release())  # type: ignore[misc]
        try:
            await done
        finally:
            timer.cancel()


def _release(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


async def wait_until_recovered(workspace: Workspace, timeout_s: float) -> None:
    """Wait until recovery has finished the change sets that a kill interrupted. Raises Busy after
    `timeout_s`.
    """
    await wait_until_open([workspace], timeout_s)
    if workspace.readers is None and workspace.opening is not None and not workspace.opening.done():
        raise Busy(
            "the workspace is being opened",
            hint="retry in a moment, or see: memsyncd status",
        )


async def wait_for_disk(
    workspaces: Workspaces, chosen: Sequence[Workspace], timeout_s: float
) -> frozenset[tuple[str, str]]:
    """Scan and index the disk now. Return the notes that are gone but still indexed, as pairs of
    workspace id and path. Raises NotFresh if a note cannot be read, because a search would miss it.
    """
    for workspace in chosen:
        if workspaces.stalls.is_stalled(workspace):
            raise make_stall_error(workspace)
    scans = [workspaces.scheduler.scan(workspace) for workspace in chosen]
    await wait_until_done(scans, timeout_s)
    if not all(scan.done() for scan in scans):
        raise _make_late_error(timeout_s)
    outcomes = [scan.result() for scan in scans]
    present = [done for done in outcomes if done.root_state != "missing"]
    unseen = [
        problem for done in present for problem in done.failed if problem.code in UNSEEN_PROBLEMS
    ]
    if unseen:
        hint = f"{unseen[0].hint}; or ask without waiting for the disk"
        raise NotFresh(f"not all can be searched: {describe_unseen(unseen)}", hint=hint)
    return frozenset(
        (workspace.id, path)
        for workspace, done in zip(chosen, outcomes, strict=True)
        for path in done.absent
    )


async def wait_unless_stalled(
    workspaces: Workspaces,
    workspace: Workspace,
    waiting: asyncio.Future[Any],
    timeout_s: float | None = None,
) -> bool:
    """Wait until the future is done, its workspace is stalled, or the time is over. True if the
    future is done; if not, its work goes on.
    """
    # If the client leaves, asyncio must not report the exception as never retrieved.
    waiting.add_done_callback(forget)
    stall = workspaces.stalls.expect(workspace)
    await asyncio.wait((waiting, stall), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    return waiting.done()


async def wait_for_work(
    workspaces: Workspaces, workspace: Workspace, future: Future[T], timeout_s: float
) -> T:
    """Return the result of work on the disk of this workspace. Raises NotFresh after `timeout_s`,
    or as soon as the disk is stalled.
    """
    waiting = asyncio.wrap_future(future)
    if await wait_unless_stalled(workspaces, workspace, waiting, timeout_s):
        return waiting.result()
    raise (
        make_stall_error(workspace)
        if workspaces.stalls.is_stalled(workspace)
        else _make_late_error(timeout_s)
    )


def make_stall_error(workspace: Workspace) -> NotFresh:
    """Make the error for a request while the disk under its workspace does not answer."""
    text = (
        workspace.condition.faults.get(STALL_FAULT, "")
        or f"the disk under {workspace.entry.root} does not answer"
    )
    return NotFresh(text, hint=STALL_HINT)


def _make_late_error(timeout_s: float) -> NotFresh:
    return NotFresh(
        f"not fresh after {timeout_s:.1f} s: the index is still being brought up to date",
        hint="ask with a longer timeout_ms, or without waiting; see: memsyncd status",
    )


def forget(waiting: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a future that nobody awaits any more, so that asyncio does not log
    it.
    """
    if not waiting.cancelled():
        waiting.exception()
