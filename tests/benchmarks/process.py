"""Reads a process's use of resources from Linux's /proc and clocks: the measured process does no
work for it.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def read_cpu_s(pid: int) -> float:
    """Return the processor time so far, user and system, of all threads and of running and ended
    children.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended_s = (int(fields[13]) + int(fields[14])) / TICKS_PER_S
    running_s = 0.0
    for child in find_children(pid):
        with contextlib.suppress(OSError):
            running_s += read_cpu_s(child)
    # The process's CPU-time clock, as clock_getcpuclockid(3) computes it; it counts nanoseconds
    # where /proc counts ticks of 10 ms.
    return time.clock_gettime(((~pid) << 3) | 2) + ended_s + running_s


def read_written_bytes(pid: int) -> int:
    """Return how much the process has had written to disks; Linux counts a large folio of cached
    pages as a whole, so pages that are scattered count several times their size.
    """
    return _read_status(Path(f"/proc/{pid}/io"), "write_bytes")


def find_children(pid: int) -> list[int]:
    """Return the children that run, or have ended and were not waited for."""
    found: list[int] = []
    for thread in _list(pid, "task"):
        with contextlib.suppress(OSError):
            path = Path(f"/proc/{pid}/task/{thread}/children")
            found += map(int, path.read_text().split())
    return found


def read_children_peak_mb(pid: int) -> float:
    """Return the most memory that a running child has had."""
    peak_mb = 0.0
    for child in find_children(pid):
        # A child that has just ended has no memory.
        with contextlib.suppress(OSError, StopIteration):
            peak_mb = max(peak_mb, read_rss_mb(child, "VmHWM"))
    return peak_mb


def read_rss_mb(pid: int, field: str = "VmRSS") -> float:
    """Return the resident memory now; with `VmHWM` the most there ever was."""
    return _read_status(Path(f"/proc/{pid}/status"), field) / 1024


def count_wake_ups(pid: int) -> int:
    """Return how often the living threads of the process went to sleep by themselves; a thread that
    never wakes up adds nothing.
    """
    statuses = [Path(f"/proc/{pid}/task/{thread}/status") for thread in _list(pid, "task")]
    return sum(_read_status(status, "voluntary_ctxt") for status in statuses)


def _list(pid: int, what: str) -> list[str]:
    return os.listdir(f"/proc/{pid}/{what}")


def _read_status(path: Path, field: str) -> int:
    return next(
        int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(field)
    )
