"""Which chunks match, and what do they say? Reading index.db for search, in two steps.

First row ids with their bm25, the best `limit` of them: SQLite keeps a short list and reads no text. Then, for the few that are
shown, their rows and text. Joining the two in one statement would fetch text for every match.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memsyncd.core.recall.filters import Filters
from memsyncd.core.recall.ranking import Candidate
from memsyncd.core.span import Span
from memsyncd.store.filters import compile_filters
from memsyncd.store.readers import Reader

HEADING_WEIGHT, TEXT_WEIGHT, TAGS_WEIGHT, PARTS_WEIGHT = 1.5, 1.0, 1.0, 1.0

_WEIGHTS = f"{HEADING_WEIGHT}, {TEXT_WEIGHT}, {TAGS_WEIGHT}, {PARTS_WEIGHT}"
_LEG = (
    "SELECT rowid, -bm25({table}, {weights}) AS strength FROM {table}"
    " WHERE {table} MATCH :match {allowed} ORDER BY bm25({table}, {weights}) LIMIT :limit"
)
_PLACES = (
    "SELECT c.id, c.file, c.section, f.path, c.start_line, c.end_line, c.tokens, f.day"
    " FROM chunks c JOIN files f ON f.id = c.file WHERE c.id IN (SELECT value FROM json_each(?))"
)
_SECTIONS = (
    "SELECT s.id, s.anchor, s.heading, s.kind, s.importance, f.digest,"
    " (SELECT group_concat(tag, char(31) ORDER BY tag) FROM tags WHERE section = s.id)"
    " FROM sections s JOIN files f ON f.id = s.file WHERE s.id IN (SELECT value FROM json_each(?))"
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


def find_candidates(reader: Reader, match: str, filters: Filters, *, limit: int) -> list[Candidate]:
    """The `limit` chunks that fit an FTS5 expression best, of each leg, in no order that matters."""
    allowed, bindings = compile_filters(reader, filters)
    bound = {"match": match, "limit": limit, **bindings}
    stemmed, exact = (
        dict(reader.rows(_LEG.format(table=table, weights=_WEIGHTS, allowed=allowed), bound))
        for table in ("chunks_fts", "chunks_exact")
    )
    return [
        Candidate(
            chunk=row[0],
            file=row[1],
            section=row[2],
            path=row[3],
            span=Span(row[4], row[5]),
            n_tokens=row[6],
            day=row[7],
            stemmed=stemmed.get(row[0], 0.0),
            exact=exact.get(row[0], 0.0),
        )
        for row in reader.rows(_PLACES, (json.dumps(list(stemmed.keys() | exact.keys())),))
    ]


def is_matching(reader: Reader, match: str) -> bool:
    """True if anything at all matches the expression."""
    return bool(reader.rows("SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT 1", (match,)))


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


def read_texts(reader: Reader, chunks: Sequence[int]) -> dict[int, ShownText]:
    rows = reader.rows(_TEXTS, (json.dumps(chunks),))
    return {row[0]: ShownText(heading=row[1], text=row[2], tags=row[3]) for row in rows}
