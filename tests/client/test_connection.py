from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memsyncd
from memsyncd.client import Client, connect, find_sockets
from memsyncd.errors import (
    BadConfig,
    BadRequest,
    Busy,
    MemsyncdError,
    NoDaemon,
    NotFresh,
    PathRefused,
    WorkspaceNotFound,
)

Script = Callable[[socket.socket], None]
Listen = Callable[[Script], str]


@pytest.fixture
def listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listen]:
    """Listen on a real socket; the script gets the first connection, which is then closed."""
    # No script answers a second connection, which asks for the daemon's version.
    monkeypatch.setattr("memsyncd.client.connection.VERSION_S", 0.01)
    path = str(tmp_path / "d.sock")
    threads: list[threading.Thread] = []
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def start(script: Script) -> str:
        server.bind(path)
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                script(connection)

        threads.append(threading.Thread(target=serve))
        threads[0].start()
        return path

    yield start
    for thread in threads:
        thread.join(60)
    server.close()


def read_request(connection: socket.socket) -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        # Byte by byte, so that the next request stays for the next call.
        line += connection.recv(1)
    request: dict[str, Any] = json.loads(line)
    return request


def answer(connection: socket.socket, *messages: dict[str, Any]) -> None:
    connection.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


def fail_with(**error: Any) -> Script:
    def script(connection: socket.socket) -> None:
        request = read_request(connection)
        answer(connection, {"jsonrpc": "2.0", "id": request["id"], "error": error})

    return script


def test_a_call_sends_one_line_and_returns_the_result(listen: Listen) -> None:
    seen: list[dict[str, Any]] = []

    def script(connection: socket.socket) -> None:
        seen.append(read_request(connection))
        answer(connection, {"jsonrpc": "2.0", "id": 1, "result": {"hits": []}})

    with Client(listen(script), 30) as client:
        assert client.call("search", query="späti\n", workspace=None) == {"hits": []}
    assert seen == [{"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "späti\n"}}]


def test_text_that_is_not_utf8_is_refused_before_sending(listen: Listen) -> None:
    with (
        Client(listen(lambda connection: None), 5) as client,
        pytest.raises(BadRequest, match="UTF-8"),
    ):
        client.call("get", path="a\udcff.md")


def test_an_error_becomes_the_class_of_its_code_with_its_hint_and_data(listen: Listen) -> None:
    data = {"code": "workspace_not_found", "hint": "add it", "near": ["notes"]}
    with (
        Client(listen(fail_with(code=-32001, message="no workspace here", data=data)), 5) as client,
        pytest.raises(WorkspaceNotFound) as caught,
    ):
        client.call("status", workspace="x")
    assert (caught.value.message, caught.value.hint, caught.value.data) == (
        "no workspace here",
        "add it",
        {"near": ["notes"]},
    )


@pytest.mark.parametrize(
    ("error", "kind", "exit_status"),
    [
        ({"code": -32005, "data": {"code": "path_refused"}}, PathRefused, None),
        ({"code": -32600}, BadRequest, 2),
        ({"code": -32601}, BadRequest, 2),
        ({"code": -32602}, BadRequest, 2),
        ({"code": -32603}, MemsyncdError, 70),
    ],
)
def test_an_error_is_raised_by_its_code(
    listen: Listen, error: dict[str, Any], kind: type[MemsyncdError], exit_status: int | None
) -> None:
    with (
        Client(listen(fail_with(message="m", **error)), 5) as client,
        pytest.raises(kind) as caught,
    ):
        client.call("serach")
    assert type(caught.value) is kind
    assert exit_status in (None, caught.value.exit_status)


def test_an_error_without_an_id_answers_the_call_that_waits(listen: Listen) -> None:
    def script(connection: socket.socket) -> None:
        read_request(connection)
        answer(
            connection,
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "not a request"}},
        )

    with Client(listen(script), 30) as client, pytest.raises(BadRequest, match="not a request"):
        client.call("ping")


