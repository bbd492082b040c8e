"""Keep in index.db where each link leads, and how many links each note has.

`links.file` is the note to which a link leads, `links.place` the section of this note that the link
names, and `links.n_others` the number of further notes that have its name. A commit resolves the
links that it writes, and the links of other notes whose target may have changed: the links with the
key of a name that a note has got or lost, and the links to parts of a note whose headings or blocks
have changed. So every other link stays as it is.

`linking` has a row for each relation of the links of a note. `counts` has the sums of its rows, by
relation, and as `*` the sum of all. `alone` has the notes without a link that leads to a note.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apsw
import msgspec

from memsyncd.core.markdown.linkgraph import UNCERTAIN_LINKS, LinkResolver
from memsyncd.core.markdown.links import (
    NameTable,
    NoteNames,
    is_block_reference,
    make_key,
    make_path_name,
)

# This value stands for the name that a note has from its path.
PATH_NAME = "/"
EVERY_RELATION = "*"
"""Stands for all links, with a relation and without."""

_KINDS = ", ".join(f"'{kind}'" for kind in UNCERTAIN_LINKS)
IS_LINK = f"(l.file IS NOT NULL OR l.kind NOT IN ({_KINDS}))"
"""The condition that a row of `links` is a link: a path or a name of a file may be none."""

_PENDING = (
    "SELECT l.section, l.n, l.file, l.place, l.n_others, s.file, f.path, l.target, l.heading,"
    " l.kind, l.relation"
    " FROM {source} CROSS JOIN sections s ON s.id = l.section CROSS JOIN files f ON f.id = s.file"
)
_OF_KEYS = _PENDING.format(source="json_each(?) k CROSS JOIN links l ON l.key = k.value")
_TO_PARTS = _PENDING.format(
    source="json_each(?) t CROSS JOIN links l ON l.file = t.value AND l.heading <> ''"
)
_NAMED = (
    "SELECT n.key, f.path, n.name, f.id FROM json_each(?) k CROSS JOIN names n ON n.key = k.value"
    " CROSS JOIN files f ON f.id = n.file"
)
# The first section with each of these blocks or ids.
_BLOCKS = (
    "SELECT k.value, f.id, s.id, f.path || '#' || s.slugs FROM json_each(?) k"
    " CROSS JOIN sections s ON s.id = (SELECT b.section FROM blocks b"
    " JOIN sections s ON s.id = b.section JOIN files f ON f.id = s.file WHERE b.name = k.value"
    " ORDER BY f.path, s.start_line LIMIT 1) CROSS JOIN files f ON f.id = s.file"
)
_BLOCK = (
    "SELECT f.id, s.id, f.path || '#' || s.slugs FROM blocks b JOIN sections s ON s.id = b.section"
    " JOIN files f ON f.id = s.file WHERE b.name = ? AND (?2 = '' OR f.path = ?2)"
    " ORDER BY f.path, s.start_line LIMIT 1"
)
_SECTIONS = (
    "SELECT f.id, s.id, f.path || '#' || s.slugs FROM files f JOIN sections s ON s.file = f.id"
    " WHERE f.path = ? ORDER BY s.start_line"
)
_LEAD = "UPDATE links SET file = ?, place = ?, n_others = ? WHERE section = ? AND n = ?"
_LINK = (
    "INSERT INTO links(section, n, line, target, heading, relation, kind, key,"
    " file, place, n_others) VALUES(?,?,?,?,?,?,?,?,?,?,?)"
)
_FORGET = (
    "DELETE FROM linking WHERE path = ? RETURNING relation, -n_links, -n_dangling, -n_ambiguous"
)
_FORGET_FILES = _FORGET.replace(
    "path = ?", "path IN (SELECT f.path FROM json_each(?) v JOIN files f ON f.id = v.value)"
)
# Links of a section to the same place by the same relation are one, as in `join_links`.
_COUNT = f"""
WITH different AS (
  SELECT s.file AS source, l.relation, max(l.n_others > 0) AS is_ambiguous,
    iif(l.file IS NULL OR (l.place IS NULL AND l.heading <> ''), l.target || '#' || l.heading, '')
      AS missing
  FROM json_each(?) v CROSS JOIN sections s ON s.file = v.value
  CROSS JOIN links l ON l.section = s.id WHERE {IS_LINK}
  GROUP BY source, l.section, l.relation, l.kind = 'embed', l.file, l.place, missing
), counted AS (
  SELECT source, relation, count(*) AS n, sum(missing <> '') AS n_dangling,
    sum(is_ambiguous) AS n_ambiguous
  FROM different GROUP BY 1, 2
)
INSERT INTO linking(path, relation, n_links, n_dangling, n_ambiguous)
SELECT f.path, relation, n, n_dangling, n_ambiguous FROM counted JOIN files f ON f.id = source
RETURNING relation, n_links, n_dangling, n_ambiguous
"""
_PUT_LINKING = (
    "INSERT INTO linking(path, relation, n_links, n_dangling, n_ambiguous) VALUES(?,?,?,?,?)"
)
_OF_FILES = "FROM json_each(?) v CROSS JOIN files f ON f.id = v.value"
_IS_LEADING = (
    "EXISTS (SELECT 1 FROM sections s CROSS JOIN links l ON l.section = s.id WHERE s.file = f.id"
    # A link to a missing heading dangles, and leads to a note.
    " AND l.file IS NOT NULL)"
)
_ALONE = f"INSERT OR IGNORE INTO alone SELECT f.path {_OF_FILES} WHERE NOT {_IS_LEADING}"
_NOT_ALONE = f"DELETE FROM alone WHERE path IN (SELECT f.path {_OF_FILES} WHERE {_IS_LEADING})"
_LEADING = "DELETE FROM alone WHERE path = ?"
_ADD = (
    "INSERT INTO counts(field, value, n) VALUES(?, ?, ?)"
    " ON CONFLICT(field, value) DO UPDATE SET n = n + excluded.n"
)
_DROP_EMPTY = "DELETE FROM counts WHERE field = ? AND value = ? AND n = 0"


class LinkChanges(msgspec.Struct):
    """The changes of a transaction after which links may lead elsewhere."""

    keys: set[str] = msgspec.field(default_factory=set)
    """Keys of the names, and references to the blocks, that notes have got or lost."""
    parted: set[int] = msgspec.field(default_factory=set)
    """Files whose headings or named blocks have changed."""
    linking: set[int] = msgspec.field(default_factory=set)
    """Files with links that were written or deleted."""
    new: set[int] = msgspec.field(default_factory=set)
    """Files that had no links before."""
    sources: dict[int, tuple[int, str]] = msgspec.field(default_factory=dict)
    """The sections with links to insert, each with its file and the path of the file."""
    counted: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """The numbers to add to `counts`, by field and value."""

    def clear(self) -> None:
        self.keys.clear()
        self.parted.clear()
        self.linking.clear()
        self.new.clear()
        self.sources.clear()
        self.counted.clear()


class _Link(NamedTuple):
    """A link to resolve, which is number `n` of its section."""

    section: int
    n: int
    file: int | None
    place: int | None
    n_others: int
    source: int
    path: str
    target: str
    heading: str
    kind: str
    relation: str


_Leads = tuple[int | None, int | None, int]
"""The file and the section to which a link leads, and the number of further notes of its name."""


def forget_links(connection: apsw.Connection, changes: LinkChanges, path: str) -> None:
    """Delete the rows of `linking` of a note that is dropped, or about to be renamed."""
    _count(changes, connection.execute(_FORGET, (path,)))


def settle_links(
    connection: apsw.Connection, changes: LinkChanges, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Resolve and insert new links, whose `rows` have the columns from `section` to `key`, and
    resolve the other links that the changes concern. All other rows of the changed notes must be in
    the database.
    """
    existing: dict[tuple[int, int], _Link] = {}
    keys = map(number_key, filter(None, changes.keys))
    for statement, concerned in ((_OF_KEYS, [*keys]), (_TO_PARTS, [*changes.parted])):
        if concerned:
            links = map(_Link._make, connection.execute(statement, (json.dumps(concerned),)))
            existing |= (((link.section, link.n), link) for link in links)
    new = [_make_link(changes, row) for row in rows]
    if existing or new:
        targets = {link.target for link in (*existing.values(), *new)}
        places = _Places(connection, filter(None, map(make_key, targets)))
        _lead_anew(connection, changes, places, [*existing.values()])
        leading = places.resolve(new)
        added = [(*row, *leads) for row, leads in zip(rows, leading, strict=True)]
        connection.executemany(_LINK, added)
        changes.linking.update(link.source for link in new)
        _count_new(connection, changes, zip(new, leading, strict=True))
    changes.linking -= changes.new
    if changes.linking:
        files = (json.dumps([*changes.linking]),)
        _count(changes, connection.execute(_FORGET_FILES, files))
        _count(changes, connection.execute(_COUNT, files))
        connection.execute(_ALONE, files)
        connection.execute(_NOT_ALONE, files)
    counted = [(*key, n) for key, n in changes.counted.items() if n]
    if counted:
        connection.executemany(_ADD, counted)
        connection.executemany(_DROP_EMPTY, [row[:2] for row in counted if row[2] < 0])
    changes.clear()


