"""Sends the changes and states of workspaces over HTTP as server-sent events."""

from __future__ import annotations

import msgspec
from msgspec import UnsetType

from memsyncd.errors import NotFound
from memsyncd.protocol import http
from memsyncd.protocol.fields import WorkspaceParams
from memsyncd.protocol.jsonrpc import Call
from memsyncd.protocol.operations import Status
from memsyncd.protocol.search import Changed, Subscribed
from memsyncd.protocol.signals import SignalNotice
from memsyncd.server.http import HttpConnection, HttpRequest, make_call
from memsyncd.server.requests import ServerContext
from memsyncd.server.session import Session
from memsyncd.server.subscriptions import ResumeParams


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
        assert self._request.route is not None
        call = make_call(self._request.route, self._request, self._context)
        if isinstance(call, Call) and self._known:
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
