"""Handle items in order on other threads, one at a time, where handling reads the disk.

The threads that read and dispatch the events of all workspaces must not read the disk: one that
hangs would hold back every event.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from memsyncd.watch.health import OnEventsLost

AT_A_TIME = 64
# More than this many items can wait only behind a disk that hangs.
LIMIT = 100_000

T = TypeVar("T")

# Has a call made on another thread, behind earlier ones with the same key. A call that hangs may
# hold back only those with its key.
RunLater = Callable[[Callable[[], None], str], object]


class Backlog(Generic[T]):
    """Items of one key that wait for `handle`. One thread at a time may put."""

    def __init__(
        self,
        handle: Callable[[T], None],
        *,
        key: str,
        run_later: RunLater,
        on_events_lost: OnEventsLost,
    ) -> None:
        self._handle = handle
        self._key = key
        self._run_later = run_later
        self._on_events_lost = on_events_lost
        self._lock = threading.Lock()
        self._items: deque[T] = deque()
        self._is_scheduled = False

    @property
    def is_idle(self) -> bool:
        """True if no item waits or is being handled."""
        return not self._is_scheduled

    def put(self, item: T) -> None:
        """Have an item handled behind all earlier ones."""
        with self._lock:
            is_full = len(self._items) >= LIMIT
            if is_full:
                self._items.clear()
            self._items.append(item)
            is_first = not self._is_scheduled
            self._is_scheduled = True
        if is_full:
            self._on_events_lost(f"{LIMIT} events waited for a disk that does not answer")
        if is_first:
            self._run_later(self._run, self._key)

    def _run(self) -> None:
        # A part only: the calls of other keys take turns with this one.
        for _ in range(AT_A_TIME):
            with self._lock:
                if not self._items:
                    self._is_scheduled = False
                    return
                item = self._items.popleft()
            try:
                self._handle(item)
            except Exception as error:  # noqa: BLE001  later items must be handled all the same
                self._on_events_lost(f"an event was lost: {error!r}")
        self._run_later(self._run, self._key)
