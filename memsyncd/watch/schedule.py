"""Are these folders being listened to, by threads that live, on what stands there now?

A schedule follows the set of spots it is given: what is no longer wanted is let go, what was replaced or went deaf is listened to
anew, and what cannot be is remembered with its errno and tried again later. One thread at a time may change it. Why the spots are
wanted is not known here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import BaseObserver, EventEmitter, ObservedWatch

from memsyncd.watch.doubts import OnDoubt, is_worth_telling
from memsyncd.watch.health import describe_limit
from memsyncd.watch.observer import EVENTS, open_observer

JOIN_LIMIT_S = 5.0
RETRY_FIRST_S, RETRY_LAST_S = 60.0, 600.0


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """A folder to listen to, once, however many want it."""

    folder: str
    is_recursive: bool

    def covers(self, path: str) -> bool:
        return is_within(path, self.folder) if self.is_recursive else path == self.folder


OnSpotEvent: TypeAlias = Callable[[Spot, FileSystemEvent], None]


class Schedule:
    """What is listened to. `unwatched` has the folders that could not be, with errno; read it from any thread."""

    def __init__(self, on_event: OnSpotEvent, on_doubt: OnDoubt) -> None:
        self._on_event = on_event
        self._on_doubt = on_doubt
        self.observer: BaseObserver | None = None
        self.unwatched: dict[str, int] = {}
        self._limit = ""
        self._refused_anew: set[str] = set()
        """Folders that could not be listened to since the latest attempt began."""
        self._wanted: frozenset[Spot] = frozenset()
        self._heeded: dict[Spot, _Heeded] = {}
        self._has_told_unwatched = False
        self._retry_s, self._retry_from_s = RETRY_FIRST_S, float("inf")

    def follow(self, spots: Iterable[Spot]) -> frozenset[Spot]:
        """Listen to these spots and no others. Those that are listened to now and were not before."""
        self._wanted = frozenset(spots)
        for spot, heeded in list(self._heeded.items()):
            if spot not in self._wanted or heeded.find_fault():
                self._leave(spot)
        self._forget_unwatched(lambda path: not any(spot.covers(path) for spot in self._wanted))
        # Parents first: what happens to a folder from here on rings above it.
        missing = sorted(self._wanted - self._heeded.keys())
        if not missing or not self._open():
            return frozenset()
        return frozenset(spot for spot in missing if self._heed(spot))

    def walk(self) -> frozenset[Spot]:
        """Watch every folder beneath the spots as it is now. Those of which that changed anything."""
        return frozenset(spot for spot, heeded in list(self._heeded.items()) if self._walk(spot, heeded))

    def find_trouble(self) -> tuple[str, ...]:
        """Why nothing at all is heard; nothing if all is well. From any thread."""
        observer = self.observer
        if observer is None:
            return (self._limit or "nothing listens for events",) if self._wanted else ()
        threads = (("hands on", observer), ("reads", find_reader(observer)))
        return tuple(f"the thread that {act} events has ended" for act, thread in threads if thread and not thread.is_alive())

    @property
    def n_watches(self) -> int:
        """What the operating system watches for us; where the observer does not count that, spots. From any thread."""
        n_watches: int = getattr(self.observer, "n_watches", len(self._heeded))
        return n_watches

    def find_faults(self) -> tuple[str, ...]:
        """Why a folder is not heard though it should be."""
        return tuple(dict.fromkeys(fault for fault in (heeded.find_fault() for heeded in self._heeded.values()) if fault))

    def retry(self, now_s: float) -> None:
        """Try again, now and then, what could not be listened to; tells of a doubt if some of it can be now."""
        self._has_told_unwatched = False
        for path in [path for path in self.unwatched if not os.path.isdir(path)]:
            self.unwatched.pop(path, None)
        if not self.unwatched:
            self._retry_s, self._retry_from_s = RETRY_FIRST_S, float("inf")
        elif self._retry_from_s == float("inf"):
            self._retry_from_s = now_s + self._retry_s
        elif now_s >= self._retry_from_s:
            self._retry_s = min(2 * self._retry_s, RETRY_LAST_S)
            self._retry_from_s = now_s + self._retry_s
            self._heed_unwatched()

    def close(self) -> None:
        """Stop the observer, on a thread of its own: one of watchdog's threads that hangs must not hang us."""
        observer, self.observer = self.observer, None
        self._heeded.clear()
        if observer is not None:
            closer = threading.Thread(target=_stop, args=(observer,), name="memsyncd-unwatch", daemon=True)
            closer.start()
            closer.join(JOIN_LIMIT_S)

    def _open(self) -> bool:
        if self.observer is None:
            try:
                self.observer = open_observer(self._on_doubt, self._note_unwatched)
                self._limit = ""
            except OSError as error:
                self._limit = describe_limit(error.errno or 0)
        return self.observer is not None

    def _heed(self, spot: Spot) -> bool:
        observer = self.observer
        assert observer is not None
        # What could not be listened to is known until it can be: meanwhile somebody may ask.
        self._refused_anew.clear()
        is_heeded = self._try_to_heed(observer, spot)
        self._forget_unwatched(lambda path: spot.covers(path) and path not in self._refused_anew)
        return is_heeded

    def _try_to_heed(self, observer: BaseObserver, spot: Spot) -> bool:
        # Before, not after: if the folder is swapped meanwhile, the next look finds another identity and tries again.
        identity = _find_identity(spot.folder)
        ear = _Ear(spot, self._on_event, self._on_doubt)
        try:
            observed = observer.schedule(ear, spot.folder, recursive=spot.is_recursive, event_filter=EVENTS, follow_symlink=False)
        except OSError as error:
            if is_worth_telling(error.errno or 0):
                self._refuse(spot.folder, error.errno or 0)
            else:
                self._on_doubt("a folder was gone before it could be watched")
            return False
        self._heeded[spot] = _Heeded(spot.folder, observed, observer._emitter_for_watch[observed], identity)
        return True

    def _walk(self, spot: Spot, heeded: _Heeded) -> bool:
        walk = getattr(heeded.emitter, "walk", None)
        if walk is None:
            return False  # FSEvents watches whole trees
        self._refused_anew.clear()
        try:
            has_changed = bool(walk())
        except OSError as error:
            if not is_worth_telling(error.errno or 0):
                self._on_doubt("a watched folder was gone before it could be walked")
            return False
        self._forget_unwatched(lambda path: spot.covers(path) and path not in self._refused_anew)
        return has_changed

    def _leave(self, spot: Spot) -> None:
        heeded = self._heeded.pop(spot)
        if self.observer is not None:
            self.observer.unschedule(heeded.observed)

    def _heed_unwatched(self) -> None:
        n_before = len(self.unwatched)
        for spot in [spot for spot in self._heeded if any(is_within(path, spot.folder) for path in self.unwatched)]:
            self._leave(spot)
        self.follow(self._wanted)
        if len(self.unwatched) < n_before:
            self._on_doubt("folders can be watched that could not be before")

    def _forget_unwatched(self, is_over: Callable[[str], bool]) -> None:
        for path in [path for path in list(self.unwatched) if is_over(path)]:
            self.unwatched.pop(path, None)

    def _refuse(self, folder: str, code: int) -> None:
        # In this order: an attempt forgets what it has not refused anew.
        self._refused_anew.add(folder)
        self.unwatched[folder] = code

    def _note_unwatched(self, folder: str, code: int) -> None:
        """On watchdog's thread or ours. Out of watches it comes once a folder: one doubt will do until the next look."""
        is_known = self.unwatched.get(folder) == code  # each walk meets it again
        self._refuse(folder, code)
        if not (is_known or self._has_told_unwatched):
            self._has_told_unwatched = True
            self._on_doubt(f"a folder could not be watched: {describe_limit(code)}")


