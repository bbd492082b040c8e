"""`memsyncd run`, `start`, `stop` and `restart`: run the daemon, or start and stop the one in the
background.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import memsyncd
from memsyncd.cli.init import create_first_notes, create_folder
from memsyncd.cli.service_files import make_private_folders
from memsyncd.client.connection import RESTART_HINT, NoAnswer, describe_versions
from memsyncd.dirs import find_user_dirs
from memsyncd.errors import AlreadyRunning, Busy, MemsyncdError, NoDaemon, NotFresh, Unwritable
from memsyncd.lock import is_held, read_holder
from memsyncd.operations.workspaces.show import find_folder
from memsyncd.terminal.console import show_until_indexed
from memsyncd.terminal.parser import Argument, Command, Option
from memsyncd.terminal.terminal import clean_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.client import Client
    from memsyncd.terminal.console import Console


POLL_S = 0.02
# A log longer than this when a daemon starts becomes `daemon.log.1`, replacing the previous one.
LOG_LIMIT_BYTES = 4 * 1024 * 1024
LOG_LINES_SHOWN = 8
# `-m` searches the current folder first, so the daemon is this package, installed or not.
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(memsyncd.__file__)))


class SpawnedDaemon(NamedTuple):
    """A daemon that was just started. `log_start` is the offset in the log file where its own log
    begins.
    """

    process: subprocess.Popen[bytes]
    log_file: str
    log_start: int

    def wait_for_answer(self, console: Console, timeout_s: float) -> dict[str, Any]:
        """Return the result of `ping` from this daemon, or from one that has its folders.

        Raises NoDaemon if it ends and no other answers, or after the timeout.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            has_ended = self.process.poll() is not None
            is_late = time.monotonic() > deadline_s
            try:
                answer = console.call("ping")
                # Wait for this daemon to find the other's lock: it would take over if the other
                # stopped.
                if has_ended or is_late or answer["pid"] == self.process.pid:
                    return answer
            except NoDaemon:
                console.close()
                # Another daemon that is starting has its locks a moment before it answers.
                if is_late or (has_ended and not self.has_lost(console)):
                    raise
            time.sleep(POLL_S)

    def make_error(self) -> NoDaemon:
        reason = " ".join(" ".join(self.read_log()).split())
        message = f"the daemon stopped at once: {reason[:REASON_CHARS]}"
        return NoDaemon(message, hint="then start it with `memsyncd start`")

    def has_lost(self, console: Console) -> bool:
        """Return whether it has ended because another daemon has its folders now."""
        return self.process.poll() == AlreadyRunning.exit_status and is_locked(console)

    def read_log(self) -> list[str]:
        with open(self.log_file, encoding="utf-8", errors="replace") as file:
            file.seek(self.log_start)
            return file.read().splitlines()


def spawn_daemon(paths: list[str], env: Mapping[str, str]) -> SpawnedDaemon:
    """Start `memsyncd run` in its own session, with its log in the state folder."""
    log_file = find_user_dirs(env).log_file
    try:
        log = _open_log(log_file)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise Unwritable(
                f"cannot write the log {log_file}: {error.strerror}",
                hint="see which folder to correct with `memsyncd doctor`, or set XDG_STATE_HOME",
            ) from error
        # On a read-only disk a daemon still searches.
        log_file, log = os.devnull, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    with open(log, "wb") as output:
        start = output.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            [sys.executable, "-m", "memsyncd", "run", *paths],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(env),
            cwd=_FOLDER,
            start_new_session=True,
        )
    return SpawnedDaemon(process, log_file, start)


def start_aside(env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Have `memsyncd start` start a daemon, without waiting for it. It ends with 0 once one
    answers.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "memsyncd", "start"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(env),
        cwd=_FOLDER,
        start_new_session=True,
    )


STARTS = 3
REASON_CHARS = 500


