"""Which candidates become hits, in which order, with which score?

Candidates come with FTS5's bm25 (lower is better). Here they become strengths (higher is better), neighbours of a note join into
passages, and strengths become scores in (0, 1], monotone in rank. Equal strengths order by path and line, so that the same
question on the same index has the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memsyncd.core.span import Span

N_CANDIDATES = 200
HALF_SCORE_STRENGTH = 5.0
"""The strength that scores 0.5: about what one rare word met once is worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A chunk that SQLite found. `cost` is bm25 as FTS5 gives it, negative, lower is better; `n_tokens` the size of its text."""

    chunk: int
    file: int
    section: int
    path: str
    span: Span
    cost: float
    n_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Neighbouring chunks of a note as one answer; `best` is the strongest of `chunks`, whose section the passage shows."""

    best: Candidate
    chunks: tuple[Candidate, ...]
    span: Span
    score: float


def rank_passages(candidates: Sequence[Candidate], *, limit: int, passage_tokens: int, min_score: float) -> tuple[Passage, ...]:
    """Order candidates and join those that touch, the stronger taking in the weaker, up to `passage_tokens` a passage."""
    ordered = sorted(candidates, key=lambda c: (c.cost, c.path, c.span))
    groups: list[list[Candidate]] = []
    spans: list[Span] = []
    by_file: dict[int, list[int]] = {}
    for candidate in ordered:
        place = _find_group(candidate, by_file.get(candidate.file, ()), groups, spans, passage_tokens)
        if place is not None:
            groups[place].append(candidate)
            spans[place] = spans[place].join(candidate.span)
        elif score_strength(-candidate.cost) >= min_score:
            by_file.setdefault(candidate.file, []).append(len(groups))
            groups.append([candidate])
            spans.append(candidate.span)
    return tuple(
        Passage(best=group[0], chunks=tuple(group), span=span, score=score_strength(-group[0].cost))
        for group, span in zip(groups[:limit], spans[:limit], strict=True)
    )


def score_strength(strength: float) -> float:
    """Map a strength of 0 or more into (0, 1], growing: s / (s + HALF_SCORE_STRENGTH), rounded to 4 digits."""
    # bm25 is 0 or a little below for words that stand in half of all chunks: a hit is a hit all the same.
    return max(round(strength / (strength + HALF_SCORE_STRENGTH), 4), 0.0001) if strength > 0 else 0.0001


def _find_group(
    candidate: Candidate, places: Sequence[int], groups: list[list[Candidate]], spans: list[Span], passage_tokens: int
) -> int | None:
    for place in places:
        if not spans[place].is_touching(candidate.span):
            continue
        if _n_joined_tokens(groups[place], candidate) <= passage_tokens:
            return place
    return None


def _n_joined_tokens(group: Sequence[Candidate], candidate: Candidate) -> int:
    """Size of the union, each line counted once: overlapping chunks share lines in proportion."""
    members = sorted((*group, candidate), key=lambda c: c.span)
    total, covered_to = 0.0, 0
    for member in members:
        fresh = max(0, member.span.end - max(covered_to, member.span.start - 1))
        total += member.n_tokens * fresh / member.span.n_lines
        covered_to = max(covered_to, member.span.end)
    return round(total)
