"""What does a request wait for that wants to see more than the index says now, and for how long?

An index that is being opened, a generation, a look at the disk. What is waited for goes on when the
time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from memsyncd.engine.workspace import STALL_FAULT, Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import Busy, NotFresh

WAIT_S = 10.0
"""How long a request that waits for the disk does so unless it says."""
OPEN_S = 2.0
"""How long a request waits for a workspace that was added, or a daemon that was started, a moment
ago."""
STALL_HINT = (
    "see what the folder is mounted from; `umount -l` lets go of a disk that never comes back"
)

T = TypeVar("T")


async def wait_until_open(workspaces: Sequence[Workspace], timeout_s: float) -> None:
    """Return when the indexes can be read, or cannot be opened, or after `timeout_s`."""
    opening = [
        workspace.opening
        for workspace in workspaces
        if workspace.readers is None and workspace.opening is not None
    ]
    if opening:
        await asyncio.wait([asyncio.wrap_future(future) for future in opening], timeout=timeout_s)


async def wait_until_recovered(workspace: Workspace, timeout_s: float) -> None:
    """Return once no note is half changed by a change set that a kill interrupted. Raises Busy
    after `timeout_s`.
    """
    await wait_until_open([workspace], timeout_s)
    if workspace.readers is None and workspace.opening is not None and not workspace.opening.done():
        raise Busy(
            "the workspace is being opened",
            hint="ask again in a moment, or look at: memsyncd status",
        )


async def wait_for_disk(
    house: Workspaces, workspaces: Sequence[Workspace], timeout_s: float
) -> frozenset[tuple[str, str]]:
    """Index what is on disk now. Gives the notes that are gone though still indexed: workspace ids
    and paths.
    """
    for workspace in workspaces:
        if house.stalls.is_stalled(workspace):
            raise say_stalled(workspace)
    looks = [asyncio.wrap_future(house.scheduler.scan(workspace)) for workspace in workspaces]
    seen = await wait_for(asyncio.gather(*looks), timeout_s)
    return frozenset(
        (workspace.id, path)
        for workspace, done in zip(workspaces, seen, strict=True)
        for path in done.absent
    )


async def wait_for(future: asyncio.Future[Any], timeout_s: float) -> Any:
    """The future's result, or NotFresh after `timeout_s`; what it stands for goes on, for it may be
    shared.
    """
    try:
        return await asyncio.wait_for(asyncio.shield(future), timeout_s)
    except TimeoutError:
        raise _say_late(timeout_s) from None


async def wait_unless_stalled(
    house: Workspaces,
    workspace: Workspace,
    waiting: asyncio.Future[Any],
    timeout_s: float | None = None,
) -> bool:
    """Wait until the future is done, its workspace is stalled, or the time is over. True if it is
    done; it goes on if not.
    """
    stall = house.stalls.expect(workspace)
    try:
        await asyncio.wait((waiting, stall), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        house.stalls.dismiss(workspace, stall)
    return waiting.done()


async def wait_for_work(
    house: Workspaces, workspace: Workspace, future: Future[T], timeout_s: float
) -> T:
    """As `wait_for`, for work that needs the disk of this workspace; NotFresh as soon as that is
    stalled, too.
    """
    waiting = asyncio.wrap_future(future)
    if await wait_unless_stalled(house, workspace, waiting, timeout_s):
        return waiting.result()
    waiting.add_done_callback(forget)
    raise say_stalled(workspace) if house.stalls.is_stalled(workspace) else _say_late(timeout_s)


def say_stalled(workspace: Workspace) -> NotFresh:
    """What is said to a request that cannot be carried out because the disk does not answer."""
    text = (
        workspace.condition.faults.get(STALL_FAULT, "")
        or f"the disk under {workspace.entry.root} does not answer"
    )
    return NotFresh(text, hint=STALL_HINT)


def _say_late(timeout_s: float) -> NotFresh:
    return NotFresh(
        f"not fresh after {timeout_s:.1f} s: the index is still being brought up to date",
        hint="ask with a longer timeout_ms, or without waiting; see: memsyncd status",
    )


def forget(waiting: asyncio.Future[Any]) -> None:
    """Look at a failure that nobody waits for any more, so that asyncio does not complain of it."""
    if not waiting.cancelled():
        waiting.exception()
