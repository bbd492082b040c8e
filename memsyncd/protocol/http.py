"""HTTP/1.1 as values: routes, query strings, statuses, and checks of a request.

A route leads to an operation, with parameters from a query string or a JSON object, or to one of
the few resources in `RESOURCES`. Answers are JSON unless a resource says otherwise. A wrong request
raises HttpRefusal. `server.http` reads and writes the bytes, and h11 frames them. `check_head` runs
before h11, because h11 accepts some heads that two programs could read differently.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from memsyncd.errors import BadRequest, Forbidden, MemsyncdError, NotFound, TooLarge, Unauthorized
from memsyncd.operations.fields import Params
from memsyncd.operations.table import OPERATIONS
from memsyncd.protocol.jsonrpc import ErrorBody, describe_shape, explain_name, explain_params
from memsyncd.protocol.openrpc import find_errors

JSON, PROBLEM, TEXT, HTML, EVENTS = (
    "application/json",
    "application/problem+json",
    "text/plain; charset=utf-8",
    "text/html; charset=utf-8",
    "text/event-stream",
)
METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
MAX_HEAD_BYTES = 64 * 1024

Headers = tuple[tuple[str, str], ...]


class HttpRefusal(Exception):
    """Refuses a request. It has the status and headers of the answer, and a page if a browser
    should show a page instead of the error.
    """

    def __init__(
        self, error: MemsyncdError, status: int = 0, headers: Headers = (), page: str = ""
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.status = status or error.http_status
        self.headers = headers
        self.page = page


class Response(msgspec.Struct, frozen=True):
    """A response with its whole body."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Headers = ()


def _refuse(message: str, hint: str, status: int = 400, headers: Headers = ()) -> HttpRefusal:
    return HttpRefusal(BadRequest(message, hint=hint), status, headers)


# --- routes -----------------------------------------------------------------------------------


class HttpRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One verb of one path. `method` names an operation, or is empty. `content_type` is the media
    type of the answer.
    """

    verb: str
    path: str
    summary: str
    method: str = ""
    content_type: str = JSON


# A path has one media type, so a request's `Accept` chooses nothing. `/rpc` answers with 200
# whatever the answer to a message is, and with 400 if the body is no message.
RESOURCES = (
    HttpRoute(verb="POST", path="/rpc", summary="Call any method by JSON-RPC 2.0, one or a batch."),
    HttpRoute(
        verb="GET",
        path="/v1/context.txt",
        summary="Return the text of `/v1/context` alone.",
        method="context",
        content_type=TEXT,
    ),
    HttpRoute(
        verb="GET",
        path="/v1/events",
        summary=OPERATIONS["subscribe"].summary,
        method="subscribe",
        content_type=EVENTS,
    ),
    HttpRoute(
        verb="GET",
        path="/metrics",
        summary=OPERATIONS["metrics"].summary,
        method="metrics",
        content_type=METRICS_TEXT,
    ),
    HttpRoute(verb="POST", path="/mcp", summary="Send a message of the Model Context Protocol."),
    HttpRoute(
        verb="GET",
        path="/mcp",
        summary="Receive the notifications of a session of the Model Context Protocol.",
        content_type=EVENTS,
    ),
    HttpRoute(verb="DELETE", path="/mcp", summary="End a session of the Model Context Protocol."),
    HttpRoute(verb="GET", path="/openapi.json", summary="Describe this interface as OpenAPI."),
    HttpRoute(
        verb="GET", path="/docs", summary="Show this interface as a page.", content_type=HTML
    ),
)
# These paths need no token, over TCP either. A browser shows them, and they say no more than the
# source code. PANEL_OPEN checks the token in its query itself.
PANEL, PANEL_OPEN = "/panel/", "/panel/open"
OPEN_PATHS = frozenset({"/openapi.json", "/docs", PANEL_OPEN})
PANEL_TYPES = {
    ".html": HTML,
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The media types of the panel's files, by the ending of a file's name."""


