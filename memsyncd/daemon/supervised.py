"""What does whoever supervises the daemon get to hear, and when?

`READY=1` once a search has been answered over the very socket that clients use; `STATUS=` in words for people; `WATCHDOG=1` for
as long as writer, watcher and store make progress; `RELOADING=1` and `STOPPING=1` when it is so. Without a supervisor nothing is
asked, said or woken for.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping
from typing import Any

from memsyncd.daemon.notify import Supervisor
from memsyncd.daemon.pulse import Pulse
from memsyncd.daemon.standing import Standing
from memsyncd.engine.workspace import Workspace
from memsyncd.logs import Event, get_log

ASK_AGAIN_S = 0.2
ASK_TIMEOUT_S = 10.0
FOLLOW_S = 1.0
"""How often the status is said anew while something is being indexed."""
NOT_YET = frozenset({"busy", "timeout"})
"""Codes of errors that mean: ask again."""
CHANGING = frozenset({"workspace.add", "workspace.remove"})
"""Methods that change what there is to look after."""
MAX_ANSWER_BYTES = 1 << 20

_SEARCH = {"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "memory", "workspace": "*", "limit": 1}}

log = get_log("daemon")


class Supervised:
    """Tells the supervisor, on the running loop, from `begin` to `end`. With no supervisor all of it does nothing."""

    def __init__(self, supervisor: Supervisor | None, pulse: Pulse, workspaces: Mapping[str, Workspace]) -> None:
        self._supervisor = supervisor
        self._pulse = pulse
        self._workspaces = workspaces
        self._standing = Standing()
        self._stalled: tuple[str, ...] = ()
        self.socket_problem = ""
        """Why no new client can connect; empty if one can."""
        self._said = ""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, socket_path: str) -> None:
        """The daemon listens: it is ready as soon as it answers."""
        if self._supervisor is not None:
            self._start("ready", self._become_ready(self._supervisor, socket_path))
            self._start("follow", self._follow_indexing())
            if self._supervisor.watchdog_s is not None:
                self._start("beat", self._beat(self._supervisor, self._supervisor.watchdog_s / 3))

    def reload(self, socket_path: str) -> None:
        """The configuration has been read anew: the daemon is ready again once it answers under it."""
        if self._supervisor is not None:
            self._supervisor.tell(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
            self._start("ready", self._become_ready(self._supervisor, socket_path))
            self._start("follow", self._follow_indexing())

    def heed(self, method: str) -> None:
        """A request was answered: some change what there is to look after, and the status with it."""
        if method in CHANGING:
            self.follow_indexing()

    def follow_indexing(self) -> None:
        """Say how far indexing is, from now on until nothing is indexed any more."""
        if self._supervisor is not None:
            self._start("follow", self._follow_indexing())

    def say_status(self) -> None:
        """Say how the daemon stands, if that is not what was said last."""
        if self._supervisor is None:
            return
        text = self._standing.render(self._workspaces.values(), self._stalled, self.socket_problem)
        if text != self._said:
            self._said = text
            self._supervisor.tell(STATUS=text)

    async def end(self) -> None:
        """The daemon stops: say so, and nothing after it."""
        if self._supervisor is None:
            return
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._supervisor.tell(STOPPING=1, STATUS="stopping")

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        if name in self._tasks:
            self._tasks[name].cancel()
        self._tasks[name] = asyncio.get_running_loop().create_task(work)

    async def _become_ready(self, supervisor: Supervisor, socket_path: str) -> None:
        while not await is_answering(socket_path):
            # A large index may take its time to open: that is no failed start.
            supervisor.tell(EXTEND_TIMEOUT_USEC=round(3e6 * ASK_TIMEOUT_S))
            await asyncio.sleep(ASK_AGAIN_S)
        supervisor.tell(READY=1)
        self.say_status()

    async def _follow_indexing(self) -> None:
        while any(workspace.condition.state == "indexing" for workspace in self._workspaces.values()):
            self.say_status()
            await asyncio.sleep(FOLLOW_S)
        self.say_status()

    async def _beat(self, supervisor: Supervisor, third_s: float) -> None:
        """Of the time that the supervisor waits a third is for the proof and a third for rest, so that a beat is never late."""
        while True:
            self._stalled = await self._pulse.find_stalled(third_s)
            self.say_status()
            if self._stalled:
                log.error(Event.SYNC_FAILED, reason=f"no progress for {third_s:g} s: {', '.join(self._stalled)}")
            else:
                supervisor.tell(WATCHDOG=1)
                await asyncio.sleep(third_s)


async def is_answering(socket_path: str) -> bool:
    """Whether a search is answered at this path now, be it with an error that asking again would not mend."""
    try:
        answer = await asyncio.wait_for(_ask(socket_path), ASK_TIMEOUT_S)
    except (OSError, ValueError, TimeoutError):
        return False
    return answer.get("error", {}).get("data", {}).get("code") not in NOT_YET


async def _ask(socket_path: str) -> dict[str, Any]:
    reader, writer = await asyncio.open_unix_connection(socket_path, limit=MAX_ANSWER_BYTES)
    try:
        writer.write(json.dumps(_SEARCH).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await reader.readline())
        return answer
    finally:
        writer.close()
