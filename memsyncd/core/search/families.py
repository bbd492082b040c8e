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
    n_own: int,
    own: Mapping[int, float],
    related: Sequence[Mapping[int, float]],
    *,
    has_own: bool,
) -> dict[int, float]:
    """Return what chunks gain in bm25 from the family of a word.

    `n_own` of `n_chunks` have the word itself; `own` are their scores by chunk, at least those of
    chunks that have related words, too. `related` are the scores of related words; with `has_own`
    the first counts the word's own occurrences, too. A word that no chunk has is as rare as its
    family.
    """
    if not FAMILY_WEIGHT:
        return {}
    occurrences: dict[int, float] = {}
    for scores in related:
        most = (K1 + 1) * compute_idf(n_chunks, len(scores))
        for chunk, score in scores.items():
            occurrences[chunk] = occurrences.get(chunk, 0.0) + score / (most - score)
    most_own = (K1 + 1) * compute_idf(n_chunks, n_own)
    most = (K1 + 1) * compute_idf(n_chunks, n_own or len(occurrences))
    gains: dict[int, float] = {}
    for chunk, n_found in occurrences.items():
        score = own.get(chunk, 0.0)
        of_word = score / (most_own - score)
        n_related = n_found - of_word if has_own else n_found
        if n_related > _LEAST:
            whole = of_word + FAMILY_WEIGHT * n_related
            gains[chunk] = most * (whole / (1 + whole) - of_word / (1 + of_word))
    return gains


def compute_idf(n_chunks: int, n_matching: int) -> float:
    """Return the rarity of a word as FTS5's bm25 computes it."""
    return max(MIN_IDF, math.log((n_chunks - n_matching + 0.5) / (n_matching + 0.5)))
