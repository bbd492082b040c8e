"""Keep the operating system's watches in step with a set of watch targets.

A target that is no longer wanted is unwatched. A target whose folder was replaced, or whose watch
is broken, is watched again. A target that cannot be watched is kept with its errno and retried
later. Only one thread at a time may change the set. `watcher` knows which workspaces need which
target.

On Linux and macOS subclasses of watchdog's classes report the failures about which watchdog is
silent: a queue that overflows, a thread that dies, a watched folder that is moved, deleted or
unmounted, a folder that cannot be watched. Each is reported as lost events, which means: scan
everything. On other systems watchdog chooses its own class.
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

# All watches have this list: two watches on a folder share a descriptor, and the mask of the later
# watch would replace the first. Reads are left out, because memsyncd's own reads would be events.
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

# Watchdog need not log its faults: they are reported as lost events.
logging.getLogger("watchdog").setLevel(logging.CRITICAL)


def open_observer(
    run_later: RunLater,
    on_events_lost: OnEventsLost,
    on_unwatched: OnUnwatched,
    find_limits: Callable[[str], WatchLimits],
) -> BaseObserver:
    """Start an observer for this platform.

    Raises OSError (EMFILE) at the system's limit of observers. `on_events_lost(reason)` and
    `on_unwatched(folder, errno)` are called on threads of watchdog or of `run_later`; there they
    must only hand over. `find_limits(folder)` returns what a recursive watch leaves out; it is not
    called on systems that watch whole trees.
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
    # watchdog warns when it falls back to another class; here every status names the class.
    with warnings.catch_warnings(action="ignore"):
        from watchdog.observers import Observer

        return Observer()


# --- watches --------------------------------------------------------------------------------------


JOIN_LIMIT_S = 5.0
RETRY_FIRST_S, RETRY_LAST_S = 60.0, 600.0


class WatchTarget(msgspec.Struct, frozen=True, order=True):
    """A folder that is watched once, for any number of workspaces."""

    folder: str
    is_recursive: bool

    def covers(self, path: str) -> bool:
        return is_within(path, self.folder) if self.is_recursive else path == self.folder


OnTargetEvent: TypeAlias = Callable[[WatchTarget, FileSystemEvent], None]