def _make_routes() -> dict[str, dict[str, HttpRoute]]:
    routes: dict[str, dict[str, HttpRoute]] = {}
    for name, method in OPERATIONS.items():
        verb, _, path = method.route.partition(" ")
        if verb:
            route = HttpRoute(verb=verb, path=path, summary=method.summary, method=name)
            routes.setdefault(path, {})[verb] = route
    for route in RESOURCES:
        routes.setdefault(route.path, {})[route.verb] = route
    return routes


ROUTES = _make_routes()
"""The routes by path and verb."""

PANEL_INDEX = "index.html"
_PANEL_FILE = re.compile(r"[a-z][a-z0-9-]{0,40}\.[a-z]{2,4}")


def make_closed_page(reason: str) -> str:
    """Return a page that says why the panel is not shown, and how to open it."""
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>memsyncd</title>
<p>{reason} Open it again:
<p><code>memsyncd ui</code></html>
"""


def _find_path(path: str) -> dict[str, HttpRoute]:
    verbs = _find_panel_file(path) if path.startswith(PANEL) else ROUTES.get(path)
    if verbs is None:
        message, hint = explain_name(path, ROUTES, what="path", prefix="/v1/")
        raise HttpRefusal(NotFound(message, hint=hint))
    return verbs


def _find_panel_file(path: str) -> dict[str, HttpRoute] | None:
    """Return the route of a file of the panel; the file need not exist. None for any other path."""
    name = path.removeprefix(PANEL) or PANEL_INDEX
    if path != PANEL_OPEN and not _PANEL_FILE.fullmatch(name):
        return None
    kind = HTML if path == PANEL_OPEN else PANEL_TYPES.get(name[name.rfind(".") :])
    if kind is None:
        return None
    return {"GET": HttpRoute(verb="GET", path=path, summary="The panel.", content_type=kind)}


def find_route(verb: str, path: str) -> HttpRoute:
    """Return the route; HEAD has the route of GET. Raises HttpRefusal."""
    verbs = _find_path(path)
    route = verbs.get("GET" if verb == "HEAD" else verb)
    if route is None:
        allowed = ", ".join(verbs).replace("GET", "GET, HEAD")
        headers = (("Allow", allowed),)
        raise _refuse(f"{path} has no {verb[:32]}", f"use {allowed}", 405, headers)
    return route


def check_query(route: HttpRoute, query: Sequence[tuple[str, str]]) -> None:
    """Refuse a query string if the parameters belong into the body. Raises HttpRefusal."""
    if query and route.verb == "POST" and route.path != "/mcp":
        message = f"`{query[0][0][:64]}` is in the query string"
        raise _refuse(message, f"put it into the JSON of the body: {route.path} takes no query")


# --- targets and query strings ----------------------------------------------------------------


class RequestTarget(msgspec.Struct, frozen=True):
    """The target of a request. `authority` is empty unless the client sent a whole URL."""

    authority: str
    path: str
    query: tuple[tuple[str, str], ...]


_ABSOLUTE = re.compile(r"(?i:https?)://(?P<authority>[^/?#]*)(?P<rest>.*)")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")


def parse_request_target(target: bytes) -> RequestTarget:
    """Parse the target of a request line. Raises HttpRefusal."""
    text = target.decode("ascii", "replace")
    authority = ""
    if match := _ABSOLUTE.fullmatch(text):
        authority, text = match["authority"], match["rest"] or "/"
    if not text.startswith("/") or "#" in text:
        raise _refuse("the target is not a path", "send a path such as /v1/status")
    path, _, query = text.partition("?")
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    decoded = tuple((_decode(name, "+"), _decode(value, "+")) for name, _, value in pairs)
    return RequestTarget(authority, _decode(path), decoded)


def _decode(text: str, space: str = "") -> str:
    """Decode escapes such as `%41`, and the character `space` as a space. Raises HttpRefusal."""
    data = text.replace(space, " ").encode() if space else text.encode()

    def decode_escape(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            raise _refuse("the target has a % that is no escape", "send a percent sign as %25")
        return bytes([int(match[1], 16)])

    try:
        return _ESCAPE.sub(decode_escape, data).decode("utf-8")
    except UnicodeDecodeError:
        raise _refuse("the target is not valid UTF-8", "escape the bytes of UTF-8") from None


class QueryField(msgspec.Struct, frozen=True):
    """A parameter that a query string can set."""

    parameter: str
    outer: str
    """The parameter whose struct holds this one; empty for a parameter of the method itself."""
    is_list: bool
    is_text: bool
    may_repeat: bool = False
    """True if the parameter takes one value or a list of values."""


@cache
def list_query_fields(method: str) -> dict[str, QueryField]:
    """Return the fields of a method's query string, by name. The result is cached: do not change
    it.
    """
    query_fields: dict[str, QueryField] = {}
    for field in msgspec.structs.fields(OPERATIONS[method].params):
        name, kind = field.encode_name, field.type
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            for inner in msgspec.structs.fields(kind):
                # A parameter of the method itself has precedence, such as `kind` of `list`.
                query_fields.setdefault(inner.encode_name, _make_query_field(inner, name))
        else:
            query_fields[name] = _make_query_field(field, "")
    return query_fields


def _make_query_field(field: msgspec.structs.FieldInfo, outer: str) -> QueryField:
    name, kind = field.encode_name, field.type
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    has_lists = any(get_origin(part) is list for part in _list_kinds(kind))
    is_list = get_origin(kind) is list
    return QueryField(name, outer, is_list, _has_text(kind), may_repeat=has_lists)


def _list_kinds(kind: Any) -> list[Any]:
    """Return the types that a parameter accepts, without limits."""
    if get_origin(kind) in (Annotated, UnionType, Union):
        return [inner for part in get_args(kind) for inner in _list_kinds(part)]
    return [kind]


def _has_text(kind: Any) -> bool:
    return kind is str or any(_has_text(part) for part in get_args(kind))


def make_query_params(method: str, query: Sequence[tuple[str, str]]) -> Params:
    """Return the parameters in a query string. Raises BadRequest."""
    fields, params = list_query_fields(method), OPERATIONS[method].params
    values: dict[str, Any] = {}
    for name, value in query:
        if name not in fields:
            message, hint = explain_name(name, fields, what="parameter")
            raise BadRequest(message, hint=hint)
        field = fields[name]
        if value.lower() == "null" and not field.is_text:
            # msgspec would read it as the null of JSON.
            raise BadRequest(f"parameter `{name}` is null", hint="give a value, or leave it out")
        place = values.setdefault(field.outer, {}) if field.outer else values
        if field.is_list:
            place.setdefault(field.parameter, []).append(value)
        elif field.parameter in place and field.may_repeat:
            before = place[field.parameter]
            place[field.parameter] = [*(before if isinstance(before, list) else [before]), value]
        elif field.parameter in place:
            raise BadRequest(f"parameter `{name}` is given twice", hint="give it once")
        else:
            place[field.parameter] = value
    try:
        return msgspec.convert(values, params, strict=False)
    except msgspec.ValidationError as error:
        message, hint = explain_params(str(error), describe_shape(params))
        if message.endswith("is missing"):
            hint = f"parameters: {', '.join(fields)}"
        hint = hint.replace("rpc.discover", "/docs")
        raise BadRequest(message, hint=hint) from error


# --- checks of a request ----------------------------------------------------------------------

_BAD_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FRAMING = re.compile(rb"\r\n(content-length|transfer-encoding)[ \t]*:([^\r]*)", re.IGNORECASE)
_CLEAN_HINT = "end each line with CR LF, and send each header on a line of its own"


def find_head_end(data: bytes | bytearray, n_checked: int = 0) -> int:
    """Return the length of the request's head; -1 if it is not complete. Raises HttpRefusal.

    An earlier call found the first `n_checked` bytes to be incomplete.
    """
    start = max(0, n_checked - 3)
    end = data.find(b"\r\n\r\n", start)
    n_bytes = len(data) if end < 0 else end + 4
    # The last byte may be the first half of CR LF.
    is_open = end < 0 and data.endswith(b"\r")
    if _BAD_LINE_END.search(data, max(0, n_checked - 1), n_bytes - is_open):
        raise _refuse("a line of the head does not end with CR LF", _CLEAN_HINT)
    if n_bytes > MAX_HEAD_BYTES:
        message = f"the head of the request is over {MAX_HEAD_BYTES} bytes"
        error = TooLarge(message, hint="send shorter headers, or parameters in a body")
        raise HttpRefusal(error, 431)
    return n_bytes if end >= 0 else -1


def check_head(head: bytes) -> None:
    """Refuse a complete head that two programs could read differently. Raises HttpRefusal.

    h11 would join folded lines, and choose one of several lengths or encodings.
    """
    if _CONTROL.search(head):
        raise _refuse("the head has a control character", _CLEAN_HINT)
    if b"\r\n " in head or b"\r\n\t" in head:
        raise _refuse("the head has a folded line", _CLEAN_HINT)
    framing = [(name.lower(), value.strip()) for name, value in _FRAMING.findall(head)]
    if len(framing) > 1:
        raise _refuse(
            "the length of the body is given twice",
            "send either Content-Length or Transfer-Encoding, once",
        )
    if framing and framing[0][0] == b"content-length" and not framing[0][1].isdigit():
        raise _refuse("Content-Length is not a number", "send the body's length in bytes")
    if framing and framing[0][0] != b"content-length" and b" HTTP/1.0\r\n" in head:
        raise _refuse("HTTP/1.0 has no Transfer-Encoding", "send Content-Length")


# Headers that may occur once only: of two values, another program might use the other one.
_SINGLE = frozenset(
    b"authorization content-type expect last-event-id mcp-method mcp-name mcp-protocol-version "
    b"mcp-session-id origin user-agent".split()
)


def collect_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the values by name; several values of one name are joined. Raises HttpRefusal."""
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name in headers and name in _SINGLE:
            header = name.decode("ascii")
            raise _refuse(f"the header {header} is given twice", "send it once")
        headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value
    return headers


