from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memsyncd.config import ChunkingConfig, Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import count_front_lines
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import CHUNK_LIMIT_CHARS, Note, count_tokens
from memsyncd.core.paths import NotePath
from memsyncd.own_texts import AGENT_GUIDE, INSTRUCTIONS

PATH = NotePath(".memories/note.md")
LINES = st.sampled_from(
    [
        "", "", "", "word", "some more words here", "# One", "# Two", "## Sub", "Under", "---",
        "===", "- item", "  more", "1. x", "```", "> quote", "| a | b |", "|---|---|",
        "<!-- memory: {kind: error} -->", "<!--", "[[x#y]] #tag", "日本語" * 20, "x " * 90,
        "[ref]: http://x", "<div>", "    code", "title: x", "...", "<<<<<<< a", "=======",
        ">>>>>>> b", "\x0c", "\u2028",
    ]
)  # fmt: skip
CONFIG = Config()
TEXTS = st.lists(LINES, max_size=40).map("\n".join)
POLICIES = st.sampled_from(
    [
        ChunkingConfig(),
        ChunkingConfig(max_tokens=10, overlap=6),
        ChunkingConfig(max_tokens=1, overlap=0),
        ChunkingConfig(max_tokens=30, overlap=29),
    ]
)


def parse(text: str, policy: ChunkingConfig | None = None, path: NotePath = PATH) -> Note:
    return parse_note(path, text.encode(), policy or CONFIG.chunking, CONFIG.guard)


@given(
    st.binary(max_size=300) | TEXTS.map(str.encode),
    st.sampled_from([PATH, NotePath("MEMORY.md"), NotePath(".memories/a.txt")]),
)
@example(b"\xff\xfe#\x00", PATH)
@example(b"---\n\x00\n---", PATH)
@example(b"---\na: *b\n---", PATH)
@example(b"---\n? [a]: b\n? {c: d}\n: e\n---", PATH)
def test_any_bytes_can_be_read_and_every_place_lies_within_the_note(
    data: bytes, path: NotePath
) -> None:
    note = parse_note(path, data, CONFIG.chunking, CONFIG.guard)
    assert note.digest == digest_bytes(data)
    for item in (*note.sections, *note.chunks):
        assert item.span.end <= note.n_lines
    assert all(1 <= link.line <= note.n_lines for link in note.links)
    assert all(0 <= problem.line <= max(note.n_lines, 1) for problem in note.problems)
    assert note.title


@given(TEXTS, POLICIES)
@example("---\n---", CONFIG.chunking)
@example("---\ntags: [a]\n---\n\n# B\n\nc", CONFIG.chunking)
def test_chunks_are_lines_of_their_section_hold_each_line_and_overlap_by_no_more_than_the_policy(
    text: str, policy: ChunkingConfig
) -> None:
    note = parse(text, policy)
    lines = decode_note("", text.encode()).lines
    spans = {section.anchor: section.span for section in note.sections}
    numbers: set[int] = set()
    for chunk in note.chunks:
        start, end = chunk.span.start, chunk.span.end
        # A note of front matter alone has a chunk of these lines without text: their words find it.
        assert chunk.text == "\n".join(lines[max(start - 1, chunk.n_front_lines) : end])
        assert spans[chunk.anchor].start <= start <= end <= spans[chunk.anchor].end
        numbers.update(range(start, end + 1), range(1, chunk.n_front_lines + 1))
    assert {number for number, line in enumerate(lines, 1) if line.strip(" \t")} <= numbers
    for before, after in pairwise(note.chunks):
        assert before.span.end < after.span.end
        if after.span.start <= before.span.end:
            assert before.anchor == after.anchor
            overlap = "\n".join(lines[after.span.start - 1 : before.span.end])
            assert count_tokens(overlap) <= policy.overlap
            assert count_tokens(after.text) <= policy.max_tokens


@given(TEXTS)
def test_sections_follow_each_other_and_have_anchors_of_their_own(text: str) -> None:
    sections = parse(text).sections
    assert len({section.anchor for section in sections}) == len(sections)
    for before, after in pairwise(sections):
        assert before.span.end + 1 == after.span.start
        assert after.heading


@given(
    TEXTS, st.lists(st.sampled_from(["", "A line more.", "- an item more"]), min_size=1, max_size=5)
)
def test_lines_put_in_above_move_the_chunks_below_and_change_none_of_them(
    text: str, more: list[str]
) -> None:
    below = parse(f"# Own heading\n\n{text}")
    assume(below.sections[0].heading == ("Own heading",))
    moved = parse("\n".join([*more, "", "# Own heading", "", text]))
    own = [chunk for chunk in moved.chunks if chunk.anchor != f"{PATH.text}#"]
    assert [(chunk.anchor, chunk.text, chunk.span.start) for chunk in own] == [
        (chunk.anchor, chunk.text, chunk.span.start + len(more) + 1) for chunk in below.chunks
    ]


@given(TEXTS)
def test_line_ends_of_any_kind_give_the_same_places(text: str) -> None:
    as_lf, as_crlf = parse(text), parse(text.replace("\n", "\r\n"))
    assert as_crlf.chunks == as_lf.chunks
    assert as_crlf.sections == as_lf.sections


def test_an_empty_note_has_no_sections_and_the_title_of_its_file() -> None:
    note = parse("")
    assert (note.n_lines, note.title) == (0, "note")
    assert (note.sections, note.chunks, note.problems) == ((), (), ())


