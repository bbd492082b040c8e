"""How much memory does this process hold, and can it give some back? Asked of the operating system."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys

_M_ARENA_MAX = -8
"""Of the C library's malloc.h."""


def read_rss_bytes() -> int:
    """Resident memory now; where the system does not tell, the most there ever was."""
    try:
        return int(_read("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def share_heap() -> None:
    """Have all threads allocate from one heap, where the C library can, before there are any: one uses what another freed."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def keep_program() -> None:
    """Have the collector pass over what is loaded now, for it stays: else each full collection, and the end, visits all of it."""
    gc.freeze()


def give_back() -> None:
    """Return freed memory to the system, where the C library can (a first index leaves tens of megabytes)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _read(path: str) -> bytes:
    """In few calls to the system: while another thread indexes, each may wait a millisecond for its turn."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 256)
    finally:
        os.close(fd)