class Access(msgspec.Struct, frozen=True):
    """The number and the token of the loopback port; a client must know both.

    Instead of the token, a browser has a cookie that is signed with it.
    """

    port: int
    token: bytes

    @property
    def cookie_name(self) -> str:
        """The name has the port, because a browser sends a host's cookies to all its ports."""
        return f"memsyncd-{self.port}"


_LOOPBACK = r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])"
_HOST = re.compile(rf"(?P<name>{_LOOPBACK})(?::(?P<port>\d{{1,5}}))?", re.IGNORECASE)
_ORIGIN = re.compile(rf"https?://{_LOOPBACK}(?::\d{{1,5}})?", re.IGNORECASE)
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +(\S+)")


def check_access(
    access: Access | None,
    headers: Mapping[bytes, bytes],
    authority: str,
    path: str,
    now_s: float = 0.0,
) -> None:
    """Refuse a request from a page of another site, for another host, or without the token.

    `access` is None on the Unix socket, whose owner alone can connect. `now_s` is since the epoch.
    Raises HttpRefusal.
    """
    origin = headers.get(b"origin")
    # This holds for the Unix socket as well, because a program may pass a port on to it.
    if origin is not None and not _ORIGIN.fullmatch(origin.decode("latin-1")):
        raise _refuse_site()
    if access is None:
        return
    host = authority or headers.get(b"host", b"").decode("latin-1")
    match = _HOST.fullmatch(host)
    # A site can let its name lead to this machine; such a request has the site's name as its host.
    if match is None or int(match["port"] or 80) != access.port:
        hint = f"ask for http://127.0.0.1:{access.port}"
        raise HttpRefusal(Forbidden("the request is for another host", hint=hint))
    if path in OPEN_PATHS:
        return
    cookie = _find_cookie(headers.get(b"cookie", b"").decode("latin-1"), access.cookie_name)
    if path == PANEL and b"authorization" not in headers:
        _check_page_cookie(access.token, cookie, now_s)
    if b"authorization" in headers or not cookie:
        _check_token(access.token, headers.get(b"authorization", b""))
        return
    if not is_cookie_valid(access.token, cookie, now_s):
        hint = "open the panel again: memsyncd ui"
        raise HttpRefusal(Unauthorized("the cookie is not valid, or too old", hint=hint))
    # For a browser, all ports of this machine are one site, so other pages' requests have the
    # cookie.
    site = headers.get(b"sec-fetch-site", b"same-origin")
    is_foreign = site not in (b"same-origin", b"none")
    if is_foreign or (origin is not None and origin.decode("latin-1") != f"http://{host}"):
        raise _refuse_site()


