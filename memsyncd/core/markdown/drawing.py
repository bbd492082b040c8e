"""Draw links as a graph: DOT for Graphviz, or an SVG that needs no other program.

The same links give the same text. In the SVG notes lie on circles around the first one, a circle
for each step away from it. A drawing around a section shows sections, other drawings show notes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from memsyncd.core.markdown.linkgraph import note_of

Arrow = tuple[str, str, str]


class DrawnLink(Protocol):
    """What a drawing needs of a link; see `linkgraph.Edge`."""

    @property
    def source(self) -> str: ...
    @property
    def to(self) -> str | None: ...
    @property
    def target(self) -> str: ...
    @property
    def heading(self) -> str: ...
    @property
    def relation(self) -> str: ...


# In pixels.
NODE_HEIGHT: Final = 28
CHARACTER_WIDTH: Final = 7
CIRCLE_GAP: Final = 150
MARGIN: Final = 30
LABEL_LIMIT_CHARS: Final = 32

_STYLE: Final = (
    "text{font:12px sans-serif;fill:#1b1f24}"
    ".node{fill:#eef3fb;stroke:#5b7db1}.first{fill:#dbe8ff;stroke-width:2}"
    ".missing{fill:#fff;stroke:#b35900;stroke-dasharray:4 3}"
    ".link{stroke:#8a94a6;fill:none}.relation{font-size:10px;fill:#5a6473}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e9ee}.node{fill:#22314a}.first{fill:#2d4670}"
    ".missing{fill:#1b1f24}.relation{fill:#a8b1c0}}"
)


def render_dot(links: Sequence[DrawnLink], start: str | None = None) -> str:
    """Return the graph in the DOT language; `start` is the note or section that the links were
    asked of.
    """
    arrows, missing = _list_arrows(links, start)
    lines = ["digraph memory {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for node in _list_nodes(arrows, start):
        style = ", style=dashed" if node in missing else ", penwidth=2" if node == start else ""
        lines.append(f"  {_quote(node)} [label={_quote(_make_label(node))}{style}];")
    for source, target, relation in arrows:
        label = f" [label={_quote(relation)}]" if relation else ""
        lines.append(f"  {_quote(source)} -> {_quote(target)}{label};")
    return "\n".join([*lines, "}", ""])


def render_svg(links: Sequence[DrawnLink], start: str | None = None) -> str:
    """Return the graph as an SVG document; `start` is the note or section in its middle."""
    arrows, missing = _list_arrows(links, start)
    nodes = _list_nodes(arrows, start)
    places = _place(nodes, _measure_steps(nodes, arrows))
    width, height = (
        2 * (max((abs(place[axis]) for place in places.values()), default=0) + MARGIN + extra)
        for axis, extra in ((0, LABEL_LIMIT_CHARS * CHARACTER_WIDTH / 2), (1, NODE_HEIGHT))
    )
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="{-width / 2:.0f} {-height / 2:.0f} {width:.0f} {height:.0f}" role="img">'
        ),
        f"<title>Links of {_escape(start or 'all notes')}</title>",
        f"<style>{_STYLE}</style>",
        (
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7"'
            ' markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#8a94a6"/></marker></defs>'
        ),
    ]
    parts += [_draw_arrow(places[a], places[b], b, relation) for a, b, relation in arrows]
    for number, node in enumerate(nodes):
        kind = "missing" if node in missing else "node first" if number == 0 else "node"
        parts.append(_draw_node(node, places[node], kind))
    return "\n".join([*parts, "</svg>", ""])


# --- the graph ----------------------------------------------------------------------------------


def _list_arrows(links: Sequence[DrawnLink], start: str | None) -> tuple[list[Arrow], set[str]]:
    """Return each arrow once, with its relation, and the notes that are missing.

    Sections stand for their notes unless the start is a section: a graph of notes can be read.
    """
    has_sections = start is not None and note_of(start) != start

    def show(place: str) -> str:
        return place if has_sections else note_of(place) or place

    arrows: dict[Arrow, None] = {}
    missing: set[str] = set()
    for link in links:
        target = show(link.to) if link.to is not None else link.target or link.heading
        if link.to is None:
            missing.add(target)
        arrows[show(link.source), target, link.relation] = None
    return list(arrows), missing


def _list_nodes(arrows: Sequence[Arrow], start: str | None) -> list[str]:
    """The start first; without one, the note with most links."""
    counts = Counter(node for source, target, _ in arrows for node in (source, target))
    first = start if start is not None else max(sorted(counts), key=counts.__getitem__, default="")
    return [*([first] if first else []), *sorted(counts.keys() - {first})]


def _measure_steps(nodes: Sequence[str], arrows: Sequence[Arrow]) -> dict[str, int]:
    """The steps from the first node to each, in any direction; one more than the most for those
    that no link reaches.
    """
    beside: dict[str, set[str]] = {}
    for source, target, _ in arrows:
        beside.setdefault(source, set()).add(target)
        beside.setdefault(target, set()).add(source)
    steps = {nodes[0]: 0} if nodes else {}
    front = list(nodes[:1])
    while front:
        beyond = sorted({other for node in front for other in beside.get(node, ())} - steps.keys())
        steps |= dict.fromkeys(beyond, steps[front[0]] + 1)
        front = beyond
    apart = max(steps.values(), default=0) + 1
    return {node: steps.get(node, apart) for node in nodes}


def _place(nodes: Sequence[str], steps: dict[str, int]) -> dict[str, tuple[float, float]]:
    """The middle of each node, with the first at the origin."""
    places: dict[str, tuple[float, float]] = {}
    radius = 0.0
    for step in range(max(steps.values(), default=0) + 1):
        circle = [node for node in nodes if steps[node] == step]
        if step:
            needed = len(circle) * LABEL_LIMIT_CHARS * CHARACTER_WIDTH / (2 * math.pi)
            radius = max(radius + CIRCLE_GAP, needed)
        for number, node in enumerate(circle):
            angle = 2 * math.pi * number / len(circle) + step * 0.4
            places[node] = (1.4 * radius * math.cos(angle), radius * math.sin(angle))
    return places


# --- drawing ------------------------------------------------------------------------------------


def _make_label(node: str) -> str:
    path = note_of(node)
    # Of a section, its own heading tells more than those above it.
    name = node[len(path) :].rpartition("/")[2].lstrip("#") or path.rpartition("/")[2]
    name = name.removesuffix(".md") or node
    return name if len(name) <= LABEL_LIMIT_CHARS else f"{name[: LABEL_LIMIT_CHARS - 1]}…"


def _node_width(node: str) -> int:
    return len(_make_label(node)) * CHARACTER_WIDTH + 20


def _draw_node(node: str, place: tuple[float, float], kind: str) -> str:
    width, (x, y) = _node_width(node), place
    return (
        f'<g><title>{_escape(node)}</title><rect class="{kind}" x="{x - width / 2:.1f}"'
        f' y="{y - NODE_HEIGHT / 2:.1f}" width="{width}" height="{NODE_HEIGHT}" rx="6"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{_escape(_make_label(node))}'
        "</text></g>"
    )


def _draw_arrow(
    source: tuple[float, float], target: tuple[float, float], node: str, relation: str
) -> str:
    (ax, ay), (bx, by) = source, target
    dx, dy = bx - ax, by - ay
    if not dx and not dy:
        return _draw_loop(source, node, relation)
    # The arrow ends at the edge of the target's box.
    half_width, half_height = _node_width(node) / 2, NODE_HEIGHT / 2
    cut = min(
        half_width / abs(dx) if dx else math.inf, half_height / abs(dy) if dy else math.inf, 1.0
    )
    ex, ey = bx - dx * cut, by - dy * cut
    line = f'<path class="link" d="M{ax:.1f} {ay:.1f}L{ex:.1f} {ey:.1f}" marker-end="url(#arrow)"/>'
    return line + _draw_relation(relation, (ax + ex) / 2, (ay + ey) / 2 - 4)


def _draw_loop(place: tuple[float, float], node: str, relation: str) -> str:
    """Draw an arrow from a note to itself, above its box."""
    (x, y), width = place, _node_width(node) / 4
    top = y - NODE_HEIGHT / 2
    line = (
        f'<path class="link" d="M{x - width:.1f} {top:.1f}C{x - width:.1f} {top - 26:.1f}'
        f' {x + width:.1f} {top - 26:.1f} {x + width:.1f} {top:.1f}" marker-end="url(#arrow)"/>'
    )
    return line + _draw_relation(relation, x, top - 22)


def _draw_relation(relation: str, x: float, y: float) -> str:
    if not relation:
        return ""
    return (
        f'<text class="relation" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">'
        f"{_escape(relation)}</text>"
    )


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_printable(escaped)}"'


def _escape(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _printable(escaped.replace('"', "&quot;"))


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
