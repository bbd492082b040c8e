"""Sessions: the client that a handler works for, its identity and its limits.

A session identifies the client, sends it notifications, and reports when the client is gone.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import msgspec

from memsyncd.config import SocketConfig
from memsyncd.core.turns import Flow
from memsyncd.operations.fields import Params
from memsyncd.protocol.jsonrpc import encode_notification

# --- The peer of a Unix socket --------------------------------------------------------------------

_UCRED = struct.Struct("3i")  # Linux: pid, uid, gid
_XUCRED = struct.Struct("=2I")  # macOS: version, uid; the rest is not used
_XUCRED_BYTES = 76
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2


class PeerSocket(Protocol):
    """The methods of asyncio's TransportSocket that are used here."""

    def fileno(self) -> int: ...

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def read_peer(sock: PeerSocket) -> tuple[int, int]:
    """Return the uid and pid of the peer, from the kernel.

    Raises OSError if the kernel does not report them: then the peer must not be trusted.
    """
    if sys.platform == "darwin":
        credentials = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)
        uid = _XUCRED.unpack_from(credentials)[1]
        pid = struct.unpack("i", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))[0]
    else:
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        pid, uid, _ = _UCRED.unpack(credentials)
    return uid, pid


def is_own_user(uid: int) -> bool:
    """True for the user of this process. Root is no exception: it can become that user."""
    return uid == os.geteuid()


def has_hung_up(sock: PeerSocket) -> bool:
    """True if a peer that sends no more does not read either, so that no answer can reach it."""
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    closed = select.POLLHUP | select.POLLERR | select.POLLNVAL
    return any(events & closed for _, events in poll.poll(0))


# --- Sessions and requests ------------------------------------------------------------------------


class Session:
    """One client while its connection is open. Handlers may use a session as a key."""

    __slots__ = (
        "_callbacks",
        "_send",
        "client",
        "id",
        "is_open",
        "is_subscribed",
        "n_pending",
        "peer_pid",
        "reads",
        "translate",
    )

    def __init__(self, *, session_id: int, peer_pid: int, send: Callable[[bytes], bool]) -> None:
        self._send = send
        self._callbacks: list[Callable[[], None]] = []
        self.id = session_id
        self.peer_pid = peer_pid
        self.client = ""
        """The name that the client gives itself; empty if it gives none."""
        self.is_open = True
        self.n_pending = 0
        """Number of requests that wait or run."""
        self.reads: Flow[Any] = Flow()
        """Reads that wait for a query thread, and the usual time of this client's reads."""
        self.is_subscribed = False
        """A handler sets it while it may send notifications; an idle client is not closed then."""
        self.translate: Callable[[str, msgspec.Struct], None] | None = None
        """Sends notifications in the client's protocol, if that is not JSON-RPC."""

    @property
    def name(self) -> str:
        """The name that the client gives itself, else its process id."""
        return self.client or f"pid {self.peer_pid}"

    def notify(self, method: str, params: msgspec.Struct) -> bool:
        """Send a notification.

        False if the client is gone, or is dropped now because it leaves too much unread.
        """
        if self.translate is not None:
            self.translate(method, params)
            return self.is_open
        return self.send_line(encode_notification(method, params))

    def send_line(self, line: bytes) -> bool:
        """Like `notify`, for a line that was encoded once for many clients."""
        return self.is_open and self._send(line)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the client is gone; at once if it is gone already."""
        if self.is_open:
            self._callbacks.append(callback)
        else:
            callback()

    def close(self) -> list[Callable[[], None]]:
        """Mark the client as gone; return the callbacks to call, the latest first."""
        self.is_open = False
        callbacks, self._callbacks = self._callbacks, []
        return callbacks[::-1]


class RequestOrigin(NamedTuple):
    """The client of a request, and the request's arrival in seconds of the loop's clock.

    The time limit of a request counts from its arrival.
    """

    session: Session
    arrived_s: float


current_request: ContextVar[RequestOrigin | None] = ContextVar("current_request", default=None)
"""The request that is being carried out; set during its dispatch and in its task."""


Outcome = msgspec.Struct | Awaitable[msgspec.Struct]
Dispatch = Callable[[Session, str, Params], Outcome]
"""Carries out one method for one client and returns its result, or an awaitable for it.

Raises MemsyncdError to refuse the request.
"""
MethodCall = Callable[[Session, Any], Outcome]
"""Carries out one method; like `Dispatch`, without the name of the method."""
InThread = Callable[..., Awaitable[Any]]
"""Runs a function on a query thread: `Reads.run`."""


# --- Limits ---------------------------------------------------------------------------------------


class Limits(SocketConfig, frozen=True, kw_only=True):
    """Limits for one client and for all clients together: the configured ones, and the ones below,
    which have no key. A time of 0 s means no limit.
    """

    # Unanswered requests of one client; when there are so many, its further lines wait unread.
    max_pending_per_client: int = 32
    max_reply_bytes: int = 8 * 1024 * 1024
    # Unfinished lines and unread answers of all clients; beyond it, the client with most is
    # dropped.
    max_buffered_bytes: int = 64 * 1024 * 1024
    # How long a client may read nothing of a full buffer.
    write_timeout_s: float = 30.0
