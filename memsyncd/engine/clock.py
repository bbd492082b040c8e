"""Define the clock that the engine reads: the daemon passes it in, tests pass one of their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime

import msgspec


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """The source of time.

    `now_s` is monotonic; `wall_ns` is nanoseconds since 1970 and may go back; `asleep_s` is how
    long the machine has been suspended in all.
    """

    now_s: Callable[[], float]
    wall_ns: Callable[[], int]
    asleep_s: Callable[[], float] = float

    def wall_s(self) -> float:
        return self.wall_ns() / 1e9


def read_waited_s(thread_id: int) -> float:
    """Return for how long a thread has been ready to run and has waited for a processor, in all.

    0 where the system does not tell. The number of a process is that of its first thread.
    """
    try:
        with open(f"/proc/{thread_id}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def find_local_day(now_s: float) -> date:
    """Return the day in local time of a time since 1970."""
    return datetime.fromtimestamp(now_s).date()  # noqa: DTZ006  people mean their own days
