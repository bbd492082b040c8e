"""A timer of the event loop that any thread can set and cancel without waking the loop.

asyncio's own timers belong to the loop's thread: a worker that begins and ends a job would have to
wake the loop twice, only to set a timer that hardly ever fires. Linux has timers that are file
descriptors, which the loop waits for like for a socket. Elsewhere the loop's own timer is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from memsyncd.engine.job_completions import call_soon, call_when_awake

CLOCK_MONOTONIC = 1
# The kernel's flags of a timer are those of a file.
FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
NS_PER_S = 1_000_000_000

# Seconds and nanoseconds of the interval, which is none, and of the first time.
_Times = ctypes.c_long * 4


class Alarm(Protocol):
    """A timer that calls once on the loop; a later time replaces an earlier one."""

    def set(self, delay_s: float) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


def make_alarm(call: Callable[[], None]) -> Alarm:
    """Make a timer on the running loop."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            return FileAlarm(call)
    return LoopAlarm(call)


class FileAlarm:
    """A timer that is a file descriptor of Linux."""

    def __init__(self, call: Callable[[], None]) -> None:
        """Raises OSError, and AttributeError where the library has no such timers."""
        # The calls take less than a microsecond: to give the interpreter's lock away for them
        # would let another thread run between a job and the next.
        libc = ctypes.PyDLL(None, use_errno=True)
        self._set_time = libc.timerfd_settime
        self._fd = int(libc.timerfd_create(CLOCK_MONOTONIC, FLAGS))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no timer")
        # A loop that has ended closes nothing.
        self._close = weakref.finalize(self, os.close, self._fd)
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._fire)

    def set(self, delay_s: float) -> None:
        # A time of zero would cancel.
        seconds, ns = divmod(max(1, round(delay_s * NS_PER_S)), NS_PER_S)
        self._set(_Times(0, 0, seconds, ns))

    def cancel(self) -> None:
        self._set(_Times(0, 0, 0, 0))

    def close(self) -> None:
        """End the timer; on the loop."""
        self._loop.remove_reader(self._fd)
        self._close()

    def _set(self, times: ctypes.Array[ctypes.c_long]) -> None:
        if self._close.alive:
            self._set_time(self._fd, 0, times, None)

    def _fire(self) -> None:
        # A timer that was set again or cancelled meanwhile has nothing to read.
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
            self._call()


class LoopAlarm:
    """A timer of the loop. A thread that sets it wakes the loop."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._call = call
        self._timer: asyncio.TimerHandle | None = None

    def set(self, delay_s: float) -> None:
        if threading.get_ident() == self._thread:
            self._set(delay_s)
        else:
            call_soon(self._loop, lambda: self._set(delay_s))

    def cancel(self) -> None:
        if threading.get_ident() == self._thread:
            self.close()
        else:
            call_when_awake(self._loop, self.close)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, delay_s: float) -> None:
        self.close()
        self._timer = self._loop.call_later(delay_s, self._call)
