"""Rank candidates: compute raw scores and boosts, join neighbours into passages, normalize scores.

Candidates come with the bm25 of each retriever. Neighbours of a note join into passages. Equal raw
scores order by path and line, so that the same question on the same index has the same answer. A
score is in (0, 1], monotone in rank and comparable within one answer.

Boosts multiply the raw score, together by at most 1.1 either way. Importance is the value that a
section states or that its kind has; recency depends on the time its note was saved; decay depends
on its stated day, else on the same time. All are off by default, because the measured quality does
not include them. Ages count in whole days (UTC), so the same question on the same index has the
same answer all day; the next day it may differ if recency or decay is on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple, Protocol

import msgspec

from memsyncd.core.editing.kinds import KindDefaults, find_kind
from memsyncd.core.model import Span
from memsyncd.core.search.dates import NamedDate, fit_dates

# --- Raw scores -----------------------------------------------------------------------------------

# Of each retriever; fewer lose evidence, more only take time.
N_CANDIDATES = 200
MIN_SCORE = 0.0001


class RankingPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The weights in a candidate's raw score.

    The defaults were measured on chats and on developers' documents. `exact` is the weight of exact
    words relative to their stems; `note` is the share of the note's best chunk that each of its
    chunks gets; `neighbour_bonus` is the share of the best chunk that touches it; `day` is the gain
    of a note whose day the question names.
    """

    exact: float = 0.5
    note: float = 0.2
    neighbour_bonus: float = 0.2
    day: float = 0.4


DEFAULT_RANKING = RankingPolicy()


class Candidate(NamedTuple):
    """A chunk that SQLite found, with the negated bm25 of each retriever, 0 where a retriever did
    not find it.

    `n_tokens` is the size of its text, `day` its note's day (ISO). A tuple, as each search makes
    hundreds: a dataclass takes twice as long.
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
    """A candidate with its raw score, and the parts of the score, which `explain` shows."""

    candidate: Candidate
    raw_score: float
    parts: dict[str, float]


def rank_candidates(
    candidates: Sequence[Candidate], named: Sequence[NamedDate], policy: RankingPolicy
) -> list[Ranked]:
    """All candidates, the highest raw score first; equals in order of path and line.

    The raw score is (stems + exact + note + neighbour bonus) times the fit of the day.
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
            _rank(
                c,
                policy.note * best,
                policy.neighbour_bonus * neighbours.get(c.chunk, 0.0),
                named,
                policy,
            )
            for c in chunks
        ]
    return sort_ranked(ranked)


def _best_neighbours(chunks: list[Candidate], words: Mapping[int, float]) -> dict[int, float]:
    """The best score by words among the chunks of a note that touch a chunk, by that chunk."""
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
    """The highest raw score first; equals in order of path and line."""
    return sorted(
        ranked,
        key=lambda one: (
            -one.raw_score,
            one.candidate.path,
            one.candidate.span,
            one.candidate.chunk,
        ),
    )


