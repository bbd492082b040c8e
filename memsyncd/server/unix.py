"""Who may be a client of the daemon's socket? The user it runs as, and no more at once than `max_clients`.

`Server` takes a listening socket (from `sockets`) and a `dispatch`, which carries methods out. Newcomers who find no room take
the place of a connection that has never asked anything, if there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from memsyncd.errors import Busy, ShuttingDown
from memsyncd.protocol.jsonrpc import MessageParser
from memsyncd.protocol.methods import METHODS, Method
from memsyncd.server.answers import Service
from memsyncd.server.connection import Connection
from memsyncd.server.counts import Answered, Counts
from memsyncd.server.limits import Backlog, Limits, Turns
from memsyncd.server.peer import is_own_user, read_peer
from memsyncd.server.session import Dispatch, Outcome, Session
from memsyncd.server.sockets import BACKLOG

__all__ = ["Answered", "Counts", "Dispatch", "Limits", "Outcome", "Server", "Session"]

SILENT_S = 0.5
"""A newcomer's time to ask something before its place may be given to another."""
FLUSH_S = 1.0
"""At the end, how long clients have to read the answers they got."""


def _ignore(_told: object) -> None:
    pass


class Server:
    """Serves one socket on the running loop. Not reusable: once stopped, make another.

    `dispatch` gives a result, or an awaitable for one, which then runs as a task, at most `max_running` of them; it raises
    MemsyncdError to refuse. Methods in `waiting_methods` mostly wait, and take no place among those running. `on_answer` hears
    of every request that has ended, `on_error` of what fails outside any, with a word for where; `on_refuse` and `on_drop` of
    the reason.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        limits: Limits | None = None,
        *,
        on_answer: Callable[[Answered], None] = _ignore,
        on_error: Callable[[Exception, str], None],
        on_refuse: Callable[[str], None] = _ignore,
        on_drop: Callable[[str], None] = _ignore,
        waiting_methods: frozenset[str] = frozenset(),
        methods: Mapping[str, Method] = METHODS,
    ) -> None:
        limits, loop = limits or Limits(), asyncio.get_running_loop()
        self.counts = Counts()
        self._on_refuse = on_refuse
        self._ids = itertools.count(1)
        self._connections: dict[Connection, None] = {}  # the oldest first
        self._empty = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._service = Service(
            dispatch=dispatch,
            limits=limits,
            counts=self.counts,
            parser=MessageParser(methods),
            turns=Turns(limits.max_running),
            backlog=Backlog(loop),
            loop=loop,
            on_answer=on_answer,
            on_error=on_error,
            on_drop=on_drop,
            on_held=self._drop_most_held,
            waiting_methods=waiting_methods,
        )

    @property
    def n_clients(self) -> int:
        return len(self._connections)

    @property
    def n_running(self) -> int:
        """Requests that run as tasks now; those that wait for their turn are not among them."""
        return len(self._service.tasks)

    @property
    def n_waiting(self) -> int:
        """Requests that wait for their turn to run."""
        return self._service.turns.n_waiting

    @property
    def n_held_bytes(self) -> int:
        """Unfinished lines and unread answers of all clients."""
        return sum(connection.n_held_bytes for connection in self._connections)

    async def start(self, sock: socket.socket) -> None:
        """Accept on this bound Unix socket, and no longer on an earlier one. It is the server's from now on; its file is not."""
        sock.settimeout(0)
        # From 3.13 on asyncio would remove the file itself, and does not know whether it is still ours.
        options: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        if self._listener is not None:
            self._listener.close()
        self._listener = await self._service.loop.create_unix_server(self._connect, sock=sock, backlog=BACKLOG, **options)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Accept nobody, let what runs finish for `grace_s`, refuse the rest as shutting down, close every connection."""
        self._service.is_stopping = True
        if self._listener is not None:
            self._listener.close()
        await self._finish_tasks(grace_s)
        for connection in tuple(self._connections):
            connection.close()
        if self._connections:
            self._empty.clear()
            try:
                await asyncio.wait_for(self._empty.wait(), FLUSH_S)
            except TimeoutError:
                for connection in tuple(self._connections):
                    connection.abort()
                await self._empty.wait()
        if self._listener is not None:
            with contextlib.suppress(TimeoutError):  # from 3.12 on this waits for those just refused, too
                await asyncio.wait_for(self._listener.wait_closed(), FLUSH_S)

    async def _finish_tasks(self, grace_s: float) -> None:
        service = self._service
        service.turns.forget_all()
        if service.tasks:
            await asyncio.wait(tuple(service.tasks), timeout=grace_s)
        if service.tasks:
            for task in tuple(service.tasks):
                task.cancel()
            await asyncio.wait(tuple(service.tasks), timeout=FLUSH_S)
        await asyncio.sleep(0)  # what was done at the very end is answered by callbacks that are still due

    def _connect(self) -> Connection:
        return Connection(self._service, admit=self._admit, leave=self._leave)

    def _admit(self, connection: Connection, transport: asyncio.Transport, tell: Callable[[bytes], bool]) -> Session | None:
        try:
            uid, pid = read_peer(transport.get_extra_info("socket"))
        except OSError as failure:
            self._send_away(transport, f"the system does not say whose it is: {failure.strerror or failure}")
            return None
        if not is_own_user(uid):
            self._send_away(transport, f"it belongs to user {uid}")
            return None
        if self._service.is_stopping:
            connection.refuse(ShuttingDown("the daemon is stopping", hint="try again in a moment"))
            return None
        if len(self._connections) >= self._service.limits.max_clients and not self._make_room():
            self._refuse("too many clients")
            hint = "close some, or raise max_clients under [socket]"
            connection.refuse(Busy(f"{len(self._connections)} clients are connected, no more are allowed", hint=hint))
            return None
        self._connections[connection] = None
        self.counts.accepted += 1
        return Session(session_id=next(self._ids), peer_pid=pid, tell=tell)

    def _make_room(self) -> bool:
        """Drop the oldest connection that nobody would miss; False if there is none."""
        latest_s = self._service.loop.time() - SILENT_S
        for connection in self._connections:
            if connection.opened_at_s <= latest_s and connection.is_expendable:
                connection.drop("it asks nothing and others wait")
                self._leave(connection)
                return True
        return False

    def _drop_most_held(self) -> None:
        """See to it that all clients together hold no more than is allowed."""
        while self.n_held_bytes > self._service.limits.max_held_bytes:
            greediest = max(self._connections, key=lambda connection: connection.n_held_bytes)
            greediest.drop("all clients together leave too much unread or unfinished, and it most")
            self._leave(greediest)

    def _send_away(self, transport: asyncio.Transport, reason: str) -> None:
        """Close without a byte: nobody else learns even that a daemon is here."""
        self._refuse(reason)
        transport.abort()

    def _refuse(self, reason: str) -> None:
        self.counts.refused += 1
        self._on_refuse(reason)

    def _leave(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._empty.set()
