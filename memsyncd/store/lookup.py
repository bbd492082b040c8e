"""Look up notes, sections, problems, kinds, tags and words in index.db."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Generator, Iterable, Iterator
from itertools import starmap
from operator import attrgetter, itemgetter
from string import ascii_lowercase
from typing import Any, NamedTuple, TypeVar

import msgspec

from memsyncd.core.model import Problem, Span
from memsyncd.core.search.query import Filters
from memsyncd.store.filters import (
    Bindings,
    compile_match_filters,
    compile_section_filters,
    find_file_ids,
    find_ids,
)
from memsyncd.store.metadata import META_COLUMNS, StoredMeta, read_meta_columns
from memsyncd.store.pool import Reader, encode_numbers

# --- notes and sections -------------------------------------------------------------------------

_FILES = "SELECT id, path, title, digest, size, mtime_ns, lines, kind, tags FROM files"
_FROM = "FROM sections s JOIN files f ON f.id = s.file"
_ANCHOR = "f.path || '#' || s.slugs"
_SECTION = f"s.file, {_ANCHOR}, s.heading, s.level, s.start_line, s.end_line, {META_COLUMNS}"
_SECTIONS = f"SELECT {_SECTION} {_FROM}"
# What `stream_sections` can read of sections.
_COLUMNS = {
    "path": "f.path",
    "anchor": _ANCHOR,
    "level": "s.level",
    "lifecycle": "s.lifecycle",
    "expires": "s.expires",
    "kind": "s.kind",
    "importance": "s.importance",
    "updated": "s.updated",
    "created": "s.created",
    "day": "coalesce(s.day, f.day)",
    "mtime_ns": "f.mtime_ns",
}
_PROBLEMS = (
    "SELECT f.path, p.line, p.code, p.problem, p.hint FROM problems p JOIN files f ON f.id = p.file"
    " ORDER BY f.path, p.line"
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
    f"SELECT {_ANCHOR}, s.status IS 'archived' {_FROM}"
    " WHERE json_extract(s.heading, '$[#-1]') = ?1 COLLATE NOCASE"
    " OR s.slugs = ?2 OR substr(s.slugs, -length(?2) - 1) = '/' || ?2"
    " ORDER BY f.path, s.start_line"
)
_HAS_RELATION = "SELECT EXISTS(SELECT 1 FROM links WHERE relation = ? AND relation <> '')"
_RELATIONS = "SELECT DISTINCT relation FROM links WHERE relation <> '' ORDER BY relation"
_HAS_PROBLEM = "SELECT EXISTS(SELECT 1 FROM problems WHERE code = ?)"
_HAVE_ARCHIVED = "SELECT DISTINCT file FROM sections WHERE status = 'archived'"


class StoredSection(StoredMeta, frozen=True, kw_only=True, gc=False):
    """A section as indexed."""

    anchor: str
    heading: tuple[str, ...]
    level: int
    span: Span


class StoredNote(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A note as indexed, with its sections that match the request."""

    path: str
    title: str
    digest: str
    size_bytes: int
    mtime_ns: int
    n_lines: int
    kind: str | None
    tags: tuple[str, ...]
    sections: tuple[StoredSection, ...]


by_path = attrgetter("path")


def stream_notes(
    reader: Reader,
    *,
    filters: Filters,
    path: str | None = None,
    among: Iterable[str] | None = None,
    has_sections: bool = True,
    has_task: bool = False,
) -> Generator[StoredNote, None, None]:
    """Yield notes in no order: all, those at `path`, which is a path, a folder or a glob, or those
    of the paths `among`. Each comes with its sections, so that those of a large vault are not in
    memory together; without `has_sections` only if these decide which notes there are, and with
    `has_task` only with those of a task.

    With filters, only sections that pass them, and notes with such sections; filters that only
    leave out archived sections leave out no note without sections.
    """
    where, files = "", None
    bindings: tuple[str, ...] = ()
    if path is not None or among is not None:
        where = " WHERE id IN (SELECT value FROM json_each(?))"
        ids = find_file_ids(reader, [path]) if path is not None else find_ids(reader, among or ())
        files = encode_numbers(ids)
        bindings = (files,)
    allowed, named = compile_section_filters(reader, filters)
    is_narrow = bool(allowed) and not filters.is_hiding_alone
    hiding = {row[0] for row in reader.rows(_HAVE_ARCHIVED)} if allowed and not is_narrow else set()
    if files is None and not (has_sections or is_narrow):
        files = encode_numbers(sorted(hiding))
    selected, named = _select_sections(allowed, named, files, has_task=has_task)
    with (
        reader.stream(f"SELECT {_SECTION} {selected}", named) as sections,
        reader.stream(f"{_FILES}{where} ORDER BY id", bindings) as rows,
    ):
        # Both are in the order of files, and each section is of one of these.
        groups = itertools.groupby(sections, itemgetter(0))
        file, group = next(groups, (None, ()))
        for row in rows:
            of_note: tuple[StoredSection, ...] = ()
            if file == row[0]:
                of_note = tuple(map(_section, group))
                file, group = next(groups, (None, ()))
            if of_note or not (is_narrow or row[0] in hiding):
                yield _note(row, of_note)


