"""List the processes of this user that have memsyncd's databases open or use inotify; check who has
the databases open, and how near all are to the limits of inotify.

The facts come from /proc; without it there are no findings.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsyncd.cli.doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROC = "/proc"
DATABASE_SUFFIXES = (".db", ".db-wal", ".db-shm")
INOTIFY = "anon_inode:inotify"
WORKERS = frozenset({"memsyncd.engine.index_worker", "memsyncd.semantic.vector_worker"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of this user: our databases that it has open, its use of inotify."""

    pid: int
    words: tuple[str, ...]
    databases: tuple[str, ...] = ()
    n_instances: int = 0
    n_watches: int = 0
    is_stopped: bool = False

    @property
    def name(self) -> str:
        return os.path.basename(self.words[0]) if self.words else "?"

    @property
    def is_daemon(self) -> bool:
        """True for a process that looks like `memsyncd run`."""
        return "run" in self.words and any(
            os.path.basename(word) in ("memsyncd", "__main__.py") for word in self.words
        )

    @property
    def is_worker(self) -> bool:
        """True for a process that the daemon has started."""
        return not WORKERS.isdisjoint(self.words)


def list_processes(folders: Sequence[str], *, proc: str = PROC) -> list[Process]:
    """List this user's other processes; `folders` are the real paths that contain our databases."""
    found = []
    try:
        pids = [int(name) for name in os.listdir(proc) if name.isdecimal()]
    except OSError:
        return []
    for pid in pids:
        if pid == os.getpid():
            continue
        try:
            if os.stat(f"{proc}/{pid}").st_uid == os.geteuid():
                found.append(_read_process(pid, folders, proc))
        except OSError:
            continue  # it has ended
    return found


def _read_process(pid: int, folders: Sequence[str], proc: str) -> Process:
    with open(f"{proc}/{pid}/cmdline", "rb") as file:
        words = tuple(os.fsdecode(word) for word in file.read().split(b"\0") if word)
    databases, n_instances, n_watches = set(), 0, 0
    for fd, target in _list_open(f"{proc}/{pid}/fd"):
        if target == INOTIFY:
            n_instances += 1
            n_watches += _count_watches(f"{proc}/{pid}/fdinfo/{fd}")
        elif target.endswith(DATABASE_SUFFIXES) and any(
            target.startswith(f"{folder}/") for folder in folders
        ):
            databases.add(target)
    return Process(
        pid=pid,
        words=words,
        databases=tuple(sorted(databases)),
        n_instances=n_instances,
        n_watches=n_watches,
        is_stopped=_is_stopped(f"{proc}/{pid}/stat"),
    )


def _is_stopped(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(") ")[2][:1] in ("T", "t")


def _list_open(folder: str) -> Iterator[tuple[str, str]]:
    for fd in os.listdir(folder):
        try:
            yield fd, os.readlink(f"{folder}/{fd}")
        except OSError:
            continue  # it was closed


def _count_watches(path: str) -> int:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return sum(1 for line in file if line.startswith("inotify"))
    except OSError:
        return 0


# --- findings -----------------------------------------------------------------------------------


def check_open_files(processes: Sequence[Process], *, daemon_pid: int | None) -> list[Finding]:
    """Check whether another process has our databases open: a second daemon, or a program that may
    block writes.
    """
    found = []
    for process in processes:
        is_ours = process.pid == daemon_pid or process.is_worker
        if is_ours or not process.databases:
            continue
        where = process.databases[0]
        if process.is_daemon:
            what = f"a second daemon (pid {process.pid}) has these databases open, and writes them"
            remedy = (
                f"end it: kill {process.pid}; then check how it was started,"
                " and with which MEMSYNCD_SOCKET"
            )
            found.append(Finding("error", "two_daemons", what, remedy, where=where))
        else:
            what = f"{process.name} (pid {process.pid}) has a database open"
            remedy = (
                "reading it is safe; do not write to it, nor open it with an old SQLite;"
                f" if saves are not indexed, end it: kill {process.pid}"
            )
            found.append(Finding("info", "open_databases", what, remedy, where=where))
    if processes and not found:
        found.append(Finding("ok", "open_databases", "no other program has the databases open"))
    return found


# --- Limits of inotify ----------------------------------------------------------------------------
# The limits come from /proc/sys; without it there are no findings.

SYSCTLS = "/proc/sys"
NEAR_LIMIT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Inotify:
    """The kernel's limits for one user."""

    max_watches: int
    max_instances: int


def read_inotify(folder: str = SYSCTLS) -> Inotify | None:
    """Return the kernel's limits, None without inotify. A container's own limits may be lower than
    the machine's.
    """
    watches = _read_numbers(
        f"{folder}/fs/inotify/max_user_watches", f"{folder}/user/max_inotify_watches"
    )
    instances = _read_numbers(
        f"{folder}/fs/inotify/max_user_instances", f"{folder}/user/max_inotify_instances"
    )
    return (
        Inotify(max_watches=min(watches), max_instances=min(instances))
        if watches and instances
        else None
    )


def _read_numbers(*paths: str) -> list[int]:
    found = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            found.append(int(file.read()))
    return found


def check_inotify(
    limits: Inotify | None, processes: Sequence[Process], *, daemon_pid: int | None
) -> list[Finding]:
    """Check whether the user's processes come near the limits of inotify."""
    if limits is None:
        return []
    n_watches = sum(process.n_watches for process in processes)
    n_instances = sum(process.n_instances for process in processes)
    own = sum(process.n_watches for process in processes if process.pid == daemon_pid)
    found = []
    for what, used, most, name in (
        ("watches", n_watches, limits.max_watches, "max_user_watches"),
        ("instances", n_instances, limits.max_instances, "max_user_instances"),
    ):
        if used < most * NEAR_LIMIT:
            continue
        largest = max(
            processes,
            key=lambda process: (
                process.n_watches if name == "max_user_watches" else process.n_instances
            ),
        )
        message = (
            f"{used:,} of {most:,} inotify {what} are in use,"
            f" most by {largest.name} (pid {largest.pid})"
        )
        remedy = (
            f"sudo sysctl fs.inotify.{name}={max(most * 4, 1024)};"
            " to make it permanent, write it to /etc/sysctl.d/60-inotify.conf"
        )
        found.append(Finding("warning", "inotify", message, remedy))
    message = (
        f"{n_watches:,} of {limits.max_watches:,} inotify watches are in use, {own:,} by the daemon"
    )
    return found or [Finding("ok", "inotify", message)]
