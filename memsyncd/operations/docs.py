"""Read the docstrings of fields from the source of a declaration, and ask about types of fields."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from memsyncd.operations.fields import FIELD_DOCS


def read_comments(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the description of each of the struct's own fields: the `#` lines above the field, or
    the string below it.
    """
    return _read_module(struct.__module__).get(struct.__name__, {})


def read_field_docs(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstring of each field as one line, also of inherited fields."""
    docs = {name: FIELD_DOCS.get(name, "") for name in struct.__struct_fields__}
    for base in reversed(struct.__mro__):
        own = read_comments(base) if issubclass(base, msgspec.Struct) else {}
        docs |= {name: " ".join(text.split()) for name, text in own.items() if text}
    return docs


@cache
def _read_module(module: str) -> dict[str, dict[str, str]]:
    """Return the descriptions of all fields of a module, by class and field. The result is empty
    without the source.
    """
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return {}
    lines = source.splitlines()
    return {
        node.name: _read_class(node, lines)
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }


def _read_class(tree: ast.ClassDef, lines: list[str]) -> dict[str, str]:
    comments: dict[str, str] = {}
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        above: list[str] = []
        for line in reversed(lines[: node.lineno - 1]):
            if not (comment := re.fullmatch(r"\s*# (.*)", line)):
                break
            above.insert(0, comment[1])
        comments[node.target.id] = " ".join(above)
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            comments[node.target.id] += str(following.value.value)
    return comments


def find_plain_type(kind: Any) -> Any:
    """Return a type without its limits and without None: `int` for `Annotated[int, …] | None`."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        parts = [part for part in get_args(kind) if part is not NoneType]
        if get_origin(kind) is not Annotated and len(parts) > 1:
            break
        kind = parts[0]
    return kind


def takes_list(kind: Any) -> bool:
    """True for a type that accepts a list, perhaps besides other values."""
    return get_origin(kind) is list or any(map(takes_list, get_args(kind)))


def is_list_type(kind: Any) -> bool:
    """True for a type that accepts only lists."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_origin(kind) is list


def may_be_list(kind: Any) -> bool:
    """True for a type that accepts a list or an array of fixed length, perhaps besides others."""
    return get_origin(kind) in (list, tuple) or any(map(may_be_list, get_args(kind)))
