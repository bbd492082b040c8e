"""Which words does an index hold, near where one would stand that it has not? Read from FTS5's own list of words.

The list is read by ranges of words that begin alike, never as a whole: that would take as long as reading all of the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from string import ascii_lowercase

from memsyncd.store.readers import Reader

N_WORDS = 5000
"""Read at most, of one range."""

_WORDS = "SELECT term, doc FROM words_exact WHERE term >= ? AND term < ? LIMIT ?"

Counted = tuple[str, int]
"""A word as the index has it, folded but not stemmed, and how many chunks hold it."""


def find_words_alike(reader: Reader, word: str) -> list[Counted]:
    """Words with the first two letters of `word`, which must be folded, or with others that a slip makes of them."""
    return _find_words(reader, [word[:2], *_find_slipped(word)])


def find_words_of_letter(reader: Reader, word: str) -> list[Counted]:
    """Words with the same first letter; on a large index not all of them."""
    return _find_words(reader, [word[:1]])


def _find_slipped(word: str) -> Iterator[str]:
    """How a word may begin of which `word` has one of its first two letters wrong, missing, twice, or turned round."""
    for at in (0, 1):
        head, rest = word[:at], word[at:]
        yield head + rest[1:4]
        yield head + rest[1::-1] + rest[2:4]
        for letter in ascii_lowercase:
            yield head + letter + rest[1:4]
            yield head + letter + rest[:3]


def _find_words(reader: Reader, beginnings: Iterable[str]) -> list[Counted]:
    found: dict[str, int] = {}
    for beginning in dict.fromkeys(beginnings):
        if beginning:
            found.update(reader.rows(_WORDS, (beginning, beginning + "\U0010ffff", N_WORDS)))
    return list(found.items())