def _check_page_cookie(token: bytes, cookie: str, now_s: float) -> None:
    """Refuse the panel's page without a valid cookie, such as from a bookmark; the answer is a page
    for a person.
    """
    if not (cookie and is_cookie_valid(token, cookie, now_s)):
        error = Unauthorized("the panel is not open in this browser", hint="open it: memsyncd ui")
        raise HttpRefusal(error, page=make_closed_page("This browser may not show the panel now."))


def _refuse_site() -> HttpRefusal:
    hint = "only pages of this machine may send requests"
    return HttpRefusal(Forbidden("the request is from a page of another site", hint=hint))


def _check_token(token: bytes, authorization: bytes) -> None:
    match = _BEARER.fullmatch(authorization)
    if match is None or not hmac.compare_digest(match[1], token):
        what = "the token is wrong" if match else "the token is missing"
        hint = "send `Authorization: Bearer TOKEN`; `memsyncd status` names the file of the token"
        challenge = (("WWW-Authenticate", 'Bearer realm="memsyncd"'),)
        raise HttpRefusal(Unauthorized(what, hint=hint), headers=challenge)


COOKIE_AGE_S = 30 * 24 * 3600
"""How long a browser may use the panel after opening it."""
_COOKIE = re.compile(
    r"(?P<signed>(?P<issued_s>\d{1,12})\.[A-Za-z0-9_-]{16,64})\.(?P<mark>[0-9a-f]{64})"
)


