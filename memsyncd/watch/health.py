"""Can a workspace's events be relied on, and if not, why? What is known is turned into a mode and words for `status`."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass

MISSED_FOR_REBUILD = 3
MISSED_FOR_TIMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchHealth:
    """`mode` is "events" while they can be relied on, "timed" while only scans by the clock can. `reasons` are for people."""

    mode: str
    observer: str
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class MissedRow:
    """How many timed scans in a row found a change that no event had announced."""

    n_missed: int = 0

    def note(self, *, has_missed: bool, has_heard: bool) -> bool:
        """Count one timed scan. True if the watcher is worth a rebuild: at the third of a row, once.

        A scan that found nothing ends the row only if events came since: silence proves nothing to the deaf.
        """
        if has_missed:
            self.n_missed += 1
        elif has_heard:
            self.n_missed = 0
        return has_missed and self.n_missed == MISSED_FOR_REBUILD

    @property
    def is_deaf(self) -> bool:
        return self.n_missed >= MISSED_FOR_TIMED


def describe_health(*, observer: str, trouble: tuple[str, ...], unwatched: Mapping[str, int], missed: MissedRow) -> WatchHealth:
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
