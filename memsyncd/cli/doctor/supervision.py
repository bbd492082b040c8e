"""Does the system run the daemon, and does it run the right one? What systemd or launchd says becomes findings."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsyncd.cli.doctor.findings import Finding
from memsyncd.errors import MemsyncdError

if TYPE_CHECKING:
    from memsyncd.cli.console import Console

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
