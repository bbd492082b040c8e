"""The client and the request that a handler works for.

A session identifies the client, sends it notifications, and reports when it is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import msgspec

from memsyncd.core.scheduling import Flow
from memsyncd.protocol.fields import Params
from memsyncd.protocol.jsonrpc import encode_notification


class Session:
    """One client, for as long as its connection is open. Handlers may use it as a key."""

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
        """Requests that wait or run."""
        self.reads: Flow[Any] = Flow()
        """Its reads that wait for a query thread, and how long its reads take."""
        self.is_subscribed = False
        """Set by a handler while it may send notifications: an idle client is not closed then."""
        self.translate: Callable[[str, msgspec.Struct], None] | None = None
        """Sends the notifications of a client that speaks another protocol."""

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
        """As `notify`, with a line that `encode_notification` made once for many clients."""
        return self.is_open and self._send(line)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the client is gone; now if it is gone already."""
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
    """The client that sent a request, and when it arrived by the loop's clock.

    The time limit of a request counts from its arrival.
    """

    session: Session
    arrived_s: float


current_request: ContextVar[RequestOrigin | None] = ContextVar("current_request", default=None)
"""The request that is being carried out, in its dispatch and in its task."""


Outcome = msgspec.Struct | Awaitable[msgspec.Struct]
Dispatch = Callable[[Session, str, Params], Outcome]
"""Carries out one method for one client: returns its result, or an awaitable for it.

Raises MemsyncdError to refuse the request.
"""
