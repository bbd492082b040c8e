"""`memsyncd run`, `start`, `stop` and `restart`: be the daemon, or see to one in the background."""

from __future__ import annotations

import sys

import memsyncd
from memsyncd.cli.background import LOG_LINES_SHOWN, Spawned, spawn_daemon, wait_until_gone
from memsyncd.cli.grammar import Argument, Command, Option
from memsyncd.cli.init import find_folder, write_first_notes
from memsyncd.cli.progress import show_until_indexed
from memsyncd.cli.terminal import clean_line
from memsyncd.errors import MemsyncdError, NoDaemon, NotFresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.cli.console import Console

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
FAILED_TO_START = 3
UNUSED_MODULES = ("ssl", "rich")
"""What asyncio and structlog take along if they can, and the daemon would hold in memory as long as it lives."""


def _run(args: Args, console: Console) -> int:
    for name in UNUSED_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # to the import system: there is none
    from memsyncd.daemon import run

    paths = [find_folder(path) for path in args.paths]
    if args.init:
        for path in paths:
            write_first_notes(path)
    return run(paths=paths, env=console.env, terminal=console.terminal.is_talk_shown)


def _start(args: Args, console: Console) -> int:
    paths = [find_folder(path) for path in args.paths]
    try:
        pid = console.ask("ping")["pid"]
    except NoDaemon:
        if not _has_service_started(console, running_pid=None):
            return _start_anew(paths, console)
    else:
        console.terminal.say(f"memsyncd runs already (pid {pid})")
    _add(paths, console)
    show_until_indexed(console)
    return 0


def _add(paths: list[str], console: Console) -> None:
    for path in paths:
        console.ask("workspace.add", path=path)


def _start_anew(paths: list[str], console: Console) -> int:
    spawned = spawn_daemon(paths, console.env)
    try:
        answer = spawned.wait_for_answer(console, START_TIMEOUT_S)
    except NoDaemon:
        return _say_failure(spawned, console)
    if answer["pid"] != spawned.process.pid:
        _add(paths, console)
    terminal = console.terminal
    terminal.say(f"memsyncd {memsyncd.__version__} runs in the background (pid {answer['pid']})")
    if terminal.is_talk_shown:
        terminal.say(terminal.err_paint("dim", f"its log: {clean_line(spawned.log_file)}"))
    show_until_indexed(console)
    return 0


def _say_failure(spawned: Spawned, console: Console) -> int:
    terminal = console.terminal
    status = spawned.process.poll()
    what = "did not answer in time" if status is None else "stopped at once"
    terminal.say(
        f"{terminal.err_paint('bold red', 'memsyncd:')} the daemon {what}; the end of its log, {clean_line(spawned.log_file)}:"
    )
    for line in spawned.read_log()[-LOG_LINES_SHOWN:]:
        terminal.say(f"  {clean_line(line)}")
    terminal.say(f"  {terminal.err_paint('cyan', '→')} `memsyncd run` shows all of it in the foreground")
    return status if status is not None and status > 0 else FAILED_TO_START


def _stop(_args: Args, console: Console) -> int:
    pid = stop_daemon(console)
    console.terminal.say(f"memsyncd has stopped (pid {pid})" if pid else "no daemon runs; nothing to stop")
    return 0


def _restart(_args: Args, console: Console) -> int:
    if _has_service_started(console, running_pid=_find_pid(console)):
        return 0
    stop_daemon(console)
    return _start_anew([], console)


def _has_service_started(console: Console, *, running_pid: int | None) -> bool:
    """Where a service is installed, it is that which is started: another daemon would stand in its way."""
    from memsyncd.cli.service import has_started

    return has_started(console, running_pid=running_pid)


def _find_pid(console: Console) -> int | None:
    try:
        return int(console.ask("ping")["pid"])
    except NoDaemon:
        return None


def stop_daemon(console: Console) -> int | None:
    """End the daemon in order and wait until it is gone. Returns its pid, None if none runs.

    Raises NotFresh if it takes longer than STOP_TIMEOUT_S.
    """
    pid = _find_pid(console)
    if pid is None:
        return None
    console.close()
    if pid <= 1:
        raise MemsyncdError(f"what answers says that its pid is {pid}", hint="stop it where it was started")
    if not wait_until_gone(pid, STOP_TIMEOUT_S):
        raise NotFresh(
            f"the daemon (pid {pid}) did not stop within {STOP_TIMEOUT_S:g} s",
            hint=f"wait a little longer, or end it with `kill -KILL {pid}`: its index heals itself",
        )
    return pid


_PATHS = Argument("paths", "PATH", "folders to add first", many="any")

COMMANDS = {
    "run": Command(
        _run,
        arguments=(_PATHS,),
        options=(Option("--init", "make a MEMORY.md and .memories/ in PATHs that have neither, without asking"),),
        examples=("memsyncd run", "memsyncd run ~/notes ."),
    ),
    "start": Command(_start, arguments=(_PATHS,), examples=("memsyncd start", "memsyncd start ~/notes")),
    "stop": Command(_stop),
    "restart": Command(_restart),
}
