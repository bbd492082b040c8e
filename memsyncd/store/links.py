"""Read links from index.db, which has the place to which each link leads, and look up the names of
notes.
"""

from __future__ import annotations

import contextlib
import heapq
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby

from memsyncd.core.markdown.linkgraph import (
    Edge,
    LinkDirection,
    LinkResolver,
    join_links,
    note_of,
    walk_links,
)
from memsyncd.core.markdown.links import NamedNote, NoteNames, make_id_key
from memsyncd.core.model import Link
from memsyncd.core.search.ranking import Candidate
from memsyncd.errors import make_several_error
from memsyncd.store.pool import Reader, encode_numbers
from memsyncd.store.sections import read_anchors
from memsyncd.store.targets import EVERY_RELATION, IS_LINK, PATH_NAME, number_key, unpack_name

# So many names on each side of a name, in the order of the alphabet, are compared with it to find a
# similar one.
N_NEIGHBOURS = 50

_LINK = "f.path || '#' || s.slugs, l.line, l.target, l.heading, l.relation, l.kind"
_LEADS = "t.path || coalesce('#' || p.slugs, ''), l.n_others"
_TARGETS = "LEFT JOIN files t ON t.id = l.file LEFT JOIN sections p ON p.id = l.place"
_TYPED = "(:relations IS NULL OR l.relation IN (SELECT value FROM json_each(:relations)))"
# A node is a note, or a section with the sections beneath it.
_NODES = (
    "SELECT v.key AS node, v.value ->> 0 AS path, v.value ->> 1 AS slugs FROM json_each(:nodes) v"
)
_WITHIN = (
    "(n.slugs IS NULL OR {s}.slugs = n.slugs"
    " OR ({s}.slugs > n.slugs || '/' AND {s}.slugs < n.slugs || '0'))"
)
_OUTGOING = (
    f"SELECT n.node, {_LINK}, {_LEADS} FROM ({_NODES}) n CROSS JOIN files f ON f.path = n.path"
    f" CROSS JOIN sections s ON s.file = f.id AND {_WITHIN.format(s='s')}"
    f" CROSS JOIN links l ON l.section = s.id AND {IS_LINK} AND {_TYPED} {_TARGETS}"
    " ORDER BY n.node, l.line, l.n"
)
_SOURCES = (
    " JOIN sections s ON s.id = l.section JOIN files f ON f.id = s.file"
    " ORDER BY n.node, f.path, l.line, l.n"
)
_INCOMING = (
    f"SELECT n.node, {_LINK}, {_LEADS} FROM ({_NODES}) n CROSS JOIN files t ON t.path = n.path"
    f" CROSS JOIN links l ON l.file = t.id AND {_TYPED} LEFT JOIN sections p ON p.id = l.place"
    f" {_SOURCES}"
)
_INCOMING_TYPED = _INCOMING.replace(
    f"CROSS JOIN links l ON l.file = t.id AND {_TYPED}",
    "CROSS JOIN json_each(:relations) r CROSS JOIN links l"
    " ON l.file = t.id AND l.relation = r.value",
)
_INCOMING_OF_SECTIONS = (
    f"SELECT n.node, {_LINK}, {_LEADS} FROM ({_NODES}) n CROSS JOIN files t ON t.path = n.path"
    f" CROSS JOIN sections p ON p.file = t.id AND {_WITHIN.format(s='p')}"
    f" CROSS JOIN links l ON l.place = p.id AND {_TYPED} {_SOURCES}"
)
_LINKING = "SELECT path, sum({n}) FROM linking WHERE {n} > 0 GROUP BY path ORDER BY path"
_UNTYPED = "SELECT path, {n} FROM linking WHERE relation = '' AND {n} > 0 ORDER BY path"
_TYPED_LINKING = (
    "SELECT path, {n} FROM linking WHERE relation = ? AND relation <> '' AND {n} > 0 ORDER BY path"
)
_WANTED = "(?1 IS NULL OR {table}relation IN (SELECT value FROM json_each(?1)))"
_MOST = (
    "SELECT k.path, (SELECT sum({{n}}) FROM linking o WHERE o.path = k.path AND {others})"
    " FROM linking k WHERE k.n_links > 0 AND k.{{n}} > 0 AND {wanted}"
    " ORDER BY k.n_links DESC, k.path"
).format(others=_WANTED.format(table="o."), wanted=_WANTED.format(table="k."))
_ORPHANS = (
    "SELECT a.path FROM alone a CROSS JOIN files f ON f.path = a.path"
    " WHERE NOT EXISTS (SELECT 1 FROM links l WHERE l.file = f.id) ORDER BY a.path LIMIT ?"
)
_COUNT = (
    "SELECT coalesce(sum(n), 0) FROM counts WHERE field = ?"
    " AND value IN (SELECT value FROM json_each(?))"
)
_WITH_KEYS = (
    "SELECT DISTINCT f.path, l.target, l.kind FROM json_each(?) k"
    " CROSS JOIN links l ON l.key = k.value"
    " CROSS JOIN sections s ON s.id = l.section CROSS JOIN files f ON f.id = s.file"
)
_PREFIXES = (
    "SELECT DISTINCT substr(target, 1, instr(target, ':') - 1) FROM links"
    " WHERE file IS NULL AND instr(target, ':') > 1"
)
_NAMED = "SELECT f.path, n.name, n.key FROM names n JOIN files f ON f.id = n.file WHERE n.key = ?"
_NEAR = (
    f"SELECT DISTINCT key FROM names WHERE key >= ?1 AND key < ?2 AND name = '{PATH_NAME}'"
    " ORDER BY key {order} LIMIT ?3"
)
_OF_BLOCK = (
    "SELECT f.path || '#' || s.slugs FROM blocks b JOIN sections s ON s.id = b.section"
    " JOIN files f ON f.id = s.file WHERE b.name = ?1 AND {where} ORDER BY f.path, s.start_line"
)
_BLOCK = _OF_BLOCK.format(where="(?2 = '' OR f.path = ?2)") + " LIMIT 1"
_IDS = _OF_BLOCK.format(where="1")


