from __future__ import annotations

import codecs
from dataclasses import replace

import pytest
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

from memsyncd.core.editing.additions import Addition, append_section, check_addition
from memsyncd.core.editing.sections import split_note_sections
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import distinct_tags
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.markdown.scanner import HEADING, split_blocks
from memsyncd.core.model import Span
from memsyncd.core.notepath import NotePath
from memsyncd.errors import BadRequest, EditRefused

AT = "2026-11-22T01:43:24Z"
PATH = ".memories/decisions.md"
DATABASE = Addition(
    content="We chose Postgres\nbecause of its row locks.", summary="Database", kind="decision", tags=("db",), importance=0.9
)
SECTION = (
    "## Database\n<!-- memory: {kind: decision, tags: [db], importance: 0.9, created: 2026-11-22T01:43:24Z} -->\n"
    "We chose Postgres\nbecause of its row locks.\n"
)
WILD = """
# a|## Database|### c|Title|===|---|***|```|~~~|<!--|-->|<script>
|<!-- memory: {kind: error} -->|text|- item|> quote|    code|| |[a]:|k: v|é|<?|<div>
""".replace("\n", "").split("|")
WILD += ["| a |", "|---|"]
wild_lines = st.lists(st.sampled_from(WILD) | st.text("#`~<>-=! a", max_size=4), max_size=9)


@st.composite
def notes(draw: st.DrawFn) -> bytes | None:
    if draw(st.integers(0, 9)) == 0:
        return None
    line_end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    text = line_end.join(draw(wild_lines)) + draw(st.sampled_from(["", line_end, 2 * line_end, line_end + " " + line_end]))
    mark = draw(st.sampled_from([b"", b"", codecs.BOM_UTF8]))
    return mark + text.encode() + draw(st.sampled_from([b"", b"\xff", b"\xff\n"]))


contents = wild_lines.map("\n".join).filter(lambda text: text.strip() != "")
additions = st.builds(
    Addition,
    content=contents,
    summary=st.sampled_from(["", "Database", "C#", "C #", "#tag and `code`", "a -- b", "x" * 200]),
    kind=st.sampled_from([None, "decision", "Error"]),
    tags=st.lists(st.sampled_from(["db", "a, b", "#x"]), max_size=2).map(tuple),
    importance=st.none() | st.floats(0, 1),
)


def test_a_new_note_begins_with_its_name() -> None:
    data, spans = append_section(PATH, None, [DATABASE], at=AT)
    assert data.decode() == f"# Decisions\n\n{SECTION}"
    assert spans == (Span(3, 6),)


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("MEMORY.md", "# Memory"),
        (".memories/api-notes.markdown", "# Api notes"),
        (".memories/a/größe.md", "# Größe"),
        (".memories/-.md", "# Notes"),
        (".memories/TODO.md", "# TODO"),
    ],
)
def test_a_title_is_made_of_the_names_words(path: str, title: str) -> None:
    data, _ = append_section(path, b"", [DATABASE], at=AT)
    assert data.decode() == f"{title}\n\n{SECTION}"


@pytest.mark.parametrize(
    ("standing", "between"),
    [
        (b"# Decisions\n", b"\n"),
        (b"# Decisions", b"\n\n"),
        (b"# Decisions\n\n", b""),
        (b"# Decisions\n \t\n", b""),
        (b"# Decisions\n\n\n", b""),
        (b"\n", b""),
        (b"- item\n", b"\n"),
        (b"```\nopen", b"\n```\n\n"),
        (b"<!-- open\n", b"-->\n\n"),
        (b"\xff\xfe\xfd"[1:], b"\n\n"),
        (codecs.BOM_UTF8 + b"a\n", b"\n"),
        (b"---\nk: v\n---\n", b"\n"),
    ],
)
def test_a_section_is_appended_after_one_blank_line(standing: bytes, between: bytes) -> None:
    data, spans = append_section(PATH, standing, [DATABASE], at=AT)
    assert data == standing + between + SECTION.encode()
    assert decode_note(PATH, data).lines[spans[0].start - 1 : spans[0].end] == SECTION.rstrip("\n").split("\n")


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_a_section_has_the_notes_own_line_ends(line_end: str) -> None:
    standing = f"# Decisions{line_end}".encode()
    data, spans = append_section(
        PATH, standing, [replace(DATABASE, content="We chose Postgres\r\nbecause of its row locks.\r")], at=AT
    )
    assert data == standing + ("\n" + SECTION).replace("\n", line_end).encode()
    assert spans == (Span(3, 6),)


