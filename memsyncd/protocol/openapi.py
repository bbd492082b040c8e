"""The documents of the HTTP interface: OpenAPI, and a page for people. Both are made from the
declarations and the routes.

The page is one file without scripts or outside files, so it works offline.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from memsyncd.errors import (
    BadRequest,
    Busy,
    Conflict,
    Forbidden,
    HeaderMismatch,
    MemsyncdError,
    NotFound,
    ShuttingDown,
    TooLarge,
    Unauthorized,
    UnsupportedVersion,
)
from memsyncd.operations.operation import Operation
from memsyncd.operations.table import OPERATIONS
from memsyncd.protocol import http
from memsyncd.protocol.http import ErrorProblem, HttpRoute, Response
from memsyncd.protocol.jsonrpc import MAX_BATCH, ErrorBody, Id
from memsyncd.protocol.openrpc import describe_structs

OPENAPI_VERSION = "3.1.0"
_REFERENCE = "#/components/schemas/{name}"
_DESCRIPTION = (
    "The memory of this machine, over the Unix socket of memsyncd or its loopback port. Every "
    "method of the daemon is reached by `POST /rpc`, the common ones by a path of their own."
)
# The statuses and errors of requests that are refused before a method is called.
_REFUSALS: dict[int, type[MemsyncdError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: BadRequest,
    406: BadRequest,
    408: BadRequest,
    413: TooLarge,
    417: BadRequest,
    431: TooLarge,
    500: MemsyncdError,
    503: ShuttingDown,
}
_MCP_ERRORS = (HeaderMismatch, UnsupportedVersion, Conflict, Busy)


class JsonRpcCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call. `params` is an object with the parameters of the method."""

    jsonrpc: Literal["2.0"]
    id: Id | UnsetType = UNSET
    method: str
    params: Any = None


class JsonRpcReply(msgspec.Struct, frozen=True, kw_only=True):
    """A result or an error."""

    jsonrpc: Literal["2.0"]
    id: Id
    result: Any = None
    error: ErrorBody | UnsetType = UNSET


# --- OpenAPI ----------------------------------------------------------------------------------


@cache
def encode_openapi(version: str) -> bytes:
    """Return the document for this version of memsyncd, as JSON."""
    return json.dumps(describe_openapi(version), indent=1).encode()


def describe_openapi(version: str) -> dict[str, Any]:
    """Return the OpenAPI document for this version of memsyncd."""
    schemas = _make_schemas()
    return {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "memsyncd", "version": version, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": {
            path: {verb.lower(): _describe_route(route, schemas) for verb, route in verbs.items()}
            for path, verbs in http.ROUTES.items()
        },
        "components": {
            "schemas": {**schemas, **_PLAIN_SCHEMAS},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of the loopback port; the Unix socket needs none.",
                }
            },
        },
    }


def _make_schemas() -> dict[str, Any]:
    methods = [OPERATIONS[route.method] for route in _list_routes() if route.method]
    structs = [part for method in methods for part in (method.params, method.result)]
    structs += [ErrorProblem, JsonRpcCall, JsonRpcReply]
    return describe_structs(structs, _REFERENCE)


def _list_routes() -> Iterator[HttpRoute]:
    for verbs in http.ROUTES.values():
        yield from verbs.values()


