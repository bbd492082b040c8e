"""Cut a text into pieces that fit into a line: between characters, where it is UTF-8."""

from __future__ import annotations

from collections.abc import Iterator

# As JSON, where a control character takes six bytes, a piece stays well below the limits of a
# request and an answer.
PIECE_BYTES = 128 * 1024
_LONGEST_CHARACTER = 4


def cut_pieces(data: bytes, limit_bytes: int = PIECE_BYTES) -> Iterator[tuple[int, bytes]]:
    """Each piece with its offset in bytes; joined they are the text.

    An empty text is one empty piece. `limit_bytes` is 4 or more. Of valid UTF-8 every piece is
    valid UTF-8.
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
    """The last offset up to `at` that is not within a character, or `at` if the bytes are not
    UTF-8.
    """
    for place in range(at, at - _LONGEST_CHARACTER, -1):
        if data[place] & 0xC0 != 0x80:
            return place
    return at
