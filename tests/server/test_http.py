"""HTTP on a real socket: exact answers, refusals that end the connection, and clients that harm."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import h11
import pytest

from memsyncd.protocol.http import MAX_HEAD_BYTES, Access
from memsyncd.server import http as server_http
from memsyncd.server import http_routes
from memsyncd.server.session import Limits

SERVE = Callable[..., contextlib.AbstractAsyncContextManager[Any]]
LIMIT_S = 60
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
JSON = [("Content-Type", "application/json")]


class Browser:
    """A client of HTTP that sends requests framed by h11, or plain bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.framer = h11.Connection(h11.CLIENT)

    async def ask(
        self, verb: str, target: str, headers: Any = (), body: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        length = [("Content-Length", str(len(body)))] if body else []
        head = [("Host", "d"), *length, *headers]
        data = self.framer.send(h11.Request(method=verb, target=target, headers=head)) or b""
        data += (self.framer.send(h11.Data(data=body)) or b"") if body else b""
        self.writer.write(data + (self.framer.send(h11.EndOfMessage()) or b""))
        answer = await self.read()
        if self.framer.our_state is h11.DONE and self.framer.their_state is h11.DONE:
            self.framer.start_next_cycle()
        return answer

    async def read_event(self) -> Any:
        while (event := self.framer.next_event()) is h11.NEED_DATA:
            self.framer.receive_data(await asyncio.wait_for(self.reader.read(65536), LIMIT_S))
        return event

    async def read(self) -> tuple[int, dict[str, str], bytes]:
        event = await self.read_event()
        while isinstance(event, h11.InformationalResponse):
            event = await self.read_event()
        headers = {name.decode(): value.decode() for name, value in event.headers}
        body = b""
        while not isinstance(part := await self.read_event(), h11.EndOfMessage):
            body += part.data
        return event.status_code, headers, body

    async def send(self, data: bytes) -> tuple[int, bytes]:
        """Send bytes; return the status and all bytes until the server closes the connection."""
        self.writer.write(data)
        answer = await asyncio.wait_for(self.reader.read(), LIMIT_S)
        return int(answer.split()[1]) if answer else 0, answer


@contextlib.asynccontextmanager
async def open_browser(serving: Any) -> AsyncIterator[Browser]:
    client = await serving.connect()
    yield Browser(client.reader, client.writer)
    client.close()


async def test_requests_of_one_connection_are_answered_in_turn(serve) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        for _ in range(3):
            status, headers, body = await browser.ask("POST", "/rpc", JSON, PING)
            assert (status, headers["content-type"]) == (200, "application/json")
            assert json.loads(body)["result"]["pid"] == os.getpid()
        assert serving.server.n_clients == 1
        assert [request.method for request in serving.answered] == ["ping"] * 3


async def test_pipelined_requests_are_answered_in_order_and_json_clients_meanwhile(serve) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        head = b"POST /rpc HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n"
        bodies = [b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number for number in range(200)]
        parts = [head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies]
        browser.writer.write(b"".join(parts))
        native = await serving.connect()
        assert (await native.ask("ping"))["result"]["name"] == "memsyncd"
        for number in range(200):
            head = await asyncio.wait_for(browser.reader.readuntil(b"\r\n\r\n"), LIMIT_S)
            length = int(head.split(b"Content-Length: ")[1].split()[0])
            assert json.loads(await browser.reader.readexactly(length))["id"] == number


@pytest.mark.parametrize("n_bytes", [1, 7])
async def test_a_request_may_arrive_in_pieces(serve, n_bytes: int) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        data = (
            b"POST /rpc HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            b"10;x=y\r\n"
            + PING[:16]
            + b"\r\n%x\r\n" % (len(PING) - 16)
            + PING[16:]
            + b"\r\n0\r\n\r\n"
        )
        for start in range(0, len(data), n_bytes):
            browser.writer.write(data[start : start + n_bytes])
            await asyncio.sleep(0)
        status, answer = await browser.send(b"")
        assert status == 200
        assert b'"pid"' in answer


async def test_a_batch_is_one_answer_and_notifications_have_none(serve) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        notice = b'{"jsonrpc":"2.0","method":"ping"}'
        status, _, body = await browser.ask("POST", "/rpc", JSON, b"[%b,%b]" % (PING, notice))
        assert (status, len(json.loads(body))) == (200, 1)
        assert (await browser.ask("POST", "/rpc", JSON, notice))[0] == 204
        assert (await browser.ask("POST", "/rpc", JSON, b"[%b]" % notice))[0] == 204
        for wrong, code in (
            (b"{", -32700),
            (b"[]", -32600),
            (b'{"jsonrpc":"2.0","id":1,"method":"x"}', -32601),
        ):
            status, _, body = await browser.ask("POST", "/rpc", JSON, wrong)
            error = json.loads(body)["error"]
            assert (status, error["code"]) == (200 if code == -32601 else 400, code)


async def test_a_method_that_needs_another_path_is_refused_with_that_path(serve) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        for method, path in (
            ("subscribe", "/v1/events"), ("tools/list", "/mcp"), ("initialize", "/mcp"),
        ):  # fmt: skip
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
            _, _, body = await browser.ask("POST", "/rpc", JSON, json.dumps(call).encode())
            assert path in body.decode(), method


PROBLEMS: list[tuple[str, str, list[tuple[str, str]], int]] = [
    ("GET", "/v1/serach", [], 404),
    ("POST", "/v1/search", JSON, 405),
    ("DELETE", "/rpc", [], 405),
    ("BREW", "/rpc", [], 405),
    ("GET", "/v1/search?query=a&limit=0", [], 400),
    ("GET", "/v1/status", [("Accept", "text/plain")], 406),
    ("GET", "/v1/status", [("Expect", "magic")], 417),
    ("GET", "/v1/status", [("Origin", "http://evil.example")], 403),
    ("POST", "/rpc", [("Content-Type", "text/plain")], 415),
    ("GET", "/v1/get?path=a", [], 409),
    ("GET", "/v1/list", [], 500),
    ("GET", "/v1/status", [], 500),
]


async def test_an_error_is_a_problem_with_our_code_and_the_connection_goes_on(serve) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        for verb, target, headers, status in PROBLEMS:
            actual, head, body = await browser.ask(verb, target, headers)
            assert (actual, head["content-type"]) == (status, "application/problem+json"), target
            problem = json.loads(body)
            assert problem["status"] == status
            assert problem["code"]
            assert problem["hint"]
            assert "the text of a note" not in body.decode()
            assert ("allow" in head) == (status == 405)
            assert serving.answered.pop().code == problem["code"]
            assert not serving.answered
            assert (await browser.ask("POST", "/rpc", JSON, PING))[0] == 200
            serving.answered.clear()


async def test_head_has_the_headers_of_get_and_a_refusal_names_the_verbs(serve) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        _, wanted, page = await browser.ask("GET", "/docs")
        status, headers, body = await browser.ask("HEAD", "/docs")
        assert (status, headers, body) == (200, wanted, b"")
        assert int(headers["content-length"]) == len(page)
        for target, allow in (
            ("/rpc", "POST"),
            ("/v1/get", "GET, HEAD"),
            ("/mcp", "POST, GET, HEAD, DELETE"),
        ):
            status, headers, _ = await browser.ask("OPTIONS", target)
            assert (status, headers["allow"]) == (405, allow)
        assert (await browser.ask("OPTIONS", "/x"))[0] == 404


async def test_a_head_of_events_leaves_no_subscription(serve) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        ended = []
        serving.handlers.unsubscribe = lambda _session, params: ended.append(params.subscription)
        for _ in range(2):
            status, _, body = await browser.ask("HEAD", "/v1/events")
            assert (status, body) == (200, b"")
        assert ended == ["s", "s"]


async def test_http_1_0_is_answered_and_closed(serve) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        status, answer = await browser.send(b"GET /docs HTTP/1.0\r\n\r\n")
        assert status == 200
        assert answer.endswith(b"</details>") or b"<h2>" in answer


HOST = b"Host: d\r\n"
POST = b"POST /rpc HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"


DANGEROUS = [
    (POST + b"Content-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 40\r\n\r\n0\r\n\r\n", 400),
    (POST + b"Content-Length: 40\r\nContent-Length: 41\r\n\r\n" + PING, 400),
    (POST + b"Content-Length: 4x\r\n\r\n" + PING, 400),
    (POST + b"Content-Length: -1\r\n\r\n", 400),
    (POST + b"Content-Length: 9999999999999999999999\r\n\r\n", 400),
    (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    (POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501),
    (POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n0x10\r\n", 400),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcXX", 400),
    (POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n", 400),
    (POST + b"X: a\r\n b\r\nContent-Length: 40\r\n\r\n" + PING, 400),
    (b"GET /docs HTTP/1.1\nHost: d\n\n", 400),
    (b"GET /docs HTTP/1.1\r\nHost: d\n\r\n", 400),
    (b"GET /docs HTTP/1.1\r\nHost: d\r\nX\x00: y\r\n\r\n", 400),
    (b"GET /docs HTTP/1.1\r\n\r\n", 400),
    (b"GET /docs HTTP/1.1\r\nHost: d\r\nHost: e\r\n\r\n", 400),
    (b"GET  /docs HTTP/1.1\r\nHost: d\r\n\r\n", 400),
    (b"GET /docs\r\n\r\n", 400),
    (b"GET /docs HTTP/9.9\r\nHost: d\r\n\r\n", 505),
    (b"GET d:80 HTTP/1.1\r\nHost: d\r\n\r\n", 400),
    (b"CONNECT d:80 HTTP/1.1\r\nHost: d\r\n\r\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"GET /docs HTTP/1.1\r\nHost: d\r\nX: " + b"y" * MAX_HEAD_BYTES, 431),
    (b"GET /" + b"y" * 2 * MAX_HEAD_BYTES, 431),
    (POST + b"Content-Length: 8192\r\n\r\n", 413),
    (POST + b"Content-Length: 8192\r\nExpect: 100-continue\r\n\r\n", 413),
    (POST + b"Transfer-Encoding: chunked\r\n\r\n1001\r\n" + b" " * 4097, 413),
]  # fmt: skip


async def test_a_dangerous_request_is_refused_once_and_the_connection_closed(serve) -> None:
    smuggled = b"\r\nGET /docs HTTP/1.1\r\nHost: d\r\n\r\n"

    async with serve(Limits(max_line_bytes=4096)) as serving:
        for data, status in DANGEROUS:
            async with open_browser(serving) as browser:
                actual, answer = await browser.send(data + smuggled)
            assert actual == status, answer
            assert answer.count(b"HTTP/1.1 ") == 1, data
            assert b"100 Continue" not in answer
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"Connection: close" in head
            assert json.loads(body)["hint"]
            assert (await (await serving.connect()).ask("ping"))["result"]


async def test_a_client_that_sends_its_whole_body_first_reads_why_it_is_refused(serve) -> None:
    async with serve(Limits(max_line_bytes=4096)) as serving:
        sock = serving.connect_plainly()
        sock.settimeout(LIMIT_S)
        length = 16 * 2**20  # more than the buffers of the system can hold
        data = POST + b"Content-Length: %d\r\n\r\n" % length + bytes(length)
        await asyncio.to_thread(sock.sendall, data)
        assert (await asyncio.to_thread(sock.recv, 4096)).startswith(b"HTTP/1.1 413 ")
        sock.close()


async def test_a_body_may_be_as_long_as_a_line_and_is_awaited_with_100_continue(serve) -> None:
    async with serve(Limits(max_line_bytes=4096)) as serving, open_browser(serving) as browser:
        body = PING + b" " * (4096 - len(PING))
        browser.writer.write(POST + b"Content-Length: 4096\r\nExpect: 100-continue\r\n\r\n")
        line = await asyncio.wait_for(browser.reader.readuntil(b"\r\n\r\n"), LIMIT_S)
        assert line.startswith(b"HTTP/1.1 100")
        browser.writer.write(body)
        assert b" 200 OK" in await asyncio.wait_for(browser.reader.readline(), LIMIT_S)


@pytest.mark.parametrize(
    "start", [b"GE", b"GET /docs HTTP/1.1\r\nHost: d\r\n", POST + b"Content-Length: 40\r\n\r\n{"]
)
async def test_a_request_that_is_not_finished_in_time_ends(serve, start: bytes) -> None:
    async with serve(Limits(line_timeout_s=0.2)) as serving, open_browser(serving) as browser:

        async def trickle() -> None:
            while True:
                await asyncio.sleep(0.02)
                browser.writer.write(b" " if start[0:1] == b"P" else b"X")

        task = asyncio.ensure_future(trickle()) if len(start) > 2 else None
        browser.writer.write(start)
        answer = await asyncio.wait_for(browser.reader.read(), LIMIT_S)
        if task is not None:
            task.cancel()
        assert answer.startswith(b"{" if task is None else b"HTTP/1.1 408 ")
        assert len(serving.dropped) == 1


async def test_a_client_that_leaves_cancels_its_request_and_leaves_nothing_behind(
    serve, wait_until: Any
) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        fds, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        for data in (
            b"GET /v1/search?query=x HTTP/1.1\r\nHost: d\r\n\r\n",
            POST + b"Content-Length: 4000\r\n\r\n{",
            b"GET /v1/search?query=x HTTP/1.1\r\nHo",
            b"GET /v1/events HTTP/1.1\r\nHost: d\r\n\r\n",
        ):
            sock = serving.connect_plainly()
            sock.settimeout(LIMIT_S)
            sock.sendall(data)
            for _ in range(20):  # the loop needs some turns to accept and read
                await asyncio.sleep(0.002)
            sock.close()
        await wait_until(lambda: serving.server.n_clients == 1)
        await wait_until(lambda: serving.handlers.cancelled == 1)
        await wait_until(lambda: serving.server.n_running == 0)
        await wait_until(lambda: len(os.listdir("/proc/self/fd")) <= fds)
        await wait_until(lambda: len(asyncio.all_tasks()) <= tasks)
        assert (await browser.ask("POST", "/rpc", JSON, PING))[0] == 200
        assert serving.errors == [("ValueError", "events")]


async def test_a_client_that_has_ended_its_side_still_gets_its_answer(
    serve, wait_until: Any
) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        browser.writer.write(b"GET /v1/search?query=x HTTP/1.1\r\nHost: d\r\n\r\n")
        browser.writer.write_eof()
        await wait_until(lambda: serving.handlers.n_running == 1)
        serving.handlers.gate.set()
        browser.framer.send(h11.Request(method="GET", target="/", headers=[("Host", "d")]))
        assert (await browser.read())[0] == 200
        assert await asyncio.wait_for(browser.reader.read(), LIMIT_S) == b""


async def test_later_requests_wait_in_the_socket_until_an_answer_is_sent(
    serve, wait_until: Any
) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        request = b"GET /v1/search?query=x HTTP/1.1\r\nHost: d\r\n\r\n"
        browser.writer.write(request)
        await wait_until(lambda: serving.handlers.n_running == 1)
        for _ in range(400):
            browser.writer.write(request * 100)
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert serving.handlers.started == 1
        assert serving.server.n_buffered_bytes < 400_000
        browser.writer.transport.abort()
        await wait_until(lambda: serving.server.n_clients == 0)
        assert serving.handlers.started == 1


async def test_a_stream_that_is_not_read_is_dropped(
    serve, make_changed: Any, wait_until: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(http_routes.EventStream, "_send_status", lambda _: False)

    async with (
        serve(Limits(max_write_buffer_bytes=65536)) as serving,
        open_browser(serving) as browser,
    ):
        sock = serving.connect_plainly(receive_bytes=4096)
        sock.settimeout(LIMIT_S)
        sock.sendall(b"GET /v1/events HTTP/1.1\r\nHost: d\r\n\r\n")
        await wait_until(lambda: serving.handlers.sessions)
        session = serving.handlers.sessions[0]
        await wait_until(lambda: session.is_subscribed)
        for _ in range(100):
            session.notify("changed", make_changed(10_000))
        await wait_until(lambda: serving.server.n_clients == 1)
        assert serving.dropped
        assert serving.handlers.notified == ["closed 2"]
        assert (await browser.ask("POST", "/rpc", JSON, PING))[0] == 200


async def test_a_quiet_stream_shows_that_it_is_alive(serve, monkeypatch: Any) -> None:
    monkeypatch.setattr(server_http, "EVENTS_ALIVE_S", 0.02)
    monkeypatch.setattr(http_routes.EventStream, "_send_status", lambda _: False)

    async with serve() as serving, open_browser(serving) as browser:
        browser.writer.write(b"GET /v1/events HTTP/1.1\r\nHost: d\r\n\r\n")
        for _ in range(3):
            await asyncio.wait_for(browser.reader.readuntil(b": keep-alive\n\n"), LIMIT_S)


async def test_a_stopping_server_ends_streams_and_refuses_requests(
    serve, wait_until: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(http_routes.EventStream, "_send_status", lambda _: False)

    async with serve() as serving, open_browser(serving) as browser:
        browser.writer.write(b"GET /v1/events HTTP/1.1\r\nHost: d\r\n\r\n")
        await asyncio.wait_for(browser.reader.readuntil(b"\r\n\r\n"), LIMIT_S)
        async with open_browser(serving) as other:
            assert (await other.ask("POST", "/rpc", JSON, PING))[0] == 200
            other.writer.write(b"GET /v1/search?query=x HTTP/1.1\r\nHost: d\r\n\r\n")
            await wait_until(lambda: serving.handlers.n_running == 1)
            stopping = asyncio.ensure_future(serving.server.stop(grace_s=0))
            answer = await asyncio.wait_for(other.reader.read(), LIMIT_S)
            assert b"HTTP/1.1 503" in answer
            assert b"Retry-After" in answer
        assert (await asyncio.wait_for(browser.reader.read(), LIMIT_S)).endswith(b"0\r\n\r\n")
        await stopping


async def test_idle_connections_are_closed(serve, monkeypatch: Any) -> None:
    monkeypatch.setattr(server_http, "KEEP_ALIVE_S", 0.5)

    async with serve() as serving, open_browser(serving) as browser:
        assert (await browser.ask("POST", "/rpc", JSON, PING))[0] == 200
        assert await asyncio.wait_for(browser.reader.read(), LIMIT_S) == b""


async def test_sixty_four_clients_and_hostile_ones_are_served_at_once(serve) -> None:
    async with serve() as serving:
        for number in range(32):
            sock = serving.connect_plainly()
            sock.settimeout(LIMIT_S)
            sock.sendall(
                random.Random(number).choice([POST, b"GET /", b"GET / HTTP/1.1\r\nX: \x00"])
            )

        async def use() -> None:
            async with open_browser(serving) as client:
                for _ in range(5):
                    assert (await client.ask("POST", "/rpc", JSON, PING))[0] == 200

        await asyncio.wait_for(asyncio.gather(*(use() for _ in range(64))), LIMIT_S)


async def test_random_bytes_after_a_good_start_never_harm(serve) -> None:
    async with serve() as serving, open_browser(serving) as browser:
        good = POST + b"Content-Length: %d\r\n\r\n" % len(PING) + PING
        for seed in range(150):
            chance = random.Random(seed)
            data = bytearray(b"GET /docs HTTP/1.1\r\nHost: d\r\n\r\n" + good)
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(4, len(data))] = chance.choice(b"\r\n :\x00\xff0;,aZ")
            async with open_browser(serving) as client:
                client.writer.write(bytes(data))
                client.writer.write_eof()
                await asyncio.wait_for(client.reader.read(), LIMIT_S)
        assert (await browser.ask("POST", "/rpc", JSON, PING))[0] == 200
        assert serving.errors == []


# --- the port -------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def open_port(
    serve: SERVE, limits: Limits | None = None
) -> AsyncIterator[tuple[Any, Browser, int]]:
    """A server with a loopback port, a client of the port, and the port's number."""
    async with serve(limits) as serving:
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        await serving.server.start_port(sock, Access(port=port, token=b"a-token"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        yield serving, Browser(reader, writer), port
        writer.close()


def make_request(port: int, *headers: str, target: str = "/rpc") -> bytes:
    lines = [f"Host: 127.0.0.1:{port}", "Authorization: Bearer a-token", *headers]
    named = {line.partition(":")[0]: line for line in lines if line.partition(": ")[2]}
    head = "\r\n".join([f"POST {target} HTTP/1.1", *named.values()])
    return f"{head}\r\nContent-Type: application/json\r\nConnection: close\r\n".encode() + (
        b"Content-Length: %d\r\n\r\n%b" % (len(PING), PING)
    )


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("X: y", 200),
        ("Authorization: ", 200),
        ("Authorization: Bearer a-tokem", 401),
        ("Authorization: Basic a-token", 401),
        ("Host: evil.example", 403),
        ("Host: evil.example:{port}", 403),
        ("Host: localhost:{port}", 200),
        ("Origin: http://evil.example", 403),
        ("Origin: http://127.0.0.1:{port}", 200),
    ],
)
async def test_the_port_wants_its_host_its_origin_and_its_token(
    serve, header: str, status: int
) -> None:
    async with open_port(serve) as (serving, browser, port):
        actual, answer = await browser.send(make_request(port, header.format(port=port)))
        assert actual == status
        assert b"a-token" not in answer
        assert ("ping" in [request.method for request in serving.answered]) == (status == 200)


async def test_the_port_without_a_token_shows_its_documents_alone(serve) -> None:
    async with open_port(serve) as (_, browser, port):
        host = [("Host", f"127.0.0.1:{port}")]
        for target, status in (
            ("/docs", 200),
            ("/openapi.json", 200),
            ("/v1/status", 401),
            ("/x", 401),
        ):
            browser.writer.write(
                f"GET {target} HTTP/1.1\r\n{host[0][0]}: {host[0][1]}\r\n\r\n".encode()
            )
            head = await asyncio.wait_for(browser.reader.readuntil(b"\r\n\r\n"), LIMIT_S)
            assert int(head.split()[1]) == status
            assert (b"WWW-Authenticate: Bearer" in head) == (status == 401)
            length = int(head.split(b"Content-Length: ")[1].split()[0])
            await browser.reader.readexactly(length)


@pytest.mark.parametrize(
    "data", [PING + b"\n", b"[" + PING + b"]\n", b"\r\n\r\n\r\n{}\n", b"\x16\x03\x01\x02"]
)
async def test_the_port_speaks_http_alone(serve, data: bytes) -> None:
    async with open_port(serve) as (serving, browser, _):
        status, answer = await browser.send(data + b"\r\n\r\n")
        assert status == 400, answer
        assert "ping" not in [request.method for request in serving.answered]


async def test_a_full_or_stopping_server_refuses_clients_of_the_port_by_http(serve) -> None:
    async with open_port(serve, Limits(max_clients=2)) as (_, _, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        reader, other = await asyncio.open_connection("127.0.0.1", port)
        answer = await asyncio.wait_for(reader.read(), LIMIT_S)
        assert answer.startswith(b"HTTP/1.1 503")
        writer.close()
        other.close()


def test_the_modules_of_http_are_imported_with_its_first_bytes(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from tests.server.conftest import serve
async def main():
    async with serve(Path({str(tmp_path)!r})) as serving:
        client = await serving.connect()
        await client.ask("ping")
        assert not [name for name in sys.modules if name.endswith("h11") or name == "memsyncd.server.http"]
        other = await serving.connect()
        other.write(b"GET /docs HTTP/1.1\\r\\nHost: d\\r\\n\\r\\n")
        assert b"200" in await other.reader.readline()
        assert "h11" in sys.modules
asyncio.run(main())
"""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
