"""Archiving a section adds a status alone, and restoring it gives the same bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.config import ChunkingConfig
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.paths import NotePath
from memsyncd.core.upkeep import (
    archive_note,
    archive_sections,
    restore_note,
    restore_sections,
)

PATH = "a.md"


def read_statuses(data: bytes) -> dict[str, str | None]:
    note = parse_note(NotePath(PATH), data, ChunkingConfig())
    return {section.anchor: section.meta.status for section in note.sections}


FORMS = [
    b"# A\n\ntext\n",
    b"# A",
    b"# A\n",
    b"A\n===\ntext\n",
    b"\xef\xbb\xbf# A\r\n\r\ntext\r\n",
    b"# A\n<!-- memory: {kind: decision, tags: [a, b]} -->\n\ntext\n",
    b"# A\n\n  <!-- memory: { kind: decision } -->\ntext\n",
    b"# A\n<!-- memory: {status: active, kind: note} -->\ntext\n",
    b"# A\n<!-- memory: {kind: note, status: in-progress} -->",
    b"# A\n<!-- memory: {kind: note} --> and text\n",
    b"# A\r\n<!-- memory:\r\nkind: note\r\nstatus: open\r\n-->\r\ntext\r\n",
    b"# A\n<!-- memory:\nkind: note\n-->\ntext\n",
    b"# A\n<!-- memory: kind: note -->\ntext\n",
]


@pytest.mark.parametrize("data", FORMS)
def test_a_section_is_archived_and_restored_to_the_same_bytes(data: bytes) -> None:
    archived, refused = archive_sections(PATH, data, ["a.md#a"])
    assert refused == {}
    assert archived != data
    assert read_statuses(archived)["a.md#a"] == "archived"
    assert restore_sections(PATH, archived, ["a.md#a"]) == (data, {})


def test_a_section_that_could_not_be_restored_exactly_is_not_archived() -> None:
    for data in (
        b"text without a heading\n",
        b"# A\n<!-- memory: {} -->\n",
        b"# A\n<!-- memory: -->\n",
        b"# A\n<!-- memory: {kind: note,} -->\n",
        b"# A\n<!-- memory: {source: {status: x}, kind: note} -->\n",
        b"# A\n<!-- memory: {kind: note, status: Archived} -->\n",
    ):
        anchor = "a.md#a" if data.startswith(b"#") else "a.md#"
        archived, refused = archive_sections(PATH, data, [anchor])
        assert archived == data, data
        assert refused[anchor], data


def test_a_status_that_a_person_wrote_is_taken_out() -> None:
    data = b"# A\n<!-- memory: {status: archived, kind: note} -->\nx\n"
    assert restore_sections(PATH, data, ["a.md#a"]) == (
        b"# A\n<!-- memory: {kind: note} -->\nx\n",
        {},
    )


def test_a_section_that_its_note_archives_is_not_restored() -> None:
    data = b"---\nstatus: archived\n---\n# A\n\nx\n"
    restored, refused = restore_sections(PATH, data, ["a.md#a", "a.md#b"])
    assert restored == data
    assert set(refused) == {"a.md#a", "a.md#b"}


comments = st.sampled_from(
    ["", "<!-- memory: {kind: note} -->\n", "<!-- memory: {status: open, tags: [x]} -->\n"]
)
bodies = st.sampled_from(
    ["", "\n", "text\n", "\n- item\n\n", "```\n# no heading\n```\n", "### Sub\n\nmore\n"]
)
sections = st.lists(
    st.tuples(st.sampled_from(["# One", "## Two", "### Three"]), comments, bodies), min_size=1
)


@given(sections, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.data())
def test_any_sections_are_archived_and_restored_to_the_same_bytes(
    parts: list[tuple[str, str, str]], line_end: str, is_cut: bool, draw: st.DataObject
) -> None:
    text = "".join(f"{heading}\n{comment}{body}" for heading, comment, body in parts)
    data = text.replace("\n", line_end).encode()
    if is_cut:
        data = data.rstrip(b"\r\n")
    anchors = [*read_statuses(data)]
    chosen = draw.draw(st.sets(st.sampled_from(anchors)))
    archived, refused = archive_sections(PATH, data, chosen)
    assert refused == {}
    statuses = read_statuses(archived)
    assert [*statuses] == anchors
    assert {anchor for anchor in anchors if statuses[anchor] == "archived"} == chosen
    assert restore_sections(PATH, archived, chosen) == (data, {})


# --- whole notes --------------------------------------------------------------------------------

NOTES = [
    *FORMS,
    b"",
    b"text\n",
    b"---\nkind: note\n---\n# A\n",
    b"---\r\nkind: note\r\nstatus: open\r\n---\r\n# A\r\n",
    b"--- \nkind: note\n...\ntext",
    b"---\nnever closed\n# A\n",
    b"---\n\nafter a rule\n",
    b"\n\n# A\n",
    b"\xef\xbb\xbf---\nkind: note\n---\n",
]


@pytest.mark.parametrize("data", NOTES)
def test_a_note_is_archived_by_its_front_matter_and_restored_to_the_same_bytes(
    data: bytes,
) -> None:
    archived = archive_note(PATH, data)
    assert isinstance(archived, bytes)
    if not data.startswith(b"# A\n<!-- memory: {status: active"):
        statuses = read_statuses(archived)
        stated = {key: status for key, status in read_statuses(data).items() if status}
        assert dict.fromkeys(statuses, "archived") | stated == statuses | stated
    assert archive_note(PATH, archived) == "it is archived already"
    assert restore_note(PATH, archived) == data
    assert restore_note(PATH, data) == "its front matter does not archive it"


@given(st.lists(st.sampled_from(["---", "a: b", "status: x", "", "# A", "text", "..."])))
def test_a_note_of_any_form_is_restored_exactly_or_not_archived(lines: list[str]) -> None:
    data = "\n".join(lines).encode()
    archived = archive_note(PATH, data)
    if isinstance(archived, bytes):
        assert restore_note(PATH, archived) == data
    else:
        assert "---" in lines
