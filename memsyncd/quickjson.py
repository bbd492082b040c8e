"""How does a client write and read one line of JSON without paying for `json`?

By the engine of `json`, which is C. Python's part of it imports `re`, and that would cost more than all the rest of a question.
"""

from __future__ import annotations

from _json import encode_basestring, make_encoder, make_scanner


def render_json(value: object) -> str:
    """The value in one line, unescaped. Raises TypeError for what JSON has no word for."""
    return "".join(_encode(value, 0))


def parse_json(text: str) -> object:
    """The value that the text is. Raises ValueError if it is none, or more than one."""
    text = text.strip(" \t\n\r")
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError("more than one value")
    return value


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


class _Reading:
    """How the scanner is to read values: as `json` does by itself."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


_scan = make_scanner(_Reading)  # type: ignore[arg-type]  # any object with these attributes will do
_encode = make_encoder(
    markers=None,
    default=_refuse,
    encoder=encode_basestring,
    indent=None,
    key_separator=":",
    item_separator=",",
    sort_keys=False,
    skipkeys=False,
    allow_nan=True,
)
