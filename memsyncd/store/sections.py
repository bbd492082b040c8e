"""Read sections as indexed: their metadata, places, headings and levels, by number or by anchor.

Only the sections of an answer have their metadata read, never the candidates of a search.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby, starmap
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from memsyncd.core.model import Problem, Span
from memsyncd.store.pool import MEMO_LIMIT, Reader, encode_numbers

# --- Metadata -------------------------------------------------------------------------------------

# Columns of sections `s` and files `f`, in the order of the fields of `StoredMeta`.
META_COLUMNS = (
    "s.kind, (SELECT group_concat(tag, char(31) ORDER BY tag) FROM tags WHERE section = s.id),"
    " s.importance, s.priority, s.lifecycle, s.task, s.session, s.source, s.created, s.updated,"
    " s.expires, s.status, coalesce(s.day, f.day), s.day IS NULL AND f.day IS NOT NULL,"
    " f.mtime_ns, f.title, f.extra, s.extra"
)


class StoredMeta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The metadata of a section as indexed, its note's included.

    `importance` is None if neither section nor note states it. `day` is None for a note without a
    date; with `is_day_of_name` it is the day in the file's name. `mtime_ns` is the time at which
    the note was saved, and `note` the title of the note.
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
    note: str
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


# --- Sections of a note ---------------------------------------------------------------------------

FROM_SECTIONS = "FROM sections s JOIN files f ON f.id = s.file"
ANCHOR = "f.path || '#' || s.slugs"
SECTION_COLUMNS = f"s.file, {ANCHOR}, s.heading, s.level, s.start_line, s.end_line, {META_COLUMNS}"
_SECTIONS = f"SELECT {SECTION_COLUMNS} {FROM_SECTIONS}"
_PROBLEMS = (
    "SELECT f.path, p.line, p.code, p.problem, p.hint FROM problems p JOIN files f ON f.id = p.file"
    "{where} ORDER BY f.path, p.line"
)
_CHUNKS_OF = (
    "SELECT c.id FROM json_each(?) v"
    " JOIN files f ON f.path = substr(v.value, 1, instr(v.value, '#') - 1)"
    " JOIN sections s ON s.file = f.id AND f.path || '#' || s.slugs = v.value"
    " JOIN chunks c ON c.section = s.id ORDER BY c.id"
)
_ANCHORS_OF = (
    "SELECT c.id, f.path || '#' || s.slugs FROM chunks c JOIN sections s ON s.id = c.section"
    " JOIN files f ON f.id = c.file WHERE c.id IN (SELECT value FROM json_each(?))"
)
_LEVELS = (
    "SELECT s.slugs, s.level FROM files f JOIN sections s ON s.file = f.id WHERE f.path = ?"
    " ORDER BY s.start_line"
)
_TITLED = (
    "SELECT f.path || '#' || s.slugs, s.status IS 'archived' FROM sections s"
    " JOIN files f ON f.id = s.file"
    " WHERE json_extract(s.heading, '$[#-1]') = ?1 COLLATE NOCASE"
    " OR s.slugs = ?2 OR substr(s.slugs, -length(?2) - 1) = '/' || ?2"
    " ORDER BY f.path, s.start_line"
)
_NOTES_WITH_RELATION = "SELECT path FROM linking WHERE relation = ? AND relation <> ''"
_HAS_RELATION = "SELECT EXISTS(SELECT 1 FROM counts WHERE field = 'link' AND value = ? AND n > 0)"
_RELATIONS = (
    "SELECT value FROM counts WHERE field = 'link' AND value NOT IN ('', '*') AND n > 0"
    " ORDER BY value"
)
_HAS_PROBLEM = "SELECT EXISTS(SELECT 1 FROM problems WHERE code = ?)"


class StoredSection(StoredMeta, frozen=True, kw_only=True, gc=False):
    """A section as indexed."""

    anchor: str
    heading: tuple[str, ...]
    level: int
    span: Span


def read_section(reader: Reader, anchor: str) -> tuple[str, StoredSection] | None:
    """Return the path of the note and the section with this anchor, None without such a section."""
    path, _, slugs = anchor.rpartition("#")
    rows = reader.rows(f"{_SECTIONS} WHERE f.path = ? AND s.slugs = ?", (path, slugs))
    return (path, make_section(rows[0])) if rows else None


def read_sections_of(reader: Reader, path: str) -> list[StoredSection]:
    """Return the sections of one note by line; none if it is not indexed."""
    where = "WHERE f.path = ? ORDER BY s.start_line"
    return [make_section(row) for row in reader.rows(f"{_SECTIONS} {where}", (path,))]


def read_levels(reader: Reader, path: str) -> list[tuple[str, int]]:
    """Return the anchors of a note by line, with the levels of their headings."""
    return [(f"{path}#{slugs}", level) for slugs, level in reader.rows(_LEVELS, (path,))]


def find_titled_sections(reader: Reader, title: str, slug: str) -> list[tuple[str, bool]]:
    """Return the anchors of the sections with this heading or this slug, by path and line, and
    whether each is archived.
    """
    rows = reader.rows(_TITLED, (title, slug))
    return [(anchor, bool(is_archived)) for anchor, is_archived in rows]


def has_problem(reader: Reader, code: str) -> bool:
    """True if any note has a problem with this code."""
    remembered: dict[str, bool] = reader.memo.setdefault("problems", {})
    if code not in remembered:
        remembered[code] = bool(reader.rows(_HAS_PROBLEM, (code,))[0][0])
    return remembered[code]


def has_relation(reader: Reader, relation: str) -> bool:
    """True if any note has a typed link of this relation."""
    remembered: dict[str, bool] = reader.memo.setdefault("relations", {})
    if relation not in remembered:
        remembered[relation] = bool(reader.rows(_HAS_RELATION, (relation,))[0][0])
    return remembered[relation]


def find_notes_with_relation(reader: Reader, relation: str) -> set[str]:
    """Return the paths of the notes that have typed links of this relation."""
    return {path for (path,) in reader.rows(_NOTES_WITH_RELATION, (relation,))}


def read_relation_names(reader: Reader) -> list[str]:
    """Return the relations of all typed links, by name."""
    return [row[0] for row in reader.rows(_RELATIONS)]


def read_chunks_of(reader: Reader, anchors: Iterable[str]) -> list[int]:
    """Return the chunks of these sections, without the chunks of the sections beneath them."""
    return [row[0] for row in reader.rows(_CHUNKS_OF, (json.dumps(list(anchors)),))]


def read_anchors_of(reader: Reader, chunks: Iterable[int]) -> dict[int, str]:
    """Return the anchors of the sections of chunks."""
    return dict(reader.rows(_ANCHORS_OF, (encode_numbers(chunks),)))


def read_digest(reader: Reader, path: str) -> str | None:
    """Return the digest of a note as indexed, None if it is not indexed."""
    rows = reader.rows("SELECT digest FROM files WHERE path = ?", (path,))
    return str(rows[0][0]) if rows else None


def read_anchors(reader: Reader, path: str) -> list[str]:
    """Return the anchors of a note by line."""
    return [anchor for anchor, _ in read_levels(reader, path)]


def read_problems(reader: Reader, path: str | None = None) -> list[Problem]:
    """Return the problems of a note, or of all notes, by path and line."""
    where, bindings = ("", ()) if path is None else (" WHERE f.path = ?", (path,))
    return list(starmap(Problem, reader.rows(_PROBLEMS.format(where=where), bindings)))


def make_section(row: tuple[Any, ...]) -> StoredSection:
    _, anchor, heading, level, start, end, *meta = row
    return StoredSection(
        anchor=anchor,
        heading=decode_texts(heading),
        level=level,
        span=Span(start, end),
        **read_meta_columns(meta),
    )


decode_texts = msgspec.json.Decoder(tuple[str, ...]).decode


# --- Sections with all beneath them ---------------------------------------------------------------

# The first line of a section that is no front matter.
TEXT_START = (
    "iif(s.level, s.start_line, max(s.start_line, 1 + coalesce("
    "(SELECT max(front_lines) FROM chunks WHERE section = s.id), 0)))"
)
# A `0` is the character after a `/`.
_MEMORIES = (
    f"SELECT s.id, {ANCHOR}, f.path, s.level, {TEXT_START}, max(s.end_line, iif(s.level, coalesce("
    "(SELECT max(b.end_line) FROM sections b WHERE b.file = s.file AND b.slugs > s.slugs || '/'"
    " AND b.slugs < s.slugs || '0'), 0), 0)), s.kind, s.importance, s.updated, s.created,"
    " coalesce(s.day, f.day), f.mtime_ns, s.is_empty {source} ORDER BY s.file, s.start_line"
)
OF_ANCHORS = (
    "FROM json_each(:anchors) v CROSS JOIN files f ON f.path = v.value ->> 0"
    " CROSS JOIN sections s ON s.file = f.id AND s.slugs = v.value ->> 1"
)
_OF_SECTIONS = (
    "FROM json_each(:sections) v CROSS JOIN sections s ON s.id = v.value"
    " CROSS JOIN files f ON f.id = s.file"
)


_LINES = (
    f"SELECT {ANCHOR}, f.path, {TEXT_START}, s.end_line FROM json_each(?) v"
    " CROSS JOIN sections s ON s.id = v.value CROSS JOIN files f ON f.id = s.file"
)


class SectionLines(NamedTuple):
    """The lines of a section without front matter and the sections beneath it."""

    anchor: str
    path: str
    start_line: int
    end_line: int


def read_section_lines(reader: Reader, sections: Iterable[int]) -> list[SectionLines]:
    """Return the lines of sections by their ids."""
    return [*starmap(SectionLines, reader.rows(_LINES, (encode_numbers(sections),)))]


class MemoryLines(NamedTuple):
    """A section with all sections beneath it: its lines without front matter, and the values that
    order memories.
    """

    section: int
    anchor: str
    path: str
    level: int
    start_line: int
    end_line: int
    kind: str | None
    importance: float | None
    updated: str | None
    created: str | None
    day: str | None
    mtime_ns: int
    is_empty: int | None
    """1 for a section without text of its own."""

    def has(self, anchor: str) -> bool:
        """True for this section and, below a heading, for the sections beneath it."""
        is_beneath = self.level > 0 and anchor.startswith(f"{self.anchor}/")
        return anchor == self.anchor or is_beneath


def read_named_memories(reader: Reader, anchors: Iterable[str]) -> list[MemoryLines]:
    """Return the sections with these anchors, by note and line; without missing ones, and without
    sections beneath others of them.
    """
    return _read_memories(reader, OF_ANCHORS, anchors=encode_anchors(anchors))


def read_memories_of(reader: Reader, sections: Iterable[int]) -> list[MemoryLines]:
    """As `read_named_memories`, by the ids of the sections."""
    return _read_memories(reader, _OF_SECTIONS, sections=encode_numbers(sections))


def _read_memories(reader: Reader, source: str, **bindings: str) -> list[MemoryLines]:
    memories: list[MemoryLines] = []
    rows = reader.many_rows(13, _MEMORIES.format(source=source), bindings)
    for memory in starmap(MemoryLines, rows):
        if not (memories and memories[-1].has(memory.anchor)):
            memories.append(memory)
    return memories


def encode_anchors(anchors: Iterable[str]) -> str:
    """Return anchors, as pairs of the note's path and the slugs, as a text for `json_each`."""
    parts = (anchor.rpartition("#") for anchor in anchors)
    return json.dumps([(path, slugs) for path, _, slugs in parts])


