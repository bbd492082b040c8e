"""Makes the queries that are measured from the words of the notes: nine classes, the same ones in
each run.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from memsyncd.core.search.query import STOPWORDS
from tests.benchmarks.corpus import BROAD, SEED

QUESTION = "a sentence as a question"
LIGHT = "two or three words"
FILTERED = "`path:` filter and two words"
_QUESTION_TEXT = "how do I use {} with the {} and what is the {} of {}"
_WORD = re.compile(r"[a-z]{4,20}")
_BLANK_LINES = re.compile(r"\n\s*\n")
MIN_WORDS = 4
# Shares of the passages that have a word, in percent.
RARE, MEDIUM, COMMON = (0.0, 0.05), (1.0, 10.0), (10.0, 100.0)


class Query(NamedTuple):
    """A query's text, and the same as an FTS5 MATCH expression without its filters."""

    text: str
    match: str

    @property
    def without_filter(self) -> str:
        return self.text.partition(" path:")[0]


class Vocabulary:
    """The words of passages, which are paragraphs of notes, and how many passages have each."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.passages: list[list[str]] = []
        counts: Counter[str] = Counter()
        for text in texts:
            for passage in _BLANK_LINES.split(text.lower()):
                words = [word for word in _WORD.findall(passage) if word not in STOPWORDS]
                if len(words) >= MIN_WORDS:
                    self.passages.append(words)
                    counts.update(set(words))
        if not self.passages:
            raise ValueError(f"no paragraph of the notes has {MIN_WORDS} words")
        ordered = sorted(counts.items(), key=lambda item: (item[1], item[0]))
        self._words = [word for word, _ in ordered]
        self._counts = [count for _, count in ordered]

    def find_words(self, shares: tuple[float, float], at_least: int) -> list[str]:
        """Return the words that so many percent of the passages have; if they are fewer than
        `at_least`, with the next ones.
        """
        low, high = (len(self.passages) * share / 100 for share in shares)
        first, last = bisect_right(self._counts, low), bisect_right(self._counts, high)
        if last - first < at_least:
            first = max(0, min(first, len(self._words) - at_least))
            last = max(last, first + at_least)
        return self._words[first:last]


def make_queries(vocabulary: Vocabulary, n_each: int) -> dict[str, list[Query]]:
    """Return so many queries of each class."""
    chance = random.Random(SEED)
    makers: dict[str, Callable[[], Query]] = {
        "a rare word": _word_maker(vocabulary, RARE, n_each, chance),
        "a word of 1–10 %": _word_maker(vocabulary, MEDIUM, n_each, chance),
        "a common word": _word_maker(vocabulary, COMMON, n_each, chance),
        LIGHT: lambda: any_of(_choose_near(vocabulary, chance, chance.choice((2, 3)))),
        QUESTION: lambda: _make_question(_choose_near(vocabulary, chance, 4)),
        "twenty words": lambda: any_of(_choose_far(vocabulary, chance, 20)),
        "a phrase": lambda: _make_phrase(vocabulary, chance),
        FILTERED: lambda: _make_filtered(_choose_near(vocabulary, chance, 2)),
        "a prefix": lambda: _make_prefix(chance.choice(chance.choice(vocabulary.passages))),
    }
    return {name: [make() for _ in range(n_each)] for name, make in makers.items()}


def any_of(words: Sequence[str]) -> Query:
    return Query(" ".join(words), " OR ".join(f'"{word}"' for word in words))


def _word_maker(
    vocabulary: Vocabulary, shares: tuple[float, float], n_each: int, chance: random.Random
) -> Callable[[], Query]:
    words = vocabulary.find_words(shares, n_each)
    return lambda: any_of([chance.choice(words)])


def _choose_near(vocabulary: Vocabulary, chance: random.Random, n_words: int) -> list[str]:
    """Choose words of one passage."""
    passage = chance.choice(vocabulary.passages)
    return chance.sample(passage, min(n_words, len(passage)))


def _choose_far(vocabulary: Vocabulary, chance: random.Random, n_words: int) -> list[str]:
    """Choose words of as many passages."""
    return [chance.choice(chance.choice(vocabulary.passages)) for _ in range(n_words)]


def _make_question(words: Sequence[str]) -> Query:
    return Query(_QUESTION_TEXT.format(*words), any_of(words).match)


def _make_phrase(vocabulary: Vocabulary, chance: random.Random) -> Query:
    passage = chance.choice(vocabulary.passages)
    first = chance.randrange(len(passage) - 1)
    phrase = f'"{passage[first]} {passage[first + 1]}"'
    return Query(phrase, phrase)


def _make_filtered(words: Sequence[str]) -> Query:
    query = any_of(words)
    return Query(f"{query.text} path:{BROAD}", query.match)


def _make_prefix(word: str) -> Query:
    return Query(f"{word[:4]}*", f"{word[:4]}*")
