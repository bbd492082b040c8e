"""The thread that reads inotify for all watched folders."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable, Collection

from watchdog.observers import inotify_c
from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    Watch,
    WatchCallback,
    WatchDescriptor,
)

from memsyncd.watch.health import OnEventsLost, OnUnwatched, is_worth_reporting

PATIENCE_MS = 20
HAS_PROC = os.path.isdir("/proc/self/fd")


class Reader(InotifyFD):
    """The one thread that reads inotify for all workspaces."""

    def __init__(self, on_events_lost: OnEventsLost, on_unwatched: OnUnwatched) -> None:
        super().__init__()
        self.name = "memsyncd-inotify"
        self._on_events_lost = on_events_lost
        self._on_unwatched = on_unwatched
        self._has_failed = self._is_running = self._is_released = False
        self._n_removed = 0
        # Calls that hand over events that are held back now.
        self._holding: set[Callable[[], None]] = set()

    def hold(self, hand_over: Callable[[], None]) -> None:
        """Call this as soon as the events that are held back are due."""
        self._holding.add(hand_over)

    def watch(self, folder: int, path: bytes, group: WatchCallback, mask: Mask) -> WatchDescriptor:
        """Watch an open folder for a group. Raises OSError.

        No lock is held while the kernel looks at the disk: a disk that hangs would stop the reader.
        """
        while True:
            n_removed = self._n_removed
            wd = _add_watch(self._inotify_fd, folder, path, mask)
            with self._lock:
                if self._closed:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                # Else the kernel's watch may have been removed between its answer and this line.
                if n_removed == self._n_removed:
                    watch = self._watch_for_wd.get(wd)
                    if watch is None:
                        watch = self._watch_for_wd[wd] = Watch(wd, mask, path)
                    watch.callbacks[CallbackId(id(group))] = group
                    return wd

    def unwatch(self, wds: Collection[WatchDescriptor], group: WatchCallback) -> None:
        """End a group's share in these watches; those that no other group uses are removed."""
        with self._lock:
            for wd in wds:
                watch = self._watch_for_wd.get(wd)
                if watch is None or watch.callbacks.pop(CallbackId(id(group)), None) is None:
                    continue
                if not watch.is_used and not self._closed:
                    del self._watch_for_wd[wd]
                    self._n_removed += 1
                    inotify_c.inotify_rm_watch(self._inotify_fd, wd)

    def report_unwatched(self, path: bytes, code: int) -> None:
        """Report a folder that cannot be watched, unless it is merely gone."""
        if is_worth_reporting(code):
            self._on_unwatched(os.fsdecode(path), code)

    def run(self) -> None:
        self._is_running = True
        try:
            super().run()
        except Exception as error:  # noqa: BLE001  its end ends all watching, and nobody else reports it
            self._has_failed = True
            self._on_events_lost(f"the inotify reader failed: {error!r}")
        finally:
            with self._lock:
                self._is_running = self._is_reading = False
                if self._closed:
                    self._close_resources()

    def is_alive(self) -> bool:
        # Those who hear the doubt check at once, while the thread has still to end.
        return super().is_alive() and not self._has_failed

    def read_events(self, *, event_buffer_size: int = 65_536) -> list[InotifyEvent]:
        holding, self._holding = self._holding, set()
        for hand_over in holding:
            hand_over()
        return super().read_events(event_buffer_size=event_buffer_size)

    def _check_inotify_fd(self) -> bool:
        assert self._poller is not None, "every Linux has poll(2)"
        ready = self._poller.poll(PATIENCE_MS if self._holding else None)
        return any(fd == self._inotify_fd for fd, _ in ready)

    def handle_event(self, event: InotifyEvent) -> None:
        super().handle_event(event)
        if event.is_queue_overflow:
            self._on_events_lost("the inotify queue overflowed")

    def _close_resources(self) -> None:
        # While it handles events the reader may add watches by the descriptor's number, which must
        # not be another file's by then: it closes the files itself when it ends.
        is_in_use = self._is_running and threading.current_thread() is not self
        if not is_in_use and not self._is_released:
            self._is_released = True
            super()._close_resources()

    @classmethod
    def _create_inotify_fd(cls) -> int:
        fd = super()._create_inotify_fd()
        os.set_inheritable(fd, False)  # noqa: FBT003  its only form
        return fd


def _add_watch(inotify: int, folder: int, path: bytes, mask: Mask) -> WatchDescriptor:
    """Add a watch to an open folder, or to what is at its path where there is no /proc."""
    flags = InotifyConstants.IN_ONLYDIR
    if HAS_PROC:
        path = b"/proc/self/fd/%d" % folder
    else:
        flags = Mask(flags | InotifyConstants.IN_DONT_FOLLOW)
    wd = inotify_c.inotify_add_watch(inotify, path, mask | flags)
    if wd == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return wd
