"""Serves the Model Context Protocol over HTTP: one message or batch a request, answers as JSON.

After a handshake a client has a session: a header of each request names it, and the client gets
notifications by a stream that it opens with GET. A request of the stateless revision has a
connection of MCP to itself. If a notification, such as progress, precedes the answer, the response
becomes a stream of events.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UnsetType

from memsyncd.errors import (
    BadRequest,
    Busy,
    Conflict,
    HeaderMismatch,
    MemsyncdError,
    NotFound,
    UnsupportedVersion,
)
from memsyncd.protocol import http, mcp
from memsyncd.protocol.http import Response
from memsyncd.protocol.jsonrpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Batch,
    ErrorBody,
    Fault,
    Id,
    McpLine,
    RpcRequest,
    describe_error,
    encode_batch,
    encode_error,
    encode_notification,
)
from memsyncd.server.http import HttpConnection, HttpRequest
from memsyncd.server.mcp import McpConnection
from memsyncd.server.requests import BatchReply, RequestDispatcher, ServerContext
from memsyncd.server.session import Session

if TYPE_CHECKING:
    import asyncio

MAX_SESSIONS = 64
SESSION_IDLE_S = 3600.0
"""A session without a request or stream for this long ends; its client begins another session."""
SESSION, VERSION, METHOD, NAME = (
    b"mcp-session-id",
    b"mcp-protocol-version",
    b"mcp-method",
    b"mcp-name",
)
LISTEN = "subscriptions/listen"


class McpSession:
    """A connection of MCP over several requests of HTTP.

    `send` gets each line that is no answer to a request, and returns False if no client reads it.
    """

    def __init__(self, context: ServerContext, origin: Session) -> None:
        self.id = secrets.token_hex(16)
        self.session = Session(session_id=origin.id, peer_pid=origin.peer_pid, send=self._send_line)
        self.session.client = origin.client
        self.dispatcher = RequestDispatcher(
            context, self.session, send=lambda _answer: None, on_done=lambda: None
        )
        self.mcp = McpConnection(context, self.session, self.dispatcher)
        self.mcp.send_notice = self._send_notice
        self.send: Callable[[bytes], bool] | None = None
        self.end_stream: Callable[[], None] = _do_nothing
        """Ends the response that `send` writes to."""
        self.progress: dict[str | int, Callable[[bytes], bool]] = {}
        """The senders of progress, by the token of a request."""
        self.used_at_s = context.loop.time()

    @property
    def is_idle(self) -> bool:
        return self.send is None and not self.session.n_pending

    def _send_line(self, line: bytes) -> bool:
        return self.send is not None and self.send(line)

    def _send_notice(self, method: str, notice: mcp.McpNotice) -> None:
        token = notice.progress_token
        send = self.progress.get(token) if isinstance(token, str | int) else None
        (send or self._send_line)(encode_notification(method, notice))


class McpSessions:
    """The sessions of all clients by HTTP, the least recently used first."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._by_id: dict[str, McpSession] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def n_sessions(self) -> int:
        return len(self._by_id)

    def add(self, session: McpSession) -> None:
        """Raises Busy if all other sessions are in use."""
        if len(self._by_id) >= MAX_SESSIONS:
            sessions = self._by_id.values()
            oldest = next((session for session in sessions if session.is_idle), None)
            if oldest is None:
                hint = "end a session with DELETE /mcp, or try again in a moment"
                raise Busy(f"{MAX_SESSIONS} sessions of MCP are in use", hint=hint)
            self.remove(oldest.id)
        self._by_id[session.id] = session
        self._arm()

    def find(self, session_id: str) -> McpSession:
        """Return the session and note that it is used. Raises NotFound."""
        session = self._by_id.pop(session_id, None)
        if session is None:
            raise NotFound("there is no such session", hint="begin one with `initialize`")
        session.used_at_s = self._context.loop.time()
        self._by_id[session_id] = session
        return session

    def remove(self, session_id: str) -> None:
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.mcp.finish()
            session.dispatcher.close()
            session.end_stream()

    def close(self) -> None:
        """End all sessions."""
        if self._timer is not None:
            self._timer.cancel()
        for session_id in tuple(self._by_id):
            self.remove(session_id)

    def _arm(self) -> None:
        if self._timer is None and self._by_id:
            self._timer = self._context.loop.call_later(SESSION_IDLE_S, self._expire)

    def _expire(self) -> None:
        self._timer = None
        latest_s = self._context.loop.time() - SESSION_IDLE_S
        for session in tuple(self._by_id.values()):
            if session.is_idle and session.used_at_s <= latest_s:
                self.remove(session.id)
        self._arm()