def _describe_route(route: HttpRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": _make_operation_id(route),
        "summary": route.summary,
        "parameters": _list_parameters(route, schemas),
        "responses": _describe_responses(route),
    }
    if route.verb == "POST":
        name = OPERATIONS[route.method].params.__name__ if route.method else _BODIES[route.path]
        schema = {"$ref": _REFERENCE.format(name=name)}
        content = {http.JSON: {"schema": schema}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _make_operation_id(route: HttpRoute) -> str:
    if route.method and f"{route.verb} {route.path}" == OPERATIONS[route.method].route:
        return route.method
    return f"{route.verb.lower()}-{route.path.strip('/')}"


def _list_parameters(route: HttpRoute, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if route.path == "/mcp":
        return [_SESSION_HEADER] if route.verb != "POST" else [*_MCP_QUERY, _OPTIONAL_SESSION]
    if not route.method or route.verb == "POST":
        return []
    method, listed = OPERATIONS[route.method], []
    for name, field in http.list_query_fields(route.method).items():
        struct = _find_struct(schemas, method.params.__name__, field.outer)
        listed.append(
            {
                "name": name,
                "in": "query",
                "required": field.parameter in schemas[struct].get("required", ()),
                "schema": _without_null(schemas[struct]["properties"][field.parameter]),
            }
        )
    if route.path == "/v1/events":
        listed.append(_LAST_EVENT)
    return listed


def _find_struct(schemas: dict[str, Any], struct: str, outer: str) -> str:
    if not outer:
        return struct
    schema = schemas[struct]["properties"][outer]
    reference: str = schema.get("$ref") or schema["allOf"][0]["$ref"]
    return reference.rpartition("/")[2]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without null, which a query string cannot express."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        schema = choices[0]
    return {key: value for key, value in schema.items() if key != "default" or value is not None}


def _describe_responses(route: HttpRoute) -> dict[str, Any]:
    responses: dict[str, Any] = {
        "200": {"description": "The result.", "content": _describe_content(route)}
    }
    if route.path == "/rpc":
        responses["204"] = {"description": "All messages were notifications."}
    if route.path == "/mcp" and route.verb == "POST":
        responses["202"] = {"description": "No message has an answer."}
    if route.path == "/mcp" and route.verb == "DELETE":
        responses = {"204": {"description": "The session has ended."}}
    for status, errors in sorted(_group_errors(route).items()):
        responses[str(status)] = _describe_refusal(route, errors)
    return responses


def _describe_content(route: HttpRoute) -> dict[str, Any]:
    if route.path in ("/rpc", "/mcp"):
        schema: dict[str, Any] = {"$ref": _REFERENCE.format(name="JsonRpcAnswer")}
    elif route.method:
        name = OPERATIONS[route.method].result.__name__
        schema = {"$ref": _REFERENCE.format(name=name)}
    else:
        schema = {"type": "object"}
    if route.content_type != http.JSON:
        schema = {"type": "string"}
    content = {route.content_type.partition(";")[0]: {"schema": schema}}
    if route.path == "/mcp" and route.verb == "POST":
        content[http.EVENTS] = {"schema": {"type": "string"}}
    return content


def _group_errors(route: HttpRoute) -> dict[int, list[str]]:
    """Return the codes of a route's errors by status."""
    codes_by_status = {status: {error.code} for status, error in _REFUSALS.items()}
    if route.verb == "POST":
        codes_by_status[415] = {BadRequest.code}
    own = OPERATIONS[route.method].every_error if route.method else ()
    for error in (*own, *(_MCP_ERRORS if route.path == "/mcp" else ())):
        codes_by_status.setdefault(error.http_status, set()).add(error.code)
    return {status: sorted(codes) for status, codes in codes_by_status.items()}


def _describe_refusal(route: HttpRoute, codes: list[str]) -> dict[str, Any]:
    problem: dict[str, Any] = {
        "allOf": [
            {"$ref": _REFERENCE.format(name="ErrorProblem")},
            {"properties": {"code": {"enum": codes}}},
        ]
    }
    content: dict[str, Any] = {http.PROBLEM: {"schema": problem}}
    if route.path in ("/rpc", "/mcp"):
        content[http.JSON] = {"schema": {"$ref": _REFERENCE.format(name="JsonRpcAnswer")}}
    return {"description": ", ".join(codes), "content": content}


def _parameter(place: str, name: str, description: str, kind: str = "string") -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": False,
        "description": description,
        "schema": {"type": kind},
    }


_LAST_EVENT = _parameter("header", "Last-Event-ID", "The id of the last event that the client has.")
_OPTIONAL_SESSION = _parameter(
    "header",
    "Mcp-Session-Id",
    "As the answer to `initialize` had it; the stateless revision has none.",
)
_SESSION_HEADER = {**_OPTIONAL_SESSION, "required": True}
_MCP_QUERY = [
    _parameter(
        "query", "workspace", "The workspace that the tools use: a name, an id or a folder."
    ),
    _parameter("query", "read_only", "Leave out the tools that write.", "boolean"),
]
_BODIES = {"/rpc": "JsonRpcBody", "/mcp": "JsonRpcBody"}
_PLAIN_SCHEMAS: dict[str, Any] = {
    "JsonRpcBody": {
        "oneOf": [
            {"$ref": _REFERENCE.format(name="JsonRpcCall")},
            {
                "type": "array",
                "items": {"description": "A call; each item has an answer of its own."},
                "minItems": 1,
                "maxItems": MAX_BATCH,
            },
        ]
    },
    "JsonRpcAnswer": {
        "oneOf": [
            {"$ref": _REFERENCE.format(name="JsonRpcReply")},
            {"type": "array", "items": {"$ref": _REFERENCE.format(name="JsonRpcReply")}},
        ]
    },
}


# --- the page -----------------------------------------------------------------------------------

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}
code,pre{font:13px/1.5 ui-monospace,monospace;background:#8881;border-radius:4px}
pre{padding:.6rem .8rem;overflow-x:auto}code{padding:.1rem .25rem}
pre code{padding:0;background:none}
table{border-collapse:collapse;margin:.5rem 0}td,th{text-align:left;padding:.15rem .8rem .15rem 0}
h2{border-top:1px solid #8884;padding-top:1rem}:root{color-scheme:light dark}
"""
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_SOCKET = '--unix-socket "$XDG_RUNTIME_DIR/memsyncd/memsyncd.sock"'
_BODY = f"-H 'Content-Type: {http.JSON}' -d"
EXAMPLES = f"""\
curl -s {_SOCKET} -G -d limit=3 --data-urlencode 'query=why postgres' http://localhost/v1/search
curl -s {_SOCKET} {_BODY} '{{"content": "Redis gives up after 30 s."}}' http://localhost/v1/remember
curl -s {_SOCKET} {_BODY} '{{"jsonrpc": "2.0", "id": 1, "method": "ping"}}' http://localhost/rpc
curl -sN {_SOCKET} http://localhost/v1/events"""


@cache
def make_page(version: str) -> Response:
    """Return the page for this version of memsyncd."""
    document = describe_openapi(version)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>memsyncd</title>",
        f"<style>{_STYLE}</style><h1>memsyncd {html.escape(version)}</h1>",
        f"<p>{_mark(_DESCRIPTION)}</p><p>More: <a href=/openapi.json>openapi.json</a>.</p>",
        f"<pre><code>{html.escape(EXAMPLES)}</code></pre>",
    ]
    for path, verbs in http.ROUTES.items():
        for verb, route in verbs.items():
            parts += _render_route(route, document["paths"][path][verb.lower()])
    parts.append("<h1>Methods of POST /rpc</h1>")
    schemas = _make_all_schemas()
    for name, method in OPERATIONS.items():
        parts += _render_method(name, method, schemas)
    headers = (("Content-Security-Policy", PAGE_POLICY), ("Referrer-Policy", "no-referrer"))
    return Response(200, "\n".join(parts).encode(), http.HTML, headers)


def _make_all_schemas() -> dict[str, Any]:
    params = [method.params for method in OPERATIONS.values()]
    return describe_structs(params, _REFERENCE)


def _render_route(route: HttpRoute, described: dict[str, Any]) -> Iterator[str]:
    yield f"<h2><code>{route.verb} {route.path}</code></h2><p>{_mark(route.summary)}</p>"
    yield _render_parameters(
        (parameter["name"], parameter["required"], parameter["schema"])
        for parameter in described["parameters"]
    )
    yield _render_errors(described["responses"])


def _render_method(name: str, method: Operation, schemas: dict[str, Any]) -> Iterator[str]:
    schema = schemas[method.params.__name__]
    required = schema.get("required", ())
    yield f"<h2><code>{name}</code></h2><p>{_mark(method.summary)}</p>"
    yield _render_parameters(
        (field, field in required, kind) for field, kind in schema["properties"].items()
    )
    codes = ", ".join(f"<code>{error.code}</code>" for error in method.every_error)
    yield f"<p>Errors: {codes}</p>"


def _render_parameters(rows: Iterable[tuple[str, bool, dict[str, Any]]]) -> str:
    cells = [
        f"<tr><td><code>{html.escape(name)}</code><td>{'required' if is_required else ''}"
        f"<td><code>{html.escape(_describe_kind(schema))}</code>"
        for name, is_required, schema in rows
    ]
    return f"<table><tr><th>parameter<th><th>value{''.join(cells)}</table>" if cells else ""


def _describe_kind(schema: dict[str, Any]) -> str:
    """Return a short text for a schema: its type, choices, bounds and default."""
    schema = _without_null(schema)
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    kind = str(schema.get("type", "object"))
    if kind == "array" and isinstance(schema.get("items"), dict):
        kind = f"{_describe_kind(schema['items'])}, may be repeated"
    bounds = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "from"), ("maximum", "to"), ("maxLength", "at most"))
        if key in schema
    ]
    default = schema.get("default")
    has_default = default not in (None, "", []) and kind != "object"
    return ", ".join([kind, *bounds, *([f"default {default}"] if has_default else [])])


def _render_errors(responses: dict[str, Any]) -> str:
    rows = [
        f"<tr><td>{status}<td><code>{html.escape(response['description'])}</code>"
        for status, response in responses.items()
        if int(status) >= 400
    ]
    return f"<details><summary>Errors</summary><table>{''.join(rows)}</table></details>"


def _mark(text: str) -> str:
    """Return text as HTML. Text between backquotes becomes code."""
    parts = html.escape(text).split("`")
    return "".join(
        f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts)
    )
