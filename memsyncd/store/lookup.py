"""Look up notes and sections in index.db by filters, count them, and look up similar words."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from string import ascii_lowercase
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from memsyncd.core.model import Span
from memsyncd.core.search.filters import Filters, fold_value, split_list
from memsyncd.store.counts import (
    BYTES,
    LARGEST,
    META,
    SIZES,
    TOTAL,
    KeptCounts,
    name_meta_field,
)
from memsyncd.store.filters import (
    STATED_TOPIC,
    TOPIC,
    Bindings,
    MatchFilters,
    compile_match_filters,
    compile_section_filters,
    find_file_ids,
    find_ids,
)
from memsyncd.store.pool import Reader, encode_numbers
from memsyncd.store.sections import (
    ANCHOR,
    FROM_SECTIONS,
    OF_ANCHORS,
    SECTION_COLUMNS,
    StoredSection,
    decode_texts,
    encode_anchors,
    make_section,
)

# --- Notes and sections ---------------------------------------------------------------------------

_FILES = "SELECT id, path, title, digest, size, mtime_ns, lines, kind, tags FROM files"
# The columns of sections that `stream_sections` can read.
_COLUMNS = {
    "path": "f.path",
    "anchor": ANCHOR,
    "level": "s.level",
    "lifecycle": "s.lifecycle",
    "expires": "s.expires",
    "kind": "s.kind",
    "priority": "s.priority",
    "importance": "s.importance",
    "updated": "s.updated",
    "created": "s.created",
    "day": "coalesce(s.day, f.day)",
    "mtime_ns": "f.mtime_ns",
}
_OF_FILES = (
    "FROM json_each(:of_files) v CROSS JOIN sections s ON s.file = v.value"
    " CROSS JOIN files f ON f.id = s.file"
)
_HAVE_ARCHIVED = "SELECT DISTINCT file FROM sections WHERE status = 'archived'"


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
) -> Generator[StoredNote, None, None]:
    """Yield notes in no order: all notes, the notes at `path`, which is a path, a folder or a glob,
    or the notes with the paths `among`. Each has its sections, so that all sections of a large
    vault are never in memory together. Without `has_sections`, sections are read only if filters
    need them.

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
    if is_narrow:
        is_by_file = among is not None
        selected, named = _select_sections(allowed, named, files, is_by_file=is_by_file)
        with reader.stream(f"SELECT {SECTION_COLUMNS} {selected}", named) as sections:
            for file, group in itertools.groupby(sections, itemgetter(0)):
                of_note = tuple(map(make_section, group))
                yield _note(reader.rows(f"{_FILES} WHERE id = ?", (file,))[0], of_note)
        return
    among_files = " AND file IN (SELECT value FROM json_each(?))" if bindings else ""
    rows = reader.rows(f"{_HAVE_ARCHIVED}{among_files}", bindings) if allowed else []
    hiding = {row[0] for row in rows}
    if not has_sections:
        files = encode_numbers(sorted(hiding))
    selected, named = _select_sections(allowed, named, files)
    with (
        reader.stream(f"SELECT {SECTION_COLUMNS} {selected}", named) as sections,
        reader.stream(f"{_FILES}{where} ORDER BY id", bindings) as notes,
    ):
        # Notes and sections are both in the order of files, and each section is in such a note.
        groups = itertools.groupby(sections, itemgetter(0))
        none: tuple[None, Iterator[Any]] = None, iter(())
        file, group = next(groups, none)
        for row in notes:
            of_note = ()
            if file == row[0]:
                of_note = tuple(map(make_section, group))
                file, group = next(groups, none)
            if of_note or row[0] not in hiding:
                yield _note(row, of_note)


def read_note_paths(reader: Reader, *, after: str = "", limit: int = -1) -> list[str]:
    """Return the paths of all indexed notes, or of the first notes after a path."""
    statement = "SELECT path FROM files WHERE path > ? ORDER BY path LIMIT ?"
    return [str(path) for (path,) in reader.rows(statement, (after, limit))]


