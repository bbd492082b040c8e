"""How many files may this process have open, and how many has it? Each client, and each database of a workspace, takes some.

Where none is left, clients have to wait, which is said once a minute: asyncio would say it of each of them every second.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
from collections.abc import Callable
from typing import Any

from memsyncd.logs import Event, get_log

WANTED = 8192
"""For all clients and some hundred workspaces; that systems begin with less is for the sake of programs that count to it."""
SAID_AGAIN_S = 60.0
_NONE_LEFT = frozenset({errno.EMFILE, errno.ENFILE})

log = get_log("daemon")


class LoopTrouble:
    """Takes what goes wrong in the event loop's own doing. `now_s` is a clock that never goes back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._said_s = float("-inf")

    def take(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if not (isinstance(failure, OSError) and failure.errno in _NONE_LEFT):
            loop.default_exception_handler(context)
        elif self._now_s() - self._said_s >= SAID_AGAIN_S:
            self._said_s = self._now_s()
            log.warning(Event.CLIENT_REFUSED, reason="no file is left to open for it: it has to wait")


def raise_file_limit() -> None:
    """Allow as many as are wanted, as far as the system lets anybody who asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def find_file_limit() -> int | None:
    """How many may be open, None if there is no limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def count_open_files() -> int:
    """How many are open now."""
    try:
        # One is of the listing itself.
        return len(os.listdir("/dev/fd")) - 1
    except OSError:
        # There is none left to list them by.
        return find_file_limit() or 0
