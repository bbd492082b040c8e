"""What is said to a supervisor, and when: a real datagram socket in systemd's place, a real daemon at the other end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.client import Client
from memsyncd.daemon.systemd import find_notify_socket

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

WAIT_S = 15.0
STOP_S = 15.0
"""A guard: on a machine with nothing else to do it takes less than five seconds."""
WATCHDOG_USEC = "800000"


class Ear:
    """Hears what is said, as systemd would."""

    def __init__(self, address: str) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(address)
        self._sock.settimeout(WAIT_S)
        self.heard: list[dict[str, str]] = []

    def hear(self) -> dict[str, str]:
        """The next message, as variables and values."""
        message = self._sock.recv(4096).decode()
        self.heard.append(dict(line.split("=", 1) for line in message.split("\n")))
        return self.heard[-1]

    def hear_until(self, is_it: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        end_s = time.monotonic() + WAIT_S
        while not is_it(message := self.hear()):
            assert time.monotonic() < end_s, self.heard
        return message

    def hear_status(self, text: str) -> None:
        """Hear on until this was said, be it already."""
        if not any(said.get("STATUS") == text for said in self.heard):
            self.hear_until(lambda said: said.get("STATUS") == text)

    def close(self) -> None:
        self._sock.close()


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    ear = Ear(str(tmp_path / "n"))
    yield ear
    ear.close()


@pytest.fixture
def own(make_home: Callable[[], Home]) -> Home:
    return make_home()


@pytest.fixture
def supervised(own: Home, tmp_path: Path, ear: Ear) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon with one workspace, started as a supervisor would that wants beats; SIGHUP goes on being a reload."""
    root = own.make_folder()
    (root / "MEMORY.md").write_text("# Memory\n\nlarch\n")
    own.config.write_text(f'[[workspace]]\npath = "{root}"\nname = "trees"\n')
    env = own.env | {"NOTIFY_SOCKET": str(tmp_path / "n"), "WATCHDOG_USEC": WATCHDOG_USEC}
    with own.log.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "memsyncd", "run"],
            env=env,
            stdin=subprocess.DEVNULL,
            stderr=stream,
        )
    yield process
    process.kill()
    process.wait()


def test_it_is_ready_once_a_search_is_answered_gives_signs_of_life_and_announces_a_reload(
    own: Home, ear: Ear, supervised: subprocess.Popen[bytes]
) -> None:
    ear.hear_until(lambda said: "READY" in said)
    with Client(own.socket_path, WAIT_S) as client:
        assert client.call("search", query="larch", workspace="*", wait="disk")["hits"]
    ear.hear_status("1 workspace, 1 note")
    for _ in range(3):
        ear.hear_until(lambda said: "WATCHDOG" in said)
    before_usec = time.monotonic_ns() // 1000
    supervised.send_signal(signal.SIGHUP)
    said = ear.hear_until(lambda said: "RELOADING" in said)
    assert before_usec <= int(said["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    ear.hear_until(lambda said: "READY" in said)


def test_a_workspace_that_is_gone_stands_in_the_status_and_stopping_is_said_first_and_does_not_take_long(
    own: Home, ear: Ear, supervised: subprocess.Popen[bytes]
) -> None:
    ear.hear_status("1 workspace, 1 note")
    (own.folder / "w1" / "proj").rename(own.folder / "elsewhere")
    with Client(own.socket_path, WAIT_S) as client:
        client.call("sync")
        ear.hear_status("1 workspace, 1 note; missing: trees")
        client.call("subscribe")
        supervised.send_signal(signal.SIGTERM)
        assert supervised.wait(STOP_S) == 0
    ear.hear_until(lambda said: said == {"STOPPING": "1", "STATUS": "stopping"})


def test_an_index_that_is_made_anew_stands_in_the_status_while_it_is_and_no_longer(
    own: Home, ear: Ear, supervised: subprocess.Popen[bytes]
) -> None:
    ear.hear_status("1 workspace, 1 note")
    with Client(own.socket_path, WAIT_S) as client:
        client.call("sync")
        ear.heard.clear()
        client.call("sync", rebuild=True)
        ear.hear_until(
            lambda said: said.get("STATUS", "").startswith("1 workspace, 1 note; indexing")
        )
        ear.hear_status("1 workspace, 1 note")


def test_a_socket_that_no_client_can_reach_any_more_stands_in_the_status(
    own: Home, ear: Ear, supervised: subprocess.Popen[bytes]
) -> None:
    ear.hear_status("1 workspace, 1 note")
    own.config.write_text(own.config.read_text() + "[sync]\nreconcile_s = 0.2\n")
    supervised.send_signal(signal.SIGHUP)
    ear.hear_until(lambda said: "RELOADING" in said)
    ear.hear_until(lambda said: "READY" in said)
    os.unlink(own.socket_path)
    os.mkdir(own.socket_path)
    ear.hear_until(lambda said: "no new client can connect" in said.get("STATUS", ""))
    os.rmdir(own.socket_path)
    ear.hear_until(lambda said: said.get("STATUS") == "1 workspace, 1 note")


def test_an_abstract_address_is_reached_too() -> None:
    ear = Ear(f"\0memsyncd-{os.getpid()}")
    supervisor = find_notify_socket({"NOTIFY_SOCKET": f"@memsyncd-{os.getpid()}"}, 1)
    assert supervisor is not None
    supervisor.send(READY=1, STATUS="two\nlines")
    assert ear.hear() == {"READY": "1", "STATUS": "two lines"}
    ear.close()


@pytest.mark.parametrize(
    ("env", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "2500000"}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "7"}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_beats_are_wanted_only_of_the_process_that_was_meant(
    env: dict[str, str], watchdog_s: float | None
) -> None:
    supervisor = find_notify_socket({"NOTIFY_SOCKET": "/n", **env}, 7)
    assert supervisor is not None
    assert supervisor.watchdog_s == watchdog_s


@pytest.mark.parametrize("address", ["", "vsock:2:1", "n"])
def test_without_an_address_that_can_be_reached_nobody_supervises(address: str) -> None:
    assert find_notify_socket({"NOTIFY_SOCKET": address}, 7) is None


def test_a_supervisor_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    supervisor = find_notify_socket({"NOTIFY_SOCKET": str(tmp_path / "none")}, 7)
    assert supervisor is not None
    supervisor.send(READY=1)