def _make_link(changes: LinkChanges, row: tuple[Any, ...]) -> _Link:
    section, n, _, target, heading, relation, kind, _ = row
    source, path = changes.sources[section]
    return _Link(section, n, None, None, 0, source, path, target, heading, kind, relation)


def _count(changes: LinkChanges, rows: Iterable[tuple[Any, ...]]) -> None:
    for relation, n_links, n_dangling, n_ambiguous in rows:
        for value in (relation, EVERY_RELATION):
            changes.counted["link", value] += n_links
            changes.counted["dangling", value] += n_dangling
            changes.counted["ambiguous", value] += n_ambiguous


def _lead_anew(
    connection: apsw.Connection, changes: LinkChanges, places: _Places, links: Sequence[_Link]
) -> None:
    """Write where links of the index lead, if that has changed."""
    changed: list[tuple[int | None, ...]] = []
    for link, leads in zip(links, places.resolve(links), strict=True):
        if leads != (link.file, link.place, link.n_others):
            changed.append((*leads, link.section, link.n))
            changes.linking.add(link.source)
    connection.executemany(_LEAD, changed)


def _count_new(
    connection: apsw.Connection, changes: LinkChanges, links: Iterable[tuple[_Link, _Leads]]
) -> None:
    """Count the links of the new files, of which all are in `links`: as `_COUNT`, in less time."""
    different: dict[tuple[Any, ...], bool] = {}
    for link, (file, place, n_others) in links:
        if link.source in changes.new and (file is not None or link.kind not in UNCERTAIN_LINKS):
            is_missing = file is None or (place is None and link.heading)
            named = f"{link.target}#{link.heading}" if is_missing else ""
            is_embed = link.kind == "embed"
            key = link.path, link.section, link.relation, is_embed, file, place, named
            different[key] = different.get(key, False) or n_others > 0
    n_links = Counter((path, relation) for path, _, relation, *_ in different)
    n_dangling = Counter((path, relation) for path, _, relation, *_, named in different if named)
    n_ambiguous = Counter(key[0:3:2] for key, is_ambiguous in different.items() if is_ambiguous)
    counted = [(*key, n, n_dangling[key], n_ambiguous[key]) for key, n in n_links.items()]
    connection.executemany(_PUT_LINKING, counted)
    leading = {path for path, _, _, _, file, *_ in different if file is not None}
    connection.executemany(_LEADING, [(path,) for path in sorted(leading)])
    _count(changes, (row[1:] for row in counted))


