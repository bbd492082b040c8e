"""Check that one daemon answers on its socket, that only its user can reach it, and that the
service runs it; and which processes have the databases open or use up inotify.

`ping_sockets`, `read_service`, `list_processes` and `read_inotify` collect facts; the `check_`
functions turn them into findings. The facts about processes come from /proc; without it there are
no findings about them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsyncd.cli.doctor import Finding
from memsyncd.cli.other_daemons import is_daemon
from memsyncd.client.connection import Client, NoAnswer
from memsyncd.errors import Busy, MemsyncdError
from memsyncd.lock import is_held, read_holder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memsyncd.cli.doctor import Level
    from memsyncd.cli.doctor.folder_checks import PathStat
    from memsyncd.cli.other_daemons import OtherDaemon
    from memsyncd.terminal.console import Console

PATH_LIMIT_BYTES = 103 if sys.platform == "darwin" else 107
ANSWER_S = 5.0
START_REMEDY = (
    "memsyncd start runs it in the background; memsyncd service install has the system run it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PingResult:
    """The result of `ping` on one socket: a process and its version, or a failure."""

    path: str
    pid: int | None = None
    version: str = ""
    protocol: int = 0
    failure: str = ""
    # True if a process listens on the socket, whether it answers or not.
    is_listening: bool = False
    # True if the daemon refuses the client because it has the most clients allowed.
    is_full: bool = False
    # True if no answer came within ANSWER_S.
    is_late: bool = False
    # The pid of the daemon that has the folders, by its lock, for a socket that gave no answer.
    holder_pid: int | None = None


def ping_sockets(paths: Sequence[str], lock_paths: Sequence[str]) -> list[PingResult]:
    """Ping each socket where a daemon may listen."""
    holders = [read_holder(path) for path in lock_paths if is_held([path])]
    pid = next((holder.pid for holder in holders if holder is not None), None)
    return [_ping(path, pid) for path in paths]


def _ping(path: str, holder_pid: int | None) -> PingResult:
    is_listening = False
    try:
        with Client(path, ANSWER_S) as client:
            is_listening = True
            pong = client.call("ping")
        return PingResult(
            path=path,
            pid=int(pong["pid"]),
            version=str(pong["version"]),
            protocol=int(pong["protocol"]),
            is_listening=True,
        )
    except (KeyError, TypeError, ValueError):
        return PingResult(
            path=path,
            failure="its answer is not that of memsyncd",
            is_listening=True,
            holder_pid=holder_pid,
        )
    except MemsyncdError as error:
        is_crowded = isinstance(error, Busy)
        return PingResult(
            path=path,
            failure=error.message,
            is_listening=is_listening or is_crowded,
            is_full=is_listening and is_crowded,
            is_late=isinstance(error, NoAnswer) or (is_crowded and not is_listening),
            holder_pid=holder_pid if is_listening or is_crowded else None,
        )


def find_daemon_pid(answers: Sequence[PingResult], processes: Sequence[Process]) -> int | None:
    """Return the pid of the daemon that answers, else of the lock's holder, else of one that has
    our databases open.
    """
    pinged = [answer.pid or answer.holder_pid for answer in answers]
    running = [process.pid for process in processes if process.is_daemon and process.databases]
    return next((pid for pid in (*pinged, *running) if pid is not None), None)


def check_daemon(
    answers: Sequence[PingResult], processes: Sequence[Process], *, version: str, protocol: int
) -> list[Finding]:
    """Check that exactly one daemon answers, and that it is of this version."""
    there = [answer for answer in answers if answer.pid is not None]
    if not there:
        return [_check_no_answer(answers, processes)]
    first = there[0]
    found = [Finding("ok", "daemon", f"the daemon answers (pid {first.pid})", where=first.path)]
    others = {answer.pid: answer for answer in there if answer.pid != first.pid}
    for pid, other in others.items():
        what = (
            f"a second daemon answers (pid {pid}): the environment decides which one a client uses"
        )
        found.append(
            Finding("error", "two_daemons", what, f"end one of them: kill {pid}", where=other.path)
        )
    if not others:
        found.append(Finding("ok", "two_daemons", "no other daemon answers"))
    if first.version != version or first.protocol != protocol:
        level: Level = "warning" if first.protocol == protocol else "error"
        what = f"the daemon is version {first.version}, this program {version}"
        found.append(Finding(level, "version", what, "memsyncd restart makes them equal"))
    else:
        found.append(Finding("ok", "version", f"both are version {version}"))
    return found


def check_other_daemons(others: Sequence[OtherDaemon]) -> list[Finding]:
    """Name daemons of this home that have other folders. Of those that have the same, the other
    checks tell.
    """
    return [
        Finding(
            "info",
            "two_daemons",
            other.describe(),
            f"unless that is meant, end it: kill {other.pid}",
        )
        for other in others
        if not other.shares_folders
    ]


def _check_no_answer(answers: Sequence[PingResult], processes: Sequence[Process]) -> Finding:
    held = next((answer for answer in answers if answer.is_listening), None)
    pid = find_daemon_pid(answers, processes)
    process = next((process for process in processes if process.pid == pid), None)
    named = f"the daemon (pid {pid})" if pid is not None else "a daemon"
    if process is not None and process.is_stopped:
        what = f"{named} is stopped, by a signal or a debugger"
        return Finding(
            "error", "daemon", what, f"resume it: kill -CONT {pid}", where=answers[0].path
        )
    if held is not None:
        return _check_holder(held, named, pid)
    if process is not None:
        what = f"{named} runs but listens on another socket"
        remedy = (
            "use the XDG_RUNTIME_DIR and MEMSYNCD_SOCKET that it was started with,"
            f" or end it: kill {pid}"
        )
        return Finding("error", "daemon", what, remedy, where=answers[0].path)
    return Finding("error", "daemon", "no daemon runs", START_REMEDY, where=answers[0].path)


def _check_holder(held: PingResult, named: str, pid: int | None) -> Finding:
    what = f"{named} holds the socket and does not answer: {held.failure}"
    remedy = f"end it: kill -KILL {pid or 'PID'}; then start it again: it repairs its index"
    if held.is_full:
        what = f"{named} accepts no more clients: {held.failure}"
        remedy = (
            "end some of the programs that are connected to it, or raise max_clients under [socket]"
        )
    elif not held.is_late:
        what = f"another program answers on the socket: {held.failure}"
        remedy = "find it with `ss -xlp` or `lsof -U`, end it, and: memsyncd start"
    return Finding("error", "daemon", what, remedy, where=held.path)


def check_socket(socket: PathStat, folder: PathStat, *, uid: int, is_held: bool) -> list[Finding]:
    """Check that the socket's path is valid and that only its owner can reach it."""
    found = _check_path_length(socket.path)
    found += _check_socket_folder(folder, uid)
    if socket.kind in ("missing", "unreadable"):
        return found
    if socket.kind != "socket":
        what = f"the socket's path is not a socket but a {socket.kind}"
        found.append(
            Finding("error", "socket", what, "check what it is and remove it", where=socket.path)
        )
    elif socket.uid != uid:
        what = f"the socket belongs to user {socket.uid}"
        remedy = "do not trust its answers; set MEMSYNCD_SOCKET to a path in a folder of your own"
        found.append(Finding("error", "socket", what, remedy, where=socket.path))
    elif socket.mode & 0o077:
        what = f"others may reach the socket (mode {socket.mode:04o})"
        remedy = f"chmod 600 {socket.path}"
        found.append(Finding("error", "socket", what, remedy, where=socket.path))
    elif not is_held:
        what = "the socket of an ended daemon remains; the next daemon removes it"
        found.append(Finding("info", "socket", what, where=socket.path))
    if not [finding for finding in found if finding.check == "socket"]:
        found.append(Finding("ok", "socket", "only you can reach the socket", where=socket.path))
    return found


