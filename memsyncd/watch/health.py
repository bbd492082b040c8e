"""Can a workspace's events be relied on, and if not, why? What is known is turned into a mode and words for `status`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

MISSED_FOR_REBUILD = 3
MISSED_FOR_TIMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchHealth:
    """`mode` is "events" while they can be relied on, "timed" while only scans by the clock can. `reasons` are for people."""

    mode: str
    observer: str
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class MissedChanges:
    """Counts, for each folder, the timed scans in a row that found a change no event had announced.

    Each folder has a watch of its own, so the events of one prove nothing about another.
    """

    _n_missed: dict[str, int] = field(default_factory=dict)
    _heard: set[str] = field(default_factory=set)

    def note_event(self, folder: str) -> None:
        """An event about an entry of this folder has come."""
        if folder in self._n_missed:
            self._heard.add(folder)

    def note_scan(self, missed: Collection[str]) -> bool:
        """Count a timed scan that found unannounced changes in these folders.

        Returns true if the watcher is worth a rebuild: at the third scan in a row for any folder,
        once. A scan that found nothing in a folder ends its row only if an event came from there: a
        watch that tells of nothing cannot prove that there was nothing.
        """
        heard, self._heard = self._heard, set()
        for folder in heard.difference(missed):
            self._n_missed.pop(folder, None)
        for folder in missed:
            self._n_missed[folder] = self._n_missed.get(folder, 0) + 1
        return any(self._n_missed.get(folder) == MISSED_FOR_REBUILD for folder in missed)

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """Forget folders that are no more: nothing will ever be heard from there."""
        for folder in [folder for folder in list(self._n_missed) if is_gone(folder)]:
            self._n_missed.pop(folder, None)

    @property
    def n_missed(self) -> int:
        """The longest row of any folder."""
        return max(list(self._n_missed.values()), default=0)

    @property
    def is_deaf(self) -> bool:
        return self.n_missed >= MISSED_FOR_TIMED


def describe_health(
    *, observer: str, trouble: tuple[str, ...], unwatched: Mapping[str, int], missed: MissedChanges
) -> WatchHealth:
    """`trouble` concerns everybody; `unwatched` are this workspace's folders that could not be watched, with errno."""
    timed = [*trouble, *(_describe_errno(code, unwatched) for code in sorted(set(unwatched.values()) - {errno.EACCES}))]
    if observer == "PollingObserver":
        timed.append("this system tells of no changes: files are looked at by the clock")
    if missed.is_deaf:
        timed.append(f"{missed.n_missed} scans in a row found changes that no event announced")
    noted = [_describe_errno(errno.EACCES, unwatched)] if errno.EACCES in unwatched.values() else []
    return WatchHealth(mode="timed" if timed else "events", observer=observer, reasons=(*timed, *noted))


def describe_limit(code: int) -> str:
    """What an errno of inotify means, and what to do about it."""
    if code == errno.ENOSPC:
        return "inotify watch limit reached: raise it with `sudo sysctl fs.inotify.max_user_watches=1048576`"
    if code == errno.EMFILE:
        return "inotify instance limit reached: raise it with `sudo sysctl fs.inotify.max_user_instances=1024`"
    return os.strerror(code).lower()


def _describe_errno(code: int, unwatched: Mapping[str, int]) -> str:
    n_folders = sum(1 for other in unwatched.values() if other == code)
    return f"{describe_limit(code)} ({n_folders} folder{'s' if n_folders > 1 else ''} not watched)"
