"""What should somebody be told whose parameters or method name are off? The rule broken, and the nearest name that exists."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec

SHOWN_CHARS = 64
"""Of a name that is not ours; the rest says nothing more."""

_REASON_CHARS = 1000
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*?)`(?: - at `\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`(?: - at `\$\.?(?P<place>[^`]*)`)?")
_WRONG = re.compile(r"(?P<rule>.*?)(?: - at `\$\.?(?P<place>[^`]*)`)?", re.DOTALL)


class Shape(msgspec.Struct, frozen=True):
    """What the parameters of a method may be.

    `names` has those that an object may hold, by the place of the object: `""` for the outermost, else the parameter's name,
    be it the object itself or a list of such objects.
    `words` has the closed choices, by parameter.
    """

    names: dict[str, tuple[str, ...]]
    words: dict[str, tuple[str, ...]]


def find_shape(params: type[msgspec.Struct]) -> Shape:
    fields = msgspec.structs.fields(params)
    names = {"": tuple(field.encode_name for field in fields)}
    for field in fields:
        for struct in _find_structs(field.type):
            names[field.encode_name] = tuple(inner.encode_name for inner in msgspec.structs.fields(struct))
    return Shape(names, {field.encode_name: get_args(field.type) for field in fields if get_origin(field.type) is Literal})


def _find_structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The struct that a field is, or that each item of its list is."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    else:
        for inner in get_args(kind):
            yield from _find_structs(inner)


def explain_params(reason: str, shape: Shape) -> tuple[str, str]:
    """A message and a hint for what msgspec found wrong with parameters."""
    names = shape.names[""]
    if len(reason) > _REASON_CHARS:  # it quotes what the client wrote: both ends are enough
        reason = reason[: _REASON_CHARS // 2] + reason[-_REASON_CHARS // 2 :]
    if match := _UNKNOWN.fullmatch(reason):
        return explain_name(match["name"], _find_names(shape, match["place"]), what="parameter")
    if match := _MISSING.fullmatch(reason):
        return f"parameter `{match['name']}` is missing", _list_names(_find_names(shape, match["place"]), what="parameter")
    match = _WRONG.fullmatch(reason)
    place, rule = (match["place"], match["rule"].replace("`", "")) if match else ("", reason)
    if not place:
        return "parameters are given by name, as an object", _list_names(names, what="parameter")
    words = shape.words.get(place)
    hint = f"one of: {', '.join(words)}" if words else "rpc.discover describes every parameter"
    return f"parameter `{place}`: {rule[:1].lower()}{rule[1 : 4 * SHOWN_CHARS]}", hint


def _find_names(shape: Shape, place: str | None) -> tuple[str, ...]:
    return shape.names.get((place or "").partition("[")[0], shape.names[""])


def explain_name(name: str, known: Iterable[str], *, what: str) -> tuple[str, str]:
    """A message and a hint for a name that does not exist."""
    known = tuple(known)
    shown = name if len(name) <= SHOWN_CHARS else f"{name[:SHOWN_CHARS]}…"
    near = difflib.get_close_matches(name[:SHOWN_CHARS].lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean `{near[0]}`?" if near else _list_names(known, what=what)
    return f"no {what} named `{shown}`", hint


def _list_names(names: tuple[str, ...], *, what: str) -> str:
    if not names:
        return f"it takes no {what}s"
    return f"{what}s: {', '.join(names)}"
