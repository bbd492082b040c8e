"""Memory and open files of this process: set limits, release memory, read the process stats."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from memsyncd.engine.index_process import running_pids
from memsyncd.errors import BadConfig
from memsyncd.logs import Event, count_lost_lines, get_log
from memsyncd.operations.status.declare import ProcessMetrics
from memsyncd.store.connection import find_file_limit

# Enough for all clients and some hundred workspaces, each of which takes several descriptors.
# Systems start programs with a lower limit for the sake of programs that use select().
OPEN_FILES_TARGET = 8192
# With fewer, one workspace and some clients can exhaust the descriptors: then databases cannot be
# opened and clients cannot connect.
OPEN_FILES_NEEDED = 64
REPORT_INTERVAL_S = 60.0
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})
TRIM_THRESHOLD_BYTES = 1024 * 1024
_M_TRIM_THRESHOLD, _M_ARENA_MAX = -1, -8  # from the C library's malloc.h

log = get_log("daemon")


def read_process_stats() -> ProcessMetrics:
    """Read this process's present use of the system, for `metrics`."""
    pids, ended = running_pids(), os.times()
    children_s = ended.children_user + ended.children_system
    return ProcessMetrics(
        rss_bytes=read_rss_bytes(),
        cpu_s_total=round(time.process_time() + children_s, 6),
        index_workers=len(pids),
        index_workers_rss_bytes=sum(map(read_rss_bytes, pids)),
        threads=threading.active_count(),
        fds=count_open_files(),
        max_fds=find_file_limit(),
        lost_log_lines_total=count_lost_lines(),
    )


# --- open files ---


def raise_file_limit() -> None:
    """Raise the limit of open files to `OPEN_FILES_TARGET`, or as far as the system allows.

    Raises BadConfig if fewer than `OPEN_FILES_NEEDED` may be open then.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = OPEN_FILES_TARGET if hard == resource.RLIM_INFINITY else min(OPEN_FILES_TARGET, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    limit = find_file_limit()
    if limit is not None and limit < OPEN_FILES_NEEDED:
        raise BadConfig(
            f"this process may open only {limit} files, and the daemon needs {OPEN_FILES_NEEDED}",
            hint="raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd) and start again",
        )


def count_open_files() -> int:
    """Return how many files are open now."""
    try:
        # The listing itself takes one.
        return len(os.listdir("/dev/fd")) - 1
    except OSError:
        # No descriptor is left to list them with.
        return find_file_limit() or 0


class LoopExceptionHandler:
    """Reports exceptions of the event loop itself. `now_s` is a monotonic clock.

    While no file is left to open for new clients, asyncio reports each of them every second. The
    handler writes one warning a minute instead.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._reported_s = float("-inf")

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if not (isinstance(failure, OSError) and failure.errno in _OUT_OF_FILES):
            loop.default_exception_handler(context)
        elif self._now_s() - self._reported_s >= REPORT_INTERVAL_S:
            self._reported_s = self._now_s()
            reason = "no file is left to open for it: it waits; raise the limit of open files"
            log.warning(Event.CLIENT_REFUSED, reason=reason)


# --- memory ---


def read_rss_bytes(pid: int | None = None) -> int:
    """Return the resident memory of this process, or of a child, in bytes.

    Where the system does not report it, it is the peak so far, and of a child 0.
    """
    try:
        statm = _read_start(f"/proc/{pid or 'self'}/statm")
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        if pid is not None:
            return 0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def use_one_malloc_arena() -> None:
    """Let all threads allocate from one heap, so that one thread reuses what another has freed.

    Call it before any thread starts. Without `mallopt` in the C library it does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        # Otherwise the C library raises it, and each scan leaves some megabytes.
        mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)


def freeze_loaded_objects() -> None:
    """Exclude all objects that are loaded now from garbage collection.

    They exist as long as the process: each full collection, and the exit, would visit all of them.
    Collections begin again if the caller has disabled them.
    """
    gc.freeze()
    gc.enable()


def release_memory() -> None:
    """Return freed memory to the system, where the C library can.

    A first index leaves tens of megabytes.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _read_start(path: str) -> bytes:
    # With few system calls: after each one another thread that indexes may hold the GIL for 1 ms.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 256)
    finally:
        os.close(fd)
