"""Does the daemon still get on with its work? Writer, watcher and store each do one small thing, or are named for not doing it.

The event loop needs no proof of its own: if it stands still, nobody asks this question. A part that answers with an error
answers; what to do about errors is others' business.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from memsyncd.engine.house import House
from memsyncd.engine.lane import Steps
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import MemsyncdError
from memsyncd.store.browse import read_digest

LANE_KEY = "pulse"
"""No workspace's id, so that the writer comes to it between two steps of whatever it does."""
READ_LIMIT_S = 5.0

Proof = Callable[[], asyncio.Future[None]]


class Pulse:
    """Asks each part for a sign of progress. One that owes a sign is not asked again before it has given it."""

    def __init__(self, proofs: Mapping[str, Proof]) -> None:
        self._proofs = proofs
        self._awaited: dict[str, asyncio.Future[None]] = {}

    async def find_stalled(self, limit_s: float) -> tuple[str, ...]:
        """The parts that have shown no progress within `limit_s`; returns at once when all have."""
        for name, begin in self._proofs.items():
            if name not in self._awaited or self._awaited[name].done():
                self._awaited[name] = begin()
        await asyncio.wait(self._awaited.values(), timeout=limit_s)
        for proof in self._awaited.values():
            if proof.done() and not proof.cancelled():
                proof.exception()  # looked at, so that asyncio does not complain of it
        return tuple(name for name, proof in self._awaited.items() if not proof.done())


def make_proofs(house: House, threads: Executor) -> dict[str, Proof]:
    """The proofs of a running daemon: a step on the writer's lane, a turn of the watcher's thread, a read of every index."""
    loop = asyncio.get_running_loop()
    lane, watching = house._lane, house.watching._thread  # noqa: SLF001 - work must be done on these very threads to prove anything
    return {
        "writer": lambda: asyncio.wrap_future(lane.submit(LANE_KEY, take_a_step, is_urgent=True)),
        "watcher": lambda: asyncio.wrap_future(watching.submit(_take_a_turn)),
        "store": lambda: loop.run_in_executor(threads, _read_each, tuple(house.workspaces.values())),
    }


def take_a_step() -> Steps[None]:
    """The shortest job that a lane can have."""
    yield


def _take_a_turn() -> None:
    """Nothing to do: the turn itself is the proof."""


def _read_each(workspaces: tuple[Workspace, ...]) -> None:
    for workspace in workspaces:
        with contextlib.suppress(MemsyncdError), workspace.lend(READ_LIMIT_S) as reader:
            read_digest(reader, "MEMORY.md")
