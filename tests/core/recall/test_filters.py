from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.search.query import NO_FILTERS, VALUE_LIMIT, Filters, extract_filters, parse_day

NAMES = ("kind", "tag", "path", "section", "task", "is", "after", "before")
typed = st.lists(
    st.sampled_from(
        [*NAMES, ":", '"', "-", " ", "archived", "2026-03-01", "2026-13", "#x", "../*", "a b", "é", "\0", "\ud800", "["]
    )
    | st.text(max_size=3),
    max_size=30,
).map("".join)


@pytest.mark.parametrize(
    ("text", "filters", "rest"),
    [
        ("", {}, ""),
        ("redis timeout", {}, "redis timeout"),
        ("kind:decision", {"kinds": ("decision",)}, ""),
        ("redis kind:decision timeout", {"kinds": ("decision",)}, "redis timeout"),
        ("KIND:Decision", {"kinds": ("Decision",)}, ""),
        ("kind:decision kind:error kind:error", {"kinds": ("decision", "error")}, ""),
        ('tag:"two words" x', {"tags": ("two words",)}, "x"),
        ("tag:#auth", {"tags": ("auth",)}, ""),
        ("path:.memories/api", {"paths": (".memories/api",)}, ""),
        ("path:**/*.txt path:MEMORY.md", {"paths": ("**/*.txt", "MEMORY.md")}, ""),
        ('section:"Cache keys"', {"sections": ("Cache keys",)}, ""),
        ("section:MEMORY.md#cache/keys", {"sections": ("MEMORY.md#cache/keys",)}, ""),
        ("task:WU-12", {"tasks": ("WU-12",)}, ""),
        ("is:archived old", {"is_archived": True}, "old"),
        ("is:Archived", {"is_archived": True}, ""),
        ("after:2026-03-01", {"after": "2026-03-01"}, ""),
        ("after:2026-3 before:2026", {"after": "2026-03-01", "before": "2026-01-01"}, ""),
        ("after:2026-01-01 after:2026-02-01", {"after": "2026-02-01"}, ""),
        ("before:2026-01-01 before:2026-02-01", {"before": "2026-01-01"}, ""),
        ("redis -kind:draft", {"exclude": Filters(kinds=("draft",))}, "redis"),
        ('-tag:a -tag:"b c" tag:d', {"tags": ("d",), "exclude": Filters(tags=("a", "b c"))}, ""),
        ("what of kind:decision, and tag:c++?", {"kinds": ("decision",), "tags": ("c++",)}, "what of and"),
        ("since after:2026-03!", {"after": "2026-03-01"}, "since"),
        ('kind:"a?" path:a? -task:x.', {"kinds": ("a?",), "paths": ("a?",), "exclude": Filters(tasks=("x",))}, ""),
        # What looks like a filter and is none.
        ("kind: decision", {}, "kind: decision"),
        ("kind:", {}, "kind:"),
        ('kind:""', {}, 'kind:""'),
        ('kind:"open', {}, 'kind:"open'),
        ("kind:?!", {}, "kind:?!"),
        ("tag:#", {}, "tag:#"),
        ("colour:red", {}, "colour:red"),
        ("mankind:lost", {}, "mankind:lost"),
        ("(kind:x", {}, "(kind:x"),
        ("--kind:x", {}, "--kind:x"),
        ("is:open", {}, "is:open"),
        ("-is:archived", {}, "-is:archived"),
        ("-after:2026", {}, "-after:2026"),
        ("after:spring", {}, "after:spring"),
        ("after:2026-02-30", {}, "after:2026-02-30"),
        ("before:0000", {}, "before:0000"),
        ("path:../*", {}, "path:../*"),
        ("tag:a\0b", {}, "tag:a\0b"),
        ("tag:\ud800", {}, "tag:\ud800"),
        ('"a kind:x b"', {}, '"a kind:x b"'),
        ('5" disk kind:x "and" tag:y', {"tags": ("y",)}, '5" disk kind:x "and"'),
    ],
)
def test_filters_are_taken_out_of_what_was_typed(text: str, filters: dict[str, Any], rest: str) -> None:
    taken, left = extract_filters(text)
    assert taken == Filters(**filters)
    assert left.split() == rest.split()


def test_a_text_holds_no_more_filters_than_the_limit() -> None:
    taken, rest = extract_filters(" ".join(f"tag:t{number}" for number in range(VALUE_LIMIT + 2)))
    assert len(taken.tags) == VALUE_LIMIT
    assert rest.split() == [f"tag:t{VALUE_LIMIT}", f"tag:t{VALUE_LIMIT + 1}"]


@given(typed)
@example('kind:"' * 100)
@example("-" * 500 + "kind:x")
def test_any_text_can_be_asked_for_filters_and_phrases_are_never_touched(text: str) -> None:
    taken, rest = extract_filters(text)
    assert taken.is_empty == (rest == text)
    assert len(rest) <= len(text)
    quoted = '"' + text.replace('"', "") + '"'
    assert extract_filters(quoted) == (NO_FILTERS, quoted)


@given(st.text(alphabet="0123456789-/. ", max_size=12))
@example("2026-2-28")
@example("9999-12-31")
def test_a_day_is_one_of_the_calendar_or_none(text: str) -> None:
    day = parse_day(text)
    assert day is None or parse_day(day) == day


# --- filters as values ------------------------------------------------------------------------------------------------


def test_filters_name_themselves_as_people_type_them() -> None:
    filters, _ = extract_filters("-path:old task:T1 kind:a after:2026 before:2027 is:archived")
    assert filters.words == ("kind", "task", "after", "before", "is:archived", "-path")
    assert filters.join(Filters(kinds=("b",), tags=("t",))).words == (*filters.words, "tag")
    assert NO_FILTERS.words == ()
    assert NO_FILTERS.is_empty


def test_joined_filters_are_all_kept_and_none_twice() -> None:
    one, two, three = (Filters(kinds=(kind,)) for kind in "abc")
    joined = one.join(two).join(three)
    assert [each.kinds for each in joined.chain()] == [("a",), ("b",), ("c",)]
    assert NO_FILTERS.join(one) == one.join(NO_FILTERS) == one
