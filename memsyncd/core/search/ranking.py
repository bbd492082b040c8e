"""Which candidates become hits, in which order, with which score?

Candidates come with what each leg of the index found in them. Here they become strengths, and neighbours of a note join into
passages. Equal strengths order by path and line, so that the same question on the same index has the same answer. A score
is in (0, 1], monotone in rank and comparable within one answer.


How much do importance and age move a candidate, where somebody wants them to? A factor each, together at most 1.1 either way.

Importance is what a section says or its kind stands for, recency goes by when its note was saved, decay by the day it is of, else
by the same. All are off by default: they are no part of what was measured to find things. Ages count in whole days (UTC), so that
the same question on the same index has the same answer all day long; tomorrow it may be another, if recency or decay is on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from memsyncd.core.model import Span
from memsyncd.core.search.dates import NamedDate, fit_dates

# --- ranking -----------------------------------------------------------------------------------

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


# --- leanings ----------------------------------------------------------------------------------

MAX_BOOST = 1.1
"""What all of them may make of a strength; the least is one through this. More, and they bury what the words found."""
FULL_WEIGHT = 0.1
DEFAULT_IMPORTANCE = 0.5
"""The importance of what does not say, and whose kind says nothing either."""
DAY_S = 86_400
_DAY_0 = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Boosts:
    """A weight each from 0, which is off, to 0.1, which lets it go all the way to a factor of 1.1; together they go no further.

    After `half_life_days` what age does is half undone, or half done.
    """

    importance: float = 0.0
    recency: float = 0.0
    decay: float = 0.0
    half_life_days: float = 30.0
    kinds: Mapping[str, float] = field(default_factory=dict)
    """How important sections of a kind are that do not say, by the kind's name in lower case."""

    def importance_of(self, features: RankingFeatures) -> float:
        """What the section says, or its kind stands for; 0.5 where nothing does."""
        if features.importance is not None:
            return features.importance
        return self.kinds.get((features.kind or "").lower(), DEFAULT_IMPORTANCE)

    @property
    def is_off(self) -> bool:
        return not (self.importance or self.recency or self.decay)


NO_BOOSTS = Boosts()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingFeatures:
    """What boosts look at: `importance` (0-1), `kind` and `day` (ISO), None where nothing is said; `saved_s` since 1970."""

    importance: float | None
    kind: str | None = None
    day: str | None
    saved_s: float


def apply_boosts(ranked: Sequence[Ranked], features: Mapping[int, RankingFeatures], boosts: Boosts, now_s: float) -> list[Ranked]:
    """All of `ranked` with their factors among their parts, the strongest first. `features` are by chunk; `now_s` since 1970."""
    factors = {one.candidate.chunk: compute_boosts(features[one.candidate.chunk], boosts, now_s) for one in ranked}
    return sort_ranked(_boost(one, factors[one.candidate.chunk]) for one in ranked)


def _boost(one: Ranked, factors: Mapping[str, float]) -> Ranked:
    return one._replace(raw_score=one.raw_score * math.prod(factors.values()), parts={**one.parts, **factors})


def compute_boosts(features: RankingFeatures, boosts: Boosts, now_s: float) -> dict[str, float]:
    """The factor of each leaning that is on, by its name; `now_s` is seconds since 1970.

    Importance moves both ways from 0.5. Recency lifts what was just saved, and less what was saved long ago; decay lowers what is
    old.
    """
    today = _DAY_0 + int(now_s // DAY_S)
    saved = _DAY_0 + int(features.saved_s // DAY_S)
    of = date.fromisoformat(features.day).toordinal() if features.day else saved
    pulls = {
        "importance": (boosts.importance, 2.0 * boosts.importance_of(features) - 1.0),
        "recency": (boosts.recency, _fade(today - saved, boosts)),
        "decay": (boosts.decay, _fade(today - of, boosts) - 1.0),
    }
    whole = max(FULL_WEIGHT, boosts.importance + boosts.recency + boosts.decay)
    return {name: MAX_BOOST ** (pull * weight / whole) for name, (weight, pull) in pulls.items() if weight}


def _fade(age_days: int, boosts: Boosts) -> float:
    """1 today, half after a half-life; what is dated tomorrow is as of today."""
    return float(0.5 ** (max(0, age_days) / boosts.half_life_days))
