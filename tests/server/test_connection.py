"""One client's connection: lines in any pieces, slow readers, timeouts, the peer's credentials."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket

import pytest

from memsyncd.server.session import Limits, has_hung_up, is_own_user, read_peer

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


async def read_plainly(sock, n_bytes: int = 65536) -> bytes:
    data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, n_bytes), 20)
    assert data, "the connection was closed"
    return data


async def test_a_request_byte_by_byte_is_answered(serve) -> None:
    async with serve() as serving:
        sock = serving.connect_plainly()
        for byte in PING:
            sock.send(bytes([byte]))
            await asyncio.sleep(0)
        assert json.loads(await read_plainly(sock))["result"]["name"] == "memsyncd"


async def test_ten_megabytes_without_a_newline_are_refused_and_the_next_request_is_answered(
    serve,
) -> None:
    async with serve(Limits(max_line_bytes=100_000)) as serving:
        client = await serving.connect()
        client.write(b"x" * 10_000_000)
        refusal = await client.read()
        assert (refusal["id"], refusal["error"]["data"]["code"]) == (None, "too_large")
        client.write(b"\n" + PING)
        assert "result" in await client.read()
        assert serving.server.counters.failed_requests == 1


async def test_a_long_line_within_the_limit_is_read(serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        answer = await client.ask("search", 1, query="x" * 4_000_000, limit=0)
        assert answer["error"]["message"].startswith("parameter `limit`")


async def test_a_line_that_is_not_finished_in_time_is_refused_and_the_connection_closed(
    serve,
) -> None:
    async with serve(Limits(line_timeout_s=0.05)) as serving:
        client = await serving.connect()
        client.write(PING + b'{"id"')
        assert "result" in await client.read()
        assert "not finished" in (await client.read())["error"]["message"]
        assert await client.read_to_end() == b""
        assert serving.dropped == ["it does not finish its line"]


async def test_a_client_that_sends_lines_in_pieces_and_finishes_them_is_not_timed_out(
    serve,
) -> None:
    async with serve(Limits(line_timeout_s=1.0)) as serving:
        client = await serving.connect()
        client.write(PING[:10])
        for _ in range(6):
            await asyncio.sleep(0.2)
            client.write(PING[10:] + PING[:10])
            assert "result" in await client.read()
        assert serving.dropped == []


async def test_a_second_socket_replaces_the_first_and_clients_stay_connected(
    serve, tmp_path
) -> None:
    async with serve() as serving:
        early = await serving.connect()
        await early.ask("ping")
        sock = socket.socket(socket.AF_UNIX)
        serving.path = tmp_path / "second"
        sock.bind(str(serving.path))
        await serving.server.start(sock)
        late = await serving.connect()
        assert "result" in await late.ask("ping")
        assert "result" in await early.ask("ping")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_unix_connection(str(tmp_path / "s"))


async def test_no_timer_runs_while_nothing_is_unfinished(serve) -> None:
    async with serve() as serving:
        clients = [await serving.connect() for _ in range(3)]
        for client in clients:
            client.write(PING[:10])
            client.write(PING[10:])
            await client.read()
        timers = [
            handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()
        ]
        assert timers == []


async def test_a_subscriber_that_does_not_read_is_dropped_and_others_are_served(
    serve, make_changed, wait_until
) -> None:
    async with serve(Limits(max_write_buffer_bytes=100_000)) as serving:
        slow, other = await serving.connect(), await serving.connect()
        await slow.ask("subscribe")
        slow.reader._transport.pause_reading()
        session = serving.handlers.sessions[0]
        n_sent = 0
        while session.notify("changed", make_changed(10_000)):
            n_sent += 1
            assert n_sent < 1000
        assert serving.dropped == ["it leaves too much unread"]
        await wait_until(lambda: serving.server.n_clients == 1)
        assert not session.notify("changed", make_changed())
        assert serving.handlers.notified == ["closed 1"]
        assert "result" in await other.ask("ping")
        assert serving.server.counters.dropped == 1


async def test_a_client_that_does_not_read_its_answers_is_not_read_from(serve, wait_until) -> None:
    async with serve(Limits(max_write_buffer_bytes=1_000_000)) as serving:
        serving.handlers.reply_chars = 10_000
        sock = serving.connect_plainly()
        sent = asyncio.create_task(asyncio.get_running_loop().sock_sendall(sock, PING * 12_000))
        await wait_until(lambda: serving.server.counters.requests > 20)
        await asyncio.sleep(0.2)
        assert serving.server.counters.requests < 1000
        assert not sent.done()
        n_answers = 0
        while n_answers < 12_000:
            n_answers += (await read_plainly(sock, 1_000_000)).count(b"\n")
        await sent
        assert serving.dropped == []


async def test_a_client_that_never_reads_again_is_dropped_after_the_write_timeout(
    serve, wait_until
) -> None:
    async with serve(Limits(max_write_buffer_bytes=100_000, write_timeout_s=0.05)) as serving:
        serving.handlers.reply_chars = 100_000
        sock = serving.connect_plainly()
        sock.send(PING * 100)
        await wait_until(lambda: serving.dropped)
        assert serving.dropped == ["it does not read"]


async def test_a_slow_reader_gets_the_whole_answer(serve) -> None:
    async with serve(Limits(max_write_buffer_bytes=100_000, write_timeout_s=1.5)) as serving:
        serving.handlers.reply_chars = 1_000_000
        sock = serving.connect_plainly()
        sock.send(PING)
        n_bytes = 0
        while n_bytes < 1_000_000:
            n_bytes += len(await read_plainly(sock, 50_000))
            await asyncio.sleep(0.1)
        assert serving.dropped == []


async def test_a_client_that_ends_its_side_and_does_not_read_is_dropped(serve, wait_until) -> None:
    async with serve(Limits(write_timeout_s=0.05)) as serving:
        serving.handlers.reply_chars = 700_000
        sock = serving.connect_plainly()
        sock.send(PING)
        sock.shutdown(1)
        await wait_until(lambda: serving.dropped or not serving.server.n_clients)
        await wait_until(lambda: not serving.server.n_clients)


async def test_an_answer_over_the_limit_is_refused(serve) -> None:
    async with serve(Limits(max_reply_bytes=5_000)) as serving:
        client = await serving.connect()
        serving.handlers.reply_chars = 2_000
        assert "result" in await client.ask("ping")
        client.write([json.loads(PING)] * 4)
        assert ["error" in answer for answer in await client.read()] == [
            False,
            False,
            True,
            True,
        ]
        serving.handlers.reply_chars = 5_000
        assert (await client.ask("ping"))["error"]["data"]["code"] == "too_large"


async def test_a_write_that_happened_is_answered_however_long_the_answer_is(serve) -> None:
    async with serve(Limits(max_reply_bytes=5_000)) as serving:
        client = await serving.connect()
        serving.handlers.reply_chars = 6_000
        assert "result" in await client.ask("undo", change_set=1)
        serving.handlers.has_changed = False
        answer = await client.ask("undo", change_set=1)
        assert answer["error"]["data"]["code"] == "too_large"


async def test_a_result_that_cannot_be_encoded_fails_its_own_request_only(serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        serving.handlers.search = return_no_struct
        assert (await client.ask("search", 1, query="x"))["error"]["code"] == -32603
        assert serving.errors == [("TypeError", "search")]
        assert "result" in await client.ask("ping")


async def return_no_struct(session, params) -> object:
    return object()


async def test_running_requests_are_limited_and_clients_take_turns(serve, wait_until) -> None:
    async with serve(Limits(max_running=2)) as serving:
        greedy, modest = await serving.connect(), await serving.connect()
        for n in range(20):
            greedy.send("search", n, query="x")
        await wait_until(lambda: serving.handlers.started == 2)
        modest.send("search", "m", query="x")
        assert "result" in await modest.ask("ping")
        order: list[object] = []
        serving.handlers.gate.set()
        await asyncio.gather(read_ids(greedy, 20, order), read_ids(modest, 1, order))
        assert serving.handlers.most_running == 2
        assert order.index("m") < 8


async def read_ids(client, n_answers: int, order: list[object]) -> None:
    while n_answers:
        order.append((await client.read())["id"])
        n_answers -= 1


async def test_waiting_methods_do_not_count_as_running(serve, wait_until) -> None:
    async with serve(Limits(max_running=1)) as serving:
        client = await serving.connect()
        for n in range(3):
            client.send("sync", n)
        client.send("search", 3, query="x")
        await wait_until(lambda: serving.handlers.started == 4)


async def test_a_client_with_too_many_pending_requests_waits_and_loses_none(
    serve, wait_until
) -> None:
    async with serve(Limits(max_pending_per_client=3, max_running=2)) as serving:
        client, other = await serving.connect(), await serving.connect()
        for n in range(50):
            client.send("search", n, query="x")
        await wait_until(lambda: serving.handlers.started == 2)
        assert "result" in await other.ask("ping")
        assert serving.server.counters.requests == 4
        serving.handlers.gate.set()
        assert {(await client.read())["id"] for _ in range(50)} == set(range(50))


async def test_five_hundred_silent_connections_keep_no_client_out(serve, wait_until) -> None:
    async with serve() as serving:
        worker = await serving.connect()
        assert "result" in await worker.ask("ping")
        for _ in range(10):
            for _ in range(50):
                serving.connect_plainly()
            await asyncio.sleep(0)
            assert "result" in await worker.ask("ping")
        # On a slow machine the first connections are old enough for the last ones to replace them.
        await wait_until(lambda: serving.refused or serving.dropped)
        await wait_until(lambda: serving.server.n_clients == 256)
        await asyncio.sleep(0.6)
        newcomer = await serving.connect()
        assert "result" in await newcomer.ask("ping")
        assert "result" in await worker.ask("ping")
        assert serving.server.n_clients == 256


async def test_a_client_over_the_limit_is_refused_with_a_hint(serve, wait_until) -> None:
    async with serve(Limits(max_clients=2)) as serving:
        clients = [await serving.connect() for _ in range(2)]
        for client in clients:
            await client.ask("ping")
        late = await serving.connect()
        refusal = await late.read()
        assert refusal["error"]["data"] == {
            "code": "busy",
            "hint": "close some, or raise max_clients under [socket]",
        }
        assert await late.read_to_end() == b""
        assert serving.refused == ["too many clients"]
        counters = serving.server.counters
        assert (counters.accepted, counters.refused, serving.server.n_clients) == (2, 1, 2)
        clients[0].close()
        await wait_until(lambda: serving.server.n_clients == 1)
        assert "result" in await (await serving.connect()).ask("ping")


PAYLOADS = [
    PING,
    PING[:20],
    PING * 50,
    b"\n",
    b"\xff\n",
    b"[" * 500 + b"\n",
    b"[" + PING.strip() + b",1]\n",
    b"x" * 3000,
]
PAYLOADS += [
    PING.replace(b"ping", name)
    for name in (b"status", b"problems", b"sync", b"subscribe", b"get", b"list")
]
PAYLOADS += [
    PING.replace(b'"id":1,', b"").replace(b"ping", name)
    for name in (b"status", b"problems", b"sync")
]


def misbehave(sock: socket.socket, chance: random.Random) -> None:
    actions = [
        sock.close,
        lambda: sock.shutdown(socket.SHUT_WR),
        lambda: sock.shutdown(socket.SHUT_RD),
        lambda: sock.recv(chance.choice([1, 100, 100_000])),
        *[lambda: sock.send(chance.choice(PAYLOADS))] * 4,
    ]
    with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
        chance.choice(actions)()


@pytest.mark.parametrize("seed", range(8))
async def test_clients_that_misbehave_at_random_do_not_harm_others(
    serve, wait_until, make_changed, seed: int
) -> None:
    chance = random.Random(seed)

    async with serve(
        Limits(max_clients=8, max_line_bytes=2000, max_write_buffer_bytes=20_000)
    ) as serving:
        worker = await serving.connect()
        assert "result" in await worker.ask("ping")
        socks: list[socket.socket] = []
        for step in range(300):
            socks = [sock for sock in socks if sock.fileno() != -1]
            if not socks or (len(socks) < 12 and chance.random() < 0.3):
                socks.append(serving.connect_plainly())
            misbehave(chance.choice(socks), chance)
            if chance.random() < 0.1:
                notify_all(serving, make_changed(5000))
            if step % 3 == 0:
                await asyncio.sleep(0)
            if step % 20 == 0:
                assert "result" in await worker.ask("ping")
        serving.handlers.gate.set()
        for sock in socks:
            sock.close()
        await asyncio.sleep(0.01)
        notify_all(
            serving, make_changed()
        )  # so the server notices clients that only ended their side
        await wait_until(lambda: serving.server.n_clients == 1)
        await wait_until(lambda: not serving.server.n_running)
        assert {name for _, name in serving.errors} <= {"status", "problems", "list"}
        assert "result" in await worker.ask("ping")


def notify_all(serving, changed) -> None:
    """Notify all sessions except the first, which is not subscribed."""
    for session in serving.handlers.sessions[1:]:
        session.notify("changed", changed)


# --- the peer of a Unix socket ---


def test_the_kernel_reports_the_peers_user_and_process() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert read_peer(ours) == (os.geteuid(), os.getpid())


def test_only_the_user_of_this_process_is_its_own_user() -> None:
    assert is_own_user(os.geteuid())
    assert not is_own_user(os.geteuid() + 1)
    assert not is_own_user(-1)


def test_a_peer_that_ended_its_side_but_reads_is_not_gone() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert not has_hung_up(ours)
        theirs.shutdown(socket.SHUT_WR)
        assert not has_hung_up(ours)
        theirs.close()
        assert has_hung_up(ours)
