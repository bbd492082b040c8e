"""The client's types are generated from the protocol and match the daemon's parameters and results."""

from __future__ import annotations

from typing import Any, Required, get_args, get_origin, get_type_hints

import msgspec
import pytest

from memsyncd.client import types
from memsyncd.operations import fields, sections
from memsyncd.operations.generate_client import (
    FIELDS,
    METHODS,
    PARAMETERS,
    TYPES,
    generate_fields,
    generate_methods,
    generate_types,
)
from memsyncd.operations.notes import declare as memory
from memsyncd.operations.search import declare as search
from memsyncd.operations.status import declare as operations
from memsyncd.operations.table import NOTIFICATIONS, OPERATIONS

PROTOCOL = (fields, sections, memory, operations, search)
GIVEN = [
    name
    for name in vars(types)
    if any(hasattr(module, name) for module in PROTOCOL)
    and name not in PARAMETERS
    and getattr(vars(types)[name], "__total__", False)
    and isinstance(vars(types)[name], type)
]


def name_type(kind: Any) -> str:
    """Return a name of a type that is the same for a struct and for a dictionary of its shape."""
    if get_origin(kind) in (list, dict):
        return f"{get_origin(kind).__name__}[{', '.join(map(name_type, get_args(kind)))}]"
    if get_args(kind):
        kinds = [part for part in get_args(kind) if part is not msgspec.UnsetType]
        return " | ".join(sorted(map(name_type, kinds)))
    return kind if isinstance(kind, str) else str(kind.__name__)


def test_types_and_methods_are_those_that_are_generated_from_the_declarations() -> None:
    made = generate_types(OPERATIONS.values(), NOTIFICATIONS.values())
    remedy = "run: python -m memsyncd.operations.generate"
    assert TYPES.read_text(encoding="utf-8") == made, remedy
    methods = generate_methods(OPERATIONS.values())
    assert METHODS.read_text(encoding="utf-8") == methods, remedy
    descriptions = generate_fields(OPERATIONS.values(), NOTIFICATIONS.values())
    assert FIELDS.read_text(encoding="utf-8") == descriptions, remedy


@pytest.mark.parametrize("name", GIVEN)
def test_an_answer_has_the_shape_that_it_has_on_the_wire(name: str) -> None:
    struct = next(getattr(module, name) for module in PROTOCOL if hasattr(module, name))
    wire = {field.encode_name: name_type(field.type) for field in msgspec.structs.fields(struct)}
    hints = get_type_hints(vars(types)[name])
    assert {key: name_type(kind) for key, kind in hints.items()} == wire


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_parameter_types_are_those_that_the_daemon_accepts(name: str) -> None:
    struct, filled_in = PARAMETERS[name]
    accepted = get_type_hints(vars(types)[name]).keys() | filled_in
    fields = msgspec.structs.fields(struct)
    assert accepted == {field.encode_name for field in fields}
    hints = get_type_hints(vars(types)[name], include_extras=True)
    required = {key for key, kind in hints.items() if get_origin(kind) is Required}
    assert required | filled_in >= {field.encode_name for field in fields if field.required}
    assert required <= {field.encode_name for field in fields if field.required}
