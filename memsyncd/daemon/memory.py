"""How much memory does this process hold, and can it give some back? Asked of the operating system."""

from __future__ import annotations

import ctypes
import os
import resource
import sys


def read_rss_bytes() -> int:
    """Resident memory now; where the system does not tell, the most there ever was."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def give_back() -> None:
    """Return freed memory to the system, where the C library can (a first index leaves tens of megabytes)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
