"""Watch folders with inotify through watchdog, and report events that watchdog loses silently.

This module reports an overflow of the queue, the death of the reader or of an emitter, and a folder
that is moved, unmounted or cannot be watched. watchdog has a thread for each watch and another that
dispatches events; here the reader does the work of all these threads, and `WatchGroup` keeps the
table of watched folders.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import DEFAULT_OBSERVER_TIMEOUT, BaseObserver, EventQueue, ObservedWatch
from watchdog.observers.inotify import InotifyEmitter
from watchdog.observers.inotify_c import InotifyConstants, Mask
from watchdog.observers.inotify_move_event_grouper import GroupedInotifyEvent, PathedInotifyEvent
from watchdog.utils import Seconds

from memsyncd.watch.health import OnEventsLost, OnUnwatched, RunLater
from memsyncd.watch.inotify_reader import EventReader
from memsyncd.watch.watch_group import WatchGroup, WatchLimits

JOIN_LIMIT_S = 5.0
# Called with the folder of a recursive watch, from any thread.
FindLimits = Callable[[str], WatchLimits]


class EmitterCallbacks(NamedTuple):
    """The functions that the emitters of one observer call."""

    dispatch: Callable[[ObservedWatch, FileSystemEvent], None]
    find_limits: FindLimits
    run_later: RunLater
    on_events_lost: OnEventsLost


class Emitter(InotifyEmitter):
    """Turns inotify's events into watchdog's events, for a single watch.

    In watchdog an emitter is a thread that waits for the reader's events. Here the watch group
    calls it instead, because a thread for each watch would mean hundreds of idle threads.
    """

    def __init__(
        self,
        event_queue: EventQueue,
        watch: ObservedWatch,
        *,
        reader: EventReader,
        callbacks: EmitterCallbacks,
        timeout: Seconds = DEFAULT_OBSERVER_TIMEOUT,
        event_filter: list[type[FileSystemEvent]] | None = None,
    ) -> None:
        super().__init__(
            event_queue, watch, timeout=timeout, event_filter=event_filter, inotify_fd=reader
        )
        self._reader = reader
        self._callbacks = callbacks
        self._has_failed = False
        self._group: WatchGroup | None = None

    def start(self) -> None:
        """Watch the folder. Raises OSError if it cannot be watched."""
        self._group = WatchGroup(
            self._reader,
            os.fsencode(self.watch.path),
            self.get_event_mask_from_filter(),
            is_recursive=self.watch.is_recursive,
            find_limits=lambda: self._callbacks.find_limits(self.watch.path),
            run_later=self._callbacks.run_later,
            on_event=self._emit,
            on_events_lost=self._callbacks.on_events_lost,
        )

    def on_thread_stop(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.deactivate()

    def is_alive(self) -> bool:
        return self.should_keep_running() and not self._has_failed

    @property
    def has_watch(self) -> bool:
        return self._group is not None and self._group.has_watch

    def walk(self) -> bool:
        """Do the same as WatchGroup.walk; return False if the emitter is stopped."""
        group = self._group
        return group is not None and group.walk()

    def _emit(self, event: GroupedInotifyEvent) -> None:
        if self.is_alive():
            try:
                self.build_and_queue_event(event)
            except Exception as error:  # noqa: BLE001  it would end the reader
                self._has_failed = True
                self._callbacks.on_events_lost(f"an emitter failed: {error!r}")

    def queue_event(self, event: FileSystemEvent) -> None:
        if self._event_filter is None or isinstance(event, tuple(self._event_filter)):
            self._callbacks.dispatch(self.watch, event)

    def get_event_mask_from_filter(self) -> Mask:
        return Mask(super().get_event_mask_from_filter() | InotifyConstants.IN_MOVE_SELF)

    def build_and_queue_event(
        self, event: GroupedInotifyEvent, *, full_events: bool = False
    ) -> None:
        super().build_and_queue_event(event, full_events=full_events)
        if not isinstance(event, PathedInotifyEvent):
            return
        is_own = event.path == os.fsencode(self.watch.path)
        if event.ev.mask & InotifyConstants.IN_UNMOUNT:
            self._callbacks.on_events_lost("a watched folder was unmounted")
        elif is_own and (event.ev.is_move_self or event.ev.is_delete_self):
            self._callbacks.on_events_lost("a watched folder was moved or deleted")


class LinuxObserver(BaseObserver):
    """One inotify instance for all watches. Its reader dispatches the events.

    The observer's own thread only waits for the end: handlers just hand events over, and another
    thread in between would delay each event.
    """

    system = "inotify"

    def __init__(
        self,
        run_later: RunLater,
        on_events_lost: OnEventsLost,
        on_unwatched: OnUnwatched,
        find_limits: FindLimits,
    ) -> None:
        self.reader = EventReader(on_events_lost, on_unwatched)
        self.reader.start()
        super().__init__(
            Emitter,
            reader=self.reader,
            callbacks=EmitterCallbacks(self._dispatch, find_limits, run_later, on_events_lost),
        )
        self.name = "memsyncd-events"

    def schedule(
        self,
        event_handler: FileSystemEventHandler,
        path: str | Path,
        *,
        recursive: bool = False,
        event_filter: list[type[FileSystemEvent]] | None = None,
        follow_symlink: bool = False,
    ) -> ObservedWatch:
        options: dict[str, Any] = {
            "recursive": recursive,
            "event_filter": event_filter,
            "follow_symlink": follow_symlink,
        }
        # The handler is added before the folder is watched: an event without a handler is lost.
        watch = ObservedWatch(path, **options)
        self._handlers[watch].add(event_handler)
        try:
            return super().schedule(event_handler, path, **options)
        except BaseException:
            self._handlers.pop(watch, None)
            raise

    def _dispatch(self, watch: ObservedWatch, event: FileSystemEvent) -> None:
        # The observer's lock is not taken: `schedule` holds it while it watches a folder, and the
        # disk of that folder may hang.
        for handler in tuple(self._handlers.get(watch, ())):
            handler.dispatch(event)

    def on_thread_stop(self) -> None:
        super().on_thread_stop()
        self.reader.stop()
        self.reader.join(JOIN_LIMIT_S)
