"""Faults of the watcher that tests cause from outside."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, WatchDescriptor

if TYPE_CHECKING:
    from pathlib import Path

    from memsyncd.watch.watcher import Watcher

AT_FDCWD, RENAME_EXCHANGE = -100, 2
OVERFLOW = InotifyEvent(WatchDescriptor(-1), InotifyConstants.IN_Q_OVERFLOW, 0, b"")


def find_reader(watcher: Watcher) -> Any:
    """Return the thread that reads inotify for this watcher; None while there is none."""
    return getattr(watcher._targets.observer, "reader", None)


def kill_reader(watcher: Watcher) -> None:
    """Make the reading thread end by an exception, unless it has ended."""
    reader = find_reader(watcher)
    if reader is None:
        return

    def fail() -> bool:
        raise RuntimeError("ended by a test")

    reader.should_keep_running = fail  # called before each read
    with reader._lock:
        if not reader._closed:
            os.write(reader._kill_w, b"!")


def fake_overflow(watcher: Watcher) -> None:
    """Make the reader handle an overflow of the kernel's queue."""
    reader = find_reader(watcher)
    if reader is not None:
        reader.handle_event(OVERFLOW)


def exchange(one: Path, other: Path) -> None:
    """Exchange two folders, as renameat2(2) does with RENAME_EXCHANGE."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
