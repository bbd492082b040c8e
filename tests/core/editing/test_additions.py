from __future__ import annotations

import codecs
import math
from typing import Any

import pytest
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.config import ChunkingConfig
from memsyncd.core.editing.additions import (
    CONTENT_LIMIT_CHARS,
    MADE_HEADING_CHARS,
    Addition,
    append_section,
    check_addition,
    find_faults,
    make_heading,
    render_comment,
)
from memsyncd.core.editing.kinds import DEFAULT_KINDS, OTHER_KINDS
from memsyncd.core.editing.sections import split_note_sections
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import distinct_tags, find_section_meta
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.markdown.scanner import HEADING, split_blocks
from memsyncd.core.model import Meta, OutlineSection, Span
from memsyncd.core.paths import NotePath, is_markdown, is_note_name, parse_note_path
from memsyncd.errors import BadRequest, EditRefused, TooLarge

# --- Checks ---------------------------------------------------------------------------------------

FULL = Addition(
    content="We chose Postgres.",
    summary="Database",
    kind="Decision",
    importance=0.9,
    priority="p1",
    lifecycle="Project",
    source="interview",
    task="WU-12",
    session="s-1",
    created="2026-11-22T01:43:24Z",
    tags=("#auth", "two words"),
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        dict.fromkeys(("kind", "importance", "priority", "lifecycle", "source", "task")),
        {"summary": ""},
        {"importance": 0},
        {"importance": 1.0},
        {"kind": "tool_run"},
        {"kind": "entscheidung-größe"},
        {"created": "2026-11-22"},
        {"created": "2026-11-22 01:43"},
        {"created": "2026-11-22T01:43:24.123+02:00"},
        {"tags": ()},
        {"tags": ("a, b", "c: d", "[e]", "日本")},
        {"content": "x" * CONTENT_LIMIT_CHARS},
        {"content": "\n\n    code\n"},
        {"topic": "t" * 100},
        {"keywords": tuple(f"{'k' * 97}{number:03}" for number in range(20))},
        {"metadata": {"owner": "infra", "a.b-c_d": "x: y, {z}"}},
        {"source": {"client": "acme", "date": "2026-03-01"}},
        {"lifecycle": "wu"},
        {"expires": "2026-12-31T18:00"},
    ],
)
def test_valid_additions_pass_up_to_the_limits(changes: dict[str, Any]) -> None:
    check_addition(replace(FULL, **changes))


INVALID: dict[str, tuple[Any, ...]] = {
    "content": ("", " \n\t\u00a0", "a\0b", "a\ud800", "x" * (CONTENT_LIMIT_CHARS + 1)),
    "summary": ("two\nlines", "two\u2028lines", "x" * 201, "***", "\udc00"),
    "kind": ("", "two words", "a:b", "-x", "null", "x" * 201),
    "importance": (1.01, -0.1, math.nan, math.inf),
    "priority": ("P4", ""),
    "lifecycle": ("forever",),
    "source": ("a\nb", {}),
    "task": ("~", " "),
    "session": ("x" * 201,),
    "created": ("yesterday", "2026-02-30", "2026-11"),
    "updated": ("now",),
    "expires": ("never",),
    "topic": ("t" * 101,),
    "keywords": (("k" * 101,), ("a, b",), ("",)),
    "tags": (("",), ("#",), ("a\nb",), ("a",) * 33, ("x" * 201,)),
    "metadata": ({"kind": "x"}, {"wu_id": "x"}, {"a": "two\nlines"}),
}


@pytest.mark.parametrize("field", INVALID)
def test_an_invalid_field_is_named(field: str) -> None:
    for value in INVALID[field]:
        with pytest.raises(BadRequest) as refused:
            check_addition(replace(FULL, **{field: value}))
        assert refused.value.message.startswith(field), value
        assert refused.value.hint
        is_too_long = field == "content" and len(value) > CONTENT_LIMIT_CHARS
        assert isinstance(refused.value, TooLarge) or not is_too_long
    with pytest.raises(BadRequest, match=field):
        append_section(PATH, None, [replace(FULL, **{field: INVALID[field][0]})], at=AT)


