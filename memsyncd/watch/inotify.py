"""Which of inotify's losses does watchdog keep to itself, and how do they ring?

Overflow: the reader tells it to nobody. Death: a reader or emitter that ends on an exception leaves every `is_alive` in sight
true. A watched folder that is moved or unmounted: not asked for, or dropped. No room for another watch, no right to one:
swallowed for all but the topmost folder. And one bookkeeping slip kills the reader when a folder is moved out, made anew and
both are deleted. The subclasses here change that, and one thing more: watchdog has a thread for each watch, whose work the
reader does here.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import Any

from watchdog.events import FileSystemEvent
from watchdog.observers.api import DEFAULT_OBSERVER_TIMEOUT, BaseObserver, EventQueue, ObservedWatch
from watchdog.observers.inotify import InotifyEmitter, InotifyWatchGroup
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
from watchdog.observers.inotify_move_event_grouper import GroupedInotifyEvent, InotifyMoveEventGrouper, PathedInotifyEvent
from watchdog.utils import Seconds

from memsyncd.watch.doubts import OnDoubt, OnUnwatched, is_worth_telling

JOIN_LIMIT_S = 5.0
PATIENCE_MS = 20
NO_WAIT = float("-inf")
OVERFLOW = InotifyEvent(WatchDescriptor(-1), InotifyConstants.IN_Q_OVERFLOW, 0, b"")


class Reader(InotifyFD):
    """The one thread that reads inotify for all workspaces."""

    def __init__(self, on_doubt: OnDoubt, on_unwatched: OnUnwatched) -> None:
        super().__init__()
        self.name = "memsyncd-inotify"
        self._on_doubt = on_doubt
        self._on_unwatched = on_unwatched
        self._is_doomed = self._has_failed = False
        self._holding: dict[int, WatchGroup] = {}
        """Those in which halves of moves wait, by their identity: watchdog's groups have no hash."""

    def hold(self, group: WatchGroup) -> None:
        """Come back to a group as soon as what it holds back is due."""
        self._holding[id(group)] = group

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # noqa: BLE001  whatever ends this thread ends all watching, and nobody else would say so
            self._has_failed = True
            self._on_doubt(f"the inotify reader died: {error!r}")

    def is_alive(self) -> bool:
        # Whoever hears the doubt looks at once, while the thread has still to end.
        return super().is_alive() and not self._has_failed

    def read_events(self, *, event_buffer_size: int = 65_536) -> list[InotifyEvent]:
        holding, self._holding = self._holding, {}
        for group in holding.values():
            group.hand_on()
        events = super().read_events(event_buffer_size=event_buffer_size)
        if self._is_doomed:
            raise RuntimeError("killed to see what happens")
        return events

    def _check_inotify_fd(self) -> bool:
        assert self._poller is not None, "every Linux has poll(2)"
        ready = self._poller.poll(PATIENCE_MS if self._holding else None)
        return any(fd == self._inotify_fd for fd, _ in ready)

    def handle_event(self, event: InotifyEvent) -> None:
        super().handle_event(event)
        if event.is_queue_overflow:
            # Only now: the watches have been rebuilt, so what a scan does not see from here on will ring.
            self._on_doubt("the inotify queue overflowed")

    def die(self) -> None:
        """A fault for tests: the thread ends as if on an error of its own, unless it has ended."""
        self._is_doomed = True
        with self._lock:
            if not self._closed:
                os.write(self._kill_w, b"!")

    @classmethod
    def _create_inotify_fd(cls) -> int:
        fd = super()._create_inotify_fd()
        os.set_inheritable(fd, False)  # noqa: FBT003  its only form
        return fd

    def _add_callback(self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId) -> WatchDescriptor:
        # New nested folders are met twice. watchdog warns of it with the whole table of watches as text, and where warnings
        # are errors the reader dies of that.
        watch = self._get_or_create_watch(path, mask)
        watch.callbacks[id_] = callback
        return watch.wd

    def _remove_callback(self, wd: WatchDescriptor, id_: CallbackId) -> None:
        watch = self._watch_for_wd.get(wd)
        if watch is not None and id_ in watch.callbacks:
            super()._remove_callback(wd, id_)

    def _get_or_create_watch(self, path: bytes, mask: Mask) -> Watch:
        try:
            watch = super()._get_or_create_watch(path, mask)
            if watch.wd == -1:
                self._watch_for_wd.pop(watch.wd, None)
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            if error.errno is not None and is_worth_telling(error.errno):
                self._on_unwatched(os.fsdecode(path), error.errno)
            raise
        return watch


class MoveGrouper(InotifyMoveEventGrouper):
    """Holds back a move's first half until the second comes, for PATIENCE_MS at most, and what came after it meanwhile.

    The kernel queues both in one go. Halves that are not brought together ring as a deletion and a creation, which does. Nobody
    waits in here: the reader asks again when it is time.
    """

    def __init__(self) -> None:
        self._held: list[tuple[float, GroupedInotifyEvent]] = []

    def put_event(self, event: PathedInotifyEvent) -> None:
        first = self.get_queued_moved_from_event(event.ev.cookie) if event.ev.is_moved_to else None
        if first is None:
            self._held.append((time.monotonic() if event.ev.is_moved_from else NO_WAIT, event))
        else:
            self._held = [one for one in self._held if one[1] is not first]
            self._held.append((NO_WAIT, (first, event)))

    def take_ready(self) -> list[GroupedInotifyEvent]:
        """What is held back no longer, in order."""
        due_s = time.monotonic() - PATIENCE_MS / 1000
        n_ready = next((at for at, (since_s, _) in enumerate(self._held) if since_s > due_s), len(self._held))
        ready, self._held = self._held[:n_ready], self._held[n_ready:]
        return [event for _, event in ready]

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def get_queued_moved_from_event(self, cookie: int) -> PathedInotifyEvent | None:
        halves = (event for _, event in self._held if isinstance(event, PathedInotifyEvent))
        return next((half for half in halves if half.ev.is_moved_from and half.ev.cookie == cookie), None)

    def discard_pending_events(self) -> None:
        self._held.clear()

    close = discard_pending_events


