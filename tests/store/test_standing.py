from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memsyncd.core.search.query import NO_FILTERS, Filters
from memsyncd.store.index import Index
from memsyncd.store.search import (
    N_RECENT_NOTES,
    N_START_CHUNKS,
    count_blank_lines_before,
    find_start_chunks,
)


def find(index: Index, filters: Filters = NO_FILTERS) -> list[tuple[str, str]]:
    with index.pool.acquire(5) as reader:
        return sorted(
            (f"{chunk.path}:{chunk.span.start}", chunk.reason)
            for chunk in find_start_chunks(reader, filters)
        )


@pytest.fixture
def filled(index: Index, put: Callable[..., Any]) -> Index:
    index.apply(
        [
            put(
                "MEMORY.md",
                "# One\nalpha\n\n# Two\n<!-- memory: {tags: [Pinned]} -->\nbeta\n",
                tick=1,
            ),
            put(".memories/weighty.md", "---\nimportance: 0.9\n---\nheavy\n", tick=2),
            put(".memories/light.md", "---\nimportance: 0.89\n---\nlight\n", tick=3),
            put(
                ".memories/project.md",
                "---\nlifecycle: project\nkind: profile\n---\nthe project\n",
                tick=4,
            ),
            put(
                ".memories/gone.md",
                "---\nstatus: archived\ntags: [pinned]\n---\nlong ago\n",
                tick=99,
            ),
        ]
    )
    return index


def test_each_chunk_has_the_first_reason_that_holds(filled: Index) -> None:
    found = find(filled)
    assert [(place, reason) for place, reason in found if place.startswith("MEMORY")] == [
        ("MEMORY.md:1", "MEMORY.md"),
        ("MEMORY.md:4", "pinned"),
    ]
    assert {
        (place.partition(":")[0], reason)
        for place, reason in found
        if not place.startswith("MEMORY")
    } == {
        (".memories/weighty.md", "pinned"),
        (".memories/light.md", "recent"),
        (".memories/project.md", "project"),
    }


def test_archived_sections_are_returned_only_if_requested(filled: Index) -> None:
    assert not [place for place, _ in find(filled) if "gone" in place]
    assert {place.partition(":")[0] for place, _ in find(filled, Filters(is_archived=True))} == {
        ".memories/gone.md"
    }


def test_filters_apply_to_the_session_start_too(filled: Index) -> None:
    assert {place.partition(":")[0] for place, _ in find(filled, Filters(kinds=("profile",)))} == {
        ".memories/project.md"
    }
    assert {place for place, _ in find(filled, Filters(paths=("MEMORY.md",)))} == {
        "MEMORY.md:1",
        "MEMORY.md:4",
    }


def test_only_the_notes_saved_last_are_recent(index: Index, put: Callable[..., Any]) -> None:
    index.apply(
        [put(f".memories/{i:03}.md", f"note {i}\n", tick=i) for i in range(N_RECENT_NOTES + 5)]
    )
    recent = [place for place, _ in find(index)]
    assert len(recent) == N_RECENT_NOTES
    assert recent[0] == ".memories/005.md:1"


def test_filters_apply_before_recent_notes_are_counted(
    index: Index, put: Callable[..., Any]
) -> None:
    old = put(".memories/old.md", "---\nkind: decision\n---\nold\n", tick=1)
    index.apply(
        [
            old,
            *(
                put(f".memories/{i:03}.md", f"note {i}\n", tick=i)
                for i in range(2, N_RECENT_NOTES + 5)
            ),
        ]
    )
    assert find(index, Filters(kinds=("decision",)))
    assert not [place for place, _ in find(index) if "old" in place]


def test_each_reason_has_a_limit(index: Index, put: Callable[..., Any]) -> None:
    paragraphs = "\n\n".join(
        f"paragraph {i} is as long as a chunk may be, or nearly, give or take a word"
        for i in range(N_START_CHUNKS + 50)
    )
    index.apply([put("MEMORY.md", paragraphs), put(".memories/new.md", "new\n", tick=2)])
    reasons = [reason for _, reason in find(index)]
    assert (reasons.count("MEMORY.md"), reasons.count("recent")) == (N_START_CHUNKS, 1)


def test_blank_lines_between_chunks_are_counted(index: Index, put: Callable[..., Any]) -> None:
    paragraph = (
        "words enough for a chunk of its own, whatever else there is, so that none is joined to it"
    )
    index.apply(
        [put("MEMORY.md", f"{paragraph}\n\n{paragraph}\n\n\n{paragraph}\n# Next\n\nword\n")]
    )
    with index.pool.acquire(5) as reader:
        lines = dict(reader.rows("SELECT id, start_line FROM chunks"))
        sections = [row[0] for row in reader.rows("SELECT id FROM sections")]
        found = {lines[chunk]: n for chunk, n in count_blank_lines_before(reader, sections).items()}
    assert found == {3: 1, 6: 2}
