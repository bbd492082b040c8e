"""How is a text looked through fast? As bytes in lower case, one for each character, so that a place in one is a place in both.

What no hint stands in is not looked at again: nearly all notes end here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence


class Hints:
    """Words to look for in folded texts. Those that share a rare letter are found at once, by skipping from one to the next."""

    def __init__(self, *words: bytes, letter: bytes = b"") -> None:
        """`letter` stands in each of the `words`, of which one alone needs none, and is helped by a rare one."""
        self._words: Sequence[bytes] = words
        self._before = [word.rindex(letter) for word in words]
        self._pattern: re.Pattern[bytes] | None = None
        if letter:
            ends = (rb"%b(?<=%b)()" % (word[at + 1 :], word) for word, at in zip(words, self._before, strict=True))
            self._pattern = re.compile(letter + b"(?:" + b"|".join(ends) + b")")

    def find(self, folded: bytes) -> Iterator[tuple[int, bytes]]:
        """Where which word stands, in order."""
        if self._pattern is None:
            yield from ((at, self._words[0]) for at in find_all(folded, self._words[0]))
            return
        for found in self._pattern.finditer(folded):
            number = (found.lastindex or 1) - 1
            yield found.start() - self._before[number], self._words[number]


def fold_case(text: str) -> bytes:
    """`text` in lower case, a byte for each character; `?` for all that is not ASCII."""
    return text.encode("ascii", "replace").lower()


def find_all(folded: bytes, hint: bytes) -> Iterator[int]:
    """Where `hint` stands, in order."""
    at = folded.find(hint)
    while at >= 0:
        yield at
        at = folded.find(hint, at + 1)
