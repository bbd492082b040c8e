"""Search index.db: compile filters, find candidates, and read the rows of hits.

A search takes two steps. First the row ids of the best `limit` chunks with their bm25: SQLite keeps
a short list and reads no text. Then the rows and text of the few that are shown. Joining the two in
one statement would fetch the text of every match.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec

from memsyncd.core.globs import Globs, has_wildcard
from memsyncd.core.model import SecretLines, Span
from memsyncd.core.notepath import MEMORY_FILE, MEMORY_FOLDER
from memsyncd.core.search.passages import StartChunk, StartReason
from memsyncd.core.search.query import Filters
from memsyncd.core.search.ranking import Candidate, RankingFeatures
from memsyncd.store.pool import Reader

# --- filters ------------------------------------------------------------------------------------

Bindings = dict[str, str]

# The plus keeps SQLite from asking FTS5 once for each id of the set, as it does for a bare rowid.
_AMONG = (
    "AND +rowid IN (SELECT id FROM chunks WHERE section IN"
    " (SELECT s.id FROM sections s WHERE {conditions}))"
)
_IS_ANY_ARCHIVED = "SELECT 1 FROM sections WHERE status = 'archived' LIMIT 1"
_NOT_ARCHIVED = (
    "AND +rowid NOT IN (SELECT id FROM chunks WHERE section IN"
    " (SELECT id FROM sections WHERE status = 'archived'))"
)

_VALUES = "(SELECT value FROM json_each({values}))"
_KIND = f"s.kind IN {_VALUES}"
_TAG = f"s.id IN (SELECT section FROM tags WHERE tag COLLATE NOCASE IN {_VALUES})"
_FILE = f"s.file IN {_VALUES}"
_ALL_TAGS = "SELECT DISTINCT tag FROM tags"
_ALL_TASKS = "SELECT DISTINCT task FROM sections WHERE task IS NOT NULL"
_BELOW = "SELECT id FROM files WHERE path = ? OR (path >= ? AND path < ?)"
_DAY = "coalesce(s.day, (SELECT day FROM files WHERE id = s.file))"
_TASK = f"s.task COLLATE NOCASE IN {_VALUES}"
# An anchor contains the slugs of the section and of those above it. They are compared between
# dashes, so that only whole words match.
_SLUGS = (
    "'-' || replace(substr(s.anchor, (SELECT length(path) FROM files WHERE id = s.file) + 2),"
    " '/', '-/-') || '-'"
)
_SECTION = (
    "EXISTS (SELECT 1 FROM json_each({values}) WHERE iif(instr(value, '#'),"
    " s.anchor = value OR (s.anchor > value || '/' AND s.anchor < value || '0'),"
    f" instr({_SLUGS}, value)))"
)


def compile_filters(reader: Reader, filters: Filters) -> tuple[str, Bindings]:
    """Compile filters to SQL that limits rows of an FTS5 table, and its bindings.

    The SQL begins with AND, and is empty if there is nothing to limit. Raises BadRequest for an
    invalid glob.
    """
    conditions: list[str] = []
    bindings: Bindings = {}
    for one in filters.chain():
        conditions += _compile(reader, one, bindings)
        if one.exclude is not None:
            excluded = _compile(reader, one.exclude, bindings)
            conditions += [f"NOT coalesce({condition}, 0)" for condition in excluded]
    if any(one.is_archived for one in filters.chain()):
        conditions.append("s.status = 'archived'")
    elif conditions:
        conditions.append("s.status IS NOT 'archived'")
    else:
        # This query is cheap, and looking each match up in an empty set is not.
        return _NOT_ARCHIVED if reader.rows(_IS_ANY_ARCHIVED) else "", {}
    return _AMONG.format(conditions=" AND ".join(conditions)), bindings


def find_file_ids(reader: Reader, paths: Iterable[str]) -> list[int]:
    """Return the ids of files that are one of `paths`, lie below one, or match one that is a glob.

    A path that matches nothing from the root is looked up below `.memories/`. Raises BadRequest for
    an invalid glob.
    """
    found: set[int] = set()
    for path in paths:
        text = path.removeprefix("./")
        if text.strip("/"):
            found.update(
                _find_files(reader, text) or _find_files(reader, f"{MEMORY_FOLDER}/{text}")
            )
    return sorted(found)


def _compile(reader: Reader, filters: Filters, bindings: Bindings) -> list[str]:
    """Return the conditions of one set of filters, and add their bindings."""
    tags = [tag.lstrip("#") for tag in filters.tags]
    sections = (value for one in filters.sections for value in _find_section_values(one))
    lists: tuple[tuple[str, tuple[str, ...], Iterable[object]], ...] = (
        (_KIND, filters.kinds, (kind.lower() for kind in filters.kinds)),
        (_TAG, filters.tags, _find_equal_folded(reader, _ALL_TAGS, tags)),
        (_FILE, filters.paths, find_file_ids(reader, filters.paths)),
        (_TASK, filters.tasks, _find_equal_folded(reader, _ALL_TASKS, filters.tasks)),
        (_SECTION, filters.sections, sections),
    )
    conditions = [
        condition.format(values=_bind(json.dumps(list(values)), bindings))
        for condition, filtered, values in lists
        if filtered
    ]
    if filters.after is not None:
        conditions.append(f"{_DAY} >= {_bind(filters.after, bindings)}")
    if filters.before is not None:
        conditions.append(f"{_DAY} < {_bind(filters.before, bindings)}")
    return conditions


def _bind(value: str, bindings: Bindings) -> str:
    name = f"filter_{len(bindings)}"
    bindings[name] = value
    return f":{name}"


def _find_equal_folded(reader: Reader, statement: str, values: Sequence[str]) -> list[str]:
    """Return the stored values that equal one of `values` but for case and composed accents.

    SQLite's NOCASE folds ASCII alone.
    """
    if all(map(str.isascii, values)):
        return [*values]
    folded = set(map(_fold, values))
    return [value for (value,) in reader.rows(statement) if _fold(value) in folded]


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _find_forms(text: str) -> set[str]:
    """Return the text with accents composed, as people type, and decomposed, as some file systems
    store names.
    """
    if text.isascii():
        return {text}
    return {text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)}


def _find_section_values(text: str) -> set[str]:
    """Return an anchor as it is, and words as slugs between dashes, to compare with `_SLUGS`.

    A `/` may separate headings or be part of one.
    """
    # Few questions name a section, and this imports the scanner of markdown.
    from memsyncd.core.markdown.sections import make_slug

    words = text.lstrip("#")
    if "#" in words:
        return _find_forms(text)
    forms = _find_forms(words)
    nested = ("-/-".join(map(make_slug, form.split("/"))) for form in forms)
    return {f"-{slug}-" for slug in (*map(make_slug, forms), *nested)}


def _find_files(reader: Reader, path: str) -> list[int]:
    if has_wildcard(path):
        globs = _parse_glob(path)
        rows = reader.rows("SELECT id, path FROM files")
        return [row[0] for row in rows if globs.matches(row[1])]
    found: list[int] = []
    for folder in _find_forms(path.rstrip("/")):
        found += (row[0] for row in reader.rows(_BELOW, (folder, f"{folder}/", f"{folder}0")))
    return found


# A search without hits tries each filter by itself.
@lru_cache(maxsize=64)
def _parse_glob(pattern: str) -> Globs:
    return Globs.parse([pattern])


# --- candidates ---------------------------------------------------------------------------------

HEADING_WEIGHT, TEXT_WEIGHT, TAGS_WEIGHT, SUBWORDS_WEIGHT = 1.5, 1.0, 1.0, 1.0
# Rows that a retriever reads beyond its limit: the last within the limit rarely ties with more.
N_TIES = 50

_WEIGHTS = f"{HEADING_WEIGHT}, {TEXT_WEIGHT}, {TAGS_WEIGHT}, {SUBWORDS_WEIGHT}"
_BEST = (
    "SELECT rowid, -bm25({table}, {weights}) AS raw_score FROM {table}"
    " WHERE {table} MATCH :match {allowed} ORDER BY bm25({table}, {weights}) LIMIT :limit"
)
_BEST_IN_ORDER = (
    "WITH found AS MATERIALIZED (SELECT rowid AS id, -bm25({table}, {weights}) AS raw_score"
    " FROM {table} WHERE {table} MATCH :match {allowed})"
    " SELECT found.id, raw_score FROM found JOIN chunks c ON c.id = found.id"
    " JOIN files f ON f.id = c.file WHERE raw_score >= :least"
    " ORDER BY raw_score DESC, f.path, c.start_line, c.end_line, c.digest LIMIT :limit"
)
_CHUNKS = (
    "SELECT c.id, c.file, c.section, f.path, c.start_line, c.end_line, c.tokens, f.day"
    " FROM chunks c JOIN files f ON f.id = c.file WHERE c.id IN"
)
_CANDIDATES = f"{_CHUNKS} (SELECT value FROM json_each(?))"
_FILTERED = (
    f"{_CHUNKS} (SELECT rowid FROM chunks WHERE 1 {{allowed}}) {{must_not}}"
    " ORDER BY f.path, c.start_line, c.id LIMIT :limit"
)
_MUST_NOT = "AND {id} NOT IN (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH :must_not)"
_MATCHING = (
    "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH :match"
    # The plus as in the filters: with a bare rowid FTS5 is asked once for each.
    " AND +rowid IN (SELECT value FROM json_each(:chunks))"
)
_IS_FREQUENT = (
    "SELECT count(*) > :most"
    " FROM (SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH :match LIMIT :most + 1)"
)


def find_candidates(
    reader: Reader, match: str, filters: Filters, *, limit: int, must_not: str = ""
) -> list[Candidate]:
    """Return the `limit` best chunks of each retriever (stemmed and exact words) for an FTS5
    expression, and those that tie with the last, in no particular order.

    Chunks that match the expression `must_not` are excluded.
    """
    allowed, bindings = compile_filters(reader, filters)
    bound = {"match": match, **bindings}
    if must_not:
        allowed = f"{allowed} {_MUST_NOT.format(id='+rowid')}"
        bound["must_not"] = must_not
    stemmed = _find_best(reader, "chunks_fts", allowed, bound, limit)
    exact = _find_best(reader, "chunks_exact", allowed, bound, limit)
    rows = reader.rows(_CANDIDATES, (json.dumps(list(stemmed.keys() | exact.keys())),))
    return [_candidate(row, stemmed.get(row[0], 0.0), exact.get(row[0], 0.0)) for row in rows]


def _find_best(
    reader: Reader, table: str, allowed: str, bound: dict[str, Any], limit: int
) -> dict[int, float]:
    """Return raw scores by chunk. The order in which SQLite finds chunks with equal scores must not
    decide which are found.
    """
    most = limit + N_TIES
    statement = _BEST.format(table=table, weights=_WEIGHTS, allowed=allowed)
    rows = reader.rows(statement, {**bound, "limit": most})
    if len(rows) <= limit:
        return dict(rows)
    least = rows[limit - 1][1]
    if len(rows) == most and rows[-1][1] == least:
        statement = _BEST_IN_ORDER.format(table=table, weights=_WEIGHTS, allowed=allowed)
        return dict(reader.rows(statement, {**bound, "least": least, "limit": limit}))
    return {chunk: raw_score for chunk, raw_score in rows if raw_score >= least}


def find_filtered(
    reader: Reader, filters: Filters, must_not: str, *, limit: int
) -> list[Candidate]:
    """Return the first `limit` chunks by path and line that pass the filters and do not match the
    FTS5 expression `must_not`, if it is not empty.
    """
    allowed, bindings = compile_filters(reader, filters)
    excluded = _MUST_NOT.format(id="c.id") if must_not else ""
    bound = {"limit": limit, **({"must_not": must_not} if must_not else {}), **bindings}
    rows = reader.rows(_FILTERED.format(allowed=allowed, must_not=excluded), bound)
    return [_candidate(row, 0.0, 0.0) for row in rows]


def is_frequent(reader: Reader, match: str, *, most: int) -> bool:
    """True if more than `most` chunks match an FTS5 expression; counts no further than that."""
    return bool(reader.rows(_IS_FREQUENT, {"match": match, "most": most})[0][0])


def is_matching(reader: Reader, match: str) -> bool:
    """True if any chunk matches an FTS5 expression."""
    statement = "SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT 1"
    return bool(reader.rows(statement, (match,)))


def find_matching(reader: Reader, match: str, chunks: Sequence[int]) -> set[int]:
    """Return those of `chunks` that match an FTS5 expression."""
    return {
        row[0] for row in reader.rows(_MATCHING, {"match": match, "chunks": json.dumps(chunks)})
    }


def _candidate(row: tuple[Any, ...], stemmed: float, exact: float) -> Candidate:
    chunk, file, section, path, start, end, n_tokens, day = row
    return Candidate(
        chunk=chunk,
        file=file,
        section=section,
        path=path,
        span=Span(start, end),
        n_tokens=n_tokens,
        day=day,
        stemmed=stemmed,
        exact=exact,
    )


# --- the rows of hits ---------------------------------------------------------------------------

_SECTIONS = (
    "SELECT s.id, s.anchor, s.heading, s.kind, s.importance, f.digest,"
    " (SELECT group_concat(tag, char(31) ORDER BY tag) FROM tags WHERE section = s.id)"
    " FROM sections s JOIN files f ON f.id = s.file WHERE s.id IN (SELECT value FROM json_each(?))"
)
_FEATURES = (
    "SELECT c.id, s.importance, s.kind, coalesce(s.day, f.day), f.mtime_ns"
    " FROM chunks c JOIN sections s ON s.id = c.section JOIN files f ON f.id = c.file"
    " WHERE c.id IN (SELECT value FROM json_each(?))"
)
_TEXTS = (
    "SELECT rowid, heading, text, tags FROM chunks_fts"
    " WHERE rowid IN (SELECT value FROM json_each(?))"
)
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


class HitSection(msgspec.Struct, frozen=True, kw_only=True):
    """The section of a hit; `digest` is that of the file as indexed."""

    anchor: str
    heading: tuple[str, ...]
    kind: str | None
    importance: float | None
    tags: tuple[str, ...]
    digest: str


class ChunkText(msgspec.Struct, frozen=True, kw_only=True):
    """The FTS5 columns of a chunk."""

    heading: str
    text: str
    tags: str


def read_sections(reader: Reader, ids: Iterable[int]) -> dict[int, HitSection]:
    """Return sections by id."""
    return {
        row[0]: HitSection(
            anchor=row[1],
            heading=tuple(json.loads(row[2])),
            kind=row[3],
            importance=row[4],
            digest=row[5],
            tags=tuple(row[6].split("\x1f")) if row[6] else (),
        )
        for row in reader.rows(_SECTIONS, (json.dumps(list(ids)),))
    }


def read_ranking_features(reader: Reader, chunks: Iterable[int]) -> dict[int, RankingFeatures]:
    """Return what the boosts of a search depend on, by chunk."""
    rows = reader.rows(_FEATURES, (json.dumps(list(chunks)),))
    return {
        row[0]: RankingFeatures(importance=row[1], kind=row[2], day=row[3], saved_s=row[4] / 1e9)
        for row in rows
    }


def read_texts(reader: Reader, chunks: Sequence[int]) -> dict[int, ChunkText]:
    """Return the text of chunks."""
    rows = reader.rows(_TEXTS, (json.dumps(chunks),))
    return {row[0]: ChunkText(heading=row[1], text=row[2], tags=row[3]) for row in rows}


def count_blank_lines_before(reader: Reader, sections: Iterable[int]) -> dict[int, int]:
    """Return the number of blank lines right before each chunk of these sections, if there are
    any.
    """
    return dict(reader.rows(_BLANK_LINES, (json.dumps(list(sections)),)))


# --- secrets ------------------------------------------------------------------------------------

_HAS_SECRETS = "SELECT EXISTS(SELECT 1 FROM secrets)"
_SECRETS_OF_CHUNKS = (
    "SELECT c.id, c.start_line, c.end_line, s.start_line, s.end_line, s.what,"
    " EXISTS(SELECT 1 FROM chunks o WHERE o.file = c.file AND o.start_line = c.start_line"
    " AND o.end_line = c.end_line AND o.id <> c.id)"
    " FROM chunks c JOIN secrets s"
    " ON s.file = c.file AND s.start_line <= c.end_line AND s.end_line >= c.start_line"
    " WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id, s.start_line, s.end_line"
)


class ChunkSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a chunk, and in order the lines of all secrets that overlap them.

    `is_partial`: the chunk holds only a part of the text of its lines.
    """

    span: Span
    is_partial: bool
    secrets: list[SecretLines]


