"""How much do importance and age move a candidate, where somebody wants them to? A factor each, together at most 1.1 either way.

Importance is what a section says or its kind stands for, recency goes by when its note was saved, decay by the day it is of, else
by the same. All are off by default: they are no part of what was measured to find things. Ages count in whole days (UTC), so that
the same question on the same index has the same answer all day long; tomorrow it may be another, if recency or decay is on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from memsyncd.core.recall.ranking import Ranked, in_order

MOST = 1.1
"""What all of them may make of a strength; the least is one through this. More, and they bury what the words found."""
FULL_WEIGHT = 0.1
MIDDLING = 0.5
"""The importance of what does not say, and whose kind says nothing either."""
DAY_S = 86_400
_DAY_0 = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leanings:
    """A weight each from 0, which is off, to 0.1, which lets it go all the way to a factor of 1.1; together they go no further.

    After `half_life_days` what age does is half undone, or half done.
    """

    importance: float = 0.0
    recency: float = 0.0
    decay: float = 0.0
    half_life_days: float = 30.0
    kinds: Mapping[str, float] = field(default_factory=dict)
    """How important sections of a kind are that do not say, by the kind's name in lower case."""

    def find_importance(self, traits: Traits) -> float:
        """What the section says, or its kind stands for; 0.5 where nothing does."""
        if traits.importance is not None:
            return traits.importance
        return self.kinds.get((traits.kind or "").lower(), MIDDLING)

    @property
    def is_off(self) -> bool:
        return not (self.importance or self.recency or self.decay)


OFF = Leanings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What leanings look at: `importance` (0-1), `kind` and `day` (ISO), None where nothing is said; `saved_s` since 1970."""

    importance: float | None
    kind: str | None = None
    day: str | None
    saved_s: float


def lean(ranked: Sequence[Ranked], traits: Mapping[int, Traits], leanings: Leanings, now_s: float) -> list[Ranked]:
    """All of `ranked` with their factors among their parts, the strongest first. `traits` are by chunk; `now_s` since 1970."""
    factors = {one.candidate.chunk: find_factors(traits[one.candidate.chunk], leanings, now_s) for one in ranked}
    return in_order(_multiply(one, factors[one.candidate.chunk]) for one in ranked)


def _multiply(one: Ranked, factors: Mapping[str, float]) -> Ranked:
    return one._replace(strength=one.strength * math.prod(factors.values()), parts={**one.parts, **factors})


def find_factors(traits: Traits, leanings: Leanings, now_s: float) -> dict[str, float]:
    """The factor of each leaning that is on, by its name; `now_s` is seconds since 1970.

    Importance moves both ways from 0.5. Recency lifts what was just saved, and less what was saved long ago; decay lowers what is
    old.
    """
    today = _DAY_0 + int(now_s // DAY_S)
    saved = _DAY_0 + int(traits.saved_s // DAY_S)
    of = date.fromisoformat(traits.day).toordinal() if traits.day else saved
    pulls = {
        "importance": (leanings.importance, 2.0 * leanings.find_importance(traits) - 1.0),
        "recency": (leanings.recency, _fade(today - saved, leanings)),
        "decay": (leanings.decay, _fade(today - of, leanings) - 1.0),
    }
    whole = max(FULL_WEIGHT, leanings.importance + leanings.recency + leanings.decay)
    return {name: MOST ** (pull * weight / whole) for name, (weight, pull) in pulls.items() if weight}


def _fade(age_days: int, leanings: Leanings) -> float:
    """1 today, half after a half-life; what is dated tomorrow is as of today."""
    return float(0.5 ** (max(0, age_days) / leanings.half_life_days))
