"""Open watchdog's observer for this platform, with its silent failures reported.

On Linux and macOS watchdog's classes are subclassed where they fail silently: a queue that
overflows, a thread that dies, a watched folder that is moved, deleted or unmounted, a folder that
cannot be watched. Each is reported as lost events, which means: scan everything. Elsewhere
watchdog's own choice is used. `targets` decides which folders are watched.
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

from memsyncd.watch.backlog import RunLater
from memsyncd.watch.health import OnEventsLost, OnUnwatched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from memsyncd.watch.watch_group import WatchLimits

# One list for every watch: two watches on a folder share a descriptor, and the mask of the later
# one would replace that of the other. Reads are left out: memsyncd's own would come back as events.
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

# The faults that watchdog would log are reported as lost events.
logging.getLogger("watchdog").setLevel(logging.CRITICAL)


def open_observer(
    run_later: RunLater,
    on_events_lost: OnEventsLost,
    on_unwatched: OnUnwatched,
    find_limits: Callable[[str], WatchLimits],
) -> BaseObserver:
    """A started observer for this platform.

    Raises OSError (EMFILE) at the system's limit of observers. `on_events_lost(reason)` and
    `on_unwatched(folder, errno)` are called on watchdog's threads or on those of `run_later`, where
    they must only hand over. `find_limits(folder)` is what a recursive watch leaves out; systems
    that watch whole trees do not ask.
    """
    observer = _make_observer(run_later, on_events_lost, on_unwatched, find_limits)
    observer.start()
    return observer


def _make_observer(
    run_later: RunLater,
    on_events_lost: OnEventsLost,
    on_unwatched: OnUnwatched,
    find_limits: Callable[[str], WatchLimits],
) -> BaseObserver:
    platform: str = sys.platform
    if platform == "linux":
        from memsyncd.watch.inotify import LinuxObserver

        return LinuxObserver(run_later, on_events_lost, on_unwatched, find_limits)
    with contextlib.suppress(ImportError):
        from memsyncd.watch.fsevents import MacObserver

        return MacObserver(on_events_lost)
    # watchdog warns when it falls back to another class; every status names the class instead.
    with warnings.catch_warnings(action="ignore"):
        from watchdog.observers import Observer

        return Observer()
