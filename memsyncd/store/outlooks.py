"""Keep in index.db the values by which plans judge memories, and count memories by them.

`outlooks` has each combination of these values that a memory has, or has had since the index was
tidied. `sections.outlook` leads from the first section of a memory to them. An index has the
memories of each outlook in the order of their moments, and `outlook_times` their numbers by periods
of six days. So the memories that a plan changes are counted without reading them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import apsw

from memsyncd.core.memories import SECTION_LEVEL, Outlook, find_outlook, split_memories
from memsyncd.store.connection import transaction
from memsyncd.store.details import Row
from memsyncd.store.pool import Reader, encode_numbers
from memsyncd.store.schema import PERIOD_BITS
from memsyncd.store.sections import ANCHOR, decode_texts, encode_anchors

# --- commits ------------------------------------------------------------------------------------

_COLUMNS = "lifecycle, kind, priority, importance, kinds, is_project, is_archived"
_ADD = f"INSERT INTO outlooks(id, {_COLUMNS}) VALUES(?,?,?,?,?,?,?,?)"
_ALL = f"SELECT id, {_COLUMNS} FROM outlooks ORDER BY id"
OUTLOOK_COLUMNS = ("slugs", "level", "kind", "priority", "importance", "lifecycle", "status")
"""The columns of sections on which outlooks depend; see `OutlookSection`."""
_UNUSED = (
    "SELECT id FROM outlooks o WHERE NOT EXISTS"
    " (SELECT 1 FROM sections s WHERE s.outlook IS NOT NULL AND s.outlook = o.id)"
)
_OF_LINES = (
    f"SELECT id, outlook, {', '.join(OUTLOOK_COLUMNS)} FROM sections WHERE file = ?"
    " AND start_line >= ? AND start_line < ? ORDER BY start_line"
)
_HEADED = f"FROM sections WHERE file = ? AND level BETWEEN 1 AND {SECTION_LEVEL} AND start_line"
_HEADED_ABOVE = f"SELECT max(start_line) {_HEADED} < ?"
_HEADED_BELOW = f"SELECT start_line, level {_HEADED} >= ? ORDER BY start_line LIMIT 2"
_END = 2**63 - 1


class OutlookSection(NamedTuple):
    """The columns `OUTLOOK_COLUMNS` of a section."""

    anchor: str
    level: int
    kind: str | None
    priority: str | None
    importance: float | None
    lifecycle: str | None
    status: str | None


class Outlooks:
    """The ids of the outlooks in an index, for its writer."""

    def __init__(self) -> None:
        self._ids: dict[Row, int] = {}
        self.last = 0
        """The greatest id."""
        self._added: list[Row] = []

    @classmethod
    def read(cls, connection: apsw.Connection) -> Outlooks:
        outlooks = cls()
        rows: list[Any] = connection.execute(_ALL).fetchall()
        outlooks._ids = {tuple(columns): number for number, *columns in rows}
        outlooks.last = max(outlooks._ids.values(), default=0)
        return outlooks

    def find(self, sections: Sequence[OutlookSection]) -> dict[int, int]:
        """Return the outlooks of the memories of a note, by the position of the first section of
        each. Outlooks that are new are collected for `write`.
        """
        outlooks: dict[int, int] = {}
        for start, end in split_memories(sections):
            *stated, kinds, is_project, is_archived = find_outlook(sections[start:end])
            columns = (*stated, _encode_kinds(kinds), int(is_project), int(is_archived))
            number = self._ids.get(columns)
            if number is None:
                self.last += 1
                number = self._ids[columns] = self.last
                self._added.append((number, *columns))
            outlooks[start] = number
        return outlooks

    def list_columns(self) -> dict[int | None, Row]:
        """Return the columns of each outlook by its id; None stands for no outlook."""
        return {None: (None,) * 7} | {number: columns for columns, number in self._ids.items()}

    def update_note(
        self, connection: apsw.Connection, file_id: int, start: int, after: int
    ) -> None:
        """Change the outlooks of the memories of a file that have sections from line `start` to
        before line `after`. The sections are in the database.
        """
        # A section of these levels is in no memory of another. A section of the first level is a
        # title, and no memory, if one of the second level is beneath it.
        first = connection.execute(_HEADED_ABOVE, (file_id, start)).get or 0
        below: list[Any] = connection.execute(_HEADED_BELOW, (file_id, after)).fetchall()
        ends = [line for at, (line, level) in enumerate(below) if at or level < SECTION_LEVEL]
        lines = (file_id, first, ends[0] if ends else _END)
        stored: list[Any] = connection.execute(_OF_LINES, lines).fetchall()
        outlooks = self.find([OutlookSection._make(row[2:]) for row in stored])
        changed = [
            (outlooks.get(at), row[0])
            for at, row in enumerate(stored)
            if row[1] != outlooks.get(at)
        ]
        connection.executemany("UPDATE sections SET outlook = ? WHERE id = ?", changed)

    def write(self, connection: apsw.Connection) -> None:
        """Insert the collected outlooks."""
        if self._added:
            connection.executemany(_ADD, self._added)
            self._added.clear()

    def roll_back(self, last: int) -> None:
        """Forget the outlooks after `last`, because the transaction that added them failed."""
        self._added.clear()
        self.last = last
        self._ids = {columns: n for columns, n in self._ids.items() if n <= last}

    def drop_unused(self, connection: apsw.Connection) -> None:
        """Delete the outlooks that no memory has any more. The index by outlook must be there."""
        unused = {number for (number,) in connection.execute(_UNUSED)}
        if unused:
            with transaction(connection):
                connection.executemany("DELETE FROM outlooks WHERE id = ?", [(n,) for n in unused])
            self._ids = {columns: n for columns, n in self._ids.items() if n not in unused}


# Most memories of a workspace have few kinds.
_encode_kinds = lru_cache(maxsize=256)(json.dumps)


# --- questions ----------------------------------------------------------------------------------

_MASK = 0xFFFF_FFFF
_IS_IN_RANGE = (
    "s.outlook IS NOT NULL AND s.outlook = r.value ->> 0"
    " AND s.moment >= r.value ->> 1 AND s.moment < r.value ->> 2"
)
_COUNTS = (
    f"SELECT (SELECT json_array(count(*), coalesce(sum(s.id * s.id & {_MASK}), 0))"
    f" FROM sections s WHERE {_IS_IN_RANGE}) FROM json_each(?) r ORDER BY r.key"
)
_SUMS = (
    "SELECT (SELECT json_array(coalesce(sum(n), 0), coalesce(sum(total), 0)) FROM outlook_times"
    " WHERE outlook = r.value ->> 0 AND period >= r.value ->> 1 AND period < r.value ->> 2)"
    " FROM json_each(?) r ORDER BY r.key"
)
_IN_RANGES = f"FROM json_each(?) r CROSS JOIN sections s ON {_IS_IN_RANGE}"
_IDS = f"SELECT s.id {_IN_RANGES}"
_TIMES = (
    "s.id, s.outlook, s.moment, s.updated, s.created, coalesce(s.day, f.day), f.mtime_ns, s.expires"
)
_TIMED = f"SELECT {_TIMES} {_IN_RANGES} CROSS JOIN files f ON f.id = s.file"
_NAMED = (
    f"SELECT {_TIMES}, {ANCHOR} FROM json_each(?) v CROSS JOIN files f ON f.path = v.value ->> 0"
    " CROSS JOIN sections s ON s.file = f.id AND s.slugs = v.value ->> 1"
    " WHERE s.outlook IS NOT NULL"
)
_HAS_EXPIRED = (
    "expires <= max(:local, :utc) AND expires <= iif(substr(expires, -1) = 'Z', :utc, :local)"
    # The sign keeps SQLite from the index by outlook, by which it would read most memories.
    " AND +outlook IN (SELECT id FROM outlooks WHERE NOT is_archived)"
)
# An index has these columns.
_EXPIRED = f"SELECT id, outlook, moment FROM sections WHERE {_HAS_EXPIRED}"
_EXPIRED_TIMES = (
    "SELECT outlook, period, expires, n, total FROM outlook_times"
    f" WHERE expires <> '' AND {_HAS_EXPIRED}"
)
_EXPIRED_WITHIN = (
    f"SELECT s.outlook, s.moment, count(*), sum(s.id * s.id & {_MASK}) FROM json_each(?) v"
    " CROSS JOIN sections s ON s.expires = v.value ->> 1 AND s.outlook = v.value ->> 0"
    " AND s.moment >= v.value ->> 2 AND s.moment < v.value ->> 3 GROUP BY s.outlook, s.moment"
)
_PLACES = (
    "SELECT s.id, f.path FROM json_each(?) v CROSS JOIN sections s ON s.id = v.value"
    " CROSS JOIN files f ON f.id = s.file ORDER BY f.path, s.start_line"
)


class Range(NamedTuple):
    """The memories of an outlook whose moments, in seconds since 1970, lie between two moments; the
    first is included.
    """

    outlook: int
    first: int
    after: int

    def divide(self) -> tuple[Range, list[Range]]:
        """Return the whole periods of this range, with the numbers of periods in place of moments,
        and the ranges before and after them.
        """
        first, after = -(-self.first >> PERIOD_BITS), self.after >> PERIOD_BITS
        if first >= after:
            return Range(self.outlook, first, first), [self]
        before, behind = first << PERIOD_BITS, after << PERIOD_BITS
        rest = self._replace(after=before), self._replace(first=behind)
        return Range(self.outlook, first, after), [each for each in rest if each.first < each.after]


class TimedMemory(NamedTuple):
    """A memory by its first section, with the values from which its age counts."""

    section: int
    outlook: int
    moment: int
    updated: str | None
    created: str | None
    day: str | None
    mtime_ns: int
    expires: str | None


def read_outlooks(reader: Reader) -> dict[int, Outlook]:
    """Return the outlooks that memories have or had, by id."""
    return {
        number: Outlook._make((*stated, decode_texts(kinds), bool(is_project), bool(is_archived)))
        for number, *stated, kinds, is_project, is_archived in reader.rows(_ALL)
    }


def count_memories(reader: Reader, ranges: Sequence[Range]) -> list[tuple[int, int]]:
    """Return for each range the number of its memories, and the sum of the marks of their first
    sections. The time grows with the number of periods, and with the memories of the two periods in
    which a range begins and ends.
    """
    divided = [each.divide() for each in ranges]
    counts = _read_counts(reader, _SUMS, [whole for whole, _ in divided])
    rest = [(at, part) for at, (_, parts) in enumerate(divided) for part in parts]
    of_rest = _read_counts(reader, _COUNTS, [part for _, part in rest])
    for (at, _), (n, total) in zip(rest, of_rest, strict=True):
        counts[at] = counts[at][0] + n, counts[at][1] + total
    return counts


def _read_counts(reader: Reader, statement: str, ranges: Sequence[Range]) -> list[tuple[int, int]]:
    pairs = (pair for (pair,) in reader.rows(statement, (json.dumps(ranges),)))
    counts: list[tuple[int, int]] = json.loads(f"[{','.join(pairs)}]")
    return counts


def mark_section(number: int) -> int:
    """Return the mark of a section: other sections have another sum of marks, most likely."""
    return number * number & _MASK


def find_memory_ids(reader: Reader, ranges: Iterable[Range]) -> list[int]:
    """Return the ids of the first sections of the memories in these ranges."""
    return [number for (number,) in reader.rows(_IDS, (json.dumps([*ranges]),))]


@contextlib.contextmanager
def stream_timed(reader: Reader, ranges: Iterable[Range]) -> Iterator[Iterator[TimedMemory]]:
    """Yield an iterator over the memories in these ranges, which may be very many."""
    with reader.stream(_TIMED, (json.dumps([*ranges]),)) as rows:
        yield map(TimedMemory._make, rows)


def read_timed_by_anchor(reader: Reader, anchors: Iterable[str]) -> dict[str, TimedMemory]:
    """Return the memories whose first sections have these anchors."""
    rows = reader.rows(_NAMED, (encode_anchors(anchors),))
    return {anchor: TimedMemory._make(values) for *values, anchor in rows}


def find_expired(reader: Reader, local: str, utc: str) -> list[tuple[int, int, int]]:
    """Return the memories that have expired at a time, which is given as local time and as UTC, and
    are not archived: the id, the outlook and the moment of the first section of each.
    """
    return reader.rows(_EXPIRED, {"local": local, "utc": utc})


def count_expired(
    reader: Reader, local: str, utc: str, edges: Collection[int]
) -> list[tuple[int, int, int, int]]:
    """Count the memories of `find_expired`. Each row has an outlook, a moment, the number of the
    memories, and the sum of the marks of their first sections. No edge lies between the moments of
    these memories, nor between them and the moment of the row.
    """
    with_edges = {edge >> PERIOD_BITS for edge in edges}
    counts: list[tuple[int, int, int, int]] = []
    divided: list[tuple[int, str, int, int]] = []
    rows = reader.rows(_EXPIRED_TIMES, {"local": local, "utc": utc})
    for outlook, period, expires, n, total in rows:
        first = period << PERIOD_BITS
        if period in with_edges:
            divided.append((outlook, expires, first, period + 1 << PERIOD_BITS))
        else:
            counts.append((outlook, first, n, total))
    return counts + reader.rows(_EXPIRED_WITHIN, (json.dumps(divided),))


def place_memories(reader: Reader, sections: Iterable[int]) -> list[tuple[int, str]]:
    """Return sections in the order of paths and lines: the id and the path of each."""
    return reader.rows(_PLACES, (encode_numbers(sections),))
