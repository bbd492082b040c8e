"""Deliver the results of jobs from worker threads to the event loop.

`call_soon` wakes the loop for a result, `call_when_awake` does not: a reconcile that finds nothing
new is counted when something else wakes the loop. Such a reconcile wakes the loop once and the
worker once, for all workspaces, each by its own timer: a thread that another thread wakes has to
wait for the interpreter's lock. `Timers` holds the follow-ups of results that are due later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Run `call` on the loop; from any thread. Does nothing if the loop has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def call_when_awake(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """As `call_soon`, but do not wake the loop: it runs `call` once something else has woken it,
    before any request that came later. The loop's own timers wake it at the latest.
    """
    if loop.get_debug():
        call_soon(loop, call)  # a loop that checks its callers allows nothing else
    elif not loop.is_closed():
        # As `call_soon_threadsafe` without its last step, which writes to the loop's socket.
        loop.call_soon(call)


class Timers:
    """Timers on the loop, one for each workspace and purpose; a later one replaces it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handles: dict[tuple[str, str], asyncio.TimerHandle] = {}

    def set(
        self, workspace_id: str, purpose: str, delay_s: float, call: Callable[[], object]
    ) -> None:
        self.cancel(workspace_id, purpose)
        key = (workspace_id, purpose)
        self._handles[key] = self._loop.call_later(delay_s, self._fire, key, call)

    def is_set(self, workspace_id: str, purpose: str) -> bool:
        return (workspace_id, purpose) in self._handles

    def cancel(self, workspace_id: str, purpose: str) -> None:
        if (handle := self._handles.pop((workspace_id, purpose), None)) is not None:
            handle.cancel()

    def cancel_all(self, workspace_id: str) -> None:
        """Cancel all timers of a workspace."""
        for key in [key for key in self._handles if key[0] == workspace_id]:
            self._handles.pop(key).cancel()

    def _fire(self, key: tuple[str, str], call: Callable[[], object]) -> None:
        self._handles.pop(key, None)
        call()
