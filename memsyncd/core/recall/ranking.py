"""Which candidates become hits, in which order, with which score?

Candidates come with what each leg of the index found in them. Here they become strengths, and neighbours of a note join into
passages. Equal strengths order by path and line, so that the same question on the same index has the same answer. A score
is in (0, 1], monotone in rank and comparable within one answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memsyncd.core.recall.dates import NamedDate, fit_dates
from memsyncd.core.span import Span

N_CANDIDATES = 200
"""Of each leg; fewer lose evidence, more only take time."""
MIN_SCORE = 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingPolicy:
    """What a candidate's strength is made of. The defaults were measured on chats and on developers' documents.

    `exact` is the weight of words as written beside their stems; `note` the share of the note's best chunk that each of its
    chunks gets; `beside` that of the best chunk that touches it; `day` how much a note gains whose day the question names.
    """

    exact: float = 0.5
    note: float = 0.2
    neighbour_bonus: float = 0.2
    day: float = 0.4


class Candidate(NamedTuple):
    """A chunk that SQLite found, and how strongly: bm25 of each leg with its sign turned, 0 where the leg did not find it.

    `n_tokens` is the size of its text, `day` its note's (ISO). A tuple, as each search makes hundreds: a dataclass takes twice as
    long.
    """

    chunk: int
    file: int
    section: int
    path: str
    span: Span
    stemmed: float
    exact: float
    n_tokens: int
    day: str | None = None


class Ranked(NamedTuple):
    """A candidate with its strength, and the parts that it is made of, for whoever asks why."""

    candidate: Candidate
    raw_score: float
    parts: dict[str, float]


def rank_candidates(candidates: Sequence[Candidate], named: Sequence[NamedDate], policy: RankingPolicy) -> list[Ranked]:
    """All candidates, the strongest first: (stems + exact + note + beside) times the fit of the day; equals in order of path and
    line.
    """
    words = {c.chunk: c.stemmed + policy.exact * c.exact for c in candidates}
    by_file: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        by_file.setdefault(candidate.file, []).append(candidate)
    ranked: list[Ranked] = []
    for chunks in by_file.values():
        best = max(0.0, *(words[c.chunk] for c in chunks))
        neighbours = _best_neighbours(chunks, words)
        ranked += [
            _rank(c, policy.note * best, policy.neighbour_bonus * neighbours.get(c.chunk, 0.0), named, policy) for c in chunks
        ]
    return sort_ranked(ranked)


def _best_neighbours(chunks: list[Candidate], words: Mapping[int, float]) -> dict[int, float]:
    """What the words are worth in the best of those chunks of a note that touch one, by the chunk that they touch."""
    neighbours: dict[int, float] = {}
    if len(chunks) == 1:
        return neighbours
    in_line = sorted(chunks, key=lambda c: c.span.start)
    for at, one in enumerate(in_line, 1):
        chunk, worth = one.chunk, words[one.chunk]
        for other in itertools.islice(in_line, at, None):
            if not one.span.is_touching(other.span):
                break  # they begin in order of line: no later one touches either
            neighbours[chunk] = max(neighbours.get(chunk, 0.0), words[other.chunk])
            neighbours[other.chunk] = max(neighbours.get(other.chunk, 0.0), worth)
    return neighbours


def sort_ranked(ranked: Iterable[Ranked]) -> list[Ranked]:
    """The strongest first; equals in order of path and line."""
    return sorted(ranked, key=lambda one: (-one.raw_score, one.candidate.path, one.candidate.span, one.candidate.chunk))


def _rank(candidate: Candidate, note: float, neighbours: float, named: Sequence[NamedDate], policy: RankingPolicy) -> Ranked:
    exact = policy.exact * candidate.exact
    day = 1.0 + policy.day * fit_dates(named, candidate.day) if named else 1.0
    return Ranked(
        candidate=candidate,
        raw_score=(candidate.stemmed + exact + note + neighbours) * day,
        parts={"stems": candidate.stemmed, "exact": exact, "note": note, "beside": neighbours, "day": day},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Neighbouring chunks of a note as one answer; `best` is the strongest of `chunks`, whose section the passage shows."""

    best: Ranked
    chunks: tuple[Candidate, ...]
    span: Span


@dataclass(slots=True)
class _Group:
    best: Ranked
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


def join_passages(ranked: Sequence[Ranked], *, limit: int, passage_tokens: int) -> tuple[Passage, ...]:
    """Join those of `ranked` that touch, the stronger taking in the weaker, up to `passage_tokens` a passage."""
    groups: list[_Group] = []
    by_file: dict[int, list[_Group]] = {}
    for one in ranked:
        candidate = one.candidate
        neighbours = by_file.setdefault(candidate.file, [])
        for group in neighbours:
            # What adds no line joins a passage of any size: a giant line is many chunks, and one answer.
            if group.span.is_touching(candidate.span) and group.n_joined_tokens(candidate) <= max(passage_tokens, group.n_tokens):
                group.take(candidate)
                break
        else:
            if len(groups) < limit:  # a passage that is not shown takes nothing from those that are
                group = _Group(one, [candidate], candidate.span, candidate.n_tokens)
                neighbours.append(group)
                groups.append(group)
    return tuple(Passage(best=g.best, chunks=tuple(g.chunks), span=g.span) for g in groups)


def normalize_scores(raw_scores: Sequence[float], *, coverage: float) -> tuple[float, ...]:
    """Scores in (0, 1] for strengths in falling order: each against the first, times the share of the query's words (`coverage`,
    0-1) that the hit with most of them holds.
    """
    # bm25 is 0 or a little below for words that stand in half of all chunks: a hit is a hit all the same.
    first = raw_scores[0] if raw_scores and raw_scores[0] > 0 else 1.0
    return tuple(min(1.0, max(MIN_SCORE, round(coverage * raw_score / first, 4))) for raw_score in raw_scores)
