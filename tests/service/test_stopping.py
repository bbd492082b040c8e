"""It stops in order and within what is promised, whatever it is at: indexing, rebuilding, comparing, answering many clients."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.service.conftest import wait_until

if TYPE_CHECKING:
    from tests.service.conftest import Manager

STOP_S = 5.0
N_NOTES, N_LINES, N_CLIENTS = 3000, 60, 64
WORDS = [f"{first}{second}" for first in ("lar", "oa", "bir", "ald", "ash", "elm", "fir") for second in "abcdefghijklmnop"]


@pytest.fixture(scope="module")
def many(manager: Manager) -> Iterator[Path]:
    """A folder whose first index takes much longer than anybody would wait for a stop."""
    chance = random.Random(7)
    root = manager.folder / "many"
    for number in range(N_NOTES):
        note = root / ".memories" / f"{number % 50}" / f"{number}.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        lines = (" ".join(chance.choices(WORDS, k=12)) + ("\n" if line % 4 else f"\n\n## {line}\n") for line in range(N_LINES))
        note.write_text(f"# Note {number}\n\n{''.join(lines)}")
    yield root
    shutil.rmtree(root)


@contextlib.contextmanager
def connect_many(user: Manager) -> Iterator[list[socket.socket]]:
    """As many clients as the daemon takes."""
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(N_CLIENTS):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(user.socket_path))
            clients.append(client)
        yield clients


def ask(client: socket.socket, *, method: str, **params: object) -> None:
    client.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")


def read_state(user: Manager) -> str:
    """How the workspace is, `indexing` while much is still to be read."""
    told = json.loads(user.memsyncd("status", "--json", "-w", "many").stdout)
    return str(told["workspaces"][0]["state"])


def stop(user: Manager) -> None:
    """Stop it as systemd does, and see that it ended in time, by itself and in order."""
    began_s = time.monotonic()
    assert user.do("systemctl", "--user", "stop", "memsyncd").returncode == 0
    assert time.monotonic() - began_s < STOP_S
    assert (user.show("Result"), user.show("ExecMainStatus")) == ("success", "0")
    assert not user.socket_path.exists()


def index(user: Manager, root: Path) -> None:
    assert user.memsyncd("service", "install").returncode == 0
    assert user.memsyncd("add", str(root)).returncode == 0


def test_while_a_first_index_runs_with_as_many_clients_as_may_connect(user: Manager, many: Path) -> None:
    index(user, many)
    with connect_many(user) as clients:
        for client in clients:
            ask(client, method="search", query="lara", workspace="*", wait="disk", timeout_ms=60_000)
        wait_until(lambda: "; indexing " in user.show("StatusText"), user.log.read_text)
        stop(user)
    # What was read so far is there, and the rest follows.
    assert user.memsyncd("start").returncode == 0
    wait_until(lambda: read_state(user) == "ready", user.log.read_text)
    found = json.loads(user.memsyncd("status", "--json", "-w", "many").stdout)
    assert found["workspaces"][0]["files"] == N_NOTES


@pytest.mark.soak
def test_while_it_is_at_something_long_for_each_client(user: Manager, many: Path) -> None:
    long: list[dict[str, object]] = [
        {"method": "sync", "rebuild": True},
        {"method": "doctor", "verify": True},
        {"method": "search", "query": " ".join(WORDS[:30]), "limit": 50, "explain": True, "timeout_ms": 30_000},
    ]
    index(user, many)
    wait_until(lambda: read_state(user) == "ready", user.log.read_text)
    workspace = json.loads(user.memsyncd("status", "--json", "-w", "many").stdout)["workspaces"][0]["id"]
    with connect_many(user) as clients:
        for client, params in zip(clients, itertools.cycle(long), strict=False):
            for _ in range(8):
                ask(client, workspace=workspace, **params)
        stop(user)
    assert user.memsyncd("start").returncode == 0
    assert user.memsyncd("doctor", "many").returncode == 0
