"""Define the clock that the engine reads: the daemon passes it in, tests pass one of their own.
Read the times that people name, such as `12h` and `last week`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta

import msgspec

from memsyncd.core.search.dates import DAY_FORM, parse_day, parse_last_day
from memsyncd.errors import BadRequest

_AGO = re.compile(r"(\d{1,6})\s*(s|min|h)")
_UNITS_S = {"s": 1, "min": 60, "h": 3600}


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


def read_busy_s(thread_id: int) -> float:
    """Return for how many seconds a thread has run, or was ready and has waited for a processor.

    Returns 0 where the system does not tell. The number of a process is also its first thread's.
    """
    activity = _read_schedule(thread_id)
    return sum(activity[:2]) / 1e9


def read_activity(thread_id: int) -> tuple[int, ...]:
    """Return numbers that change while a thread of this process runs, waits for a processor, or
    wakes up now and then. They stay the same while it waits for an answer of a disk.

    Where the system does not tell of threads, the number changes with each second for which the
    process has run.
    """
    activity = _read_schedule(thread_id)
    if not activity:
        return (int(time.process_time()),)
    # The numbers of a thread that waits for a processor stand still until it gets one.
    return (*activity, time.monotonic_ns()) if _is_ready(thread_id) else activity


def _is_ready(thread_id: int) -> bool:
    """True if a thread runs or waits for a processor."""
    try:
        with open(f"/proc/{thread_id}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"R"
    except OSError:
        return False


def _read_schedule(thread_id: int) -> tuple[int, ...]:
    """Return for how many nanoseconds a thread has run, for how many it has waited for a processor,
    and how often it has run; nothing where the system does not tell, or the thread has ended.
    """
    try:
        with open(f"/proc/{thread_id}/schedstat", "rb") as file:
            return tuple(map(int, file.read().split()))
    except (OSError, ValueError):
        return ()


def find_local_day(now_s: float) -> date:
    """Return the day in local time of a time since 1970."""
    return datetime.fromtimestamp(now_s).date()  # noqa: DTZ006  people mean their own days


def parse_since(text: str, now_s: float) -> float:
    """Return a time since 1970: `90s`, `30min` or `12h` ago, or the first moment of a day, month or
    year as filters name it. Raises BadRequest.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now_s - int(ago[1]) * _UNITS_S[ago[2]]
    day = parse_day(text, find_local_day(now_s))
    if day is None:
        raise _make_error("since", text)
    if day == date.min.isoformat():
        return float("-inf")  # its local time may be before the first year
    # People mean their own days.
    return datetime.fromisoformat(day).timestamp()


def parse_until(text: str, now_s: float) -> float:
    """Return a time as `parse_since`, but the moment after a day, month or year. Raises
    BadRequest.
    """
    if _AGO.fullmatch(text.strip()) is not None:
        return parse_since(text, now_s)
    day = parse_last_day(text, find_local_day(now_s))
    if day is None:
        raise _make_error("until", text)
    if day == date.max.isoformat():
        return float("inf")
    return (datetime.fromisoformat(day) + timedelta(days=1)).timestamp()


def _make_error(field: str, text: str) -> BadRequest:
    return BadRequest(f"{field}: {text!r} is no time", hint=f"write 30min or 12h, or {DAY_FORM}")