def read_note_digests(reader: Reader) -> dict[str, str]:
    """Return the digest of each indexed note, by path."""
    return {
        str(path): str(digest) for path, digest in reader.rows("SELECT path, digest FROM files")
    }


_T = TypeVar("_T", bound=NamedTuple)


@contextlib.contextmanager
def stream_sections(
    reader: Reader, fields: type[_T], *, filters: Filters, path: str | None = None
) -> Iterator[Iterator[_T]]:
    """Yield the sections of `stream_notes` by note and line, each as a tuple of the values that
    its fields name. Reading all columns of all sections takes ten times as long.
    """
    columns = ", ".join(_COLUMNS[field] for field in fields._fields)
    files = None if path is None else encode_numbers(find_file_ids(reader, [path]))
    selected, bindings = _select_sections(*compile_section_filters(reader, filters), files)
    with reader.stream(f"SELECT {columns} {selected}", bindings) as rows:
        yield map(fields._make, rows)


# --- Sections by importance ----------------------------------------------------------------------

_PLACE = "s.id, s.file, s.slugs"
_AT_PLACES = (
    "FROM json_each(:places) v CROSS JOIN sections s"
    " ON s.file = v.value ->> 0 AND s.slugs = v.value ->> 1"
)
# The sections of one kind and importance. The index has the latest of each priority first, so that
# no more are read.
_OF_CLASS = (
    f"SELECT :rank, s.moment, s.importance IS NOT NULL, {_PLACE} {{source}}"
    " AND s.kind = :of_kind AND s.importance IS :importance AND s.priority IS {priority}"
)
_PRIORITIES = ("'P0'", "'P1'", "'P2'", "'P3'", "NULL")
_IMPORTANCES = "SELECT DISTINCT importance FROM standings WHERE kind = ? UNION SELECT NULL"
_HAS_CLASSES = "SELECT 1 FROM sqlite_schema WHERE name = 'sections_by_class'"


def has_classes(reader: Reader) -> bool:
    """False during a first index, which makes the index of classes at its end."""
    memo = reader.memo
    if "has_classes" not in memo:
        memo["has_classes"] = bool(reader.rows(_HAS_CLASSES))
    return bool(memo["has_classes"])


class StoredPlace(NamedTuple):
    """A section by its id, the id of its note, and its anchor without the note's path."""

    section: int
    file: int
    slugs: str

    def list_above(self) -> Iterator[tuple[int, str]]:
        """Yield the notes' ids and the anchors of the sections above it, if there are any."""
        slugs = self.slugs
        while "/" in slugs:
            slugs = slugs.rpartition("/")[0]
            yield self.file, slugs


def find_first_places(
    reader: Reader, filters: Filters, importances: Mapping[str, float], *, limit: int
) -> tuple[list[StoredPlace], bool]:
    """Return the sections that pass the filters, and whether these are all. If more than
    `limit` pass, these are the most important and latest ones, in no order.

    `importances` has the importance of kinds, for sections that state none, and that of other kinds
    by an empty name.
    """
    source, bindings = _select_passing(reader, filters)
    bindings["most"] = limit + 1
    if not _are_many_of_kinds(reader, filters, limit):
        passing = reader.many_rows(3, f"SELECT {_PLACE} {source} LIMIT :most", bindings)
        if len(passing) <= limit:
            return [*map(StoredPlace._make, passing)], True
    bindings["most"] = limit
    rest = importances[""]
    kinds = {kind.lower() for each in filters.chain() for kind in each.kinds}
    if not kinds or not has_classes(reader):
        bindings |= {"ranks": json.dumps(importances), "rest": rest}
        order = "coalesce(s.importance, :ranks ->> s.kind, :rest) DESC, s.moment DESC"
        statement = f"SELECT {_PLACE} {source} ORDER BY {order} LIMIT :most"
        passing = reader.many_rows(3, statement, bindings)
        return [*map(StoredPlace._make, passing)], False
    ranked: dict[float, list[tuple[str, float | None]]] = {}
    for kind in kinds:
        for (importance,) in reader.rows(_IMPORTANCES, (kind,)):
            rank = importances.get(kind, rest) if importance is None else importance
            ranked.setdefault(rank, []).append((kind, importance))
    first: list[tuple[Any, ...]] = []
    parts = (_OF_CLASS.format(source=source, priority=priority) for priority in _PRIORITIES)
    statement = f"{' UNION ALL '.join(parts)} ORDER BY 2 DESC, 4 DESC LIMIT :most"
    for rank in sorted(ranked, reverse=True):
        for kind, importance in ranked[rank]:
            bound = {**bindings, "rank": rank, "of_kind": kind, "importance": importance}
            first += reader.rows(statement, bound)
        if len(first) >= limit:
            break
    first.sort(reverse=True)
    return [StoredPlace(*row[-3:]) for row in first[:limit]], False


