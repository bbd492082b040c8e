"""Serves HTTP/1.1 on one connection: one request at a time, each carried out as a call, or as a
stream of server-sent events.

h11 frames the bytes, `protocol.http` decides what they mean, and the requests go to the dispatcher
of the connection, so that limits, fair order and counters are those of JSON-RPC. What follows a
request whose answer is awaited waits unread. A client that is refused in mid-body is still read
from for a moment, because it would lose the answer otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

import h11
import msgspec
from msgspec import UnsetType

from memsyncd import __version__
from memsyncd.errors import BadRequest, MemsyncdError, NotFound, TooLarge
from memsyncd.operations.changes.declare import Changed, Subscribed, UnsubscribeParams
from memsyncd.operations.fields import WorkspaceParams
from memsyncd.operations.signals.declare import SignalNotice
from memsyncd.operations.status.declare import MetricsResult, Status
from memsyncd.operations.status.text import render_metrics
from memsyncd.operations.table import OPERATIONS
from memsyncd.protocol import http, openapi
from memsyncd.protocol.http import HttpRefusal, HttpRoute, Response
from memsyncd.protocol.jsonrpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Batch,
    Fault,
    McpLine,
    RpcRequest,
    describe_error,
    encode_batch,
    make_error_body,
)
from memsyncd.protocol.mcp_tools import render_result
from memsyncd.server.mcp import choose_find_warning
from memsyncd.server.requests import BatchReply, RequestDispatcher, ServerContext
from memsyncd.server.session import Session
from memsyncd.server.subscriptions import ResumeParams

if TYPE_CHECKING:
    from memsyncd.protocol.http import Access

KEEP_ALIVE_S = 120.0
"""How long a connection may stay without a request."""
EVENTS_ALIVE_S = 15.0
"""How often a stream without events sends a comment, and compares the state of the workspaces."""
LINGER_S = 2.0
"""How long a refused client is read from, so that it can read why."""
# Of a body that is no message, or too many.
BAD_MESSAGES = (PARSE_ERROR, INVALID_REQUEST, TooLarge.rpc_code)


class HttpOwner(Protocol):
    """The connection, as far as it is used here."""

    def write(self, data: bytes) -> bool: ...

    def update(self) -> None: ...

    def touch(self) -> None: ...

    def end_writing(self) -> None: ...

    def close(self) -> None: ...

    def arm(self, name: str, after_s: float, callback: Callable[[], None]) -> None: ...

    def disarm(self, name: str) -> None: ...


class HttpReply(BatchReply):
    """Passes the answers to the messages of one request on, once all of them are there."""

    __slots__ = ("_on_answers",)

    def __init__(self, n_messages: int, on_answers: Callable[[list[bytes]], None]) -> None:
        super().__init__(n_messages)
        self._on_answers = on_answers

    def add(self, answer: bytes | None) -> None:
        if self.collect(answer):
            self._on_answers(self._answers)


class HttpRequest(msgspec.Struct, kw_only=True):
    """A request: its head, and its body once it has arrived."""

    verb: str
    target: http.RequestTarget
    headers: dict[bytes, bytes]
    route: HttpRoute
    arrived_s: float
    body: bytearray


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
    ) -> None:
        self._owner = owner
        self._context = context
        self._session = session
        self._dispatcher = dispatcher
        self._access = access
        self._framer = h11.Connection(h11.SERVER, max_incomplete_event_size=http.MAX_HEAD_BYTES)
        self._unread = bytearray()
        self._request: HttpRequest | None = None
        self._arrived_s = 0.0
        self._n_checked = 0
        """Bytes of an incomplete head that were checked."""
        self._is_incomplete = self._is_over = False
        self._announces_body = self._is_last = False
        self.is_busy = False
        """True while a request is being answered; what has arrived after it waits."""
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
        http.check_access(self._access, headers, target.authority, target.path, time.time())
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
        """Read what has arrived of the body; True at its end."""
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
                # A framer reads one request: the head of the next one is checked before it.
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
        route = request.route
        if route.path == "/v1/events":
            EventStream(self, self._context, self._session, request).begin()
        elif route.method:
            self.dispatch(make_call(route, request, self._context), self._answer_call)
        elif route.path == "/rpc":
            self._carry_out_rpc(request)
        elif route.path == "/mcp":
            # Imported with the first agent that comes this way.
            from memsyncd.server.http_mcp import McpExchange

            McpExchange(self, self._context, self._session, request).begin()
        elif route.path.startswith(http.PANEL):
            # Imported with the first page.
            from memsyncd.server import panel

            tokens = self._context.one_time_tokens
            self.respond(
                panel.make_panel_response(request.target, self._access, tokens, time.time())
            )
        elif route.path == "/docs":
            self.respond(openapi.make_page(__version__))
        else:
            self.respond(Response(200, openapi.encode_openapi(__version__), http.JSON))

    def dispatch(
        self, message: RpcRequest | Fault | Batch, on_answers: Callable[[list[bytes]], None]
    ) -> None:
        """Carry out a message; `on_answers` gets the answers of those that have an id."""
        assert self._dispatcher is not None
        items = message.items if isinstance(message, Batch) else (message,)
        reply = HttpReply(len(items), on_answers)
        for item in items:
            self._dispatcher.dispatch(item, reply, arrived_s=self._arrived_s)

    def _answer_call(self, answers: list[bytes]) -> None:
        request = self._request
        assert request is not None
        try:
            response = make_response(answers[0], request.route, self._context)
        except Exception as error:  # noqa: BLE001 - one answer fails one request
            self._context.on_error(error, request.route.method)
            response = http.make_error_response(describe_error(error))
        self.respond(response)

    def _carry_out_rpc(self, request: HttpRequest) -> None:
        message = self._context.parser.parse_line(bytes(request.body))
        if isinstance(message, McpLine):
            hint = "send messages of MCP to /mcp"
            body = make_error_body(METHOD_NOT_FOUND, "this is a method of MCP", hint)
            message = Fault(body)
        is_batch = isinstance(message, Batch)
        status = 200
        if isinstance(message, Fault) and message.error.code in BAD_MESSAGES:
            status = http.find_status(message.error)

        def answer(answers: list[bytes]) -> None:
            data = encode_batch(answers) if is_batch else b"".join(answers)
            self.respond(Response(status, data, http.JSON) if answers else Response(204))

        self.dispatch(_without_streams(message), answer)

    # --- writing

    def respond(self, response: Response) -> None:
        """Send a whole response, then read the next request or close."""
        headers = [*response.headers, ("Content-Length", str(len(response.body)))]
        if response.status == 204:
            headers.pop()
        if response.content_type:
            headers.append(("Content-Type", response.content_type))
        # Of a request that was not read to its end, the rest would be taken for the next one.
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
        """RpcRequest back when a stream must show that it is alive."""
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
        """Make ready for the next request, unless the connection ends with this one."""
        self.on_lost = self.on_finish = None
        self.is_busy, self._request = False, None
        self._owner.touch()
        if is_cut:
            # A client that still sends its body would get a broken pipe in place of the answer.
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

        # What is malformed or of another protocol may be followed by anything.
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
        """A client of HTTP gets notifications as events of a stream alone."""


def make_call(route: HttpRoute, request: HttpRequest, context: ServerContext) -> RpcRequest | Fault:
    """Return the call that a request makes. It has the id 1: nobody sees it."""
    if route.verb == "POST":
        return context.parser.parse_params(route.method, bytes(request.body), 1)
    try:
        params = http.make_query_params(route.method, request.target.query)
        return RpcRequest(route.method, params, 1)
    except BadRequest as error:
        return Fault(describe_error(error), 1, route.method)


def _without_streams(message: RpcRequest | Fault | Batch) -> RpcRequest | Fault | Batch:
    """Refuse the methods whose notifications could not be sent."""
    if isinstance(message, Batch):
        items = tuple(_refuse_stream(item) for item in message.items)
        return Batch(items)
    return _refuse_stream(message)


def _refuse_stream(message: RpcRequest | Fault) -> RpcRequest | Fault:
    if isinstance(message, Fault) or not OPERATIONS[message.method].streams:
        return message
    error = BadRequest("a request by HTTP gets no notifications", hint="open /v1/events")
    return Fault(describe_error(error), message.id, message.method)


def make_response(answer: bytes, route: HttpRoute, context: ServerContext) -> Response:
    """Return the response for the answer to a call."""
    parts = http.split_answer(answer)
    if not isinstance(parts.error, UnsetType):
        return http.make_error_response(parts.error)
    assert not isinstance(parts.result, UnsetType)
    if route.content_type == http.JSON:
        return Response(200, bytes(parts.result), http.JSON)
    operation = OPERATIONS[route.method]
    result = msgspec.json.decode(parts.result, type=operation.result)
    if isinstance(result, MetricsResult):
        text = render_metrics(result)
    else:
        text = render_result(operation, result, choose_find_warning(context))
    # A file name can hold bytes that are not UTF-8.
    return Response(200, text.encode("utf-8", "replace"), route.content_type)


def _translate_error(error: h11.RemoteProtocolError) -> HttpRefusal:
    refused = BadRequest(f"this is not a request of HTTP/1.1: {error}"[:300], hint="see RFC 9112")
    status = error.error_status_hint
    return HttpRefusal(refused, status if 400 <= status < 600 else 400)


# --- events ---


class EventStream:
    """Sends the changes and states of workspaces as server-sent events, while the client reads.

    The id of an event names the generation of each workspace that the client then knows. A client
    that comes back with it gets what has changed since, or an event that is not `complete`.
    """

    def __init__(
        self,
        http_connection: HttpConnection,
        context: ServerContext,
        session: Session,
        request: HttpRequest,
    ) -> None:
        self._http = http_connection
        self._context = context
        self._session = session
        self._request = request
        last = request.headers.get(b"last-event-id", b"").decode("latin-1")
        self._known = http.parse_event_id(last)
        self._generations: dict[str, int] = {}
        self._workspace: str | None = None
        self._is_open = False
        self._early: list[Changed | SignalNotice] = []
        self._last_status = b""

    def begin(self) -> None:
        call = make_call(self._request.route, self._request, self._context)
        if isinstance(call, RpcRequest) and self._known:
            fields = msgspec.structs.asdict(call.params)
            params = ResumeParams(**fields, known=self._known)
            call = msgspec.structs.replace(call, params=params)
        # What has changed since may be told before the answer is.
        self._session.translate = self._on_changed
        self._http.dispatch(call, self._open)

    def _open(self, answers: list[bytes]) -> None:
        parts = http.split_answer(answers[0])
        if not isinstance(parts.error, UnsetType):
            self._http.respond(http.make_error_response(parts.error))
            return
        assert not isinstance(parts.result, UnsetType)
        found = msgspec.json.decode(parts.result, type=Subscribed)
        is_one = any(name == "workspace" for name, _ in self._request.target.query)
        self._workspace = next(iter(found.generations)) if is_one else None
        known = {name: self._known.get(name, now) for name, now in found.generations.items()}
        self._generations = known
        self._http.begin_stream()
        if self._http.is_head:
            params = UnsubscribeParams(subscription=found.subscription)
            self._context.dispatch(self._session, "unsubscribe", params)
            self._http.end_stream()
            return
        self._is_open = True
        self._http.on_finish = self._http.on_lost = self._close
        self._send_status()
        for changed in self._early:
            self._on_changed("changed", changed)
        self._early.clear()
        self._http.arm_alive(self._keep_alive)

    def _close(self) -> None:
        self._is_open = False

    def _on_changed(self, _method: str, params: msgspec.Struct) -> None:
        assert isinstance(params, Changed | SignalNotice)
        if not self._is_open:
            self._early.append(params)
            return
        if isinstance(params, SignalNotice):
            self._send("signal", msgspec.json.encode(params))
            return
        self._generations[params.workspace] = params.generation
        self._send("changed", msgspec.json.encode(params))
        self._send_status()

    def _keep_alive(self) -> None:
        if not self._is_open:
            return
        if not self._send_status():
            self._http.send_data(http.KEEP_ALIVE)
        self._http.arm_alive(self._keep_alive)

    def _send_status(self) -> bool:
        """Send the states of the workspaces if they differ from what was sent last."""
        try:
            params = WorkspaceParams(workspace=self._workspace)
            status = self._context.dispatch(self._session, "status", params)
            assert isinstance(status, Status)
        except NotFound:
            return False  # the workspace was removed
        except Exception as error:  # noqa: BLE001 - changes are told without the state
            self._context.on_error(error, "events")
            return False
        states = [
            http.WorkspaceState(
                id=one.id,
                name=one.name,
                state=one.state,
                generation=one.generation,
                pending=one.pending,
            )
            for one in status.workspaces
        ]
        data = msgspec.json.encode(http.StatusEvent(workspaces=states))
        if data == self._last_status:
            return False
        self._last_status = data
        return self._send("status", data)

    def _send(self, name: str, data: bytes) -> bool:
        event_id = http.make_event_id(self._generations)
        return self._http.send_data(http.encode_event(name, data, event_id))
