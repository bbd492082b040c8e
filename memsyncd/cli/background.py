"""How is a daemon put into the background, and how does one know that it is up, or gone?"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import memsyncd
from memsyncd.cli.folders import make_folders
from memsyncd.dirs import find_dirs
from memsyncd.errors import MemsyncdError, NoDaemon

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memsyncd.cli.console import Console

POLL_S = 0.02
LOG_LIMIT_BYTES = 4 * 1024 * 1024
"""A log that is longer when a daemon starts becomes `daemon.log.1`, in place of the one before it."""
LOG_LINES_SHOWN = 8


class Spawned(NamedTuple):
    """A daemon that was just started. `log_start` is where its own log begins in the file."""

    process: subprocess.Popen[bytes]
    log_file: str
    log_start: int

    def wait_for_answer(self, console: Console, timeout_s: float) -> dict[str, Any]:
        """What is answered to `ping`, by it or by one that was started at the same time and won.

        Raises NoDaemon if it ends and no other answers, or the time is up.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            is_over = self.process.poll() is not None or time.monotonic() > deadline_s
            try:
                answer = console.ask("ping")
                # One that has yet to find the other's lock could outlive it, if that is stopped at once.
                if is_over or answer["pid"] == self.process.pid:
                    return answer
            except NoDaemon:
                console.close()
                if is_over:
                    raise
            time.sleep(POLL_S)

    def read_log(self) -> list[str]:
        with open(self.log_file, encoding="utf-8", errors="replace") as file:
            file.seek(self.log_start)
            return file.read().splitlines()


def spawn_daemon(paths: list[str], env: Mapping[str, str]) -> Spawned:
    """Start `memsyncd run` in a session of its own, its log in the state folder."""
    home = env.get("HOME") or os.path.expanduser("~")
    log_file = find_dirs(env, home, sys.platform).log_file
    try:
        log = _open_log(log_file)
    except OSError as error:
        raise MemsyncdError(
            f"cannot write the log {log_file}: {error.strerror}", hint="see who owns that folder, or set XDG_STATE_HOME"
        ) from error
    with open(log, "wb") as output:
        start = output.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            [sys.executable, "-m", "memsyncd", "run", *paths],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(env),
            # `-m` looks in the current folder first, so this is the very package that is running now, installed or not.
            cwd=os.path.dirname(os.path.dirname(os.path.abspath(memsyncd.__file__))),
            start_new_session=True,
        )
    return Spawned(process, log_file, start)


def wait_until_gone(pid: int, timeout_s: float) -> bool:
    """Ask the process to end, and wait. True once it is gone, also if it was gone before."""
    try:
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return True
    except OSError:
        handle = None
    try:
        os.kill(pid, signal.SIGTERM)
        if handle is None:
            return _poll_until_gone(pid, timeout_s)
        # A process that nobody has waited for keeps its number; the handle tells that it ended all the same.
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
    make_folders(os.path.dirname(path))
    if os.path.exists(path) and os.path.getsize(path) > LOG_LIMIT_BYTES:
        os.replace(path, path + ".1")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
