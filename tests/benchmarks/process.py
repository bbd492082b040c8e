"""Read from Linux's /proc what a process takes, so that the measured process does nothing for it."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def read_cpu_s(pid: int) -> float:
    """Processor time so far, user and system, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def read_rss_mb(pid: int, field: str = "VmRSS") -> float:
    """Resident memory now; with `VmHWM` the most there ever was."""
    return _read_status(Path(f"/proc/{pid}/status"), field) / 1024


def read_pss_mb(pid: int) -> float:
    """Return the resident memory, of shared pages only this process's share."""
    return _read_status(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") / 1024


def reset_peak(pid: int) -> None:
    """Reset `VmHWM`."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def count_threads(pid: int) -> int:
    return len(_list(pid, "task"))


def count_fds(pid: int) -> int:
    return len(_list(pid, "fd"))


def count_watches(pid: int) -> int:
    """Inotify watches over all descriptors."""
    return sum(
        Path(f"/proc/{pid}/fdinfo/{fd}").read_text().count("inotify wd:")
        for fd in _list(pid, "fdinfo")
    )


def count_wake_ups(pid: int) -> int:
    """How often a thread of the process, of those that live, went to sleep by itself: one that
    never wakes up adds none."""
    statuses = [Path(f"/proc/{pid}/task/{thread}/status") for thread in _list(pid, "task")]
    return sum(_read_status(status, "voluntary_ctxt") for status in statuses)


def _list(pid: int, what: str) -> list[str]:
    return os.listdir(f"/proc/{pid}/{what}")


def _read_status(path: Path, field: str) -> int:
    return next(
        int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(field)
    )
