"""Which chunks are worth knowing to somebody who has not asked anything? Reading index.db for the block that begins a session.

Pinned is what is tagged so or of great importance; recent are the chunks of the notes saved last. Of each sort there is a most:
more than the largest block can show helps nobody.
"""

from __future__ import annotations

from typing import cast

from memsyncd.core.model import Span
from memsyncd.core.notepath import MEMORY_FILE
from memsyncd.core.search.passages import StartChunk, StartReason
from memsyncd.core.search.query import Filters
from memsyncd.store.filters import compile_filters
from memsyncd.store.readers import Reader

PINNED_TAG = "pinned"
PINNED_IMPORTANCE = 0.9
N_RECENT_NOTES = 20
N_CHUNKS = 600
"""Of each sort: a block of 50,000 tokens holds some 500."""

_STANDING = """
WITH allowed(id, file, section) AS MATERIALIZED (SELECT id, file, section FROM chunks WHERE 1 {allowed}),
recent(file) AS MATERIALIZED (
  SELECT id FROM files WHERE id IN (SELECT file FROM allowed) ORDER BY mtime_ns DESC, path LIMIT :n_notes
),
sorted AS (
  SELECT a.id, a.section, a.file, CASE
    WHEN s.importance >= :pinned_importance
      OR a.section IN (SELECT section FROM tags WHERE tag = :pinned_tag COLLATE NOCASE) THEN 'pinned'
    WHEN f.path = :memory_file THEN 'MEMORY.md'
    WHEN s.lifecycle = 'project' THEN 'project'
    WHEN a.file IN (SELECT file FROM recent) THEN 'recent' END AS reason,
    coalesce(s.importance, 1.0) AS weight, f.path, f.mtime_ns
  FROM allowed a JOIN sections s ON s.id = a.section JOIN files f ON f.id = a.file
),
numbered AS (
  SELECT r.*, c.start_line, c.end_line, c.tokens,
    row_number() OVER (PARTITION BY r.reason ORDER BY r.mtime_ns DESC, r.path, c.start_line, c.id) AS number
  FROM sorted r JOIN chunks c ON c.id = r.id WHERE r.reason IS NOT NULL
)
SELECT id, section, path, start_line, end_line, tokens, reason, weight, mtime_ns FROM numbered WHERE number <= :n_chunks
"""


def find_standing(reader: Reader, filters: Filters) -> list[StartChunk]:
    """Chunks that `filters` let through and that have a reason to be shown unasked, in no order that matters."""
    allowed, bindings = compile_filters(reader, filters)
    named = {
        "n_notes": N_RECENT_NOTES,
        "n_chunks": N_CHUNKS,
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
        for row in reader.rows(_STANDING.format(allowed=allowed), {**named, **bindings})
    ]
