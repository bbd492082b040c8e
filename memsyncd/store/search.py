"""Which chunks match, and what do they say? Reading index.db for search, in two steps.

First row ids with their bm25, the best `limit` of them: SQLite keeps a short list and reads no text. Then, for the few that are
shown, their rows and text. Joining the two in one statement would fetch text for every match.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memsyncd.core.changes.globs import Globs, has_wildcard
from memsyncd.core.recall.ranking import Candidate
from memsyncd.core.span import Span
from memsyncd.store.readers import Reader

HEADING_WEIGHT, TEXT_WEIGHT, TAGS_WEIGHT = 1.0, 1.0, 1.0

_MATCHES = (
    f"SELECT rowid, bm25(chunks_fts, {HEADING_WEIGHT}, {TEXT_WEIGHT}, {TAGS_WEIGHT}) AS cost FROM chunks_fts"
    " WHERE chunks_fts MATCH :match {allowed} ORDER BY cost LIMIT :limit"
)
_PLACES = (
    "SELECT c.id, c.file, c.section, f.path, c.start_line, c.end_line, c.tokens FROM chunks c JOIN files f ON f.id = c.file"
    " WHERE c.id IN (SELECT value FROM json_each(?))"
)
_SECTIONS = (
    "SELECT s.id, s.anchor, s.heading, s.kind, s.importance, f.digest,"
    " (SELECT group_concat(tag, char(31) ORDER BY tag) FROM tags WHERE section = s.id)"
    " FROM sections s JOIN files f ON f.id = s.file WHERE s.id IN (SELECT value FROM json_each(?))"
)
_TEXTS = "SELECT rowid, heading, text, tags FROM chunks_fts WHERE rowid IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Empty means all; several values of one kind mean any of them, whatever their case. `paths` are paths, folders or globs."""

    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.words

    @property
    def words(self) -> tuple[str, ...]:
        """Which filters there are, as people call them."""
        named = {"kind": self.kinds, "tag": self.tags, "path": self.paths}
        return tuple(word for word, values in named.items() if values)


NO_FILTERS = Filters()


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
    """The `limit` chunks of least bm25 for an FTS5 expression, in no order that matters."""
    allowed, bindings = _compile_filters(reader, filters)
    statement = _MATCHES.format(allowed=f"AND rowid IN ({allowed})" if allowed else "")
    costs = dict(reader.rows(statement, {"match": match, "limit": limit, **bindings}))
    return [
        Candidate(
            chunk=row[0], file=row[1], section=row[2], path=row[3], span=Span(row[4], row[5]), n_tokens=row[6], cost=costs[row[0]]
        )
        for row in reader.rows(_PLACES, (json.dumps(list(costs)),))
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


def _compile_filters(reader: Reader, filters: Filters) -> tuple[str, dict[str, str]]:
    """A statement that selects the chunks that `filters` let through, empty for all, with its bindings."""
    if filters.is_empty:
        return "", {}
    conditions, bindings = [], {}
    if filters.kinds:
        conditions.append("c.section IN (SELECT id FROM sections WHERE kind IN (SELECT value FROM json_each(:kinds)))")
        bindings["kinds"] = json.dumps([kind.lower() for kind in filters.kinds])
    if filters.tags:
        conditions.append(
            "c.section IN (SELECT section FROM tags WHERE tag COLLATE NOCASE IN (SELECT value FROM json_each(:tags)))"
        )
        bindings["tags"] = json.dumps([tag.removeprefix("#") for tag in filters.tags])
    if filters.paths:
        conditions.append("c.file IN (SELECT value FROM json_each(:files))")
        bindings["files"] = json.dumps(find_files(reader, filters.paths))
    return f"SELECT c.id FROM chunks c WHERE {' AND '.join(conditions)}", bindings


def find_files(reader: Reader, paths: Iterable[str]) -> list[int]:
    """Ids of the files that are one of `paths`, lie beneath one, or match one that is a glob.

    Raises BadRequest for a glob that cannot be.
    """
    found: set[int] = set()
    for path in paths:
        if has_wildcard(path):
            found.update(_find_globbed(reader, path))
        else:
            folder = path.rstrip("/")
            beneath = (folder, f"{folder}/", f"{folder}0")
            rows = reader.rows("SELECT id FROM files WHERE path = ? OR (path >= ? AND path < ?)", beneath)
            found.update(row[0] for row in rows)
    return sorted(found)


def _find_globbed(reader: Reader, pattern: str) -> list[int]:
    globs = Globs.parse([pattern])
    return [row[0] for row in reader.rows("SELECT id, path FROM files") if globs.matches(row[1])]
