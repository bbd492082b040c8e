"""How good is a ranked answer? Measured by the lines of evidence that it holds.

R@k is the share of the evidence that the first k results overlap. MRR is one over the rank of the
first result, of ten, that overlaps any. nDCG@10 counts evidence where it is first met; one piece a
rank would be best. T@n is the share of the evidence within the first n tokens (four characters
each) of what the results say, each line counted once: this keeps large results from looking good.
All are means over questions, with the interval that holds 95 % of resampled means.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence

from tests.benchmarks.questions import Lines

DEPTHS = (5, 10)
BUDGETS = (500, 1000, 2000)
TOKEN_CHARACTERS = 4
N_RESAMPLES = 1000

NAMES = ("R@5", "R@10", "MRR", "nDCG@10", *(f"T@{budget}" for budget in BUDGETS))
Notes = Mapping[str, Sequence[str]]
"""Lines of notes by path."""


def measure_answer(
    results: Sequence[Lines], evidence: Sequence[Lines], notes: Notes
) -> dict[str, float]:
    """All figures of one answer, the best result first."""
    ranks = find_ranks(results, evidence)
    figures = {
        f"R@{depth}": sum(rank <= depth for rank in ranks) / len(evidence) for depth in DEPTHS
    }
    first = min(ranks)
    figures["MRR"] = 1 / first if first <= 10 else 0.0
    figures["nDCG@10"] = _discount(rank for rank in ranks if rank <= 10) / _discount(
        range(1, min(len(evidence), 10) + 1)
    )
    figures["nDCG@10"] = min(1.0, figures["nDCG@10"])  # several pieces may be met by one result
    for budget in BUDGETS:
        figures[f"T@{budget}"] = find_share(read_within(results, budget, notes), evidence)
    return figures


def find_ranks(results: Sequence[Lines], evidence: Sequence[Lines]) -> list[float]:
    """For each piece of evidence the rank, from 1, of the first result that overlaps it; infinity
    if none does."""
    return [
        next(
            (rank for rank, result in enumerate(results, 1) if result.is_overlapping(lines)),
            math.inf,
        )
        for lines in evidence
    ]


def find_share(lines: set[tuple[str, int]], evidence: Sequence[Lines]) -> float:
    """The share of the evidence of which a line is among `lines`."""
    met = sum(
        any((part.path, line) in lines for line in range(part.start, part.end + 1))
        for part in evidence
    )
    return met / len(evidence)


def read_within(results: Sequence[Lines], n_tokens: int, notes: Notes) -> set[tuple[str, int]]:
    """The lines of an answer up to so many tokens."""
    read: set[tuple[str, int]] = set()
    n_left = n_tokens * TOKEN_CHARACTERS
    for result in results:
        lines = notes.get(result.path, ())
        for number in range(max(1, result.start), min(result.end, len(lines)) + 1):
            if (result.path, number) in read:
                continue
            n_left -= len(lines[number - 1]) + 1
            if n_left < 0:
                return read
            read.add((result.path, number))
    return read


def find_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def find_interval(values: Sequence[float]) -> tuple[float, float]:
    """Where 95 % of the means of resampled questions lie; the same ones each time."""
    chance = random.Random(7)
    means = sorted(find_mean(chance.choices(values, k=len(values))) for _ in range(N_RESAMPLES))
    return means[int(N_RESAMPLES * 0.025)], means[int(N_RESAMPLES * 0.975)]


def find_paired_interval(
    before: Sequence[float], after: Sequence[float]
) -> tuple[float, float, float]:
    """The mean difference of the same questions, and where 95 % of resampled ones lie."""
    differences = [new - old for old, new in zip(before, after, strict=True)]
    return find_mean(differences), *find_interval(differences)


def _discount(ranks: Iterable[float]) -> float:
    return sum(1 / math.log2(rank + 1) for rank in ranks)