def test_a_heading_is_made_from_the_beginning_of_the_content() -> None:
    for content, heading in (
        (
            "We chose Postgres because of its row locks.",
            "We chose Postgres because of its row locks",
        ),
        ("We chose Postgres. It has row locks.", "We chose Postgres"),
        ("Use v1.2 of the client! Not v1.1.", "Use v1.2 of the client!"),
        ("Use e.g. Redis. Or so.", "Use e.g. Redis"),
        ("... and so on", "... and so on"),
        ("\n\n- [ ] Rotate the **keys**\n- more", "Rotate the keys"),
        ("> quoted words", "quoted words"),
        ("1. first", "first"),
        ("# Redis timeouts\n\nThey come from DNS.", "Redis timeouts"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("---\n***\n===", "Note"),
        ("[[redis-timeouts]] and `code`", "redis-timeouts and code"),
        ("今日は良い天気です。明日は雨です。", "今日は良い天気です"),
        ("word " * 30, ("word " * 14).strip() + "…"),
        ("x" * 200, "x" * MADE_HEADING_CHARS + "…"),
    ):
        assert make_heading(Addition(content=content)) == heading, content


def test_a_summary_is_the_heading_and_a_heading_of_no_words_is_the_kind() -> None:
    assert make_heading(replace(FULL, summary="  Which   database? ")) == "Which database?"
    assert make_heading(Addition(content="---", kind="insight")) == "insight"


# --- Appending ------------------------------------------------------------------------------------

AT = "2026-11-22T01:43:24Z"
PATH = ".memories/decisions.md"
DATABASE = Addition(
    content="We chose Postgres\nbecause of its row locks.",
    summary="Database",
    kind="decision",
    tags=("db",),
    importance=0.9,
)
SECTION = (
    "## Database\n<!-- memory: {kind: decision, tags: [db], importance: 0.9, created: "
    "2026-11-22T01:43:24Z} -->\n"
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
    text = line_end.join(draw(wild_lines)) + draw(
        st.sampled_from(["", line_end, 2 * line_end, line_end + " " + line_end])
    )
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


@pytest.mark.parametrize(
    ("path", "title"),
    [
        (PATH, "# Decisions"),
        ("MEMORY.md", "# Memory"),
        (".memories/api-notes.markdown", "# Api notes"),
        (".memories/a/größe.md", "# Größe"),
        (".memories/-.md", "# Notes"),
        (".memories/TODO.md", "# TODO"),
    ],
)
def test_a_new_or_empty_note_begins_with_its_name(path: str, title: str) -> None:
    for data in (None, b""):
        written, spans, _ = append_section(path, data, [DATABASE], at=AT)
        assert written.decode() == f"{title}\n\n{SECTION}"
        assert spans == (Span(3, 6),)


def test_a_section_is_appended_after_one_blank_line() -> None:
    for standing, between in (
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
    ):
        data, spans, _ = append_section(PATH, standing, [DATABASE], at=AT)
        assert data == standing + between + SECTION.encode(), standing
        assert decode_note(PATH, data).lines[spans[0].start - 1 : spans[0].end] == SECTION.rstrip(
            "\n"
        ).split("\n"), standing


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_a_section_has_the_notes_own_line_ends(line_end: str) -> None:
    standing = f"# Decisions{line_end}".encode()
    data, spans, _ = append_section(
        PATH,
        standing,
        [replace(DATABASE, content="We chose Postgres\r\nbecause of its row locks.\r")],
        at=AT,
    )
    assert data == standing + ("\n" + SECTION).replace("\n", line_end).encode()
    assert spans == (Span(3, 6),)


def test_several_sections_are_appended_in_order() -> None:
    second = Addition(content="\n\nUse Redis.\n\n", created="2026-01-02")
    data, spans, _ = append_section(PATH, None, [DATABASE, second, second], at=AT)
    redis = "## Use Redis\n<!-- memory: {created: 2026-01-02} -->\nUse Redis.\n"
    assert data.decode() == f"# Decisions\n\n{SECTION}\n{redis}\n{redis}"
    assert spans == (Span(3, 6), Span(8, 10), Span(12, 14))
    anchors = [
        section.anchor for section in parse_note(NotePath(PATH), data, ChunkingConfig()).sections
    ]
    assert anchors[2:] == [f"{PATH}#decisions/use-redis", f"{PATH}#decisions/use-redis-2"]


def test_no_addition_changes_nothing() -> None:
    assert append_section(PATH, b"a", [], at=AT) == (b"a", (), ())
    assert append_section(PATH, None, [], at=AT) == (b"", (), ())


def test_a_note_that_takes_no_section_is_refused() -> None:
    with pytest.raises(EditRefused, match="no section can be added"):
        append_section(PATH, b"---\nk: v\n", [replace(DATABASE, content="a\n\n---\n\nb")], at=AT)
    with pytest.raises(EditRefused, match="UTF-16"):
        append_section(PATH, "# a\n".encode("utf-16"), [DATABASE], at=AT)
    for path in (".memories/a.txt", ".memories/a", ".memories/a.TXT"):
        with pytest.raises(BadRequest, match="note"):
            append_section(path, None, [DATABASE], at=AT)


@given(notes(), st.lists(additions, min_size=1, max_size=3))
@example(b"a\r", [Addition(content="x")])
@example(b"# Database\n", [DATABASE, DATABASE])
@example(b"---\nk: v", [Addition(content="a\n---\nb")])
def test_an_added_memory_is_read_back_and_the_rest_of_the_note_stays(
    standing: bytes | None, added: list[Addition]
) -> None:
    for addition in added:
        check_addition(addition)
    before = split_note_sections(PATH, standing or b"")
    known = [
        OutlineSection(each.anchor, each.heading, each.level, each.start + 1) for each in before
    ]
    try:
        data, spans, anchors = append_section(PATH, standing, added, at=AT)
    except EditRefused:
        with pytest.raises(EditRefused):
            append_section(PATH, standing, added, at=AT, known=known)
        # Text at the end cannot close open front matter that the content ends.
        assert (standing or b"").removeprefix(codecs.BOM_UTF8).startswith(b"---")
        assert any("---" in addition.content for addition in added)
        return
    assert append_section(PATH, standing, added, at=AT, known=known) == (data, spans, anchors)
    assert data.startswith(standing or b"")
    note = parse_note(NotePath(PATH), data, ChunkingConfig())
    assert [section.anchor for section in note.sections[: len(before)]] == [
        part.anchor for part in before
    ]
    lines = decode_note(PATH, data).lines
    assert len(spans) == len(added)
    assert spans[-1].end == len(lines)
    for span, anchor, addition in zip(spans, anchors, added, strict=True):
        assert not lines[span.start - 2].strip()
        section = next(section for section in note.sections if section.span.start == span.start)
        assert section.anchor == anchor
        assert section.level == 2
        if addition.summary in ("Database", "C#", "C #", "a -- b"):
            assert section.heading[-1] == addition.summary
        if addition.kind:
            assert section.meta.kind == addition.kind.lower()
        assert section.meta.tags[: len(distinct_tags(addition.tags))] == distinct_tags(
            addition.tags
        )
        assert section.meta.importance == addition.importance or addition.importance is None
        assert section.meta.created == AT
        _assert_content(lines[span.start + 1 : span.end], addition.content)


def _assert_content(kept: list[str], content: str) -> None:
    """Check that the lines are the same, if no line is a heading and nothing is left open."""
    lines = content.split("\n")
    while not lines[0].strip():
        del lines[0]
    while not lines[-1].strip():
        del lines[-1]
    assert len(kept) <= len(lines) + 2
    if not any(block.kind == HEADING for block in split_blocks(lines)):
        assert lines in (kept, kept[:-1], kept[1:-1])


@given(st.text(min_size=1, max_size=30).filter(lambda text: text.strip()))
def test_plain_words_are_kept_unchanged(content: str) -> None:
    addition = Addition(content=f"x{content}y", summary="Words")
    try:
        check_addition(addition)
    except BadRequest:
        reject()
    assume(not any(mark in content for mark in "\r\n#=-"))
    data, spans, _ = append_section(PATH, None, [addition], at=AT)
    assert decode_note(PATH, data).lines[spans[0].start + 1 :] == [addition.content]


# --- Metadata as a comment ------------------------------------------------------------------------

WRITTEN_AT = "2026-11-22T01:43:24Z"
AWKWARD = """--> -- > <!-- " ' \\ : , # [ ] { } &a *a ! | % null ~ é 日 a 1 - ? @ ` = <<""".split()
BLANKS = [": ", ", ", " #", " ", "\u00a0", "\ufeff", "\U0001f600"]
TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=2)


def is_accepted_as_tag(word: str) -> bool:
    try:
        check_addition(Addition(content="x", tags=(word,)))
    except BadRequest:
        return False
    return True


words = (
    st.lists(st.sampled_from([*AWKWARD, *BLANKS]) | TEXTS, min_size=1, max_size=6)
    .map("".join)
    .filter(is_accepted_as_tag)
)


def read(addition: Addition) -> Meta:
    line = render_comment(addition, WRITTEN_AT)
    assert "\n" not in line
    assert line.index("-->") == len(line) - len("-->")
    meta, problems = find_section_meta("n.md", [line], 0, 1)
    assert not problems
    return meta


def test_metadata_is_one_comment() -> None:
    for addition, comment in (
        (Addition(content="x"), f"{{created: {WRITTEN_AT}}}"),
        (
            Addition(
                content="x",
                kind="Decision",
                tags=("#auth", "Auth", "a b"),
                importance=0.9,
                created="2026-01-02",
            ),
            "{kind: decision, tags: [auth, a b], importance: 0.9, created: 2026-01-02}",
        ),
        (
            Addition(
                content="x",
                priority="p0",
                lifecycle="TASK",
                task="WU-12",
                session="s 1",
                source="https://a.b/c?d",
            ),
            (
                f"{{priority: P0, lifecycle: task, task: WU-12, session: s 1, source: "
                f'"https://a.b/c?d", created: {WRITTEN_AT}}}'
            ),
        ),
        (
            Addition(content="x", source='say "-->"'),
            f'{{source: "say \\"--\\x3e\\"", created: {WRITTEN_AT}}}',
        ),
        (
            Addition(content="x", tags=("a, b", "c: d")),
            f'{{tags: ["a, b", "c: d"], created: {WRITTEN_AT}}}',
        ),
    ):
        assert render_comment(addition, WRITTEN_AT) == f"<!-- memory: {comment} -->", addition


@given(words, words, words, st.lists(words, max_size=4), st.floats(0, 1))
@example("a", "b", "c", ["# #d"], 0.5)
@example("a\ufeffb", "a\ufffeb\ue000", "\U0001ffff\u0378\U000e0001x", [], 0.5)
def test_a_written_comment_is_read_back(
    task: str, session: str, source: str, tags: list[str], importance: float
) -> None:
    words = {"task": task, "session": session, "source": source}
    addition = Addition(
        content="x", tags=tuple(tags), importance=importance, priority="P2", kind="Error", **words
    )
    check_addition(addition)
    assert read(addition) == Meta(
        kind="error",
        tags=distinct_tags(tags),
        importance=importance,
        priority="P2",
        task=task.strip(),
        session=session.strip(),
        source=source.strip(),
        created=WRITTEN_AT,
    )


def test_the_longest_values_are_read_back() -> None:
    tags = tuple(f"{number:02}{'x, ' * 66}" for number in range(32))
    addition = Addition(
        content="x", task="x: " * 66, session="y" * 200, source="é" * 200, tags=tags
    )
    check_addition(addition)
    assert read(addition).tags == tuple(tag.strip() for tag in tags)


# --- Kinds ----------------------------------------------------------------------------------------


def test_each_kind_has_its_own_note_that_takes_sections_and_an_importance() -> None:
    for kind, defaults in [*DEFAULT_KINDS.items(), ("", OTHER_KINDS)]:
        path = parse_note_path(defaults.append_to)
        assert path.folder == ".memories", kind
        assert is_note_name(path.name), kind
        assert is_markdown(path.name), kind
        assert 0 <= defaults.importance <= 1, kind
    notes = [defaults.append_to for defaults in DEFAULT_KINDS.values()]
    assert len(set(notes)) == len(notes)
    assert DEFAULT_KINDS["note"].append_to == OTHER_KINDS.append_to


# --- Everything at once ---------------------------------------------------------------------------


def test_every_invalid_field_is_named_at_once() -> None:
    wrong = replace(
        FULL,
        content="x" * 10_001,
        kind="two words",
        importance=1.5,
        priority="P9",
        topic="t" * 101,
        keywords=("k",) * 21,
        expires="some day",
        metadata={"a b": "c"},
        source={"x y": "z"},
    )
    with pytest.raises(BadRequest) as refused:
        check_addition(wrong, most_chars=10_000)
    faults: Any = refused.value.data["faults"]
    fields = "content kind importance priority source topic expires keywords metadata".split()
    assert [fault["field"] for fault in faults] == fields
    assert all(fault["problem"] and fault["hint"] for fault in faults)
    assert all(f"{field}: " in refused.value.message for field in fields)


def test_every_fault_of_keywords_and_tags_is_named_once() -> None:
    keywords = (*(f"k{number}" for number in range(21)), "k" * 101, "l" * 101, "a,b")
    faults = find_faults(replace(FULL, keywords=keywords, tags=("", "#", "two\nlines")))
    assert [fault.message for fault in faults] == [
        "keywords: are more than 20",
        "keywords: is over 100 characters",
        "keywords: contain a keyword with a comma",
        "tags: is empty",
        "tags: contain an empty tag",
        "tags: is not one line",
    ]


def test_every_field_is_read_back_as_it_was_written() -> None:
    addition = replace(
        FULL,
        lifecycle="wu",
        topic="redis: cache",
        keywords=("time out", "a:b", "time out"),
        scope="permanent",
        updated="2026-11-23",
        expires="2027-01-01",
        metadata={"owner": "infra, data"},
        source={"client": "acme", "note": "a --> b"},
    )
    meta, problems = find_section_meta("a.md", [render_comment(addition, "2026-11-22")], 0, 1)
    assert problems == ()
    assert (meta.lifecycle, meta.updated, meta.expires) == ("task", "2026-11-23", "2027-01-01")
    assert meta.source == "client: acme; note: a --> b"
    assert dict(meta.extra) == {
        "topic": "redis: cache", "keywords": "time out, a:b", "scope": "permanent",
        "owner": "infra, data",
    }  # fmt: skip


def test_the_names_of_other_programs_are_read() -> None:
    lines = ["<!-- memory: {wu_id: WU-7, lifecycle: wu} -->"]
    meta, problems = find_section_meta("a.md", lines, 0, 1)
    assert (meta.task, meta.lifecycle, problems) == ("WU-7", "task", ())
