"""Daemons as in tests/daemon, started as each fault requires, and small or unmounted disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from memsyncd.client import Client
from memsyncd.errors import MemsyncdError, NoDaemon
from tests.daemon.conftest import *  # noqa: F403  its fixtures
from tests.daemon.conftest import wait_until
from tests.programs import succeeds

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

WAIT_S = 45.0
Launch = Callable[..., subprocess.Popen[bytes]]


def connect(home: Home) -> Client:
    """Return a client of the daemon when it listens."""
    found: list[Client] = []

    def is_up() -> bool:
        try:
            client = Client(home.socket_path, WAIT_S)
            client.call("ping")
        except NoDaemon:
            return False
        found.append(client)
        return True

    wait_until(is_up, "no daemon came up")
    return found[0]


def code_of(action: Callable[[], object]) -> str:
    """Return the error code of a request; empty if it succeeds."""
    try:
        action()
    except MemsyncdError as failure:
        return failure.code
    return ""


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Start a daemon through another program, or with another stderr.

    At the end of the test it must stop cleanly.
    """
    begun: list[tuple[Home, subprocess.Popen[bytes]]] = []

    def begin(
        home: Home, prefix: Sequence[str] = (), *, stderr: IO[bytes] | int | None = None
    ) -> subprocess.Popen[bytes]:
        command = [*prefix, sys.executable, "-m", "memsyncd", "run"]
        with home.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                env=home.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log if stderr is None else stderr,
            )
        begun.append((home, process))
        return process

    yield begin
    failed = []
    for begun_in, process in begun:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
        if process.wait() != 0:
            failed.append(begun_in.read_log())
    assert not failed, failed[0]


@pytest.fixture
def mount() -> Iterator[Callable[[Path, str], None]]:
    """Mount a memory disk of this size over a folder."""
    mounted: list[Path] = []

    def mount(folder: Path, size: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(folder)]
        if os.geteuid() != 0 or not succeeds(*command):
            pytest.skip("only root may mount a small disk, and not everywhere")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        # The unmount is lazy: a daemon may have the disk open, and it may already be unmounted.
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
