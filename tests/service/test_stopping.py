"""The daemon stops cleanly during any work: indexing, rebuilding, comparing, answering clients."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Client
from tests.service.conftest import WAIT_S, wait_until

if TYPE_CHECKING:
    from tests.service.conftest import Manager

N_NOTES, N_TEXTS, N_LINES, N_CLIENTS = 1500, 20, 60, 64
WORDS = [
    f"{first}{second}"
    for first in ("lar", "oa", "bir", "ald", "ash", "elm", "fir")
    for second in "abcdefghijklmnop"
]


@pytest.fixture(scope="module")
def many(manager: Manager) -> Iterator[Path]:
    """A folder whose first index takes much longer than a stop may take."""
    chance = random.Random(7)
    root = manager.folder / "many"
    texts = [
        "".join(
            " ".join(chance.choices(WORDS, k=12)) + ("\n" if line % 4 else f"\n\n## {line}\n")
            for line in range(N_LINES)
        )
        for _ in range(N_TEXTS)
    ]
    for number in range(N_NOTES):
        note = root / ".memories" / f"{number % 50}" / f"{number}.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"# Note {number}\n\n{texts[number % N_TEXTS]}")
    yield root
    shutil.rmtree(root)


@contextlib.contextmanager
def connect_many(user: Manager) -> Iterator[list[socket.socket]]:
    """Connect as many clients as the daemon accepts."""
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(N_CLIENTS):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(user.socket_path))
            clients.append(client)
        yield clients


def ask(client: socket.socket, *, method: str, **params: object) -> None:
    client.sendall(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
    )


def read_indexed(user: Manager) -> tuple[str, int]:
    """Wait until all notes on the disk are scanned and a rebuilt index is in its place. Return the
    state and the number of notes of the workspace.
    """
    with Client(str(user.socket_path), WAIT_S) as client:
        client.call("sync", workspace="many", timeout_ms=int(WAIT_S * 1000))

        def report() -> dict[str, Any]:
            (reported,) = client.call("status", workspace="many")["workspaces"]
            return dict(reported)

        wait_until(lambda: report()["state"] != "indexing", user.log.read_text)
        reported = report()
    return reported["state"], reported["files"]


def stop(user: Manager) -> None:
    """Stop the service by systemd, which would kill it after a while. Check that it ended cleanly
    and was not killed.
    """
    assert user.do("systemctl", "--user", "stop", "memsyncd").returncode == 0
    assert (user.show("Result"), user.show("ExecMainStatus")) == ("success", "0")
    assert not user.socket_path.exists()


def index(user: Manager, root: Path) -> None:
    assert user.memsyncd("service", "install").returncode == 0
    assert user.memsyncd("add", str(root)).returncode == 0


def test_the_daemon_stops_during_a_first_index_with_all_clients_connected(
    user: Manager, many: Path
) -> None:
    index(user, many)
    with connect_many(user) as clients:
        for client in clients:
            ask(
                client, method="search", query="lara", workspace="*", wait="disk", timeout_ms=60_000
            )
        wait_until(lambda: "; indexing " in user.show("StatusText"), user.log.read_text)
        stop(user)
    # The notes read so far are indexed, and the rest follows.
    assert user.memsyncd("start").returncode == 0
    assert read_indexed(user) == ("ready", N_NOTES)


@pytest.mark.soak
def test_the_daemon_stops_during_long_requests_of_each_client(user: Manager, many: Path) -> None:
    long: list[dict[str, object]] = [
        {"method": "sync", "rebuild": True},
        {"method": "doctor", "verify": True},
        {
            "method": "search",
            "query": " ".join(WORDS[:30]),
            "limit": 50,
            "explain": True,
            "timeout_ms": 30_000,
        },
    ]
    index(user, many)
    assert read_indexed(user) == ("ready", N_NOTES)
    workspace = json.loads(user.memsyncd("status", "--json", "-w", "many").stdout)["workspaces"][0][
        "id"
    ]
    with connect_many(user) as clients:
        for client, params in zip(clients, itertools.cycle(long), strict=False):
            for _ in range(8):
                ask(client, workspace=workspace, **params)
        stop(user)
    assert user.memsyncd("start").returncode == 0
    assert user.memsyncd("doctor", "many").returncode == 0
