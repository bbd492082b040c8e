"""Keep the operating system's watches in step with a set of watch targets.

Targets that are no longer wanted are unwatched, those whose folder was replaced or whose watch is
broken are watched again, and those that cannot be watched are remembered with their errno and
retried later. One thread at a time may change the set. `watcher` knows which workspaces need which
target.

On Linux and macOS watchdog's classes are subclassed where they fail silently: a queue that
overflows, a thread that dies, a watched folder that is moved, deleted or unmounted, a folder that
cannot be watched. Each is reported as lost events, which means: scan everything. Elsewhere
watchdog's own choice is used.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
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
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver, EventEmitter, ObservedWatch

from memsyncd.watch.health import (
    OnEventsLost,
    OnUnwatched,
    RunLater,
    describe_limit,
    is_worth_reporting,
)

if TYPE_CHECKING:
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


# --- watches --------------------------------------------------------------------------------------


JOIN_LIMIT_S = 5.0
RETRY_FIRST_S, RETRY_LAST_S = 60.0, 600.0


class WatchTarget(msgspec.Struct, frozen=True, order=True):
    """A folder to watch once, for any number of workspaces."""

    folder: str
    is_recursive: bool

    def covers(self, path: str) -> bool:
        return is_within(path, self.folder) if self.is_recursive else path == self.folder


OnTargetEvent: TypeAlias = Callable[[WatchTarget, FileSystemEvent], None]


class WatchTargets:
    """The watched targets.

    `unwatched` has the folders that cannot be watched, with errno. `accessed` is the target whose
    folders a call reads from the disk now or did last. Both may be read from any thread.
    """

    def __init__(
        self,
        run_later: RunLater,
        on_event: OnTargetEvent,
        on_events_lost: OnEventsLost,
        find_limits: Callable[[str], WatchLimits],
    ) -> None:
        """`find_limits(folder)` is what the recursive watch of a folder leaves out."""
        self._run_later = run_later
        self._find_limits = find_limits
        self._on_event = on_event
        self._on_events_lost = on_events_lost
        self.observer: BaseObserver | None = None
        self.unwatched: dict[str, int] = {}
        self.accessed: WatchTarget | None = None
        self._limit = ""
        # Folders that were refused since the latest attempt began.
        self._newly_refused: set[str] = set()
        self._wanted: frozenset[WatchTarget] = frozenset()
        self._watched: dict[WatchTarget, _Watched] = {}
        self._has_reported_unwatched = False
        self._retry_s, self._retry_from_s = RETRY_FIRST_S, float("inf")

    def update(self, targets: Iterable[WatchTarget]) -> frozenset[WatchTarget]:
        """Watch these targets and no others. Returns those that were not watched before."""
        self._wanted = frozenset(targets)
        for target, watched in list(self._watched.items()):
            if target not in self._wanted or self._find_fault(target, watched):
                self._unwatch(target)
        self._forget_unwatched(lambda path: not any(one.covers(path) for one in self._wanted))
        # Parents first: the watch above reports changes to a folder that is watched later.
        missing = sorted(self._wanted - self._watched.keys())
        if not missing or not self._open():
            return frozenset()
        return frozenset(target for target in missing if self._watch(target))

    def walk(self, chosen: Callable[[WatchTarget], bool]) -> frozenset[WatchTarget]:
        """Watch every folder that is now beneath the chosen targets.

        Returns the targets in which that changed a watch.
        """
        watched = [(target, one) for target, one in self._watched.items() if chosen(target)]
        return frozenset(target for target, one in watched if self._walk(target, one))

    def find_observer_faults(self) -> tuple[str, ...]:
        """The reasons why no event at all arrives; empty if all is well. From any thread."""
        observer = self.observer
        if observer is None:
            return (self._limit or "no observer of file events is open",) if self._wanted else ()
        threads = (("dispatches", observer), ("reads", find_reader(observer)))
        return tuple(
            f"the thread that {task} events has ended"
            for task, thread in threads
            if thread and not thread.is_alive()
        )

    @property
    def progress(self) -> int:
        """A number that changes while a call makes progress. From any thread."""
        n_walked: int = getattr(find_reader(self.observer), "n_walked", len(self._watched))
        return n_walked

    @property
    def n_watches(self) -> int:
        """The number of the system's watches, or of targets if unknown. From any thread."""
        n_watches: int = getattr(find_reader(self.observer), "n_watches", len(self._watched))
        return n_watches

    def find_target_faults(self) -> tuple[str, ...]:
        """The reasons why events of a target do not arrive."""
        faults = (self._find_fault(target, one) for target, one in self._watched.items())
        return tuple(dict.fromkeys(fault for fault in faults if fault))

    def retry(self, now_s: float) -> None:
        """Retry refused folders at growing intervals. Reports lost events if one succeeds."""
        self._has_reported_unwatched = False
        self._forget_unwatched(self._is_gone)
        # Each walk tries folders over the limit again.
        if all(code == errno.EDQUOT for code in list(self.unwatched.values())):
            self._retry_s, self._retry_from_s = RETRY_FIRST_S, float("inf")
        elif self._retry_from_s == float("inf"):
            self._retry_from_s = now_s + self._retry_s
        elif now_s >= self._retry_from_s:
            self._retry_s = min(2 * self._retry_s, RETRY_LAST_S)
            self._retry_from_s = now_s + self._retry_s
            self._retry_unwatched()

    def close(self) -> None:
        """Stop the observer. Waits a few seconds at most for watchdog's threads."""
        observer, self.observer, self.accessed = self.observer, None, None
        self._watched.clear()
        if observer is not None:
            # On a thread of its own, because a thread of watchdog's may hang.
            closer = threading.Thread(
                target=_stop, args=(observer,), name="memsyncd-unwatch", daemon=True
            )
            closer.start()
            closer.join(JOIN_LIMIT_S)

    def _find_fault(self, target: WatchTarget, watched: _Watched) -> str:
        self.accessed = target
        return watched.find_fault()

    def _open(self) -> bool:
        if self.observer is None:
            try:
                self.observer = open_observer(
                    self._run_later,
                    self._on_events_lost,
                    self._note_unwatched,
                    self._find_limits,
                )
                self._limit = ""
            except OSError as error:
                self._limit = describe_limit(error.errno or 0)
        return self.observer is not None

    def _watch(self, target: WatchTarget) -> bool:
        observer = self.observer
        assert observer is not None
        self.accessed = target
        # Earlier refusals stay known during the attempt: `status` may read them meanwhile.
        self._newly_refused.clear()
        is_watched = self._try_to_watch(observer, target)
        self._forget_old_refusals(target)
        return is_watched

    def _try_to_watch(self, observer: BaseObserver, target: WatchTarget) -> bool:
        # Before the watch: if the folder is replaced meanwhile, the next check finds another
        # identity and watches again.
        identity = _stat_identity(target.folder)
        handler = _Handler(target, self._on_event, self._on_events_lost)
        try:
            observed = observer.schedule(
                handler,
                target.folder,
                recursive=target.is_recursive,
                event_filter=EVENTS,
                follow_symlink=False,
            )
        except OSError as error:
            if is_worth_reporting(error.errno or 0):
                self._refuse(target.folder, error.errno or 0)
            else:
                self._on_events_lost("a folder disappeared before it could be watched")
            return False
        emitter = observer._emitter_for_watch[observed]
        self._watched[target] = _Watched(target.folder, observed, emitter, identity)
        return True

    def _walk(self, target: WatchTarget, watched: _Watched) -> bool:
        walk = getattr(watched.emitter, "walk", None)
        if walk is None:
            return False  # FSEvents watches whole trees
        self.accessed = target
        self._newly_refused.clear()
        try:
            has_changed = bool(walk())
        except OSError as error:
            if not is_worth_reporting(error.errno or 0):
                self._on_events_lost("a watched folder disappeared before it could be walked")
            return False
        self._forget_old_refusals(target)
        return has_changed

    def _unwatch(self, target: WatchTarget) -> None:
        watched = self._watched.pop(target)
        if self.observer is not None:
            self.observer.unschedule(watched.observed)

    def _retry_unwatched(self) -> None:
        n_before = len(self.unwatched)
        for target in list(self._watched):
            if any(is_within(path, target.folder) for path in self.unwatched):
                self._unwatch(target)
        self.update(self._wanted)
        if len(self.unwatched) < n_before:
            self._on_events_lost("folders can be watched that could not be before")

    def _forget_old_refusals(self, target: WatchTarget) -> None:
        """Forget the refusals beneath a target that its latest attempt has not met again."""
        newly_refused = self._newly_refused
        self._forget_unwatched(lambda path: target.covers(path) and path not in newly_refused)

    def _forget_unwatched(self, is_over: Callable[[str], bool]) -> None:
        for path in [path for path in list(self.unwatched) if is_over(path)]:
            self.unwatched.pop(path, None)

    def _is_gone(self, path: str) -> bool:
        self.accessed = next((one for one in self._wanted if one.covers(path)), None)
        return not os.path.isdir(path)

    def _refuse(self, folder: str, code: int) -> None:
        # In this order: an attempt forgets folders that are not newly refused.
        self._newly_refused.add(folder)
        self.unwatched[folder] = code

    def _note_unwatched(self, folder: str, code: int) -> None:
        """Note a refused folder, on any thread.

        At the watch limit this comes for every folder: one report is enough until the next check.
        """
        is_known = self.unwatched.get(folder) == code  # each walk meets it again
        self._refuse(folder, code)
        if not (is_known or self._has_reported_unwatched):
            self._has_reported_unwatched = True
            self._on_events_lost(f"a folder could not be watched: {describe_limit(code)}")


