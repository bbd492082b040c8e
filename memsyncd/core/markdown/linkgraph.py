"""Resolve links to notes and sections, walk the graph that they form, and draw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, Protocol

from memsyncd.core.markdown.links import NoteNames, is_block_reference, make_id_key
from memsyncd.core.markdown.sections import make_slug
from memsyncd.core.model import NAME_LINK, PATH_LINK, Link
from memsyncd.core.paths import NOTE_SUFFIXES

LinkDirection = Literal["out", "in", "both"]

# While links are resolved, the names of the sections of this many notes are remembered.
N_TARGETS = 256
UNCERTAIN_LINKS: Final = (NAME_LINK, PATH_LINK)
"""Kinds of links that are no links if they lead to no note."""


class Edge(NamedTuple):
    """The links of one kind from one section to one place by one relation.

    `to` is a note's path or a section's anchor; None if no note has this name. `target` and
    `heading` are as written in the first of the links. `lines` are 1-based and ascending. `depth`
    is the number of steps from the start of a walk, 0 outside a walk. `n_others` is how many
    further notes have the name that the link has.
    """

    source: str
    to: str | None
    target: str
    heading: str
    relation: str
    lines: tuple[int, ...]
    kind: str = "link"
    depth: int = 0
    n_others: int = 0

    @property
    def is_part_missing(self) -> bool:
        """True if the link names a heading or a block that its note does not have."""
        return is_part_missing(self.heading, self.to)

    @property
    def is_dangling(self) -> bool:
        """True if no note has the name, or its note does not have the heading."""
        return self.to is None or self.is_part_missing


class Places(Protocol):
    """Finds the sections and blocks that links name."""

    def read_anchors(self, path: str) -> Sequence[str]:
        """The anchors of a note's sections in order of lines."""
        ...

    def find_block(self, block: str, path: str = "") -> str | None:
        """The anchor of the section that holds a block: `^id` in the note `path`, `((uuid))` in any
        note; or of the section whose id has this key. None if there is none.
        """
        ...


_AnchorsByName = dict[str, str]


class LinkResolver:
    """Finds the places that links name. It remembers the names of the sections of some notes."""

    def __init__(self, names: NoteNames, places: Places) -> None:
        self._names = names
        self._places = places
        self._name_anchors = lru_cache(N_TARGETS)(
            lambda path: _name_anchors(places.read_anchors(path))
        )

    def resolve(self, source: str, target: str, heading: str, kind: str = "link") -> str | None:
        """The note's path or the section's anchor to which a link in the note `source` leads; None
        if no note has this name. A link to a missing heading leads to the note.
        """
        if is_block_reference(target):
            return self._places.find_block(target.lower())
        path = self._names.find(source, target, is_path=kind == PATH_LINK)
        if path is None and not heading and kind not in UNCERTAIN_LINKS:
            key = make_id_key(target)
            return self._places.find_block(key) if key else None
        return path and self.find_part(path, heading)

    def find_part(self, path: str, heading: str) -> str:
        """The section of a note that the heading of a link names; the note if it has none."""
        if not heading:
            return path
        if heading[0] == "^":
            return self._places.find_block(heading.lower(), path) or path
        return _find_section(path, heading, self._name_anchors)


def is_part_missing(heading: str, to: str | None) -> bool:
    """True if a link with this heading leads to a whole note."""
    return bool(heading) and to is not None and note_of(to) == to


def join_links(links: Iterable[tuple[Link, str | None, int]]) -> list[Edge]:
    """Join the links with the same source, destination, relation and kind. Each link comes with its
    destination, and with the number of further notes that have its name: a link with some comes
    first. A heading that is missing makes a destination of its own.
    """
    joined: dict[tuple[str, str, str, str], list[Link]] = {}
    destinations: dict[tuple[str, str, str, str], tuple[str | None, int]] = {}
    for link, to, n_others in links:
        is_uncertain = link.kind in UNCERTAIN_LINKS
        if to is None and is_uncertain:
            continue  # the link may lead to a folder, a web page or a file
        kind = "link" if is_uncertain else link.kind
        is_found = to is not None and not is_part_missing(link.heading, to)
        place = to if is_found and to else f"{to or ''}#{link.target}#{link.heading}"
        key = (link.anchor, place, link.relation, kind)
        same = joined.setdefault(key, [])
        if n_others and not destinations.get(key, (to, 0))[1]:
            same.insert(0, link)
        else:
            same.append(link)
        destinations[key] = to, max(n_others, destinations.get(key, (to, 0))[1])
    return [
        Edge(
            source=first.anchor,
            to=destinations[key][0],
            target=first.target,
            heading=first.heading,
            relation=first.relation,
            lines=tuple(sorted({link.line for link in same})),
            kind=key[-1],
            n_others=destinations[key][1],
        )
        for key, same in joined.items()
        for first in same[:1]
    ]


