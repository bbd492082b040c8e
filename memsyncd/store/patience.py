"""Limits how long a reading goes on: until its time is over, or until nobody waits for it any more.

One reading may ask several indexes several things. Its patience holds for all of that together, on the thread that runs it;
`connections` looks at it while SQLite runs, `readers` before anything is lent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


class Patience:
    """The limit of one reading. `seconds` count from here on, also while it waits for a thread."""

    __slots__ = ("_end_s", "_is_given_up")

    def __init__(self, seconds: float = math.inf) -> None:
        self._end_s = time.monotonic() + seconds
        self._is_given_up = False

    @property
    def is_over(self) -> bool:
        return self._is_given_up or time.monotonic() > self._end_s

    def give_up(self) -> None:
        """Nobody waits any more: what runs is stopped, what has not begun will not. From any thread."""
        self._is_given_up = True

    def run(self, read: Callable[[], T]) -> T:
        """What `read` gives. Whatever it asks of an index once the patience is over raises NotFresh."""
        token = _running.set(self)
        try:
            return read()
        finally:
            _running.reset(token)


_running: ContextVar[Patience | None] = ContextVar("patience", default=None)


def is_patience_over() -> bool:
    """True if what reads on this thread has a patience, and that is over."""
    patience = _running.get()
    return patience is not None and patience.is_over
