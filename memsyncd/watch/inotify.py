"""Which of inotify's losses does watchdog keep to itself, and how do they ring?

Overflow: the reader tells it to nobody. Death: a reader or emitter that ends on an exception leaves every `is_alive` in sight
true. A watched folder that is moved or unmounted: not asked for, or dropped. No room for another watch, no right to one:
swallowed for all but the topmost folder. And one bookkeeping slip kills the reader when a folder is moved out, made anew and
both are deleted. The subclasses here change no more than that.
"""

from __future__ import annotations

import errno
import os

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
OVERFLOW = InotifyEvent(WatchDescriptor(-1), InotifyConstants.IN_Q_OVERFLOW, 0, b"")


class Reader(InotifyFD):
    """The one thread that reads inotify for all workspaces."""

    def __init__(self, on_doubt: OnDoubt, on_unwatched: OnUnwatched) -> None:
        super().__init__()
        self.name = "memsyncd-inotify"
        self._on_doubt = on_doubt
        self._on_unwatched = on_unwatched
        self._is_doomed = self._has_failed = False

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
        events = super().read_events(event_buffer_size=event_buffer_size)
        if self._is_doomed:
            raise RuntimeError("killed to see what happens")
        return events

    def handle_event(self, event: InotifyEvent) -> None:
        super().handle_event(event)
        if event.is_queue_overflow:
            # Only now: the watches have been rebuilt, so what a scan does not see from here on will ring.
            self._on_doubt("the inotify queue overflowed")

    def die(self) -> None:
        """A fault for tests: the thread ends as if on an error of its own."""
        self._is_doomed = True
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
    """Holds back a move's first half until the second comes.

    The kernel queues both in one go, and everything behind a half that stays alone, a file moved out, waits with it: half a
    second by watchdog's own measure. Halves that are not brought together ring as a deletion and a creation, which does.
    """

    delay = 0.02


class WatchGroup(InotifyWatchGroup):
    """The folders of one watch, with a bookkeeping that survives a folder that was moved out and made anew."""

    def __post_init__(self) -> None:
        self._move_event_grouper = MoveGrouper()
        super().__post_init__()

    def forget_beneath(self, path: bytes) -> None:
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
    """One watch's thread: it turns inotify's events into watchdog's."""

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
        self.name = "memsyncd-emitter"
        self._on_doubt = on_doubt
        self._group: WatchGroup | None = None
        self._has_failed = False

    def on_thread_start(self) -> None:
        self._inotify = self._group = WatchGroup(
            self._inotify_fd,
            os.fsencode(self.watch.path),
            is_recursive=self.watch.is_recursive,
            event_mask=self.get_event_mask_from_filter(),
            follow_symlink=self.watch.follow_symlink,
        )

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # noqa: BLE001  its death would show nowhere else
            self._has_failed = True
            self._on_doubt(f"an emitter died: {error!r}")

    def is_alive(self) -> bool:
        return super().is_alive() and not self._has_failed

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
        elif event.ev.is_moved_from and event.ev.is_directory and self._group is not None:
            self._group.forget_beneath(event.path)


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
