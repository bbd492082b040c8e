"""Keep in index.db where each link leads, and how many links each note has.

`links.file` is the note to which a link leads, `links.place` the section of this note that the link
names. A commit resolves the links that it writes, and the links of other notes whose target may
have changed: the links with the key of a name that a note has got or lost, and the links to parts
of a note whose headings or blocks have changed. So every other link stays as it is.

`linking` has a row for each relation of the links of a note, and a row `*` for all of its links.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
"""Stands for all links of a note, with a relation and without."""

_KINDS = ", ".join(f"'{kind}'" for kind in UNCERTAIN_LINKS)
IS_LINK = f"(l.file IS NOT NULL OR l.kind NOT IN ({_KINDS}))"
"""The condition that a row of `links` is a link: a path or a name of a file may be none."""

_PENDING = (
    "SELECT l.rowid, l.file, l.place, s.file, f.path, l.target, l.heading, l.kind, l.key,"
    " l.section, l.relation"
    " FROM {source} CROSS JOIN sections s ON s.id = l.section CROSS JOIN files f ON f.id = s.file"
)
_NEW = _PENDING.format(source="links l") + " WHERE l.rowid > ?"
_OF_KEYS = _PENDING.format(
    source="json_each(?) k CROSS JOIN links l ON l.key = k.value AND l.key <> ''"
)
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
_LEAD = "UPDATE links SET file = ?, place = ? WHERE rowid = ?"
_FORGET = (
    "DELETE FROM linking WHERE file IN (SELECT value FROM json_each(?))"
    " RETURNING relation, -n_links, -n_dangling"
)
# Links of a section to the same place by the same relation are one, as in `join_links`.
_COUNT = f"""
WITH different AS (
  SELECT DISTINCT s.file AS source, l.section, l.relation, l.kind = 'embed', l.file, l.place,
    iif(l.file IS NULL, l.target || '#' || l.heading, '')
  FROM json_each(?) v CROSS JOIN sections s ON s.file = v.value
  CROSS JOIN links l ON l.section = s.id WHERE {IS_LINK}
), counted AS (
  SELECT source, relation, count(*) AS n, sum(file IS NULL) AS n_dangling
  FROM different GROUP BY 1, 2
)
INSERT INTO linking(file, relation, path, n_links, n_dangling)
SELECT source, relation, f.path, n, n_dangling FROM counted JOIN files f ON f.id = source
UNION ALL
SELECT source, '{EVERY_RELATION}', f.path, sum(n), sum(n_dangling)
FROM counted JOIN files f ON f.id = source GROUP BY source
RETURNING relation, n_links, n_dangling
"""
_PUT_LINKING = (
    "INSERT INTO linking(file, relation, path, n_links, n_dangling) VALUES(?, ?, ?, ?, ?)"
)
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
    counted: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """What is to be added to `counts`, by field and value."""

    def clear(self) -> None:
        self.keys.clear()
        self.parted.clear()
        self.linking.clear()
        self.new.clear()
        self.counted.clear()


def forget_links(connection: apsw.Connection, changes: LinkChanges, files: Iterable[int]) -> None:
    """Delete the rows of `linking` of these files."""
    _count(changes, connection.execute(_FORGET, (json.dumps([*files]),)))


def settle_links(connection: apsw.Connection, changes: LinkChanges, after: int | None) -> None:
    """Resolve the links whose rows are after `after`, None for no links, and the links that the
    changes concern. All other rows of the changed notes must be in the database.
    """
    pending: dict[int, tuple[Any, ...]] = {}
    for statement, binding in (
        (_OF_KEYS, json.dumps([*changes.keys]) if changes.keys else None),
        (_TO_PARTS, json.dumps([*changes.parted]) if changes.parted else None),
        (_NEW, after),
    ):
        if binding is not None:
            pending |= ((row[0], row) for row in connection.execute(statement, (binding,)))
    resolved: _Resolved | None = None
    if pending:
        resolved = _resolve(connection, [*pending.values()], after)
        changes.linking |= resolved.linking
    if resolved is not None and changes.new:
        _count_new(connection, changes, [*pending.values()], resolved.leading)
    changes.linking -= changes.new
    if changes.linking:
        forget_links(connection, changes, changes.linking)
        _count(changes, connection.execute(_COUNT, (json.dumps([*changes.linking]),)))
    added = [(*key, n) for key, n in changes.counted.items() if n]
    if added:
        connection.executemany(_ADD, added)
        connection.executemany(_DROP_EMPTY, [row[:2] for row in added if row[2] < 0])
    changes.clear()


def _count(changes: LinkChanges, rows: Iterable[tuple[Any, ...]]) -> None:
    for relation, n_links, n_dangling in rows:
        changes.counted["link", relation] += n_links
        changes.counted["dangling", relation] += n_dangling


class _Resolved(NamedTuple):
    """Where links lead, by their numbers, and the files with links that now lead elsewhere."""

    leading: dict[int, tuple[int | None, int | None]]
    linking: set[int]


def _count_new(
    connection: apsw.Connection,
    changes: LinkChanges,
    rows: Iterable[tuple[Any, ...]],
    leading: Mapping[int, tuple[int | None, int | None]],
) -> None:
    """Count the links of the new files, of which all are in `rows`: as `_COUNT`, in less time."""
    different: set[tuple[Any, ...]] = set()
    paths: dict[int, str] = {}
    for number, _, _, source, path, target, heading, kind, _, section, relation in rows:
        if source not in changes.new:
            continue
        file, place = leading[number]
        if file is None and kind in UNCERTAIN_LINKS:
            continue
        paths[source] = path
        named = f"{target}#{heading}" if file is None else ""
        different.add((source, section, relation, kind == "embed", file, place, named))
    sums: dict[tuple[int, str], list[int]] = {}
    for source, _, relation, _, file, *_ in different:
        for name in (relation, EVERY_RELATION):
            numbers = sums.setdefault((source, name), [0, 0])
            numbers[0] += 1
            numbers[1] += file is None
    counted = [
        (source, relation, paths[source], *numbers) for (source, relation), numbers in sums.items()
    ]
    connection.executemany(_PUT_LINKING, counted)
    _count(changes, ((relation, *numbers) for _, relation, _, *numbers in counted))


def _resolve(
    connection: apsw.Connection, rows: Sequence[tuple[Any, ...]], after: int | None
) -> _Resolved:
    """Write where these links lead."""
    places = _Places(connection, {row[8] for row in rows if row[8]})
    resolver = LinkResolver(NoteNames(places.names), places)
    leading: dict[int, tuple[int | None, int | None]] = {}
    changed: list[tuple[int | None, int | None, int]] = []
    linking: set[int] = set()
    for number, file, place, source, path, target, heading, kind, *_ in rows:
        places.ids[path] = source, None
        to = resolver.resolve(path, target, heading, kind)
        leads = leading[number] = (None, None) if to is None else places.ids[to]
        if leads != (file, place):
            changed.append((*leads, number))
            linking.add(source)
        elif after is not None and number > after:
            linking.add(source)
    connection.executemany(_LEAD, changed)
    return _Resolved(leading, linking)


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
        self.names = NameTable(named)

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


def pack_name(name: str) -> tuple[str, str]:
    """Return the columns `name` and `key` for a name of a note."""
    key = make_key(name)
    return (PATH_NAME if name[:1] == "/" else "" if name == key else name), key


def unpack_name(path: str, name: str, key: str) -> str:
    """Return the name for the columns `name` and `key` of the note at `path`."""
    return make_path_name(path) if name == PATH_NAME else name or key
