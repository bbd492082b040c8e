"""Which words does an index hold, near where one would stand that it has not? Read from FTS5's own list of words.

The list is read by ranges of words that begin alike, never as a whole: that would take as long as reading all of the index.
"""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_lowercase

from memsyncd.store.readers import Reader

N_WORDS = 5000
"""Read at most, of one range."""

_WORDS = "SELECT term, doc FROM words_exact WHERE term >= ? AND term < ? LIMIT ?"

Counted = tuple[str, int]
"""A word as the index has it, folded but not stemmed, and how many chunks hold it."""


def find_words_alike(reader: Reader, word: str) -> list[Counted]:
    """Words that begin with the same letter as `word`, which must be folded."""
    return _find_words(reader, [word[:1]])


def find_words_begun_otherwise(reader: Reader, word: str) -> list[Counted]:
    """Words that would go on as `word` does, were its first letters not wrong, missing, too many, or turned round."""
    beginnings = [word[1:4], word[1::-1] + word[2:4]]
    beginnings += [f"{letter}{rest}" for letter in ascii_lowercase for rest in (word[1:4], word[:3])]
    return _find_words(reader, beginnings)


def _find_words(reader: Reader, beginnings: Iterable[str]) -> list[Counted]:
    found: dict[str, int] = {}
    for beginning in dict.fromkeys(beginnings):
        if beginning:
            found.update(reader.rows(_WORDS, (beginning, beginning + "\U0010ffff", N_WORDS)))
    return list(found.items())
