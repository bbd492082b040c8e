from __future__ import annotations

import math
from typing import Any

import pytest

from tests.benchmarks.measures import find_interval, measure_answer
from tests.benchmarks.questions import Lines

NOTES = {"a.md": ["x" * 399] * 40, "b.md": ["y" * 399] * 40}


def lines(path: str, start: int, end: int | None = None) -> Lines:
    return Lines(path=path, start=start, end=start if end is None else end)


def measure(results: list[Lines], *evidence: Lines) -> dict[str, Any]:
    return measure_answer(results, evidence, NOTES)


def test_a_first_result_that_holds_the_evidence_is_perfect() -> None:
    assert measure([lines("a.md", 1, 3)], lines("a.md", 3)) == dict.fromkeys(
        measure([], lines("a.md", 3)), 1.0
    )


def test_nothing_found_is_worth_nothing() -> None:
    assert set(measure([], lines("a.md", 3)).values()) == {0.0}


def test_the_same_lines_of_another_note_do_not_count() -> None:
    assert measure([lines("b.md", 1, 40)], lines("a.md", 3))["R@5"] == 0


def test_half_of_the_evidence_is_half_a_recall() -> None:
    figures = measure([lines("b.md", 9), lines("a.md", 3)], lines("a.md", 3), lines("a.md", 30))
    assert (figures["R@5"], figures["MRR"]) == (0.5, 0.5)
    assert figures["nDCG@10"] == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))


@pytest.mark.parametrize(
    ("rank", "wanted"),
    [
        (5, (1, 1, 1 / 5, 1 / math.log2(6))),
        (6, (0, 1, 1 / 6, 1 / math.log2(7))),
        (11, (0, 0, 0, 0)),
    ],
)
def test_a_result_counts_by_its_rank(rank: int, wanted: tuple[float, ...]) -> None:
    rivals = [lines("b.md", n) for n in range(1, rank)]
    figures = measure([*rivals, lines("a.md", 3)], lines("a.md", 3))
    assert [figures[name] for name in ("R@5", "R@10", "MRR", "nDCG@10")] == pytest.approx(wanted)


def test_a_budget_is_spent_line_by_line_and_never_twice_on_one() -> None:
    five_lines, again = lines("a.md", 1, 5), lines("a.md", 1, 6)
    assert measure([five_lines], lines("a.md", 5))["T@500"] == 1
    assert measure([again], lines("a.md", 6))["T@500"] == 0
    assert measure([lines("a.md", 1, 4), again], lines("a.md", 5))["T@500"] == 1
    assert measure([again], lines("a.md", 6))["T@1000"] == 1


def test_an_interval_lies_around_the_mean_and_is_the_same_each_time() -> None:
    values = [0.0, 1.0] * 50
    low, high = find_interval(values)
    assert 0.35 < low < 0.5 < high < 0.65
    assert find_interval(values) == (low, high)
