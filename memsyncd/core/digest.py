"""Compute digests of bytes and texts: xxh3-128 in hexadecimal.

The digest is fast. It does not resist an attacker who constructs files with equal digests.
"""

from __future__ import annotations

import xxhash


def digest_bytes(data: bytes) -> str:
    """32 lower-case hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(data)


def digest_text(text: str) -> str:
    """The digest of the text's UTF-8 bytes; lone surrogates are encoded as themselves."""
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))


def digest_to_bytes(text: str) -> bytes:
    """The digest of the text as 16 bytes; `digest_text` returns it in hexadecimal."""
    return xxhash.xxh3_128_digest(text.encode("utf-8", "surrogatepass"))