# --- Outlines of notes ----------------------------------------------------------------------------

_OUTLINES = (
    f"SELECT f.path, f.digest, f.generation, s.id, {ANCHOR}, s.heading, s.level, s.start_line,"
    " s.end_line, s.kind, s.importance, s.priority, s.lifecycle, s.status, s.created, s.updated,"
    " s.expires, coalesce(s.day, f.day), f.mtime_ns FROM json_each(?) v"
    " CROSS JOIN files f ON f.path = v.value"
    " CROSS JOIN sections s ON s.file = f.id ORDER BY v.key, s.start_line"
)


class OutlinedSection(NamedTuple):
    """A section with the values that decide whether it is archived. Reading all of its metadata
    takes several times as long. `heading_json` has its headings as JSON.
    """

    section: int
    anchor: str
    heading_json: str
    level: int
    start_line: int
    end_line: int
    kind: str | None
    importance: float | None
    priority: str | None
    lifecycle: str | None
    status: str | None
    created: str | None
    updated: str | None
    expires: str | None
    day: str | None
    mtime_ns: int

    @property
    def heading(self) -> tuple[str, ...]:
        return decode_texts(self.heading_json)


class OutlinedNote(NamedTuple):
    """A note as indexed: its path, its digest, the generation with which it has changed last, and
    its sections by line.
    """

    path: str
    digest: str
    generation: int
    sections: tuple[OutlinedSection, ...]


