"""How much may clients ask of the server, and who runs next?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one client, or all of them together, can take. A time of 0 s means: no limit."""

    max_clients: int = 64
    max_line_bytes: int = 4 * 1024 * 1024
    max_running: int = 8
    """Slow requests at once, of all clients together; more wait their turn."""
    max_pending_per_client: int = 32
    """Requests of one client without an answer yet; at this many its further lines wait unread."""
    max_write_buffer_bytes: int = 8 * 1024 * 1024
    """A client that leaves more than this unread is dropped."""
    max_reply_bytes: int = 8 * 1024 * 1024
    max_held_bytes: int = 64 * 1024 * 1024
    """Unfinished lines and unread answers of all clients together; beyond it whoever holds most is dropped."""
    line_timeout_s: float = 10.0
    """From the first byte of a line to its newline."""
    write_timeout_s: float = 30.0
    """How long a client may leave a full buffer wholly unread."""
    idle_timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """Something that waits for its turn: exactly one of the two is called, once."""

    start: Callable[[], None]
    drop: Callable[[], None]


class Turns:
    """Lets `max_running` jobs run at once; those waiting start in turns between owners, so that nobody's queue blocks others."""

    __slots__ = ("_max_running", "_n_running", "_waiting")

    def __init__(self, max_running: int) -> None:
        self._max_running = max_running
        self._n_running = 0
        self._waiting: dict[object, deque[Job]] = {}

    @property
    def n_running(self) -> int:
        return self._n_running

    @property
    def n_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def submit(self, owner: object, job: Job) -> None:
        """Start the job now or when its turn comes; what was started must call `release` once when done."""
        if self._n_running < self._max_running:
            self._n_running += 1
            job.start()
        else:
            self._waiting.setdefault(owner, deque()).append(job)

    def release(self) -> None:
        """A job is done: the next one starts in its place."""
        if not self._waiting:
            self._n_running -= 1
            return
        owner = next(iter(self._waiting))
        jobs = self._waiting.pop(owner)
        job = jobs.popleft()
        if jobs:
            self._waiting[owner] = jobs  # at the end: the other owners come first now
        job.start()

    def forget(self, owner: object) -> None:
        """Drop what this owner still has waiting."""
        for job in self._waiting.pop(owner, ()):
            job.drop()

    def forget_all(self) -> None:
        for owner in tuple(self._waiting):
            self.forget(owner)