class McpExchange:
    """One request to `/mcp` and its response."""

    def __init__(
        self,
        connection: HttpConnection,
        context: ServerContext,
        sessions: McpSessions,
        origin: Session,
        request: HttpRequest,
    ) -> None:
        self._http = connection
        self._context = context
        self._origin = origin
        self._request = request
        self._sessions = sessions
        self._session: McpSession | None = None
        self._is_new = self._is_modern = self._is_batch = False
        self._is_alone = False
        """True for a request without a session."""
        self._has_begun = self._is_over = False
        self._header = request.headers.get

    def begin(self) -> None:
        try:
            match self._request.verb:
                case "POST":
                    self._post()
                case "DELETE":
                    self._sessions.find(self._read_session_id())
                    self._sessions.remove(self._read_session_id())
                    self._http.respond(Response(204))
                case "HEAD":
                    self._sessions.find(self._read_session_id())
                    self._http.respond(Response(200, content_type=http.EVENTS))
                case _:
                    self._listen(self._sessions.find(self._read_session_id()))
        except MemsyncdError as error:
            self._refuse(error, error.http_status)
        except http.HttpRefusal as refusal:
            self._refuse(refusal.error, refusal.status)

    def _refuse(self, error: MemsyncdError, status: int) -> None:
        """Refuse a whole request; it is counted like any failed request."""
        line = encode_error(None, describe_error(error))
        response = Response(status, line, http.JSON)
        self._http.dispatch(Fault(describe_error(error)), lambda _: self._http.respond(response))

    def _read_session_id(self) -> str:
        session_id = self._header(SESSION)
        if session_id is None:
            raise _missing_session()
        return session_id.decode("latin-1")

    # --- messages

    def _post(self) -> None:
        version = self._header(VERSION, b"").decode("latin-1")
        session = self._find_session(version)
        message = session.mcp.parser.parse_line(bytes(self._request.body))
        assert not isinstance(message, McpLine)
        self._is_batch = isinstance(message, Batch)
        items = message.items if isinstance(message, Batch) else (message,)
        self._is_modern = version == mcp.MODERN_VERSION or any(map(_is_modern, items))
        self._is_new = any(map(_is_handshake, items))
        self._is_alone = SESSION not in self._request.headers and not self._is_new
        if (
            self._is_alone
            and not self._is_modern
            and any(isinstance(item, RpcRequest) for item in items)
        ):
            raise _missing_session()
        if session.session.n_pending >= self._context.limits.max_pending_per_client:
            raise Busy("the session has too many requests", hint="wait for answers")
        if self._is_new:
            self._sessions.add(session)
        session.mcp.is_lasting = not self._is_alone
        self._session = session
        self._carry_out(session, [self._check_headers(item, version) for item in items])

    def _find_session(self, version: str) -> McpSession:
        """Return the session that the request names, or a new one for this request alone."""
        if version and version not in mcp.SUPPORTED_VERSIONS and SESSION in self._request.headers:
            hint = f"versions: {', '.join(mcp.SUPPORTED_VERSIONS)}"
            raise BadRequest(f"MCP {version[:64]} is not supported", hint=hint)
        if SESSION in self._request.headers:
            return self._sessions.find(self._read_session_id())
        session = McpSession(self._context, self._origin)
        query = dict(self._request.target.query)
        workspace, read_only = query.pop("workspace", ""), query.pop("read_only", "false")
        if query or read_only not in ("true", "false"):
            hint = "parameters: workspace, read_only (true or false)"
            raise BadRequest(f"a parameter of /mcp is unknown: {', '.join(query)}"[:200], hint=hint)
        if workspace or read_only == "true":
            session.mcp.bind(workspace, is_read_only=read_only == "true")
        return session

    def _check_headers(self, item: RpcRequest | Fault, version: str) -> RpcRequest | Fault:
        """Refuse a message of the stateless revision if a header contradicts it."""
        if isinstance(item, Fault):
            is_unknown = item.error.code == UnsupportedVersion.rpc_code
            if is_unknown and version and version[:64] != item.error.data.get("requested"):
                return _contradict("MCP-Protocol-Version", item.id, item.method)
            return item
        if not _is_modern(item):
            return item
        named = self._header(NAME)
        expected = _find_name(item)
        name = None if named is None else http.decode_name(named.decode("latin-1"))
        pairs = (
            ("MCP-Protocol-Version", version, mcp.MODERN_VERSION),
            ("Mcp-Method", self._header(METHOD, b"").decode("latin-1"), item.method),
            ("Mcp-Name", name, expected if expected is not None else name),
        )
        for header, sent, expected_value in pairs:
            if sent != expected_value:
                return _contradict(header, _read_request(item).id, item.method)
        return item

    def _carry_out(self, session: McpSession, items: list[RpcRequest | Fault]) -> None:
        is_stream = any(map(_is_listen, items))
        if self._is_alone:
            session.send = self._send_event
        for item in items:
            token = _read_request(item).progress_token if isinstance(item, RpcRequest) else None
            if token is not None:
                session.progress[token] = self._send_event
        self._http.on_lost = self._abandon
        if is_stream:
            self._http.on_finish = session.mcp.finish
            self._http.arm_alive(self._keep_alive)
        reply = BatchReply(len(items), self._end_listen if is_stream else self._answer)
        for item in items:
            session.dispatcher.dispatch(item, reply, arrived_s=self._request.arrived_s)
        if not items:
            self._answer([])

    def _end_listen(self, answers: list[bytes]) -> None:
        """Answer if the stream was refused, by an answer or an event; an open stream goes on."""
        assert self._session is not None
        if answers or not self._session.mcp.has_streams:
            self._answer(answers)

    def _answer(self, answers: list[bytes]) -> None:
        """Send the answers, as events if a stream has begun. No answer at all is `202 Accepted`."""
        session = self._session
        assert session is not None
        if not self._is_over and self._has_begun:
            for answer in answers:
                self._send_event(answer)
            self._http.end_stream()
        elif not self._is_over:
            self._http.respond(self._make_response(answers, session))
        self._abandon()

    def _abandon(self) -> None:
        """Forget the request: its response has ended, or the client is gone.

        A session that was made for this request ends, too.
        """
        self._is_over = True
        session = self._session
        if session is not None:
            session.progress = {
                token: send for token, send in session.progress.items() if send != self._send_event
            }
            if self._is_alone and session.session.is_open:
                session.dispatcher.close()

    def _make_response(self, answers: list[bytes], session: McpSession) -> Response:
        if not answers:
            return Response(202)
        data = encode_batch(answers) if self._is_batch else answers[0]
        error = None if self._is_batch else http.split_answer(answers[0]).error
        is_failed = isinstance(error, ErrorBody)
        headers: http.Headers = ()
        if self._is_new and not is_failed:
            headers = (("Mcp-Session-Id", session.id),)
        elif self._is_new:
            self._sessions.remove(session.id)
        status = 200
        if isinstance(error, ErrorBody):
            is_stateless = self._is_modern or self._is_alone
            is_no_message = error.code in (PARSE_ERROR, INVALID_REQUEST)
            status = _find_status(error) if is_stateless or is_no_message else 200
        return Response(status, data, http.JSON, headers)

    # --- streams

    def _listen(self, session: McpSession) -> None:
        """Send the notifications of a session until the client or the session ends the stream."""
        if session.send is not None:
            raise Conflict("the session has a stream already", hint="close that stream first")
        self._session = session
        session.send, session.end_stream = self._send_event, self._end_stream
        self._begin_stream()
        self._http.on_lost = self._http.on_finish = self._leave
        self._http.arm_alive(self._keep_alive)

    def _leave(self) -> None:
        self._is_over = True
        if self._session is not None:
            self._session.send, self._session.end_stream = None, _do_nothing

    def _end_stream(self) -> None:
        self._leave()
        self._http.end_stream()

    def _begin_stream(self) -> None:
        self._has_begun = True
        self._http.begin_stream()

    def _send_event(self, line: bytes) -> bool:
        if self._is_over:
            return False
        if not self._has_begun:
            self._begin_stream()
        return self._http.send_data(http.encode_event("message", line))

    def _keep_alive(self) -> None:
        if not self._is_over and self._has_begun:
            self._http.send_data(http.KEEP_ALIVE)
            self._http.arm_alive(self._keep_alive)


