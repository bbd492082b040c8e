"""Make the scores of several workspaces comparable, and keep the order of each: the answers of a
search (`engine/search`) and of a context (`engine/context`) are merged by them.

bm25 weighs a word by its rarity in one index, so the raw scores of several indexes are not
comparable: a word that fills one workspace counts nothing there and much elsewhere. Each raw score
is multiplied by the rarity of its hit's words in all indexes together, relative to their rarity in
its own index. For one word that is exact except for text lengths; for several words it is a mean. A
hit never gets more than the hit before it, so the order of each index is kept; a single index keeps
its scores.

A workspace may lie within another. A note that both have counts once: `find_repeated`.

The part of a raw score that a vector gives is relative to the nearest chunk of its own index. It is
scaled to the nearest chunk of all indexes; in an index without vectors, words count for both parts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from memsyncd.core.search.passages import compute_rarity


class TermCounts(msgspec.Struct, frozen=True):
    """The chunks of an index, and how many of them each term of the query matches.

    `spread` and `unit` are as in `SemanticGains`; without vectors the spread is 0.
    """

    n_chunks: int
    n_matching: tuple[int, ...] = ()
    spread: float = 0.0
    unit: float = 1.0

    @property
    def rarities(self) -> list[float]:
        return [compute_rarity(self.n_chunks, min(n, self.n_chunks)) for n in self.n_matching]


class RawHit(msgspec.Struct, frozen=True):
    """A hit's raw score in its own index, the indices of the terms that it holds, and the share of
    the score that its vector gives.
    """

    raw_score: float
    terms: frozenset[int] = frozenset()
    semantic_share: float = 0.0


class FoundLines(NamedTuple):
    """Lines of a note; `root` is the folder of the workspace that has found them."""

    root: str
    path: str
    first_line: int
    last_line: int


def find_repeated(places: Sequence[FoundLines]) -> frozenset[int]:
    """Return the indices of places whose lines a workspace further within has found, too."""
    roots = {place.root for place in places}
    if not any(inner.startswith(f"{outer}/") for outer in roots for inner in roots):
        return frozenset()
    by_file: dict[str, list[int]] = {}
    for index, place in enumerate(places):
        by_file.setdefault(f"{place.root}/{place.path}", []).append(index)
    return frozenset(
        index
        for indices in by_file.values()
        for index in indices
        if any(_is_nearer(places[other], places[index]) for other in indices)
    )


def _is_nearer(lines: FoundLines, other: FoundLines) -> bool:
    """True for places of one file with lines in common if `lines` has the longer root."""
    have_common = lines.first_line <= other.last_line and other.first_line <= lines.last_line
    return have_common and len(lines.root) > len(other.root)


def compare_raw_scores(
    parts: Sequence[tuple[TermCounts, Sequence[RawHit]]], semantic_weight: float
) -> list[list[float]]:
    """Return for the hits of each index, the best first, raw scores that compare across indexes.

    `semantic_weight` is the share of vectors in a fused score.
    """
    total = _add_counts([counts for counts, _ in parts]).rarities
    factors = [
        [_compute_factor(hit.terms, counts.rarities, total) for hit in hits]
        for counts, hits in parts
    ]
    widest = max((counts.spread for counts, _ in parts), default=0.0)
    units = [
        counts.unit * max(each)
        for (counts, _), each in zip(parts, factors, strict=True)
        if each and counts.spread
    ]
    compared: list[list[float]] = []
    for (counts, hits), each in zip(parts, factors, strict=True):
        least, scores = float("inf"), list[float]()
        nearness = (
            counts.spread / widest * max(units) / counts.unit if counts.spread and units else 1.0
        )
        # Words alone are worth as much as words and vectors.
        lexical = 1.0 / (1.0 - semantic_weight) if widest and not counts.spread else 1.0
        for hit, factor in zip(hits, each, strict=True):
            by_words = lexical * factor * (1.0 - hit.semantic_share)
            least = min(least, hit.raw_score * (by_words + nearness * hit.semantic_share))
            scores.append(least)
        compared.append(scores)
    return compared


def _add_counts(counts: Sequence[TermCounts]) -> TermCounts:
    columns = zip(*(count.n_matching for count in counts), strict=True)
    return TermCounts(sum(count.n_chunks for count in counts), tuple(map(sum, columns)))


def _compute_factor(terms: Collection[int], own: Sequence[float], total: Sequence[float]) -> float:
    if not terms:
        return 1.0
    return sum(total[index] for index in terms) / sum(own[index] for index in terms)


def interleave_by_size(parts: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return part and position of all items, so that each part gets as much room as the others.

    `parts` are the sizes of items, the most important first; that order is kept. The next item
    comes from the part that has had the least room.
    """
    used, at = [0] * len(parts), [0] * len(parts)
    merged: list[tuple[int, int]] = []
    for _ in range(sum(map(len, parts))):
        part = min(
            (index for index, sizes in enumerate(parts) if at[index] < len(sizes)),
            key=lambda index: (used[index], index),
        )
        merged.append((part, at[part]))
        used[part] += parts[part][at[part]]
        at[part] += 1
    return merged
