"""List the processes of this user that have memsyncd's databases open or use inotify, and check who
has the databases open.

The facts come from /proc; without it there are no findings.
"""

from __future__ import annotations

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
