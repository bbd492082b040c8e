"""Make one answer of the hits that each of one or several workspaces has.

Searches of workspaces are independent, so that one that fails or is slow does not affect the
others; see `core.search.federation` for their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.search.federation import (
    FoundLines,
    RawHit,
    TermCounts,
    compare_raw_scores,
    find_repeated,
)
from memsyncd.core.search.query import Query
from memsyncd.core.search.ranking import DEFAULT_RANKING, normalize_scores
from memsyncd.core.search.words import FAMILY_WEIGHT
from memsyncd.engine.candidates import UsedVectors
from memsyncd.engine.metadata import Valuation, find_order
from memsyncd.operations.search.declare import Hit, SearchAnswer, SearchParams
from memsyncd.operations.sections import Sort


class SearchPart(msgspec.Struct, frozen=True, kw_only=True):
    """The hits of one workspace, best first, with their raw scores. `root` is its folder.

    `counts` is None in a search of one workspace, which needs none. `valuation` has the accesses of
    this workspace. `semantic_shares` are those of the hits' scores, `nearest` is the highest cosine
    of one.
    """

    workspace_name: str
    root: str
    hits: Sequence[Hit]
    raw_scores: Sequence[float]
    semantic_shares: Sequence[float]
    valuation: Valuation
    counts: TermCounts | None
    nearest: float
    vectors: UsedVectors


def merge_search_parts(
    parts: Sequence[SearchPart],
    query: Query,
    params: SearchParams,
    config: Config,
) -> SearchAnswer | None:
    """Order the hits of all workspaces, scale their scores and drop those below the minimum.

    None if there is no hit.
    """
    n_terms = len(query.positive) + query.n_dropped
    found = _merge(parts, query)
    if not found:
        return None
    order = _find_order(parts, params.sort)
    if order and not n_terms:
        found.sort(key=lambda one: order(one[1]))
    nearest = max((part.nearest for part in parts), default=0.0)
    scored = _scale(found[: params.limit or config.search.max_results], n_terms, nearest)
    min_score = config.search.min_score if params.min_score is None else params.min_score
    hits = [hit for hit in scored if hit.score >= min_score]
    best = scored[0].score
    if order:
        hits.sort(key=order)
    return SearchAnswer(
        hits=hits,
        relaxed=bool(hits) and all(len(hit.matched) < n_terms for hit in hits),
        why_empty=None
        if hits
        else f"every match scores below min_score {min_score}; the best scores {best}",
        did_you_mean=None,
        **describe_vectors([part.vectors for part in parts]),
    )


def describe_vectors(used: Sequence[UsedVectors]) -> dict[str, Any]:
    """Return the fields of an answer that tell how the searches of workspaces used vectors."""
    states = {one.state for one in used} or {"off"}
    return {
        "semantic": states.pop() if len(states) == 1 else "partial",
        "semantic_pending": sum(one.pending for one in used),
        "semantic_reason": next((one.reason for one in used if one.reason), None),
    }


def _find_order(
    parts: Sequence[SearchPart], sort: Sort
) -> Callable[[Hit], tuple[object, ...]] | None:
    if sort != "decay":
        return find_order(sort, parts[0].valuation)
    valuations = {part.hits[0].workspace: part.valuation for part in parts if part.hits}
    return lambda hit: (-valuations[hit.workspace].compute(hit).score,)


def _merge(parts: Sequence[SearchPart], query: Query) -> list[tuple[float, Hit]]:
    """Return all hits with raw scores that compare, best first, each passage of a file once."""
    scores: Sequence[Sequence[float]] = [part.raw_scores for part in parts]
    terms = _index_terms(query)
    if all(part.counts is not None for part in parts) and len(parts) > 1:
        scores = compare_raw_scores(
            [
                (
                    part.counts or TermCounts(0),
                    [
                        RawHit(
                            raw,
                            frozenset(i for word in _list_words(hit) for i in terms[word]),
                            share,
                        )
                        for raw, hit, share in zip(
                            part.raw_scores, part.hits, part.semantic_shares, strict=True
                        )
                    ],
                )
                for part in parts
            ],
            DEFAULT_RANKING.semantic,
        )
    found = [
        (raw, part.workspace_name, number, hit)
        for part, raws in zip(parts, scores, strict=True)
        for number, (raw, hit) in enumerate(zip(raws, part.hits, strict=True))
    ]
    if len(parts) > 1:
        places = [
            FoundLines(part.root, hit.path, hit.start_line, hit.end_line)
            for part in parts
            for hit in part.hits
        ]
        repeated = find_repeated(places)
        found = [one for index, one in enumerate(found) if index not in repeated]
    found.sort(key=lambda one: (-one[0], one[1], one[3].workspace, one[2]))
    return [(raw, hit) for raw, _, _, hit in found]


def _index_terms(query: Query) -> dict[str, list[int]]:
    """Map the text of a term, as hits name it, to its indices: a query may hold it twice."""
    indices: dict[str, list[int]] = {}
    for index, term in enumerate(query.positive):
        indices.setdefault(term.text, []).append(index)
    return indices


def _scale(found: Sequence[tuple[float, Hit]], n_terms: int, nearest: float) -> list[Hit]:
    """Scale scores: the first is the share of the words that a hit holds, or the highest cosine of
    one.
    """
    if not n_terms:  # a query of filters alone ranks nothing
        return [hit for _, hit in found]
    coverage = max(nearest, max(_count_words(hit) for _, hit in found) / n_terms)
    scores = normalize_scores([raw for raw, _ in found], coverage=min(1.0, coverage))
    return [replace(hit, score=score) for (_, hit), score in zip(found, scores, strict=True)]


def _count_words(hit: Hit) -> float:
    """The words of the query that a hit holds, related ones by their weight."""
    return len(hit.matched) + FAMILY_WEIGHT * len(hit.matched_related)


def _list_words(hit: Hit) -> list[str]:
    """The words of the query that a hit holds, or a related one of."""
    return [*hit.matched, *hit.matched_related]
