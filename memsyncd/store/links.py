"""Read links and the names of notes from index.db, and resolve the links of single notes.

A link leads to a note that has a name with the key of the link. So the links from and to a note
are read by its keys, without reading other links.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap

from memsyncd.core.markdown.linkgraph import (
    Edge,
    EdgeGraph,
    LinkDirection,
    leads_nowhere,
    make_edges,
    note_of,
    stream_edges,
    walk_links,
)
from memsyncd.core.markdown.links import NamedNote, NameTable, NoteNames
from memsyncd.core.model import NAME_LINK, PATH_LINK, Link
from memsyncd.core.search.ranking import Candidate
from memsyncd.store.pool import Reader, encode_numbers
from memsyncd.store.rows import PATH_NAME, unpack_name
from memsyncd.store.sections import read_anchors

# The most names that are compared with a name to find a similar one.
MAX_SIMILAR = 20_000
# A walk of at most this number of steps reads the links of each note on its way, by their keys. A
# longer walk reads and resolves all links of the workspace.
MAX_STEPS = 2

_LINK = "SELECT f.path || '#' || s.slugs, l.line, l.target, l.heading, l.relation, l.kind FROM"
_LINKS = (
    f"{_LINK} {{source}} JOIN sections s ON s.id = l.section JOIN files f ON f.id = s.file"
    " ORDER BY f.path, l.line"
)
# Note by note, so that SQLite need not sort all links in memory.
_ALL = (
    f"{_LINK} files f"
    " CROSS JOIN sections s ON s.file = f.id CROSS JOIN links l ON l.section = s.id"
    " ORDER BY f.path, l.line"
)
_IS_TYPED = "l.relation = r.value AND l.relation <> ''"
_ALL_TYPED = _LINKS.format(source=f"json_each(?) r CROSS JOIN links l ON {_IS_TYPED}")
# Links of other kinds may name no note at all; an empty target is the note itself.
_LEADING = (
    "SELECT l.rowid, f.path, l.target FROM links l JOIN sections s ON s.id = l.section"
    " JOIN files f ON f.id = s.file WHERE l.target <> ''"
    f" AND l.kind NOT IN ('{NAME_LINK}', '{PATH_LINK}')"
)
_OF_IDS = _LINKS.format(source="json_each(?) i CROSS JOIN links l ON l.rowid = i.value")
_OUTGOING = (
    f"{_LINK} files f"
    " JOIN sections s ON s.file = f.id JOIN links l ON l.section = s.id WHERE f.path = ?"
    " ORDER BY l.line"
)
# The index has no empty keys.
_INCOMING = _LINKS.format(
    source="json_each(?) k CROSS JOIN links l ON l.key = k.value AND l.key <> ''"
)
_INCOMING_TYPED = _LINKS.format(
    source="json_each(?) k CROSS JOIN json_each(?) r CROSS JOIN links l"
    f" ON l.key = k.value AND l.key <> '' AND {_IS_TYPED}"
)
_KEYS = (
    "SELECT n.key FROM files f JOIN names n ON n.file = f.id WHERE f.path = ?1"
    " UNION SELECT b.name FROM files f JOIN sections s ON s.file = f.id"
    " JOIN blocks b ON b.section = s.id WHERE f.path = ?1 AND b.name LIKE '((%'"
)
_NAMES = "SELECT f.path, n.name, n.key FROM names n JOIN files f ON f.id = n.file"
_NAMED = f"{_NAMES} WHERE n.key = ?"
_NEAR = (
    f"SELECT DISTINCT key FROM names WHERE key >= ? AND key < ? AND name = '{PATH_NAME}'"
    " ORDER BY key LIMIT ?"
)
_BLOCK = (
    "SELECT f.path || '#' || s.slugs FROM blocks b JOIN sections s ON s.id = b.section"
    " JOIN files f ON f.id = s.file WHERE b.name = ? AND (?2 = '' OR f.path = ?2)"
    " ORDER BY f.path, s.start_line LIMIT 1"
)


class StoredLinks:
    """The links and names in one snapshot of an index.

    It is the graph of all links, or only of links with any of `relations` (an empty name stands for
    untyped links). It is also the index of all names, and it finds the parts of notes.
    """

    def __init__(self, reader: Reader, relations: Iterable[str] | None = None) -> None:
        self._reader = reader
        self._relations = None if relations is None else frozenset(relations)
        self.names = NoteNames(self)

    def stream_all(self) -> Iterator[Edge]:
        """Yield all links of the workspace, by path and line."""
        self.names = self._read_all_names()
        query = (_ALL_TYPED, (self._list_relations(),)) if self._is_typed else (_ALL,)
        with self._reader.stream(*query) as rows:
            links = self._select(starmap(Link, rows))
            yield from stream_edges(links, self.names, self)

    def list_dangling(self) -> list[Edge]:
        """The links of the workspace that lead to no note, by path and line."""
        names = self.names = self._read_all_names()
        with self._reader.stream(_LEADING) as rows:
            ids = [i for i, path, target in rows if leads_nowhere(path, target, names, self)]
        return self._resolve(starmap(Link, self._reader.rows(_OF_IDS, (encode_numbers(ids),))))

    def walk(
        self, start: str, *, direction: LinkDirection = "both", max_depth: int = 1
    ) -> list[Edge]:
        """As `walk_links`. A long walk may reach all notes, and reads all links at once."""
        graph = self if max_depth <= MAX_STEPS else EdgeGraph(self.stream_all())
        return walk_links(graph, start, direction=direction, max_depth=max_depth)

    def find_related(self, name: str, relation: str | None = None) -> set[str]:
        """The paths of the notes that link to or from a note, which is named as a link names it."""
        path = self.names.find("", note_of(name))
        if path is None:
            return set()
        anchor = name[len(note_of(name)) :]
        edges = self.walk(path + anchor)
        places = {
            note_of(place)
            for edge in edges
            if relation is None or edge.relation == relation
            for place in (edge.source, edge.to)
            if place is not None
        }
        return places - {path}

    def list_outgoing(self, path: str) -> Sequence[Edge]:
        return self._resolve(starmap(Link, self._reader.rows(_OUTGOING, (path,))))

    def list_incoming(self, path: str) -> Sequence[Edge]:
        keys = json.dumps([key for (key,) in self._reader.rows(_KEYS, (path,))])
        if self._is_typed:
            rows = self._reader.rows(_INCOMING_TYPED, (keys, self._list_relations()))
        else:
            rows = self._reader.rows(_INCOMING, (keys,))
        links = starmap(Link, rows)
        # Some of a note's own links name no note.
        edges = [edge for edge in self._resolve(links) if note_of(edge.source) != path]
        edges += self.list_outgoing(path)
        leading = [edge for edge in edges if edge.to is not None and note_of(edge.to) == path]
        return sorted(leading, key=lambda edge: (note_of(edge.source), edge.lines))

    def find_named(self, key: str) -> Sequence[NamedNote]:
        rows = self._reader.rows(_NAMED, (key,))
        return [(path, unpack_name(path, name, key)) for path, name, key in rows]

    def _read_all_names(self) -> NoteNames:
        with self._reader.stream(_NAMES) as rows:
            return NoteNames(
                NameTable((key, path, unpack_name(path, name, key)) for path, name, key in rows)
            )

    def find_keys(self, initial: str) -> Iterable[str]:
        after = initial + "\U0010ffff"
        rows = self._reader.rows(_NEAR, (initial, after, MAX_SIMILAR))
        return [key for (key,) in rows]

    def read_anchors(self, path: str) -> Sequence[str]:
        return read_anchors(self._reader, path)

    def find_block(self, block: str, path: str = "") -> str | None:
        rows = self._reader.rows(_BLOCK, (block, path))
        return str(rows[0][0]) if rows else None

    @property
    def _is_typed(self) -> bool:
        """True if an index finds the links of the graph, which then has no untyped links."""
        return self._relations is not None and "" not in self._relations

    def _list_relations(self) -> str:
        return json.dumps(sorted(self._relations or ()))

    def _resolve(self, links: Iterable[Link]) -> list[Edge]:
        return make_edges(self._select(links), self.names, self)

    def _select(self, links: Iterable[Link]) -> Iterable[Link]:
        relations = self._relations
        if relations is None:
            return links
        return (link for link in links if link.relation in relations)


def read_links(reader: Reader) -> list[Link]:
    """Return the links of all notes, by path and line."""
    return list(starmap(Link, reader.rows(_ALL)))


NO_SCORES = (0.0, 0.0, 0.0, 0.0, 0.0)
"""The scores of a candidate that was found without a question."""
_CHUNKS_OF = (
    "SELECT c.id, c.file, c.section, f.path, c.start_line, c.end_line, c.tokens FROM files f"
    " JOIN sections s ON s.file = f.id JOIN chunks c ON c.section = s.id WHERE f.path = ?1 AND"
    " (?2 IS NULL OR s.slugs = ?2 OR (s.slugs > ?2 || '/' AND s.slugs < ?2 || '0'))"
    " ORDER BY c.start_line, c.id LIMIT ?3"
)


def find_chunks_of(reader: Reader, place: str, *, limit: int) -> list[Candidate]:
    """Return the first chunks of a note, or of a section and its subsections, by line."""
    path = note_of(place)
    slugs = place[len(path) + 1 :] if path != place else None
    rows = reader.rows(_CHUNKS_OF, (path, slugs, limit))
    return [Candidate._make((*row, None, *NO_SCORES)) for row in rows]
