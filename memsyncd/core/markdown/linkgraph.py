"""Resolve links to notes and sections, and walk the graph that they form.

A target is looked up as people write it: relative to the folder of the linking note, from the root,
as the end of a path without its suffix (`[[redis]]` for `.memories/redis.md`), and as a title. Of
several notes that match, the one nearest to the linking note is chosen, as Obsidian does.
"""

from __future__ import annotations

import difflib
import posixpath
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import takewhile
from typing import Literal, NamedTuple

from memsyncd.core.markdown.sections import make_slug
from memsyncd.core.model import WrittenLink
from memsyncd.core.notepath import NOTE_SUFFIXES

LinkDirection = Literal["out", "in", "both"]

_ENCODED = re.compile("(?:%[0-9A-Fa-f]{2})+")
_SIMILARITY = 0.6
"""The least ratio of `difflib` for a note that is suggested in place of a missing one."""


class Edge(NamedTuple):
    """The links from one section to one place by one relation.

    `to` is a note's path or a section's anchor, None if no note has this name. `target` and
    `heading` are as written in the first of them; `lines` are 1-based and ascending. `depth` is the
    number of steps from the start of a walk, 0 outside one.
    """

    source: str
    to: str | None
    target: str
    heading: str
    relation: str
    lines: tuple[int, ...]
    depth: int = 0


_AnchorsByName = dict[str, str]


class NoteNames:
    """The paths and titles of all notes, by which links name them."""

    def __init__(self, notes: Iterable[tuple[str, str]]) -> None:
        """`notes` are paths with titles."""
        self._paths: set[str] = set()
        self._ends: dict[str, list[str]] = {}
        self._titles: dict[str, list[str]] = {}
        self._initials: dict[str, list[str]] = {}
        self._found: dict[tuple[str, str], str | None] = {}
        for path, title in notes:
            self._paths.add(path)
            stem = _fold(_cut_suffix(path))
            self._ends.setdefault(stem.rpartition("/")[2], []).append(path)
            if title:
                self._titles.setdefault(_fold(title), []).append(path)
        for name in self._ends:
            self._initials.setdefault(name[:1], []).append(name)

    def find(self, source: str, target: str) -> str | None:
        """The path of the note that the note `source` calls `target`; None if there is none."""
        if not target:
            return source
        folder = source.rpartition("/")[0]
        key = folder, target
        if key not in self._found:  # the notes of a folder repeat their links
            self._found[key] = self._find(folder, target)
        return self._found[key]

    def find_similar(self, target: str) -> str | None:
        """The path of the note with the most similar name; None if none is similar."""
        name = _name_end(decode_target(target)).rpartition("/")[2]
        known = self._initials.get(name[:1], ())
        near = difflib.get_close_matches(name, known, n=1, cutoff=_SIMILARITY)
        return min(self._ends[near[0]]) if near else None

    def _find(self, folder: str, target: str) -> str | None:
        for text in dict.fromkeys((target, decode_target(target))):
            found = self._find_path(folder, text) or self._find_named(folder, text)
            if found:
                return found
        return None

    def _find_path(self, folder: str, target: str) -> str | None:
        written = target.replace("\\", "/")
        for base in ("",) if written.startswith("/") else (folder, ""):
            path = posixpath.normpath(posixpath.join(base, written.lstrip("/")))
            for suffix in ("", *NOTE_SUFFIXES):
                if path + suffix in self._paths:
                    return path + suffix
        return None

    def _find_named(self, folder: str, target: str) -> str | None:
        end = _name_end(target)
        same_name = self._ends.get(end.rpartition("/")[2], ())
        matching = [
            path for path in same_name if f"/{_fold(_cut_suffix(path))}".endswith(f"/{end}")
        ]
        matching = matching or self._titles.get(_fold(target.strip()), [])
        return min(matching, key=lambda path: _distance(folder, path), default=None)


def make_edges(
    links: Iterable[WrittenLink],
    names: NoteNames,
    read_anchors: Callable[[str], Sequence[str]],
) -> list[Edge]:
    """Resolve links, and join those with the same source, destination and relation.

    `read_anchors` returns the anchors of a note's sections in order of lines.
    """
    anchors_by_name = cache(lambda path: _name_anchors(read_anchors(path)))
    joined: dict[tuple[str, str, str], list[WrittenLink]] = {}
    destinations: dict[tuple[str, str, str], str | None] = {}
    for link in links:
        path = names.find(link.source.rpartition("#")[0], link.target)
        to = path and _find_section(path, link.heading, anchors_by_name)
        key = (link.source, to or f"{link.target}#{link.heading}", link.relation)
        joined.setdefault(key, []).append(link)
        destinations[key] = to
    return [
        Edge(
            source=first.source,
            to=destinations[key],
            target=first.target,
            heading=first.heading,
            relation=first.relation,
            lines=tuple(sorted({link.line for link in same})),
        )
        for key, same in joined.items()
        for first in same[:1]
    ]


