"""Find, start and stop a daemon in the background, without a supervisor.

The commands `start`, `stop` and `service`, hooks and `memsyncd mcp` use this module.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import memsyncd
from memsyncd.client.connection import NoAnswer
from memsyncd.dirs import find_user_dirs
from memsyncd.errors import AlreadyRunning, MemsyncdError, NoDaemon, NotFresh, Unwritable
from memsyncd.lock import is_held, read_holder
from memsyncd.terminal.files import make_private_folders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memsyncd.terminal.console import Console

POLL_S = 0.02
# A longer log becomes `daemon.log.1` when a daemon starts; it replaces the previous one.
LOG_LIMIT_BYTES = 4 * 1024 * 1024
# The first characters of the new log in an error.
REASON_CHARS = 500
STOP_TIMEOUT_S = 10.0
PING_TIMEOUT_S = 2.0
# A daemon that starts or ends holds its lock a moment longer than it answers.
LOCK_TIMEOUT_S = 1.0
# `-m` searches the current folder first, so the daemon is this package, installed or not.
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(memsyncd.__file__)))


class SpawnedDaemon(NamedTuple):
    """A daemon that was just started. Its own log begins at the offset `log_start` of the log
    file, in bytes.
    """

    process: subprocess.Popen[bytes]
    log_file: str
    log_start: int

    def wait_for_answer(self, console: Console, timeout_s: float) -> dict[str, Any]:
        """Return the result of `ping` from this daemon, or from another daemon that has locked the
        folders first.

        Raises NoDaemon after the timeout, or if this daemon ends and no other daemon answers.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            has_ended = self.process.poll() is not None
            is_late = time.monotonic() > deadline_s
            try:
                answer = console.call("ping")
                # If another daemon answers, wait until this daemon has found its lock and ended:
                # it would take over if the other stopped.
                if has_ended or is_late or answer["pid"] == self.process.pid:
                    return answer
            except NoDaemon:
                console.close()
                # Another daemon that is starting holds its locks a moment before it answers.
                if is_late or (has_ended and not self.has_lost(console)):
                    raise
            time.sleep(POLL_S)

    def make_error(self) -> NoDaemon:
        """Return the error of a daemon that ended at once, with its log."""
        reason = " ".join(" ".join(self.read_log()).split())
        message = f"the daemon stopped at once: {reason[:REASON_CHARS]}"
        return NoDaemon(message, hint="then start it with `memsyncd start`")

    def has_lost(self, console: Console) -> bool:
        """Return whether it has ended because another daemon has locked the folders."""
        return self.process.poll() == AlreadyRunning.exit_status and is_locked(console)

    def read_log(self) -> list[str]:
        """Return the lines that this daemon has logged."""
        with open(self.log_file, encoding="utf-8", errors="replace") as file:
            file.seek(self.log_start)
            return file.read().splitlines()


def spawn_daemon(paths: list[str], env: Mapping[str, str]) -> SpawnedDaemon:
    """Start `memsyncd run` in its own session, with its log in the state folder.

    Raises Unwritable if the log cannot be written, except on a read-only disk.
    """
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
    """Run `memsyncd start`, and do not wait. The process ends with 0 once a daemon answers."""
    return subprocess.Popen(
        [sys.executable, "-m", "memsyncd", "start"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(env),
        cwd=_FOLDER,
        start_new_session=True,
    )


def terminate_and_wait(pid: int, timeout_s: float) -> bool:
    """Send SIGTERM, resume the process if it is stopped, and wait for it to end. Return whether it
    has ended.
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
        # A zombie keeps its pid; the handle still shows that the process ended.
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


def is_locked(console: Console) -> bool:
    """Return whether a daemon has locked the folders of this environment. It need not answer."""
    return is_held(find_user_dirs(console.env).lock_paths)


def find_daemon(console: Console) -> int | None:
    """Return the pid of the daemon that listens, None if no daemon does.

    If it does not answer within PING_TIMEOUT_S, its lock gives the pid. Raises NoAnswer if the lock
    has none.
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
    """Return the pid of the daemon that has locked the folders, 0 if it has not written its pid
    yet; None if no daemon has.
    """
    for path in find_user_dirs(console.env).lock_paths:
        if is_held([path]):
            holder = read_holder(path)
            return 0 if holder is None else holder.pid
    return None


def stop_daemon(console: Console) -> int | None:
    """Stop the daemon and wait until it has ended. Return its pid, None if no daemon runs.

    Raises NotFresh after STOP_TIMEOUT_S, NoDaemon if the daemon has lost its socket, MemsyncdError
    if it is process 1.
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
