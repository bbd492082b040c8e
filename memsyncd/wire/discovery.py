"""How does a program learn what the socket offers? By an OpenRPC document, made from the tables of methods and errors."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from memsyncd.errors import MemsyncdError
from memsyncd.wire.methods import METHODS, NOTIFICATIONS, Method
from memsyncd.wire.results import Discovery

OPENRPC_VERSION = "1.3.2"

_REFERENCE = "#/components/schemas/{name}"
_DESCRIPTION = "One JSON value a line over a Unix socket, as JSON-RPC 2.0; parameters by name."


@cache
def describe_methods(version: str) -> Discovery:
    """The document for this version of memsyncd. Made once; treat it as frozen."""
    structs = [part for method in METHODS.values() for part in (method.params, method.result)]
    structs += [notification.params for notification in NOTIFICATIONS.values()]
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REFERENCE)
    return Discovery(
        openrpc=OPENRPC_VERSION,
        info={"title": "memsyncd", "version": version, "description": _DESCRIPTION},
        methods=[_describe_method(name, method, schemas) for name, method in METHODS.items()],
        components={"schemas": schemas, "errors": dict(sorted(_describe_errors().items()))},
        notifications=[
            {"name": name, "summary": notification.summary, "params": _list_params(notification.params, schemas)}
            for name, notification in NOTIFICATIONS.items()
        ],
    )


def _describe_method(name: str, method: Method, schemas: dict[str, Any]) -> dict[str, object]:
    return {
        "name": name,
        "summary": method.summary,
        "paramStructure": "by-name",
        "params": _list_params(method.params, schemas),
        "result": {"name": method.result.__name__, "schema": {"$ref": _REFERENCE.format(name=method.result.__name__)}},
    }


def _list_params(params: type[msgspec.Struct], schemas: dict[str, Any]) -> list[dict[str, object]]:
    schema = schemas[params.__name__]
    required = schema.get("required", ())
    listed: list[dict[str, object]] = [
        {"name": name, "required": name in required, "schema": part} for name, part in schema["properties"].items()
    ]
    return sorted(listed, key=lambda param: not param["required"])  # OpenRPC wants the required ones first


def _describe_errors() -> dict[str, dict[str, object]]:
    """By `data.code`: the number that goes with it."""
    found: dict[str, dict[str, object]] = {}
    classes: list[type[MemsyncdError]] = [MemsyncdError]
    while classes:
        error = classes.pop()
        if error.__module__ != MemsyncdError.__module__:
            continue  # a front end's own, which never crosses the wire
        found[error.code] = {"code": error.rpc_code, "message": error.code.replace("_", " ")}
        classes.extend(error.__subclasses__())
    return found
