"""How many files may this process have open, and how many has it? Each client, and each database of a workspace, takes some."""

from __future__ import annotations

import contextlib
import os
import resource

WANTED = 8192
"""For all clients and some hundred workspaces; that systems begin with less is for the sake of programs that count to it."""


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
