"""Reads requests of HTTP/1.1 from one connection and writes responses, one request at a time.

h11 frames the bytes, `protocol.http` checks what they say, and `http_routes` carries requests out.
Each message goes through the dispatcher of the connection, so HTTP has the same limits, fair order
and counters as JSON-RPC. While a request is being answered, later bytes wait unread. When a client
is refused before its body has arrived whole, the server reads on for a moment; otherwise the client
would lose the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

import h11
import msgspec

from memsyncd.errors import BadRequest, MemsyncdError, TooLarge
from memsyncd.protocol import http
from memsyncd.protocol.http import HttpRefusal, HttpRoute, Response
from memsyncd.protocol.jsonrpc import Batch, Fault, RpcRequest, describe_error
from memsyncd.server.requests import BatchReply, RequestDispatcher, ServerContext
from memsyncd.server.session import Session

if TYPE_CHECKING:
    from memsyncd.protocol.http import Access

KEEP_ALIVE_S = 120.0
"""How long a connection may stay open without a request."""
EVENTS_ALIVE_S = 15.0
"""How often a stream without events sends a comment, and compares the state of the workspaces."""
LINGER_S = 2.0
"""How long the server reads from a refused client, so that the client gets the answer."""


class HttpOwner(Protocol):
    """The methods of the connection that are used here."""

    def write(self, data: bytes) -> bool: ...

    def update(self) -> None: ...

    def touch(self) -> None: ...

    def end_writing(self) -> None: ...

    def close(self) -> None: ...

    def arm(self, name: str, after_s: float, callback: Callable[[], None]) -> None: ...

    def disarm(self, name: str) -> None: ...


class HttpRequest(msgspec.Struct, kw_only=True):
    """A request: its head, and its body once it has arrived."""

    verb: str
    target: http.RequestTarget
    headers: dict[bytes, bytes]
    route: HttpRoute
    arrived_s: float
    body: bytearray


CarryOutRequest = Callable[["HttpConnection", Session, HttpRequest], None]
"""Starts a request that has arrived whole; its response is sent through the connection."""


class HttpConnection:
    """Reads requests from the bytes of a connection and writes their responses.

    The session and the dispatcher are absent if the client was not admitted.
    """

    def __init__(
        self,
        owner: HttpOwner,
        context: ServerContext,
        session: Session | None,
        dispatcher: RequestDispatcher | None,
        access: Access | None,
        carry_out: CarryOutRequest,
    ) -> None:
        self.access = access
        self._carry_out_request = carry_out
        self._owner = owner
        self._context = context
        self._session = session
        self._dispatcher = dispatcher
        self._framer = h11.Connection(h11.SERVER, max_incomplete_event_size=http.MAX_HEAD_BYTES)
        self._unread = bytearray()
        self._request: HttpRequest | None = None
        self._arrived_s = 0.0
        self._n_checked = 0
        """Number of bytes of an incomplete head that are checked already."""
        self._is_incomplete = self._is_over = False
        self._announces_body = self._is_last = False
        self.is_busy = False
        """True while a request is being answered; later bytes wait."""
        self.on_lost: Callable[[], None] | None = None
        """Called if the client leaves before the end of a response."""
        self.on_finish: Callable[[], None] | None = None
        """Called if the server closes the connection during a stream."""
        if session is not None:
            session.translate = self._ignore_notice

    @property
    def has_input(self) -> bool:
        """True if bytes wait that may hold a request."""
        return bool(self._unread) and not self._is_incomplete and not self._is_over

    @property
    def is_inside_request(self) -> bool:
        """True while a request has begun and has not arrived whole."""
        is_begun = self._request is not None or bool(self._unread)
        return is_begun and not (self.is_busy or self._is_over)

    @property
    def n_held_bytes(self) -> int:
        """Bytes of unfinished and waiting requests."""
        n_body = len(self._request.body) if self._request is not None else 0
        return len(self._unread) + n_body

    # --- called by the connection

    def receive(self, data: bytes) -> bool:
        """Read the next bytes; True if they completed a request."""
        if self._is_over:
            return False
        if not self.is_inside_request:
            self._arrived_s = self._context.loop.time()
        self._unread += data
        self._is_incomplete = False
        return self.process()

    def process(self) -> bool:
        """Carry out the next request if it has arrived whole; True if it has."""
        if self.is_busy or self._is_over or not (self._unread or self._request):
            return False
        try:
            if not (self._read_head() and self._read_body()):
                self._is_incomplete = True
                return False
            self._carry_out()
        except HttpRefusal as refusal:
            self._refuse_request(refusal)
        except h11.RemoteProtocolError as error:
            self._refuse_request(_translate_error(error))
        return True

    def end(self) -> None:
        """The client sends no more: a stream and an unfinished request end."""
        if self._is_over or self.on_finish is not None or self.is_inside_request:
            self._is_over = True
            self._unread.clear()
            self._owner.close()

    def lose(self) -> None:
        """The client is gone."""
        self._is_over = True
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()

    def finish(self) -> None:
        """End a stream: the server is about to close the connection."""
        on_finish, self.on_finish = self.on_finish, None
        if on_finish is not None:
            on_finish()
            self._send(h11.EndOfMessage())
        self._is_over = True

    def refuse(self, error: MemsyncdError) -> None:
        """Refuse a client before its first request."""
        self._is_over = True
        self.respond(http.make_error_response(describe_error(error)))

    def time_out(self, message: str) -> None:
        error = BadRequest(message, hint="send head and body of a request at once")
        self._refuse_request(HttpRefusal(error, 408))

    # --- reading

    def _read_head(self) -> bool:
        """Read the head of a request if it has not been read; False if bytes are missing."""
        if self._request is not None:
            return True
        while not self._n_checked and self._unread.startswith(
            b"\r\n"
        ):  # RFC 9112: empty lines may precede a request
            del self._unread[:2]
        length = http.find_head_end(self._unread, self._n_checked)
        self._n_checked = len(self._unread) if length < 0 else 0
        if length < 0:
            return False
        head = bytes(self._unread[:length])
        del self._unread[:length]
        http.check_head(head)
        self._framer.receive_data(head)
        event = self._framer.next_event()
        assert isinstance(event, h11.Request)
        self._request = self._accept_head(event)
        if self._framer.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
        return True

    def _accept_head(self, event: h11.Request) -> HttpRequest:
        """Check all that the head tells, before any of the body is read."""
        names = {name for name, _ in event.headers}
        self._announces_body = bool(names & {b"content-length", b"transfer-encoding"})
        headers = http.collect_headers(event.headers)
        if event.http_version not in (b"1.0", b"1.1"):
            error = BadRequest("this version of HTTP is not spoken", hint="send HTTP/1.1")
            raise HttpRefusal(error, 505)
        verb = event.method.decode("ascii", "replace")
        target = http.parse_request_target(event.target)
        http.check_access(self.access, headers, target.authority, target.path, time.time())
        expected = headers.get(b"expect", b"100-continue").lower()
        if expected != b"100-continue":
            raise HttpRefusal(BadRequest("the expectation is unknown", hint="omit Expect"), 417)
        route = http.find_route(verb, target.path)
        http.check_query(route, target.query)
        http.check_accept(route, headers.get(b"accept"))
        if route.verb == "POST":
            http.check_content_type(headers.get(b"content-type"))
        self._check_length(int(headers.get(b"content-length", b"0")))
        return HttpRequest(
            verb=verb,
            target=target,
            headers=headers,
            route=route,
            arrived_s=self._arrived_s,
            body=bytearray(),
        )

    @property
    def _has_body(self) -> bool:
        """True once a part of the body was read, or if the head announces one."""
        return self._request is not None or self._announces_body

    def _read_body(self) -> bool:
        """Read the part of the body that has arrived; True at its end."""
        assert self._request is not None
        if self._unread:
            self._framer.receive_data(bytes(self._unread))
            self._unread.clear()
        while True:
            event = self._framer.next_event()
            if event is h11.NEED_DATA:
                return False
            if isinstance(event, h11.Data):
                self._request.body += event.data
                self._check_length(len(self._request.body))
            elif isinstance(event, h11.EndOfMessage):
                # A framer reads one request only, because the next head must be checked first.
                self._unread += self._framer.trailing_data[0]
                return True

    def _check_length(self, n_bytes: int) -> None:
        limit = self._context.limits.max_line_bytes
        if n_bytes > limit:
            hint = "send it in parts, or raise max_line_bytes under [socket]"
            raise HttpRefusal(TooLarge(f"the body is over {limit} bytes", hint=hint))

    # --- carrying out

    def _carry_out(self) -> None:
        request = self._request
        assert request is not None
        assert self._session is not None
        self.is_busy = True
        self._owner.touch()
        agent = request.headers.get(b"user-agent", b"").decode("ascii", "replace")
        self._session.client = agent.partition("/")[0].partition(" ")[0][:64] or "http"
        self._carry_out_request(self, self._session, request)

    def dispatch(
        self, message: RpcRequest | Fault | Batch, on_answers: Callable[[list[bytes]], None]
    ) -> None:
        """Carry out a message or batch; `on_answers` gets the answers, none for notifications."""
        assert self._dispatcher is not None
        items = message.items if isinstance(message, Batch) else (message,)
        reply = BatchReply(len(items), on_answers)
        for item in items:
            self._dispatcher.dispatch(item, reply, arrived_s=self._arrived_s)

    # --- writing

    def respond(self, response: Response) -> None:
        """Send a whole response, then read the next request or close."""
        headers = [*response.headers, ("Content-Length", str(len(response.body)))]
        if response.status == 204:
            headers.pop()
        if response.content_type:
            headers.append(("Content-Type", response.content_type))
        # The unread rest of a request would be read as the next request.
        is_cut = self._is_last or self._framer.their_state in (h11.IDLE, h11.SEND_BODY, h11.ERROR)
        if is_cut:
            headers.append(("Connection", "close"))
        self._begin(response.status, headers, body=response.body)
        self._end_response(is_cut=is_cut)

    def begin_stream(self) -> None:
        """Send the head of a stream of events; `send_data` and `end_stream` follow."""
        self._begin(200, [("Content-Type", http.EVENTS), ("X-Accel-Buffering", "no")])

    @property
    def is_head(self) -> bool:
        return self._request is not None and self._request.verb == "HEAD"

    def send_data(self, data: bytes) -> bool:
        """Send a part of a stream; False if the client is gone, or too slow and dropped now."""
        return not self._is_over and self._send(h11.Data(data=data))

    def arm_alive(self, callback: Callable[[], None]) -> None:
        """Call back when a stream must show that it is alive."""
        self._owner.arm("alive", EVENTS_ALIVE_S, callback)

    def end_stream(self) -> None:
        if not self._is_over:
            self._send(h11.EndOfMessage())
            self._end_response(is_cut=False)

    def _begin(
        self, status: int, headers: list[tuple[str, str]], body: bytes | None = None
    ) -> None:
        head = [*headers, ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]
        reason = HTTPStatus(status).phrase.encode()
        parts = [self._framer.send(h11.Response(status_code=status, headers=head, reason=reason))]
        if body is not None:
            parts.append(b"" if self.is_head else self._framer.send(h11.Data(data=body)))
            parts.append(self._framer.send(h11.EndOfMessage()))
        self._owner.write(b"".join(part for part in parts if part))

    def _send(self, event: h11.Event) -> bool:
        try:
            data = self._framer.send(event)
        except h11.LocalProtocolError:  # the response has ended
            return False
        return not data or self._owner.write(data)

    def _end_response(self, *, is_cut: bool) -> None:
        """Get ready for the next request, or close if this request was the last."""
        self.on_lost = self.on_finish = None
        self.is_busy, self._request = False, None
        self._owner.touch()
        if is_cut:
            # If the socket closed now, a client that still sends would see a broken pipe, no
            # answer.
            self._is_over = True
            self._unread.clear()
            self._owner.end_writing()
            self._owner.arm("linger", LINGER_S, self._owner.close)
        elif self._framer.our_state is not h11.DONE or self._is_over:
            self._is_over = True
            self._owner.close()
        else:
            self._framer = h11.Connection(h11.SERVER, max_incomplete_event_size=http.MAX_HEAD_BYTES)
            self._is_incomplete = False
            self._arrived_s = self._context.loop.time()
            self._owner.update()

    def _refuse_request(self, refusal: HttpRefusal) -> None:
        if self._is_over:
            return
        self.is_busy = True
        if self._framer.their_state is h11.SEND_BODY and not self._has_body:
            self._framer.next_event()  # the end of a request without a body

        # After a malformed request or another protocol, the next bytes cannot be trusted.
        self._is_last = refusal.status in (400, 505)

        def answer(_answers: list[bytes]) -> None:
            if refusal.page:
                self.respond(Response(refusal.status, refusal.page.encode(), http.HTML))
                return
            error = describe_error(refusal.error)
            response = http.make_error_response(
                error, status=refusal.status, headers=refusal.headers
            )
            self.respond(response)

        self.dispatch(Fault(describe_error(refusal.error)), answer)

    @staticmethod
    def _ignore_notice(_method: str, _params: msgspec.Struct) -> None:
        """Send nothing: a client of HTTP gets notifications only as events of a stream."""


def _translate_error(error: h11.RemoteProtocolError) -> HttpRefusal:
    refused = BadRequest(f"this is not a request of HTTP/1.1: {error}"[:300], hint="see RFC 9112")
    status = error.error_status_hint
    return HttpRefusal(refused, status if 400 <= status < 600 else 400)
