"""Requests, sessions and the stop of a server on a real socket."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from memsyncd.operations.fields import Params
from memsyncd.operations.status.declare import Pong
from memsyncd.server.server import Connection
from memsyncd.server.session import Limits, Session
from memsyncd.store import connection as connection_module
from memsyncd.store.connection import CancellationToken, pause_if_long

PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
AS_NOBODY = """
import os, socket, sys
os.setgid(65534), os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(10)
sock.connect(sys.argv[1])
try:
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n')
    print(repr(sock.recv(100)))
except (BrokenPipeError, ConnectionResetError):
    print(repr(b""))
"""


@pytest.mark.timeout(300)
def test_a_long_read_pauses_from_a_request_until_its_answer_is_sent(
    serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_PAUSE_S", 200.0)
    reading: list[Future[None]] = []
    were_done: list[bool] = []
    flush = Connection._flush

    def flush_after_a_while(connection: Connection) -> None:
        were_done.append(bool(wait(reading, timeout=0.05).done))
        flush(connection)

    async def scenario() -> None:
        async with serve() as serving:
            ping = serving.handlers.ping

            def ping_and_read(session: Session, params: Params) -> Pong:
                long = CancellationToken(is_long=True)
                reading.append(threads.submit(long.run, pause_if_long))
                return ping(session, params)

            serving.handlers.ping = ping_and_read
            client = await serving.connect()
            monkeypatch.setattr(Connection, "_flush", flush_after_a_while)
            assert (await client.ask("ping"))["id"] == 1
            reading[0].result()
            monkeypatch.setattr(Connection, "_flush", flush)

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(scenario())
    assert were_done == [False]


async def test_many_requests_at_once_are_all_answered_in_order(serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        client.write(b"".join(PING % n for n in range(4000)))
        assert [(await client.read())["id"] for _ in range(4000)] == list(range(4000))


async def test_a_client_with_very_many_requests_does_not_delay_others(serve) -> None:
    async with serve() as serving:
        flood, other = await serving.connect(), await serving.connect()
        flood.write(b"".join(PING % n for n in range(20_000)))
        await flood.read()
        await other.ask("ping")
        assert serving.server.counters.requests < 15_000


async def test_a_notification_is_executed_and_not_answered(serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        client.send("status", None)
        client.send("nothing", None)
        assert (await client.ask("ping", 5))["id"] == 5
        assert serving.errors == [("ValueError", "status")]
        assert serving.server.counters.failed_requests == 2


async def test_a_batch_is_answered_in_one_line_when_all_its_calls_are_done(
    serve, wait_until
) -> None:
    async with serve() as serving:
        client = await serving.connect()
        parts = [("ping", 1), ("search", 2), ("get", 3)]
        batch = [
            {
                "jsonrpc": "2.0",
                "id": n,
                "method": name,
                "params": {"query": "x"} if n == 2 else {},
            }
            for name, n in parts
        ]
        client.write([*batch, {"jsonrpc": "2.0", "method": "ping"}, 1])
        await wait_until(lambda: serving.handlers.started)
        assert (await client.ask("ping", 9))["id"] == 9
        serving.handlers.gate.set()
        answers = await client.read()
        assert {answer["id"]: "error" in answer for answer in answers} == {
            1: False,
            2: False,
            3: True,
            None: True,
        }


async def test_a_batch_of_notifications_is_not_answered(serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        client.write(
            [{"jsonrpc": "2.0", "method": "ping"}, {"jsonrpc": "2.0", "method": "problems"}]
        )
        assert (await client.ask("ping", 5))["id"] == 5


@pytest.mark.parametrize("method", ["status", "problems", "list"])
async def test_an_internal_error_is_reported_to_the_daemon_and_hidden_from_the_client(
    serve, method: str
) -> None:
    async with serve() as serving:
        client = await serving.connect()
        answer = await client.ask(method)
        assert answer["error"] == {
            "code": -32603,
            "message": "internal error",
            "data": {"code": "internal", "hint": "see the daemon's log"},
        }
        assert [name for _, name in serving.errors] == [method]
        assert "result" in await client.ask("ping")


async def test_a_named_error_is_answered_with_its_hint(serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        answer = await client.ask("get")
        assert answer["error"]["data"] == {
            "code": "conflict",
            "hint": "read it again",
            "digest": "aa",
        }
        assert serving.errors == []


async def test_a_last_line_without_its_newline_is_answered_before_the_end(serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        client.send("search", 1, query="x")
        client.write((PING % 2).strip())
        client.writer.write_eof()
        assert (await client.read())["id"] == 2
        serving.handlers.gate.set()
        assert (await client.read())["id"] == 1
        assert await client.read_to_end() == b""


async def test_a_subscriber_that_ended_its_side_still_gets_notifications(
    serve, make_changed
) -> None:
    async with serve() as serving:
        client = await serving.connect()
        client.send("subscribe")
        client.writer.write_eof()
        assert (await client.read())["result"]["subscription"] == "s"
        assert serving.handlers.sessions[0].notify("changed", make_changed())
        assert (await client.read())["method"] == "changed"


async def test_the_running_requests_of_a_disconnected_client_are_cancelled(
    serve, wait_until
) -> None:
    async with serve(Limits(max_running=2)) as serving:
        client = await serving.connect()
        for n in range(4):
            client.send("search", n, query="x")
        client.send("subscribe", 9)
        assert (await client.read())["id"] == 9
        client.close()
        await wait_until(lambda: not serving.server.n_clients)
        await wait_until(lambda: serving.handlers.cancelled == 2)
        # A request counts as running until its task has ended, one turn of the loop later.
        await wait_until(lambda: not serving.server.n_running)
        assert (serving.handlers.started, serving.errors) == (2, [])
        assert serving.handlers.notified == ["closed 1"]
        assert not serving.handlers.sessions[0].is_open
        serving.handlers.sessions[0].on_close(lambda: serving.handlers.notified.append("late"))
        assert serving.handlers.notified[-1] == "late"


async def test_a_close_callback_that_raises_does_not_keep_the_others_from_running(
    serve, wait_until
) -> None:
    def fail() -> None:
        raise RuntimeError

    async with serve() as serving:
        client = await serving.connect()
        await client.ask("subscribe")
        serving.handlers.sessions[0].on_close(fail)
        client.close()
        await wait_until(lambda: serving.handlers.notified)
        assert serving.errors == [("RuntimeError", "close")]


async def test_stop_lets_running_requests_finish_and_refuses_new_ones(serve, wait_until) -> None:
    async with serve(Limits(max_running=1)) as serving:
        client = await serving.connect()
        client.send("search", 1, query="x")
        client.send("search", 2, query="waits for its turn")
        await wait_until(lambda: serving.handlers.started)
        stopping = asyncio.create_task(serving.server.stop(grace_s=10))
        assert find_code(await client.read(), 2) == "shutting_down"
        assert find_code(await client.ask("ping", 3), 3) == "shutting_down"
        serving.handlers.gate.set()
        assert "result" in await client.read()
        assert await client.read_to_end() == b""
        await stopping
        assert not serving.server.n_clients


async def test_stop_refuses_requests_that_do_not_finish_in_time(serve, wait_until) -> None:
    async with serve() as serving:
        client = await serving.connect()
        client.send("search", 1, query="x")
        await wait_until(lambda: serving.handlers.started)
        await serving.server.stop(grace_s=0.01)
        assert find_code(await client.read(), 1) == "shutting_down"
        assert await client.read_to_end() == b""


def find_code(answer: dict, request_id: object) -> str:
    assert answer["id"] == request_id
    return answer["error"]["data"]["code"]


async def test_stop_does_not_wait_for_a_client_that_does_not_read(serve, wait_until) -> None:
    async with serve() as serving:
        serving.handlers.reply_chars = 3_000_000
        sock = serving.connect_plainly()
        sock.send(PING % 1)
        await wait_until(lambda: serving.server.counters.requests)
        await asyncio.wait_for(serving.server.stop(grace_s=0), 5)
        sock.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_connection_of_another_user_is_closed_without_a_byte(serve_at) -> None:
    async def scenario(folder: Path) -> None:
        async with serve_at(folder) as serving:
            serving.path.chmod(0o777)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", AS_NOBODY, str(serving.path), stdout=subprocess.PIPE
            )
            out, _ = await process.communicate()
            assert process.returncode == 0
            assert out.strip() == b"b''"
            assert serving.server.counters.requests == 0
            assert serving.refused == ["it belongs to user 65534"]

    with tempfile.TemporaryDirectory() as folder:  # other users cannot enter pytest's own folders
        Path(folder).chmod(0o755)
        asyncio.run(scenario(Path(folder)))


async def test_a_connection_without_peer_credentials_is_closed_without_a_byte(
    serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_sock: object) -> tuple[int, int]:
        raise OSError(errno.ENOPROTOOPT, "Protocol not available")

    monkeypatch.setattr("memsyncd.server.server.read_peer", refuse)

    async with serve() as serving:
        client = await serving.connect()
        client.write(PING % 1)
        assert await client.read_to_end() == b""
        assert serving.refused == ["the system does not report its user: Protocol not available"]
        assert (serving.server.n_clients, serving.server.counters.requests) == (0, 0)


async def test_lines_of_any_bytes_are_answered_and_raise_nothing(serve) -> None:
    lines = [
        b"\xff\xfe",
        b"{",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":"\\ud800"}',
        b"\0",
        b"null",
        b"GET / HTTP/1.1",
        b"\x1b[2J",
    ]

    async with serve() as serving:
        client = await serving.connect()
        client.write(b"\n".join(lines) + b"\n")
        for _ in lines:
            assert (await client.read())["error"]["code"] in {-32700, -32600}
        assert "result" in await client.ask("ping")
        assert serving.errors == []


async def test_a_notification_is_sent_after_the_answers_that_precede_it(
    serve, make_changed
) -> None:
    async with serve() as serving:
        handlers = serving.handlers
        handlers.ping = lambda session, params: (
            session.notify("changed", make_changed()) and handlers.subscribe(session, params)
        )
        client = await serving.connect()
        client.write(
            (PING % 1 + PING % 2).replace(b'"id":1,"method":"ping"', b'"id":1,"method":"get"')
        )
        message = [await client.read() for _ in range(3)]
        assert [line.get("method", line.get("id")) for line in message] == [1, "changed", 2]
        assert json.dumps(message)


async def test_the_client_with_the_largest_buffer_is_dropped_when_all_buffers_exceed_the_limit(
    serve, wait_until
) -> None:
    async with serve(Limits(max_buffered_bytes=3_000_000)) as serving:
        modest, greedy, other = [await serving.connect() for _ in range(3)]
        for client, n_bytes in ((modest, 300_000), (greedy, 2_000_000), (other, 600_000)):
            client.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"' + b"x" * n_bytes)
        await wait_until(lambda: serving.server.n_buffered_bytes > 2_900_000)
        assert serving.dropped == []
        other.write(b"x" * 300_000)
        assert await greedy.read_to_end() == b""
        assert serving.dropped == [
            "clients leave too much unread or unfinished, and this one the most"
        ]
        for client in (modest, other):
            client.write(b'"}\n')
            assert "result" in await client.read()
        assert serving.server.n_buffered_bytes == 0


async def test_unread_answers_count_as_buffered(serve, wait_until) -> None:
    async with serve(Limits(max_buffered_bytes=3_000_000)) as serving:
        serving.handlers.reply_chars = 1_000_000
        silent = [serving.connect_plainly() for _ in range(12)]
        for sock in silent:
            sock.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        await wait_until(lambda: len(serving.dropped) >= 6)
        assert serving.server.n_buffered_bytes <= 3_000_000
        assert "result" in await (await serving.connect()).ask("ping")
