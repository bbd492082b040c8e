from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.histogram import BUCKET_BOUNDS_S, DurationHistogram

DURATIONS = st.lists(st.floats(0, 100, allow_nan=False), min_size=1)
SHARES = st.floats(0, 1)


def count(durations: list[float]) -> DurationHistogram:
    latencies = DurationHistogram()
    for took_s in durations:
        latencies.add(took_s)
    return latencies


def test_an_empty_histogram_has_no_quantile() -> None:
    latencies = DurationHistogram()
    assert latencies.quantile(0.5) is None
    assert latencies.cumulative_counts() == [0] * len(BUCKET_BOUNDS_S)


@given(DURATIONS)
def test_each_bound_counts_all_that_took_no_longer(durations: list[float]) -> None:
    latencies = count(durations)
    assert latencies.cumulative_counts() == [
        sum(took_s <= bound_s for took_s in durations) for bound_s in BUCKET_BOUNDS_S
    ]
    assert (latencies.n, latencies.longest_s) == (len(durations), max(durations))
    assert math.isclose(latencies.sum_s, sum(durations))


@given(DURATIONS, SHARES)
def test_a_quantile_lies_in_the_bucket_of_the_true_one_and_never_beyond_the_longest(
    durations: list[float], share: float
) -> None:
    found_s = count(durations).quantile(share)
    true_s = sorted(durations)[max(0, math.ceil(share * len(durations)) - 1)]
    low_s = max((bound_s for bound_s in BUCKET_BOUNDS_S if bound_s < true_s), default=0.0)
    high_s = min((bound_s for bound_s in BUCKET_BOUNDS_S if bound_s >= true_s), default=math.inf)
    assert found_s is not None
    assert low_s <= found_s <= min(high_s, max(durations))


@given(DURATIONS, SHARES, SHARES)
def test_a_larger_share_takes_no_less_time(
    durations: list[float], one: float, other: float
) -> None:
    latencies = count(durations)
    times_s = [latencies.quantile(share) for share in sorted((one, other))]
    assert times_s == sorted(times_s)
