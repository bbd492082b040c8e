"""The OpenRPC document, made from the declarations of all operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from memsyncd.errors import MemsyncdError
from memsyncd.operations.operation import Operation
from memsyncd.operations.status.declare import Discovery
from memsyncd.operations.table import NOTIFICATIONS, OPERATIONS
from memsyncd.protocol._generated import FIELDS


def describe_structs(
    structs: Iterable[type[msgspec.Struct]], reference: str
) -> dict[str, dict[str, Any]]:
    """Return the schemas of the structs and of the structs within them, by name. `reference` is the
    form of a reference to a schema; it contains `{name}`.
    """
    _, schemas = msgspec.json.schema_components(list(structs), ref_template=reference)
    for name, schema in schemas.items():
        for field, text in FIELDS.get(name, {}).items():
            if field in schema.get("properties", {}):
                schema["properties"][field].setdefault("description", text)
    return schemas


OPENRPC_VERSION = "1.3.2"

_REFERENCE = "#/components/schemas/{name}"
_ERROR = "#/components/errors/{name}"
_DESCRIPTION = "One JSON value a line over a Unix socket, as JSON-RPC 2.0; parameters by name."


@cache
def describe_methods(version: str) -> Discovery:
    """Return the OpenRPC document for this version of memsyncd. The result is cached: do not change
    it.
    """
    structs = [part for method in OPERATIONS.values() for part in (method.params, method.result)]
    structs += [notification.params for notification in NOTIFICATIONS.values()]
    schemas = describe_structs(structs, _REFERENCE)
    return Discovery(
        openrpc=OPENRPC_VERSION,
        info={"title": "memsyncd", "version": version, "description": _DESCRIPTION},
        methods=[_describe_method(name, method, schemas) for name, method in OPERATIONS.items()],
        components={"schemas": schemas, "errors": dict(sorted(_describe_errors().items()))},
        notifications=[
            {
                "name": name,
                "summary": notification.summary,
                "params": _list_params(notification.params, schemas),
            }
            for name, notification in NOTIFICATIONS.items()
        ],
    )


def _describe_method(name: str, method: Operation, schemas: dict[str, Any]) -> dict[str, object]:
    result = method.result.__name__
    return {
        "name": name,
        "summary": method.summary,
        "paramStructure": "by-name",
        "params": _list_params(method.params, schemas),
        "result": {"name": result, "schema": {"$ref": _REFERENCE.format(name=result)}},
        "errors": [{"$ref": _ERROR.format(name=error.code)} for error in method.every_error],
        **({"x-http": method.route} if method.route else {}),
    }


def _list_params(params: type[msgspec.Struct], schemas: dict[str, Any]) -> list[dict[str, object]]:
    schema = schemas[params.__name__]
    required = schema.get("required", ())
    listed: list[dict[str, object]] = [
        {"name": name, "required": name in required, "schema": part}
        for name, part in schema["properties"].items()
    ]
    return sorted(listed, key=lambda param: not param["required"])  # OpenRPC: required ones first


def _describe_errors() -> dict[str, dict[str, object]]:
    """Return the numeric code of each `data.code`."""
    return {
        error.code: {"code": error.rpc_code, "message": error.code.replace("_", " ")}
        for error in find_errors()
    }


def find_errors() -> Iterator[type[MemsyncdError]]:
    """Yield every error that the daemon can send."""
    classes: list[type[MemsyncdError]] = [MemsyncdError]
    while classes:
        error = classes.pop()
        if error.__module__ != MemsyncdError.__module__:
            continue  # an error of a front end, which the daemon never sends
        yield error
        classes.extend(error.__subclasses__())
