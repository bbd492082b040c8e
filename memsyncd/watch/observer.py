"""How does the operating system tell what changes? Through watchdog, with its silent failures made to ring.

On Linux watchdog's inotify reader, emitter and watch group are subclassed where they fail without a word: a queue that overflows,
a thread that dies, a watched folder that is moved, deleted or unmounted, a folder that cannot be watched. Each becomes a doubt,
which means: scan, for events were or will be lost. Elsewhere watchdog's own choice is taken and named. Which folders are watched,
and what a doubt leads to, is `supervisor`'s.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings

from watchdog.events import (
    DirAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
)
from watchdog.observers.api import BaseObserver

from memsyncd.watch.doubts import OnDoubt, OnUnwatched

# One list for every watch: two watches on a folder share a descriptor, and the later one's mask would replace the other's.
# Reading is not in it, or our own reads would come back as events.
EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileClosedEvent,
    FileAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    DirAttribEvent,
]

# What it would log is told as doubts, in our words.
logging.getLogger("watchdog").setLevel(logging.CRITICAL)


def open_observer(on_doubt: OnDoubt, on_unwatched: OnUnwatched) -> BaseObserver:
    """A started observer for this platform. Raises OSError when the system has no more to give (EMFILE).

    `on_doubt(reason)` and `on_unwatched(folder, errno)` come on watchdog's threads and must only hand off.
    """
    observer = _make_observer(on_doubt, on_unwatched)
    observer.start()
    return observer


def _make_observer(on_doubt: OnDoubt, on_unwatched: OnUnwatched) -> BaseObserver:
    platform: str = sys.platform
    if platform == "linux":
        from memsyncd.watch.inotify import LinuxObserver

        return LinuxObserver(on_doubt, on_unwatched)
    with contextlib.suppress(ImportError):
        from memsyncd.watch.fsevents import MacObserver

        return MacObserver(on_doubt)
    # watchdog would only warn that it falls back; we name the class that it took, in every status.
    with warnings.catch_warnings(action="ignore"):
        from watchdog.observers import Observer

        return Observer()
