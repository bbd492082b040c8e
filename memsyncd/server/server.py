"""Serves the daemon's Unix socket: admits clients of this user, reads their lines, writes answers.

`Server` gets a listening socket (from `listen`) and a `dispatch`, which carries out the methods.
It can also serve a port of the loopback interface, where each request must carry a token. There are
at most `max_clients` connections. When all places are taken, a new client replaces the oldest
connection that has sent no request.

The first bytes decide the protocol of a connection: JSON-RPC in lines, or HTTP, which `http` reads;
a TCP connection speaks HTTP only. Lines are processed in bounded turns, and one write sends the
answers of a turn. While a client does not read its answers, the server does not read from it. In
the end the server drops such a client, and also a client that does not finish its line. `requests`
carries out the lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from memsyncd.errors import BadRequest, Busy, MemsyncdError, ShuttingDown, TooLarge
from memsyncd.operations.agents.declare import AgentAnswer
from memsyncd.operations.daemon import ServerCounters
from memsyncd.protocol.jsonrpc import (
    Batch,
    Fault,
    LineSplitter,
    McpLine,
    MessageParser,
    RpcRequest,
    TooLong,
    describe_error,
    encode_batch,
    encode_error,
    is_http_start,
    join_lines,
)
from memsyncd.server.listen import BACKLOG
from memsyncd.server.requests import (
    BatchReply,
    CompletedRequest,
    LineScheduler,
    RequestDispatcher,
    RequestQueue,
    ServerContext,
)
from memsyncd.server.session import Dispatch, Limits, Session, has_hung_up, is_own_user, read_peer
from memsyncd.store.connection import short_read

if TYPE_CHECKING:
    from memsyncd.protocol.http import Access
    from memsyncd.server.http import HttpConnection
    from memsyncd.server.http_routes import HttpRoutes
    from memsyncd.server.mcp import McpConnection

TURN_S = 0.001
"""How long the lines of one client are processed before it is another client's turn."""
PEER_CHECK_S = 1.0
"""How often to check that a waiting client still exists while the server does not read from it."""
LARGE_BUFFER_BYTES = 256 * 1024
"""If the buffers of one client are larger, the buffers of all clients are checked."""

Admit = Callable[["Connection", asyncio.Transport, Callable[[bytes], bool]], Session | None]
_Item = bytes | TooLong | tuple[RpcRequest | Fault, BatchReply]