def check_named_socket(named: str, used: str) -> list[Finding]:
    """Check the socket that the environment names, where the daemon answers on another one."""
    what = f"nobody answers on this socket, which MEMSYNCD_SOCKET names; a daemon does on {used}"
    remedy = "unset MEMSYNCD_SOCKET, or have the daemon listen there: memsyncd restart"
    return [*_check_path_length(named), Finding("warning", "socket", what, remedy, where=named)]


def _check_path_length(path: str) -> list[Finding]:
    n_bytes = len(os.fsencode(path))
    if n_bytes <= PATH_LIMIT_BYTES:
        return []
    what = f"the socket's path has {n_bytes} bytes, the limit is {PATH_LIMIT_BYTES}"
    remedy = (
        "set MEMSYNCD_SOCKET, or `path` under [socket], to a shorter path in a folder of your own"
    )
    return [Finding("error", "socket", what, remedy, where=path)]


def _check_socket_folder(folder: PathStat, uid: int) -> list[Finding]:
    if folder.kind == "missing":
        return []
    if folder.kind == "unreadable":
        what = "the socket's folder cannot be reached"
        remedy = (
            "see who owns the folders above it; `su` and `sudo` may keep the XDG_RUNTIME_DIR of"
            " another user: unset it"
        )
        return [Finding("error", "socket", what, remedy, where=folder.path)]
    if folder.kind != "folder":
        what = f"the socket's folder is a {folder.kind}, so no daemon will start"
        remedy = (
            "use the path of the real folder"
            if folder.kind == "link"
            else "move it away, or set MEMSYNCD_SOCKET to a path in a folder of your own"
        )
        return [Finding("error", "socket", what, remedy, where=folder.path)]
    if folder.uid != uid:
        what = f"the socket's folder belongs to user {folder.uid}, so no daemon will start"
        remedy = "set MEMSYNCD_SOCKET to a path in a folder of your own"
        return [Finding("error", "socket", what, remedy, where=folder.path)]
    if folder.mode & 0o077:
        level: Level = "error" if folder.mode & 0o022 else "warning"
        act = "write to" if folder.mode & 0o022 else "read"
        what = f"others may {act} the socket's folder (mode {folder.mode:04o})"
        return [Finding(level, "socket", what, f"chmod 700 {folder.path}", where=folder.path)]
    if folder.mode & 0o700 != 0o700:
        what = f"you may not use the socket's folder (mode {folder.mode:04o})"
        return [Finding("error", "socket", what, f"chmod 700 {folder.path}", where=folder.path)]
    return []


