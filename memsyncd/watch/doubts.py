"""What does the watcher say when something is wrong, and what is not worth saying?

A doubt means: events were or will be lost, so look at everything. An unwatched folder is named with its errno. Both are said on
watchdog's threads, so those who hear them must only hand off.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import ENOENT, ENOTDIR

OnDoubt = Callable[[str], None]
OnUnwatched = Callable[[str, int], None]


def is_worth_telling(errno: int) -> bool:
    """True unless the folder had merely gone again before it could be watched."""
    return errno not in (ENOENT, ENOTDIR)
