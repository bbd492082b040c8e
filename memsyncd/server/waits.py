"""Waits for an index to open, for a scan of the disk and for jobs, each with a time limit.

When the time is over, the waiting ends, and the work itself goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from memsyncd.engine.job_completions import call_soon
from memsyncd.engine.sync import UNSEEN_PROBLEMS, SyncDone, describe_unseen
from memsyncd.engine.workspace import STALL_FAULT, Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import Busy, NotFresh

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
    scans = [asyncio.wrap_future(workspaces.scheduler.scan(workspace)) for workspace in chosen]
    outcomes: list[SyncDone] = await wait_for(asyncio.gather(*scans), timeout_s)
    present = [done for done in outcomes if done.root_state != "missing"]
    failures = [failure for done in present for failure in done.failed]
    unseen = [failure for failure in failures if failure.code in UNSEEN_PROBLEMS]
    if unseen:
        hint = f"{unseen[0].hint}; or ask without waiting for the disk"
        raise NotFresh(f"not all can be searched: {describe_unseen(unseen)}", hint=hint)
    return frozenset(
        (workspace.id, path)
        for workspace, done in zip(chosen, outcomes, strict=True)
        for path in done.absent
    )


async def wait_for(future: asyncio.Future[Any], timeout_s: float) -> Any:
    """Return the future's result. Raises NotFresh after `timeout_s`; the work goes on, because
    others may wait for it, too.
    """
    # If the client leaves, asyncio must not report the exception as never retrieved.
    future.add_done_callback(forget)
    try:
        return await asyncio.wait_for(asyncio.shield(future), timeout_s)
    except TimeoutError:
        raise _make_late_error(timeout_s) from None


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
