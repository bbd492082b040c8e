"""Clients request long work and disconnect: the query threads become free for others."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.daemon.conftest import Place

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

pytestmark = pytest.mark.shared_daemon

N_WORDS = 50_000
# A client sends more requests than may be pending, so the daemon reads from it no more.
N_EACH = 40
LONG_MS = 600_000
BEGINNING = "z" * 30
# The query has all the words thirty times, and FTS5 merges them each time: it takes seconds.
HEAVY = " ".join(f"{BEGINNING[:length]}*" for length in range(3, 31))


def hang_up(sock: socket.socket) -> None:
    sock.close()


def end_and_hang_up(sock: socket.socket) -> None:
    sock.shutdown(socket.SHUT_WR)
    # The daemon notices this end first, while another client is still connected.
    time.sleep(0.3)
    sock.close()


@pytest.fixture(scope="module")
def wordy(home: Home, daemon: Daemon) -> Iterator[Place]:
    """A daemon for all tests, with a note of many words."""
    root = home.make_folder()
    words = [f"{BEGINNING}{number:x}" for number in range(N_WORDS)]
    lines = [" ".join(words[first : first + 8]) for first in range(0, N_WORDS, 8)]
    (root / "MEMORY.md").write_text("\n\n".join(["larch", *lines]))
    place = Place(home, daemon, root)
    yield place
    place.close()


@pytest.mark.parametrize("n_questions", [4, N_EACH])
@pytest.mark.parametrize("leave", [hang_up, end_and_hang_up])
def test_the_query_of_a_disconnected_client_is_cancelled(
    wordy: Place, leave: Callable[[socket.socket], None], n_questions: int
) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(wordy.home.socket_path)
        for number in range(n_questions):
            params = {"query": HEAVY, "workspace": wordy.id, "timeout_ms": LONG_MS}
            request = {"jsonrpc": "2.0", "id": number, "method": "search", "params": params}
            sock.sendall(json.dumps(request).encode() + b"\n")
        leave(sock)
    # The same two threads read this; its client waits for fifteen seconds.
    assert "MEMORY.md" in wordy.notes()
