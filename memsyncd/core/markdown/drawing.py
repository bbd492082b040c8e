"""Draw links as a graph in DOT, the language of Graphviz.

The same links give the same text. A drawing around a section shows sections, other drawings show
notes.
"""

from __future__ import annotations

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


LABEL_LIMIT_CHARS: Final = 32


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


def _make_label(node: str) -> str:
    path = note_of(node)
    # Of a section, its own heading tells more than those above it.
    name = node[len(path) :].rpartition("/")[2].lstrip("#") or path.rpartition("/")[2]
    name = name.removesuffix(".md") or node
    return name if len(name) <= LABEL_LIMIT_CHARS else f"{name[: LABEL_LIMIT_CHARS - 1]}…"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_printable(escaped)}"'


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