def make_cookie(key: bytes, nonce: str, now_s: float) -> str:
    """Return the value of a cookie: time, nonce and HMAC-SHA-256. It is valid for COOKIE_AGE_S.

    `nonce` is 16 to 64 letters, digits, `-` or `_`. The daemon stores no cookie, so cookies survive
    its restart; a new token makes all cookies invalid.
    """
    signed = f"{int(now_s)}.{nonce}"
    return f"{signed}.{_sign(key, signed)}"


def is_cookie_valid(key: bytes, value: str, now_s: float) -> bool:
    """True for a cookie that this key has signed and that is neither too old nor from the
    future.
    """
    match = _COOKIE.fullmatch(value)
    if match is None or not hmac.compare_digest(match["mark"], _sign(key, match["signed"])):
        return False
    return 0 <= int(now_s) - int(match["issued_s"]) < COOKIE_AGE_S


def _sign(key: bytes, text: str) -> str:
    return hmac.new(key, b"panel:" + text.encode(), "sha256").hexdigest()


def _find_cookie(header: str, name: str) -> str:
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return next((value for key, _, value in pairs if key == name), "")


def check_content_type(header: bytes | None) -> None:
    """Refuse a body that is not JSON in UTF-8. Raises HttpRefusal."""
    kind, _, rest = (header or b"").decode("latin-1").lower().partition(";")
    charset = rest.partition("charset=")[2].partition(";")[0].strip(' "')
    if kind.strip() != JSON or charset not in ("", "utf-8", "utf8"):
        raise _refuse(
            "the body is not JSON", f"send it as `Content-Type: {JSON}`", 415, (("Accept", JSON),)
        )


