from __future__ import annotations

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.config import ChunkingConfig
from memsyncd.core.editing.sections import (
    contain,
    find_closing_lines,
    find_sections_bytes,
    is_extended,
    make_heading_line,
    replace_section,
    split_note_sections,
    trace_sections,
)
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.markdown.scanner import HEADING, split_blocks
from memsyncd.core.markdown.sections import heading_text
from memsyncd.core.paths import NotePath
from memsyncd.errors import NoteNotFound

# --- The bytes of a section -----------------------------------------------------------------------

NOTE = b"---\ntags: [x]\n---\ntop\n\n# One\ntext\n\n## Two\r\nmore\r\n# One\nlast"
pieces = st.lists(
    st.sampled_from(
        [
            "# a", "## b", "# a", "text", "Title", "===", "---", "```", "<!--", "", "k: v", "é",
            "\udcff", "\0",
        ]
    ),
    max_size=12,
)  # fmt: skip
ends = st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=12, max_size=12)


@st.composite
def notes(draw: st.DrawFn) -> bytes:
    lines, line_ends = draw(pieces), draw(ends)
    text = "".join(line + end for line, end in zip(lines, line_ends, strict=False))
    text = text.rstrip("\r\n") if draw(st.booleans()) else text
    mark = draw(st.booleans())
    return (codecs.BOM_UTF8 if mark else b"") + text.encode("utf-8", "surrogateescape")


def test_a_sections_bytes_run_to_its_last_line_that_is_not_blank() -> None:
    for anchor, own in (
        ("n.md#", b"---\ntags: [x]\n---\ntop\n"),
        ("n.md#one", b"# One\ntext\n"),
        ("n.md#one/two", b"## Two\r\nmore\r\n"),
        ("n.md#one-2", b"# One\nlast"),
    ):
        place = find_sections_bytes("n.md", NOTE).get(anchor)
        assert place is not None, anchor
        assert NOTE[slice(*place)] == own, anchor


def test_a_byte_order_mark_belongs_to_no_section() -> None:
    assert find_sections_bytes("n.md", codecs.BOM_UTF8 + b"# a\n").get("n.md#a") == (3, 7)


def test_a_missing_section_is_not_found() -> None:
    assert find_sections_bytes("n.md", NOTE).get("n.md#three") is None
    assert find_sections_bytes("n.md", b"").get("n.md#") is None
    with pytest.raises(NoteNotFound):
        replace_section("n.md", NOTE, "n.md#three", b"")


def test_a_removed_section_takes_its_separating_blank_lines_along() -> None:
    note = b"# one\n\n \n# two\ntext\n\n# three\n"
    assert replace_section("n.md", note, "n.md#one", b"") == b"# two\ntext\n\n# three\n"
    assert replace_section("n.md", note, "n.md#two", b"") == b"# one\n\n \n# three\n"
    assert replace_section("n.md", note, "n.md#three", b"") == b"# one\n\n \n# two\ntext\n"
    assert replace_section("n.md", b"\n\n# one", "n.md#one", b"") == b""


def test_a_section_without_a_line_end_gets_one_only_above_another() -> None:
    for data, by, expected in (
        (b"# a\n# b", b"# c", b"# c\n# b"),
        (b"# a\r\n# b", b"# c", b"# c\r\n# b"),
        (b"# a\n# b", b"# c\r", b"# c\r# b"),
        (b"# a\n", b"# c", b"# c"),
        (b"# a\n# b", b"", b"# b"),
    ):
        assert replace_section("n.md", data, "n.md#a", by) == expected, data


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_the_bytes_of_utf16_have_no_sections(encoding: str) -> None:
    data = "\ufeff# a\n# b".encode(encoding)
    assert find_sections_bytes("n.md", data) == {}
    with pytest.raises(NoteNotFound):
        replace_section("n.md", data, "n.md#a", b"")


@given(notes(), st.sampled_from(["n.md", "n.txt"]))
def test_an_edit_sees_the_sections_of_the_parser_and_their_bytes_read_as_their_lines(
    data: bytes, path: str
) -> None:
    lines = decode_note(path, data).lines
    sections = parse_note(NotePath(path), data, ChunkingConfig()).sections
    assert [section.anchor for section in sections] == [
        part.anchor for part in split_note_sections(path, data)
    ]
    end_before = 0
    for section in sections:
        place = find_sections_bytes(path, data).get(section.anchor)
        assert place is not None
        start, end = place
        assert end_before <= start <= end
        end_before = end
        own = decode_note(path, data[start:end]).lines
        assert own == drop_blank_end(lines[section.span.start - 1 : section.span.end])


def drop_blank_end(lines: list[str]) -> list[str]:
    n_lines = max((at for at, line in enumerate(lines, 1) if line.strip()), default=0)
    return lines[:n_lines]


@given(notes(), notes(), st.sampled_from([b"", b"\n", b"\r\n", b"\n\n", b"\r"]))
@example(b"---\nk: v\n---\n\n# a\n", b"# b\n", b"\n")
def test_a_text_that_is_extended_keeps_its_sections(old: bytes, more: bytes, end: bytes) -> None:
    new = old + end + more
    before, after = (split_note_sections("n.md", data) for data in (old, new))
    traces = trace_sections("n.md", old)
    assert [f"n.md#{trace.slugs}" for trace in traces] == [section.anchor for section in before]
    if is_extended("n.md", old, new):
        names = [[(section.anchor, section.start) for section in part] for part in (before, after)]
        assert names[1][: len(before)] == names[0]