def test_a_note_is_called_by_its_title_else_by_its_file() -> None:
    assert parse("## Depth\n\nThe pond is deep.\n").title == "note"
    assert parse("## Depth\n\n# Pond\n").title == "Pond"
    assert parse("---\ntitle: Ponds\n---\n\n# Pond\n").title == "Ponds"


def test_a_heading_goes_with_the_first_block_under_it() -> None:
    note = parse("# Heading\n\n" + "word " * 95 + "\n\nmore")
    assert [(chunk.span.start, chunk.span.end) for chunk in note.chunks] == [(1, 3), (5, 5)]


@pytest.mark.parametrize("own", [AGENT_GUIDE, INSTRUCTIONS])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_texts_that_memsyncd_offers_for_a_note_are_no_memory_until_somebody_changes_them(
    own: str, end: str
) -> None:
    text = f"# Rules\n\nBe kind.\n\n{own}\n## Memory\n\nThe server has 64 GB.\n"
    texts = [chunk.text.split("\n")[0] for chunk in parse(text.replace("\n", end)).chunks]
    assert texts == ["# Rules", "## Memory"]
    mine = text.replace(own, own.replace(" memory ", " recall ", 1))
    assert len(parse(mine.replace("\n", end)).chunks) > 2


def test_a_giant_line_is_searchable_in_chunks_of_one_span() -> None:
    words = " ".join(f"word{number}" for number in range(30_000))
    note = parse(f"# H\n\n{words}\n")
    assert {(chunk.span.start, chunk.span.end) for chunk in note.chunks} == {(1, 3)}
    assert all(len(chunk.text) <= CHUNK_LIMIT_CHARS for chunk in note.chunks)
    assert "".join(chunk.text for chunk in note.chunks) == f"# H\n\n{words}"
    assert not any(chunk.text.endswith("word") or chunk.text[0].isdigit() for chunk in note.chunks)
    assert [problem.code for problem in note.problems] == ["long_line"]


def test_front_matter_finds_the_first_chunk_and_is_no_part_of_its_text() -> None:
    for front, below, texts in (
        ("---\nproject: zebra\n---\n", "text\n", ["text"]),
        ("---\nproject: zebra\n---\n", "\n# Title\n\nmore\n", ["# Title\n\nmore"]),
        ("---\nproject: zebra\n---\nowner:: Ann\n", "\n- an item\n", ["- an item"]),
        ("alias:: Cache\nproject:: zebra\n", "begins at once\n", ["begins at once"]),
        ("---\nproject: zebra\n---\n", "", [""]),
        ("alias:: Cache\n", "", [""]),
    ):
        note = parse(front + below)
        assert [chunk.text for chunk in note.chunks] == texts, front
        assert [chunk.n_front_lines for chunk in note.chunks] == [front.count("\n")], front
        assert count_front_lines(PATH.text, (front + below).split("\n")) == front.count("\n"), front


@pytest.mark.parametrize(
    ("text", "line", "code"),
    [
        ("a\n```\nb\n", 2, "unclosed_fence"),
        ("a\n\n<!-- b\n\n# c\n", 3, "unclosed_comment"),
        ("# a\nx\n# a\n<!-- memory: {conflict: a} -->\ny\n", 3, "conflict"),
        ("a\n<<<<<<< x\nb\n=======\nc\n>>>>>>> y\n", 2, "conflict_markers"),
        ("a\n" + "b" * 70_000, 2, "long_line"),
        ("---\na: [\n---\n", 2, "broken_yaml"),
        ("---\na: &x 1\nb: *x\n---\n", 2, "yaml_refused"),
        ("---\na: 1\n", 1, "unclosed_front_matter"),
        ("# a\n\n<!-- memory: {kind: b}\n", 3, "broken_yaml"),
        (
            "# a\n<!-- memory: {kind: b} -->\ntext\n<!-- memory: {kind: c} -->\n",
            4,
            "second_comment",
        ),
        ("# a\n<!-- memory: {kind: b} -->\n<!-- memory: {kind: b} -->\n", 3, "second_comment"),
        ("# a\n<!-- memory: {} -->\n- b\n<!-- memory: {} -->\n# c\n", 4, "second_comment"),
        ("# a\n\ntext\n\n<!-- memory:\nkind: c\n-->\n", 5, "misplaced_comment"),
        ("text\n<!-- memory: {kind: c} -->\n", 2, "misplaced_comment"),
    ],
)
def test_a_defect_is_reported_with_its_line(text: str, line: int, code: str) -> None:
    assert (line, code) in {(problem.line, problem.code) for problem in parse(text).problems}


def test_closed_fences_and_comments_are_no_problem() -> None:
    for text in (
        "```\n<!-- memory: {} -->\n```\n",
        "# a\n\n<!-- memory: {} -->\nb\n# c\n<!-- memory: {} -->\n",
        "~~~~\n~~~\n~~~~~  ",
        "<!-- a\n-->\n",
        "a\n=======\n>>>>>>> b\n",
        "<b>\n",
    ):
        assert parse(text).problems == (), text


def test_a_policy_whose_overlap_exceeds_the_chunk_is_refused() -> None:
    with pytest.raises(ValueError, match="not a chunk policy"):
        parse("a", ChunkingConfig(max_tokens=10, overlap=10))


def test_a_plain_text_note_has_no_headings_whatever_the_case_of_its_suffix() -> None:
    for suffix, n_sections in ((".txt", 1), (".TXT", 1), (".Txt", 1), (".MD", 2)):
        note = parse("# one\n\n# two\n", path=NotePath(f".memories/a{suffix}"))
        assert len(note.sections) == n_sections
