from __future__ import annotations

from collections.abc import Callable

import pytest

from memsyncd.core.model import Span
from memsyncd.core.search.query import NO_FILTERS, Filters
from memsyncd.errors import NotFresh
from memsyncd.store.index import Index, PutNote
from memsyncd.store.search import (
    find_candidates,
    find_matching,
    is_frequent,
    is_matching,
    read_sections,
)
from memsyncd.store.texts import read_texts

Put = Callable[..., PutNote]


@pytest.fixture
def filled(index: Index, put: Put) -> Index:
    index.apply([
        put("MEMORY.md", "---\nkind: decision\ntags: [auth, Two Words]\n---\n# Cache\nredis is hot\n\n# Disk\nit is cold\n"),
        put(".memories/api/notes.md", "# Cache\n<!-- memory: {kind: error, importance: 0.5} -->\nredis timeout #Auth\n"),
        put(".memories/api-old.md", "redis was slow\n"),
        put(".memories/b.txt", "cold redis disk\n"),
    ])  # fmt: skip
    return index


def find(index: Index, match: str, filters: Filters = NO_FILTERS, *, limit: int = 100) -> list[str]:
    """`path:start-end` of what matches, the best first."""
    with index.pool.acquire(5) as reader:
        found = find_candidates(reader, match, filters, limit=limit)
    return [
        f"{c.path}:{c.span.start}-{c.span.end}"
        for c in sorted(found, key=lambda c: (-c.stemmed, c.path, c.span))
    ]


def find_paths(index: Index, match: str, **filters: tuple[str, ...]) -> list[str]:
    return sorted({place.rpartition(":")[0] for place in find(index, match, Filters(**filters))})


def test_candidates_say_where_they_stand_and_how_strong_they_are(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        [candidate] = find_candidates(reader, '"hot"', NO_FILTERS, limit=10)
        section = read_sections(reader, [candidate.section])[candidate.section]
        text = read_texts(reader, [candidate.chunk])[candidate.chunk]
    assert (candidate.path, candidate.span) == ("MEMORY.md", Span(5, 6))
    assert candidate.stemmed > 0
    assert candidate.exact > 0
    assert candidate.n_tokens == 5
    assert (section.anchor, section.heading, section.kind) == (
        "MEMORY.md#cache",
        ("Cache",),
        "decision",
    )
    assert section.tags == ("Two Words", "auth")
    assert section.digest == filled.recorded()["MEMORY.md"].digest
    assert text == "# Cache\nredis is hot"


def test_of_some_chunks_those_are_told_that_hold_a_term_wherever_it_is_indexed(
    filled: Index,
) -> None:
    with filled.pool.acquire(5) as reader:
        found = find_candidates(reader, '"redis" OR "disk"', NO_FILTERS, limit=10)
        chunks = {candidate.chunk: candidate.path for candidate in found}
        held = {
            term: find_matching(reader, f'"{term}"', [*chunks])
            for term in ("cache", "auth", "redis", "slow", "nowhere")
        }
        few = find_matching(
            reader, '"redis"', [chunk for chunk, path in chunks.items() if path.endswith(".txt")]
        )
    assert sorted(chunks[chunk] for chunk in held["cache"]) == [
        ".memories/api/notes.md",
        "MEMORY.md",
    ]
    assert sorted({chunks[chunk] for chunk in held["auth"]}) == [
        ".memories/api/notes.md",
        "MEMORY.md",
    ]
    assert [chunks[chunk] for chunk in held["slow"]] == [".memories/api-old.md"]
    assert not held["nowhere"]
    assert [chunks[chunk] for chunk in few] == [".memories/b.txt"]


def test_text_headings_paths_and_tags_are_searched(filled: Index) -> None:
    assert find_paths(filled, '"slow"') == [".memories/api-old.md"]
    assert find_paths(filled, '"cache"') == [".memories/api/notes.md", "MEMORY.md"]
    assert find_paths(filled, '"api"') == [".memories/api-old.md", ".memories/api/notes.md"]
    assert find_paths(filled, '"auth"') == [".memories/api/notes.md", "MEMORY.md"]


def test_only_the_best_are_candidates(filled: Index) -> None:
    everything = find(filled, '"redis"')
    assert len(everything) == 4
    assert find(filled, '"redis"', limit=2) == everything[:2]


LET_THROUGH = [
    ({"kinds": ("decision",)}, ["MEMORY.md"]),
    ({"kinds": ("Decision", "error")}, [".memories/api/notes.md", "MEMORY.md"]),
    ({"kinds": ("none",)}, []),
    ({"tags": ("auth",)}, [".memories/api/notes.md", "MEMORY.md"]),
    ({"tags": ("#AUTH",)}, [".memories/api/notes.md", "MEMORY.md"]),
    ({"tags": ("two words",)}, ["MEMORY.md"]),
    ({"tags": ("auth",), "kinds": ("error",)}, [".memories/api/notes.md"]),
    ({"paths": ("MEMORY.md",)}, ["MEMORY.md"]),
    ({"paths": (".memories/api",)}, [".memories/api/notes.md"]),
    ({"paths": (".memories/api/",)}, [".memories/api/notes.md"]),
    ({"paths": (".memories/*.md",)}, [".memories/api-old.md"]),
    ({"paths": ("**/*.txt", "MEMORY.md")}, [".memories/b.txt", "MEMORY.md"]),
    ({"paths": ("none",)}, []),
]


def test_filters_let_through_what_they_name(filled: Index) -> None:
    assert [
        (filters, find_paths(filled, '"redis"', **filters)) for filters, _ in LET_THROUGH
    ] == LET_THROUGH


def test_filters_hold_before_the_best_are_taken(index: Index, put: Put) -> None:
    index.apply([put(f".memories/{number}.md", "redis redis redis") for number in range(20)])
    index.apply([put("MEMORY.md", f"redis {'and much else besides ' * 20}")])
    assert find(index, '"redis"', Filters(paths=("MEMORY.md",)), limit=3) == ["MEMORY.md:1-1"]


def test_whether_anything_matches_is_told_without_filters(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        assert is_matching(reader, '"redis"')
        assert not is_matching(reader, '"nowhere"')


def test_a_query_that_takes_too_long_is_stopped_and_its_reader_goes_on(
    index: Index, put: Put
) -> None:
    index.apply([put(f".memories/{number}.md", "a b c d e f g h " * 400) for number in range(60)])
    match = " OR ".join(f'"{word} {other}"' for word in "abcdefgh" for other in "abcdefgh")
    with pytest.raises(NotFresh), index.pool.acquire(0.001) as reader:
        find_candidates(reader, match, NO_FILTERS, limit=200)
    with index.pool.acquire(30) as again:
        assert again is reader
        assert find_candidates(again, '"a b"', NO_FILTERS, limit=5)


def test_a_word_is_frequent_that_more_chunks_hold_than_are_counted(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        n_redis = len(find(filled, '"redis"'))
        assert n_redis > 1
        assert is_frequent(reader, '"redis"', most=n_redis - 1)
        assert not is_frequent(reader, '"redis"', most=n_redis)
        assert not is_frequent(reader, '"nowhere"', most=0)
