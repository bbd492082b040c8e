"""Which chunks match, and what do they say? Reading index.db for search, in two steps.

First row ids with their bm25, the best `limit` of them: SQLite keeps a short list and reads no text. Then, for the few that are
shown, their rows and text. Joining the two in one statement would fetch text for every match.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from memsyncd.core.model import Span
from memsyncd.core.search.query import Filters
from memsyncd.core.search.ranking import Candidate, RankingFeatures
from memsyncd.store.filters import compile_filters
from memsyncd.store.readers import Reader

HEADING_WEIGHT, TEXT_WEIGHT, TAGS_WEIGHT, PARTS_WEIGHT = 1.5, 1.0, 1.0, 1.0
N_ALIKE = 50
"""So many more are asked for than are wanted: the last that is wanted is seldom like more of them than that."""

_WEIGHTS = f"{HEADING_WEIGHT}, {TEXT_WEIGHT}, {TAGS_WEIGHT}, {PARTS_WEIGHT}"
_LEG = (
    "SELECT rowid, -bm25({table}, {weights}) AS strength FROM {table}"
    " WHERE {table} MATCH :match {allowed} ORDER BY bm25({table}, {weights}) LIMIT :limit"
)
_LEG_IN_ORDER = (
    "WITH found AS MATERIALIZED"
    " (SELECT rowid AS id, -bm25({table}, {weights}) AS strength FROM {table} WHERE {table} MATCH :match {allowed})"
    " SELECT found.id, strength FROM found JOIN chunks c ON c.id = found.id JOIN files f ON f.id = c.file"
    " WHERE strength >= :least ORDER BY strength DESC, f.path, c.start_line, c.end_line, c.digest LIMIT :limit"
)
_CHUNKS = (
    "SELECT c.id, c.file, c.section, f.path, c.start_line, c.end_line, c.tokens, f.day"
    " FROM chunks c JOIN files f ON f.id = c.file WHERE c.id IN"
)
_PLACES = f"{_CHUNKS} (SELECT value FROM json_each(?))"
_LET_THROUGH = (
    f"{_CHUNKS} (SELECT rowid FROM chunks WHERE 1 {{allowed}}) {{unwanted}} ORDER BY f.path, c.start_line, c.id LIMIT :limit"
)
_UNWANTED = "AND {id} NOT IN (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH :unwanted)"
_HOLDERS = (
    "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH :match"
    # The plus as in `filters`: with a bare rowid FTS5 is asked once for each.
    " AND +rowid IN (SELECT value FROM json_each(:chunks))"
)
_SECTIONS = (
    "SELECT s.id, s.anchor, s.heading, s.kind, s.importance, f.digest,"
    " (SELECT group_concat(tag, char(31) ORDER BY tag) FROM tags WHERE section = s.id)"
    " FROM sections s JOIN files f ON f.id = s.file WHERE s.id IN (SELECT value FROM json_each(?))"
)
_TRAITS = (
    "SELECT c.id, s.importance, s.kind, coalesce(s.day, f.day), f.mtime_ns"
    " FROM chunks c JOIN sections s ON s.id = c.section JOIN files f ON f.id = c.file"
    " WHERE c.id IN (SELECT value FROM json_each(?))"
)
_TEXTS = "SELECT rowid, heading, text, tags FROM chunks_fts WHERE rowid IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSection:
    """What an answer says of a hit's section; `digest` is that of the file as indexed."""

    anchor: str
    heading: tuple[str, ...]
    kind: str | None
    importance: float | None
    tags: tuple[str, ...]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownText:
    """A chunk as FTS5 holds it."""

    heading: str
    text: str
    tags: str


