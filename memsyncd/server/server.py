"""Serves the daemon's Unix socket: admits clients of this user, at most `max_clients` at once.

A loopback port may be served beside it: there, each request must have the token.

`Server` gets a listening socket (from `listen`) and a `dispatch`, which carries out the methods.
When all places are taken, a new client replaces the oldest connection that has sent no request.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from memsyncd.errors import Busy, ShuttingDown
from memsyncd.protocol.jsonrpc import MessageParser
from memsyncd.protocol.methods import METHODS, Method
from memsyncd.server.connection import Connection
from memsyncd.server.listen import BACKLOG
from memsyncd.server.requests import (
    CompletedRequest,
    LineScheduler,
    RequestQueue,
    ServerContext,
    ServerCounters,
)
from memsyncd.server.session import Dispatch, Limits, Session, is_own_user, read_peer

if TYPE_CHECKING:
    from memsyncd.protocol.http import Access

SILENT_S = 0.5
"""How long a new client may send nothing before another one can replace it."""
FLUSH_S = 1.0
"""How long clients have, at the end, to read their answers."""
NO_CALLS: Mapping[str, Callable[[], None]] = {}


def _ignore(_event: object) -> None:
    pass


class Server:
    """Serves one socket on the running loop. It cannot be started again after `stop`.

    `dispatch` returns a result, or an awaitable for one, which then runs as a task, at most
    `max_running` of them; it raises MemsyncdError to refuse. `waiting_methods` mostly wait, so
    their tasks do not count. `marks_instructions` says whether text that tries to instruct an agent
    is marked. `on_answer` is called with each request that has ended, and then what `after_methods`
    has for its method; `on_error` with an exception outside of requests and the place where it was
    raised; `on_refuse` and `on_drop` with the reason.
    """

    def __init__(  # noqa: PLR0913 - all but two are optional
        self,
        dispatch: Dispatch,
        limits: Limits | None = None,
        *,
        on_answer: Callable[[CompletedRequest], None] = _ignore,
        after_methods: Mapping[str, Callable[[], None]] = NO_CALLS,
        on_error: Callable[[Exception, str], None],
        on_refuse: Callable[[str], None] = _ignore,
        on_drop: Callable[[str], None] = _ignore,
        waiting_methods: frozenset[str] = frozenset(),
        marks_instructions: Callable[[], bool] = lambda: True,
        methods: Mapping[str, Method] = METHODS,
    ) -> None:
        limits, loop = limits or Limits(), asyncio.get_running_loop()
        self.counters = ServerCounters()
        self._on_refuse = on_refuse
        self._ids = itertools.count(1)
        self._connections: dict[Connection, None] = {}  # the oldest first
        self._is_empty = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._port_listener: asyncio.Server | None = None
        self._context = ServerContext(
            dispatch=dispatch,
            limits=limits,
            counters=self.counters,
            parser=MessageParser(methods),
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
        """Accept clients on this bound Unix socket, and no longer on an earlier one.

        The server closes the socket, but does not remove its file.
        """
        sock.settimeout(0)
        # From 3.13 on asyncio would remove the file, without a check whether it is still ours.
        options: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        if self._listener is not None:
            self._listener.close()
        self._listener = await self._context.loop.create_unix_server(
            self._make_connection, sock=sock, backlog=BACKLOG, **options
        )

    async def start_port(self, sock: socket.socket, access: Access) -> None:
        """Accept clients by HTTP on this bound TCP socket as well. The server closes the socket."""
        sock.settimeout(0)
        self._port_listener = await self._context.loop.create_server(
            lambda: Connection(
                self._context, admit=self._admit_by_token, on_lost=self._remove, access=access
            ),
            sock=sock,
            backlog=BACKLOG,
        )

    def make_panel_token(self) -> str:
        """Return a token that opens the panel once."""
        from memsyncd.server.panel import OneTimeTokens

        tokens = self._context.one_time_tokens or OneTimeTokens(self._context.loop.time)
        self._context.one_time_tokens = tokens
        return tokens.make()

    async def stop(self, grace_s: float = 5.0) -> None:
        """Accept no more clients, give running requests `grace_s`, close every connection.

        Requests that wait, and those that are not done in time, are refused with ShuttingDown.
        """
        self._context.is_stopping = True
        listeners = [one for one in (self._listener, self._port_listener) if one is not None]
        for listener in listeners:
            listener.close()
        await self._finish_tasks(grace_s)
        if self._context.mcp_sessions is not None:
            self._context.mcp_sessions.close()
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
            # From 3.12 on this waits for connections that were just refused, too.
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
        # The callbacks of tasks that ended just now send their answers.
        await asyncio.sleep(0)

    def _make_connection(self) -> Connection:
        return Connection(self._context, admit=self._admit, on_lost=self._remove)

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
        """Admit a client of the port: who it is shows with each of its requests."""
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
        # Without a byte: other users do not learn that a daemon is here.
        self._report_refused(reason)
        transport.abort()

    def _report_refused(self, reason: str) -> None:
        self.counters.refused += 1
        self._on_refuse(reason)

    def _remove(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._is_empty.set()
