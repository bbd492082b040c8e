from __future__ import annotations

from collections.abc import Callable
from string import ascii_lowercase
from typing import NamedTuple

import pytest

from memsyncd.core.model import Problem, Span
from memsyncd.core.search.filters import NO_FILTERS, Filters
from memsyncd.store import lookup
from memsyncd.store.index import DropNote, Index, PutNote
from memsyncd.store.lookup import (
    StoredNote,
    by_path,
    count_matches,
    count_values,
    find_matching_kinds,
    find_matching_tags,
    find_similar_words,
    find_words_by_first_letter,
    stream_notes,
    stream_sections,
)
from memsyncd.store.sections import (
    read_anchors,
    read_digest,
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
    filters = Filters(kinds=(kind,) if kind else (), tags=(tag,) if tag else ())
    with index.pool.acquire(5) as reader:
        return sorted(stream_notes(reader, path=path, filters=filters), key=by_path)


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
    assert [(requested, show(list_notes(filled, **requested))) for requested, _ in LISTS] == LISTS


class _Place(NamedTuple):
    """Fields in an order of their own."""

    level: int
    anchor: str
    kind: str | None


def test_notes_of_given_paths_are_read_and_no_others(filled: Index) -> None:
    every = {note.path: note for note in list_notes(filled)}
    with filled.pool.acquire(5) as reader:
        for among in ([], ["MEMORY.md"], [".memories/b.md", "none.md", "MEMORY.md"]):
            results = sorted(stream_notes(reader, among=among, filters=NO_FILTERS), key=by_path)
            assert results == [every[path] for path in sorted(among) if path in every]


def test_sections_are_streamed_with_the_values_that_are_asked_for(filled: Index) -> None:
    def read(filters: Filters, path: str | None = None) -> list[_Place]:
        with (
            filled.pool.acquire(5) as reader,
            stream_sections(reader, _Place, filters=filters, path=path) as sections,
        ):
            return [*sections]

    for path in (None, ".memories", "MEMORY.md"):
        for filters in (NO_FILTERS, Filters(kinds=("error",)), Filters(tags=("auth",))):
            with filled.pool.acquire(5) as reader:
                notes = list(stream_notes(reader, path=path, filters=filters))
            wanted = [
                _Place(section.level, section.anchor, section.kind)
                for note in notes
                for section in note.sections
            ]
            assert sorted(read(filters, path)) == sorted(wanted)
    assert read(Filters(kinds=("error",))) == [_Place(2, "MEMORY.md#cache/deep", "error")]


def test_a_section_is_found_by_its_anchor(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        section = read_section(reader, "MEMORY.md#cache/deep")
        assert section is not None
        assert (section[0], section[1].span) == ("MEMORY.md", Span(9, 11))
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


# --- counts for explanations ----------------------------------------------------------------------


@pytest.fixture
def tagged(index: Index, put: Callable[..., PutNote]) -> Index:
    index.apply([
        put("MEMORY.md", "---\nkind: decision\ntags: [auth, ops]\n---\n# A\nredis\n\n# B\nredis\n"),
        put(".memories/e.md", "---\nkind: error\ntags: [ops]\n---\n# C\nredis\n"),
        put(".memories/old.md", "---\nstatus: archived\n---\n# D\nredis and a kraken\n"),
    ])  # fmt: skip
    return index


def test_matches_are_counted_with_and_without_filters(tagged: Index) -> None:
    with tagged.pool.acquire(5) as reader:
        assert count_matches(reader, '"redis"') == 4
        assert count_matches(reader, '"redis"', Filters()) == 3
        assert count_matches(reader, '"redis"', Filters(kinds=("error",))) == 1
        assert count_matches(reader, '"kraken"', Filters()) == 0
        assert count_matches(reader, '"nowhere"') == 0


def test_counting_stops_at_a_limit(tagged: Index) -> None:
    with tagged.pool.acquire(5) as reader:
        assert count_matches(reader, '"redis"', most=2) == 2
        assert count_matches(reader, '"redis"') > 2


def test_kinds_and_tags_of_matches_are_listed_by_frequency(tagged: Index) -> None:
    with tagged.pool.acquire(5) as reader:
        assert find_matching_kinds(reader, '"redis"') == ["decision", "error"]
        assert find_matching_tags(reader, '"redis"') == ["ops", "auth"]
        assert find_matching_kinds(reader, '"kraken"') == []
        assert find_matching_tags(reader, '"kraken"') == []


def test_all_kinds_and_tags_are_listed_by_frequency(tagged: Index) -> None:
    with tagged.pool.acquire(5) as reader:
        assert count_values(reader, "kind")[:2] == [("decision", 3), ("error", 2)]
        assert [tag for tag, _ in count_values(reader, "tag")] == ["ops", "auth"]


# --- similar words --------------------------------------------------------------------------------


@pytest.fixture
def worded(index: Index, put: Put) -> Index:
    index.apply([
        put("MEMORY.md", "# Caching\n\nRedis caches sessions; the café is open.\n"),
        put(".memories/b.md", "redis Éclair éclairs\n"),
    ])  # fmt: skip
    return index


def find_alike(index: Index, word: str) -> dict[str, int]:
    with index.pool.acquire(5) as reader:
        return dict(find_similar_words(reader, word))


def find_of_letter(index: Index, word: str) -> dict[str, int]:
    with index.pool.acquire(5) as reader:
        return dict(find_words_by_first_letter(reader, word))


def test_words_are_counted_without_case_and_accents(
    worded: Index,
) -> None:
    assert find_alike(worded, "rebus") == {"redis": 2}
    assert find_alike(worded, "caxxxx") == {"caching": 1, "caches": 1, "cafe": 1}
    assert find_of_letter(worded, "cxxxxx") == {"caching": 1, "caches": 1, "cafe": 1}
    assert find_alike(worded, "ecxxxx") == {"eclair": 1, "eclairs": 1}


def test_a_word_is_found_with_one_typing_error_at_its_beginning(worded: Index) -> None:
    typed = "edis xredis erdis tedis rdis rxedis rdeis rtdis rredis reddis".split()
    assert not [word for word in typed if "redis" not in find_alike(worded, word)]


@pytest.mark.parametrize("typed", ["cache", "ecxlair", "xyzzy", "r", "opne", "éclair"])
def test_words_are_found_by_all_beginnings_as_by_each(worded: Index, typed: str) -> None:
    with worded.pool.acquire(5) as reader:
        words = dict(reader.rows("SELECT term, doc FROM words_exact"))
    beginnings = {typed[:2]}
    for at in (0, 1):
        head, rest = typed[:at], typed[at:]
        beginnings |= {head + rest[1:4], head + rest[1::-1] + rest[2:4]}
        beginnings |= {head + letter + rest[1:4] for letter in ascii_lowercase}
        beginnings |= {head + letter + rest[:3] for letter in ascii_lowercase}
    expected = {
        word: n
        for word, n in words.items()
        if any(word.startswith(beginning) for beginning in beginnings if beginning)
    }
    assert find_alike(worded, typed) == expected


def test_a_word_of_a_deleted_note_is_not_found(worded: Index) -> None:
    worded.apply([DropNote(".memories/b.md")])
    assert find_alike(worded, "eclipse") == {}


def test_any_text_can_be_looked_up(worded: Index) -> None:
    for word in ("\U0010ffff" * 3, "\x00\x00\x00", '"""', "日本語", "%_*"):
        assert "redis" not in find_alike(worded, word)
        assert "redis" not in find_of_letter(worded, word)


def test_the_number_of_words_read_is_limited(
    worded: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MAX_WORDS", 2)
    assert len(find_of_letter(worded, "c")) == 2
