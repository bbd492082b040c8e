"""Count durations in fixed buckets, so that any number of them takes the same memory.

A narrower bucket gives a more exact result: a quantile lies in the right bucket, and never above
the longest duration.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

# Upper bounds of the buckets. Each bound is included in its own bucket. One more bucket counts
# longer durations.
BUCKET_BOUNDS_S = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)


class DurationHistogram:
    """Durations of one sort of operation, in seconds."""

    __slots__ = ("_buckets", "longest_s", "n", "sum_s")

    def __init__(self) -> None:
        self._buckets = [0] * (len(BUCKET_BOUNDS_S) + 1)
        self.n = 0
        self.sum_s = 0.0
        self.longest_s = 0.0

    def add(self, took_s: float) -> None:
        """Count one more duration."""
        self._buckets[bisect_left(BUCKET_BOUNDS_S, took_s)] += 1
        self.n += 1
        self.sum_s += took_s
        self.longest_s = max(self.longest_s, took_s)

    def cumulative_counts(self) -> list[int]:
        """For each of the bounds, the number of durations up to it."""
        return list(accumulate(self._buckets[:-1]))

    def quantile(self, share: float) -> float | None:
        """The time in seconds within which `share` (0-1) of all operations ended, interpolated
        within a bucket; None if no duration was counted.
        """
        if not self.n:
            return None
        rank = share * self.n
        n_below, low_s = 0, 0.0
        for n_here, bound_s in zip(self._buckets, (*BUCKET_BOUNDS_S, self.longest_s), strict=True):
            if n_here and n_below + n_here >= rank:
                high_s = min(bound_s, self.longest_s)
                return low_s + (high_s - low_s) * max(0.0, rank - n_below) / n_here
            n_below += n_here
            low_s = bound_s
        return self.longest_s
