"""Say whether the process may open more files: SQLite only says that it cannot open a database."""

from __future__ import annotations

import errno
import os
import resource

from memsyncd.errors import StoreFailed

# Two databases with their logs and shared memory, and some readers of each.
FILES_PER_WORKSPACE = 10
# For the socket, some clients, events, the log, processes that index, and notes that are read.
FILES_RESERVED = 34


def find_file_limit() -> int | None:
    """Return how many files may be open; None if there is no limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def check_room(n_workspaces: int) -> None:
    """Raise StoreFailed if one more workspace than these may not have its files open."""
    limit = find_file_limit()
    if limit is not None and FILES_RESERVED + FILES_PER_WORKSPACE * (n_workspaces + 1) > limit:
        raise _make_error(errno.EMFILE)


def find_shortage(failure: OSError | None = None) -> StoreFailed | None:
    """Return the error if it is for want of descriptors that a file could not be opened, with this
    failure; without one, it is tried whether one can be opened now.
    """
    if failure is None:
        try:
            os.close(os.open("/", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            failure = error
    if failure is not None and failure.errno in (errno.EMFILE, errno.ENFILE):
        return _make_error(failure.errno)
    return None


def _make_error(code: int) -> StoreFailed:
    what = "too many open files"
    what += f" ({find_file_limit()})" if code == errno.EMFILE else " in all programs together"
    hint = (
        "restart memsyncd with a higher limit (of systemd: LimitNOFILE=), or remove workspaces:"
        " memsyncd remove NAME"
    )
    return StoreFailed(f"{what}: raise `ulimit -n`", hint=hint)
