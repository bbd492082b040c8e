"""Which candidates become hits, in which order, with which score?

Candidates come with FTS5's bm25 (lower is better). Here they become strengths (higher is better), and neighbours of a note join
into passages. Equal strengths order by path and line, so that the same question on the same index has the same answer. A score
is in (0, 1], monotone in rank and comparable within one answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memsyncd.core.span import Span

N_CANDIDATES = 200
MIN_SCORE = 0.0001


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

    @property
    def strength(self) -> float:
        return -self.best.cost


@dataclass(slots=True)
class _Group:
    chunks: list[Candidate]
    span: Span
    n_tokens: float

    def n_joined_tokens(self, candidate: Candidate) -> float:
        """Size of the union, each line counted once: a chunk's tokens count by the share of its lines that are new."""
        span = candidate.span
        n_before = max(0, min(span.end, self.span.start - 1) - span.start + 1)
        n_after = max(0, span.end - max(span.start, self.span.end + 1) + 1)
        return self.n_tokens + candidate.n_tokens * (n_before + n_after) / span.n_lines

    def take(self, candidate: Candidate) -> None:
        self.n_tokens = self.n_joined_tokens(candidate)
        self.chunks.append(candidate)
        self.span = self.span.join(candidate.span)


def rank_passages(candidates: Sequence[Candidate], *, limit: int, passage_tokens: int) -> tuple[Passage, ...]:
    """Order candidates and join those that touch, the stronger taking in the weaker, up to `passage_tokens` a passage."""
    groups: list[_Group] = []
    by_file: dict[int, list[_Group]] = {}
    for candidate in sorted(candidates, key=lambda c: (c.cost, c.path, c.span)):
        neighbours = by_file.setdefault(candidate.file, [])
        for group in neighbours:
            # What adds no line joins a passage of any size: a giant line is many chunks, and one answer.
            if group.span.is_touching(candidate.span) and group.n_joined_tokens(candidate) <= max(passage_tokens, group.n_tokens):
                group.take(candidate)
                break
        else:
            if len(groups) < limit:  # a passage that is not shown takes nothing from those that are
                group = _Group([candidate], candidate.span, candidate.n_tokens)
                neighbours.append(group)
                groups.append(group)
    return tuple(Passage(best=g.chunks[0], chunks=tuple(g.chunks), span=g.span) for g in groups)


def score_strengths(strengths: Sequence[float], *, coverage: float) -> tuple[float, ...]:
    """Scores in (0, 1] for strengths in falling order: each against the first, times the share of the query's words (`coverage`,
    0-1) that the hit with most of them holds.
    """
    # bm25 is 0 or a little below for words that stand in half of all chunks: a hit is a hit all the same.
    first = strengths[0] if strengths and strengths[0] > 0 else 1.0
    return tuple(min(1.0, max(MIN_SCORE, round(coverage * strength / first, 4))) for strength in strengths)
