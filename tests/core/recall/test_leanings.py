from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.model import Span
from memsyncd.core.search.ranking import (
    DAY_S,
    MAX_BOOST,
    Boosts,
    Candidate,
    RankingFeatures,
    RankingPolicy,
    apply_boosts,
    compute_boosts,
    rank_candidates,
)

TODAY_S = 20_000 * DAY_S  # 2024-10-04
WEIGHTS = st.floats(0.0, 0.1)
LEANINGS = st.builds(Boosts, importance=WEIGHTS, recency=WEIGHTS, decay=WEIGHTS, half_life_days=st.floats(0.1, 36_500))
TRAITS = st.builds(
    RankingFeatures,
    importance=st.none() | st.floats(0, 1),
    day=st.none() | st.dates().map(lambda day: day.isoformat()),
    saved_s=st.floats(-2e9, 8e9),
)


def factors(boosts: Boosts, *, importance: float | None = None, day: str | None = None, age_days: float = 0) -> dict[str, float]:
    features = RankingFeatures(importance=importance, day=day, saved_s=TODAY_S - age_days * DAY_S)
    return {name: round(factor, 4) for name, factor in compute_boosts(features, boosts, TODAY_S).items()}


@pytest.mark.parametrize(
    ("importance", "factor"), [(1.0, 1.1), (0.75, 1.0488), (0.5, 1.0), (None, 1.0), (0.0, round(1 / 1.1, 4))]
)
def test_importance_moves_both_ways_from_the_middle(importance: float | None, factor: float) -> None:
    assert factors(Boosts(importance=0.1), importance=importance) == {"importance": factor}


@pytest.mark.parametrize(("age_days", "factor"), [(0, 1.1), (30, 1.0488), (60, 1.0241), (10_000, 1.0), (-5, 1.1)])
def test_recency_lifts_what_was_just_saved(age_days: int, factor: float) -> None:
    assert factors(Boosts(recency=0.1), age_days=age_days, day="1990-01-01") == {"recency": factor}


@pytest.mark.parametrize(
    ("day", "factor"),
    [("2024-10-04", 1.0), ("2024-09-04", 0.9535), ("1990-01-01", round(1 / 1.1, 4)), ("2030-01-01", 1.0), (None, 0.9535)],
)
def test_decay_lowers_what_is_of_an_old_day_or_was_saved_on_one(day: str | None, factor: float) -> None:
    assert factors(Boosts(decay=0.1), age_days=30, day=day) == {"decay": factor}


def test_a_half_life_is_what_somebody_says_it_is() -> None:
    assert factors(Boosts(recency=0.1, half_life_days=7), age_days=7) == {"recency": 1.0488}


def test_half_a_weight_goes_half_as_far_and_what_is_off_has_no_part() -> None:
    assert factors(Boosts(importance=0.05), importance=1.0) == {"importance": 1.0488}
    assert factors(Boosts()) == {}
    assert Boosts().is_off
    assert not Boosts(decay=0.01).is_off


def test_an_age_is_the_same_all_day_long() -> None:
    features = RankingFeatures(importance=None, day="2024-10-01", saved_s=TODAY_S - 1)
    boosts = Boosts(recency=0.1, decay=0.1)
    assert compute_boosts(features, boosts, TODAY_S) == compute_boosts(features, boosts, TODAY_S + DAY_S - 1)
    assert compute_boosts(features, boosts, TODAY_S) != compute_boosts(features, boosts, TODAY_S + DAY_S)


@given(TRAITS, LEANINGS, st.floats(0, 8e9))
def test_together_they_never_go_beyond_their_bounds(features: RankingFeatures, boosts: Boosts, now_s: float) -> None:
    product = math.prod(compute_boosts(features, boosts, now_s).values())
    assert 1 / MAX_BOOST - 1e-9 <= product <= MAX_BOOST + 1e-9


def test_what_they_move_is_ordered_anew_and_says_what_moved_it() -> None:
    candidates = [
        Candidate(
            chunk=chunk, file=chunk, section=chunk, path=f"{chunk}.md", span=Span(1, 2), stemmed=stemmed, exact=0.0, n_tokens=50
        )
        for chunk, stemmed in ((1, 10.0), (2, 9.5), (3, 4.0))
    ]
    ranked = rank_candidates(candidates, (), RankingPolicy(note=0.0))
    features = {
        chunk: RankingFeatures(importance=importance, day=None, saved_s=0.0)
        for chunk, importance in ((1, None), (2, 1.0), (3, 1.0))
    }
    boosted = apply_boosts(ranked, features, Boosts(importance=0.1), TODAY_S)
    assert [one.candidate.chunk for one in boosted] == [2, 1, 3]
    assert boosted[0].raw_score == pytest.approx(10.45)
    assert boosted[0].parts["importance"] == pytest.approx(1.1)
    assert math.prod([boosted[2].parts["stems"], boosted[2].parts["importance"]]) == pytest.approx(boosted[2].raw_score)


def test_what_does_not_say_is_as_important_as_its_kind() -> None:
    boosts = Boosts(importance=0.1, kinds={"decision": 1.0})
    said, by_kind, nothing = (
        RankingFeatures(importance=importance, kind=kind, day=None, saved_s=0.0)
        for importance, kind in ((1.0, None), (None, "Decision"), (None, "rumour"))
    )
    assert compute_boosts(said, boosts, TODAY_S) == compute_boosts(by_kind, boosts, TODAY_S) == {"importance": MAX_BOOST}
    assert compute_boosts(nothing, boosts, TODAY_S) == {"importance": 1.0}