def connect_or_start(console: Console, timeout_s: float) -> Client:
    """Connect to the daemon. If none runs, start the installed service, else a daemon in the
    background, and wait for it.

    Raises NoDaemon, with the reason if the daemon ends at once; Busy.
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
                is_started = False  # the daemon that had the folders has ended meanwhile
            if time.monotonic() > deadline_s:
                raise
        # One that is ending answers no more, and would keep another from starting.
        if not is_started and not is_locked(console):
            n_starts, is_started = n_starts + 1, True
            has_service = _start_service(console, running_pid=None)
            spawned = None if has_service else spawn_daemon([], console.env)
        time.sleep(POLL_S)


def terminate_and_wait(pid: int, timeout_s: float) -> bool:
    """Send SIGTERM, resume the process if it is stopped, and wait for it to end. Returns True once
    it has ended, also if it had before.
    """
    try:
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return True
    except OSError:
        handle = None
    try:
        os.kill(pid, signal.SIGTERM)
        # A process that Ctrl-Z stopped receives SIGTERM only when it continues.
        os.kill(pid, signal.SIGCONT)
        if handle is None:
            return _poll_until_gone(pid, timeout_s)
        # A zombie keeps its number; the handle still shows that it ended.
        return bool(select.select([handle], [], [], timeout_s)[0])
    except ProcessLookupError:
        return True
    finally:
        if handle is not None:
            os.close(handle)


def _poll_until_gone(pid: int, timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        os.kill(pid, 0)
        time.sleep(POLL_S)
    return False


def _open_log(path: str) -> int:
    make_private_folders(os.path.dirname(path))
    if os.path.exists(path) and os.path.getsize(path) > LOG_LIMIT_BYTES:
        os.replace(path, path + ".1")
    return os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )


STOP_TIMEOUT_S = 10.0
PING_TIMEOUT_S = 2.0
# A daemon that starts or ends holds its lock a moment longer than it answers.
LOCK_TIMEOUT_S = 1.0


def is_locked(console: Console) -> bool:
    """Return whether a daemon has the folders of this environment, even if it does not answer."""
    return is_held(find_user_dirs(console.env).lock_paths)


def find_daemon(console: Console) -> int | None:
    """Return the pid of the daemon that listens, None if none does.

    If it does not answer within PING_TIMEOUT_S, its lock names it. Raises NoAnswer if that does
    not.
    """
    try:
        console.client.timeout_s = PING_TIMEOUT_S
        return int(console.call("ping")["pid"])
    except NoDaemon:
        return None
    except NoAnswer:
        pid = _find_holder(console)
        if not pid:
            raise
        return pid
    finally:
        console.close()


def _find_running(console: Console) -> int | None:
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    while (pid := find_daemon(console)) is None:
        holder = _find_holder(console)
        if holder is None:
            return None
        if time.monotonic() > deadline_s:
            raise NoDaemon(
                f"a daemon runs (process {holder or 'unknown'}), and nobody reaches it: its socket"
                " was removed",
                hint="try again in half a minute, when it has made another, or end it: kill PID",
            )
        time.sleep(POLL_S)
    return pid


def _find_holder(console: Console) -> int | None:
    """Return the pid of the daemon that has the folders, 0 if it has not written its pid yet; None
    if no daemon has them.
    """
    for path in find_user_dirs(console.env).lock_paths:
        if is_held([path]):
            holder = read_holder(path)
            return 0 if holder is None else holder.pid
    return None


def stop_daemon(console: Console) -> int | None:
    """Stop the daemon in order and wait until it has ended. Return its pid, None if none runs.

    Raises NotFresh after STOP_TIMEOUT_S, NoDaemon for one that runs and cannot be reached.
    """
    pid = _find_running(console)
    if pid is None:
        return None
    if pid <= 1:
        raise MemsyncdError(
            f"the daemon reports the pid {pid}, which cannot be stopped from here",
            hint="stop it where it was started",
        )
    if not terminate_and_wait(pid, STOP_TIMEOUT_S):
        raise NotFresh(
            f"the daemon (pid {pid}) did not stop within {STOP_TIMEOUT_S:g} s",
            hint=f"wait longer, or end it with `kill -KILL {pid}`: the next one repairs its index",
        )
    return pid


# --- commands -------------------------------------------------------------------------------------

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

    # With an invalid configuration the running daemon would be stopped, and none would start.
    load_config(find_user_dirs(console.env).config_file, console.env)
    if _start_service(console, running_pid=find_daemon(console)):
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
