"""Are these bytes those bytes? xxh3-128 in hexadecimal: quick, and not for anything that must resist an author of files."""

from __future__ import annotations

import xxhash


def digest_bytes(data: bytes) -> str:
    """32 lower-case hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(data)


def digest_text(text: str) -> str:
    """The digest of the text's UTF-8 bytes; lone surrogates count as themselves."""
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))
