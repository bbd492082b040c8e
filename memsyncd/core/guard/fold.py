"""How is a text looked through fast? As bytes in lower case, one for each character, so that a place in one is a place in both.

What no hint stands in is not looked at again: nearly all notes end here.
"""

from __future__ import annotations

from collections.abc import Iterator


def fold(text: str) -> bytes:
    """`text` in lower case, a byte for each character; `?` for all that is not ASCII."""
    return text.encode("ascii", "replace").lower()


def find_all(folded: bytes, hint: bytes) -> Iterator[int]:
    """Where `hint` stands, in order."""
    at = folded.find(hint)
    while at >= 0:
        yield at
        at = folded.find(hint, at + 1)
