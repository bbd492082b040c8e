"""Relate words that share a beginning: `configure`, `configuration` and `reconfigured` are not one
stem, the first two are one family.

A stem's family are the stems that begin with its first letters, or of which one begins with all of
the other. Their occurrences count as a share of the word's own, within the word's own saturation
and with its rarity: a chunk gains from them as from a few more occurrences of the word. This serves
languages without a stemmer, too, whose words differ in their endings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# What an occurrence of a related word counts, beside one of the word itself.
FAMILY_WEIGHT = 0.4
# Related stems share so many letters and such a share of the stem, or one begins with the other,
# which has at least so many letters and is at least half as long.
SHARED_LETTERS, SHARED_PART = 5, 0.6
MIN_LETTERS = 4
# FTS5's bm25 multiplies a word's rarity by (K1 + 1) × r / (1 + r), where r grows with occurrences.
K1 = 1.2
MIN_IDF = 1e-6
# Differences below are rounding.
_LEAST = 1e-9


class WordFamily(NamedTuple):
    """What to look up for the words that are related to one stem.

    `beginning` is that of longer words, the stem's own among them; `shorter` are the words with
    which the stem begins.
    """

    stem: str
    beginning: str
    shorter: tuple[str, ...]


def make_family(stem: str) -> WordFamily | None:
    """Return the family of a stem; None if it is too short or not of letters alone."""
    if len(stem) < MIN_LETTERS or not stem.isalpha():
        return None
    n_shared = max(SHARED_LETTERS, math.ceil(SHARED_PART * len(stem)))
    least = max(MIN_LETTERS, math.ceil(len(stem) / 2))
    return WordFamily(
        stem, stem[:n_shared], tuple(stem[:n] for n in range(least, min(n_shared, len(stem))))
    )


def is_related(family: WordFamily, stem: str) -> bool:
    """True if another stem belongs to the family."""
    if stem == family.stem:
        return False
    return stem.startswith(family.beginning) or stem in family.shorter


def compute_gains(
    n_chunks: int,
    own: Mapping[int, float],
    related: Sequence[Mapping[int, float]],
    *,
    has_own: bool,
) -> dict[int, float]:
    """Return what chunks gain in bm25 from the family of a word.

    `own` are the scores of the word itself by chunk, `related` those of related words; with
    `has_own` the first of them counts the word's own occurrences, too. They hold all chunks that
    match, of `n_chunks`. A word that no chunk has is as rare as the first of its relatives.
    """
    idf = compute_idf(n_chunks, len(own) or len(related[0]))
    by_word = [_count_all(n_chunks, scores) for scores in related]
    mine = _count_all(n_chunks, own)
    gains: dict[int, float] = {}
    for chunk in dict.fromkeys(chunk for counts in by_word for chunk in counts):
        of_word = mine.get(chunk, 0.0)
        n_related = sum([counts.get(chunk, 0.0) for counts in by_word]) - has_own * of_word
        whole = of_word + FAMILY_WEIGHT * n_related
        if whole > of_word + _LEAST:
            gains[chunk] = idf * (K1 + 1) * (whole / (1 + whole) - of_word / (1 + of_word))
    return gains


def compute_idf(n_chunks: int, n_matching: int) -> float:
    """Return the rarity of a word as FTS5's bm25 computes it."""
    return max(MIN_IDF, math.log((n_chunks - n_matching + 0.5) / (n_matching + 0.5)))


def _count_all(n_chunks: int, scores: Mapping[int, float]) -> dict[int, float]:
    """Return by chunk the occurrences, relative to the length of the text, of which bm25 made the
    scores of one word.
    """
    most = compute_idf(n_chunks, len(scores)) * (K1 + 1)
    return {chunk: score / (most - score) for chunk, score in scores.items()}
