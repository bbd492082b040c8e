"""`memsyncd run`, `start`, `stop` and `restart`: run the daemon, or control the one in the
background.
"""

from __future__ import annotations

import sys

import memsyncd
from memsyncd.cli.background import (
    LOG_LINES_SHOWN,
    SpawnedDaemon,
    ping_daemon,
    spawn_daemon,
    stop_daemon,
)
from memsyncd.cli.console import show_until_indexed
from memsyncd.cli.parser import Argument, Command, Option
from memsyncd.cli.terminal import clean_line
from memsyncd.cli.workspaces import create_first_notes, create_folder, find_folder
from memsyncd.errors import NoDaemon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.cli.console import Console

START_TIMEOUT_S = 20.0
FAILED_TO_START = 3
# Optional imports of asyncio, msgspec, shutil and structlog that the daemon never uses and would
# keep in memory.
UNUSED_MODULES = ("bz2", "greenlet", "lzma", "rich", "ssl", "typing_extensions")


def _run(args: Args, console: Console) -> int:
    import gc

    for name in UNUSED_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # not importable
    # What is imported stays: to collect garbage meanwhile finds none and takes a tenth of the time.
    gc.disable()
    from memsyncd.daemon import run

    if args.init:
        paths = [create_folder(path) for path in args.paths]
        for path in paths:
            create_first_notes(path)
    else:
        paths = [find_folder(path) for path in args.paths]
    return run(paths=paths, env=console.env, terminal=console.terminal.is_err_terminal)


def _start(args: Args, console: Console) -> int:
    paths = [find_folder(path) for path in args.paths]
    try:
        pid = console.call("ping")["pid"]
    except NoDaemon:
        if not _start_service(console, running_pid=None):
            return _spawn(paths, console)
    else:
        console.terminal.report(f"memsyncd runs already (pid {pid})")
    _add(paths, console)
    show_until_indexed(console)
    return 0


def _add(paths: list[str], console: Console) -> None:
    for path in paths:
        console.call("workspace.add", path=path)


def _spawn(paths: list[str], console: Console) -> int:
    spawned = spawn_daemon(paths, console.env)
    try:
        answer = spawned.wait_for_answer(console, START_TIMEOUT_S)
    except NoDaemon:
        return _report_failure(spawned, console)
    if answer["pid"] != spawned.process.pid:
        _add(paths, console)
    terminal = console.terminal
    terminal.report(f"memsyncd {memsyncd.__version__} runs in the background (pid {answer['pid']})")
    if terminal.is_err_terminal:
        terminal.note(f"its log: {clean_line(spawned.log_file)}")
    show_until_indexed(console)
    return 0


def _report_failure(spawned: SpawnedDaemon, console: Console) -> int:
    terminal = console.terminal
    status = spawned.process.poll()
    what = "did not answer in time" if status is None else "stopped at once"
    terminal.report(
        f"{terminal.err_paint('bold red', 'memsyncd:')} the daemon {what};"
        f" the end of its log, {clean_line(spawned.log_file)}:"
    )
    for line in spawned.read_log()[-LOG_LINES_SHOWN:]:
        terminal.report(f"  {clean_line(line)}")
    terminal.report(
        f"  {terminal.err_paint('cyan', '→')} `memsyncd run` shows everything in the foreground"
    )
    return status if status is not None and status > 0 else FAILED_TO_START


def _stop(_args: Args, console: Console) -> int:
    pid = stop_daemon(console)
    console.terminal.report(
        f"memsyncd has stopped (pid {pid})" if pid else "no daemon runs; nothing to stop"
    )
    return 0


def _restart(_args: Args, console: Console) -> int:
    if _start_service(console, running_pid=ping_daemon(console)):
        return 0
    stop_daemon(console)
    return _spawn([], console)


def _start_service(console: Console, *, running_pid: int | None) -> bool:
    """Start the installed service, if there is one: a second daemon would conflict with it."""
    from memsyncd.cli.service import start_service

    return start_service(console, running_pid=running_pid)


_PATHS = Argument("paths", "[PATH…]", "folders to add first")


COMMANDS = {
    "run": Command(
        _run,
        arguments=(_PATHS,),
        options=(
            Option(
                "--init", "create PATHs, and MEMORY.md and .memories/ in them, if they are missing"
            ),
        ),
        examples=("memsyncd run", "memsyncd run ~/notes ."),
    ),
    "start": Command(
        _start, arguments=(_PATHS,), examples=("memsyncd start", "memsyncd start ~/notes")
    ),
    "stop": Command(_stop),
    "restart": Command(_restart),
}