class _Places:
    """Finds notes, sections and blocks in the database that is written, and their numbers."""

    def __init__(self, connection: apsw.Connection, keys: Iterable[str]) -> None:
        self._connection = connection
        self.ids: dict[str, tuple[int, int | None]] = {}
        """The file and the section of each place that was found."""
        self._keys = frozenset(keys)
        self._blocks: dict[str, str] | None = None
        named: list[tuple[str, str, str]] = []
        wanted = json.dumps([key for key in self._keys if not is_block_reference(key)])
        for key, path, name, file in connection.execute(_NAMED, (wanted,)):
            self.ids[path] = file, None
            named.append((key, path, unpack_name(path, name, key)))
        self._names = NoteNames(NameTable(named))
        self._resolver = LinkResolver(self._names, self)

    def resolve(self, links: Iterable[_Link]) -> list[_Leads]:
        """Return where each link leads."""
        leading: list[_Leads] = []
        for link in links:
            self.ids[link.path] = link.source, None
            to = self._resolver.resolve(link.path, link.target, link.heading, link.kind)
            n_others = self._names.count_others(link.path, link.target, link.kind) if to else 0
            leading.append((None, None, 0) if to is None else (*self.ids[to], n_others))
        return leading

    def read_anchors(self, path: str) -> Sequence[str]:
        rows: list[Any] = self._connection.execute(_SECTIONS, (path,)).fetchall()
        self.ids |= {anchor: (file, section) for file, section, anchor in rows}
        return [anchor for _, _, anchor in rows]

    def find_block(self, block: str, path: str = "") -> str | None:
        if not path and block in self._keys:
            return self._find_named(block)
        row = self._connection.execute(_BLOCK, (block, path)).fetchone()
        if row is None:
            return None
        file, section, anchor = row
        self.ids[anchor] = file, section
        return str(anchor)

    def _find_named(self, key: str) -> str | None:
        """Find the block that a key names, and with the first of them the blocks of all keys."""
        if self._blocks is None:
            self._blocks = {}
            wanted = json.dumps([*self._keys])
            for name, file, section, anchor in self._connection.execute(_BLOCKS, (wanted,)):
                self._blocks[name] = anchor
                self.ids[anchor] = file, section
        return self._blocks.get(key)


def number_key(key: str) -> int:
    """Return the number by which the links with a key are looked up: an index of numbers is smaller
    than one of texts. Few keys have the number of another.
    """
    return zlib.crc32(key.encode("utf-8", "surrogatepass")) >> 1  # four bytes in SQLite


def pack_name(name: str) -> tuple[str, str]:
    """Return the columns `name` and `key` for a name of a note."""
    key = make_key(name)
    return (PATH_NAME if name[:1] == "/" else "" if name == key else name), key


def unpack_name(path: str, name: str, key: str) -> str:
    """Return the name for the columns `name` and `key` of the note at `path`."""
    return make_path_name(path) if name == PATH_NAME else name or key
