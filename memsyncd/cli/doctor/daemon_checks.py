"""Check that one daemon answers on its socket, and that the service runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsyncd.cli.doctor.findings import Finding
from memsyncd.client.connection import Client, NoAnswer
from memsyncd.errors import Busy, MemsyncdError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memsyncd.cli.console import Console
    from memsyncd.cli.doctor.findings import Level
    from memsyncd.cli.doctor.folder_checks import Entry
    from memsyncd.cli.doctor.process_checks import Process

PATH_LIMIT_BYTES = 103 if sys.platform == "darwin" else 107
ANSWER_S = 5.0
START = "memsyncd start runs it in the background; memsyncd service install has the system run it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one socket gave to `ping`: a process and its version, or why there was none."""

    path: str
    pid: int | None = None
    version: str = ""
    protocol: int = 0
    failure: str = ""
    is_listening: bool = False
    """True if somebody holds the socket, whatever came of the question."""
    is_full: bool = False
    """True if the daemon answers that it has as many clients as it takes."""
    is_late: bool = False
    """True if nothing came within ANSWER_S."""
    holder_pid: int | None = None
    """Who took the lock beside a socket that is held and gave no answer."""


def ask_daemons(paths: Sequence[str]) -> list[Answer]:
    """Ask on each socket where a daemon may listen."""
    return [_ask(path) for path in paths]


def _ask(path: str) -> Answer:
    is_listening = False
    try:
        with Client(path, ANSWER_S) as client:
            is_listening = True
            told = client.call("ping")
        return Answer(
            path=path,
            pid=int(told["pid"]),
            version=str(told["version"]),
            protocol=int(told["protocol"]),
            is_listening=True,
        )
    except (KeyError, TypeError, ValueError):
        return Answer(
            path=path,
            failure="its answer is not memsyncd's",
            is_listening=True,
            holder_pid=_read_holder(path),
        )
    except MemsyncdError as error:
        is_crowded = isinstance(error, Busy)
        holder_pid = _read_holder(path) if is_listening or is_crowded else None
        return Answer(
            path=path,
            failure=error.message,
            is_listening=is_listening or is_crowded,
            is_full=is_listening and is_crowded,
            is_late=isinstance(error, NoAnswer) or (is_crowded and not is_listening),
            holder_pid=holder_pid,
        )


def _read_holder(path: str) -> int | None:
    try:
        with open(f"{path.removesuffix('.sock')}.lock", encoding="ascii") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None


def find_daemon_pid(answers: Sequence[Answer], processes: Sequence[Process]) -> int | None:
    """The daemon that is meant: the one that answers, else the one that should, else one that has our databases open."""
    asked = [answer.pid or answer.holder_pid for answer in answers]
    running = [process.pid for process in processes if process.is_daemon and process.databases]
    return next((pid for pid in (*asked, *running) if pid is not None), None)


def judge_answers(
    answers: Sequence[Answer], processes: Sequence[Process], *, version: str, protocol: int
) -> list[Finding]:
    """Whether one daemon answers, and whether it is this program's."""
    there = [answer for answer in answers if answer.pid is not None]
    if not there:
        return [_judge_silence(answers, processes)]
    first = there[0]
    found = [
        Finding(
            level="ok",
            check="daemon",
            what=f"the daemon answers (pid {first.pid})",
            where=first.path,
        )
    ]
    others = {answer.pid: answer for answer in there if answer.pid != first.pid}
    for pid, other in others.items():
        what = f"a second daemon answers (pid {pid}): which one a client finds depends on its environment"
        found.append(
            Finding(
                level="error",
                check="two_daemons",
                what=what,
                where=other.path,
                remedy=f"end one of them: kill {pid}",
            )
        )
    if not others:
        found.append(Finding(level="ok", check="two_daemons", what="no other daemon answers"))
    if first.version != version or first.protocol != protocol:
        level: Level = "warning" if first.protocol == protocol else "error"
        what = f"the daemon is version {first.version}, this program {version}"
        found.append(
            Finding(
                level=level,
                check="version",
                what=what,
                remedy="memsyncd restart brings them together",
            )
        )
    else:
        found.append(Finding(level="ok", check="version", what=f"both are version {version}"))
    return found


