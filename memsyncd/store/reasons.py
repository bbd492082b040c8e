"""What would have matched but for the filters, and what of it did they ask for in vain? Counts for answers that are empty."""

from __future__ import annotations

from memsyncd.core.search.query import Filters
from memsyncd.store.filters import compile_filters
from memsyncd.store.readers import Reader

MOST_COUNTED = 1000
"""Matches; more are as many."""
N_VALUES = 5
"""Of a kind or tag, named at most."""

_COUNT = "SELECT count(*) FROM (SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH :match {allowed} LIMIT :most)"
_MATCHED = "SELECT c.section FROM chunks c WHERE c.id IN (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH :match LIMIT :most)"
_KINDS = (
    f"SELECT kind, count(*) AS n FROM sections WHERE id IN ({_MATCHED}) AND kind IS NOT NULL"
    " GROUP BY kind ORDER BY n DESC, kind LIMIT :values"
)
_TAGS = f"SELECT tag, count(*) AS n FROM tags WHERE section IN ({_MATCHED}) GROUP BY tag ORDER BY n DESC, tag LIMIT :values"
_ALL_KINDS = "SELECT kind, count(*) AS n FROM sections WHERE kind IS NOT NULL GROUP BY kind ORDER BY n DESC, kind LIMIT ?"
_ALL_TAGS = "SELECT tag, count(*) AS n FROM tags GROUP BY tag ORDER BY n DESC, tag LIMIT ?"


def count_matches(reader: Reader, match: str, filters: Filters | None = None, *, most: int = MOST_COUNTED) -> int:
    """Chunks that match an FTS5 expression, up to `most`: all, archived ones too, or those that filters let through."""
    allowed, bindings = compile_filters(reader, filters) if filters is not None else ("", {})
    rows = reader.rows(_COUNT.format(allowed=allowed), {"match": match, "most": most, **bindings})
    return int(rows[0][0])


def find_matching_kinds(reader: Reader, match: str) -> list[str]:
    """The commonest kinds of what matches."""
    return _find_values(reader, _KINDS, match)


def find_matching_tags(reader: Reader, match: str) -> list[str]:
    """The commonest tags of what matches."""
    return _find_values(reader, _TAGS, match)


def find_kinds(reader: Reader) -> list[tuple[str, int]]:
    """The commonest kinds of all sections, each with how many have it."""
    return reader.rows(_ALL_KINDS, (MOST_COUNTED,))


def find_tags(reader: Reader) -> list[tuple[str, int]]:
    """The commonest tags of all sections, each with how many have it."""
    return reader.rows(_ALL_TAGS, (MOST_COUNTED,))


def _find_values(reader: Reader, statement: str, match: str) -> list[str]:
    rows = reader.rows(statement, {"match": match, "most": MOST_COUNTED, "values": N_VALUES})
    return [str(row[0]) for row in rows]