def _are_many_of_kinds(reader: Reader, filters: Filters, most: int) -> bool:
    """True if the kept counts tell that more than `most` sections pass; False if they do not tell
    it.
    """
    several = [each for each in filters.chain() if each.kinds]
    others = (replace(each, kinds=(), and_=None) for each in filters.chain())
    if len(several) != 1 or not filters.now_s or not all(each.is_hiding_alone for each in others):
        return False
    kept = KeptCounts(reader, filters.now_s)
    return sum(kept.read("kind", kind.lower())[0] for kind in several[0].kinds) > most


def find_named_places(
    reader: Reader, filters: Filters, anchors: Iterable[str]
) -> list[StoredPlace]:
    """Return the sections with these anchors that pass the filters."""
    condition, bindings = compile_section_filters(reader, filters)
    statement = f"SELECT {_PLACE} {OF_ANCHORS} WHERE {condition or 1}"
    rows = reader.rows(statement, {**bindings, "anchors": encode_anchors(anchors)})
    return [*map(StoredPlace._make, rows)]


def find_passing(
    reader: Reader, filters: Filters, places: Iterable[tuple[int, str]]
) -> list[StoredPlace]:
    """Return the sections that pass the filters, of the sections with these anchors in the notes
    with these ids.
    """
    source, bindings = _select_passing(reader, filters, _AT_PLACES)
    bound = {**bindings, "places": json.dumps([*places])}
    return [*map(StoredPlace._make, reader.rows(f"SELECT {_PLACE} {source}", bound))]


def _select_passing(
    reader: Reader, filters: Filters, source: str = "FROM sections s"
) -> tuple[str, dict[str, Any]]:
    """Return the part of a statement after its columns, and its bindings. Notes are read only if
    the filters need them.
    """
    condition, bindings = compile_section_filters(reader, filters)
    joined = " CROSS JOIN files f ON f.id = s.file" if "f." in condition else ""
    return f"{source}{joined} WHERE {condition or 1}", {**bindings}


def _select_sections(
    allowed: str, bindings: Bindings, files: str | None, *, is_by_file: bool = False
) -> tuple[str, Bindings]:
    """Return the part of a statement after its columns, and its bindings. `is_by_file` says that
    the files are few, so that their sections are read rather than all that pass.
    """
    conditions = [allowed] if allowed else []
    source = FROM_SECTIONS
    if files is not None:
        bindings = {**bindings, "of_files": files}
        if is_by_file:
            source = _OF_FILES
        else:
            conditions.append("s.file IN (SELECT value FROM json_each(:of_files))")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{source}{where} ORDER BY s.file, s.start_line", bindings


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
        tags=decode_texts(tags) if tags else (),
        sections=sections,
    )


# --- Counts, for searches without hits ------------------------------------------------------------

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