def read_outlines(reader: Reader, paths: Iterable[str]) -> list[OutlinedNote]:
    """Return the notes with these paths that have sections, by path."""
    rows = reader.rows(_OUTLINES, (json.dumps(sorted(paths)),))
    return [
        OutlinedNote._make((*note, tuple(OutlinedSection._make(row[3:]) for row in of_note)))
        for note, of_note in groupby(rows, key=itemgetter(0, 1, 2))
    ]


# --- Sections of hits -----------------------------------------------------------------------------

_HIT_SECTIONS = (
    f"SELECT {META_COLUMNS}, s.id, f.path || '#' || s.slugs, s.heading, f.digest FROM sections s"
    " JOIN files f ON f.id = s.file WHERE s.id IN (SELECT value FROM json_each(?))"
)
_TITLES = (
    "SELECT s.id, f.path || '#' || s.slugs,"
    " iif(f.title IN (f.extra ->> '$.title', f.extra ->> '$.name'), f.title, ''),"
    " s.heading, s.kind, coalesce(s.day, f.day)"
    " FROM sections s"
    " JOIN files f ON f.id = s.file WHERE s.id IN (SELECT value FROM json_each(?))"
)
# A section states metadata of its own if kind, tags or other keys differ from its note's, or if it
# has any of the columns below and these differ from the first section's.
_OWN = "importance, priority, lifecycle, status, task, session, source, created, updated, expires"
_OWN_OF_S, _OWN_OF_FIRST = (
    ", ".join(f"{table}.{name}" for name in _OWN.split(", ")) for table in ("s", "first")
)
_STATING = f"""
WITH asked(id) AS MATERIALIZED (SELECT value FROM json_each(?)),
first AS MATERIALIZED (
  SELECT file, min(start_line) AS line, {_OWN} FROM sections
  WHERE file IN (
    SELECT file FROM sections WHERE id IN asked AND coalesce({_OWN}) IS NOT NULL
  ) GROUP BY file
)
SELECT s.id FROM asked a JOIN sections s ON s.id = a.id JOIN files f ON f.id = s.file
LEFT JOIN first ON first.file = s.file AND coalesce({_OWN_OF_S}) IS NOT NULL
WHERE s.kind IS NOT f.kind OR s.extra IS NOT NULL
  OR (SELECT count(*) FROM tags WHERE section = s.id)
    <> iif(f.tags = '', 0, json_array_length(f.tags))
  OR (first.file IS NOT NULL AND ({_OWN_OF_S}) IS NOT ({_OWN_OF_FIRST}))
"""
# Of so many sections a reader remembers whether they state metadata of their own: half a megabyte.
MANY_SECTIONS = 5 * MEMO_LIMIT
# Chunks contain all lines of a section that are not blank.
_BLANK_LINES = """
SELECT id, start_line - 1 - before FROM (
  SELECT id, start_line, max(end_line) OVER (
    PARTITION BY section ORDER BY start_line, end_line, id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS before
  FROM chunks WHERE section IN (SELECT value FROM json_each(?))
) WHERE start_line - 1 > before
"""


