"""Compare texts by their words, to find a text that nearly exists already.

The similarity of two texts is the Dice coefficient of their features: distinct words, and pairs of
words that follow each other, so that the same words in another order are less than the same text.
Upper and lower case, punctuation and markup do not count. A text in a script without spaces has the
pairs of its characters for words.

Dice, L. R. (1945): Measures of the amount of ecologic association between species.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from memsyncd.core.search.words import split_words

Features = frozenset[tuple[str, ...]]

QUERY_WORDS: Final = 24
"""More words do not find other candidates, and cost time."""
_QUERY_CHARACTERS: Final = 600
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK_TARGET = re.compile(r"\]\([^()\s]*\)")


def find_features(text: str) -> Features:
    """Return the distinct words of a text and its pairs of adjacent words."""
    words = list(_list_words(text))
    return frozenset([*((word,) for word in words), *pairwise(words)])


def compute_similarity(one: Features, other: Features) -> float:
    """Return the share of features in common, from 0 to 1; 0 if either has none."""
    n_all = len(one) + len(other)
    return 2 * len(one & other) / n_all if one and other else 0.0


def make_similar_query(text: str) -> str:
    """Return a query for the texts that may be similar: the longest words of the text, as words
    that need not all occur. Long words are rare ones, more often than not.
    """
    words = sorted(dict.fromkeys(_list_words(text)), key=len, reverse=True)
    return " ".join(_limit(words[:QUERY_WORDS]))


def _limit(words: Iterable[str]) -> Iterator[str]:
    n_characters = 0
    for word in words:
        n_characters += len(word.encode()) + 1
        if n_characters > _QUERY_CHARACTERS:
            return
        yield word


def _list_words(text: str) -> Iterator[str]:
    shown = _LINK_TARGET.sub("]", _COMMENT.sub(" ", text)).casefold()
    for part in shown.split():
        for sequence in split_words(part):
            yield from sequence.words
