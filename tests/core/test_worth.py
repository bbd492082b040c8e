"""The worth of a memory equals its formula and is monotone in each of its parts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.model import Worth, compute_worth, find_tier

DAY_S = 86_400.0
ages = st.floats(0, 3650 * DAY_S)
half_lives = st.floats(0.5, 3650)
counts = st.integers(0, 10**6)
priorities = st.sampled_from([None, "P0", "P1", "P2", "P3"])
shares = st.floats(0, 1)


def compute(
    age_s: float = 0.0,
    half_life: float = 30.0,
    n_accesses: int = 0,
    priority: str | None = None,
    importance: float = 0.5,
) -> Worth:
    return compute_worth(
        age_s=age_s,
        half_life=half_life,
        n_accesses=n_accesses,
        priority=priority,
        importance=importance,
    )


@given(ages, half_lives, counts, priorities, shares)
def test_the_worth_is_the_product_of_the_formula(
    age_s: float, half_life: float, n_accesses: int, priority: str | None, importance: float
) -> None:
    weights = {"P0": 2, "P1": 1.5, "P2": 1, "P3": 0.5, None: importance / 0.7}
    expected = math.exp(-age_s / (half_life * 86_400)) * (1 + math.log1p(n_accesses) / 10)
    worth = compute(age_s, half_life, n_accesses, priority, importance)
    assert worth.value == pytest.approx(expected * weights[priority])
    assert worth.value == pytest.approx(worth.recency * worth.accesses * worth.importance)


@given(ages, ages, half_lives, counts, counts, shares, shares)
def test_it_falls_with_age_and_grows_with_accesses_and_importance(
    age_s: float,
    older_s: float,
    half_life: float,
    few: int,
    many: int,
    light: float,
    heavy: float,
) -> None:
    age_s, older_s = sorted((age_s, older_s))
    few, many = sorted((few, many))
    light, heavy = sorted((light, heavy))
    first = compute(age_s, half_life, few, None, light).value
    assert compute(older_s, half_life, few, None, light).value <= first
    assert compute(age_s, half_life, many, None, light).value >= first
    assert compute(age_s, half_life, few, None, heavy).value >= first


def test_a_higher_priority_is_worth_more() -> None:
    scores = [compute(DAY_S, priority=priority).value for priority in ("P0", "P1", "P2", "P3")]
    assert scores == sorted(scores, reverse=True)
    assert [round(score / scores[3], 9) for score in scores] == [4, 3, 2, 1]


def test_a_time_in_the_future_counts_as_now() -> None:
    assert compute(-DAY_S) == compute(0.0)


def test_a_month_makes_a_hot_memory_warm_and_a_quarter_cold() -> None:
    tiers = [
        find_tier(compute(days * DAY_S).value, hot_from=0.5, warm_from=0.2)
        for days in (0, 10, 11, 38, 39, 90)
    ]
    assert tiers == ["hot", "hot", "warm", "warm", "cold", "cold"]
