"""`memsyncd service`: have the system run the daemon, see how it is, read its log. systemd on Linux, launchd on macOS."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import memsyncd
from memsyncd.cli.figures import render_count
from memsyncd.cli.grammar import JSON, Argument, Command, Option, read_count
from memsyncd.cli.lifecycle import stop_daemon
from memsyncd.cli.servicefiles import find_home, find_program, is_current, is_passing
from memsyncd.cli.terminal import clean_line
from memsyncd.dirs import find_dirs
from memsyncd.errors import BadConfig, BadRequest, NoDaemon

if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console
    from memsyncd.cli.launchd import Launchd
    from memsyncd.cli.systemd import Systemd

    Supervisor = Systemd | Launchd

NOT_RUNNING = 3
LOG_LINES = 50
SIGNALLED = 128
"""What a shell adds to the signal that ended a program."""


def find_supervisor(console: Console) -> Supervisor:
    """The one that this system has. Raises BadRequest if it has none."""
    if sys.platform == "darwin":
        from memsyncd.cli.launchd import Launchd

        return Launchd(console.env)
    from memsyncd.cli.systemd import Systemd

    return Systemd(console.env)


# --- install and uninstall --------------------------------------------------------------------------------------------


def _install(args: Args, console: Console) -> int:
    supervisor, terminal = find_supervisor(console), console.terminal
    program = find_program(console.env)
    files = supervisor.render(program, is_on_demand=args.on_demand)
    if args.print:
        for path, text in files.items():
            terminal.print(f"# {path}\n{text}")
        return 0
    changed = supervisor.install(files)
    for path in {**files, **dict.fromkeys(changed)}:
        done = "kept" if path not in changed else "wrote" if path in files else "removed"
        terminal.print(f"{done} {clean_line(path)}")
    if is_passing(program.words[0], console.env):
        terminal.say(f"this program lies in a folder that may be emptied: {clean_line(program.words[0])}")
        terminal.say("  better install it for good first, with `uv tool install` or `pipx install`, and do this again from there")
    if args.no_start:
        terminal.say("it is not started; that is done by: memsyncd service restart")
        return 0
    if not supervisor.is_there():
        terminal.say(f"installed, but not started: {supervisor.say_absence()}")
        return NOT_RUNNING
    return _start(supervisor, console, is_changed=bool(changed) or _runs_other_version(supervisor, console))


def _start(supervisor: Supervisor, console: Console, *, is_changed: bool) -> int:
    terminal = console.terminal
    _make_room(supervisor, console)
    supervisor.start(is_changed=is_changed)
    terminal.say(_say_running(supervisor.read_state()))
    limits = supervisor.say_limits()
    if limits:
        terminal.say(limits)
    return 0


def _runs_other_version(supervisor: Supervisor, console: Console) -> bool:
    """True if what runs as the service began before its program was brought up to date, in the same place."""
    if supervisor.read_state()["pid"] is None:
        return False
    try:
        return bool(console.ask("ping")["version"] != memsyncd.__version__)
    except NoDaemon:
        return False
    finally:
        console.close()


def _make_room(supervisor: Supervisor, console: Console) -> None:
    """Stop a daemon that somebody else runs: the service could not start beside it."""
    if _find_stray(supervisor.read_state(), console):
        pid = stop_daemon(console)
        console.terminal.say(f"the daemon that ran by itself was stopped (pid {pid}); the service takes its place")


def _find_stray(state: dict[str, Any], console: Console) -> int | None:
    """The process number of a daemon that is not the service's. If a client would start that, none can be there."""
    if state["pid"] is not None or state["is_waiting"]:
        return None
    try:
        return int(console.ask("ping")["pid"])
    except NoDaemon:
        return None


def _say_running(state: dict[str, Any]) -> str:
    if state["pid"] is None:
        return "memsyncd starts when the first client connects" if state["is_waiting"] else "memsyncd is being started"
    says = f": {clean_line(state['says'])}" if state["says"] else ""
    return f"memsyncd runs as a service (pid {state['pid']}){says}"


def _uninstall(_args: Args, console: Console) -> int:
    supervisor = find_supervisor(console)
    removed = supervisor.uninstall()
    for path in removed:
        console.terminal.print(f"removed {clean_line(path)}")
    if removed and not supervisor.is_there():
        console.terminal.say("it starts no more; nobody could be asked to stop what may still run: memsyncd stop")
    elif removed:
        console.terminal.say("the service is stopped and gone; notes, index and configuration stay")
    else:
        console.terminal.say("no service of memsyncd's own is installed; nothing was changed")
    return 0


# --- status, logs, restart --------------------------------------------------------------------------------------------


