"""How is a text cut so that no piece of it is too long for a line? Between characters, where it is UTF-8."""

from __future__ import annotations

from collections.abc import Iterator

PIECE_BYTES = 128 * 1024
"""As JSON, where a control character takes six bytes, a piece is well below what a request or an answer may be."""
_LONGEST_CHARACTER = 4


def cut_pieces(data: bytes, limit_bytes: int = PIECE_BYTES) -> Iterator[tuple[int, bytes]]:
    """Each piece with its offset in bytes; joined they are the text. An empty text is one empty piece.

    `limit_bytes` is 4 or more. Of valid UTF-8 every piece is valid UTF-8.
    """
    start = 0
    while True:
        end = min(start + limit_bytes, len(data))
        if end < len(data):
            end = _find_boundary(data, end)
        yield start, data[start:end]
        if end == len(data):
            return
        start = end


def _find_boundary(data: bytes, at: int) -> int:
    """The last place up to `at` that is not within a character, or `at` if what stands there is no UTF-8."""
    for place in range(at, at - _LONGEST_CHARACTER, -1):
        if data[place] & 0xC0 != 0x80:
            return place
    return at