def find_candidates(reader: Reader, match: str, filters: Filters, *, limit: int, unwanted: str = "") -> list[Candidate]:
    """The `limit` chunks that fit an FTS5 expression best, of each leg, or some more if these fit as well as the last of them.

    What meets the expression `unwanted` is none of them. They come in no order that matters.
    """
    allowed, bindings = compile_filters(reader, filters)
    bound = {"match": match, **bindings}
    if unwanted:
        allowed, bound["unwanted"] = f"{allowed} {_UNWANTED.format(id='+rowid')}", unwanted
    stemmed, exact = (_find_leg(reader, table, allowed, bound, limit) for table in ("chunks_fts", "chunks_exact"))
    rows = reader.rows(_PLACES, (json.dumps(list(stemmed.keys() | exact.keys())),))
    return [_candidate(row, stemmed.get(row[0], 0.0), exact.get(row[0], 0.0)) for row in rows]


def _find_leg(reader: Reader, table: str, allowed: str, bound: dict[str, Any], limit: int) -> dict[int, float]:
    """Strengths by chunk. Which of many that are alike SQLite happens to come upon first must not decide what is found."""
    most = limit + N_ALIKE
    rows = reader.rows(_LEG.format(table=table, weights=_WEIGHTS, allowed=allowed), {**bound, "limit": most})
    if len(rows) <= limit:
        return dict(rows)
    least = rows[limit - 1][1]
    if len(rows) == most and rows[-1][1] == least:
        statement = _LEG_IN_ORDER.format(table=table, weights=_WEIGHTS, allowed=allowed)
        return dict(reader.rows(statement, {**bound, "least": least, "limit": limit}))
    return {chunk: strength for chunk, strength in rows if strength >= least}


def find_let_through(reader: Reader, filters: Filters, unwanted: str, *, limit: int) -> list[Candidate]:
    """The first `limit` chunks, by path and line, that filters let through and that do not meet an FTS5 expression, if any."""
    allowed, bindings = compile_filters(reader, filters)
    statement = _LET_THROUGH.format(allowed=allowed, unwanted=_UNWANTED.format(id="c.id") if unwanted else "")
    bound = {"limit": limit, **({"unwanted": unwanted} if unwanted else {}), **bindings}
    return [_candidate(row, 0.0, 0.0) for row in reader.rows(statement, bound)]


def is_frequent(reader: Reader, match: str, *, most: int) -> bool:
    """True if more than `most` chunks meet an FTS5 expression; no more than these are counted."""
    statement = "SELECT count(*) > :most FROM (SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH :match LIMIT :most + 1)"
    return bool(reader.rows(statement, {"match": match, "most": most})[0][0])


def is_matching(reader: Reader, match: str) -> bool:
    """True if anything at all matches the expression."""
    return bool(reader.rows("SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT 1", (match,)))


def find_holders(reader: Reader, match: str, chunks: Sequence[int]) -> set[int]:
    """Those of `chunks` that meet an FTS5 expression."""
    return {row[0] for row in reader.rows(_HOLDERS, {"match": match, "chunks": json.dumps(chunks)})}


def read_sections(reader: Reader, ids: Iterable[int]) -> dict[int, ShownSection]:
    return {
        row[0]: ShownSection(
            anchor=row[1],
            heading=tuple(json.loads(row[2])),
            kind=row[3],
            importance=row[4],
            digest=row[5],
            tags=tuple(row[6].split("\x1f")) if row[6] else (),
        )
        for row in reader.rows(_SECTIONS, (json.dumps(list(ids)),))
    }


def read_traits(reader: Reader, chunks: Iterable[int]) -> dict[int, RankingFeatures]:
    rows = reader.rows(_TRAITS, (json.dumps(list(chunks)),))
    return {row[0]: RankingFeatures(importance=row[1], kind=row[2], day=row[3], saved_s=row[4] / 1e9) for row in rows}


def read_texts(reader: Reader, chunks: Sequence[int]) -> dict[int, ShownText]:
    rows = reader.rows(_TEXTS, (json.dumps(chunks),))
    return {row[0]: ShownText(heading=row[1], text=row[2], tags=row[3]) for row in rows}


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