def _judge_silence(answers: Sequence[Answer], processes: Sequence[Process]) -> Finding:
    held = next((answer for answer in answers if answer.is_listening), None)
    pid = find_daemon_pid(answers, processes)
    process = next((process for process in processes if process.pid == pid), None)
    named = f"the daemon (pid {pid})" if pid is not None else "a daemon"
    if process is not None and process.is_stopped:
        what = f"{named} is stopped, by somebody's signal or a debugger"
        return Finding(
            level="error",
            check="daemon",
            what=what,
            where=answers[0].path,
            remedy=f"let it go on: kill -CONT {pid}",
        )
    if held is not None:
        return _judge_holder(held, named, pid)
    if process is not None:
        what = f"{named} runs and listens elsewhere"
        remedy = f"ask with the XDG_RUNTIME_DIR and MEMSYNCD_SOCKET that it was started with, or end it: kill {pid}"
        return Finding(
            level="error", check="daemon", what=what, where=answers[0].path, remedy=remedy
        )
    return Finding(
        level="error", check="daemon", what="no daemon runs", where=answers[0].path, remedy=START
    )


def _judge_holder(held: Answer, named: str, pid: int | None) -> Finding:
    what = f"{named} holds the socket and does not answer: {held.failure}"
    remedy = f"end it, and its index heals itself: kill -KILL {pid or 'PID'}; then start it again"
    if held.is_full:
        what = f"{named} answers nobody else now: {held.failure}"
        remedy = (
            "end some of the programs that are connected to it, or raise max_clients under [socket]"
        )
    elif not held.is_late:
        what = f"it is no memsyncd that answers there: {held.failure}"
        remedy = "see what it is (`ss -xlp` or `lsof -U` names it), end it, and: memsyncd start"
    return Finding(level="error", check="daemon", what=what, where=held.path, remedy=remedy)


def judge_socket(socket: Entry, folder: Entry, *, uid: int, is_held: bool) -> list[Finding]:
    """Whether the socket's place is one that it can have, and that only its owner can reach."""
    found = _judge_length(socket.path)
    found += _judge_folder(folder, uid)
    if socket.kind == "missing":
        return found
    if socket.kind != "socket":
        what = f"what stands at the socket's path is no socket but a {socket.kind}"
        found.append(
            Finding(
                level="error",
                check="socket",
                what=what,
                where=socket.path,
                remedy="see what it is and remove it",
            )
        )
    elif socket.uid != uid:
        what = f"the socket belongs to user {socket.uid}"
        remedy = (
            "do not trust who answers there; set MEMSYNCD_SOCKET to a path in a folder of your own"
        )
        found.append(
            Finding(level="error", check="socket", what=what, where=socket.path, remedy=remedy)
        )
    elif socket.mode & 0o077:
        what = f"others may reach the socket (mode {socket.mode:04o})"
        remedy = f"chmod 600 {socket.path}"
        found.append(
            Finding(level="error", check="socket", what=what, where=socket.path, remedy=remedy)
        )
    elif not is_held:
        what = "a socket of a daemon that is gone lies there; the next one removes it"
        found.append(Finding(level="info", check="socket", what=what, where=socket.path))
    if not [finding for finding in found if finding.check == "socket"]:
        found.append(
            Finding(
                level="ok", check="socket", what="only you can reach the socket", where=socket.path
            )
        )
    return found


def _judge_length(path: str) -> list[Finding]:
    n_bytes = len(os.fsencode(path))
    if n_bytes <= PATH_LIMIT_BYTES:
        return []
    what = f"the socket's path has {n_bytes} bytes, {PATH_LIMIT_BYTES} are possible"
    remedy = "set MEMSYNCD_SOCKET, or `path` under [socket], to a shorter absolute path in a folder of your own"
    return [Finding(level="error", check="socket", what=what, where=path, remedy=remedy)]


