"""What must be done once, some time from now? One reminder a workspace and purpose; a later one replaces it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Reminders:
    """Timers on the loop it was made on, each of which fires once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}

    def set(self, workspace_id: str, purpose: str, delay_s: float, call: Callable[[], object]) -> None:
        key = (workspace_id, purpose)
        if key in self._timers:
            self._timers[key].cancel()
        self._timers[key] = self._loop.call_later(delay_s, self._fire, key, call)

    def forget(self, workspace_id: str) -> None:
        """Cancel all of a workspace's."""
        for key in [key for key in self._timers if key[0] == workspace_id]:
            self._timers.pop(key).cancel()

    def _fire(self, key: tuple[str, str], call: Callable[[], object]) -> None:
        self._timers.pop(key, None)
        call()