class Connection(asyncio.Protocol):
    """One client's connection.

    `admit` returns a session for the connection, or refuses it and returns None. `on_lost` is
    called when the connection is lost. `find_routes` is called with the first bytes of HTTP.
    `access` is set for a connection of the loopback port.
    """

    def __init__(
        self,
        context: ServerContext,
        *,
        admit: Admit,
        on_lost: Callable[[Connection], None],
        find_routes: Callable[[], HttpRoutes],
        access: Access | None = None,
    ) -> None:
        self._context = context
        self._find_routes = find_routes
        self._access = access
        self._admit = admit
        self._on_lost = on_lost
        self._splitter = LineSplitter(context.limits.max_line_bytes)
        # Lines to carry out, with the time of their arrival.
        self._unprocessed: deque[tuple[float, _Item]] = deque()
        self._out: list[bytes] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # Any, because asyncio has no type with all methods of a socket's transport.
        self._transport: Any = None
        self._session: Session | None = None
        self._dispatcher: RequestDispatcher | None = None
        self._mcp: McpConnection | None = None
        self._http: HttpConnection | None = None
        self._is_open_to_http = True
        self._idle_s = 0.0
        self._is_paused = self._has_sent = self._has_ended = False
        self._is_writable = True
        self._n_unsent_bytes = 0
        self.active_at_s = self.opened_at_s = context.loop.time()

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._session = self._admit(self, self._transport, self._send_now)
        if self._session is not None:
            limits = self._context.limits
            self._dispatcher = RequestDispatcher(
                self._context, self._session, send=self._send_later, on_done=self._continue
            )
            self._transport.set_write_buffer_limits(high=limits.max_write_buffer_bytes // 8)

    def data_received(self, data: bytes) -> None:
        if self._is_open_to_http:
            data = self._find_protocol(data)
        if self._http is not None:
            self._serve_http(self._http, data)
            return
        lines = self._splitter.push(data)
        if lines:
            self._has_sent = True
            self._add_lines(lines)
            self._process_turn()
        self._arm_request_timer(is_inside=self._splitter.is_inside_line, again=bool(lines))
        self._check_buffers()

    def eof_received(self) -> bool:
        """Process the last line: the client sends no more.

        True keeps the connection open for answers, if the client can still read them.
        """
        self._has_ended = True
        self.disarm("line")
        if has_hung_up(self._transport.get_extra_info("socket")):
            return False
        if self._http is not None:
            self._http.end()
            self.update()
            return not self._transport.is_closing()
        self._add_lines(self._splitter.end())
        self._process_turn()
        if self._mcp is not None:
            self._mcp.finish()
            self._continue()
        return not self._transport.is_closing()

    def pause_writing(self) -> None:
        self._is_writable = False
        self._n_unsent_bytes = self._transport.get_write_buffer_size()
        self.arm("write", self._context.limits.write_timeout_s, self._on_unread)

    def resume_writing(self) -> None:
        self._is_writable = True
        self.disarm("write")
        self.update()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # every cause is handled in the same way
        for name in tuple(self._timers):
            self.disarm(name)
        self._unprocessed.clear()
        if self._http is not None:
            self._http.lose()
        if self._dispatcher is not None:
            self._dispatcher.close()
        self._on_lost(self)

    # --- called by the server

    def process_lines(self) -> None:
        """Process more of the lines that were read."""
        if not self._transport.is_closing():
            self._process_turn()

    @property
    def is_expendable(self) -> bool:
        """True if closing the connection costs the client little.

        The client has sent no request, or it sends no more and has all its answers.
        """
        if self._http is not None:
            return not self._http.is_busy
        return not self._has_sent or (self._has_ended and not self._n_pending)

    @property
    def n_buffered_bytes(self) -> int:
        """Bytes of the client's unfinished line, and of the answers that it has not read yet."""
        n_unsent = int(self._transport.get_write_buffer_size())
        if self._transport.is_closing():
            return n_unsent
        n_held = self._splitter.n_held_bytes if self._http is None else self._http.n_held_bytes
        return n_held + n_unsent

    def drop(self, reason: str) -> None:
        """Close the connection now, and discard all unsent bytes."""
        if not self._transport.is_closing():
            self._context.counters.dropped += 1
            self._context.on_drop(reason)
        self._transport.abort()

    def refuse(self, error: MemsyncdError) -> None:
        """Send an error that answers no particular request, and close."""
        if self._access is not None or self._http is not None:
            self._find_http().refuse(error)
            return
        self.write(encode_error(None, describe_error(error)) + b"\n")
        self.close()

    def close(self) -> None:
        """Close after the client has read its answers, or has left them unread for too long."""
        if self._mcp is not None:
            self._mcp.finish()
        if self._http is not None:
            self._http.finish()
        self._n_unsent_bytes = self._transport.get_write_buffer_size()
        if self._n_unsent_bytes:
            self.arm("write", self._context.limits.write_timeout_s, self._on_unread)
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # --- HTTP

    def _find_protocol(self, data: bytes) -> bytes:
        """Choose the protocol by the first bytes; return the bytes that its reader does not have
        yet.
        """
        first = self._splitter.held + data
        is_http = True if self._access is not None else is_http_start(first)
        self._is_open_to_http = is_http is None
        if not is_http:
            return data
        self._splitter.clear()
        self._find_http()
        return first

    def _find_http(self) -> HttpConnection:
        if self._http is None:
            # Imported with the first request by HTTP, because most daemons never need it.
            from memsyncd.server.http import KEEP_ALIVE_S, HttpConnection

            self._http = HttpConnection(
                self,
                self._context,
                self._session,
                self._dispatcher,
                self._access,
                self._find_routes().carry_out,
            )
            self._idle_s = KEEP_ALIVE_S
            self.arm("idle", self._idle_s, self._on_idle)
        return self._http

    @short_read()
    def _serve_http(self, http: HttpConnection, data: bytes) -> None:
        has_finished = http.receive(data)
        self.update()
        self._arm_request_timer(is_inside=http.is_inside_request, again=has_finished)
        self._check_buffers()

    def touch(self) -> None:
        """Note that the client has sent a whole request."""
        self._has_sent = True
        self.active_at_s = self._context.loop.time()

    def end_writing(self) -> None:
        """Close for writing after all bytes are sent; the server still reads."""
        if not self._transport.is_closing():
            self._transport.write_eof()

    # --- lines

    @property
    def _n_pending(self) -> int:
        return self._session.n_pending if self._session is not None else 0

    @property
    def _is_subscribed(self) -> bool:
        return self._session is not None and self._session.is_subscribed

    @property
    def _is_busy(self) -> bool:
        """True while requests are being answered, or notifications may be sent."""
        if self._http is not None:
            return self._http.is_busy or self._http.has_input
        return bool(self._unprocessed or self._n_pending or self._is_subscribed)

    def _may_process(self) -> bool:
        if self._http is not None:
            return self._is_writable and not self._http.is_busy
        return self._is_writable and self._n_pending < self._context.limits.max_pending_per_client

    def _add_lines(self, lines: Iterable[bytes | TooLong]) -> None:
        arrived_s = self._context.loop.time()
        self._unprocessed.extend((arrived_s, line) for line in lines)

    # Long reads in threads pause until the event loop has sent the answers.
    @short_read()
    def _process_turn(self) -> None:
        """Process lines for at most `TURN_S`, or one request of HTTP."""
        if self._http is not None:
            self._serve_http(self._http, b"")
            return
        time, unprocessed = self._context.loop.time, self._unprocessed
        self.active_at_s = time()
        until_s = self.active_at_s + TURN_S
        while unprocessed and self._may_process():
            self._process(*unprocessed.popleft())
            if time() > until_s:
                break
        self._continue()

    def _process(self, arrived_s: float, item: _Item) -> None:
        assert self._dispatcher is not None  # the server reads from admitted clients only
        if isinstance(item, bytes):
            message = self._parse_line(item)
            if isinstance(message, Batch):
                batch = BatchReply(len(message.items), self._send_batch)
                self._unprocessed.extendleft(
                    (arrived_s, (part, batch)) for part in reversed(message.items)
                )
            else:
                assert not isinstance(message, McpLine)
                self._dispatcher.dispatch(message, arrived_s=arrived_s)
        elif isinstance(item, TooLong):
            limit = self._context.limits.max_line_bytes
            hint = "send it in parts, or raise max_line_bytes under [socket]"
            error = TooLarge(f"the request is over {limit} bytes", hint=hint)
            self._dispatcher.dispatch(Fault(describe_error(error)), arrived_s=arrived_s)
        else:
            self._dispatcher.dispatch(*item, arrived_s=arrived_s)

    def _parse_line(self, line: bytes) -> RpcRequest | Fault | Batch | McpLine:
        """Parse a line. The first line of MCP makes the connection one of MCP."""
        if self._mcp is None:
            message = self._context.parser.parse_line(line)
            if not isinstance(message, McpLine):
                return message
            assert self._session is not None
            assert self._dispatcher is not None
            # Imported with the first such line, because many daemons never need it.
            from memsyncd.server.mcp import McpConnection

            self._mcp = McpConnection(self._context, self._session, self._dispatcher)
        return self._mcp.parser.parse_line(line)

    def _continue(self) -> None:
        self._flush()
        self.update()

    def update(self) -> None:
        """Schedule lines that were read, pause or resume reading, or close."""
        if self._transport.is_closing():
            return
        may_process = self._may_process()
        has_input = bool(self._unprocessed) if self._http is None else self._http.has_input
        if has_input and may_process:
            self._context.lines.add(self)
        # While a request by HTTP is answered, reading goes on, so that it shows if the client
        # leaves.
        may_read = may_process if self._http is None else self._is_writable
        if self._has_ended:
            self._close_if_done()
        elif self._is_paused != (has_input or not may_read):
            self._is_paused = not self._is_paused
            if self._is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
        self._arm_peer_check()

    def _close_if_done(self) -> None:
        if not self._is_busy:
            self.close()

    # --- writing

    def _send_later(self, answer: bytes) -> None:
        self._out.append(answer)

    def _send_batch(self, answers: list[bytes]) -> None:
        if answers:
            self._send_later(encode_batch(answers))

    def _flush(self) -> None:
        if self._out:
            data = join_lines(self._out)
            self._out.clear()
            self.write(data)

    def _send_now(self, line: bytes) -> bool:
        if self._http is not None:
            return False  # a stream sends its notifications, as events
        self._flush()
        return self.write(line + b"\n")

    def write(self, data: bytes) -> bool:
        """Send bytes. False if the client is gone, or is dropped now because it leaves too much
        unread.
        """
        transport = self._transport
        if transport.is_closing():
            return False
        if transport.get_write_buffer_size() > self._context.limits.max_write_buffer_bytes:
            self.drop("it leaves too much unread")
            return False
        transport.write(data)
        self._check_buffers()
        return not transport.is_closing()

    def _check_buffers(self) -> None:
        if self.n_buffered_bytes > LARGE_BUFFER_BYTES:
            self._context.on_large_buffer()

    # --- timers: a timer runs only while something is unfinished

    def arm(self, name: str, after_s: float, callback: Callable[[], None]) -> None:
        """Call back after this time, unless it is 0. A timer of the same name is replaced."""
        self.disarm(name)
        if after_s:
            self._timers[name] = self._context.loop.call_later(after_s, callback)

    def disarm(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _arm_request_timer(self, *, is_inside: bool, again: bool) -> None:
        """Limit the time of an unfinished request; `again` if an earlier request has just ended."""
        if not is_inside or self._transport.is_closing():
            self.disarm("line")
        elif again or "line" not in self._timers:
            self.arm("line", self._context.limits.line_timeout_s, self._on_unfinished)

    def _on_unfinished(self) -> None:
        timeout_s = self._context.limits.line_timeout_s
        if self._is_paused:  # the rest may wait in the socket, from which the server does not read
            self.arm("line", timeout_s, self._on_unfinished)
            return
        self._context.counters.dropped += 1
        message = f"the request was not finished within {timeout_s:g} s"
        if self._http is not None:
            self._context.on_drop("it does not finish its request")
            self._http.time_out(message)
            return
        self._context.on_drop("it does not finish its line")
        self.refuse(BadRequest(message, hint="end each request with a newline"))

    def _arm_peer_check(self) -> None:
        # While asyncio reads from the socket, it reports that the client is gone.
        is_unread = self._has_ended or self._is_paused
        is_waiting = self._n_pending if self._http is None else self._http.is_busy
        if not is_waiting or not is_unread or self._transport.is_closing():
            self.disarm("peer")
        elif "peer" not in self._timers:
            self.arm("peer", PEER_CHECK_S, self._check_peer)

    def _check_peer(self) -> None:
        self.disarm("peer")
        if has_hung_up(self._transport.get_extra_info("socket")):
            self.abort()
        else:
            self._arm_peer_check()

    def _on_unread(self) -> None:
        n_unsent_bytes = self._transport.get_write_buffer_size()
        if n_unsent_bytes >= self._n_unsent_bytes:
            self.drop("it does not read")
        else:
            self._n_unsent_bytes = n_unsent_bytes
            self.arm("write", self._context.limits.write_timeout_s, self._on_unread)

    def _on_idle(self) -> None:
        timeout_s, is_busy = self._idle_s, self._is_busy
        quiet_s = self._context.loop.time() - self.active_at_s
        if is_busy or quiet_s < timeout_s:
            self.arm("idle", timeout_s if is_busy else timeout_s - quiet_s, self._on_idle)
        else:
            self.close()


# --- the server -----------------------------------------------------------------------------------


SILENT_S = 0.5
"""How long a new client may send nothing before another client can replace it."""
FLUSH_S = 1.0
"""How long clients have to read their answers when the server stops."""


class Server:
    """Serves one socket on the running loop. It cannot be started again after `stop`.

    `dispatch` returns a result, or an awaitable that then runs as a task; it raises MemsyncdError
    to refuse a request. At most `max_running` tasks run at once; tasks of `waiting_methods` do not
    count, because they mostly wait. `marks_instructions` says whether text that tries to instruct
    an agent is marked, `is_watching` whether events tell of saves. `note_answer` notes an answer to
    an agent in the workspace with this id.

    Callbacks: `on_answer` gets each request that has ended; then the function is called that
    `after_methods` has for its method. `on_error` gets an exception from outside of requests and
    the place where it was raised. `on_refuse` and `on_drop` get the reason.
    """

    def __init__(  # noqa: PLR0913 - its settings and its callbacks
        self,
        dispatch: Dispatch,
        limits: Limits,
        *,
        on_answer: Callable[[CompletedRequest], None],
        after_methods: Mapping[str, Callable[[], None]],
        on_error: Callable[[Exception, str], None],
        on_refuse: Callable[[str], None],
        on_drop: Callable[[str], None],
        waiting_methods: frozenset[str],
        marks_instructions: Callable[[], bool],
        is_watching: Callable[[], bool],
        note_answer: Callable[[str, AgentAnswer], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.counters = ServerCounters()
        self._on_refuse = on_refuse
        self._ids = itertools.count(1)
        self._connections: dict[Connection, None] = {}  # the oldest first
        self._is_empty = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._port_listener: asyncio.Server | None = None
        self._routes: HttpRoutes | None = None
        self._context = ServerContext(
            dispatch=dispatch,
            limits=limits,
            counters=self.counters,
            parser=MessageParser(),
            queue=RequestQueue(limits.max_running),
            lines=LineScheduler(loop),
            loop=loop,
            on_answer=on_answer,
            after_methods=after_methods,
            on_error=on_error,
            on_drop=on_drop,
            on_large_buffer=self._limit_buffers,
            waiting_methods=waiting_methods,
            marks_instructions=marks_instructions,
            is_watching=is_watching,
            note_answer=note_answer,
        )

    @property
    def n_clients(self) -> int:
        return len(self._connections)

    @property
    def n_running(self) -> int:
        """Requests that run as tasks now."""
        return len(self._context.tasks)

    @property
    def n_waiting(self) -> int:
        """Requests that wait for a free task."""
        return self._context.queue.n_waiting

    @property
    def n_buffered_bytes(self) -> int:
        """Unfinished lines and unread answers of all clients."""
        return sum(connection.n_buffered_bytes for connection in self._connections)

    async def start(self, sock: socket.socket) -> None:
        """Accept clients on this bound Unix socket, and no more on an earlier one.

        The server closes the socket, but does not remove its file.
        """
        sock.settimeout(0)
        # From Python 3.13 on, asyncio would remove the file even if it is not ours any more.
        options: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        if self._listener is not None:
            self._listener.close()
        self._listener = await self._context.loop.create_unix_server(
            lambda: self._make_connection(self._admit), sock=sock, backlog=BACKLOG, **options
        )

    async def start_port(self, sock: socket.socket, access: Access) -> None:
        """Accept clients by HTTP on this bound TCP socket as well. The server closes the socket."""
        sock.settimeout(0)
        self._port_listener = await self._context.loop.create_server(
            lambda: self._make_connection(self._admit_by_token, access),
            sock=sock,
            backlog=BACKLOG,
        )

    def make_panel_token(self) -> str:
        """Return a token that opens the panel once."""
        return self._find_routes().make_panel_token()

    def _find_routes(self) -> HttpRoutes:
        if self._routes is None:
            # Imported with the first request by HTTP, because most daemons never need it.
            from memsyncd.server.http_routes import HttpRoutes

            self._routes = HttpRoutes(self._context)
        return self._routes

    async def stop(self, grace_s: float = 5.0) -> None:
        """Accept no more clients, give running requests `grace_s`, close every connection.

        Waiting requests, and requests that are not done in time, are refused with ShuttingDown.
        """
        self._context.is_stopping = True
        both = (self._listener, self._port_listener)
        listeners = [listener for listener in both if listener is not None]
        for listener in listeners:
            listener.close()
        await self._finish_tasks(grace_s)
        if self._routes is not None:
            self._routes.close()
        for connection in tuple(self._connections):
            connection.close()
        if self._connections:
            self._is_empty.clear()
            try:
                await asyncio.wait_for(self._is_empty.wait(), FLUSH_S)
            except TimeoutError:
                for connection in tuple(self._connections):
                    connection.abort()
                await self._is_empty.wait()
        for listener in listeners:
            # From Python 3.12 on, this also waits for connections that were just refused.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(listener.wait_closed(), FLUSH_S)

    async def _finish_tasks(self, grace_s: float) -> None:
        context = self._context
        context.queue.clear_all()
        if context.tasks:
            await asyncio.wait(tuple(context.tasks), timeout=grace_s)
        if context.tasks:
            for task in tuple(context.tasks):
                task.cancel()
            await asyncio.wait(tuple(context.tasks), timeout=FLUSH_S)
        # Lets the callbacks of the last tasks send their answers.
        await asyncio.sleep(0)

    def _make_connection(self, admit: Admit, access: Access | None = None) -> Connection:
        return Connection(
            self._context,
            admit=admit,
            on_lost=self._remove,
            find_routes=self._find_routes,
            access=access,
        )

    def _admit(
        self,
        connection: Connection,
        transport: asyncio.Transport,
        send: Callable[[bytes], bool],
    ) -> Session | None:
        try:
            uid, pid = read_peer(transport.get_extra_info("socket"))
        except OSError as failure:
            cause = failure.strerror or failure
            self._close_silently(transport, f"the system does not report its user: {cause}")
            return None
        if not is_own_user(uid):
            self._close_silently(transport, f"it belongs to user {uid}")
            return None
        return self._admit_client(connection, pid, send)

    def _admit_by_token(
        self,
        connection: Connection,
        _transport: asyncio.Transport,
        send: Callable[[bytes], bool],
    ) -> Session | None:
        """Admit a client of the port; each of its requests must prove by itself who it is."""
        return self._admit_client(connection, 0, send)

    def _admit_client(
        self, connection: Connection, pid: int, send: Callable[[bytes], bool]
    ) -> Session | None:
        if self._context.is_stopping:
            hint = "try again in a moment"
            connection.refuse(ShuttingDown("the daemon is stopping", hint=hint))
            return None
        if self.n_clients >= self._context.limits.max_clients and not self._drop_silent():
            self._report_refused("too many clients")
            message = f"{self.n_clients} clients are connected, no more are allowed"
            hint = "close some, or raise max_clients under [socket]"
            connection.refuse(Busy(message, hint=hint))
            return None
        self._connections[connection] = None
        self.counters.accepted += 1
        return Session(session_id=next(self._ids), peer_pid=pid, send=send)

    def _drop_silent(self) -> bool:
        """Drop the oldest expendable connection; False if there is none."""
        latest_s = self._context.loop.time() - SILENT_S
        for connection in self._connections:
            if connection.opened_at_s <= latest_s and connection.is_expendable:
                connection.drop("it sends no request and others wait")
                self._remove(connection)
                return True
        return False

    def _limit_buffers(self) -> None:
        """Drop the clients with the largest buffers while all buffers exceed the limit."""
        while self.n_buffered_bytes > self._context.limits.max_buffered_bytes:
            largest = max(self._connections, key=lambda connection: connection.n_buffered_bytes)
            largest.drop("clients leave too much unread or unfinished, and this one the most")
            self._remove(largest)

    def _close_silently(self, transport: asyncio.Transport, reason: str) -> None:
        # No byte is sent, so other users do not learn that a daemon is here.
        self._report_refused(reason)
        transport.abort()

    def _report_refused(self, reason: str) -> None:
        self.counters.refused += 1
        self._on_refuse(reason)

    def _remove(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._is_empty.set()