class StoredLinks:
    """The links and names in one snapshot of an index.

    It is the graph of all links, or only of links with any of `relations` (an empty name stands for
    untyped links). It is also the index of all names, and it finds the parts of notes.
    """

    def __init__(self, reader: Reader, relations: Iterable[str] | None = None) -> None:
        self._reader = reader
        self._relations = None if relations is None else sorted({*relations})
        self.names = NoteNames(self)
        self.resolver = LinkResolver(self.names, self)

    def count(self, *, is_dangling: bool = False) -> int:
        """Count the links of the workspace, or the dangling links."""
        sums = [EVERY_RELATION] if self._relations is None else self._relations
        bindings = ("dangling" if is_dangling else "link", json.dumps(sums))
        return int(self._reader.rows(_COUNT, bindings)[0][0])

    def stream_ambiguous(self, of_note: str | None = None) -> Iterator[Edge]:
        """Yield the links whose name several notes have, by path and line; of a note or of all."""
        paths = (path for path, _ in self._list_linking("n_ambiguous"))
        for path in paths if of_note is None else (of_note,):
            yield from [edge for edge in self.list_outgoing(path) if edge.n_others]

    def stream(
        self, *, is_dangling: bool = False, offset: int = 0, is_most_first: bool = False
    ) -> Iterator[Edge]:
        """Yield the links of the workspace, or the dangling links, by path and line, or first the
        links of the notes with the most links, without the first `offset`. Only the links of one
        note are in memory at a time.
        """
        counted = "n_dangling" if is_dangling else "n_links"
        for path, n_links in (self._list_most if is_most_first else self._list_linking)(counted):
            if offset >= n_links:
                offset -= n_links
                continue
            edges = self.list_outgoing(path)
            yield from [edge for edge in edges if not is_dangling or edge.is_dangling][offset:]
            offset = 0

    def list_prefixes(self) -> list[str]:
        """List the beginnings, before a colon, of the targets of links that lead to no note."""
        return [prefix for (prefix,) in self._reader.rows(_PREFIXES)]

    def walk(
        self, start: str, *, direction: LinkDirection = "both", max_depth: int = 1
    ) -> list[Edge]:
        """As `walk_links`."""
        return walk_links(self, start, direction=direction, max_depth=max_depth)

    def find_related(self, name: str, relation: str | None = None) -> set[str]:
        """The paths of the notes that link to or from a note, which its path, title or alias names,
        or a section of it, `note#heading`.

        Raises BadRequest that names the candidates if several notes have this name, and this
        heading.
        """
        note, heading = note_of(name), name[len(note_of(name)) + 1 :]
        named = [
            (path, self.resolver.find_part(path, heading)) for path in self.names.find_all(note)
        ]
        named = [(path, place) for path, place in named if not heading or place != path]
        if len(named) > 1:
            raise make_several_error(
                [path for path, _ in named], f"several notes have the name {note}"
            )
        if not named:
            return set()
        path, node = named[0]
        edges = self.walk(node)
        places = {
            note_of(place)
            for edge in edges
            if relation is None or edge.relation == relation
            for place in (edge.source, edge.to)
            if place is not None
        }
        return places - {path}

    def list_outgoing(self, node: str) -> Sequence[Edge]:
        """The links of a note, or of a section with the sections beneath it, by line."""
        return self.read_outgoing([node]).get(node, ())

    def list_incoming(self, node: str) -> Sequence[Edge]:
        """The links to a note, or to a section and the sections beneath it, by path and line."""
        return self.read_incoming([node]).get(node, ())

    def read_outgoing(self, nodes: Collection[str]) -> dict[str, Sequence[Edge]]:
        return self._read(_OUTGOING, nodes)

    def read_incoming(self, nodes: Collection[str]) -> dict[str, Sequence[Edge]]:
        is_typed = self._relations is not None and "" not in self._relations
        notes = [node for node in nodes if note_of(node) == node]
        sections = [node for node in nodes if note_of(node) != node]
        edges = self._read(_INCOMING_TYPED if is_typed else _INCOMING, notes)
        edges |= self._read(_INCOMING_OF_SECTIONS, sections)
        return {
            node: sorted(each, key=lambda edge: (note_of(edge.source), edge.lines))
            for node, each in edges.items()
        }

    def _read(
        self, statement: str, nodes: Sequence[str] | Collection[str]
    ) -> dict[str, Sequence[Edge]]:
        if not nodes:
            return {}
        every = [*nodes]
        parts = [(note_of(node), node) for node in every]
        pairs = [(path, None if path == node else node[len(path) + 1 :]) for path, node in parts]
        relations = None if self._relations is None else json.dumps(self._relations)
        bindings = {"nodes": json.dumps(pairs), "relations": relations}
        rows = self._reader.rows(statement, bindings)
        return {
            every[number]: join_links(
                (Link(*link), to, n_others) for _, *link, to, n_others in of_node
            )
            for number, of_node in groupby(rows, lambda row: row[0])
        }

    def find_named(self, key: str) -> Sequence[NamedNote]:
        rows = self._reader.rows(_NAMED, (key,))
        return [(path, unpack_name(path, name, key)) for path, name, key in rows]

    def find_keys(self, key: str) -> Iterable[str]:
        initial, after = key[:1], f"{key[:1]}\U0010ffff"
        above = self._reader.rows(_NEAR.format(order="ASC"), (key, after, N_NEIGHBOURS))
        below = self._reader.rows(_NEAR.format(order="DESC"), (initial, key, N_NEIGHBOURS))
        return [near for (near,) in (*below, *above)]

    def read_anchors(self, path: str) -> Sequence[str]:
        return read_anchors(self._reader, path)

    def find_ids(self, text: str) -> list[str]:
        """The anchors of the sections that have an id of another system, by path and line."""
        key = make_id_key(text)
        return [anchor for (anchor,) in self._reader.rows(_IDS, (key,))] if key else []

    def find_block(self, block: str, path: str = "") -> str | None:
        rows = self._reader.rows(_BLOCK, (block, path))
        return str(rows[0][0]) if rows else None

    def _list_linking(self, counted: str) -> Iterator[tuple[str, int]]:
        """Yield the paths of the notes that have links, each with its number of links."""
        if self._relations is None:
            statements: list[tuple[str, tuple[str, ...]]] = [(_LINKING, ())]
        else:
            statements = [
                (_TYPED_LINKING, (relation,)) if relation else (_UNTYPED, ())
                for relation in self._relations
            ]
        with contextlib.ExitStack() as streams:
            rows = [
                streams.enter_context(self._reader.stream(sql.format(n=counted), bindings))
                for sql, bindings in statements
            ]
            for path, same in groupby(heapq.merge(*rows), lambda row: row[0]):
                yield path, sum(n for _, n in same)

    def _list_most(self, counted: str) -> Iterator[tuple[str, int]]:
        """As `_list_linking`, first the notes with the most links of one relation."""
        relations = None if self._relations is None else json.dumps(self._relations)
        listed: set[str] = set()
        with self._reader.stream(_MOST.format(n=counted), (relations,)) as rows:
            for path, n_links in rows:
                if path not in listed:
                    listed.add(path)
                    yield path, n_links


def find_orphans(reader: Reader, *, limit: int) -> list[str]:
    """Return the paths of notes that no link leads to or from, in their order."""
    return [path for (path,) in reader.rows(_ORPHANS, (limit,))]


def read_links_with_keys(reader: Reader, keys: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return the links whose target has one of these keys: the path of the note, the target and the
    kind, each once; rarely others, whose keys have the same number.
    """
    return reader.rows(_WITH_KEYS, (encode_numbers(map(number_key, filter(None, keys))),))


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