class Graph(Protocol):
    """The links of all notes. A node is a note, which stands for all of its sections, or a section,
    which stands for itself and the sections beneath it.
    """

    def read_outgoing(self, nodes: Collection[str]) -> Mapping[str, Sequence[Edge]]:
        """The edges that leave each node, by line. A node without edges may be missing."""
        ...

    def read_incoming(self, nodes: Collection[str]) -> Mapping[str, Sequence[Edge]]:
        """The edges that lead to each node, by path and line. A node without edges may be
        missing.
        """
        ...


def walk_links(
    graph: Graph, start: str, *, direction: LinkDirection = "both", max_depth: int = 1
) -> list[Edge]:
    """The edges within `max_depth` steps of a note or section, each once with its depth, nearest
    first.

    At a link that leads to the node, the walk continues from the whole note that has the link. A
    cycle is followed once.
    """
    edges: dict[Edge, Edge] = {}
    visited, front = {start}, [start]
    for depth in range(1, max_depth + 1):
        outgoing = graph.read_outgoing(front) if direction != "in" else {}
        incoming = graph.read_incoming(front) if direction != "out" else {}
        beyond: list[str] = []
        for node in front:
            steps = [
                *((edge, edge.to) for edge in outgoing.get(node, ())),
                *((edge, note_of(edge.source)) for edge in incoming.get(node, ())),
            ]
            for edge, other in steps:
                edges.setdefault(edge, edge._replace(depth=depth))
                if other is not None and other not in visited:
                    visited.add(other)
                    beyond.append(other)
        front = beyond
    return list(edges.values())


def note_of(place: str) -> str:
    """The path of the note, if `place` is a path or an anchor. A `#` may belong to a path: the
    slugs of an anchor never end with a note's suffix.
    """
    path, mark, slugs = place.rpartition("#")
    return path if mark and not slugs.lower().endswith(NOTE_SUFFIXES) else place


def find_section(path: str, heading: str, anchors: Iterable[str]) -> str:
    """The anchor of a note that the heading of a link names, else the note's path."""
    by_name = _name_anchors(anchors)
    return _find_section(path, heading, lambda _: by_name)


def _find_section(path: str, heading: str, anchors_by_name: Callable[[str], _AnchorsByName]) -> str:
    """The anchor of a heading, in `A#B` of the last heading; the note's path if the note has no
    such section.
    """
    wanted = heading.rpartition("#")[2].strip()
    if not wanted:
        return path
    by_name = anchors_by_name(path)
    return by_name.get(wanted) or by_name.get(make_slug(wanted), path)


def _name_anchors(anchors: Iterable[str]) -> _AnchorsByName:
    """Anchors by name: the first anchor with each last slug, and every anchor by all its slugs."""
    by_name: _AnchorsByName = {}
    for anchor in anchors:
        slugs = anchor.rpartition("#")[2]
        by_name.setdefault(slugs.rpartition("/")[2], anchor)
        by_name[slugs] = anchor
    return by_name


Arrow = tuple[str, str, str]


class DrawnLink(Protocol):
    """The fields of `Edge` that a drawing needs."""

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
    """Return the graph in the DOT language. `start` is the note or section whose links these are;
    None if they are the links of all notes.
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


# --- The drawn graph ----------------------------------------------------------------------------


def _list_arrows(links: Sequence[DrawnLink], start: str | None) -> tuple[list[Arrow], set[str]]:
    """Return each arrow once, with its relation, and the missing notes.

    Each section is drawn as its note, unless the start is a section: a graph of notes is smaller.
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
    """All nodes. The start comes first; without a start, the note with the most links."""
    counts = Counter(node for source, target, _ in arrows for node in (source, target))
    first = start if start is not None else max(sorted(counts), key=counts.__getitem__, default="")
    return [*([first] if first else []), *sorted(counts.keys() - {first})]


def _make_label(node: str) -> str:
    path = note_of(node)
    # A section's own heading tells more than the headings above it.
    name = node[len(path) :].rpartition("/")[2].lstrip("#") or path.rpartition("/")[2]
    name = name.removesuffix(".md") or node
    return name if len(name) <= LABEL_LIMIT_CHARS else f"{name[: LABEL_LIMIT_CHARS - 1]}…"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_printable(escaped)}"'


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
