"""When is the loop told of what has ended on another thread? At once; of many jobs that belong together, as seldom as will do.

A timed look at fifty workspaces that finds nothing new would else wake the loop fifty times. What can wait does so for the last
of them, or for a second: one that takes long holds up nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from memsyncd.engine.sync import SyncDone

PATIENCE_S = 1.0
AT_A_TIME = 8
"""What is told before the loop looks at its clients again."""


class Gathering:
    """Takes what shall be called on the loop it was made on, once for each of `n_jobs`.

    `then` is called there after the last of them, or after those of the first second.
    """

    def __init__(self, n_jobs: int, then: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._ended: list[Callable[[], None]] = []
        self._n_left = n_jobs
        self._then: Callable[[], None] | None = then
        self._timer = self._loop.call_later(PATIENCE_S if n_jobs else 0.0, self._lose_patience)

    def take(self, job: Future[Any], tell: Callable[[], None]) -> None:
        """A job has ended, on any thread: have `tell` called, now or with those of the others."""
        with self._lock:
            self._ended.append(tell)
            self._n_left -= 1
            is_due = not (self._n_left and self._then is not None and _is_quiet(job))
        if is_due:
            call_soon(self._loop, self._tell)

    def _tell(self) -> None:
        with self._lock:
            now, self._ended = self._ended[:AT_A_TIME], self._ended[AT_A_TIME:]
            is_last = not (self._ended or self._n_left)
            has_more = bool(self._ended)
        for call in now:
            self._loop.call_soon(call)
        if has_more:
            self._loop.call_soon(self._tell)
        elif is_last:
            self._conclude()

    def _lose_patience(self) -> None:
        self._conclude()
        self._tell()

    def _conclude(self) -> None:
        self._timer.cancel()
        then, self._then = self._then, None
        if then is not None:
            self._loop.call_soon(then)


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Have it called on the loop, from any thread; if the loop has ended, so has everything that this could lead to."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def _is_quiet(job: Future[Any]) -> bool:
    """True if it was a look that found nothing new, and nothing follows from it."""
    if job.cancelled() or job.exception() is not None:
        return False
    done = job.result()
    return isinstance(done, SyncDone) and done.is_quiet
