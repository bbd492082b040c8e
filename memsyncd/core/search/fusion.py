"""Fuse scores by words with cosines of vectors: what a chunk means counts beside its words.

The fused score is 0.6 × lexical / highest lexical + 0.4 × (cosine - median) / (highest - median),
with another `weight` than 0.4 if so measured. Times a constant, its second part is what a chunk
gains in bm25 from its vector; note, neighbours and date then count as for words alone, and without
cosines nothing changes. A chunk whose vector is not made yet gains what its words are worth, and
while that is so of many, the words of all count more: what vectors find among a few chunks is not
what they would find among all.

A sum of scores and not of ranks: a rank forgets how far the best is ahead (Bruch, S., Gai, S. and
Ingber, A. (2023): An analysis of fusion functions for hybrid retrieval). Cosines of unrelated texts
lie around the median, which depends on the model and on the notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# The unit where no chunk has any of the words.
_ALONE = 1.0
_SMALLEST_SPREAD = 1e-6
_SMALLEST_SCORE = 1e-9
NO_COSINES: Mapping[int, float] = {}


class SemanticGains(NamedTuple):
    """What chunks gain from their vectors, by chunk, in the unit of the lexical scores.

    `spread` is the distance from the median to the highest cosine, and `unit` what a lexical score
    of 1 stands for: they make gains of several indexes comparable.
    """

    of: Mapping[int, float] = NO_COSINES
    spread: float = 0.0
    unit: float = _ALONE


NO_SEMANTIC_GAINS = SemanticGains()


def compute_semantic_gains(
    cosines: Mapping[int, float],
    *,
    median: float,
    highest: float,
    lexical: Mapping[int, float],
    highest_lexical: float,
    weight: float,
    coverage: float = 1.0,
) -> SemanticGains:
    """Return what chunks gain from their cosines, or for want of these from their words.

    `weight` (from 0, and below 1) is the share of the cosines in the fused score. `median` and
    `highest` are those of all chunks that a search may find. A cosine below the median gains
    nothing; the highest gains what makes its share of the fused score `weight`.

    `lexical` are the scores of the chunks with words of the question, at most `highest_lexical`.
    Of those without a cosine the share of the words in their highest counts in its place, and so
    it does for all chunks beside the cosine as far as `coverage`, the share of the chunks of the
    index that have vectors, is below 1.
    """
    spread = highest - median
    if weight <= 0.0 or spread < _SMALLEST_SPREAD:
        return NO_SEMANTIC_GAINS
    unit = highest_lexical if highest_lexical > _SMALLEST_SCORE else _ALONE
    most = unit * weight / (1.0 - weight)
    gains = {
        chunk: most * ((cosine - median) / spread) if cosine < highest else most
        for chunk, cosine in cosines.items()
        if cosine > median
    }
    if coverage < 1.0:
        gains = {chunk: coverage * gain for chunk, gain in gains.items()}
    elif lexical.keys() <= cosines.keys():
        return SemanticGains(gains, spread, unit)
    for chunk, score in lexical.items():
        share = 1.0 - coverage if chunk in cosines else 1.0
        if share and score > 0.0:
            gains[chunk] = gains.get(chunk, 0.0) + share * most * min(1.0, score / unit)
    return SemanticGains(gains, spread, unit)
