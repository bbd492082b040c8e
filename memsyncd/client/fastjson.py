"""Render and parse lines of JSON without importing `json`."""

from __future__ import annotations

try:
    # The C engine of `json`, under a name that is private to CPython. `json` itself imports `re`:
    # 6.5 ms, which makes the start of a client 0.7 times the whole of `python -c pass` slower.
    from _json import encode_basestring, make_encoder, make_scanner
except ImportError:
    import json

    def encode_json(value: object) -> str:
        """Render the value as one line. Raises TypeError for a value that JSON cannot express."""
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def parse_json(text: str) -> object:
        """Parse exactly one value. Raises ValueError for any other text."""
        value: object = json.loads(text)
        return value

else:

    def encode_json(value: object) -> str:
        """Render the value as one line. Raises TypeError for a value that JSON cannot express."""
        return "".join(_encode(value, 0))

    def parse_json(text: str) -> object:
        """Parse exactly one value. Raises ValueError for any other text."""
        text = text.strip(" \t\n\r")
        try:
            value, end = _scan(text, 0)
        # Of most errors, the C engine makes one of `json.decoder`; without that module it fails.
        except (StopIteration, SystemError):
            raise ValueError("not JSON") from None
        if end != len(text):
            raise ValueError("more than one value")
        return value

    def _refuse(value: object) -> None:
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")

    class _ScannerOptions:
        """The defaults of `json`."""

        strict = True
        object_hook = object_pairs_hook = None
        parse_float = parse_constant = float
        parse_int = int

    _scan = make_scanner(_ScannerOptions)  # type: ignore[arg-type]  # it reads these attributes
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
