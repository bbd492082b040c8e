"""`memsyncd run`, `start`, `stop` and `restart`: run the daemon, or start and stop the one in the
background.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import memsyncd
from memsyncd.cli.background import (
    PING_TIMEOUT_S,
    POLL_S,
    SpawnedDaemon,
    find_daemon,
    is_locked,
    spawn_daemon,
    stop_daemon,
)
from memsyncd.cli.init import create_first_notes, create_folder
from memsyncd.client.connection import RESTART_HINT, NoAnswer, describe_versions
from memsyncd.dirs import find_user_dirs
from memsyncd.errors import AlreadyRunning, Busy, NoDaemon
from memsyncd.operations.workspaces.show import find_folder
from memsyncd.terminal.console import show_until_indexed
from memsyncd.terminal.parser import Argument, Command, Option
from memsyncd.terminal.terminal import clean_line

if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.client import Client
    from memsyncd.terminal.console import Console

# How often a client starts a daemon before it gives up.
STARTS = 3
START_TIMEOUT_S = 20.0
FAILED_TO_START = 3
LOG_LINES_SHOWN = 8
# Optional imports of asyncio, msgspec, shutil and structlog. The daemon never uses them, but would
# keep them in memory.
UNUSED_MODULES = ("bz2", "greenlet", "lzma", "rich", "ssl", "typing_extensions")


def connect_or_start(console: Console, timeout_s: float) -> Client:
    """Connect to the daemon. If no daemon runs, start the installed service, else a daemon in the
    background, and wait for it.

    Raises NoDaemon or Busy after the timeout; NoDaemon, with the reason, if the daemon ends at
    once.
    """
    deadline_s = time.monotonic() + timeout_s
    n_starts, is_started = 0, False
    spawned: SpawnedDaemon | None = None
    while True:
        try:
            return console.connect()
        except (NoDaemon, Busy):
            status = None if spawned is None else spawned.process.poll()
            if spawned is not None and status is not None and not spawned.has_lost(console):
                if status != AlreadyRunning.exit_status or n_starts == STARTS:
                    raise spawned.make_error() from None
                is_started = False  # the daemon that had locked the folders has ended since
            if time.monotonic() > deadline_s:
                raise
        # A daemon that is ending answers no more, but its lock still refuses another daemon.
        if not is_started and not is_locked(console):
            n_starts, is_started = n_starts + 1, True
            has_service = _start_service(console, running_pid=None)
            spawned = None if has_service else spawn_daemon([], console.env)
        time.sleep(POLL_S)


def _run(args: Args, console: Console) -> int:
    import gc

    for name in UNUSED_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # not importable
    # Imported objects stay: a garbage collection would find none and take a tenth of the time.
    gc.disable()
    from memsyncd.daemon.main import run

    if args.init:
        paths = [create_folder(path) for path in args.paths]
        for path in paths:
            create_first_notes(path)
    else:
        paths = [find_folder(path) for path in args.paths]
    return run(paths=paths, env=console.env, terminal=console.terminal.is_err_terminal)


def _start(args: Args, console: Console) -> int:
    paths = [find_folder(path) for path in args.paths]
    pid = find_daemon(console)
    if pid is not None:
        _report_running(pid, console)
    elif not _start_service(console, running_pid=None):
        return _spawn(paths, console)
    _add(paths, console)
    show_until_indexed(console)
    return 0


def _report_running(pid: int, console: Console) -> None:
    place = clean_line(console.client.socket_path)
    console.terminal.report(f"memsyncd runs already (pid {pid}), on {place}")
    with suppress(NoAnswer), console.connect() as client:
        client.timeout_s = PING_TIMEOUT_S
        version = str(client.call("ping")["version"])
        if version != memsyncd.__version__:
            console.terminal.warn(f"{describe_versions(version)}: {RESTART_HINT}")


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
    from memsyncd.config.load import load_config

    # First, because with an invalid configuration no daemon would start after this one.
    load_config(find_user_dirs(console.env).config_file, console.env)
    if _start_service(console, running_pid=find_daemon(console)):
        return 0
    stop_daemon(console)
    return _spawn([], console)


def _start_service(console: Console, *, running_pid: int | None) -> bool:
    """Start the installed service, if there is one, because a second daemon would conflict with it.
    Return whether there is one.
    """
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
