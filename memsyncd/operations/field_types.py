"""Questions about the types of fields, for what is derived from declarations."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin


def find_plain_type(kind: Any) -> Any:
    """Return a type without its limits and without None."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        parts = [part for part in get_args(kind) if part is not NoneType]
        if get_origin(kind) is not Annotated and len(parts) > 1:
            break
        kind = parts[0]
    return kind


def takes_list(kind: Any) -> bool:
    """True for a type that accepts a list, among others."""
    return get_origin(kind) is list or any(map(takes_list, get_args(kind)))


def is_list_type(kind: Any) -> bool:
    """True for a type that accepts lists alone."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_origin(kind) is list


def may_be_list(kind: Any) -> bool:
    """True for a type that accepts a list or an array of fixed length, among others."""
    return get_origin(kind) in (list, tuple) or any(map(may_be_list, get_args(kind)))