def find_reader(observer: BaseObserver | None) -> threading.Thread | None:
    """The thread that reads the system's events for all watches, if the observer has one."""
    reader = getattr(observer, "reader", None)
    return reader if isinstance(reader, threading.Thread) else None


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


class _Watched(msgspec.Struct, frozen=True):
    """A watched target: watchdog's objects, and the folder's device and inode."""

    folder: str
    observed: ObservedWatch
    emitter: EventEmitter
    identity: tuple[int, int] | None

    def find_fault(self) -> str:
        if not self.emitter.is_alive():
            return "the emitter of a watched folder has stopped"
        if not getattr(self.emitter, "has_watch", True):
            return "a watched folder has lost its watch"
        is_same = _stat_identity(self.folder) == self.identity
        return "" if is_same else "a watched folder has been replaced"


class _Handler(FileSystemEventHandler):
    """The handler of one target."""

    def __init__(
        self, target: WatchTarget, on_event: OnTargetEvent, on_events_lost: OnEventsLost
    ) -> None:
        self._target = target
        self._on_event = on_event
        self._on_events_lost = on_events_lost

    def dispatch(self, event: FileSystemEvent) -> None:
        try:
            self._on_event(self._target, event)
        except Exception as error:  # noqa: BLE001  it would end the thread that serves all targets
            self._on_events_lost(f"an event was lost: {error!r}")


def _stat_identity(folder: str) -> tuple[int, int] | None:
    try:
        stat = os.lstat(folder)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _stop(observer: BaseObserver) -> None:
    observer.stop()
    observer.join(JOIN_LIMIT_S)