def test_several_sections_are_appended_in_order() -> None:
    second = Addition(content="\n\nUse Redis.\n\n", created="2026-01-02")
    data, spans = append_section(PATH, None, [DATABASE, second, second], at=AT)
    redis = "## Use Redis\n<!-- memory: {created: 2026-01-02} -->\nUse Redis.\n"
    assert data.decode() == f"# Decisions\n\n{SECTION}\n{redis}\n{redis}"
    assert spans == (Span(3, 6), Span(8, 10), Span(12, 14))
    anchors = [section.anchor for section in parse_note(NotePath(PATH), data).sections]
    assert anchors[2:] == [f"{PATH}#decisions/use-redis", f"{PATH}#decisions/use-redis-2"]


def test_no_addition_changes_nothing() -> None:
    assert append_section(PATH, b"a", [], at=AT) == (b"a", ())
    assert append_section(PATH, None, [], at=AT) == (b"", ())


@pytest.mark.parametrize("path", [".memories/a.txt", ".memories/a", ".memories/a.TXT"])
def test_only_markdown_takes_sections(path: str) -> None:
    with pytest.raises(BadRequest, match="note"):
        append_section(path, None, [DATABASE], at=AT)


def test_what_cannot_be_is_not_appended() -> None:
    with pytest.raises(BadRequest, match="importance"):
        append_section(PATH, None, [replace(DATABASE, importance=2)], at=AT)


def test_front_matter_that_the_content_would_close_is_not_appended_to() -> None:
    with pytest.raises(EditRefused, match="takes no section"):
        append_section(PATH, b"---\nk: v\n", [replace(DATABASE, content="a\n\n---\n\nb")], at=AT)


def test_utf16_is_not_appended_to() -> None:
    with pytest.raises(EditRefused, match="UTF-16"):
        append_section(PATH, "# a\n".encode("utf-16"), [DATABASE], at=AT)


@given(notes(), st.lists(additions, min_size=1, max_size=3))
@example(b"a\r", [Addition(content="x")])
@example(b"# Database\n", [DATABASE, DATABASE])
@example(b"---\nk: v", [Addition(content="a\n---\nb")])
def test_what_is_remembered_is_read_back_and_what_stood_stays(standing: bytes | None, added: list[Addition]) -> None:
    for addition in added:
        check_addition(addition)
    before = split_note_sections(PATH, standing or b"")
    try:
        data, spans = append_section(PATH, standing, added, at=AT)
    except EditRefused:
        # Only front matter left open, which the content ends, cannot be closed by more at the end.
        assert (standing or b"").removeprefix(codecs.BOM_UTF8).startswith(b"---")
        assert any("---" in addition.content for addition in added)
        return
    assert data.startswith(standing or b"")
    note = parse_note(NotePath(PATH), data)
    assert [section.anchor for section in note.sections[: len(before)]] == [part.anchor for part in before]
    lines = decode_note(PATH, data).lines
    assert len(spans) == len(added)
    assert spans[-1].end == len(lines)
    for span, addition in zip(spans, added, strict=True):
        assert not lines[span.start - 2].strip()
        section = next(section for section in note.sections if section.span.start == span.start)
        assert section.level == 2
        if addition.summary in ("Database", "C#", "C #", "a -- b"):
            assert section.heading[-1] == addition.summary
        if addition.kind:
            assert section.meta.kind == addition.kind.lower()
        assert section.meta.tags[: len(distinct_tags(addition.tags))] == distinct_tags(addition.tags)
        assert section.meta.importance == addition.importance or addition.importance is None
        assert section.meta.created == AT
        _assert_content(lines[span.start + 1 : span.end], addition.content)


def _assert_content(kept: list[str], content: str) -> None:
    """The very lines, if none of them is a heading and nothing is left open in them."""
    lines = content.split("\n")
    while not lines[0].strip():
        del lines[0]
    while not lines[-1].strip():
        del lines[-1]
    assert len(kept) <= len(lines) + 2
    if not any(block.kind == HEADING for block in split_blocks(lines)):
        assert lines in (kept, kept[:-1], kept[1:-1])


@given(st.text(min_size=1, max_size=30).filter(lambda text: text.strip()))
def test_plain_words_are_kept_to_the_letter(content: str) -> None:
    addition = Addition(content=f"x{content}y", summary="Words")
    try:
        check_addition(addition)
    except BadRequest:
        reject()
    assume(not any(mark in content for mark in "\r\n#=-"))
    data, spans = append_section(PATH, None, [addition], at=AT)
    assert decode_note(PATH, data).lines[spans[0].start + 1 :] == [addition.content]