def walk_links(
    edges: Collection[Edge], start: str, *, direction: LinkDirection = "both", max_depth: int = 1
) -> list[Edge]:
    """The edges within `max_depth` steps of a note or section, each once with its depth, nearest
    first.

    A note stands for all of its sections, a section for itself and those beneath it; a walk
    continues from the whole note that a link comes from. A cycle is followed once.
    """
    outgoing, incoming = _index_edges(edges)
    found: dict[Edge, Edge] = {}
    visited, front = {start}, [start]
    for depth in range(1, max_depth + 1):
        beyond: list[str] = []
        for node in front:
            for edge, other in _list_steps(node, direction, outgoing, incoming):
                found.setdefault(edge, edge._replace(depth=depth))
                if other is not None and other not in visited:
                    visited.add(other)
                    beyond.append(other)
        front = beyond
    return list(found.values())


_EdgesByNote = dict[str, list[tuple[str, Edge]]]


def _index_edges(edges: Iterable[Edge]) -> tuple[_EdgesByNote, _EdgesByNote]:
    """The edges by the note they leave, and by the note they lead to, each with that place."""
    outgoing: _EdgesByNote = {}
    incoming: _EdgesByNote = {}
    for edge in edges:
        outgoing.setdefault(edge.source.rpartition("#")[0], []).append((edge.source, edge))
        if edge.to is not None:
            incoming.setdefault(note_of(edge.to), []).append((edge.to, edge))
    return outgoing, incoming


def _list_steps(
    node: str, direction: LinkDirection, outgoing: _EdgesByNote, incoming: _EdgesByNote
) -> Iterator[tuple[Edge, str | None]]:
    """The edges at a node, each with the node at its other end."""
    if direction != "in":
        yield from ((edge, edge.to) for edge in _select(outgoing, node))
    if direction != "out":
        yield from ((edge, note_of(edge.source)) for edge in _select(incoming, node))


def _select(index: _EdgesByNote, node: str) -> Iterator[Edge]:
    path = note_of(node)
    for place, edge in index.get(path, ()):
        if node in (path, place) or place.startswith(f"{node}/"):
            yield edge


def note_of(place: str) -> str:
    """The path of a note, or of a section's note. The slugs of an anchor hold no suffix."""
    path, mark, slugs = place.rpartition("#")
    return path if mark and not slugs.lower().endswith(NOTE_SUFFIXES) else place


def _find_section(path: str, heading: str, anchors_by_name: Callable[[str], _AnchorsByName]) -> str:
    """The anchor of a heading, or of the last of `A#B`; the note's path without such a section."""
    wanted = heading.rpartition("#")[2].strip()
    if not wanted or wanted.startswith("^"):
        return path
    by_name = anchors_by_name(path)
    return by_name.get(wanted) or by_name.get(make_slug(wanted), path)


def _name_anchors(anchors: Iterable[str]) -> _AnchorsByName:
    """The first anchor of each slug, and every anchor by all of its slugs."""
    by_name: _AnchorsByName = {}
    for anchor in anchors:
        slugs = anchor.rpartition("#")[2]
        by_name.setdefault(slugs.rpartition("/")[2], anchor)
        by_name[slugs] = anchor
    return by_name


def decode_target(target: str) -> str:
    """The target with its percent-encoded bytes decoded."""
    return _ENCODED.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), target
    )


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _cut_suffix(path: str) -> str:
    suffix = next((one for one in NOTE_SUFFIXES if path.lower().endswith(one)), "")
    return path[: len(path) - len(suffix)]


def _name_end(target: str) -> str:
    """A target as the end of a path: folded, without suffix and the steps up at its start."""
    path = posixpath.normpath(target.replace("\\", "/").strip("/ "))
    while path.startswith("../"):
        path = path[3:]
    return _fold(_cut_suffix(path))


def _distance(folder: str, path: str) -> tuple[int, int, str]:
    """How many folders lie between a folder and a note; of equals the shorter path is nearer."""
    one, other = [*filter(None, folder.split("/"))], path.split("/")[:-1]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return len(one) + len(other) - 2 * sum(1 for _ in same), len(path), path