def test_a_refusal_sent_before_the_daemon_hangs_up_is_still_read(listen: Listen) -> None:
    def script(connection: socket.socket) -> None:
        error = {
            "code": -32006,
            "message": "64 clients are served already",
            "data": {"code": "busy"},
        }
        answer(connection, {"jsonrpc": "2.0", "id": None, "error": error})

    path = listen(script)
    client = Client(path, 30)
    time.sleep(0.1)
    with client, pytest.raises(MemsyncdError, match="64 clients"):
        client.call("ping")


def test_a_closed_connection_is_reported_as_no_daemon(listen: Listen) -> None:
    def script(connection: socket.socket) -> None:
        read_request(connection)

    with Client(listen(script), 30) as client, pytest.raises(NoDaemon, match="closed"):
        client.call("ping")


def test_a_missing_answer_is_not_fresh_after_the_timeout(listen: Listen) -> None:
    release = threading.Event()

    def script(connection: socket.socket) -> None:
        release.wait(60)

    with (
        Client(listen(script), 0.05) as client,
        pytest.raises(NotFresh, match=r"0\.05 s"),
    ):
        client.call("ping")
    release.set()


def test_a_late_answer_is_not_taken_for_the_next_one(listen: Listen) -> None:
    def script(connection: socket.socket) -> None:
        first = read_request(connection)
        second = read_request(connection)
        answer(
            connection,
            {"id": first["id"], "result": {"n": 1}},
            {"id": second["id"], "result": {"n": 2}},
        )

    with Client(listen(script), 30) as client:
        client.send("sync")
        assert client.call("status") == {"n": 2}


def test_notifications_are_kept_while_an_answer_is_awaited(listen: Listen) -> None:
    def script(connection: socket.socket) -> None:
        request = read_request(connection)
        answer(
            connection,
            {"method": "changed", "params": {"generation": 1}},
            {"id": request["id"], "result": {"subscription": "s"}},
            {"method": "changed", "params": {"generation": 2}},
        )

    with Client(listen(script), 30) as client:
        assert client.call("subscribe") == {"subscription": "s"}
        events = client.notifications(timeout_s=30)
        assert [next(events), next(events)] == [
            ("changed", {"generation": 1}),
            ("changed", {"generation": 2}),
        ]
        with pytest.raises(NoDaemon):
            next(events)


@pytest.mark.parametrize("line", [b"HTTP/1.1 400 Bad Request\r\n", b"[]\n", b"\xff\xfe\n", b"12\n"])
def test_an_answer_that_is_not_json_rpc_is_an_error_that_ends_the_connection(
    listen: Listen, line: bytes
) -> None:
    with (
        Client(listen(lambda connection: connection.sendall(line)), 5) as client,
        pytest.raises(MemsyncdError, match="JSON-RPC"),
    ):
        client.call("ping")


def test_without_a_listener_the_error_is_no_daemon_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(NoDaemon) as caught:
        Client(str(tmp_path / "none.sock"))
    assert "memsyncd start" in caught.value.hint


def test_a_stale_socket_is_reported_as_no_daemon(tmp_path: Path) -> None:
    path = str(tmp_path / "stale.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(path)
    with pytest.raises(NoDaemon):
        Client(path)


def test_a_path_too_long_for_a_socket_is_an_exact_error(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="too long"):
        Client(str(tmp_path / ("x" * 200)))


def test_a_full_queue_of_connections_is_busy_after_the_timeout(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "d.sock")
    with socket.socket(socket.AF_UNIX) as server, contextlib.ExitStack() as stack:
        server.bind(path)
        server.listen(1)
        clients = (Client(path, 0.2) for _ in range(10))
        with pytest.raises(Busy):
            _ = [stack.enter_context(client) for client in clients]


def test_connect_tries_the_next_path_if_the_first_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "s"
    run = state / "memsyncd" / "run"
    run.mkdir(parents=True)
    monkeypatch.chdir(run)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("memsyncd.sock")
        server.listen()
        env = {
            "HOME": str(tmp_path),
            "XDG_STATE_HOME": str(state),
            "XDG_RUNTIME_DIR": str(tmp_path / "none"),
        }
        with connect(env=env, timeout_s=30) as client:
            assert client.socket_path == str(run / "memsyncd.sock")


def test_connect_names_the_first_path_if_none_answers(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "r")}
    with pytest.raises(NoDaemon, match=r"/r/memsyncd/memsyncd\.sock"):
        connect(env=env)


