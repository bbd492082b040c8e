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

from memsyncd.core.recall.ranking import Ranked, sort_ranked

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
