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
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import MemsyncdError
from memsyncd.store.lookup import read_digest

READ_LIMIT_S = 5.0

Proof = Callable[[], asyncio.Future[None]]


class Pulse:
    """Asks each part for a sign of progress. One that owes a sign is not asked again before it has given it.

    `counts` are of those parts that may have other work before the proof: what they bring to an end meanwhile is a sign, too.
    """

    def __init__(self, proofs: Mapping[str, Proof], counts: Mapping[str, Callable[[], int]] | None = None) -> None:
        self._proofs = proofs
        self._counts = counts or {}
        self._awaited: dict[str, asyncio.Future[None]] = {}

    async def find_stalled(self, limit_s: float) -> tuple[str, ...]:
        """The parts that have shown no progress within `limit_s`; returns at once when all have."""
        before = {name: count() for name, count in self._counts.items()}
        for name, begin in self._proofs.items():
            if name not in self._awaited or self._awaited[name].done():
                self._awaited[name] = begin()
        await asyncio.wait(self._awaited.values(), timeout=limit_s)
        for proof in self._awaited.values():
            if proof.done() and not proof.cancelled():
                proof.exception()  # looked at, so that asyncio does not complain of it
        owing = [name for name, proof in self._awaited.items() if not proof.done()]
        return tuple(name for name in owing if name not in before or self._counts[name]() == before[name])


def make_proofs(house: House, threads: Executor) -> dict[str, Proof]:
    """The proofs of a running daemon: a step on the writer's lane, a turn of the watcher's thread, a read of every index."""
    loop = asyncio.get_running_loop()
    return {
        "writer": lambda: asyncio.wrap_future(house.take_step()),
        "watcher": lambda: asyncio.wrap_future(house.watching.take_turn()),
        "store": lambda: loop.run_in_executor(threads, _read_each, tuple(house.workspaces.values())),
    }


def _read_each(workspaces: tuple[Workspace, ...]) -> None:
    for workspace in workspaces:
        with contextlib.suppress(MemsyncdError), workspace.lend(READ_LIMIT_S) as reader:
            read_digest(reader, "MEMORY.md")
