"""Compute the decay of a memory from its age, its accesses and its importance, and its tier.

    decay = exp(-age / half_life) x (1 + log1p(accesses) / 10) x importance

The importance is that of the priority (P0 2, P1 1.5, P2 1, P3 0.5), or without a priority the
section's importance divided by 0.7, which makes a common decision count like P2.

The salience of a field is its importance times the factor of its accesses, at most 1; that of a
topic is the mean of its fields'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

_DAY_S = 86_400.0
IMPORTANCE_BY_PRIORITY: Final = {"P0": 2.0, "P1": 1.5, "P2": 1.0, "P3": 0.5}
USUAL_IMPORTANCE: Final = 0.7

Tier = Literal["hot", "warm", "cold"]


class Decay(msgspec.Struct, frozen=True):
    """The decay of a memory and the factors whose product it is."""

    score: float
    recency: float
    accesses: float
    importance: float


def compute_decay(
    *, age_s: float, half_life: float, n_accesses: int, priority: str | None, importance: float
) -> Decay:
    """Compute the decay; `half_life` is in days. An age in the future counts as none."""
    recency = math.exp(-max(0.0, age_s) / (half_life * _DAY_S))
    accesses = _weigh_accesses(n_accesses)
    factor = IMPORTANCE_BY_PRIORITY.get(priority or "", importance / USUAL_IMPORTANCE)
    return Decay(recency * accesses * factor, recency, accesses, factor)


def compute_salience(fields: Sequence[tuple[float, int]]) -> float:
    """Compute the salience of a topic, from 0 to 1, from the importance and the accesses of each of
    its fields. A topic without fields has none.
    """
    if not fields:
        return 0.0
    each = [min(1.0, importance * _weigh_accesses(n)) for importance, n in fields]
    return sum(each) / len(each)


def _weigh_accesses(n: int) -> float:
    return 1 + math.log1p(n) / 10


def find_tier(score: float, *, hot_from: float, warm_from: float) -> Tier:
    """Return the tier of a decay."""
    if score >= hot_from:
        return "hot"
    return "warm" if score >= warm_from else "cold"