# --- service ------------------------------------------------------------------------------------

INSTALL_REMEDY = "memsyncd service install"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """The state that the supervisor reports; `absence` says why there is none."""

    absence: str = ""
    is_installed: bool = False
    is_current: bool = True
    is_enabled: bool = True
    is_waiting: bool = False
    state: str = ""
    result: str = ""
    pid: int | None = None
    n_restarts: int = 0


def read_service(console: Console) -> ServiceState:
    """Ask systemd or launchd, if there is one, for the service's state."""
    from memsyncd.cli.service import are_files_current, find_supervisor

    try:
        supervisor = find_supervisor(console)
        if not supervisor.is_installed():
            return ServiceState()
        if not supervisor.is_available():
            return ServiceState(absence=supervisor.describe_absence())
        state: dict[str, Any] = supervisor.read_state()
        is_current = are_files_current(supervisor, console) is not False
    except (MemsyncdError, OSError, subprocess.SubprocessError) as error:
        return ServiceState(
            absence=error.message if isinstance(error, MemsyncdError) else type(error).__name__
        )
    return ServiceState(
        is_installed=True,
        is_current=is_current,
        is_enabled=bool(state["enabled"]),
        is_waiting=bool(state["is_waiting"]),
        state=str(state["state"]),
        result=str(state["result"]),
        pid=state["pid"],
        n_restarts=int(state["restarts"] or 0),
    )


def check_service(service: ServiceState, *, daemon_pid: int | None) -> list[Finding]:
    """Check that the service runs the daemon that answers."""
    if service.absence:
        return [Finding("info", "service", f"no supervisor restarts the daemon: {service.absence}")]
    if not service.is_installed:
        what = "no service is installed: after a reboot no daemon runs"
        return [Finding("info", "service", what, INSTALL_REMEDY)]
    found = []
    if service.state == "failed":
        what = f"the service has failed ({service.result}) and is not restarted"
        remedy = "see memsyncd service logs; then: memsyncd service restart"
        found.append(Finding("error", "service", what, remedy))
    elif service.pid is None and not service.is_waiting and daemon_pid is None:
        what = f"the service does not run ({service.state})"
        found.append(Finding("error", "service", what, "memsyncd service restart"))
    if (
        daemon_pid is not None
        and service.pid != daemon_pid
        and not (service.is_waiting and service.pid is None)
    ):
        what = (
            f"the daemon that answers (pid {daemon_pid}) is not the service's:"
            " no supervisor restarts it"
        )
        found.append(Finding("warning", "service", what, "memsyncd service restart replaces it"))
    if not service.is_current:
        what = "the service's files do not match this program and environment"
        found.append(
            Finding("warning", "service", what, f"replace them: {INSTALL_REMEDY} --replace")
        )
    if not service.is_enabled:
        what = "the service does not start by itself"
        found.append(Finding("warning", "service", what, INSTALL_REMEDY))
    if service.n_restarts:
        what = f"the system restarted the daemon {service.n_restarts} times"
        found.append(Finding("info", "service", what, "see memsyncd service logs"))
    return found or [Finding("ok", "service", "the system runs the daemon")]


# --- processes ---

PROC = "/proc"
DATABASE_SUFFIXES = (".db", ".db-wal", ".db-shm")
INOTIFY = "anon_inode:inotify"
WORKERS = frozenset({"memsyncd.engine.index_worker", "memsyncd.semantic.vector_worker"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of this user: our databases that it has open, its use of inotify."""

    pid: int
    words: tuple[str, ...]
    parent_pid: int = 0
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
        return is_daemon(self.words)

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
    state, parent_pid = _read_state(f"{proc}/{pid}/stat")
    return Process(
        pid=pid,
        words=words,
        parent_pid=parent_pid,
        databases=tuple(sorted(databases)),
        n_instances=n_instances,
        n_watches=n_watches,
        is_stopped=state in ("T", "t"),
    )


def _read_state(path: str) -> tuple[str, int]:
    """Return the letter of a process's state, and its parent."""
    with open(path, encoding="utf-8", errors="replace") as file:
        state, parent, *_ = file.read().rpartition(") ")[2].split(" ", 2)
    return state, int(parent)


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
        # A process that the daemon is starting has its command line and its files for a moment.
        is_ours = daemon_pid in (process.pid, process.parent_pid) or process.is_worker
        if is_ours or not process.databases:
            continue
        where = process.databases[0]
        if process.is_daemon:
            what = f"a second daemon (pid {process.pid}) has these databases open, and writes them"
            remedy = (
                f"end it: kill {process.pid}; it is of a version without locks,"
                " or its lock files were removed"
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
