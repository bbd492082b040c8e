"""Finds the workspace that a path belongs to, and looks at folders that are to be added, away from the event loop.

Whatever touches a path may block on a disk that does not answer. A path is then taken for the workspace that its text names.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

from memsyncd.engine.house import House
from memsyncd.engine.queries import QueryThreads
from memsyncd.engine.registry import SeenFolder
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import Busy
from memsyncd.server.sockets import check_outside
from memsyncd.server.waits import STALL_HINT

FIND_S, ADD_S, LIST_S = 2.0, 5.0, 1.0

T = TypeVar("T")


class Places:
    """Looks at paths on the threads that read for clients."""

    def __init__(self, house: House, threads: QueryThreads, socket: str) -> None:
        self._house = house
        self._threads = threads
        self._socket = socket

    def has_to_look(self, text: str | None) -> bool:
        """True if only the disk can tell which workspace this names."""
        return text is not None and text.startswith(("/", "~")) and not self._house.is_root(text)

    async def find(self, path: str) -> Workspace:
        """The workspace that a path belongs to. Raises WorkspaceNotFound."""
        near = self._house.find_near(path)
        if near is not None and self._house.stalls.is_stalled(near):
            return near
        key = path if near is None else near.id
        try:
            return self._house.find(await self._ask(key, lambda: self._house.find_id(path), FIND_S))
        except TimeoutError:
            if near is None:
                raise _say_silent(path) from None
            return near

    async def look_at_new(self, path: str) -> SeenFolder:
        """What stands at a path that is to be added. Raises BadConfig, BadRequest, and Busy if the disk does not answer."""
        stalled = frozenset(one.id for one in self._house.workspaces.values() if self._house.stalls.is_stalled(one))

        def look() -> SeenFolder:
            check_outside(self._socket, [path])
            return self._house.see_folder(path, stalled)

        try:
            return await self._ask(path, look, ADD_S)
        except TimeoutError:
            raise _say_silent(path) from None

    async def look_for_memory(self, workspaces: list[Workspace]) -> None:
        """Find out of each workspace whether there is memory, unless that is known; what does not answer stays unknown."""
        unknown = [one for one in workspaces if one.has_memory is None and not self._house.stalls.is_stalled(one)]
        asking = [self._ask(one.id, one.look_for_memory, LIST_S) for one in unknown]
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, key: str, look: Callable[[], T], limit_s: float) -> T:
        self._house.stalls.arm()
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._threads.read_disk(key, look)), limit_s)
        finally:
            self._house.stalls.relax()


def _say_silent(path: str) -> Busy:
    folder = os.path.dirname(path)
    return Busy(f"the disk under {folder}, or one that another workspace lies on, does not answer", hint=STALL_HINT)