def _rank(
    candidate: Candidate,
    note: float,
    neighbours: float,
    named: Sequence[NamedDate],
    policy: RankingPolicy,
) -> Ranked:
    exact = policy.exact * candidate.exact
    day = 1.0 + policy.day * fit_dates(named, candidate.day) if named else 1.0
    return Ranked(
        candidate=candidate,
        raw_score=(candidate.stemmed + exact + note + neighbours) * day,
        parts={
            "stems": candidate.stemmed,
            "exact": exact,
            "note": note,
            "beside": neighbours,
            "day": day,
        },
    )


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring chunks of a note as one answer.

    `best` is the strongest of `chunks`; the passage shows its section.
    """

    best: Ranked
    chunks: tuple[Candidate, ...]
    span: Span


class _Group(msgspec.Struct):
    best: Ranked
    chunks: list[Candidate]
    span: Span
    n_tokens: float

    def n_joined_tokens(self, candidate: Candidate) -> float:
        """The size of the union, each line counted once: a chunk's tokens count by the share of its
        lines that are new.
        """
        span = candidate.span
        n_before = max(0, min(span.end, self.span.start - 1) - span.start + 1)
        n_after = max(0, span.end - max(span.start, self.span.end + 1) + 1)
        return self.n_tokens + candidate.n_tokens * (n_before + n_after) / span.n_lines

    def add(self, candidate: Candidate) -> None:
        self.n_tokens = self.n_joined_tokens(candidate)
        self.chunks.append(candidate)
        self.span = self.span.join(candidate.span)


def join_passages(
    ranked: Sequence[Ranked], *, limit: int, passage_tokens: int
) -> tuple[Passage, ...]:
    """Join those of `ranked` that touch, the stronger absorbing the weaker, up to `passage_tokens`
    a passage.
    """
    groups: list[_Group] = []
    by_file: dict[int, list[_Group]] = {}
    for one in ranked:
        candidate = one.candidate
        neighbours = by_file.setdefault(candidate.file, [])
        for group in neighbours:
            # A candidate that adds no line joins a passage of any size: a giant line is many
            # chunks, and one answer.
            if group.span.is_touching(candidate.span) and group.n_joined_tokens(candidate) <= max(
                passage_tokens, group.n_tokens
            ):
                group.add(candidate)
                break
        else:
            if len(groups) < limit:  # a passage that is not shown takes nothing from those that are
                group = _Group(one, [candidate], candidate.span, candidate.n_tokens)
                neighbours.append(group)
                groups.append(group)
    return tuple(Passage(best=g.best, chunks=tuple(g.chunks), span=g.span) for g in groups)


def normalize_scores(raw_scores: Sequence[float], *, coverage: float) -> tuple[float, ...]:
    """Scores in (0, 1] for raw scores in descending order, each relative to the first.

    All are multiplied by `coverage` (0-1), the largest share of the query's words that one hit
    holds.
    """
    # bm25 is 0 or a little below for words that are in half of all chunks; such a hit is still a
    # hit.
    first = raw_scores[0] if raw_scores and raw_scores[0] > 0 else 1.0
    return tuple(
        min(1.0, max(MIN_SCORE, round(coverage * raw_score / first, 4))) for raw_score in raw_scores
    )


# --- Boosts ---------------------------------------------------------------------------------------

# The largest factor of all boosts together; the smallest is its inverse. With a larger one, boosts
# would outweigh the matched words.
MAX_BOOST = 1.1
FULL_WEIGHT = 0.1
DAY_S = 86_400
_DAY_0 = date(1970, 1, 1).toordinal()


class Boosts(Protocol):
    """A weight each from 0, which is off, to 0.1, which allows a factor of up to 1.1; together they
    go no further.

    After `half_life_days` the effect of age has halved.
    """

    @property
    def importance(self) -> float: ...
    @property
    def recency(self) -> float: ...
    @property
    def decay(self) -> float: ...
    @property
    def half_life_days(self) -> float: ...


class RankingFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of the boosts.

    `importance` (0-1), `kind` and `day` (ISO) are None where a section states none; `saved_s` is
    since 1970.
    """

    importance: float | None
    kind: str | None = None
    day: str | None
    saved_s: float


def apply_boosts(
    ranked: Sequence[Ranked],
    features: Mapping[int, RankingFeatures],
    boosts: Boosts,
    kinds: Mapping[str, KindDefaults],
    now_s: float,
) -> list[Ranked]:
    """Multiply raw scores by their boosts, add the boosts to the parts, and sort, the highest
    first.

    `features` are by chunk; `now_s` is since 1970.
    """
    factors = {
        one.candidate.chunk: compute_boosts(features[one.candidate.chunk], boosts, kinds, now_s)
        for one in ranked
    }
    return sort_ranked(_boost(one, factors[one.candidate.chunk]) for one in ranked)


def _boost(one: Ranked, factors: Mapping[str, float]) -> Ranked:
    return one._replace(
        raw_score=one.raw_score * math.prod(factors.values()), parts={**one.parts, **factors}
    )


def compute_boosts(
    features: RankingFeatures, boosts: Boosts, kinds: Mapping[str, KindDefaults], now_s: float
) -> dict[str, float]:
    """The factor of each boost that is on, by its name; `now_s` is since 1970.

    A section that states no importance has that of its kind.

    Importance raises or lowers a score, around 0.5. Recency raises new notes, and old ones less;
    decay lowers old ones.
    """
    today = _DAY_0 + int(now_s // DAY_S)
    saved = _DAY_0 + int(features.saved_s // DAY_S)
    of = date.fromisoformat(features.day).toordinal() if features.day else saved
    importance = features.importance
    if importance is None:
        importance = find_kind(kinds, features.kind).importance
    pulls = {
        "importance": (boosts.importance, 2.0 * importance - 1.0),
        "recency": (boosts.recency, _fade(today - saved, boosts)),
        "decay": (boosts.decay, _fade(today - of, boosts) - 1.0),
    }
    whole = max(FULL_WEIGHT, boosts.importance + boosts.recency + boosts.decay)
    return {
        name: MAX_BOOST ** (pull * weight / whole)
        for name, (weight, pull) in pulls.items()
        if weight
    }


def _fade(age_days: int, boosts: Boosts) -> float:
    """1 today, half after a half-life; a future date counts as today."""
    return float(0.5 ** (max(0, age_days) / boosts.half_life_days))
