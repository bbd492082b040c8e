"""What does a request wait for that wants to see more than the index says now, and for how long?

An index that is being opened, a generation, a look at the disk. What is waited for goes on when the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from memsyncd.engine.house import House
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import Busy, NotFresh

WAIT_S = 10.0
"""How long a request that waits for the disk does so unless it says."""
OPEN_S = 2.0
"""How long a request waits for a workspace that was added, or a daemon that was started, a moment ago."""


async def wait_until_open(workspaces: Sequence[Workspace], timeout_s: float) -> None:
    """Return when the indexes can be read, or cannot be opened, or after `timeout_s`."""
    opening = [workspace.opening for workspace in workspaces if workspace.readers is None and workspace.opening is not None]
    if opening:
        await asyncio.wait([asyncio.wrap_future(future) for future in opening], timeout=timeout_s)


async def wait_until_recovered(workspace: Workspace, timeout_s: float) -> None:
    """Return once no note is half changed by a change set that a kill interrupted. Raises Busy after `timeout_s`."""
    await wait_until_open([workspace], timeout_s)
    if workspace.readers is None and workspace.opening is not None and not workspace.opening.done():
        raise Busy("the workspace is being opened", hint="ask again in a moment, or look at: memsyncd status")


async def wait_for_disk(house: House, workspaces: Sequence[Workspace], timeout_s: float) -> frozenset[tuple[str, str]]:
    """Index what is on disk now. Gives the notes that are gone though still indexed: workspace ids and paths."""
    looks = [asyncio.wrap_future(house.rounds.look(workspace)) for workspace in workspaces]
    seen = await wait_for(asyncio.gather(*looks), timeout_s)
    return frozenset((workspace.id, path) for workspace, done in zip(workspaces, seen, strict=True) for path in done.absent)


async def wait_for(future: asyncio.Future[Any], timeout_s: float) -> Any:
    """The future's result, or NotFresh after `timeout_s`; what it stands for goes on, for it may be shared."""
    try:
        return await asyncio.wait_for(asyncio.shield(future), timeout_s)
    except TimeoutError:
        raise NotFresh(
            f"not fresh after {timeout_s:.1f} s: the index is still being brought up to date",
            hint="ask with a longer timeout_ms, or without waiting; see: memsyncd status",
        ) from None
