from __future__ import annotations

from collections.abc import Callable

import pytest

from memsyncd.core.search.query import Filters
from memsyncd.store.index import Index, PutNote
from memsyncd.store.lookup import (
    count_kinds,
    count_matches,
    count_tags,
    find_matching_kinds,
    find_matching_tags,
)


@pytest.fixture
def filled(index: Index, put: Callable[..., PutNote]) -> Index:
    index.apply([
        put("MEMORY.md", "---\nkind: decision\ntags: [auth, ops]\n---\n# A\nredis\n\n# B\nredis\n"),
        put(".memories/e.md", "---\nkind: error\ntags: [ops]\n---\n# C\nredis\n"),
        put(".memories/old.md", "---\nstatus: archived\n---\n# D\nredis and a kraken\n"),
    ])  # fmt: skip
    return index


def test_matches_are_counted_with_and_without_filters(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        assert count_matches(reader, '"redis"') == 4
        assert count_matches(reader, '"redis"', Filters()) == 3
        assert count_matches(reader, '"redis"', Filters(kinds=("error",))) == 1
        assert count_matches(reader, '"kraken"', Filters()) == 0
        assert count_matches(reader, '"nowhere"') == 0


def test_counting_stops_at_a_limit(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        assert count_matches(reader, '"redis"', most=2) == 2
        assert count_matches(reader, '"redis"') > 2


def test_kinds_and_tags_of_matches_are_listed_by_frequency(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        assert find_matching_kinds(reader, '"redis"') == ["decision", "error"]
        assert find_matching_tags(reader, '"redis"') == ["ops", "auth"]
        assert find_matching_kinds(reader, '"kraken"') == []
        assert find_matching_tags(reader, '"kraken"') == []


def test_all_kinds_and_tags_are_listed_by_frequency(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        assert count_kinds(reader)[:2] == [("decision", 3), ("error", 2)]
        assert [tag for tag, _ in count_tags(reader)] == ["ops", "auth"]