class HitSection(StoredMeta, frozen=True, kw_only=True):
    """The section of a hit; `digest` is the digest of the file as indexed."""

    anchor: str
    heading: tuple[str, ...]
    digest: str


def read_sections(reader: Reader, ids: Iterable[int]) -> dict[int, HitSection]:
    """Return sections by id."""
    return {
        number: HitSection(
            anchor=anchor,
            heading=decode_texts(heading),
            digest=digest,
            **read_meta_columns(meta),
        )
        for *meta, number, anchor, heading, digest in reader.rows(
            _HIT_SECTIONS, (encode_numbers(ids),)
        )
    }


def find_stating(reader: Reader, ids: Collection[int]) -> list[int]:
    """Return the sections, among these, that state metadata of their own."""

    def read(missing: Collection[int]) -> dict[int, bool]:
        rows = reader.many_rows(1, _STATING, (encode_numbers(missing),))
        return dict.fromkeys(missing, False) | dict.fromkeys([row[0] for row in rows], True)

    states = reader.remember("states", ids, read, most=MANY_SECTIONS)
    return [number for number in ids if states[number]]


class SectionTitle(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a section in a context besides its text. `note` is the title that its note
    states; `day` is the day that the section or its note states, because the day on which a file
    was saved may be the day of a copy.
    """

    anchor: str
    note: str
    heading: tuple[str, ...]
    kind: str | None
    day: str | None


def read_section_titles(reader: Reader, ids: Iterable[int]) -> dict[int, SectionTitle]:
    """Return the titles of sections by id: less than `read_sections`, for many candidates."""
    return {
        number: SectionTitle(
            anchor=anchor, note=note, heading=decode_texts(heading), kind=kind, day=day
        )
        for number, anchor, note, heading, kind, day in reader.many_rows(
            6, _TITLES, (encode_numbers(ids),)
        )
    }


def count_blank_lines_before(reader: Reader, sections: Iterable[int]) -> dict[int, int]:
    """Return the number of blank lines right before each chunk of these sections, if there are
    any.
    """
    return dict(reader.many_rows(2, _BLANK_LINES, (encode_numbers(sections),)))
