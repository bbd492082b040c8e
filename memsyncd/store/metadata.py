"""Read and count the metadata of sections: of hits, of listed notes, of parts of notes.

It is read for the sections that an answer shows, never for candidates of a search.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from memsyncd.core.model import Span
from memsyncd.core.search.filters import Filters, fold_value, split_list
from memsyncd.store.filters import compile_section_filters
from memsyncd.store.pool import Reader

# Of sections `s` and files `f`, in the order of the fields of `StoredMeta`.
META_COLUMNS = (
    "s.kind, (SELECT group_concat(tag, char(31) ORDER BY tag) FROM tags WHERE section = s.id),"
    " s.importance, s.priority, s.lifecycle, s.task, s.session, s.source, s.created, s.updated,"
    " s.expires, s.status, coalesce(s.day, f.day), s.day IS NULL AND f.day IS NOT NULL,"
    " f.mtime_ns, f.extra, s.extra"
)


class StoredMeta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The metadata of a section as indexed, its note's included.

    `importance` is None if neither states one. `day` is None for a note without a date, and with
    `is_day_of_name` that in the file's name; `mtime_ns` is the time at which the note was saved.
    `extra` has the keys that have no field here.
    """

    kind: str | None
    tags: tuple[str, ...]
    importance: float | None
    priority: str | None
    lifecycle: str | None
    task: str | None
    session: str | None
    source: str | None
    created: str | None
    updated: str | None
    expires: str | None
    status: str | None
    day: str | None
    is_day_of_name: bool
    mtime_ns: int
    extra: dict[str, str]


