"""Search a text fast for words that precede a costly pattern.

The text is folded to bytes in lower case, one for each character, so that an offset in one is an
offset in the other. A text without a hint is not examined further: nearly all notes end here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence


class Prefilter:
    """Words to look for in folded texts.

    Words that share a rare letter are found in one pass that skips from one such letter to the
    next.
    """

    def __init__(self, *words: bytes, letter: bytes = b"") -> None:
        """`letter` occurs in each of the `words`.

        One word alone needs none; a rare letter makes the search faster.
        """
        self._words: Sequence[bytes] = words
        self._before = [word.rindex(letter) for word in words]
        self._pattern: re.Pattern[bytes] | None = None
        if letter:
            ends = (
                rb"%b(?<=%b)()" % (word[at + 1 :], word)
                for word, at in zip(words, self._before, strict=True)
            )
            self._pattern = re.compile(letter + b"(?:" + b"|".join(ends) + b")")

    def find(self, folded: bytes) -> Iterator[tuple[int, bytes]]:
        """The offset of each word found, and the word, in order."""
        if self._pattern is None:
            yield from ((at, self._words[0]) for at in find_all(folded, self._words[0]))
            return
        for found in self._pattern.finditer(folded):
            number = (found.lastindex or 1) - 1
            yield found.start() - self._before[number], self._words[number]


def fold_case(text: str) -> bytes:
    """`text` in lower case, a byte for each character; `?` for each character that is not ASCII."""
    return text.encode("ascii", "replace").lower()


def find_all(folded: bytes, hint: bytes) -> Iterator[int]:
    """The offsets of `hint`, in order."""
    at = folded.find(hint)
    while at >= 0:
        yield at
        at = folded.find(hint, at + 1)