def count_matches(
    reader: Reader, match: str, filters: Filters | None = None, *, most: int = MAX_COUNTED
) -> int:
    """Count chunks that match an FTS5 expression, up to `most`.

    Without filters, archived chunks count, too.
    """
    passing = MatchFilters() if filters is None else compile_match_filters(reader, filters)
    bound = {"match": match, "most": most, **passing.bindings}
    return int(reader.rows(_COUNT.format(allowed=passing.allowed), bound)[0][0])


def find_matching_kinds(reader: Reader, match: str) -> list[str]:
    """Return the commonest kinds of the chunks that match."""
    return _find_values(reader, _MATCHING_KINDS, match)


def find_matching_tags(reader: Reader, match: str) -> list[str]:
    """Return the commonest tags of the chunks that match."""
    return _find_values(reader, _MATCHING_TAGS, match)


def count_values(reader: Reader, field: str) -> list[tuple[str, int]]:
    """Return the commonest values of a field of `store/counts` in all sections, each with its
    number of sections.
    """
    counts = KeptCounts(reader).list(field, most=MAX_COUNTED)
    return [(value, n_sections) for value, n_sections, _ in counts if value is not None]


def _find_values(reader: Reader, statement: str, match: str) -> list[str]:
    bound = {"match": match, "most": MAX_COUNTED, "values": N_VALUES}
    return [str(row[0]) for row in reader.rows(statement, bound)]


# --- Words, for spelling suggestions --------------------------------------------------------------

# Words that are read at once. The list of words is never read as a whole: that would take as long
# as reading all of the index.
MAX_WORDS = 5000

# One statement for all prefixes: opening the list of words takes longer than looking a word up.
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
    similar = _find_words(reader, [word[:2]]) | _find_words(reader, _list_misspelt_prefixes(word))
    return [*similar.items()]


def find_words_by_first_letter(reader: Reader, word: str) -> list[CountedWord]:
    """Return words with the same first letter, in a large index not all of them."""
    return [*_find_words(reader, [word[:1]]).items()]