class WatchTargets:
    """The watched targets.

    `unwatched` maps each folder that cannot be watched to its errno. `accessed` is the target whose
    folders a call reads from the disk now, or has read last. Any thread may read both.
    """

    def __init__(
        self,
        run_later: RunLater,
        on_event: OnTargetEvent,
        on_events_lost: OnEventsLost,
        find_limits: Callable[[str], WatchLimits],
    ) -> None:
        """`find_limits(folder)` returns what the recursive watch of a folder leaves out."""
        self._run_later = run_later
        self._find_limits = find_limits
        self._on_event = on_event
        self._on_events_lost = on_events_lost
        self.observer: BaseObserver | None = None
        self.unwatched: dict[str, int] = {}
        self.accessed: WatchTarget | None = None
        self._limit = ""
        # Folders that could not be watched since the latest attempt began.
        self._newly_refused: set[str] = set()
        self._wanted: frozenset[WatchTarget] = frozenset()
        self._watched: dict[WatchTarget, _Watched] = {}
        self._has_reported_unwatched = False
        self._retry_s, self._retry_from_s = RETRY_FIRST_S, float("inf")

    def update(self, targets: Iterable[WatchTarget]) -> frozenset[WatchTarget]:
        """Watch exactly these targets. Return the targets that were not watched before."""
        self._wanted = frozenset(targets)
        for target, watched in list(self._watched.items()):
            if target not in self._wanted or self._find_fault(target, watched):
                self._unwatch(target)
        self._forget_unwatched(lambda path: not any(target.covers(path) for target in self._wanted))
        # Parents come first: their watch reports changes to a folder that is watched later.
        missing = sorted(self._wanted - self._watched.keys())
        if not missing or not self._open():
            return frozenset()
        return frozenset(target for target in missing if self._watch(target))

    def is_watched(self, target: WatchTarget) -> bool:
        return target in self._watched

    def walk(self, is_chosen: Callable[[WatchTarget], bool]) -> frozenset[WatchTarget]:
        """Watch every folder that is now beneath the chosen targets.

        Returns the targets in which a watch has changed.
        """
        chosen = [(target, watch) for target, watch in self._watched.items() if is_chosen(target)]
        return frozenset(target for target, watch in chosen if self._walk(target, watch))

    def find_observer_faults(self) -> tuple[str, ...]:
        """Return the reasons why no event at all arrives; empty if all is well. For any thread."""
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
        """A number that changes while a call makes progress. Any thread may read it."""
        n_walked: int = getattr(find_reader(self.observer), "n_walked", len(self._watched))
        return n_walked

    @property
    def n_watches(self) -> int:
        """The number of the system's watches; if unknown, of targets. Any thread may read it."""
        n_watches: int = getattr(find_reader(self.observer), "n_watches", len(self._watched))
        return n_watches

    def find_target_faults(self) -> tuple[str, ...]:
        """Return the reasons why events of a target do not arrive."""
        faults = (self._find_fault(target, watch) for target, watch in self._watched.items())
        return tuple(dict.fromkeys(fault for fault in faults if fault))

    def retry(self, now_s: float) -> None:
        """Watch refused folders again, at growing intervals; report lost events if one succeeds."""
        self._has_reported_unwatched = False
        self._forget_unwatched(self._is_gone)
        # Each walk tries the folders over the limit again, so they need no retry here.
        if all(code == errno.EDQUOT for code in list(self.unwatched.values())):
            self._retry_s, self._retry_from_s = RETRY_FIRST_S, float("inf")
        elif self._retry_from_s == float("inf"):
            self._retry_from_s = now_s + self._retry_s
        elif now_s >= self._retry_from_s:
            self._retry_s = min(2 * self._retry_s, RETRY_LAST_S)
            self._retry_from_s = now_s + self._retry_s
            self._retry_unwatched()

    def close(self) -> None:
        """Stop the observer. Wait at most a few seconds for watchdog's threads."""
        observer, self.observer, self.accessed = self.observer, None, None
        self._watched.clear()
        if observer is not None:
            # A thread of its own does this, because a thread of watchdog may hang.
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
        # Earlier refusals stay in `unwatched` during the attempt: `status` may read them meanwhile.
        self._newly_refused.clear()
        is_watched = self._try_to_watch(observer, target)
        self._forget_old_refusals(target)
        return is_watched

    def _try_to_watch(self, observer: BaseObserver, target: WatchTarget) -> bool:
        # The identity is read before the watch: if the folder is replaced meanwhile, the next check
        # finds another identity and watches the folder again.
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
        """Forget refusals beneath a target if its latest attempt has not met them again."""
        newly_refused = self._newly_refused
        self._forget_unwatched(lambda path: target.covers(path) and path not in newly_refused)

    def _forget_unwatched(self, is_over: Callable[[str], bool]) -> None:
        for path in [path for path in list(self.unwatched) if is_over(path)]:
            self.unwatched.pop(path, None)

    def _is_gone(self, path: str) -> bool:
        self.accessed = next((target for target in self._wanted if target.covers(path)), None)
        return not os.path.isdir(path)

    def _refuse(self, folder: str, code: int) -> None:
        # The order matters: an attempt forgets folders that are not newly refused.
        self._newly_refused.add(folder)
        self.unwatched[folder] = code

    def _note_unwatched(self, folder: str, code: int) -> None:
        """Note a refused folder. Any thread may call this.

        At the watch limit it is called for every folder; one report is enough until the next check.
        """
        is_known = self.unwatched.get(folder) == code  # each walk finds the folder again
        self._refuse(folder, code)
        if not (is_known or self._has_reported_unwatched):
            self._has_reported_unwatched = True
            self._on_events_lost(f"a folder could not be watched: {describe_limit(code)}")


def find_reader(observer: BaseObserver | None) -> threading.Thread | None:
    """Return the thread that reads the system's events for all watches, or None."""
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
        except Exception as error:  # noqa: BLE001  it would end the thread of all targets
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