def has_secrets(reader: Reader) -> bool:
    """True if any note contains a secret, or the index is too old to know."""
    if not reader.connection.table_exists(None, "secrets"):
        return True
    return bool(reader.rows(_HAS_SECRETS)[0][0])


def read_chunk_secrets(reader: Reader, chunks: Iterable[int]) -> dict[int, ChunkSecrets]:
    """Return the secrets of each of `chunks` that shares lines with one."""
    if not reader.connection.table_exists(None, "secrets"):
        return {}
    found: dict[int, ChunkSecrets] = {}
    rows = reader.rows(_SECRETS_OF_CHUNKS, (json.dumps(list(chunks)),))
    for chunk, start, end, first, last, what, is_partial in rows:
        of_chunk = ChunkSecrets(span=Span(start, end), is_partial=bool(is_partial), secrets=[])
        secret = SecretLines(span=Span(first, last), what=what)
        found.setdefault(chunk, of_chunk).secrets.append(secret)
    return found


# --- session start ------------------------------------------------------------------------------

PINNED_TAG = "pinned"
PINNED_IMPORTANCE = 0.9
N_RECENT_NOTES = 20
# Of each reason: a context of 50,000 tokens holds some 500 chunks.
N_START_CHUNKS = 600

_START_CHUNKS = """
WITH allowed(id, file, section) AS MATERIALIZED (
  SELECT id, file, section FROM chunks WHERE 1 {allowed}
),
recent(file) AS MATERIALIZED (
  SELECT id FROM files WHERE id IN (SELECT file FROM allowed)
  ORDER BY mtime_ns DESC, path LIMIT :n_notes
),
sorted AS (
  SELECT a.id, a.section, a.file, CASE
    WHEN s.importance >= :pinned_importance
      OR a.section IN (SELECT section FROM tags WHERE tag = :pinned_tag COLLATE NOCASE)
      THEN 'pinned'
    WHEN f.path = :memory_file THEN 'MEMORY.md'
    WHEN s.lifecycle = 'project' THEN 'project'
    WHEN a.file IN (SELECT file FROM recent) THEN 'recent' END AS reason,
    coalesce(s.importance, 1.0) AS weight, f.path, f.mtime_ns
  FROM allowed a JOIN sections s ON s.id = a.section JOIN files f ON f.id = a.file
),
numbered AS (
  SELECT r.*, c.start_line, c.end_line, c.tokens, row_number() OVER (
    PARTITION BY r.reason ORDER BY r.mtime_ns DESC, r.path, c.start_line, c.id
  ) AS number
  FROM sorted r JOIN chunks c ON c.id = r.id WHERE r.reason IS NOT NULL
)
SELECT id, section, path, start_line, end_line, tokens, reason, weight, mtime_ns
FROM numbered WHERE number <= :n_chunks
"""


def find_start_chunks(reader: Reader, filters: Filters) -> list[StartChunk]:
    """Return chunks for the context of a session start: pinned (by tag or importance), in
    MEMORY.md, of lifecycle `project`, or of the notes saved last. In no particular order.
    """
    allowed, bindings = compile_filters(reader, filters)
    named = {
        "n_notes": N_RECENT_NOTES,
        "n_chunks": N_START_CHUNKS,
        "pinned_tag": PINNED_TAG,
        "pinned_importance": PINNED_IMPORTANCE,
        "memory_file": MEMORY_FILE,
    }
    return [
        StartChunk(
            chunk=row[0],
            section=row[1],
            path=row[2],
            span=Span(row[3], row[4]),
            n_tokens=row[5],
            reason=cast("StartReason", row[6]),
            weight=row[7],
            modified_ns=row[8],
        )
        for row in reader.rows(_START_CHUNKS.format(allowed=allowed), {**named, **bindings})
    ]
