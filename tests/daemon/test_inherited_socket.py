"""Which inherited sockets are accepted, by a real process with a real descriptor 3."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.client import Client
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

WAIT_S = 60.0
START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"} | dict(word.split("=", 1) for word in sys.argv[2:]))
os.execv(sys.executable, [sys.executable, "-m", "memsyncd", "run"])
"""
# One process for all cases; it prints the refusal of each, null for one that is accepted.
INHERIT = """
import json, os, sys
from memsyncd.daemon.systemd import inherit_socket
from memsyncd.errors import MemsyncdError
from memsyncd.server.listen import open_socket
results = []
for descriptor, path, words in json.loads(sys.argv[1]):
    os.dup2(descriptor, 3)
    env = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"} | words
    try:
        inherited = inherit_socket(env, os.getpid())
        if inherited is None:
            results.append("nothing is inherited")
        else:
            results.append(open_socket(path, inherited=inherited).close())
    except MemsyncdError as failure:
        results.append(failure.message + (" →" if failure.hint else ""))
    inherited = None
print(json.dumps(results))
"""


@pytest.fixture
def own(make_home: Callable[[], Home]) -> Home:
    return make_home()


def listen(
    path: str, mode: int = 0o600, backlog: int | None = 16, kind: int = socket.SOCK_STREAM
) -> socket.socket:
    """Make a socket as systemd does."""
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
        return subprocess.Popen(
            command, env=home.env, stdin=subprocess.DEVNULL, stderr=stream, pass_fds=[descriptor]
        )


def test_a_client_that_connected_before_the_start_is_answered_and_the_socket_stays(
    own: Home,
) -> None:
    with listen(own.socket_path) as sock, Client(own.socket_path, WAIT_S) as client:
        process = start(own, sock.fileno())
        assert client.call("ping")["pid"] == process.pid
        second = start(own, sock.fileno())
        assert second.wait(WAIT_S) == 6
        log = own.log.read_text()
        assert f"already running, as process {process.pid}" in log
        assert "→" in log
        assert "Traceback" not in log
        process.terminate()
        assert process.wait(WAIT_S) == 0
        assert Path(own.socket_path).is_socket()


def test_anything_but_one_private_listening_socket_is_refused_with_the_reason(
    own: Home,
) -> None:
    folder = own.folder / "sockets"
    with contextlib.ExitStack() as open_:

        def make(name: str, **options: int | None) -> tuple[int, str]:
            # type: ignore[arg-type]
            sock = open_.enter_context(listen(str(folder / name), **options))
            return sock.fileno(), str(folder / name)

        good, path = make("good")
        cases: list[tuple[tuple[int, str], dict[str, str], str]] = [
            *[
                (make(f"{mode:o}", mode=mode), {}, f"mode {mode:04o}")
                for mode in (0o660, 0o666, 0o604)
            ],
            (make("deaf", backlog=None), {}, "Unix stream socket that listens"),
            (make("datagrams", backlog=None, kind=socket.SOCK_DGRAM), {}, "no Unix stream socket"),
            ((open_.enter_context(own.config.open()).fileno(), path), {}, "is no socket"),
            ((good, path), {"LISTEN_FDS": "2"}, "LISTEN_FDS=2"),
            ((good, path), {"LISTEN_FDS": "many"}, "LISTEN_FDS=many"),
            ((good, path), {"LISTEN_FDNAMES": "web"}, "LISTEN_FDNAMES=web"),
            ((good, path), {"LISTEN_FDNAMES": "memsyncd:web"}, "LISTEN_FDNAMES=memsyncd:web"),
            # Clients use another path: the error names both.
            ((good, f"{path}-elsewhere"), {}, f"{path}-elsewhere"),
            ((good, f"{path}-elsewhere"), {}, f"is at '{path}'"),
            ((good, path), {"LISTEN_PID": "1"}, "nothing is inherited"),
            ((good, path), {"LISTEN_FDS": "0"}, "nothing is inherited"),
        ]
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                INHERIT,
                json.dumps(
                    [[*place, words] for place, words, _ in [*cases, ((good, path), {}, "")]]
                ),
            ],
            env=own.env,
            pass_fds=sorted({place[0] for place, _, _ in cases}),
            stdout=subprocess.PIPE,
            check=True,
            timeout=WAIT_S,
        )
    *results, accepted = json.loads(done.stdout)
    assert accepted is None
    for (_, words, message), answer in zip(cases, results, strict=True):
        assert message in answer, words
        assert answer.endswith("→") or answer == message


def is_listening(path: str) -> bool:
    """The file alone is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def test_a_socket_for_another_process_is_not_used(own: Home) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        process = start(own, sock.fileno(), "LISTEN_PID=1")
        wait_until(
            lambda: is_listening(own.socket_path) or process.poll() is not None,
            "it did not listen",
            limit_s=WAIT_S,
        )
        with Client(own.socket_path, WAIT_S) as client:
            assert client.call("ping")["pid"] == process.pid
        process.terminate()
        assert process.wait(WAIT_S) == 0
        assert not Path(own.socket_path).exists()