def read_meta_columns(columns: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of `StoredMeta` for the values of `META_COLUMNS`."""
    *values, of_note, own = columns
    extra = _decode_note_extra(of_note)
    if own:
        extra = {**extra, **_decode_extra(own)}
    values[_DAY_OF_NAME] = values[_DAY_OF_NAME] == 1
    tags = values[_TAGS]
    values[_TAGS] = tuple(tags.split("\x1f")) if tags else ()
    return dict(zip(_FIELDS, (*values, extra), strict=True))


_FIELDS = StoredMeta.__struct_fields__
_TAGS = _FIELDS.index("tags")
_DAY_OF_NAME = _FIELDS.index("is_day_of_name")
# Much faster than `json`, and ten hits have ten of them.
_decode_extra = msgspec.json.Decoder(dict[str, str]).decode


# The sections of a note are read one after another, and share the dictionary.
@functools.lru_cache(maxsize=4)
def _decode_note_extra(of_note: str | None) -> dict[str, str]:
    return _decode_extra(of_note) if of_note else {}


# --- counts -------------------------------------------------------------------------------------

_SOURCE = "FROM sections s JOIN files f ON f.id = s.file"
# Which sections pass may depend on a function in Python: it is asked once, not for each group.
_PASSING = f"SELECT json_group_array(s.id) {_SOURCE} WHERE {{condition}}"
_OF_PASSING = (
    "FROM (SELECT value AS passing FROM json_each(:passing)) CROSS JOIN sections s"
    " ON s.id = passing JOIN files f ON f.id = s.file"
)
_TOTALS = (
    "SELECT count(*), count(DISTINCT s.file),"
    " (SELECT coalesce(sum(size), 0) FROM files WHERE id IN (SELECT s.file {source})) {source}"
)
_COUNTS = (
    "SELECT {value} AS value, {count} AS n, count(DISTINCT s.file) {source}"
    " GROUP BY value ORDER BY {order} LIMIT :most"
)
# A tag counts for those that it is nested in, as in the filter. To cut off the last part of a tag,
# all signs but a slash are trimmed from its end.
_TAGGED = (
    " LEFT JOIN (WITH RECURSIVE nested(section, tag) AS (SELECT section, tag FROM tags UNION"
    " SELECT section, rtrim(rtrim(tag, replace(tag, '/', '')), '/') FROM nested"
    " WHERE tag LIKE '_%/%') SELECT section, tag FROM nested WHERE tag <> '') t"
    " ON t.section = s.id"
)
_BY_DAY = "coalesce(s.day, f.day, date(f.mtime_ns / 1000000000, 'unixepoch', 'localtime'))"
# Of keys or values of free metadata, so many are compared with a mistyped one.
MAX_VALUES = 10_000
# In powers of 4 from 1,024 bytes: `0-1 KiB`, `1-4 KiB`.
_SIZES = ((1, "0-1"), (4, "1-4"), (16, "4-16"), (64, "16-64"), (256, "64-256"))
_BY_SIZE = (
    "CASE "
    + " ".join(f"WHEN f.size < {most * 1024} THEN '{name} KiB'" for most, name in _SIZES)
    + " ELSE 'over 256 KiB' END"
)
# Of the groups that are not columns: the value, and the order of the values.
_GROUPS = {
    "tag": ("t.tag COLLATE NOCASE", "n DESC, value"),
    "month": (f"substr({_BY_DAY}, 1, 7)", "value DESC"),
    "size": (_BY_SIZE, "min(f.size)"),
}


class SectionCounts(NamedTuple):
    """Sections, their notes, and the bytes of those; then for each group values with the numbers of
    their sections and notes.
    """

    n_sections: int
    n_notes: int
    n_bytes: int
    groups: dict[str, list[tuple[str | None, int, int]]]


def count_sections(
    reader: Reader, filters: Filters, groups: Sequence[str], *, most: int
) -> SectionCounts:
    """Count the sections that pass the filters, by columns of sections, tag, month, size, `meta`
    or `meta:KEY`.
    """
    source, bindings = _SOURCE, {}
    condition, named = compile_section_filters(reader, filters)
    if condition:
        [(passing,)] = reader.rows(_PASSING.format(condition=condition), named)
        source, bindings = _OF_PASSING, {"passing": passing}
    [(n_sections, n_notes, n_bytes)] = reader.rows(_TOTALS.format(source=source), bindings)
    counts = {}
    for group in groups:
        name, _, key = group.partition(":")
        if name == META_GROUP:
            counts[group] = count_pairs(reader, source, bindings, key or None, most=most)
            continue
        value, order = _GROUPS.get(group, (f"s.{group}", "n DESC, value"))
        joined = source + (_TAGGED if group == "tag" else "")
        # A section may have a tag and one that is nested in it.
        count = "count(DISTINCT s.id)" if group == "tag" else "count(*)"
        statement = _COUNTS.format(value=value, count=count, source=joined, order=order)
        counts[group] = reader.rows(statement, {**bindings, "most": most})
    return SectionCounts(n_sections, n_notes, n_bytes, counts)


# --- keys and values of free metadata ---

_ALL_PAIRS = (
    "SELECT s.id, s.file, e.key, e.value {source}, json_each(json_patch(coalesce(f.extra, '{{}}'),"
    " coalesce(s.extra, '{{}}'))) e WHERE e.value <> '' {limit}"
)
_OF_KEY = "AND e.key = :key COLLATE NOCASE"
META_GROUP = "meta"


def count_pairs(
    reader: Reader, source: str, bindings: Mapping[str, str], key: str | None, *, most: int
) -> list[tuple[str | None, int, int]]:
    """Count sections and notes by the keys of their free metadata, or by the values of one key, the
    commonest first; each value of a list counts. Case does not count.
    """
    statement = _ALL_PAIRS.format(source=source, limit="" if key is None else _OF_KEY)
    bound = {**bindings, **({} if key is None else {"key": key})}
    groups: dict[str, tuple[str, set[int], set[int]]] = {}
    for section, file, own_key, value in reader.rows(statement, bound):
        for word in (own_key,) if key is None else split_list(value):
            _, sections, files = groups.setdefault(fold_value(word), (word, set(), set()))
            sections.add(section)
            files.add(file)
    counts: list[tuple[str | None, int, int]] = []
    counts += ((word, len(sections), len(files)) for word, sections, files in groups.values())
    return sorted(counts, key=lambda one: (-one[1], one[0]))[:most]


def count_keys(reader: Reader, key: str | None = None) -> list[tuple[str, int]]:
    """Return the commonest keys of free metadata, or values of a key, each with its number of
    sections.
    """
    counts = count_pairs(reader, _SOURCE, {}, key, most=MAX_VALUES)
    return [(word, n_sections) for word, n_sections, _ in counts if word]


# --- kinds and topics ---------------------------------------------------------------------------

_TOPIC = "coalesce(json_extract(s.extra, '$.topic'), json_extract(f.extra, '$.topic'))"
_CATEGORIES = (
    f"SELECT s.kind, {_TOPIC} AS topic, count(*) FROM sections s JOIN files f ON f.id = s.file"
    " WHERE s.status IS NOT 'archived' AND EXISTS(SELECT 1 FROM chunks WHERE section = s.id)"
    " GROUP BY 1, 2 HAVING s.kind IS NOT NULL OR topic IS NOT NULL"
)
_OF_CATEGORIES = (
    "SELECT c.id, s.id, f.path, s.start_line, s.end_line, s.kind,"
    f" {_TOPIC} AS topic, min(c.start_line) FROM sections s JOIN files f ON f.id = s.file"
    " JOIN chunks c ON c.section = s.id WHERE s.status IS NOT 'archived' AND EXISTS("
    "SELECT 1 FROM json_each(?) k WHERE json_extract(k.value, '$[0]') IS s.kind"
    " AND json_extract(k.value, '$[1]') IS topic)"
    " GROUP BY s.id ORDER BY f.mtime_ns DESC, f.path, s.start_line LIMIT ?"
)


class CategorySection(NamedTuple):
    """A section with its kind and its topic; `chunk` is its first."""

    chunk: int
    section: int
    path: str
    start_line: int
    end_line: int
    kind: str | None
    topic: str | None

    @property
    def span(self) -> Span:
        return Span(self.start_line, self.end_line)


def count_categories(reader: Reader) -> dict[tuple[str | None, str | None], int]:
    """Return how many sections that are not archived have each kind and topic, those with neither
    left out.
    """
    return {(kind, topic): n_sections for kind, topic, n_sections in reader.rows(_CATEGORIES)}


def find_category_sections(
    reader: Reader, categories: Iterable[tuple[str | None, str | None]], *, limit: int
) -> list[CategorySection]:
    """Return sections of these kinds and topics that are not archived, of the notes saved last."""
    keys = json.dumps(sorted(categories, key=repr))
    return [CategorySection(*row[:-1]) for row in reader.rows(_OF_CATEGORIES, (keys, limit))]
