"""What handlers know of a client and of the request that is being carried out.

Who the client is, how to tell it something unasked, when it asked, and when it is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import msgspec

from memsyncd.core.fairqueue import Flow
from memsyncd.protocol.fields import Params
from memsyncd.protocol.jsonrpc import encode_notification


class Session:
    """One client. It lives as long as its connection; handlers may keep it as a key."""

    __slots__ = ("_closers", "_tell", "client", "id", "is_listening", "is_open", "n_pending", "peer_pid", "reads")

    def __init__(self, *, session_id: int, peer_pid: int, tell: Callable[[bytes], bool]) -> None:
        self._tell = tell
        self._closers: list[Callable[[], None]] = []
        self.id = session_id
        self.peer_pid = peer_pid
        self.client = ""
        """What the client calls itself, if it said."""
        self.is_open = True
        self.n_pending = 0
        """Requests that wait or run."""
        self.reads: Flow[Any] = Flow()
        """Its reads that wait for a thread, and how long they have taken of late."""
        self.is_listening = False
        """A handler sets this while notifications may come: then a client that asks nothing more is not closed."""

    @property
    def name(self) -> str:
        """What the client calls itself, else which process it is."""
        return self.client or f"pid {self.peer_pid}"

    def notify(self, method: str, params: msgspec.Struct) -> bool:
        """Send a notification. False if the client is gone, or is dropped by this because it leaves too much unread."""
        return self.send_line(encode_notification(method, params))

    def send_line(self, line: bytes) -> bool:
        """As `notify`, with a line of `encode_notification` that was made once for many clients."""
        return self.is_open and self._tell(line)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Have this called once when the client is gone: now, if it is already."""
        if self.is_open:
            self._closers.append(callback)
        else:
            callback()

    def take_closers(self) -> list[Callable[[], None]]:
        """For the connection, once, when it is lost: what is to be called then, the latest first."""
        self.is_open = False
        closers, self._closers = self._closers, []
        return closers[::-1]


class RequestOrigin(NamedTuple):
    """Who asked, and when the request arrived, by the loop's clock: its time counts from there."""

    session: Session
    arrived_s: float


current_request: ContextVar[RequestOrigin | None] = ContextVar("current_request", default=None)
"""The request that is being carried out, in its dispatch and in its task."""


Outcome = msgspec.Struct | Awaitable[msgspec.Struct]
Dispatch = Callable[[Session, str, Params], Outcome]
"""Carries out one method for one client: gives its result, or something to await for it. Raises MemsyncdError to refuse."""
