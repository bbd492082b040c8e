"""Values are appended to a section as dated items, the newest first, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.config import ChunkingConfig
from memsyncd.core.editing.additions import Addition
from memsyncd.core.editing.fields import find_title, list_fields
from memsyncd.core.editing.sections import find_sections_bytes, split_note_sections
from memsyncd.core.editing.topics import (
    DatedValue,
    add_field,
    append_value,
    find_field,
    read_values,
    split_values,
    trim_text,
)
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.paths import NotePath
from memsyncd.errors import BadRequest, EditRefused, NoteNotFound

PATH = "n.md"
STATUS = "n.md#t/status"
NOTE = (
    b"# T\n\nintro\n\n## Status\n<!-- memory: {kind: decision, tags: [a]} -->\n\nold\n\n## B\n\nx\n"
)


def append(data: bytes, text: str, n: int = 1, keep: int | None = None, **more: object) -> bytes:
    addition = Addition(content=text, **more)  # type: ignore[arg-type]
    return append_value(PATH, data, STATUS, addition, at=make_time(n), keep=keep).data


def make_time(n: int) -> str:
    return f"2026-11-23T04:{n // 60:02}:{n % 60:02}Z"


def read(data: bytes, anchor: str = STATUS) -> list[DatedValue]:
    return read_values(data[slice(*find_sections_bytes(PATH, data)[anchor])].decode())


def test_a_value_is_a_dated_item_above_the_earlier_ones() -> None:
    data = append(append(NOTE, "one", 1), "two\n\n- a\n- b", 2, tags=("b",), importance=0.9)
    assert data.decode() == (
        "# T\n\nintro\n\n## Status\n"
        "<!-- memory: {kind: decision, tags: [a, b], importance: 0.9} -->\n"
        "- 2026-11-23T04:00:02Z two\n\n  - a\n  - b\n"
        "- 2026-11-23T04:00:01Z one\n\nold\n\n## B\n\nx\n"
    )


def test_a_value_changes_no_other_line_and_its_time_is_when_the_section_was_updated() -> None:
    """Two branches that append to one field would conflict in a line that both change."""
    old = NOTE.replace(b"tags: [a]", b"tags: [a], updated: 2026-11-23T04:00:00Z")
    for before in (NOTE, old):
        data = append(before, "one", 1)
        assert set(before.splitlines()) < set(data.splitlines())
        sections = parse_note(NotePath(PATH), data, ChunkingConfig()).sections
        assert {section.anchor: section.meta.updated for section in sections}[STATUS] == make_time(
            1
        )
    later = data.replace(b"04:00:00Z", b"05:00:00Z")
    sections = parse_note(NotePath(PATH), later, ChunkingConfig()).sections
    assert sections[1].meta.updated == "2026-11-23T05:00:00Z"


def test_only_the_newest_values_stay_and_other_text_is_never_dropped() -> None:
    data = NOTE
    for n in range(5):
        data = append(data, f"value {n}\n\nmore", n, keep=2)
    assert [value.text for value in read(data)] == ["value 4\n\nmore", "value 3\n\nmore", "old"]


blocks = st.sampled_from(
    ["text", "# head", "```", "~~~ x", "- item", "> quote", "| a | b |", "|--|--|", "<!--", "-->",
     "    code", "\tcode", "---", "===", "1. one", "[a]: b", "<div>", "- 2026-01-01T00:00:00Z x",
     "", "é — “q”", "* * *", "## Status", "[[link]]", "#tag", "a\r\nb", "%%", "$x$", "\\", "`c`"]
)  # fmt: skip
texts = st.lists(blocks, min_size=1, max_size=6).map("\n".join).filter(str.strip) | st.text(
    st.characters(exclude_categories=["Cs", "Cc"]), min_size=1
).filter(str.strip)


@given(st.lists(texts, min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_any_values_are_read_as_they_were_appended_and_other_sections_stay(
    values: list[str], line_end: str
) -> None:
    before = NOTE.replace(b"\n", line_end.encode())
    data = before
    for n, value in enumerate(values):
        data = append(data, value, n)
    dated = [DatedValue(make_time(n), trim_text(value)) for n, value in enumerate(values)]
    assert read(data) == [*reversed(dated), DatedValue(None, "old")]
    was, now = (find_sections_bytes(PATH, note) for note in (before, data))
    assert was.keys() == now.keys()
    for anchor in was.keys() - {STATUS}:
        assert before[slice(*was[anchor])] == data[slice(*now[anchor])]


@given(st.lists(texts, min_size=1, max_size=6), st.integers(1, 4))
def test_a_capped_field_has_the_newest_values(values: list[str], keep: int) -> None:
    data = NOTE
    for n, value in enumerate(values):
        data = append(data, value, n, keep=keep)
    kept = [trim_text(value) for value in reversed(values)][:keep]
    assert [dated.text for dated in read(data)] == [*kept, "old"]


@given(texts)
def test_a_new_field_has_its_first_value(value: str) -> None:
    added = add_field(PATH, NOTE, "New one", Addition(content=value), at=make_time(1))
    assert added.anchor == "n.md#t/new-one"
    assert added.data.startswith(NOTE)
    assert read(added.data, added.anchor) == [DatedValue(make_time(1), trim_text(value))]


def test_a_note_of_any_end_takes_a_new_field() -> None:
    for note in (
        b"# T\n\nintro\n\n## B\n\nno final newline",
        b"# T\r\n\r\n## B\r\nx",
        b"T\n===\n\nB\n---\nx",
        b"# T",
        b"\xef\xbb\xbf# T\n\n```\nopen fence",
        b"# T\n\n```\nopen fence\n",
        b"",
    ):
        added = add_field(PATH, note, "New", Addition(content="v"), at=make_time(1))
        assert added.data.startswith(note), note
        assert read(added.data, added.anchor) == [DatedValue(make_time(1), "v")], note


def test_a_section_of_any_form_takes_a_value_and_keeps_its_text() -> None:
    for section in (
        b"## Status",
        b"## Status\n",
        b"## Status\n- own item\n",
        b"## Status\ntext\n- own\n- 2026-01-01T00:00:00Z first\n",
        b"Status\n------\ntext",
        b"## Status\n```\n- 2026-01-01T00:00:00Z in a fence\n```\n",
        b"## Status\n<!-- memory:\nkind: note\n-->\ntext\n",
        b"## Status\n<!-- another comment -->\ntext\n",
    ):
        note = b"# T\n\n" + section
        others = [value for value in read(note) if value.at is None]
        data = append(note, "new")
        assert read(data)[0] == DatedValue(make_time(1), "new"), section
        assert [value for value in read(data) if value.at is None] == others, section
        assert b"in a fence" not in section or b"in a fence" in data, section


def test_metadata_of_another_form_stays_and_refuses_an_addition() -> None:
    note = b"# T\n\n## Status\n<!-- memory: {kind: note, source: [{a: b}]} -->\ntext\n"
    assert b"source: [{a: b}]} -->\n- 2026" in append(note, "new")
    with pytest.raises(EditRefused, match="metadata of the section has another form"):
        append(note, "new", importance=0.5)


def test_a_value_that_would_take_in_other_text_is_refused() -> None:
    # Indented code below an item would be part of the item.
    with pytest.raises(EditRefused, match="no value can be added at the beginning"):
        append(b"# T\n\n## Status\n\n    code\n", "new")
    with pytest.raises(NoteNotFound, match="no section"):
        append_value(PATH, NOTE, "n.md#gone", Addition(content="x"), at=make_time(1), keep=None)


def test_fields_are_the_sections_beneath_the_title() -> None:
    sections = split_note_sections(PATH, b"top\n\n# T\n\n## A\n\n### A1\n\n## B\n")
    assert find_title(sections) is sections[1]
    assert [(head.heading[-1], len(part)) for head, part in list_fields(sections)] == [
        ("A", 2),
        ("B", 1),
    ]
    several = split_note_sections(PATH, b"# One\n\n## In it\n\n# Two\n")
    assert find_title(several) is None
    assert [head.heading[-1] for head, _ in list_fields(several)] == ["One", "Two"]


def test_a_field_is_found_by_anchor_heading_or_slug_and_must_be_the_only_one() -> None:
    sections = split_note_sections(PATH, b"# T\n\n## Open Ports\n\n### Deep\n\n## A\n\n## A\n")
    for name in ("Open Ports", "open  ports", "open-ports", "n.md#t/open-ports"):
        field = find_field(sections, name)
        assert field is not None
        assert field.anchor == "n.md#t/open-ports"
    assert find_field(sections, "T") is None
    with pytest.raises(BadRequest, match="several sections are named a"):
        find_field(sections, "a")


def test_a_section_is_compared_as_a_whole_and_value_by_value() -> None:
    data = append(NOTE, "one")
    own = data[slice(*find_sections_bytes(PATH, data)[STATUS])].decode()
    assert split_values(own) == [own, "one"]
    assert split_values("## X\n\n- item\n") == ["## X\n\n- item\n"]
