"""Another user of the machine gets nothing: no connection, no byte, no path that blocks the daemon."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.errors import MemsyncdError
from memsyncd.server.listen import open_socket

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

NOBODY = 65534
ASK = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
try:
    sock.connect(sys.argv[1])
    sock.settimeout(10)
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"status"}\\n')
    print(sock.recv(4096))
except (PermissionError, ConnectionError) as failure:
    print(type(failure).__name__)
"""
# The program is imported first: this Python may be in a folder that other users cannot read.
RUN = """
import os, sys
import memsyncd.cli.daemon, memsyncd.cli.main, memsyncd.daemon.main
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(memsyncd.cli.main.main())
"""

pytestmark = [
    pytest.mark.shared_daemon,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]


def ask_as_nobody(socket_path: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK, socket_path],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.strip()


@contextlib.contextmanager
def open_for_everybody(path: Path, top: Path) -> Iterator[None]:
    modes = {
        place: place.stat().st_mode for place in (path, *path.parents) if place.is_relative_to(top)
    }
    for place in modes:
        place.chmod(0o777)
    yield
    for place, mode in modes.items():
        place.chmod(stat.S_IMODE(mode))


def test_another_user_cannot_reach_the_socket_and_gets_no_byte_if_it_is_opened_to_them(
    place: Place,
) -> None:
    home, n_failed = place.home, place.client.call("status")["failed_requests"]
    assert ask_as_nobody(home.socket_path) == "PermissionError"
    with open_for_everybody(Path(home.socket_path), home.folder):
        assert ask_as_nobody(home.socket_path) in {"b''", "ConnectionResetError", "BrokenPipeError"}
    assert place.client.call("status")["failed_requests"] == n_failed
    assert "client_refused" in home.log.read_text()


def put_folder(path: Path) -> None:
    path.mkdir()
    os.chown(path, NOBODY, NOBODY)


def put_link(path: Path) -> None:
    aside = path.with_name("aside")
    aside.mkdir(mode=0o700)
    path.symlink_to(aside)


def put_file(path: Path) -> None:
    path.write_text("in the way\n")


@pytest.mark.parametrize("put", [put_folder, put_link, put_file], ids=lambda put: put.__name__)
def test_a_socket_folder_of_another_user_is_refused_with_a_remedy(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    path = tmp_path / "run" / "memsyncd.sock"
    put(path.parent)
    with pytest.raises(MemsyncdError) as refused:
        open_socket(str(path))
    assert refused.value.exit_status in {6, 78}
    assert refused.value.hint


def test_a_daemon_of_another_user_in_these_folders_is_refused_and_changes_nothing(
    place: Place,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, "run"],
        env=place.env,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode in {6, 78}, done.stderr
    assert "→" in done.stderr
    assert "Traceback" not in done.stderr
    assert place.client.call("ping")["pid"] == place.daemon.process.pid


LISTEN = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); sock.listen(); print("listens", flush=True)
while True:
    heard = b""
    client = sock.accept()[0]
    while piece := client.recv(4096):
        heard += piece
    print(heard, flush=True)
"""


def test_a_program_of_another_user_at_the_socket_gets_no_request_of_a_client(
    own: Home,
) -> None:
    folder = Path(own.socket_path).parent
    folder.mkdir()
    command = [sys.executable, "-c", LISTEN, own.socket_path]
    with (
        open_for_everybody(folder, own.folder),
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener,
    ):
        assert listener.stdout is not None
        try:
            assert listener.stdout.readline() == "listens\n"
            ask = [sys.executable, "-m", "memsyncd", "remember", "larch"]
            done = subprocess.run(
                ask, env=own.env, cwd="/", capture_output=True, text=True, timeout=30, check=False
            )
            assert listener.stdout.readline() == "b''\n"
        finally:
            listener.kill()
    assert done.returncode == 6
    assert "another user listens" in done.stderr
