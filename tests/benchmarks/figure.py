"""One figure as a line: its name, its value, its target, and what it was made of."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A value that should be at most `target`; without one it is for information. `unit` is `x` for
    a ratio.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    note: str = ""

    def render(self) -> str:
        wanted = "" if self.target is None else f"<= {_round(self.target)} {self.unit}"
        verdict = "" if self.target is None else "ok" if self.value <= self.target else "MISSED"
        return f"{self.name:<44} {_round(self.value):>8} {self.unit:<3} {wanted:<12} {verdict:<7} {self.note}".rstrip()


def find_percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def find_median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _round(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