_T = TypeVar("_T", bound=NamedTuple)


@contextlib.contextmanager
def stream_sections(
    reader: Reader, fields: type[_T], *, filters: Filters, path: str | None = None
) -> Iterator[Iterator[_T]]:
    """Yield the sections of `stream_notes` by note and line, each as a tuple of the values that
    its fields name. To read all columns of all sections takes ten times as long.
    """
    columns = ", ".join(_COLUMNS[field] for field in fields._fields)
    files = None if path is None else encode_numbers(find_file_ids(reader, [path]))
    selected, bindings = _select_sections(*compile_section_filters(reader, filters), files)
    with reader.stream(f"SELECT {columns} {selected}", bindings) as rows:
        yield map(fields._make, rows)


def read_section(reader: Reader, anchor: str) -> tuple[str, StoredSection] | None:
    """Return the path of the note and the section with this anchor, None if there is none."""
    path, _, slugs = anchor.rpartition("#")
    rows = reader.rows(f"{_SECTIONS} WHERE f.path = ? AND s.slugs = ?", (path, slugs))
    return (path, _section(rows[0])) if rows else None


def read_sections_of(reader: Reader, path: str) -> list[StoredSection]:
    """Return the sections of one note by line; none if it is not indexed."""
    where = "WHERE f.path = ? ORDER BY s.start_line"
    return [_section(row) for row in reader.rows(f"{_SECTIONS} {where}", (path,))]


def read_levels(reader: Reader, path: str) -> list[tuple[str, int]]:
    """Return the anchors of a note by line, with the levels of their headings."""
    return [(f"{path}#{slugs}", level) for slugs, level in reader.rows(_LEVELS, (path,))]


def find_titled_sections(reader: Reader, title: str, slug: str) -> list[tuple[str, bool]]:
    """Return the anchors of the sections with this heading, or with this slug of it, by path and
    line, and whether each is archived.
    """
    rows = reader.rows(_TITLED, (title, slug))
    return [(anchor, bool(is_archived)) for anchor, is_archived in rows]


def has_problem(reader: Reader, code: str) -> bool:
    """True if any note has a problem with this code."""
    known: dict[str, bool] = reader.memo.setdefault("problems", {})
    if code not in known:
        known[code] = bool(reader.rows(_HAS_PROBLEM, (code,))[0][0])
    return known[code]


def has_relation(reader: Reader, relation: str) -> bool:
    """True if any note has a typed link of this relation."""
    known: dict[str, bool] = reader.memo.setdefault("relations", {})
    if relation not in known:
        known[relation] = bool(reader.rows(_HAS_RELATION, (relation,))[0][0])
    return known[relation]


def read_relation_names(reader: Reader) -> list[str]:
    """Return the relations of all typed links, by name."""
    return [row[0] for row in reader.rows(_RELATIONS)]


def read_chunks_of(reader: Reader, anchors: Iterable[str]) -> list[int]:
    """Return the chunks of these sections, without those of the sections beneath them."""
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


def read_problems(reader: Reader) -> list[Problem]:
    """Return the problems of the notes, by path and line."""
    return list(starmap(Problem, reader.rows(_PROBLEMS)))


def _select_sections(
    allowed: str, bindings: Bindings, files: str | None, *, has_task: bool = False
) -> tuple[str, Bindings]:
    """Return what follows the columns of a statement, and its bindings."""
    conditions = [allowed] if allowed else []
    if files is not None:
        conditions.append("s.file IN (SELECT value FROM json_each(:of_files))")
        bindings = {**bindings, "of_files": files}
    if has_task:
        conditions.append("s.task IS NOT NULL")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{_FROM} {where} ORDER BY s.file, s.start_line", bindings


def _section(row: tuple[Any, ...]) -> StoredSection:
    _, anchor, heading, level, start, end, *meta = row
    return StoredSection(
        anchor=anchor,
        heading=_decode_texts(heading),
        level=level,
        span=Span(start, end),
        **read_meta_columns(meta),
    )


_decode_texts = msgspec.json.Decoder(tuple[str, ...]).decode


def _note(row: tuple[Any, ...], sections: tuple[StoredSection, ...]) -> StoredNote:
    _, path, title, digest, size, mtime_ns, lines, kind, tags = row
    return StoredNote(
        path=path,
        title=title,
        digest=digest,
        size_bytes=size,
        mtime_ns=mtime_ns,
        n_lines=lines,
        kind=kind,
        tags=_decode_texts(tags) if tags else (),
        sections=sections,
    )


# --- counts, for searches without hits ----------------------------------------------------------

# Matches beyond this number are not counted.
MAX_COUNTED = 1000
# Kinds or tags that are named.
N_VALUES = 5

