"""Deliver the results of jobs from worker threads to the event loop.

`call_soon` delivers one result at once. A `CompletionBatch` delivers the unremarkable results of
several jobs together, so that a reconcile of fifty unchanged workspaces wakes the loop once.
`Timers` holds the follow-ups of results that are due later.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from memsyncd.engine.sync import SyncDone

# A batch is delivered after this time at the latest, so that one slow job delays no other.
MAX_DELAY_S = 1.0
# Results delivered before the loop serves its clients again.
CALLS_PER_TURN = 8


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Run `call` on the loop; from any thread. Does nothing if the loop has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def call_when_awake(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """As `call_soon`, but do not wake the loop: it runs `call` once something else has woken it,
    before any request that came later. Its own timers do, at the latest.
    """
    if loop.get_debug():
        call_soon(loop, call)  # a loop that checks its callers allows nothing else
    elif not loop.is_closed():
        # As `call_soon_threadsafe` without its last step, which writes to the loop's socket.
        loop.call_soon(call)


class CompletionBatch:
    """Collects a callback for each of `n_jobs` and runs them on the loop it was made on.

    `then` runs there after the last callback, or after MAX_DELAY_S with those collected by then.
    """

    def __init__(self, n_jobs: int, then: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._n_left = n_jobs
        self._then: Callable[[], None] | None = then
        self._timer = self._loop.call_later(MAX_DELAY_S if n_jobs else 0.0, self._time_out)

    def add(self, job: Future[Any], callback: Callable[[], None]) -> None:
        """Collect the callback of a job that ended; from any thread.

        A result with news, a failure and the last result are delivered at once, with the others.
        """
        with self._lock:
            self._waiting.append(callback)
            self._n_left -= 1
            is_due = not (self._n_left and self._then is not None and _is_quiet(job))
        if is_due:
            call_soon(self._loop, self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            now, self._waiting = self._waiting[:CALLS_PER_TURN], self._waiting[CALLS_PER_TURN:]
            is_last = not (self._waiting or self._n_left)
            has_more = bool(self._waiting)
        for call in now:
            self._loop.call_soon(call)
        if has_more:
            self._loop.call_soon(self._deliver)
        elif is_last:
            self._finish()

    def _time_out(self) -> None:
        self._finish()
        self._deliver()

    def _finish(self) -> None:
        self._timer.cancel()
        then, self._then = self._then, None
        if then is not None:
            self._loop.call_soon(then)


def _is_quiet(job: Future[Any]) -> bool:
    """True if the job was a sync that found nothing new and needs no follow-up."""
    if job.cancelled() or job.exception() is not None:
        return False
    done = job.result()
    return isinstance(done, SyncDone) and done.is_quiet


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
