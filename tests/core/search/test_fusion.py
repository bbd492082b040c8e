"""How the scores by words and the cosines of vectors add up."""

from __future__ import annotations

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from memsyncd.core.search.fusion import SemanticGains, compute_semantic_gains
from memsyncd.core.search.ranking import DEFAULT_RANKING

COSINES = st.dictionaries(st.integers(1, 30), st.floats(-1, 1), max_size=12)
LEXICAL = st.floats(0, 60)
WEIGHTS = st.floats(0.05, 0.9)
MEDIANS = st.floats(-1, 0.5)


def compute(
    cosines: dict[int, float], median: float, most: float, weight: float = 0.4
) -> SemanticGains:
    highest = max(cosines.values(), default=median)
    return compute_semantic_gains(
        cosines, median=median, highest=highest, lexical={}, highest_lexical=most, weight=weight
    )


@given(cosines=COSINES, median=MEDIANS, most=LEXICAL)
def test_without_weight_or_without_cosines_nothing_is_gained(
    cosines: dict[int, float], median: float, most: float
) -> None:
    assert compute(cosines, median, most, weight=0.0).of == {}
    assert compute({}, median, most).of == {}


@given(cosines=COSINES, median=MEDIANS, most=LEXICAL, weight=WEIGHTS)
def test_a_gain_is_bounded_and_that_of_the_nearest_makes_its_share_of_the_sum(
    cosines: dict[int, float], median: float, most: float, weight: float
) -> None:
    gains = compute(cosines, median, most, weight)
    highest = gains.unit * weight / (1 - weight)
    assert all(0 < gain <= highest * (1 + 1e-9) for gain in gains.of.values())
    if gains.of:
        share = max(gains.of.values()) / (gains.unit + max(gains.of.values()))
        assert math.isclose(share, weight, rel_tol=1e-6)
        assert gains.unit == (most if most > 1e-9 else 1.0)


@given(cosines=COSINES, median=MEDIANS, most=LEXICAL, weight=WEIGHTS)
def test_the_nearer_gains_more_and_what_is_below_the_median_nothing(
    cosines: dict[int, float], median: float, most: float, weight: float
) -> None:
    gains = compute(cosines, median, most, weight).of
    for one, near in cosines.items():
        assert near > median or one not in gains
        for other, nearer in cosines.items():
            assert near > nearer or gains.get(one, 0.0) <= gains.get(other, 0.0)


@given(
    cosines=COSINES,
    lexical=st.dictionaries(st.integers(1, 30), LEXICAL, min_size=1, max_size=12),
    median=MEDIANS,
    weight=WEIGHTS,
    coverage=st.floats(0, 1),
)
def test_the_order_is_that_of_the_weighted_sum_of_both_parts(
    cosines: dict[int, float],
    lexical: dict[int, float],
    median: float,
    weight: float,
    coverage: float,
) -> None:
    most = max(lexical.values())
    highest = max(cosines.values(), default=median)
    assume(most > 0.01 and highest - median > 0.01)
    gains = compute_semantic_gains(
        cosines,
        median=median,
        highest=highest,
        lexical=lexical,
        highest_lexical=most,
        weight=weight,
        coverage=coverage,
    ).of

    def fuse(chunk: int) -> float:
        """Words count for a vector that is not made yet, and as far as few have one."""
        by_words = lexical.get(chunk, 0.0) / most
        near = by_words
        if chunk in cosines:
            near = coverage * max(0.0, (cosines[chunk] - median) / (highest - median))
            near += (1 - coverage) * by_words
        return (1 - weight) * by_words + weight * near

    for chunk in lexical.keys() | cosines.keys():
        score = lexical.get(chunk, 0.0) + gains.get(chunk, 0.0)
        assert math.isclose(score * (1 - weight) / most, fuse(chunk), rel_tol=1e-6, abs_tol=1e-9)


def test_cosines_that_do_not_differ_say_nothing() -> None:
    assert compute({1: 0.25, 2: 0.25}, 0.25, 3.0).of == {}


def test_the_weight_leaves_most_of_the_score_to_words() -> None:
    assert 0 < DEFAULT_RANKING.semantic < 0.5
