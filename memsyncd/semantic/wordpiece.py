"""Cut text into the word pieces of BERT, as its tokenizer does.

Words are cut at spaces and punctuation, each Chinese character is a word, and a word is cut from
the left into the longest pieces that the vocabulary has.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

# Longer words are unknown.
MAX_WORD_CHARS = 100
_CONTINUED = "##"
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """A vocabulary with the pieces `[CLS]`, `[SEP]` and `[UNK]`; raises KeyError without them."""

    def __init__(self, vocabulary: Mapping[str, int], *, is_lower: bool) -> None:
        self._vocabulary = vocabulary
        self._is_lower = is_lower
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._unknown = vocabulary["[UNK]"]
        self._known: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str, most: int) -> list[int]:
        """Return at most `most` pieces, with the first and the last one that BERT wants."""
        found = [self._first]
        for word in _split(text, is_lower=self._is_lower):
            pieces = self._known.get(word)
            if pieces is None:
                pieces = self._known[word] = tuple(self._cut(word))
            found += pieces
            if len(found) >= most:
                break
        return [*found[: most - 1], self._last]

    def _cut(self, word: str) -> list[int]:
        if len(word) > MAX_WORD_CHARS:
            return [self._unknown]
        found, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else _CONTINUED + word[start:end]
                if piece in self._vocabulary:
                    found.append(self._vocabulary[piece])
                    start = end
                    break
            else:
                return [self._unknown]
        return found


def _split(text: str, *, is_lower: bool) -> Iterator[str]:
    """Yield the words of a text."""
    spaced = "".join(map(_space, text))
    for given in spaced.split():
        word = _strip_accents(given.lower()) if is_lower else given
        start = 0
        for at, char in enumerate(word):
            if _is_punctuation(char):
                if start < at:
                    yield word[start:at]
                yield char
                start = at + 1
        if start < len(word):
            yield word[start:]


def _space(char: str) -> str:
    """Return a character with spaces around an ideograph, and nothing for a control character."""
    code = ord(char)
    if code < 0x80:
        return char if code >= 0x20 and code != 0x7F else " " if char in "\t\n\r" else ""
    if any(first <= code <= last for first, last in _IDEOGRAPHS):
        return f" {char} "
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    return "" if category in ("Cc", "Cf") or code == 0xFFFD else char


def _strip_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(
        char for char in unicodedata.normalize("NFD", word) if unicodedata.category(char) != "Mn"
    )


def _is_punctuation(char: str) -> bool:
    if char.isascii():
        return not char.isalnum() and char.isprintable() and char != " "
    return unicodedata.category(char).startswith("P")
