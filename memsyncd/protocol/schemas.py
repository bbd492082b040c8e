"""The JSON schemas of parameters and results, with what the declarations say of each field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from memsyncd.protocol._generated import FIELDS


def describe_structs(
    structs: Iterable[type[msgspec.Struct]], reference: str
) -> dict[str, dict[str, Any]]:
    """Return the schemas of structs and of what they contain, by name. `reference` is how one
    schema refers to another, with `{name}`.
    """
    _, schemas = msgspec.json.schema_components(list(structs), ref_template=reference)
    for name, schema in schemas.items():
        for field, text in FIELDS.get(name, {}).items():
            if field in schema.get("properties", {}):
                schema["properties"][field].setdefault("description", text)
    return schemas
