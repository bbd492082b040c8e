"""Which sockets that were handed over are taken: by a real process that holds a real descriptor 3."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.client import Client

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

WAIT_S = 15.0
START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"} | dict(word.split("=", 1) for word in sys.argv[2:]))
os.execv(sys.executable, [sys.executable, "-m", "memsyncd", "run"])
"""


@pytest.fixture
def own(make_home: Callable[[], Home]) -> Home:
    return make_home()


def listen(path: str, mode: int = 0o600, backlog: int | None = 16, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """A socket as a supervisor makes it."""
    Path(path).parent.mkdir(mode=0o700, exist_ok=True)
    sock = socket.socket(socket.AF_UNIX, kind)
    sock.bind(path)
    os.chmod(path, mode)
    if backlog is not None:
        sock.listen(backlog)
    return sock


def start(home: Home, descriptor: int, *words: str) -> subprocess.Popen[bytes]:
    with home.log.open("ab") as stream:
        command = [sys.executable, "-c", START, str(descriptor), *words]
        return subprocess.Popen(command, env=home.env, stdin=subprocess.DEVNULL, stderr=stream, pass_fds=[descriptor])


def refuse(home: Home, descriptor: int, *words: str) -> str:
    process = start(home, descriptor, *words)
    assert process.wait(WAIT_S) in (6, 78)
    log = home.log.read_text()
    assert "Traceback" not in log
    assert "→" in log
    return log


def test_a_client_that_connected_before_the_daemon_ran_is_answered_and_the_socket_outlives_it(own: Home) -> None:
    with listen(own.socket_path) as sock, Client(own.socket_path, WAIT_S) as client:
        process = start(own, sock.fileno())
        assert client.call("ping")["pid"] == process.pid
        process.terminate()
        assert process.wait(WAIT_S) == 0
        assert Path(own.socket_path).is_socket()


def test_the_lock_holds_for_a_daemon_with_a_lent_socket_as_for_any(own: Home) -> None:
    with listen(own.socket_path) as sock:
        process = start(own, sock.fileno())
        with Client(own.socket_path, WAIT_S) as client:
            client.call("ping")
        assert f"already running, as process {process.pid}" in refuse(own, sock.fileno())
        process.terminate()
        assert process.wait(WAIT_S) == 0


def test_a_socket_where_no_client_looks_is_refused_with_both_places(own: Home) -> None:
    elsewhere = f"{own.folder}/run/elsewhere.sock"
    with listen(elsewhere) as sock:
        log = refuse(own, sock.fileno())
    assert elsewhere in log
    assert own.socket_path in log


@pytest.mark.parametrize("mode", [0o660, 0o666, 0o604])
def test_a_socket_that_others_may_reach_is_refused(own: Home, mode: int) -> None:
    with listen(own.socket_path, mode) as sock:
        assert f"mode {mode:04o}" in refuse(own, sock.fileno())


def test_a_socket_that_does_not_listen_is_refused(own: Home) -> None:
    with listen(own.socket_path, backlog=None) as sock:
        assert "does not listen" in refuse(own, sock.fileno())


def test_a_datagram_socket_is_refused(own: Home) -> None:
    with listen(own.socket_path, backlog=None, kind=socket.SOCK_DGRAM) as sock:
        assert "no Unix stream socket" in refuse(own, sock.fileno())


def test_what_is_no_socket_is_refused(own: Home) -> None:
    with own.config.open() as file:
        assert "is no socket" in refuse(own, file.fileno())


@pytest.mark.parametrize("word", ["LISTEN_FDS=2", "LISTEN_FDS=many", "LISTEN_FDNAMES=web", "LISTEN_FDNAMES=memsyncd:web"])
def test_other_sockets_than_the_one_are_refused(own: Home, word: str) -> None:
    with listen(own.socket_path) as sock:
        assert word in refuse(own, sock.fileno(), word)


@pytest.mark.parametrize("word", ["LISTEN_PID=1", "LISTEN_FDS=0"])
def test_what_was_handed_to_another_process_is_left_alone(own: Home, word: str) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        process = start(own, sock.fileno(), word)
        while not Path(own.socket_path).exists():
            assert process.poll() is None
        with Client(own.socket_path, WAIT_S) as client:
            assert client.call("ping")["pid"] == process.pid
        process.terminate()
        assert process.wait(WAIT_S) == 0
        assert not Path(own.socket_path).exists()