@given(notes(), st.sampled_from([b"# new", b"# new\n\n## and\r\n", b"\xff", b"```\n"]))
def test_restoring_a_removed_section_gives_the_same_bytes(data: bytes, by: bytes) -> None:
    for part in split_note_sections("n.md", data):
        place = find_sections_bytes("n.md", data).get(part.anchor)
        assert place is not None
        start, end = place
        changed = replace_section("n.md", data, part.anchor, by)
        assert changed.startswith(data[:start])
        assert changed.endswith(data[end:])
        after = len(data) - end
        assert changed[:start] + data[start:end] + changed[len(changed) - after :] == data
        assert start == end or replace_section("n.md", data, part.anchor, data[start:end]) == data


@given(notes())
@example(b"```\n```\n# a\n```\n# a\n")
def test_restoring_a_changed_section_by_its_name_gives_the_same_bytes(data: bytes) -> None:
    for part in split_note_sections("n.md", data):
        start, end = find_sections_bytes("n.md", data).get(part.anchor) or (0, 0)
        head = data[start:end].split(b"\n")[0].split(b"\r")[0]
        other = head + b"\n\nother words\n"
        changed = replace_section("n.md", data, part.anchor, other)
        # Bytes that leave a fence open, or change the heading, make another section.
        if find_sections_bytes("n.md", changed).get(part.anchor) == (start, start + len(other)):
            assert replace_section("n.md", changed, part.anchor, data[start:end]) == data


# --- Keeping a text within its section ------------------------------------------------------------

WILD = """\
# one
## two
### three
###### six
####### seven
#
Title
===
---
***
```
````
~~~
```py
<!--
-->
<!-- memory: {kind: error} -->
<script>
</script>
<pre>
<style>
<textarea>
<?php
?>
<!DOCTYPE
<![CDATA[
]]>
<div>
</div>
<a
> quote
> ```
> # x
- item
- # x
  - ```
1. one
    code
\tcode
| a | b |
|---|---|
[a]: http://x
[a]:
'title
text

  ```
   # x
""".split("\n")
WILD += ["<q", "- " * 50 + "x", "> " * 120]
wild = st.lists(st.sampled_from(WILD) | st.text("#`~<>-=! a|[]", max_size=6), max_size=12)


def test_a_text_stays_within_its_section() -> None:
    for text, kept in (
        ("just words", None),
        ("### three\n#### four", None),
        ("##### five", None),
        ("# one\ntext\n## two", "### one\ntext\n#### two"),
        ("## two\n### three", "### two\n#### three"),
        ("# one\n###### six", "### one\n###### six"),
        ("Title\n===\n\nmore\n---", "### Title\n\n#### more"),
        ("Two\nlines\n---", "### Two lines"),
        ("C #\n===", "### C \\#"),
        ("   # indented", "### indented"),
        ("#", "###"),
        ("```\n# not one\n```", None),
        ("> # not one", None),
        ("```\nopen", "```\nopen\n```"),
        ("~~~~\nopen ```", "~~~~\nopen ```\n~~~~"),
        ("<!-- open\n\n# x", "<!-- open\n\n# x\n-->"),
        ("<script>\n\nx", "<script>\n\nx\n</script>"),
        ("<?php\n\nx", "<?php\n\nx\n?>"),
        ("- ```\n  open in an item", None),
        ("---\n***", None),
    ):
        assert contain(text.split("\n")) == (kept if kept is not None else text).split("\n"), text


@pytest.mark.parametrize(("last", "fence"), [("x", "```"), ("``` ````", "`````")])
def test_a_text_that_cannot_be_contained_otherwise_is_put_into_a_fence(
    last: str, fence: str
) -> None:
    # Below lists that nest so deeply, the parser gives up.
    lines = ["<q", "- " * 50 + last]
    assert contain(lines) == [fence, *lines, fence]


@given(wild)
@example(["<!--", "--", "```"])
@example(["[a]:", "===", "# x"])
def test_a_text_between_two_headings_stays_between_them(lines: list[str]) -> None:
    kept = contain(lines)
    whole = ["## before", "<!-- memory: {kind: x} -->", *kept, "", "## after"]
    heads = [block for block in split_blocks(whole) if block.kind == HEADING]
    assert (heads[0].start, heads[-1].start) == (0, len(whole) - 1)
    assert all(head.level > 2 for head in heads[1:-1])


@given(wild)
def test_no_line_is_lost_except_the_marks_of_headings(lines: list[str]) -> None:
    kept = contain(lines)
    n_heads = sum(block.kind == HEADING for block in split_blocks(lines))
    if n_heads == 0:
        at = kept[: len(lines)] == lines or kept[1:-1] == lines
        assert at
        assert len(kept) - len(lines) in (0, 1, 2)
    assert contain(kept) == kept


@given(st.text("#\\ab `*", min_size=1, max_size=12))
@example("C #")
@example("###")
@example("a \\#")
def test_a_heading_line_is_one_heading(text: str) -> None:
    line = make_heading_line(2, text)
    block = split_blocks([line])[0]
    assert (block.kind, block.level) == (HEADING, 2)
    if "`" not in text and "*" not in text and "\\" not in text:
        assert heading_text([line], block) == " ".join(text.split())


def test_an_open_fence_or_comment_of_a_note_is_closed() -> None:
    for text, closing in (
        ("", []), ("words", []), ("```\nx", ["```"]), ("````\nx\n```", ["````"]),
        ("<!-- x", ["-->"]), ("<!-- x -->", []), ("- a\n  ```", []), ("<PRE>\n\n", ["</pre>"]),
        ("<textarea>", ["</textarea>"]), ("<!DOCTYPE", [">"]), ("<![CDATA[", ["]]>"]),
    ):  # fmt: skip
        assert find_closing_lines(text.split("\n")) == closing, text
