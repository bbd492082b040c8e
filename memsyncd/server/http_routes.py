"""Carries out requests by HTTP. The route decides: a call, JSON-RPC, events, MCP, the panel or a
document.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from msgspec import UnsetType

from memsyncd import __version__
from memsyncd.errors import BadRequest, NotFound, TooLarge
from memsyncd.operations.changes.declare import Changed, Subscribed, UnsubscribeParams
from memsyncd.operations.context.declare import ContextResult
from memsyncd.operations.context.text import render_context
from memsyncd.operations.fields import WorkspaceParams
from memsyncd.operations.signals.declare import SignalNotice
from memsyncd.operations.status.declare import MetricsResult, Status
from memsyncd.operations.status.text import render_metrics
from memsyncd.operations.table import OPERATIONS
from memsyncd.protocol import http, openapi
from memsyncd.protocol.http import HttpRoute, Response
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
from memsyncd.server.http import HttpConnection, HttpRequest
from memsyncd.server.requests import ServerContext
from memsyncd.server.session import Session
from memsyncd.server.subscriptions import ResumeParams

if TYPE_CHECKING:
    from memsyncd.server.http_mcp import McpSessions
    from memsyncd.server.panel import OneTimeTokens

# Errors of a body that is no message or holds too many messages.
BAD_MESSAGES = (PARSE_ERROR, INVALID_REQUEST, TooLarge.rpc_code)


class HttpRoutes:
    """Carries out the requests of all HTTP connections of a server."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._mcp_sessions: McpSessions | None = None
        self._panel_tokens: OneTimeTokens | None = None

    def carry_out(self, connection: HttpConnection, session: Session, request: HttpRequest) -> None:
        """Start a request that has arrived whole; its response is sent through the connection."""
        route = request.route
        if route.path == "/v1/events":
            EventStream(connection, self._context, session, request).begin()
        elif route.method:
            self._carry_out_call(connection, request)
        elif route.path == "/rpc":
            self._carry_out_rpc(connection, request)
        elif route.path == "/mcp":
            self._carry_out_mcp(connection, session, request)
        elif route.path.startswith(http.PANEL):
            # Imported with the first page.
            from memsyncd.server import panel

            tokens, now_s = self._panel_tokens, time.time()
            target = request.target
            connection.respond(panel.make_panel_response(target, connection.access, tokens, now_s))
        elif route.path == "/docs":
            connection.respond(openapi.make_page(__version__))
        else:
            document = openapi.encode_openapi(__version__)
            connection.respond(Response(200, document, http.JSON))

    def make_panel_token(self) -> str:
        """Return a token that opens the panel once."""
        if self._panel_tokens is None:
            from memsyncd.server.panel import OneTimeTokens

            self._panel_tokens = OneTimeTokens(self._context.loop.time)
        return self._panel_tokens.make()

    def close(self) -> None:
        """End the sessions of MCP."""
        if self._mcp_sessions is not None:
            self._mcp_sessions.close()

    def _carry_out_call(self, connection: HttpConnection, request: HttpRequest) -> None:
        def answer(answers: list[bytes]) -> None:
            try:
                response = make_response(answers[0], request.route)
            except Exception as error:  # noqa: BLE001 - one answer fails one request
                self._context.on_error(error, request.route.method)
                response = http.make_error_response(describe_error(error))
            connection.respond(response)

        connection.dispatch(make_call(request, self._context), answer)

    def _carry_out_rpc(self, connection: HttpConnection, request: HttpRequest) -> None:
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
            connection.respond(Response(status, data, http.JSON) if answers else Response(204))

        connection.dispatch(_without_streams(message), answer)

    def _carry_out_mcp(
        self, connection: HttpConnection, session: Session, request: HttpRequest
    ) -> None:
        # Imported with the first agent that comes this way.
        from memsyncd.server.http_mcp import McpExchange, McpSessions

        if self._mcp_sessions is None:
            self._mcp_sessions = McpSessions(self._context)
        McpExchange(connection, self._context, self._mcp_sessions, session, request).begin()