def find_reader(observer: BaseObserver | None) -> threading.Thread | None:
    """The thread that reads the operating system's events for all watches, where there is one."""
    reader = getattr(observer, "reader", None)
    return reader if isinstance(reader, threading.Thread) else None


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


@dataclass(frozen=True, slots=True)
class _Heeded:
    folder: str
    observed: ObservedWatch
    emitter: EventEmitter
    identity: tuple[int, int] | None

    def find_fault(self) -> str:
        if not self.emitter.is_alive():
            return "a watched folder is no longer listened to"
        if not getattr(self.emitter, "has_watch", True):
            return "a watched folder has lost its watch"
        return "" if _find_identity(self.folder) == self.identity else "a watched folder has been replaced"


class _Ear(FileSystemEventHandler):
    """One spot's handler. An exception here would end the thread that serves all."""

    def __init__(self, spot: Spot, on_event: OnSpotEvent, on_doubt: OnDoubt) -> None:
        self._spot = spot
        self._on_event = on_event
        self._on_doubt = on_doubt

    def dispatch(self, event: FileSystemEvent) -> None:
        try:
            self._on_event(self._spot, event)
        except Exception as error:  # noqa: BLE001  see above
            self._on_doubt(f"an event was lost: {error!r}")


def _find_identity(folder: str) -> tuple[int, int] | None:
    try:
        stat = os.lstat(folder)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _stop(observer: BaseObserver) -> None:
    observer.stop()
    observer.join(JOIN_LIMIT_S)
