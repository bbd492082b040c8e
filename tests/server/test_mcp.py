"""Progress and log messages of MCP, on the socket and by HTTP, with handlers that wait and fail."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from memsyncd.errors import StoreFailed
from memsyncd.operations.changes.declare import Subscribed
from memsyncd.operations.search.declare import SearchAnswer
from memsyncd.operations.signals.declare import Signal, SignalNotice
from memsyncd.operations.status.declare import Status
from memsyncd.server import mcp as server_mcp

SERVE = Callable[..., contextlib.AbstractAsyncContextManager[Any]]
LIMIT_S = 60
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL = {"name": "memory_search", "arguments": {"query": "x", "workspace": "*"}}
STATUS = Status(
    collections=[], agents=[],
    version="1", protocol=1, pid=1, uptime_s=0, rss_bytes=0, clients=0, requests=0,
    failed_requests=0, socket="s", socket_problem=None, lock_problem=None,
    http=None, http_token=None, config="c", sqlite="3", workspaces=[],
)  # fmt: skip


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_mcp, "PROGRESS_S", 0.02)


@contextlib.asynccontextmanager
async def serve_mcp(serve: SERVE) -> AsyncIterator[tuple[Any, Any]]:
    """A server with handlers that MCP calls, and a connection to it."""
    async with serve() as serving:
        handlers = serving.handlers
        handlers.status = lambda _session, _params: STATUS
        handlers.search = search_that_waits(handlers)
        handlers.subscribe = lambda _session, _params: Subscribed(subscription="s", generations={})
        yield serving, await serving.connect()


def search_that_waits(handlers: Any) -> Callable[..., Any]:
    async def search(_session: Any, params: Any) -> Any:
        if params.query == "broken":
            raise StoreFailed("the disk failed", hint="see the log")
        await handlers.gate.wait()
        answer = SearchAnswer(hits=[], relaxed=False, why_empty="no note", did_you_mean=None)
        return make_result(answer)

    return search


def make_result(answer: SearchAnswer) -> Any:
    from memsyncd.operations.fields import Freshness
    from memsyncd.operations.search.declare import SearchResult

    fresh = Freshness(
        generation=1, pending=0, unrecorded=0, synced_at=1.0, state="ready", reason=None
    )
    return SearchResult(
        hits=answer.hits, relaxed=False, why_empty=answer.why_empty, did_you_mean=None,
        workspaces=[], freshness=fresh, took_ms=1.0,
    )  # fmt: skip


def make_message(method: str, params: Any, request_id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


async def post(client: Any, message: Any, *headers: str) -> bytes:
    """Send a request to /mcp; return the head of the response."""
    body = json.dumps(message).encode()
    lines = [
        "POST /mcp HTTP/1.1", "Host: d", "Content-Type: application/json", *headers,
        "Accept: application/json, text/event-stream", f"Content-Length: {len(body)}",
    ]  # fmt: skip
    client.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    return await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), LIMIT_S)


async def read_data(client: Any) -> Any:
    while not (line := await asyncio.wait_for(client.reader.readline(), LIMIT_S)).startswith(
        b"data: "
    ):
        assert line
    return json.loads(line[6:])


async def shake_hands(client: Any) -> str:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c"}}
    head = (await post(client, make_message("initialize", params))).decode()
    length = int(head.partition("Content-Length: ")[2].split()[0])
    await client.reader.readexactly(length)
    return head.partition("Mcp-Session-Id: ")[2].split()[0]


async def test_a_call_with_a_token_tells_that_it_goes_on(serve) -> None:
    async with serve_mcp(serve) as (serving, client):
        params = {**CALL, "_meta": {**META, "progressToken": "t"}}
        client.send("tools/call", **params)
        for number in (1, 2, 3):
            notice = await client.read()
            assert notice["method"] == "notifications/progress"
            assert notice["params"]["progressToken"] == "t"
            assert notice["params"]["progress"] == number
        serving.handlers.gate.set()
        while "result" not in (answer := await client.read()):
            assert answer["method"] == "notifications/progress"
        assert answer["result"]["content"][0]["text"].startswith("Nothing found")
        client.send("tools/call", request_id=2, **{**CALL, "_meta": META})
        assert (await client.read())["id"] == 2


@pytest.mark.parametrize("has_session", [False, True])
async def test_progress_by_http_turns_the_answer_into_a_stream(serve, has_session: bool) -> None:
    async with serve_mcp(serve) as (serving, client):
        session = await shake_hands(client) if has_session else ""
        meta = {"progressToken": 5} if has_session else {**META, "progressToken": 5}
        headers = (
            [f"Mcp-Session-Id: {session}"]
            if has_session
            else ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: memory_search"]
        )  # fmt: skip
        message = make_message("tools/call", {**CALL, "_meta": meta}, 9)
        head = await post(client, message, *headers)
        assert b"text/event-stream" in head
        assert (await read_data(client))["params"] == {
            "progressToken": 5, "progress": 1, "message": "waiting",
        }  # fmt: skip
        serving.handlers.gate.set()
        while (answer := await read_data(client)).get("id") != 9:
            assert answer["method"] == "notifications/progress"
        assert "Nothing found" in answer["result"]["content"][0]["text"]
        await asyncio.wait_for(client.reader.readuntil(b"0\r\n\r\n"), LIMIT_S)
        # The stream has ended, but the connection goes on; an answer without progress is plain JSON.
        assert b"application/json" in await post(client, message, *headers)


async def test_a_client_that_leaves_in_mid_stream_leaves_nothing_behind(
    serve, wait_until: Any
) -> None:
    async with serve_mcp(serve) as (serving, client):
        session = await shake_hands(client)
        message = make_message("tools/call", {**CALL, "_meta": {"progressToken": 5}}, 9)
        await post(client, message, f"Mcp-Session-Id: {session}")
        client.writer.transport.abort()
        await wait_until(lambda: serving.server.n_clients == 0)
        serving.handlers.gate.set()
        await wait_until(lambda: serving.server.n_running == 0)
        other = await serving.connect()
        head = await post(other, make_message("ping", {}), f"Mcp-Session-Id: {session}")
        assert b"200 OK" in head
        assert serving.errors == []


async def test_a_request_of_its_own_is_cancelled_with_its_connection(
    serve, wait_until: Any
) -> None:
    async with serve_mcp(serve) as (serving, client):
        headers = (
            "MCP-Protocol-Version: 2026-07-28",
            "Mcp-Method: tools/call",
            "Mcp-Name: memory_search",
        )
        message = make_message("tools/call", {**CALL, "_meta": {**META, "progressToken": 1}})
        await post(client, message, *headers)
        assert serving.server.n_running == 1
        client.writer.transport.abort()
        await wait_until(lambda: serving.server.n_running == 0)
        assert not serving.handlers.gate.is_set()


@pytest.mark.parametrize("level", ["", "error"])
async def test_an_internal_failure_is_logged_to_a_client_that_asked_for_it(
    serve, level: str
) -> None:
    async with serve_mcp(serve) as (_, client):
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c"}}
        await client.ask("initialize", **params)
        if level:
            assert (await client.ask("logging/setLevel", level=level))["result"] == {}
        arguments = {"query": "broken", "workspace": "*"}
        client.send("tools/call", request_id=4, name="memory_search", arguments=arguments)
        if level:
            notice = await client.read()
            assert notice["method"] == "notifications/message"
            assert notice["params"]["level"] == "error"
            assert notice["params"]["data"]["code"] == "store_failed"
        answer = await client.read()
        assert (answer["id"], answer["result"]["isError"]) == (4, True)
        assert "the disk failed" in answer["result"]["content"][0]["text"]


async def test_sessions_are_limited_and_the_unused_make_room(
    serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memsyncd.server import http_mcp

    monkeypatch.setattr(http_mcp, "MAX_SESSIONS", 2)

    async with serve_mcp(serve) as (serving, client):
        first, second = await shake_hands(client), await shake_hands(client)
        reader = await serving.connect()
        reader.write(
            f"GET /mcp HTTP/1.1\r\nHost: d\r\nAccept: text/event-stream\r\nMcp-Session-Id: {first}\r\n\r\n".encode()
        )
        await asyncio.wait_for(reader.reader.readuntil(b"\r\n\r\n"), LIMIT_S)
        third = await shake_hands(client)
        ping = make_message("ping", {})
        for session, status in ((first, b"200"), (second, b"404"), (third, b"200")):
            other = await serving.connect()
            assert status in await post(other, ping, f"Mcp-Session-Id: {session}")


async def test_sessions_that_are_not_used_expire(
    serve, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memsyncd.server import http_mcp

    monkeypatch.setattr(http_mcp, "SESSION_IDLE_S", 0.05)

    async with serve_mcp(serve) as (serving, client):
        session = await shake_hands(client)  # which may have expired by now
        sessions = serving.server._routes._mcp_sessions
        await wait_until(lambda: sessions.n_sessions == 0)
        other = await serving.connect()
        answer = await post(other, make_message("ping", {}), f"Mcp-Session-Id: {session}")
        assert b"404" in answer


async def test_the_end_of_a_session_ends_its_stream_and_the_connection_goes_on(serve) -> None:
    async with serve_mcp(serve) as (serving, client):
        session = await shake_hands(client)
        head = f"/mcp HTTP/1.1\r\nHost: d\r\nMcp-Session-Id: {session}\r\n\r\n".encode()
        reader = await serving.connect()
        reader.write(b"GET " + head)
        await asyncio.wait_for(reader.reader.readuntil(b"\r\n\r\n"), LIMIT_S)
        client.write(b"DELETE " + head)
        assert b" 204 " in await client.reader.readuntil(b"\r\n\r\n")
        await asyncio.wait_for(reader.reader.readuntil(b"0\r\n\r\n"), LIMIT_S)
        reader.write(b"GET " + head)
        assert b" 404 " in await asyncio.wait_for(reader.reader.readuntil(b"\r\n\r\n"), LIMIT_S)


async def test_a_client_that_ends_its_side_during_its_handshake_is_let_go(serve) -> None:
    async with serve_mcp(serve) as (serving, client):
        gate = asyncio.Event()

        async def wait_and_report(_session: Any, _params: Any) -> Status:
            await gate.wait()
            return STATUS

        def subscribe(session: Any, _params: Any) -> Subscribed:
            session.is_subscribed = True
            return Subscribed(subscription="s", generations={})

        serving.handlers.status, serving.handlers.subscribe = wait_and_report, subscribe
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c"}}
        await client.ask("initialize", **params)
        client.send("notifications/initialized", request_id=None)
        client.writer.write_eof()
        await asyncio.sleep(0.05)
        gate.set()
        assert await client.read_to_end() == b""


async def test_signals_of_a_subscription_from_before_the_handshake_harm_nobody(serve) -> None:
    async with serve_mcp(serve) as (serving, client):
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c"}}
        await client.ask("initialize", **params)
        client.send("notifications/initialized", request_id=None)
        await client.ask("ping")
        [session] = serving.handlers.sessions
        signal = Signal(
            id=1, at=0, sender="a", type="note", content="x", to=[], expires_at=1, acked_at=None
        )
        session.notify("signal", SignalNotice(subscription="s1", workspace="w", signal=signal))
        assert (await client.ask("ping", request_id=2))["id"] == 2


@pytest.mark.parametrize(
    ("state", "pending", "waits"),
    [("ready", 0, ["none"]), ("ready", 1, ["none", "disk"]), ("degraded", 0, ["none", "disk"])],
)
async def test_the_disk_is_scanned_only_if_events_may_not_tell_of_all_saves(
    serve, state: Any, pending: int, waits: list[str]
) -> None:
    asked: list[Any] = []
    empty = SearchAnswer(hits=[], relaxed=False, why_empty="no note", did_you_mean=None)

    def search(_session: Any, params: Any) -> Any:
        asked.append(params)
        answer = make_result(empty)
        return replace(answer, freshness=replace(answer.freshness, state=state, pending=pending))

    async with serve_mcp(serve) as (serving, client):
        workspaces = [SimpleNamespace(id="w", state=state)]
        serving.handlers.search = search
        serving.handlers.status = lambda *_: SimpleNamespace(workspaces=workspaces)
        arguments = {"query": "x", "workspace": "w"}
        client.send("tools/call", name="memory_search", arguments=arguments, _meta=META)
        assert "Nothing found" in (await client.read())["result"]["content"][0]["text"]
    assert [params.wait for params in asked] == waits
