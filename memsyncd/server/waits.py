"""Waits for an index to open, for a scan of the disk and for jobs, each with a time limit.

What is waited for continues when the time is over.
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
# How long a request waits for a workspace to open, when it was added or the daemon started a moment
# ago.
OPEN_S = 2.0
STALL_HINT = (
    "see what the folder is mounted from; `umount -l` detaches a disk that does not come back"
)

T = TypeVar("T")


async def wait_until_open(workspaces: Sequence[Workspace], timeout_s: float) -> None:
    """Return when the indexes can be read or have failed to open, or after `timeout_s`."""
    opening = [
        workspace.opening
        for workspace in workspaces
        if workspace.readers is None and workspace.opening is not None
    ]
    await wait_until_done(opening, timeout_s)


async def wait_until_done(futures: Iterable[Future[Any]], timeout_s: float) -> None:
    """Return when the futures are done, or after `timeout_s`; what they wait for continues.

    Unlike `asyncio.wait` this takes some microseconds only.
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
    """Return once recovery has finished change sets that a kill interrupted. Raises Busy after
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
    """Scan and index the disk now. Return notes that are gone but still indexed: workspace ids and
    paths. Raises NotFresh if anything cannot be read, since a search would miss it.
    """
    for workspace in chosen:
        if workspaces.stalls.is_stalled(workspace):
            raise make_stall_error(workspace)
    scans = [asyncio.wrap_future(workspaces.scheduler.scan(workspace)) for workspace in chosen]
    outcomes: list[SyncDone] = await wait_for(asyncio.gather(*scans), timeout_s)
    present = [done for done in outcomes if done.root_state != "missing"]
    unseen = [one for done in present for one in done.failed if one.code in UNSEEN_PROBLEMS]
    if unseen:
        hint = f"{unseen[0].hint}; or ask without waiting for the disk"
        raise NotFresh(f"not all can be searched: {describe_unseen(unseen)}", hint=hint)
    return frozenset(
        (workspace.id, path)
        for workspace, done in zip(chosen, outcomes, strict=True)
        for path in done.absent
    )


async def wait_for(future: asyncio.Future[Any], timeout_s: float) -> Any:
    """Return the future's result; raises NotFresh after `timeout_s`. Its work continues, because it
    may be shared.
    """
    # Its exception must not be reported as unseen if the client leaves.
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
    """Wait until the future is done, its workspace is stalled, or the time is over. True if it is
    done; its work continues otherwise.
    """
    # Its exception must not be reported as unseen if the client leaves.
    waiting.add_done_callback(forget)
    stall = workspaces.stalls.expect(workspace)
    await asyncio.wait((waiting, stall), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    return waiting.done()


async def wait_for_work(
    workspaces: Workspaces, workspace: Workspace, future: Future[T], timeout_s: float
) -> T:
    """Like `wait_for`, for work on the disk of this workspace: raises NotFresh as soon as the disk
    is stalled, too.
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
    """The error for a request whose disk does not answer."""
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
    """Retrieve the exception of a future that is no longer awaited, so that asyncio does not log
    it.
    """
    if not waiting.cancelled():
        waiting.exception()
