"""How many blank lines stand right before a chunk? Chunks hold all other lines of a section, so a gap between is blank."""

from __future__ import annotations

import json
from collections.abc import Iterable

from memsyncd.store.readers import Reader

_GAPS = """
SELECT id, start_line - 1 - before FROM (
  SELECT id, start_line, max(end_line) OVER (
    PARTITION BY section ORDER BY start_line, end_line, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS before
  FROM chunks WHERE section IN (SELECT value FROM json_each(?))
) WHERE start_line - 1 > before
"""


def count_blanks_before(reader: Reader, sections: Iterable[int]) -> dict[int, int]:
    """By chunk of these sections the number, for those chunks that have a gap before them."""
    return dict(reader.rows(_GAPS, (json.dumps(list(sections)),)))
