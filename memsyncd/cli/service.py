"""`memsyncd service`: let the system run the daemon, and show its state and its log.

systemd runs it on Linux, launchd on macOS.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import memsyncd
from memsyncd.cli.background import find_daemon, stop_daemon
from memsyncd.cli.service_files import (
    find_program,
    is_current,
    is_temporary,
    render_difference,
)
from memsyncd.dirs import find_user_dirs
from memsyncd.errors import AlreadyExists, BadConfig, BadRequest, NoDaemon
from memsyncd.terminal.console import NOTHING_FOUND
from memsyncd.terminal.format import render_count
from memsyncd.terminal.parser import JSON, Command, Option, make_group
from memsyncd.terminal.terminal import clean_line

if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.service_units import Launchd, Systemd
    from memsyncd.terminal.console import Console

    Supervisor = Systemd | Launchd

NOT_RUNNING = 3
LOG_LINES = 50
# A shell adds this to the number of the signal that ended a program.
SIGNALLED = 128


def find_supervisor(console: Console) -> Supervisor:
    """Return the supervisor of this system. Raises BadRequest if there is none."""
    if sys.platform == "darwin":
        from memsyncd.cli.service_units import Launchd

        return Launchd(console.env)
    from memsyncd.cli.service_units import Systemd

    return Systemd(console.env)


# --- install and uninstall ----------------------------------------------------------------------


def _install(args: Args, console: Console) -> int:
    if args.print and args.no_start:
        raise BadRequest("--print starts nothing", hint="leave --no-start out")
    if args.print:
        supervisor, program = find_supervisor(console), find_program(console.env)
        for path, text in supervisor.render(program, is_on_demand=args.on_demand).items():
            console.terminal.print(f"# {path}\n{text}")
        return 0
    return install_service(
        console,
        is_on_demand=args.on_demand,
        is_started=not args.no_start,
        is_replacing=args.replace,
    )


def install_service(
    console: Console,
    *,
    is_on_demand: bool = False,
    is_started: bool = True,
    is_replacing: bool = False,
) -> int:
    """Write the service's files, enable it and start it. Return the exit status.

    Raises AlreadyExists, before any change, if a file differs and may not be replaced.
    """
    supervisor, terminal = find_supervisor(console), console.terminal
    program = find_program(console.env)
    files = supervisor.render(program, is_on_demand=is_on_demand)
    different = _show_differences(files, console)
    if different and not is_replacing:
        options = "--on-demand --replace" if is_on_demand else "--replace"
        raise AlreadyExists(
            f"not as memsyncd would write it, as shown: {', '.join(different)}; nothing changed",
            hint=f"to replace it: memsyncd service install {options}",
        )
    changed = supervisor.install(files)
    for path in {**files, **dict.fromkeys(changed)}:
        done = "kept" if path not in changed else "wrote" if path in files else "removed"
        terminal.print(f"{done} {clean_line(path)}")
    if is_temporary(program.words[0], console.env):
        terminal.report(f"this program is in a temporary folder: {clean_line(program.words[0])}")
        terminal.report(
            "  install it with `uv tool install` or `pipx install`, then run this command again"
        )
    if not is_started:
        terminal.report("not started; start it with: memsyncd service restart")
        return 0
    if not supervisor.is_available():
        terminal.report(f"installed, but not started: {supervisor.describe_absence()}")
        return NOT_RUNNING
    return _start(
        supervisor, console, is_changed=bool(changed) or _runs_other_version(supervisor, console)
    )


def _show_differences(files: dict[str, str], console: Console) -> list[str]:
    """Print the changes that existing files would get. Return the paths of these files."""
    differences = {path: render_difference(path, text) for path, text in files.items()}
    for line in "\n".join(filter(None, differences.values())).splitlines():
        console.terminal.print(clean_line(line))
    return [path for path, difference in differences.items() if difference]


def _start(supervisor: Supervisor, console: Console, *, is_changed: bool) -> int:
    terminal = console.terminal
    _stop_background_daemon(supervisor, console)
    supervisor.start(is_changed=is_changed)
    terminal.report(_describe_run(supervisor.read_state()))
    limits = supervisor.describe_limits()
    if limits:
        terminal.report(limits)
    return 0


def _runs_other_version(supervisor: Supervisor, console: Console) -> bool:
    """Return whether the running service has another version, because the program was updated."""
    if supervisor.read_state()["pid"] is None:
        return False
    try:
        return bool(console.call("ping")["version"] != memsyncd.__version__)
    except NoDaemon:
        return False
    finally:
        console.close()


def _stop_background_daemon(supervisor: Supervisor, console: Console) -> None:
    """Stop a daemon outside the service, because the service could not start beside it."""
    if _find_background_pid(supervisor.read_state(), console):
        pid = stop_daemon(console)
        console.terminal.report(
            f"stopped the daemon that ran outside the service (pid {pid}); the service replaces it"
        )


def _find_background_pid(state: dict[str, Any], console: Console) -> int | None:
    """Return the pid of a daemon outside the service; None without one, or if the service runs or
    waits for its first client.
    """
    is_service = state["pid"] is not None or state["is_waiting"]
    return None if is_service else find_daemon(console)


def _describe_run(state: dict[str, Any]) -> str:
    if state["pid"] is None:
        return (
            "memsyncd starts when the first client connects"
            if state["is_waiting"]
            else "memsyncd is starting"
        )
    status = f": {clean_line(state['says'])}" if state["says"] else ""
    return f"memsyncd runs as a service (pid {state['pid']}){status}"


def _uninstall(_args: Args, console: Console) -> int:
    supervisor = find_supervisor(console)
    removed = supervisor.uninstall()
    for path in removed:
        console.terminal.print(f"removed {clean_line(path)}")
    if removed and not supervisor.is_available():
        console.terminal.report(
            "removed, but no supervisor could be asked to stop a running daemon: memsyncd stop"
        )
    elif removed:
        console.terminal.report(
            "the service is stopped and removed; notes, index and configuration stay"
        )
    else:
        console.terminal.report("no service of memsyncd is installed; nothing was changed")
    return 0


# --- status, logs, restart ----------------------------------------------------------------------


def _status(args: Args, console: Console) -> int:
    supervisor, terminal = find_supervisor(console), console.terminal
    state = {
        "installed": supervisor.is_installed(),
        "is_current": are_files_current(supervisor, console),
        "files": supervisor.find_files(),
        "absence": "" if supervisor.is_available() else supervisor.describe_absence(),
        **supervisor.read_state(),
    }
    state["background_pid"] = _find_background_pid(state, console)
    is_fine = state["installed"] and (state["state"] == "active" or state["is_waiting"])
    if args.json:
        terminal.print_json(state)
    else:
        for line in _render_state(state):
            terminal.print(clean_line(line))
    return 0 if is_fine else NOT_RUNNING


def are_files_current(supervisor: Supervisor, console: Console) -> bool | None:
    """Return whether the installed files are as this program would write them now; None if the
    configuration is refused.
    """
    try:
        files = supervisor.render(find_program(console.env), is_on_demand=supervisor.is_on_demand)
    except BadConfig:
        return None
    return all(is_current(path, text) for path, text in files.items())


def _render_state(state: dict[str, Any]) -> list[str]:
    background_pid = state["background_pid"]
    lines = (
        [f"a daemon outside the service answers (pid {background_pid})"] if background_pid else []
    )
    if not state["installed"]:
        return [*lines, "no service is installed; install it with: memsyncd service install"]
    if state["absence"]:
        return [
            *lines,
            f"installed, but not running: {state['absence']}",
            *(f"file {path}" for path in state["files"]),
        ]
    lines.append(_render_run(state))
    if state["is_waiting"] and not state["pid"]:
        lines.append("it starts when a client connects")
    if state["says"]:
        lines.append(f"status: {state['says']}")
    if not state["enabled"]:
        lines.append("it does not start by itself; enable it with: memsyncd service install")
    if state["is_current"] is None:
        lines.append("its configuration is refused; see: memsyncd config check")
    elif not state["is_current"]:
        lines.append(
            "its files do not match this program and environment;"
            " see how they differ with: memsyncd service install; it replaces them with --replace"
        )
    return [*lines, *(f"file {path}" for path in state["files"])]


def _render_run(state: dict[str, Any]) -> str:
    facts = [f"memsyncd is {state['state']} ({state['detail']})"]
    if state["pid"]:
        facts.append(f"pid {state['pid']}")
    if state["restarts"]:
        facts.append(f"restarted {render_count(state['restarts'], 'time')}")
    if state["state"] == "failed":
        facts.append(f"last result: {state['result']}")
    return " · ".join(facts)


def _logs(args: Args, console: Console) -> int:
    supervisor, terminal = find_supervisor(console), console.terminal
    n_lines = args.lines or LOG_LINES
    command = supervisor.log_command(n_lines=n_lines, is_followed=args.follow)
    if not supervisor.is_installed():
        log_file = find_user_dirs(console.env).log_file
        terminal.report(
            f"no service is installed; a background daemon writes its log to {clean_line(log_file)}"
        )
        if not os.path.exists(log_file):
            return NOTHING_FOUND
        command = ["tail", "-n", str(n_lines), *(["-F"] if args.follow else []), log_file]
    terminal.out.flush()
    try:
        status = subprocess.run(command, env=dict(console.env), check=False).returncode
    except FileNotFoundError:
        raise BadRequest(
            f"{command[0]} is not installed", hint=supervisor.describe_missing_log()
        ) from None
    return status if status >= 0 else SIGNALLED - status


def start_service(console: Console, *, running_pid: int | None) -> bool:
    """Start or restart the installed service. Return whether that was done: not without a service,
    not if the running daemon is not the service's, and not if MEMSYNCD_SOCKET names another
    daemon's socket.
    """
    if "MEMSYNCD_SOCKET" in console.env:
        return False
    try:
        supervisor = find_supervisor(console)
    except BadRequest:
        return False  # no supervisor
    if not (supervisor.is_installed() and supervisor.is_available()):
        return False
    if running_pid not in {None, supervisor.read_state()["pid"]}:
        return False
    supervisor.restart()
    console.terminal.report(_describe_run(supervisor.read_state()))
    return True


def _restart(_args: Args, console: Console) -> int:
    supervisor = find_supervisor(console)
    if not supervisor.is_installed():
        raise NoDaemon("no service is installed", hint="install it with: memsyncd service install")
    if not supervisor.is_available():
        raise NoDaemon("the service cannot be started", hint=supervisor.describe_absence())
    _stop_background_daemon(supervisor, console)
    supervisor.restart()
    console.terminal.report(_describe_run(supervisor.read_state()))
    return 0


_ACTIONS = {
    "install": Command(
        _install,
        summary="write the service's files, enable it and start it",
        options=(
            Option("--no-start", "do not start it now"),
            Option("--print", "print the files instead of writing them"),
            Option("--replace", "replace files that differ; without it, the difference is shown"),
            Option(
                "--on-demand", "start it when the first client connects, not at login (systemd)"
            ),
        ),
        examples=("memsyncd service install", "memsyncd service install --print"),
    ),
    "uninstall": Command(
        _uninstall, summary="stop it and remove its files; nothing else is changed"
    ),
    "status": Command(
        _status, summary="show whether it is installed and its state", options=(JSON,)
    ),
    "logs": Command(
        _logs,
        summary="show the end of its log",
        options=(
            Option("-f --follow", "follow the log"),
            Option("-n --lines N", f"the number of lines (default {LOG_LINES})"),
        ),
        examples=("memsyncd service logs -f",),
    ),
    "restart": Command(_restart, summary="stop the daemon and start it again"),
}

COMMANDS = {
    "service": make_group(
        "service", _ACTIONS, ("memsyncd service install", "memsyncd service status")
    )
}