def make_call(request: HttpRequest, context: ServerContext) -> RpcRequest | Fault:
    """Return the call that a request makes. Its id is 1, and no client sees it."""
    route = request.route
    if route.verb == "POST":
        return context.parser.parse_params(route.method, bytes(request.body), 1)
    try:
        params = http.make_query_params(route.method, request.target.query)
        return RpcRequest(route.method, params, 1)
    except BadRequest as error:
        return Fault(describe_error(error), 1, route.method)


def _without_streams(message: RpcRequest | Fault | Batch) -> RpcRequest | Fault | Batch:
    """Refuse the methods that send notifications: a response cannot carry these."""
    if isinstance(message, Batch):
        items = tuple(_refuse_stream(item) for item in message.items)
        return Batch(items)
    return _refuse_stream(message)


def _refuse_stream(message: RpcRequest | Fault) -> RpcRequest | Fault:
    if isinstance(message, Fault) or not OPERATIONS[message.method].streams:
        return message
    error = BadRequest("a request by HTTP gets no notifications", hint="open /v1/events")
    return Fault(describe_error(error), message.id, message.method)


def make_response(answer: bytes, route: HttpRoute) -> Response:
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
        assert isinstance(result, ContextResult)
        # The program that asks has a budget for the block, and tells its model what memories are.
        text = render_context(result, is_truth_told=True)
    # A file name can hold bytes that are not UTF-8.
    return Response(200, text.encode("utf-8", "replace"), route.content_type)


# --- events ---


class EventStream:
    """Sends the changes and states of workspaces as server-sent events, while the client reads.

    The id of an event holds the last generation sent of each workspace. A client that comes back
    with this id gets all later changes, or an event that is not `complete`.
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
        self._resumed = http.parse_event_id(last)
        self._generations: dict[str, int] = {}
        self._workspace: str | None = None
        self._is_open = False
        self._early: list[Changed | SignalNotice] = []
        self._last_status = b""

    def begin(self) -> None:
        call = make_call(self._request, self._context)
        if isinstance(call, RpcRequest) and self._resumed:
            fields = msgspec.structs.asdict(call.params)
            params = ResumeParams(**fields, known=self._resumed)
            call = msgspec.structs.replace(call, params=params)
        # Events may be sent before the answer.
        self._session.translate = self._on_changed
        self._http.dispatch(call, self._open)

    def _open(self, answers: list[bytes]) -> None:
        parts = http.split_answer(answers[0])
        if not isinstance(parts.error, UnsetType):
            self._http.respond(http.make_error_response(parts.error))
            return
        assert not isinstance(parts.result, UnsetType)
        subscribed = msgspec.json.decode(parts.result, type=Subscribed)
        names_workspace = any(name == "workspace" for name, _ in self._request.target.query)
        self._workspace = next(iter(subscribed.generations)) if names_workspace else None
        self._generations = {
            name: self._resumed.get(name, now) for name, now in subscribed.generations.items()
        }
        self._http.begin_stream()
        if self._http.is_head:
            params = UnsubscribeParams(subscription=subscribed.subscription)
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
        """Send the states of the workspaces, unless they equal the last ones sent."""
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
                id=workspace.id,
                name=workspace.name,
                state=workspace.state,
                generation=workspace.generation,
                pending=workspace.pending,
                problems=workspace.problems,
            )
            for workspace in status.workspaces
        ]
        data = msgspec.json.encode(http.StatusEvent(workspaces=states))
        if data == self._last_status:
            return False
        self._last_status = data
        return self._send("status", data)

    def _send(self, name: str, data: bytes) -> bool:
        event_id = http.make_event_id(self._generations)
        return self._http.send_data(http.encode_event(name, data, event_id))
