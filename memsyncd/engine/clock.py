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


def find_local_day(now_s: float) -> date:
    """Return the day in local time of a time since 1970."""
    return datetime.fromtimestamp(now_s).date()  # noqa: DTZ006  people mean their own days
