"""Decide whether the events of a workspace can be relied on, and describe the reasons if not.

The result is a mode and reasons for `status`. If a folder cannot be watched, the reason describes
the errno and its remedy.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

import msgspec

AT_A_TIME = 64
# So many items can wait only while a disk hangs.
LIMIT = 100_000

T = TypeVar("T")

# Makes a call on another thread, after earlier calls with the same key. A call that hangs may delay
# only calls with its own key.
RunLater = Callable[[Callable[[], None], str], object]


class Backlog(Generic[T]):
    """Items of one key that wait for `handle`. Only one thread at a time may call `put`."""

    def __init__(
        self,
        handle: Callable[[T], None],
        *,
        key: str,
        run_later: RunLater,
        on_events_lost: OnEventsLost,
    ) -> None:
        self._handle = handle
        self._key = key
        self._run_later = run_later
        self._on_events_lost = on_events_lost
        self._lock = threading.Lock()
        self._items: deque[T] = deque()
        self._is_scheduled = False

    @property
    def is_idle(self) -> bool:
        """True if no item waits or is being handled."""
        return not self._is_scheduled

    def put(self, item: T) -> None:
        """Let `handle` get this item after all earlier ones."""
        with self._lock:
            is_full = len(self._items) >= LIMIT
            if is_full:
                self._items.clear()
            self._items.append(item)
            is_first = not self._is_scheduled
            self._is_scheduled = True
        if is_full:
            self._on_events_lost(f"{LIMIT} events waited for a disk that does not answer")
        if is_first:
            self._run_later(self._run, self._key)

    def _run(self) -> None:
        # Only some items: calls with other keys take turns with this call.
        for _ in range(AT_A_TIME):
            with self._lock:
                if not self._items:
                    self._is_scheduled = False
                    return
                item = self._items.popleft()
            try:
                self._handle(item)
            except Exception as error:  # noqa: BLE001  later items must still be handled
                self._on_events_lost(f"an event was lost: {error!r}")
        self._run_later(self._run, self._key)


MISSED_FOR_REBUILD = 3
MISSED_FOR_TIMED = 6

# Called with a reason when events were or will be lost: then everything must be scanned.
OnEventsLost = Callable[[str], None]
# Called with a folder that cannot be watched, and the errno.
OnUnwatched = Callable[[str, int], None]


class WatchHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How changes of a workspace are noticed.

    `mode` is "events" while events can be relied on; it is "timed" while only timed scans can.
    `reasons` are texts for people. Two of the reasons are no faults: `limit` (there are more
    folders than may be watched; answers say so too) and `denied` (folders without permission, which
    scans report).
    """

    mode: str
    observer: str
    reasons: tuple[str, ...] = ()
    limit: str = ""
    denied: str = ""

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(text for text in self.reasons if text not in (self.limit, self.denied))


class MissedChanges(msgspec.Struct):
    """Counts, for each folder, the timed scans in a row that found a change without an event.

    Each folder has a watch of its own, so events of one folder prove nothing about another folder.
    """

    _n_missed: dict[str, int] = msgspec.field(default_factory=dict)
    _with_events: set[str] = msgspec.field(default_factory=set)

    def note_event(self, folder: str) -> None:
        """Note an event about an entry of this folder."""
        if folder in self._n_missed:
            self._with_events.add(folder)

    def note_scan(self, missed: Collection[str]) -> bool:
        """Count a timed scan that found changes without an event in the folders `missed`.

        Returns true if the watcher should be rebuilt: once, at the third scan in a row for any
        folder. A scan without such changes ends the row of a folder only if the folder has had an
        event meanwhile: a watch that reports nothing may be broken.
        """
        with_events, self._with_events = self._with_events, set()
        for folder in with_events.difference(missed):
            self._n_missed.pop(folder, None)
        for folder in missed:
            self._n_missed[folder] = self._n_missed.get(folder, 0) + 1
        return any(self._n_missed.get(folder) == MISSED_FOR_REBUILD for folder in missed)

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """Forget folders that no longer exist, because no event will come from them."""
        for folder in [folder for folder in list(self._n_missed) if is_gone(folder)]:
            self._n_missed.pop(folder, None)

    @property
    def n_missed(self) -> int:
        """The largest number of scans in a row for any folder."""
        return max(list(self._n_missed.values()), default=0)

    @property
    def is_unreliable(self) -> bool:
        return self.n_missed >= MISSED_FOR_TIMED


def describe_health(
    *,
    observer: str,
    observer_faults: tuple[str, ...],
    unwatched: Mapping[str, int],
    missed: MissedChanges,
) -> WatchHealth:
    """Describe the health of a workspace.

    `observer_faults` are reasons that concern every workspace. `unwatched` maps each folder of this
    workspace that cannot be watched to its errno.
    """
    refusals = sorted(set(unwatched.values()) - {errno.EACCES})
    timed = [*observer_faults, *(_describe_refusal(code, unwatched) for code in refusals)]
    if observer == "PollingObserver":
        timed.append("this system reports no file events: files are scanned by a timer")
    if missed.is_unreliable:
        timed.append(f"{missed.n_missed} scans in a row found changes that no event announced")
    # Scans cannot read a folder without permission either, so events are enough for the others.
    has_denied = errno.EACCES in unwatched.values()
    denied = _describe_refusal(errno.EACCES, unwatched) if has_denied else ""
    mode = "timed" if timed else "events"
    limit = describe_limit(errno.EDQUOT) if errno.EDQUOT in refusals else ""
    reasons = (*timed, denied) if denied else tuple(timed)
    return WatchHealth(mode=mode, observer=observer, reasons=reasons, limit=limit, denied=denied)


def describe_limit(code: int) -> str:
    """Describe an errno of inotify and its remedy."""
    if code == errno.ENOSPC:
        return _describe_setting("watch", "fs.inotify.max_user_watches=1048576")
    if code == errno.EMFILE and _has_no_file_left():
        return "too many open files: raise `ulimit -n`"
    if code == errno.EMFILE:
        return _describe_setting("instance", "fs.inotify.max_user_instances=1024")
    if code == errno.EDQUOT:
        return (
            "more folders than sync.max_watched_folders: changes in the others are found by timed"
            " scans; raise it, or leave folders out with exclude or .gitignore"
        )
    return os.strerror(code).lower()


def _describe_setting(what: str, setting: str) -> str:
    return (
        f"inotify {what} limit reached: sudo sysctl {setting} raises it;"
        " a line in /etc/sysctl.d/60-inotify.conf keeps it"
    )


def _has_no_file_left() -> bool:
    """True if the process may open no more files, which inotify reports like its own limit."""
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False


def is_worth_reporting(code: int) -> bool:
    """False if the folder disappeared before it could be watched."""
    return code not in (errno.ENOENT, errno.ENOTDIR)


def _describe_refusal(code: int, unwatched: Mapping[str, int]) -> str:
    if code == errno.EDQUOT:
        return describe_limit(code)  # one entry stands for all folders of a watch over the limit
    n_folders = sum(1 for other in unwatched.values() if other == code)
    return f"{describe_limit(code)} ({n_folders} folder{'s' if n_folders > 1 else ''} not watched)"
