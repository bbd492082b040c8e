"""The daemon's reports to systemd: a real datagram socket, a real daemon."""

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

WAIT_S = 45.0
STOP_S = 45.0
"""A guard against hanging: on an idle machine it takes less than five seconds."""
WATCHDOG_USEC = "800000"


class NotifyReceiver:
    """Receives notifications as systemd does."""

    def __init__(self, address: str) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(address)
        self._sock.settimeout(WAIT_S)
        self.received: list[dict[str, str]] = []

    def receive(self) -> dict[str, str]:
        """Return the next message, as variables and values."""
        message = self._sock.recv(4096).decode()
        self.received.append(dict(line.split("=", 1) for line in message.split("\n")))
        return self.received[-1]

    def receive_until(self, is_it: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        end_s = time.monotonic() + WAIT_S
        while not is_it(message := self.receive()):
            assert time.monotonic() < end_s, self.received
        return message

    def receive_status(self, text: str) -> None:
        """Receive until this status was sent; it may have been received before."""
        if not any(message.get("STATUS") == text for message in self.received):
            self.receive_until(lambda message: message.get("STATUS") == text)

    def close(self) -> None:
        self._sock.close()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[NotifyReceiver]:
    receiver = NotifyReceiver(str(tmp_path / "n"))
    yield receiver
    receiver.close()


@pytest.fixture
def own(make_home: Callable[[], Home]) -> Home:
    return make_home()


@pytest.fixture
def supervised(
    own: Home, tmp_path: Path, receiver: NotifyReceiver
) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon with one workspace, started as systemd does with a watchdog."""
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


def test_the_daemon_reports_readiness_liveness_and_a_reload(
    own: Home, receiver: NotifyReceiver, supervised: subprocess.Popen[bytes]
) -> None:
    receiver.receive_until(lambda message: "READY" in message)
    with Client(own.socket_path, WAIT_S) as client:
        assert client.call("search", query="larch", workspace="*", wait="disk")["hits"]
    receiver.receive_status("1 workspace, 1 note")
    for _ in range(3):
        receiver.receive_until(lambda message: "WATCHDOG" in message)
    before_usec = time.monotonic_ns() // 1000
    supervised.send_signal(signal.SIGHUP)
    message = receiver.receive_until(lambda message: "RELOADING" in message)
    assert before_usec <= int(message["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    receiver.receive_until(lambda message: "READY" in message)


def test_the_status_names_a_missing_workspace_and_the_stop_is_reported(
    own: Home, receiver: NotifyReceiver, supervised: subprocess.Popen[bytes]
) -> None:
    receiver.receive_status("1 workspace, 1 note")
    (own.folder / "w1" / "proj").rename(own.folder / "elsewhere")
    with Client(own.socket_path, WAIT_S) as client:
        client.call("sync")
        receiver.receive_status("1 workspace, 1 note; missing: trees")
        client.call("subscribe")
        supervised.send_signal(signal.SIGTERM)
        assert supervised.wait(STOP_S) == 0
    receiver.receive_until(lambda message: message == {"STOPPING": "1", "STATUS": "stopping"})


def test_the_status_shows_a_rebuild_while_it_runs(
    own: Home, receiver: NotifyReceiver, supervised: subprocess.Popen[bytes]
) -> None:
    receiver.receive_status("1 workspace, 1 note")
    with Client(own.socket_path, WAIT_S) as client:
        client.call("sync")
        receiver.received.clear()
        client.call("sync", rebuild=True)
        receiver.receive_until(
            lambda message: message.get("STATUS", "").startswith("1 workspace, 1 note; indexing")
        )
        receiver.receive_status("1 workspace, 1 note")


def test_the_status_shows_a_socket_that_clients_cannot_reach(
    own: Home, receiver: NotifyReceiver, supervised: subprocess.Popen[bytes]
) -> None:
    receiver.receive_status("1 workspace, 1 note")
    own.config.write_text(own.config.read_text() + "[sync]\nreconcile_s = 0.2\n")
    supervised.send_signal(signal.SIGHUP)
    receiver.receive_until(lambda message: "RELOADING" in message)
    receiver.receive_until(lambda message: "READY" in message)
    os.unlink(own.socket_path)
    os.mkdir(own.socket_path)
    receiver.receive_until(lambda message: "no new client can connect" in message.get("STATUS", ""))
    os.rmdir(own.socket_path)
    receiver.receive_until(lambda message: message.get("STATUS") == "1 workspace, 1 note")


def test_notifications_reach_an_abstract_address() -> None:
    receiver = NotifyReceiver(f"\0memsyncd-{os.getpid()}")
    supervisor = find_notify_socket({"NOTIFY_SOCKET": f"@memsyncd-{os.getpid()}"}, 1)
    assert supervisor is not None
    supervisor.send(READY=1, STATUS="two\nlines")
    assert receiver.receive() == {"READY": "1", "STATUS": "two lines"}
    receiver.close()


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
def test_the_watchdog_applies_only_to_the_named_process(
    env: dict[str, str], watchdog_s: float | None
) -> None:
    supervisor = find_notify_socket({"NOTIFY_SOCKET": "/n", **env}, 7)
    assert supervisor is not None
    assert supervisor.watchdog_s == watchdog_s


@pytest.mark.parametrize("address", ["", "vsock:2:1", "n"])
def test_an_address_of_another_kind_is_ignored(address: str) -> None:
    assert find_notify_socket({"NOTIFY_SOCKET": address}, 7) is None


def test_a_notification_to_a_missing_socket_raises_nothing(tmp_path: Path) -> None:
    supervisor = find_notify_socket({"NOTIFY_SOCKET": str(tmp_path / "none")}, 7)
    assert supervisor is not None
    supervisor.send(READY=1)