def _do_nothing() -> None:
    pass


def _is_modern(item: RpcRequest | Fault) -> bool:
    return isinstance(item, RpcRequest) and _read_request(item).is_modern


def _read_request(call: RpcRequest) -> mcp.McpRequest:
    assert isinstance(call.params, mcp.McpRequest)
    return call.params


def _is_handshake(item: RpcRequest | Fault) -> bool:
    return isinstance(item, RpcRequest) and item.method == "initialize"


def _is_listen(item: RpcRequest | Fault) -> bool:
    return isinstance(item, RpcRequest) and item.method == LISTEN


def _find_name(call: RpcRequest) -> str | None:
    """Return the name that the header `Mcp-Name` must repeat; None for a message without one."""
    if call.method not in ("tools/call", "prompts/get", "resources/read"):
        return None
    params = _read_request(call).params
    return str(params.uri if call.method == "resources/read" else params.name)


def _contradict(header: str, request_id: Id | UnsetType, method: str) -> Fault:
    hint = f"send {header} as the message has it"
    error = HeaderMismatch(f"{header} differs from the message", hint=hint)
    return Fault(describe_error(error), request_id, method)


def _missing_session() -> BadRequest:
    hint = "begin with `initialize`, and send the header Mcp-Session-Id of its answer"
    return BadRequest("the session is missing", hint=hint)


def _find_status(error: ErrorBody) -> int:
    """Return the status that the stateless revision prescribes for an error."""
    return 404 if error.code == METHOD_NOT_FOUND else 400
