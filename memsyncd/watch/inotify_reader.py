"""Read inotify on one thread for all watched folders, and report when that fails.

The thread never reads a disk: a callback that has to do so must use another thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import math
import os
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

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

# How long the first half of a move waits for the second. The kernel queues both halves at once.
PAIR_LIMIT_MS = 20
# A deferred call comes so much later; most saves are indexed by then.
DEFER_MS = 20
# The size of all events that Linux queues by default, if their names have 100 characters.
STORM_BYTES = 2 * 1024 * 1024
HAS_PROC = os.path.isdir("/proc/self/fd")


class EventReader(InotifyFD):
    """The one thread that reads inotify for all workspaces."""

    def __init__(self, on_events_lost: OnEventsLost, on_unwatched: OnUnwatched) -> None:
        super().__init__()
        self.name = "memsyncd-inotify"
        self._on_events_lost = on_events_lost
        self._on_unwatched = on_unwatched
        self._has_failed = self._is_running = self._is_released = False
        self._n_removed = self._n_users = 0
        # The number of folders that walks of whole groups have entered. Only one thread at a time
        # makes such a walk.
        self.n_walked = 0
        # Functions that hand over the events which are held back now.
        self._holding: set[Callable[[], None]] = set()
        # Functions to call, each with the time at which the call is due.
        self._deferred: deque[tuple[float, Callable[[], None]]] = deque()
        # True from before events are read until all of them are handled.
        self._is_handling = False
        # Functions to call, each with the number of reads whose events must be handled first.
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._waiting_lock = threading.Lock()

    @property
    def n_watches(self) -> int:
        """The number of watches in the kernel."""
        return len(self._watch_for_wd)

    def hold(self, hand_over: Callable[[], None]) -> None:
        """Call `hand_over` on the reader's thread when PAIR_LIMIT_MS have passed, or earlier."""
        self._holding.add(hand_over)

    def defer(self, call: Callable[[], None]) -> None:
        """Call `call` on the reader's thread, after DEFER_MS or when the reader ends.

        From any other thread it is called at once.
        """
        if threading.current_thread() is self:
            self._deferred.append((time.monotonic() + DEFER_MS / 1000, call))
        else:
            call()

    def _call_deferred(self, now_s: float) -> None:
        while self._deferred and self._deferred[0][0] <= now_s:
            self._deferred.popleft()[1]()

    def call_when_handled(self, call: Callable[[], None]) -> bool:
        """Call `call` on the reader's thread when all events that have occurred by now are handled.

        Returns False, and calls nothing, if there are no such events. May be used on any thread.
        """
        with self._waiting_lock:
            n_reads = self._is_handling + bool(self._count_unread())
            if n_reads:
                self._waiting.append((n_reads, call))
        return n_reads > 0

    def watch(
        self, folder: int, path: bytes, callback: WatchCallback, mask: Mask
    ) -> WatchDescriptor:
        """Watch an open folder for a callback. Raises OSError.

        No lock is held while the kernel reads the disk; otherwise a disk that hangs would stop the
        reader.
        """
        while True:
            n_removed = self._begin_use()
            try:
                wd = _add_watch(self._inotify_fd, folder, path, mask)
            except BaseException:
                with self._lock:
                    self._end_use()
                raise
            with self._lock:
                self._end_use()
                self._raise_if_closed()
                # If the number differs, another thread may have removed the watch since the kernel
                # returned it.
                if n_removed == self._n_removed:
                    watch = self._watch_for_wd.get(wd)
                    if watch is None:
                        watch = self._watch_for_wd[wd] = Watch(wd, mask, path)
                    watch.callbacks[CallbackId(id(callback))] = callback
                    return wd

    def unwatch(self, wds: Collection[WatchDescriptor], callback: WatchCallback) -> None:
        """Remove a callback from these watches; remove a watch when no other callback uses it."""
        with self._lock:
            for wd in wds:
                watch = self._watch_for_wd.get(wd)
                if watch is None or watch.callbacks.pop(CallbackId(id(callback)), None) is None:
                    continue
                if not watch.is_used and not self._closed:
                    del self._watch_for_wd[wd]
                    self._n_removed += 1
                    inotify_c.inotify_rm_watch(self._inotify_fd, wd)

    def report_unwatched(self, path: bytes, code: int) -> None:
        """Report a folder that cannot be watched, unless it has disappeared."""
        if is_worth_reporting(code) and not self._closed:
            self._on_unwatched(os.fsdecode(path), code)

    def run(self) -> None:
        self._is_running = True
        try:
            super().run()
        except Exception as error:  # noqa: BLE001  nothing else reports it
            self._has_failed = True
            self._on_events_lost(f"the inotify reader failed: {error!r}")
        finally:
            self._call_deferred(math.inf)
            with self._lock:
                self._is_running = self._is_reading = False
                if self._closed:
                    self._close_resources()

    def is_alive(self) -> bool:
        # The report of the failure causes a check at once, when the thread has not ended yet.
        return super().is_alive() and not self._has_failed

    def read_events(self, *, event_buffer_size: int = 65_536) -> list[InotifyEvent]:
        holding, self._holding = self._holding, set()
        for hand_over in holding:
            hand_over()
        self._call_deferred(time.monotonic())
        return leave_out_replaced(super().read_events(event_buffer_size=event_buffer_size))

    def _read_event_buffer(self, event_buffer_size: int) -> bytes:
        buffer = super()._read_event_buffer(event_buffer_size)
        if len(buffer) > event_buffer_size // 2:
            # If the queue has overflowed, the last event in it says so.
            with contextlib.suppress(OSError), self._keep_open():
                if n_bytes := min(self._count_unread(), STORM_BYTES):
                    buffer += os.read(self._inotify_fd, n_bytes)
        return buffer

    def _check_inotify_fd(self) -> bool:
        assert self._poller is not None, "every Linux has poll(2)"
        self._call_waiting()
        ready = self._poller.poll(self._find_timeout_ms())
        # This is set before the events are read, so that they are always unread or being handled.
        self._is_handling = any(fd == self._inotify_fd for fd, _ in ready)
        return self._is_handling

    def _find_timeout_ms(self) -> float | None:
        return PAIR_LIMIT_MS if self._holding else DEFER_MS if self._deferred else None

    def _call_waiting(self) -> None:
        with self._waiting_lock:
            if not self._is_handling:
                return
            self._is_handling = False
            # The unread events that a caller saw may be the events that were handled just now.
            n_done = 1 if self._count_unread() else 2
            due = [call for n_reads, call in self._waiting if n_reads <= n_done]
            left = [(n_reads - 1, call) for n_reads, call in self._waiting if n_reads > n_done]
            self._waiting = left
        for call in due:
            call()

    def _count_unread(self) -> int:
        """Return the number of bytes that the kernel has queued."""
        if self._closed:
            return 0
        with contextlib.suppress(OSError):
            n_bytes = fcntl.ioctl(self._inotify_fd, termios.FIONREAD, bytes(4))
            return int.from_bytes(n_bytes, sys.byteorder)
        return 0

    def handle_event(self, event: InotifyEvent) -> None:
        super().handle_event(event)
        if event.is_queue_overflow:
            self._on_events_lost("the inotify queue overflowed")

    @contextlib.contextmanager
    def _keep_open(self) -> Iterator[None]:
        """Keep the descriptors open during the body. Raises OSError if they are closed."""
        self._begin_use()
        try:
            yield
        finally:
            with self._lock:
                self._end_use()

    def _begin_use(self) -> int:
        """Keep the descriptors open until `_end_use`. Raises OSError if they are closed.

        Returns how many watches have been removed so far. `watch` is called for each folder and
        uses this function directly, which is cheaper than the context manager.
        """
        # If a descriptor were closed meanwhile, its number could belong to another file when the
        # kernel reads it.
        with self._lock:
            self._raise_if_closed()
            self._n_users += 1
            return self._n_removed

    def _end_use(self) -> None:
        """End a use. The caller holds the lock."""
        self._n_users -= 1
        if self._closed:
            self._close_resources()

    def _close_resources(self) -> None:
        """Close the descriptors, or let their last user close them. The caller holds the lock."""
        is_read = self._is_running and threading.current_thread() is not self
        if not (is_read or self._n_users or self._is_released):
            self._is_released = True
            super()._close_resources()

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    @classmethod
    def _create_inotify_fd(cls) -> int:
        fd = super()._create_inotify_fd()
        os.set_inheritable(fd, False)  # noqa: FBT003  its only form
        return fd


def leave_out_replaced(events: Sequence[InotifyEvent]) -> list[InotifyEvent]:
    """Leave out the events that later ones replace: those before an overflow of the queue, except
    the ends of watches, and changes of a file that is closed after writing.

    After an overflow all folders are watched again and everything is scanned.
    """
    kept: list[InotifyEvent] = []
    closed: set[tuple[WatchDescriptor, bytes]] = set()
    has_overflowed = False
    for event in reversed(events):
        if event.is_close_write:
            closed.add((event.wd, event.name))
        is_replaced = event.is_modify and (event.wd, event.name) in closed
        if event.is_ignored if has_overflowed else not is_replaced:
            kept.append(event)
        has_overflowed |= event.is_queue_overflow
    return kept[::-1]


def _add_watch(inotify: int, folder: int, path: bytes, mask: Mask) -> WatchDescriptor:
    """Add a watch to an open folder; on a system without /proc, to the folder at its path."""
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
