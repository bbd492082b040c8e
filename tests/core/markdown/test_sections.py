from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.markdown.scanner import split_blocks
from memsyncd.core.markdown.sections import heading_text, make_slug, split_sections
from tests.core.guard.test_secrets import HEX, make


def test_a_heading_is_its_plain_text() -> None:
    for line, text in (
        ("# One", "One"),
        ("###### Six ##", "Six"),
        ("# One#", "One#"),
        ("#", ""),
        ("## ##", ""),
        ("# `code` **bold** _em_ ~~out~~ snake_case", "code bold em out snake_case"),
        ("# [text](a.md) and [[note|shown]] ![pic](x.png)", "text and shown pic"),
        ("# a \\* b\\_c", "a * b_c"),
        ("# a <!-- hidden -->", "a"),
        ("# " + "x" * 1000, "x" * 300),
    ):
        assert heading_text([line], split_blocks([line])[0]) == text, line


# Runs of marks: not after a backslash, and no `_` within a word.
PLAIN_MARKS = re.compile(r"(?<!\\)(?:[*`~]+|(?<!\w)_+|_+(?!\w))")


@given(st.text(alphabet="ab1é_*`~ -", max_size=30), st.booleans())
def test_a_heading_loses_its_marks_except_within_words(text: str, is_escaped: bool) -> None:
    text = text.replace("-", "\\") if is_escaped else text
    line = f"# x {text}"
    plain = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", PLAIN_MARKS.sub("", line[1:]))
    assert heading_text([line], split_blocks([line])[0]) == " ".join(plain.split())


def test_a_slug_has_letters_digits_and_hyphens() -> None:
    for text, slug in (
        ("Hello, World!", "hello-world"),
        ("  a  -  b ", "a-b"),
        ("snake_case v1.2", "snake_case-v12"),
        ("Größe 日本語", "größe-日本語"),
        ("a/b#c", "abc"),
        ("!!!", "section"),
        ("", "section"),
        ("x" * 100, "x" * 80),
    ):
        assert make_slug(text) == slug, text


def anchors(text: str, *, has_top: bool = False) -> list[str]:
    lines = text.split("\n")
    return [
        part.anchor for part in split_sections("n", lines, split_blocks(lines), has_top=has_top)
    ]


def test_anchors_name_the_path_to_a_section_and_are_unique() -> None:
    for text, expected in (
        ("text", ["n#"]),
        ("# a", ["n#a"]),
        ("\n\n# a", ["n#a"]),
        ("# a\n## b\n### c\n## d\n# e", ["n#a", "n#a/b", "n#a/b/c", "n#a/d", "n#e"]),
        ("### a\n# b\n### c", ["n#a", "n#b", "n#b/c"]),
        ("# a\n# a\n# a", ["n#a", "n#a-2", "n#a-3"]),
        ("# a\n# a-2\n# a", ["n#a", "n#a-2", "n#a-3"]),
        ("# a\n## x\n# a\n## x", ["n#a", "n#a/x", "n#a-2", "n#a-2/x"]),
    ):
        assert anchors(text) == expected, text


def test_lines_before_the_first_heading_are_a_section_if_there_are_any() -> None:
    assert anchors("# a", has_top=True) == ["n#", "n#a"]


def test_many_sections_of_one_name_get_anchors_in_linear_time() -> None:
    assert anchors("# a\n" * 20_000)[-1] == "n#a-20000"


def test_a_secret_in_an_anchor_is_redacted() -> None:
    token = "sk-" + make(32, HEX)
    lines = [f"# Key {token}", "", "## Below", ""]
    anchors = [
        part.anchor for part in split_sections("a.md", lines, split_blocks(lines), has_top=False)
    ]
    assert anchors == ["a.md#key-masked-api-key", "a.md#key-masked-api-key/below"]