def check_accept(route: HttpRoute, accept: bytes | None) -> None:
    """Refuse a request for text if the answer is JSON. Other values of `Accept` are ignored. Raises
    HttpRefusal.
    """
    if accept == b"text/plain" and route.content_type == JSON:
        texts = ", ".join(other.path for other in RESOURCES if other.content_type == TEXT)
        raise _refuse(f"{route.path} answers with JSON", f"these paths give text: {texts}", 406)


def decode_name(value: str) -> str:
    """Return the text of a header's value, which may be encoded as `=?base64?…?=`."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode("utf-8")
    except ValueError:
        return value


# --- answers ----------------------------------------------------------------------------------


class ErrorProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An error in the form of RFC 9457. `code` is a stable word, `hint` says what to do next."""

    title: str
    status: int
    detail: str
    code: str
    rpc_code: int
    hint: str


class AnswerParts(msgspec.Struct, frozen=True):
    """The parts of a JSON-RPC answer, from which a response is made."""

    id: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw | UnsetType = UNSET
    error: ErrorBody | UnsetType = UNSET


split_answer = msgspec.json.Decoder(AnswerParts).decode
_STATUSES = {error.code: error.http_status for error in find_errors()}
RETRY_S = 1
"""After this time a client may try again if the daemon was busy or was stopping."""


def find_status(error: ErrorBody) -> int:
    """Return the status of an error by its code."""
    return _STATUSES.get(str(error.data.get("code")), 500)


def make_error_response(error: ErrorBody, *, status: int = 0, headers: Headers = ()) -> Response:
    """Return the response for an error, in the form of RFC 9457."""
    code = str(error.data.get("code", MemsyncdError.code))
    status = status or find_status(error)
    problem = ErrorProblem(
        title=code.replace("_", " "),
        status=status,
        detail=error.message,
        code=code,
        rpc_code=error.code,
        hint=str(error.data.get("hint", "")),
    )
    if status == 503:
        headers = (*headers, ("Retry-After", str(RETRY_S)))
    body = msgspec.json.encode({**error.data, **msgspec.structs.asdict(problem)})
    return Response(status, body, PROBLEM, headers)


def encode_event(name: str, data: bytes, event_id: str = "") -> bytes:
    """Return one server-sent event; `data` is one line."""
    id_line = f"id: {event_id}\n".encode() if event_id else b""
    return b"%bevent: %b\ndata: %b\n\n" % (id_line, name.encode(), data)


KEEP_ALIVE = b": keep-alive\n\n"
_EVENT_ID = re.compile(r"([0-9A-Za-z._-]{1,64}):(\d{1,15})")
MAX_RESUMED = 32


def make_event_id(generations: Mapping[str, int]) -> str:
    """Return the id of an event: the generation of each workspace that the client has now."""
    return ",".join(f"{workspace}:{number}" for workspace, number in generations.items())


def parse_event_id(event_id: str) -> dict[str, int]:
    """Return the generations in `Last-Event-ID` by workspace; invalid parts are left out."""
    pairs = [_EVENT_ID.fullmatch(part) for part in event_id.split(",")[:MAX_RESUMED]]
    return {match[1]: int(match[2]) for match in pairs if match}


class WorkspaceState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a workspace in the event `status`."""

    id: str
    name: str
    state: str
    generation: int
    pending: int
    problems: int


class StatusEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the event `status`, which is sent first and after each change."""

    workspaces: list[WorkspaceState]
