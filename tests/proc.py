"""Read from Linux's /proc the resources of another process.

Threads, descriptors and processes come and go at any moment, so the functions skip those that end.
"""

from __future__ import annotations

import os
from pathlib import Path


def read_file(path: str | Path) -> str:
    """Return the text; empty if the process, the thread or the descriptor is gone."""
    try:
        # A thread that ends after the file was opened is a ProcessLookupError.
        return Path(path).read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def list_names(pid: int, folder: str) -> list[str]:
    """Return the names in a folder of the process, such as `task`; none if it is gone."""
    try:
        return os.listdir(f"/proc/{pid}/{folder}")
    except (FileNotFoundError, ProcessLookupError):
        return []


def find_children(pid: int) -> list[int]:
    """Return the processes that a process has started and not waited for yet.

    The parents of all processes are read: /proc/PID/task/*/children misses a child of a thread that
    ends meanwhile.
    """
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [number for number in numbers if _read_parent(number) == pid]


def _read_parent(pid: int) -> int | None:
    fields = read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else None


def count_watches(pid: int) -> int:
    """Return the number of the process's inotify watches."""
    names = list_names(pid, "fdinfo")
    return sum(read_file(f"/proc/{pid}/fdinfo/{name}").count("inotify wd:") for name in names)


def count_wake_ups(pid: int) -> int:
    """Return how often the living threads of the process went to sleep by themselves."""
    texts = [read_file(f"/proc/{pid}/task/{name}/status") for name in list_names(pid, "task")]
    lines = [line for text in texts for line in text.splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


def list_open_files(pid: int) -> set[str]:
    """Return where the descriptors of the process lead to, without the standard three."""
    targets = set()
    for name in list_names(pid, "fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{name}")
        except (FileNotFoundError, ProcessLookupError):
            continue
        targets |= {link} if int(name) > 2 else set()
    return targets