class WatchGroup(InotifyWatchGroup):
    """The folders of one watch, with a bookkeeping that survives a folder that was moved out and made anew.

    `on_ready(event)` comes on the reader's thread.
    """

    _inotify_fd: Reader

    def __init__(self, *args: Any, on_ready: Callable[[GroupedInotifyEvent], None], **options: Any) -> None:
        self._on_ready = on_ready
        self._held = MoveGrouper()
        super().__init__(*args, **options)

    def __post_init__(self) -> None:
        self._move_event_grouper = self._held
        super().__post_init__()

    def on_event(self, event: InotifyEvent) -> None:
        super().on_event(event)
        self.hand_on()

    def hand_on(self) -> None:
        """Give away what is held back no longer; the reader comes again for the rest."""
        with self._lock:
            ready = self._held.take_ready()
            if self._held.is_holding:
                self._inotify_fd.hold(self)
        for one in ready:
            if self._is_active:
                self._on_ready(one)
            if isinstance(one, PathedInotifyEvent) and one.ev.is_moved_from and one.ev.is_directory:
                self._forget_beneath(one.path)

    def _forget_beneath(self, path: bytes) -> None:
        """Let go of a folder that left the tree: its later events would come under a path where it no longer is."""
        with self._lock:
            if not self._is_active or os.path.lexists(path):
                return
            gone = [wd for wd, known in self._active_callbacks_by_watch.items() if known == path or known.startswith(path + b"/")]
            self._remove_callbacks(gone)

    def _remove_watch_internally(self, wd: WatchDescriptor) -> None:
        path = self._active_callbacks_by_watch.pop(wd, None)
        if path is not None and self._active_callbacks_by_path.get(path) == wd:
            del self._active_callbacks_by_path[path]


class Emitter(InotifyEmitter):
    """Turns inotify's events into watchdog's, for one watch.

    To watchdog it is a thread that waits for events of the reader's. Here the reader calls it itself: a thread a folder would be
    hundreds that do nothing.
    """

    def __init__(
        self,
        event_queue: EventQueue,
        watch: ObservedWatch,
        *,
        on_doubt: OnDoubt,
        timeout: Seconds = DEFAULT_OBSERVER_TIMEOUT,
        event_filter: list[type[FileSystemEvent]] | None = None,
        inotify_fd: InotifyFD | None = None,
    ) -> None:
        super().__init__(event_queue, watch, timeout=timeout, event_filter=event_filter, inotify_fd=inotify_fd)
        self._on_doubt = on_doubt
        self._has_failed = False

    def start(self) -> None:
        """Raises OSError for a folder that cannot be watched."""
        self._inotify = WatchGroup(
            self._inotify_fd,
            os.fsencode(self.watch.path),
            on_ready=self._take,
            is_recursive=self.watch.is_recursive,
            event_mask=self.get_event_mask_from_filter(),
            follow_symlink=self.watch.follow_symlink,
        )

    def is_alive(self) -> bool:
        return self.should_keep_running() and not self._has_failed

    def _take(self, event: GroupedInotifyEvent) -> None:
        if self.is_alive():
            try:
                self.build_and_queue_event(event)
            except Exception as error:  # noqa: BLE001  it would end the reader, and with it all watching
                self._has_failed = True
                self._on_doubt(f"an emitter died: {error!r}")

    def get_event_mask_from_filter(self) -> Mask:
        return Mask(super().get_event_mask_from_filter() | InotifyConstants.IN_MOVE_SELF)

    def build_and_queue_event(self, event: GroupedInotifyEvent, *, full_events: bool = False) -> None:
        super().build_and_queue_event(event, full_events=full_events)
        if not isinstance(event, PathedInotifyEvent):
            return
        is_own = event.path == os.fsencode(self.watch.path)
        if event.ev.mask & InotifyConstants.IN_UNMOUNT:
            self._on_doubt("a watched folder was unmounted")
        elif is_own and (event.ev.is_move_self or event.ev.is_delete_self):
            self._on_doubt("a watched folder was moved or deleted")


class LinuxObserver(BaseObserver):
    """One inotify instance and one dispatching thread for all watches."""

    system = "inotify"

    def __init__(self, on_doubt: OnDoubt, on_unwatched: OnUnwatched) -> None:
        self.reader = Reader(on_doubt, on_unwatched)
        self.reader.start()
        super().__init__(Emitter, inotify_fd=self.reader, on_doubt=on_doubt)
        self.name = "memsyncd-events"

    @property
    def n_watches(self) -> int:
        """How many of the kernel's watches are held."""
        return len(self.reader._watch_for_wd)

    def kill_reader(self) -> None:
        """A fault for tests: the thread that reads ends as if on an error of its own."""
        self.reader.die()

    def fake_overflow(self) -> None:
        """A fault for tests: as if the kernel had said that its queue overflowed."""
        self.reader.handle_event(OVERFLOW)

    def on_thread_stop(self) -> None:
        super().on_thread_stop()
        self.reader.stop()
        self.reader.join(JOIN_LIMIT_S)
