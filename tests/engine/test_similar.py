"""What `similar` tells of the sections that it finds."""

from __future__ import annotations

from typing import Any

from memsyncd.engine.search import RunOptions
from memsyncd.engine.similar import find_similar
from memsyncd.protocol.search import SimilarParams
from tests.engine.conftest import SEARCH_POLICY, search_in

TEXT = "Redis gives up after 30 s; we saw the timeout in staging."
NOTE = f"# Project\n\n## Timeout\n\n{TEXT}\n\n## Summary\n\n- {TEXT}\n- Parsers are slow.\n"


def test_a_similar_section_has_its_own_lines_where_a_passage_goes_on(bench: Any) -> None:
    bench.config = SEARCH_POLICY
    bench.write("MEMORY.md", NOTE)
    bench.rebuild()
    hits = search_in([bench.workspace], TEXT).hits
    assert [(hit.anchor, hit.end_line) for hit in hits] == [("MEMORY.md#project/timeout", 10)]
    [found] = find_similar(
        bench.workspace, SimilarParams(text=TEXT), SEARCH_POLICY, RunOptions(now_s=1.0)
    )
    assert (found.anchor, found.start_line, found.end_line) == ("MEMORY.md#project/timeout", 3, 6)
