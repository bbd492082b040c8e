"""Threads that read for clients, so that the event loop reads nothing.

Reading a workspace's disk may block. Of each workspace one such reading runs at a time, so that a disk that does not answer holds
one thread at most, which another one replaces; what reads an index alone is not limited by workspace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from memsyncd.core.scheduling import StallPolicy
from memsyncd.engine.workers import WorkerPool

STOP_S = 0.5

P = ParamSpec("P")
T = TypeVar("T")


class QueryThreads(Executor):
    """Threads that count what they have brought to an end: a proof may have to wait behind more than it has time for."""

    def __init__(
        self,
        n_threads: int,
        *,
        policy: StallPolicy | None = None,
        on_returned: Callable[[str], None] = lambda _key: None,
    ) -> None:
        self.pool = WorkerPool("memsyncd-query", n_threads, policy=policy, on_returned=on_returned)
        self.n_done = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call what touches no disk of a workspace."""
        return self._count_end(self.pool.call(lambda: fn(*args, **kwargs)))

    def read_disk(self, key: str, read: Callable[[], T]) -> Future[T]:
        """Call what may block on a disk, behind other readings of the same key: a workspace's id, or a path."""
        return self._count_end(self.pool.call(read, key))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:  # noqa: ARG002  `Executor` names it
        """Fail what waits, and give what runs a moment to end; a thread that is blocked is left to itself."""
        self.pool.stop(STOP_S if wait else 0.0)

    def _count_end(self, future: Future[T]) -> Future[T]:
        future.add_done_callback(self._count)
        return future

    def _count(self, future: Future[T]) -> None:
        self.n_done += not future.cancelled()


def call_within(seconds: float, call: Callable[[], T], default: T) -> T:
    """What a call gives that may block on a disk; `default` if it does not return in time. Raises what it raises."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as failure:  # noqa: BLE001 - it is raised to the caller
            done.set_exception(failure)

    threading.Thread(target=run, name="memsyncd-ask", daemon=True).start()
    try:
        return done.result(seconds)
    except TimeoutError:
        if done.done():
            raise
        return default