def _judge_folder(folder: Entry, uid: int) -> list[Finding]:
    if folder.kind == "missing":
        return []
    if folder.kind != "folder":
        what = f"the socket's folder is a {folder.kind}, so no daemon will start"
        return [
            Finding(
                level="error",
                check="socket",
                what=what,
                where=folder.path,
                remedy="name the real folder",
            )
        ]
    if folder.uid != uid:
        what = f"the socket's folder belongs to user {folder.uid}, so no daemon will start"
        remedy = "set MEMSYNCD_SOCKET to a path in a folder of your own"
        return [Finding(level="error", check="socket", what=what, where=folder.path, remedy=remedy)]
    if folder.mode & 0o077:
        level: Level = "error" if folder.mode & 0o022 else "warning"
        what = f"others may look into the socket's folder (mode {folder.mode:04o})"
        return [
            Finding(
                level=level,
                check="socket",
                what=what,
                where=folder.path,
                remedy=f"chmod 700 {folder.path}",
            )
        ]
    return []


# --- service -------------------------------------------------------------------------------------

INSTALL = "memsyncd service install"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the supervisor tells; `absence` says why there is none to ask."""

    absence: str = ""
    is_installed: bool = False
    is_current: bool = True
    is_enabled: bool = True
    is_waiting: bool = False
    state: str = ""
    result: str = ""
    pid: int | None = None
    n_restarts: int = 0


def ask_supervisor(console: Console) -> Service:
    """Ask systemd or launchd, if there is one."""
    from memsyncd.cli.service import are_files_current, find_supervisor

    try:
        supervisor = find_supervisor(console)
        if not supervisor.is_installed():
            return Service()
        if not supervisor.is_available():
            return Service(absence=supervisor.describe_absence())
        told: dict[str, Any] = supervisor.read_state()
        is_current = are_files_current(supervisor, console) is not False
    except (MemsyncdError, OSError, subprocess.SubprocessError) as error:
        return Service(
            absence=error.message if isinstance(error, MemsyncdError) else type(error).__name__
        )
    return Service(
        is_installed=True,
        is_current=is_current,
        is_enabled=bool(told["enabled"]),
        is_waiting=bool(told["is_waiting"]),
        state=str(told["state"]),
        result=str(told["result"]),
        pid=told["pid"],
        n_restarts=int(told["restarts"] or 0),
    )


def judge_service(service: Service, *, daemon_pid: int | None) -> list[Finding]:
    """Whether the service runs the daemon that answers."""
    if service.absence:
        return [
            Finding(
                level="info", check="service", what=f"nobody restarts the daemon: {service.absence}"
            )
        ]
    if not service.is_installed:
        what = "no service is installed: after a restart of the machine no daemon runs"
        return [Finding(level="info", check="service", what=what, remedy=INSTALL)]
    found = []
    if service.state == "failed":
        what = f"the service has failed ({service.result}) and is not tried again"
        remedy = "memsyncd service logs says why; then: memsyncd service restart"
        found.append(Finding(level="error", check="service", what=what, remedy=remedy))
    elif service.pid is None and not service.is_waiting and daemon_pid is None:
        what = f"the service does not run ({service.state})"
        found.append(
            Finding(level="error", check="service", what=what, remedy="memsyncd service restart")
        )
    if (
        daemon_pid is not None
        and service.pid != daemon_pid
        and not (service.is_waiting and service.pid is None)
    ):
        what = (
            f"the daemon that answers (pid {daemon_pid}) is not the service's: nobody restarts it"
        )
        found.append(
            Finding(
                level="warning",
                check="service",
                what=what,
                remedy="memsyncd service restart puts it in its place",
            )
        )
    if not service.is_current:
        what = "the service's files are not those of this program and environment"
        found.append(
            Finding(
                level="warning", check="service", what=what, remedy=f"write them anew: {INSTALL}"
            )
        )
    if not service.is_enabled:
        what = "the service does not start by itself"
        found.append(Finding(level="warning", check="service", what=what, remedy=INSTALL))
    if service.n_restarts:
        what = f"the system restarted the daemon {service.n_restarts} times"
        found.append(
            Finding(
                level="info", check="service", what=what, remedy="memsyncd service logs says why"
            )
        )
    return found or [Finding(level="ok", check="service", what="the system runs the daemon")]
