"""Many hostile clients attack a daemon at once: others are served, and memory stays bounded."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import MemsyncdError, NotFresh
from tests.daemon.conftest import Place, wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

N_SILENT = 500
MISCHIEF_S = 3.0
# The pause between two of a kind: they share an interpreter with the measured client.
PAUSE_S = 0.02
# A guard. The promise is 50 ms on an idle machine.
ANSWER_S = 15.0
GROWTH_LIMIT_BYTES = 60 * 1024 * 1024
WAIT_S = 45.0


@pytest.fixture(scope="module")
def daemon(home: Home) -> Iterator[Daemon]:
    """A daemon with a short limit for unfinished lines, so that a test can reach it."""
    home.config.write_text("[socket]\nline_timeout_s = 1\n")
    daemon = home.start()
    yield daemon
    assert daemon.stop() == 0, home.read_log()


@pytest.fixture(scope="module")
def quiet(home: Home, daemon: Daemon) -> Iterator[Place]:
    """A daemon for all requests that are refused or end at once."""
    root = home.make_folder()
    (root / "MEMORY.md").write_text("# Memory\n\nkeepsake of the first hour\n")
    place = Place(home, daemon, root)
    yield place
    place.close()


def request(method: str, **params: object) -> bytes:
    return (
        json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode() + b"\n"
    )


def connect(place: Place) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(WAIT_S)
    try:
        sock.connect(place.home.socket_path)
    except OSError:
        sock.close()
        raise
    return sock


def be_silent(place: Place, is_over: threading.Event) -> None:
    with contextlib.ExitStack() as socks:
        for _ in range(N_SILENT):
            sock = socks.enter_context(socket.socket(socket.AF_UNIX))
            sock.setblocking(False)  # noqa: FBT003 - as the standard library has it
            with contextlib.suppress(BlockingIOError):
                sock.connect(place.home.socket_path)
        is_over.wait(MISCHIEF_S)


def write_a_byte_at_a_time(place: Place, is_over: threading.Event) -> None:
    while not is_over.is_set():
        with connect(place) as sock:
            for byte in request("status"):
                if is_over.wait(0.2):
                    return
                sock.send(bytes([byte]))


def never_end_a_line(place: Place, is_over: threading.Event) -> None:
    while not is_over.is_set():
        with connect(place) as sock:
            sock.sendall(b"x" * 10_000_000)
            sock.recv(4096)
        is_over.wait(PAUSE_S)


def never_read(place: Place, is_over: threading.Event) -> None:
    with connect(place) as sock:
        sock.settimeout(0.2)
        while not is_over.is_set():
            with contextlib.suppress(TimeoutError):
                sock.sendall(request("rpc.discover") * 20)


def leave_in_mid_query(place: Place, is_over: threading.Event) -> None:
    while not is_over.is_set():
        with connect(place) as sock:
            sock.sendall(request("search", query="bystander", wait="disk") * 10)
        is_over.wait(PAUSE_S)


def nest_deeply(place: Place, is_over: threading.Event) -> None:
    flood(place, is_over, b'{"id":1,"params":' + b"[" * 1_000_000 + b"\n")


def send_invalid_numbers(place: Place, is_over: threading.Event) -> None:
    flood(
        place,
        is_over,
        b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"x","min_score":NaN,"limit":1e999}}\n',
    )


def send_duplicate_keys(place: Place, is_over: threading.Event) -> None:
    flood(
        place,
        is_over,
        b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2,"method":"nothing","params":{},"params":[]}\n',
    )


def throw_bombs(place: Place, is_over: threading.Event) -> None:
    """Send a huge query repeatedly; the daemon shortens it and answers, or refuses it by name."""
    bomb = request("search", query=" OR ".join(["a*"] * 100_000))
    with connect(place) as sock, sock.makefile("rb") as answers:
        while not is_over.wait(PAUSE_S):
            sock.sendall(bomb)
            reply = json.loads(answers.readline())
            assert "result" in reply or reply["error"]["data"]["code"], reply


def flood(place: Place, is_over: threading.Event, line: bytes) -> None:
    """Send this repeatedly; the daemon must refuse it by name each time."""
    with connect(place) as sock, sock.makefile("rb") as answers:
        while not is_over.wait(PAUSE_S):
            sock.sendall(line)
            error = json.loads(answers.readline())["error"]
            assert error["data"]["code"]
            assert "Traceback" not in error["message"]


HOSTILE_ACTIONS: list[Callable[[Any, threading.Event], None]] = [
    write_a_byte_at_a_time,
    never_end_a_line,
    never_read,
    leave_in_mid_query,
    nest_deeply,
    send_invalid_numbers,
    send_duplicate_keys,
    throw_bombs,
    be_silent,
]


class HostileThread(threading.Thread):
    """A hostile thread. The daemon may disconnect or refuse it."""

    def __init__(
        self, action: Callable[[Any, threading.Event], None], place: Place, is_over: threading.Event
    ) -> None:
        super().__init__(name=action.__name__)
        self._action, self._place, self._is_over = action, place, is_over
        self.failure: Exception | None = None

    def run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._action(self._place, self._is_over)
            except (OSError, json.JSONDecodeError):
                self._is_over.wait(0.05)
            except Exception as failure:  # noqa: BLE001 - told where the test is
                self.failure = failure
                return


def test_other_clients_are_served_during_hostile_requests(place: Place) -> None:
    before = place.client.call("status")
    is_over = threading.Event()
    hostile_threads = [HostileThread(action, place, is_over) for action in HOSTILE_ACTIONS]
    for thread in hostile_threads:
        thread.start()
    slowest_s, n_answers, began_s = 0.0, 0, time.monotonic()
    try:
        while time.monotonic() - began_s < MISCHIEF_S or n_answers <= 10:
            requested_s = time.monotonic()
            assert place.find("bystander") == {".memories/context.md"}
            slowest_s = max(slowest_s, time.monotonic() - requested_s)
            n_answers += 1
        (place.root / "MEMORY.md").write_text("larch\n")
        place.wait_found("larch", "MEMORY.md")
    finally:
        is_over.set()
        for thread in hostile_threads:
            thread.join()
    assert [thread.failure for thread in hostile_threads if thread.failure] == []
    assert slowest_s < ANSWER_S
    wait_until(
        lambda: place.client.call("status")["clients"] == before["clients"],
        "clients that left are still counted",
    )
    after = place.client.call("status")
    assert after["rss_bytes"] < before["rss_bytes"] + GROWTH_LIMIT_BYTES
    assert after["workspaces"][0]["state"] == "ready"
    log = place.home.log.read_text()
    assert "Traceback" not in log
    assert "client_dropped" in log


@pytest.mark.parametrize(
    "query",
    [
        " OR ".join(["a*"] * 100_000),
        '"' * 100_000,
        "(" * 100_000,
        "NEAR(" * 50_000,
        "-" * 200_000,
        "a* " * 341,
        '"a b" ' * 170,
    ],
    ids=lambda query: query[:4],
)
def test_an_expensive_query_ends_at_once(quiet: Place, query: str) -> None:
    began_s = time.monotonic()
    try:
        quiet.client.call("search", query=query, workspace=quiet.id)
    except MemsyncdError as failure:
        assert failure.code == "too_large"  # noqa: PT017 - a bomb that is short enough is a query
    assert time.monotonic() - began_s < ANSWER_S


LONG = "x" * 1_000_000
STARS = ["*a" * 16 + str(number) for number in range(1000)]
COSTLY: dict[str, bytes] = {
    "globs to subscribe to": request("subscribe", paths=STARS),
    "globs to index": request("workspace.add", path="/nowhere", include=STARS),
    "a glob of stars": request("search", query="bystander", filters={"path": ["*a" * 500]}),
    "an anchor": request("get", anchor=f"MEMORY.md#{LONG}"),
    "a heading": request("search", query="bystander", filters={"section": ["a/" * 4000] * 32}),
    "a kind": request("search", query="bystander", filters={"kind": [LONG]}),
    "tags": request("search", query="bystander", filters={"tag": ["t"] * 10_000}),
    "a workspace": request("status", workspace=LONG),
    "a digest": request("memory", command="delete", path="/memories/none.md", if_digest=LONG),
    "what a history is asked for": request("history", path=LONG),
    "what to forget": request("history.purge", containing=LONG),
    "a batch": b"[" + b",".join([b'{"jsonrpc":"2.0","id":1,"method":"ping"}'] * 10_000) + b"]\n",
    "depth": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 300_000 + b"\n",
    "a number": b'{"jsonrpc":"2.0","id":1,"method":"search","params":{"query":"a","limit":'
    + b"9" * 100_000
    + b"}}\n",
    "keys": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{'
    + b",".join(b'"k%d":1' % n for n in range(100_000))
    + b"}}\n",
}


@pytest.mark.parametrize("line", COSTLY.values(), ids=COSTLY)
def test_an_expensive_request_is_refused_at_once_in_a_short_answer(
    quiet: Place, line: bytes
) -> None:
    with connect(quiet) as sock, sock.makefile("rb") as answers:
        began_s = time.monotonic()
        sock.sendall(line)
        answer = answers.readline()
        assert json.loads(answer)["error"]["data"]["code"] in {
            "bad_request",
            "too_large",
            "workspace_not_found",
        }
        assert time.monotonic() - began_s < ANSWER_S
        assert len(answer) < 4096
        sock.sendall(request("ping"))
        assert json.loads(answers.readline())["result"]["name"] == "memsyncd"


N_HEAVY, N_PIPELINED, N_CROWD_NOTES = 30, 60, 200
# In order of arrival it would take most of a minute.
CROWD_GUARD_S = 20.0
HEAVY = request("search", query=" ".join(f"{a}{b}*" for a in "abcdef" for b in "aeio"), limit=100)


@pytest.fixture(scope="module")
def large(home: Home, daemon: Daemon) -> Iterator[Place]:
    """Enough chunks for a search to take some time."""
    root = home.make_folder()
    (root / ".memories").mkdir()
    syllables = [a + b for a in "abcdef" for b in "aeio"]
    words = [first + second for first in syllables for second in syllables]
    for number in range(N_CROWD_NOTES):
        text = "\n\n".join(
            f"## Part {at}\n\n" + " ".join(words[(number + at) % 60 :: 7]) for at in range(8)
        )
        (root / ".memories" / f"n{number}.md").write_text(f"# Note {number}\n\n{text}\n")
    (root / "MEMORY.md").write_text("keepsake\n")
    place = Place(home, daemon, root)
    yield place
    place.close()


@pytest.mark.timeout(300)
def test_clients_that_pipeline_heavy_searches_without_reading_do_not_delay_another_client(
    large: Place,
) -> None:
    line = HEAVY.replace(b'"params": {', b'"params": {"workspace": "%s", ' % large.id.encode())
    with contextlib.ExitStack() as socks:
        for _ in range(N_HEAVY):
            socks.enter_context(connect(large)).sendall(line * N_PIPELINED)
        began_s = time.monotonic()
        for timeout_ms in (None, 500, None, 500):
            with contextlib.suppress(NotFresh), large.daemon.client() as client:
                client.call("search", query="keepsake", workspace=large.id, timeout_ms=timeout_ms)
        assert time.monotonic() - began_s < CROWD_GUARD_S
        # Most were overdue before their turn: they too are answered, and at once.
        wait_until(lambda: count_timeouts(large) > N_HEAVY, "overdue searches are not answered")
    wait_until(
        lambda: not large.client.call("metrics")["queue"]["in_threads"],
        "reads of clients that left go on",
    )


def count_timeouts(place: Place) -> int:
    requests = place.client.call("metrics")["requests"]
    methods = {request["method"]: request for request in requests}
    return int(methods["search"]["failed_total"].get("timeout", 0))


def test_a_new_client_beside_two_hundred_idle_and_half_sent_connections_is_answered(
    quiet: Place,
) -> None:
    with contextlib.ExitStack() as socks:
        for number in range(200):
            sock = socks.enter_context(socket.socket(socket.AF_UNIX))
            sock.connect(
                quiet.home.socket_path
            )  # it waits while the queue is full; with a time limit it would not
            sock.sendall((request("ping"), b'{"id', b"")[number % 3])
        began_s = time.monotonic()
        with quiet.daemon.client() as client:
            assert client.call("ping")["name"] == "memsyncd"
        assert time.monotonic() - began_s < ANSWER_S
