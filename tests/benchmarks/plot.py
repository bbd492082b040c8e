"""Draws lines over logarithmic axes as SVG, without any library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 44
SMALLEST = 1e-9
COLOURS = ("#1f6feb", "#d1711f", "#2c974b", "#8250df", "#bf3989", "#6e7781")

Points = Sequence[tuple[float, float]]


def draw_plot(
    title: str, x_label: str, y_label: str, series: Mapping[str, Points], *, width: int = WIDTH
) -> str:
    """Return an SVG picture with a line for each series. Points whose x or y is below `SMALLEST`
    have no place on a logarithmic axis and are left out; raises ValueError if none remains.
    """
    drawn = {name: _find_drawable(points) for name, points in series.items()}
    xs = [x for points in drawn.values() for x, _ in points]
    ys = [y for points in drawn.values() for _, y in points]
    if not xs:
        raise ValueError(f"there is nothing to draw in {title!r}: no point is large enough")
    x_axis = _Axis(xs, LEFT, width - RIGHT)
    y_axis = _Axis(ys, HEIGHT - BOTTOM, TOP)
    middle_x, middle_y = (LEFT + width - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    size = f'width="{width}" height="{HEIGHT}"'
    font = 'font-family="sans-serif" font-size="11" fill="#57606a"'
    turned = f'transform="rotate(-90 14 {middle_y:.0f})"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {HEIGHT}" {font}>',
        f'<rect {size} fill="#ffffff"/>',
        f'<text x="{LEFT}" y="16" font-size="13" fill="#24292f">{escape(title)}</text>',
        *_draw_grid(x_axis, y_axis, width),
        _text(middle_x, HEIGHT - 8, x_label, "middle"),
        _text(14, middle_y, y_label, "middle", turned),
    ]
    for number, (name, points) in enumerate(drawn.items()):
        parts += _draw_series(name, points, x_axis, y_axis, number)
    return "\n".join((*parts, "</svg>", ""))


class _Axis:
    """A logarithmic axis from the power of ten at or below all values to the power of ten at or
    above them.
    """

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.low = math.floor(math.log10(min(values)))
        self.high = max(math.ceil(math.log10(max(values))), self.low + 1)
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def render_tick(value: float) -> str:
    """Render a power of ten shortly: 0.1, 10, 10k, 1M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def _find_drawable(points: Points) -> list[tuple[float, float]]:
    return sorted((x, y) for x, y in points if min(x, y) >= SMALLEST)


def _draw_grid(x_axis: _Axis, y_axis: _Axis, width: int) -> list[str]:
    parts = []
    for value in x_axis.ticks():
        x = x_axis.place(value)
        parts.append(_line(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(_text(x, HEIGHT - BOTTOM + 15, render_tick(value), "middle"))
    for value in y_axis.ticks():
        y = y_axis.place(value)
        parts.append(_line(LEFT, y, width - RIGHT, y))
        parts.append(_text(LEFT - 6, y + 4, render_tick(value), "end"))
    return parts


def _text(x: float, y: float, text: str, anchor: str, attributes: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place} {attributes}>{escape(text)}</text>".replace(" >", ">")


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="#d0d7de"/>'


def _draw_series(name: str, points: Points, x_axis: _Axis, y_axis: _Axis, number: int) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    placed = [(x_axis.place(x), y_axis.place(y)) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    legend_y = TOP + 14 + 14 * number
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed),
        f'<text x="{LEFT + 8}" y="{legend_y}" fill="{colour}">{escape(name)}</text>',
    ]