def write_config(home: Path, text: str) -> dict[str, str]:
    folder = home / ".config" / "memsyncd"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text)
    return {"HOME": str(home)}


def test_the_socket_of_the_configuration_file_is_the_one(tmp_path: Path) -> None:
    assert find_sockets(write_config(tmp_path, '[socket]\npath = "~/mine.sock"\n')) == (
        f"{tmp_path}/mine.sock",
    )


def test_the_environment_takes_precedence_over_the_configuration_file(tmp_path: Path) -> None:
    env = write_config(tmp_path, '[socket]\npath = "~/mine.sock"\n') | {
        "MEMSYNCD_SOCKET": "/x/env.sock"
    }
    assert find_sockets(env) == ("/x/env.sock",)


@pytest.mark.parametrize(
    "text",
    [
        "[sync]\nenabled = true\n",
        "[socket]\n",
        "[socket\n",
        "socket = 1\n",
        "[socket]\npath = 1\n",
        '[socket]\npath = ""\n',
        '[socket]\npath = "m.sock"\n',
    ],
)
def test_a_configuration_without_a_socket_keeps_the_default_paths(
    tmp_path: Path, text: str
) -> None:
    assert find_sockets(write_config(tmp_path, text))[0].endswith(
        "/.local/state/memsyncd/run/memsyncd.sock"
    )


@given(text=st.text(), cuts=st.lists(st.integers(1, 40), max_size=6))
def test_an_answer_is_read_alike_however_it_is_split(text: str, cuts: list[int]) -> None:
    data = json.dumps({"id": 1, "result": {"text": text}}, ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    ours, theirs = socket.socketpair()
    client = Client.__new__(Client)
    with ours, theirs, pytest.MonkeyPatch.context() as patch:
        patch.setattr("memsyncd.client.connection._open_socket", lambda path, timeout_s: ours)
        client.__init__("pair", 60)  # type: ignore[misc]
        client.send("get")

        def feed() -> None:
            rest = data + b"\n"
            for cut in cuts:
                theirs.sendall(rest[:cut])
                rest = rest[cut:]
            theirs.sendall(rest)

        feeder = threading.Thread(target=feed)
        feeder.start()
        assert client.wait(1, timeout_s=60) == {"text": text}
        feeder.join()


def find_modules_after(statement: str) -> set[str]:
    """Return the top-level modules that a bare interpreter has loaded after the statement."""
    package_home = str(Path(memsyncd.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {package_home!r}); {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_the_client_loads_nothing_slow() -> None:
    slow = {"asyncio", "dataclasses", "inspect", "subprocess", "tomllib", "argparse", "logging"}
    assert not find_modules_after("import memsyncd.client") & slow


def test_a_request_that_is_sent_in_part_is_followed_by_no_other(listen: Listen) -> None:
    received: list[bytes] = []
    has_failed = threading.Event()

    def read_late(connection: socket.socket) -> None:
        has_failed.wait(60)
        while data := connection.recv(65536):
            received.append(data)

    client = Client(listen(read_late), timeout_s=0.2)
    with pytest.raises(NotFresh):
        client.call("note.add", content="x" * 8_000_000)
    has_failed.set()
    with pytest.raises(NoDaemon):
        client.call("ping")
    assert b"ping" not in b"".join(received)