def _list_misspelt_prefixes(word: str) -> Iterator[str]:
    """Yield prefixes of words from which `word` differs by its first or second letter: a wrong,
    missing, doubled or swapped letter.
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


# --- Counts of metadata ---------------------------------------------------------------------------

_FROM_ALL = "FROM sections s JOIN files f ON f.id = s.file"
# A filter may call a function in Python: it is called once for each section, not for each group.
_PASSING = f"SELECT json_group_array(s.id) {_FROM_ALL} WHERE {{condition}}"
_OF_PASSING = (
    "FROM (SELECT value AS passing FROM json_each(:passing)) CROSS JOIN sections s"
    " ON s.id = passing JOIN files f ON f.id = s.file"
)
_TOTALS = (
    "SELECT count(*), count(DISTINCT s.file),"
    " (SELECT coalesce(sum(size), 0) FROM files WHERE id IN (SELECT s.file {source})) {source}"
)
_COUNTS_BY_VALUE = (
    "SELECT {value} AS value, {count} AS n, count(DISTINCT s.file) {source}"
    " GROUP BY value ORDER BY {order} LIMIT :most"
)
# A tag counts for the tags in which it is nested, as in the filter. All signs but a slash are
# trimmed from the end of a tag to cut off its last part.
_TAGGED = (
    " LEFT JOIN (WITH RECURSIVE nested(section, tag) AS (SELECT section, tag FROM {tags} UNION"
    " SELECT section, rtrim(rtrim(tag, replace(tag, '/', '')), '/') FROM nested"
    " WHERE tag LIKE '_%/%') SELECT section, tag FROM nested WHERE tag <> '') t"
    " ON t.section = s.id"
)
_ALL_TAGS = "tags"
_TAGS_OF_PASSING = "json_each(:passing) p CROSS JOIN tags ON section = p.value"
DAY = "coalesce(s.day, f.day, date(f.mtime_ns / 1000000000, 'unixepoch', 'localtime'))"
_BY_SIZE = (
    "CASE "
    + " ".join(f"WHEN f.size < {most} THEN '{name}'" for most, name in SIZES)
    + f" ELSE '{LARGEST}' END"
)
# Groups that are not columns: the value, and the order of the values.
_GROUPS = {
    "tag": ("t.tag COLLATE NOCASE", "n DESC, value"),
    "month": (f"substr({DAY}, 1, 7)", "value DESC"),
    "size": (_BY_SIZE, "min(f.size)"),
}


class SectionCounts(NamedTuple):
    """The numbers of sections and of their notes, and the bytes of these notes; then, for each
    group, its values with their numbers of sections and notes.
    """

    n_sections: int
    n_notes: int
    n_bytes: int
    groups: dict[str, list[tuple[str | None, int, int]]]


def count_sections(
    reader: Reader, filters: Filters, groups: Sequence[str], *, most: int
) -> SectionCounts:
    """Count the sections that pass the filters, by columns of sections, tag, month, size, `meta`
    or `meta:KEY`. Without filters, the counts that each commit keeps are read.
    """
    hides = not filters.includes_archived, not filters.includes_expired
    if filters.is_hiding_alone and hides[0] == hides[1]:
        return _read_kept(KeptCounts(reader, filters.now_s if hides[0] else None), groups, most)
    return count_passing(reader, filters, groups, most=most)


def count_passing(
    reader: Reader, filters: Filters, groups: Sequence[str], *, most: int
) -> SectionCounts:
    """As `count_sections`, by reading the sections that pass the filters."""
    source, tags, bindings = _FROM_ALL, _ALL_TAGS, {}
    condition, named = compile_section_filters(reader, filters)
    if condition:
        [(passing,)] = reader.rows(_PASSING.format(condition=condition), named)
        source, tags, bindings = _OF_PASSING, _TAGS_OF_PASSING, {"passing": passing}
    [(n_sections, n_notes, n_bytes)] = reader.rows(_TOTALS.format(source=source), bindings)
    counts = {}
    for group in groups:
        name, _, key = group.partition(":")
        if name == META:
            counts[group] = count_pairs(reader, source, bindings, key or None, most=most)
            continue
        value, order = _GROUPS.get(group, (f"s.{group}", "n DESC, value"))
        joined = source + (_TAGGED.format(tags=tags) if group == "tag" else "")
        # A section may have a tag and a tag nested in it.
        count = "count(DISTINCT s.id)" if group == "tag" else "count(*)"
        statement = _COUNTS_BY_VALUE.format(value=value, count=count, source=joined, order=order)
        counts[group] = reader.rows(statement, {**bindings, "most": most})
    return SectionCounts(n_sections, n_notes, n_bytes, counts)


def _read_kept(kept: KeptCounts, groups: Sequence[str], most: int) -> SectionCounts:
    counts = {}
    for group in groups:
        name, _, key = group.partition(":")
        field = name_meta_field(key) if name == META and key else group
        counts[group] = kept.list(field, most=most)
    n_bytes, _ = kept.read(BYTES)
    return SectionCounts(*kept.read(TOTAL), n_bytes, counts)


# --- Keys and values of free metadata -------------------------------------------------------------

_ALL_PAIRS = (
    "SELECT s.id, s.file, e.key, e.value {source}, json_each(json_patch(coalesce(f.extra, '{{}}'),"
    " coalesce(s.extra, '{{}}'))) e WHERE e.value <> '' {limit}"
)
_OF_KEY = "AND e.key = :key COLLATE NOCASE"


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
    return sorted(counts, key=lambda count: (-count[1], count[0]))[:most]


# --- Kinds and topics -----------------------------------------------------------------------------

_CATEGORIES = (
    "SELECT s.kind, {topic} AS of_topic, {value} AS of_value, count(*)"
    " FROM sections s JOIN files f ON f.id = s.file"
    " WHERE s.status IS NOT 'archived' AND of_value IS NOT NULL"
    " AND EXISTS(SELECT 1 FROM chunks WHERE section = s.id)"
    " GROUP BY 1, 2, 3 HAVING s.kind IS NOT NULL OR of_topic IS NOT NULL"
)
_OF_CATEGORIES = (
    "SELECT c.id, s.id, f.path, s.start_line, s.end_line, s.kind,"
    " {topic} AS of_topic, {value} AS of_value, min(c.start_line)"
    " FROM sections s JOIN files f ON f.id = s.file"
    " JOIN chunks c ON c.section = s.id WHERE s.status IS NOT 'archived'"
    " AND of_value IS NOT NULL AND EXISTS("
    "SELECT 1 FROM json_each(:categories) k WHERE json_extract(k.value, '$[0]') IS s.kind"
    " AND json_extract(k.value, '$[1]') IS of_topic)"
    " GROUP BY s.id ORDER BY f.mtime_ns DESC, f.path, s.start_line LIMIT :most"
)
# The value of a key of a section: of a column, or of the section's other keys, else its note's.
_COLUMN_KEYS = frozenset(("task", "session", "source", "status", "lifecycle", "priority"))
_VALUE = "coalesce(json_extract(s.extra, :place), json_extract(f.extra, :place))"


_TOPICS = (
    f"SELECT {ANCHOR}, {TOPIC} FROM json_each(?) v CROSS JOIN files f ON f.path = v.value ->> 0"
    " CROSS JOIN sections s ON s.file = f.id AND s.slugs = v.value ->> 1"
)


class CategorySection(NamedTuple):
    """A section with its kind, its topic and its value of a key; `chunk` is its first chunk."""

    chunk: int
    section: int
    path: str
    start_line: int
    end_line: int
    kind: str | None
    topic: str | None
    value: str

    @property
    def span(self) -> Span:
        return Span(self.start_line, self.end_line)


def read_topics(reader: Reader, anchors: Iterable[str]) -> dict[str, str]:
    """Return the topic of each of these sections: its key `topic`, else the title of its note."""
    return dict(reader.rows(_TOPICS, (encode_anchors(anchors),)))


def count_categories(
    reader: Reader, *, has_titles: bool = False, key: str = ""
) -> dict[tuple[str | None, str | None, str], int]:
    """Count the sections by kind, topic and value of a key, without archived sections and without
    sections that have neither kind nor topic, or no such key. Without a key the value is empty.
    With `has_titles`, the title of a note is the topic of sections that state none.
    """
    statement, bindings = _compile_categories(_CATEGORIES, key, has_titles=has_titles)
    return {tuple(category): n for *category, n in reader.rows(statement, bindings)}


def find_category_sections(
    reader: Reader,
    categories: Iterable[tuple[str | None, str | None]],
    *,
    limit: int,
    has_titles: bool = False,
    key: str = "",
) -> list[CategorySection]:
    """Return sections of these kinds and topics, not archived, from the notes saved last.
    `has_titles` and `key` are as in `count_categories`.
    """
    statement, bindings = _compile_categories(_OF_CATEGORIES, key, has_titles=has_titles)
    bindings |= {"categories": json.dumps(sorted(categories, key=repr)), "most": limit}
    return [CategorySection(*row[:-1]) for row in reader.rows(statement, bindings)]


def _compile_categories(
    statement: str, key: str, *, has_titles: bool
) -> tuple[str, dict[str, Any]]:
    column = f"s.{key}" if key in _COLUMN_KEYS else _VALUE if key else "''"
    topic = TOPIC if has_titles else STATED_TOPIC
    bindings = {"place": f'$."{key}"'} if column == _VALUE else {}
    return statement.format(topic=topic, value=column), bindings
