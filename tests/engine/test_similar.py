"""What `similar` tells of the sections that it finds."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from memsyncd.config import MemoryConfig
from memsyncd.engine.search import RunOptions
from memsyncd.engine.similar import find_nearly_same, find_similar
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


def test_what_nearly_exists_is_found_by_its_rarest_words_among_many_sections(bench: Any) -> None:
    common = "".join(
        f"## Note {n}\n\nThe service restarts when the pool number {n} waits.\n\n"
        for n in range(250)
    )
    bench.write(".memories/many.md", f"# Many\n\n{common}")
    fact = "The pool waits at most 25 s, since Redis gives up after 30 s."
    bench.write(".memories/redis.md", f"# Redis\n\n## Timeouts\n\n{fact}\n")
    old = "---\nstatus: archived\n---\n# Old\n\n## Timeouts\n\n"
    bench.write(".memories/old.md", f"{old}{fact}\n")
    bench.sync()
    find = partial(find_nearly_same, bench.workspace, config=bench.config, now_s=1.0, limit=5)
    again = fact.replace("at most", "no more than")
    assert [one.anchor for one in find(text=again)] == [".memories/redis.md#redis/timeouts"]
    assert find(text="The service restarts when Redis waits for apples and pears.") == []
    (same, *_) = find(text="The service restarts when the pool number 7 waits.")
    assert same.heading == ["Many", "Note 7"]
    assert find(text="!? ...") == []
    strict = replace(bench.config, memory=MemoryConfig(similar_from=1.0))
    assert find(text=again, config=strict) == []
