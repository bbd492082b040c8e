"""Measure how many words of a question stand in a text in a row, as somebody copied them.

bm25 knows how often words occur and how rare they are, not where: a sentence of common words counts
less than a text that repeats one of its rarer words. So words in a row count by themselves: the
weightiest run of the question's words, by the square of its share of the whole question.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from memsyncd.core.search.folding import fold
from memsyncd.core.search.words import UNSPACED

# Further words of a question are ignored.
MAX_WORDS = 64
# What a run of all words counts, and if its signs are those of the question as well; a run without
# one of them counts less than 1. The step is more than what a text gains from those beside it.
ALL_WORDS, VERBATIM = 1.5, 1.6
# What a word without information counts in a run, such as `of` and `the`, beside another.
STOPWORD_WEIGHT = 0.1

_WORD = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{UNSPACED}]").match
# Blanks for all bytes of ASCII but letters and digits, and small letters for capitals.
_ASCII_WORDS = bytes(
    ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else 32 for c in range(256)
)


class RunFinder:
    """Find runs of a question's words in texts. `words` are those of the question, folded; each
    character of a script without spaces is one.
    """

    def __init__(self, question: str, telling: Collection[str]) -> None:
        """`telling` are the words with information, as they are typed."""
        self._verbatim = " ".join(question.split())
        words: list[str] = []
        # Each word with the blank before it, if there is one.
        self._parts: list[str] = []
        for found in _WORD.findall(fold(question).lower()):
            pieces = [*found] if _IS_UNSPACED(found) else [found]
            words += pieces
            self._parts += [f" {pieces[0]}", *pieces[1:]]
        self.words = tuple(words[:MAX_WORDS])
        self._pairs = [self._join(start, start + 2) for start in range(len(self.words) - 1)]
        known = {fold(word).lower() for word in telling}
        self._weights = [
            1.0 if word in known or _IS_UNSPACED(word) else STOPWORD_WEIGHT for word in self.words
        ]

    def measure(self, text: str) -> float:
        """Return what the weightiest run of a text counts, from 0 to VERBATIM."""
        if not self._pairs:
            return 0.0
        joined, heaviest, end = join_words(text), 0.0, 0
        for start in [start for start, pair in enumerate(self._pairs) if pair in joined]:
            at = max(end, start + 2)
            while at < len(self.words) and self._join(start, at + 1) in joined:
                at += 1
            if at > end:
                end = at
                heaviest = max(heaviest, self._weigh(start, end))
        share = heaviest / self._weigh(0, len(self.words))
        if share < 1.0:
            return share * share
        return VERBATIM if self._verbatim in " ".join(text.split()) else ALL_WORDS

    def _weigh(self, start: int, end: int) -> float:
        """What the words from `start` on, before `end`, weigh beyond one of them."""
        weights = self._weights[start:end]
        return sum(weights) - max(weights)

    def _join(self, start: int, end: int) -> str:
        """The words from `start` on, before `end`, as `join_words` has them."""
        first, *others = self._parts[start:end]
        return "".join(
            (
                first.strip() if _IS_UNSPACED(self.words[start]) else first,
                *others,
                "" if _IS_UNSPACED(self.words[end - 1]) else " ",
            )
        )


def join_words(text: str) -> str:
    """The folded words of a text with one blank between two of them, before the first and after the
    last; a run of a script without spaces is one word.
    """
    if not text.isascii():
        return f" {' '.join(_WORD.findall(fold(text).lower()))} "
    return f" {b' '.join(text.encode().translate(_ASCII_WORDS).split()).decode()} "