def _status(args: Args, console: Console) -> int:
    supervisor, terminal = find_supervisor(console), console.terminal
    state = {
        "installed": supervisor.is_installed(),
        "is_current": are_files_current(supervisor, console),
        "files": supervisor.find_files(),
        "absence": "" if supervisor.is_there() else supervisor.say_absence(),
        **supervisor.read_state(),
    }
    state["stray_pid"] = _find_stray(state, console)
    is_fine = state["installed"] and (state["state"] == "active" or state["is_waiting"])
    if args.json:
        terminal.print_json(state)
    else:
        for line in _render_state(state):
            terminal.print(clean_line(line))
    return 0 if is_fine else NOT_RUNNING


def are_files_current(supervisor: Supervisor, console: Console) -> bool | None:
    """Whether the installed files are those that would be written now. None if none would: the configuration is refused."""
    try:
        files = supervisor.render(find_program(console.env), is_on_demand=supervisor.is_on_demand)
    except BadConfig:
        return None
    return all(is_current(path, text) for path, text in files.items())


def _render_state(state: dict[str, Any]) -> list[str]:
    stray = state["stray_pid"]
    lines = [f"a daemon that no service runs answers (pid {stray})"] if stray else []
    if not state["installed"]:
        return [*lines, "no service is installed; that is done by: memsyncd service install"]
    if state["absence"]:
        return [*lines, f"it is installed, but does not run: {state['absence']}", *(f"file {path}" for path in state["files"])]
    lines.append(_render_run(state))
    if state["is_waiting"] and not state["pid"]:
        lines.append("it starts when a client connects")
    if state["says"]:
        lines.append(f"it says: {state['says']}")
    if not state["enabled"]:
        lines.append("it does not start by itself; that is done by: memsyncd service install")
    if state["is_current"] is None:
        lines.append("its configuration is refused; what is wrong says: memsyncd config check")
    elif not state["is_current"]:
        lines.append("its files are not those of this program and environment; that is done by: memsyncd service install")
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
    if not supervisor.is_installed():
        log_file = find_dirs(console.env, find_home(console.env), sys.platform).log_file
        terminal.say(f"no service is installed; a daemon in the background keeps its log in {clean_line(log_file)}")
    command = supervisor.find_log_command(n_lines=args.lines or LOG_LINES, is_followed=args.follow)
    terminal.out.flush()
    try:
        status = subprocess.run(command, env=dict(console.env), check=False).returncode
    except FileNotFoundError:
        raise BadRequest(f"{command[0]} is not installed", hint=supervisor.say_unlogged()) from None
    return status if status >= 0 else SIGNALLED - status


def has_started(console: Console, *, running_pid: int | None) -> bool:
    """Start or restart the installed service, if the daemon that runs is its own or none does. False if there is no such service.

    A client that names another socket means another daemon.
    """
    if "MEMSYNCD_SOCKET" in console.env:
        return False
    try:
        supervisor = find_supervisor(console)
    except BadRequest:
        return False  # nobody is there who could run it
    if not (supervisor.is_installed() and supervisor.is_there()):
        return False
    if running_pid not in {None, supervisor.read_state()["pid"]}:
        return False
    supervisor.restart()
    console.terminal.say(_say_running(supervisor.read_state()))
    return True


def _restart(_args: Args, console: Console) -> int:
    supervisor = find_supervisor(console)
    if not supervisor.is_installed():
        raise NoDaemon("no service is installed", hint="install it with: memsyncd service install")
    if not supervisor.is_there():
        raise NoDaemon("the service cannot be started", hint=supervisor.say_absence())
    _make_room(supervisor, console)
    supervisor.restart()
    console.terminal.say(_say_running(supervisor.read_state()))
    return 0


def _refuse(args: Args, _console: Console) -> int:
    raise BadRequest(f"service: {args.action} comes first", hint="see `memsyncd service --help`")


_ACTIONS = {
    "install": Command(
        _install,
        summary="write the service's files, have it start by itself, and start it",
        options=(
            Option("--no-start", "do not start it now"),
            Option("--print", "show the files instead of writing them"),
            Option("--on-demand", "start it when the first client connects, not at login (systemd)"),
        ),
        examples=("memsyncd service install", "memsyncd service install --print"),
    ),
    "uninstall": Command(_uninstall, summary="stop it and remove its files; nothing else is touched"),
    "status": Command(_status, summary="say whether it is installed and how it is", options=(JSON,)),
    "logs": Command(
        _logs,
        summary="show what it logged last",
        options=(
            Option("-f --follow", "go on showing what comes"),
            Option("-n --lines", f"so many lines; {LOG_LINES} by default", metavar="N", read=read_count),
        ),
        examples=("memsyncd service logs -f",),
    ),
    "restart": Command(_restart, summary="stop the daemon and start it again"),
}

COMMANDS = {
    "service": Command(
        _refuse,
        arguments=(Argument("action", "COMMAND", "one of those above", choices=tuple(_ACTIONS)),),
        commands=_ACTIONS,
        examples=("memsyncd service install", "memsyncd service status"),
    )
}
