from __future__ import annotations

from collections.abc import Callable

import pytest

from memsyncd.core.model import Problem, Span
from memsyncd.store.index import Index, PutNote
from memsyncd.store.lookup import (
    StoredNote,
    read_anchors,
    read_digest,
    read_notes,
    read_problems,
    read_section,
    read_sections_of,
)

Put = Callable[..., PutNote]

NOTE = """\
---
kind: decision
tags: [auth, two words]
---
intro
# Cache
red #Hot

## Deep
<!-- memory: {kind: error, importance: 0.5} -->
dark
"""


@pytest.fixture
def filled(index: Index, put: Put) -> Index:
    index.apply(
        [
            put("MEMORY.md", NOTE),
            put(".memories/b.md", "plain\n\n```\nopen"),
            put(".memories/a/c.md", "# C\n#auth text\n"),
        ]
    )
    return index


def list_notes(
    index: Index, *, path: str | None = None, kind: str | None = None, tag: str | None = None
) -> list[StoredNote]:
    with index.pool.acquire(5) as reader:
        return read_notes(reader, path=path, kind=kind, tag=tag)


def show(notes: list[StoredNote]) -> dict[str, list[str]]:
    return {
        note.path: [section.anchor.partition("#")[2] for section in note.sections] for note in notes
    }


def test_notes_come_in_order_of_path_with_their_sections_in_order_of_lines(filled: Index) -> None:
    notes = list_notes(filled)
    assert [note.path for note in notes] == [".memories/a/c.md", ".memories/b.md", "MEMORY.md"]
    assert show(notes)["MEMORY.md"] == ["", "cache", "cache/deep"]


def test_a_note_is_listed_with_its_metadata(filled: Index) -> None:
    note = list_notes(filled, path="MEMORY.md")[0]
    assert (note.title, note.kind, note.tags, note.n_lines) == (
        "Cache",
        "decision",
        ("auth", "two words"),
        11,
    )
    assert note.size_bytes == len(NOTE)
    assert note.digest == filled.recorded()["MEMORY.md"].digest
    _, cache, deep = note.sections
    assert (cache.heading, cache.level, cache.span, cache.kind) == (
        ("Cache",),
        1,
        Span(6, 8),
        "decision",
    )
    assert cache.tags == ("Hot", "auth", "two words")
    assert (deep.heading, deep.level, deep.span, deep.kind) == (
        ("Cache", "Deep"),
        2,
        Span(9, 11),
        "error",
    )
    assert deep.importance == 0.5


LISTS = [
    ({"path": ".memories"}, {".memories/a/c.md": ["c"], ".memories/b.md": [""]}),
    ({"path": "**/c.md"}, {".memories/a/c.md": ["c"]}),
    ({"path": "none"}, {}),
    ({"kind": "error"}, {"MEMORY.md": ["cache/deep"]}),
    ({"kind": "Error"}, {"MEMORY.md": ["cache/deep"]}),
    ({"tag": "hot"}, {"MEMORY.md": ["cache"]}),
    ({"tag": "#HOT"}, {"MEMORY.md": ["cache"]}),
    ({"tag": "auth"}, {".memories/a/c.md": ["c"], "MEMORY.md": ["", "cache", "cache/deep"]}),
    ({"tag": "auth", "kind": "decision"}, {"MEMORY.md": ["", "cache"]}),
    ({"tag": "auth", "path": ".memories"}, {".memories/a/c.md": ["c"]}),
    ({"tag": "none"}, {}),
]


def test_lists_contain_the_selected_notes(filled: Index) -> None:
    assert [(asked, show(list_notes(filled, **asked))) for asked, _ in LISTS] == LISTS


def test_a_section_is_found_by_its_anchor(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        found = read_section(reader, "MEMORY.md#cache/deep")
        assert found is not None
        assert (found[0], found[1].span) == ("MEMORY.md", Span(9, 11))
        assert read_section(reader, "MEMORY.md#none") is None
        assert read_anchors(reader, "MEMORY.md") == [
            "MEMORY.md#",
            "MEMORY.md#cache",
            "MEMORY.md#cache/deep",
        ]
        assert read_sections_of(reader, "none.md") == []


def test_a_digest_is_returned_for_indexed_notes_only(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        assert read_digest(reader, "MEMORY.md") == filled.recorded()["MEMORY.md"].digest
        assert read_digest(reader, "none.md") is None


def test_problems_come_in_order_of_path_and_line(filled: Index, put: Put) -> None:
    filled.apply([put(".memories/a.md", b"ok\n\xff\n")])
    with filled.pool.acquire(5) as reader:
        problems = read_problems(reader)
    assert [(problem.path, problem.line, problem.code) for problem in problems] == [
        (".memories/a.md", 2, "not_utf8"),
        (".memories/b.md", 3, "unclosed_fence"),
    ]
    assert all(isinstance(problem, Problem) and problem.hint for problem in problems)
