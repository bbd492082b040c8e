"""Defines a figure, its target and its verdict, and renders figures as a table and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["met", "MISSED", "FAILED", "missing", ""]

COLUMNS = ("row", "operation", "limit", "measured", "ratio", "target", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The largest value that is good enough; a ratio of value to limit if the unit is `×`."""

    most: float
    unit: str = "×"

    def render(self) -> str:
        return f"≤ {render_value(self.most, self.unit)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A value and its limit, measured in the same run; the limit is None if there is none."""

    value: float
    limit: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.limit if self.limit else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. `before` is the same of another checkout; without `now` the figure
    could not be measured, and `note` says why.
    """

    row: str
    name: str
    unit: str = ""
    limit_name: str = ""
    now: Measured | None = None
    before: Measured | None = None
    target: Target | None = None
    note: str = ""
    is_missing: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.now is None:
            return "missing" if self.is_missing else "FAILED"
        if self.target is None:
            return ""
        compared = self.now.ratio if self.target.unit == "×" else self.now.value
        return "met" if compared is not None and compared <= self.target.most else "MISSED"


def render_table(figures: Sequence[Figure], *, has_before: bool) -> str:
    """Render a table in Markdown; with `has_before` the other checkout has columns of its own."""
    columns = COLUMNS[:3] + (("before", "ratio before") if has_before else ()) + COLUMNS[3:]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [
        f"| {' | '.join(render_cells(figure, has_before=has_before))} |".replace("|  |", "| |")
        for figure in figures
    ]
    return "\n".join(lines)


def render_cells(figure: Figure, *, has_before: bool) -> list[str]:
    now, before = figure.now, figure.before
    limit = "" if now is None or now.limit is None else render_value(now.limit, figure.unit)
    old = [_render_measured(before, figure.unit), _render_ratio(before)] if has_before else []
    name = f"{figure.name} ({figure.note})" if figure.note else figure.name
    return [
        figure.row,
        name.replace("|", "\\|"),
        f"{figure.limit_name} {limit}".strip(),
        *old,
        _render_measured(now, figure.unit),
        _render_ratio(now),
        figure.target.render() if figure.target else "",
        figure.verdict,
    ]


def to_json(figure: Figure) -> dict[str, Any]:
    """Return the figure as JSON's types."""
    return {
        "row": figure.row,
        "name": figure.name,
        "unit": figure.unit,
        "limit_name": figure.limit_name,
        "now": _measured_to_json(figure.now),
        "before": _measured_to_json(figure.before),
        "target": figure.target and {"most": figure.target.most, "unit": figure.target.unit},
        "verdict": figure.verdict,
        "note": figure.note,
    }


def find_percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def find_median(values: Sequence[float]) -> float:
    return statistics.median(values)


def render_value(value: float, unit: str) -> str:
    """Render with three digits that matter."""
    digits = 0 if value == int(value) or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def _render_measured(measured: Measured | None, unit: str) -> str:
    return render_value(measured.value, unit) if measured else "–"


def _render_ratio(measured: Measured | None) -> str:
    return f"{measured.ratio:.2f} ×" if measured and measured.ratio is not None else ""


def _measured_to_json(measured: Measured | None) -> dict[str, Any] | None:
    return measured and {
        "value": measured.value,
        "limit": measured.limit,
        "ratio": measured.ratio,
    }