_COUNT = (
    "SELECT count(*) FROM"
    " (SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH :match {allowed} LIMIT :most)"
)
_MATCHED = (
    "SELECT c.section FROM chunks c WHERE c.id IN"
    " (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH :match LIMIT :most)"
)
_MATCHING_KINDS = (
    f"SELECT kind, count(*) AS n FROM sections WHERE id IN ({_MATCHED}) AND kind IS NOT NULL"
    " GROUP BY kind ORDER BY n DESC, kind LIMIT :values"
)
_MATCHING_TAGS = (
    f"SELECT tag, count(*) AS n FROM tags WHERE section IN ({_MATCHED})"
    " GROUP BY tag ORDER BY n DESC, tag LIMIT :values"
)
_KINDS = (
    "SELECT kind, count(*) AS n FROM sections WHERE kind IS NOT NULL"
    " GROUP BY kind ORDER BY n DESC, kind LIMIT ?"
)
_PLACES_OF_KINDS = (
    "SELECT s.kind, count(*), min(f.path) FROM sections s JOIN files f ON f.id = s.file"
    " WHERE s.kind IS NOT NULL GROUP BY s.kind ORDER BY s.kind LIMIT ?"
)
_TAGS = "SELECT tag, count(*) AS n FROM tags GROUP BY tag ORDER BY n DESC, tag LIMIT ?"


def count_matches(
    reader: Reader, match: str, filters: Filters | None = None, *, most: int = MAX_COUNTED
) -> int:
    """Count chunks that match an FTS5 expression, up to `most`.

    Without filters archived ones count too.
    """
    allowed, bindings = ("", {}) if filters is None else compile_match_filters(reader, filters)
    bound = {"match": match, "most": most, **bindings}
    return int(reader.rows(_COUNT.format(allowed=allowed), bound)[0][0])


def find_matching_kinds(reader: Reader, match: str) -> list[str]:
    """Return the commonest kinds of the chunks that match."""
    return _find_values(reader, _MATCHING_KINDS, match)


def find_matching_tags(reader: Reader, match: str) -> list[str]:
    """Return the commonest tags of the chunks that match."""
    return _find_values(reader, _MATCHING_TAGS, match)


def count_kinds(reader: Reader) -> list[tuple[str, int]]:
    """Return the commonest kinds of all sections, each with its number."""
    return reader.rows(_KINDS, (MAX_COUNTED,))


def find_places_of_kinds(reader: Reader) -> list[tuple[str, int, str]]:
    """Return each kind, the number of its sections, and the first note that has it."""
    return reader.rows(_PLACES_OF_KINDS, (MAX_COUNTED,))


def count_tags(reader: Reader) -> list[tuple[str, int]]:
    """Return the commonest tags of all sections, each with its number."""
    return reader.rows(_TAGS, (MAX_COUNTED,))


def _find_values(reader: Reader, statement: str, match: str) -> list[str]:
    bound = {"match": match, "most": MAX_COUNTED, "values": N_VALUES}
    return [str(row[0]) for row in reader.rows(statement, bound)]


# --- words, for spelling suggestions ------------------------------------------------------------

# Words that are read at once. The list of words is never read as a whole: that would take as long
# as reading all of the index.
MAX_WORDS = 5000

# One statement for all prefixes: to open the list of words takes longer than to look one up.
_WORDS = (
    "SELECT w.term, w.doc FROM json_each(?) p CROSS JOIN words_exact w"
    " WHERE w.term >= p.value AND w.term < p.value || char(0x10ffff) LIMIT ?"
)

CountedWord = tuple[str, int]
"""A word as indexed, folded but not stemmed, and the number of chunks that contain it."""


def find_similar_words(reader: Reader, word: str) -> list[CountedWord]:
    """Return words with the first two letters of `word`, which must be folded, or with letters that
    a typing error makes of them.
    """
    found = _find_words(reader, [word[:2]]) | _find_words(reader, _list_misspelt_prefixes(word))
    return [*found.items()]


def find_words_by_first_letter(reader: Reader, word: str) -> list[CountedWord]:
    """Return words with the same first letter, in a large index not all of them."""
    return [*_find_words(reader, [word[:1]]).items()]


def _list_misspelt_prefixes(word: str) -> Iterator[str]:
    """Yield prefixes of words of which `word` has one of the first two letters wrong, missing,
    doubled or swapped.
    """
    for at in (0, 1):
        head, rest = word[:at], word[at:]
        yield head + rest[1:4]
        yield head + rest[1::-1] + rest[2:4]
        for letter in ascii_lowercase:
            yield head + letter + rest[1:4]
            yield head + letter + rest[:3]


def _find_words(reader: Reader, prefixes: Iterable[str]) -> dict[str, int]:
    beginnings = json.dumps([*dict.fromkeys(filter(None, prefixes))])
    return dict(reader.rows(_WORDS, (beginnings, MAX_WORDS)))
