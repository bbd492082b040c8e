"""The scanner finds the same blocks as its oracle, markdown-it's own block rules."""

from __future__ import annotations

import gc
import sys
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memsyncd.core.markdown.scanner import (
    Block,
    fill_gaps,
    parse_blocks,
    split_blocks,
    split_paragraphs,
)


def split_blocks_slowly(lines: list[str]) -> list[Block]:
    """The blocks by markdown-it alone: the oracle that `split_blocks` must equal."""
    return list(fill_gaps(parse_blocks(lines, 0, len(lines)), lines, 0))


MARGINS = ("", "", "", "", " ", "  ", "   ", "    ", "\t", "  \t", "> ", ">", "- ", "1. ", "\\")
PIECES = (
    "", "", "", " ", "\t", "a", "b c", "text | pipe", "**bold**", "_i_ x", "`code`", "\x0b",
    "\xa0x", "\u2028", "漢字", "# h", "## h ##", "#", "#x", "####### x", "===", "=", "---", "--", "-",
    "- ", "***", "* * *", "__", "___", "- - x", "- x", "* x", "+ x", "-   x", "-     x", "-\tx",
    "-x", "- [ ] t", "- [x] t", "- a | b", "- # h", "- > q", "- ```", "- <div>", "1. x", "2. x",
    "1) y", "01. q", "1.", "1.x", "123456789. x", "1234567890. x", "- [a]: x", "> q", ">", "> ",
    "> - x", "> > q", "> # h", "> ```", "> a | b", "> 1. x", "```", "```py", "``` `", "~~~", "~~~~",
    "``", "~", "a | b", "| a | b |", "|---|---|", "---|---", "--|--", ":--", "|:-:|", "|", ":",
    "\\|", "| \\| |", "||", "-|", "<div>", "</div>", "<b>", "<b>x", "<?x", "?>", "<script>",
    "</script>", "<!-- c -->", "<!--", "-->", "<!X>", "<http://x>", "[a]: http://x", "[a]: /u 'ti",
    "tle'", "[a]:", "[a", "b]: x", "[x](y)", "[a]: x y", "'t'", "[ ]: x", "[a]: <x>", "[^1]: note",
)  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> list[str]:
    few = draw(st.lists(st.sampled_from(PIECES), min_size=2, max_size=8))
    pieces = st.sampled_from(few) | st.sampled_from(PIECES)
    margins = st.just("") | st.sampled_from(MARGINS)
    lines = draw(st.lists(st.builds(str.__add__, margins, pieces), max_size=30))
    while lines and not lines[-1]:
        lines.pop()
    return lines


@given(documents())
@example([">", "    > q"])
@example(["- a | b", "- c | d", "--|--"])
@example(["x", "a | b", "--|--", "<b>"])
@example(["-", "", "  x"])
@example(["[foo", "===", "bar]: /url"])
@example(["    code", "", "    more", "<b>"])
@example([*["- x"] * 40, "<b>"])
@settings(max_examples=4 * settings().max_examples)  # the oracle of everything that is indexed
def test_every_block_is_where_markdown_it_sees_it(lines: list[str]) -> None:
    assert split_blocks(lines) == split_blocks_slowly(lines)


@given(documents(), st.integers(0, 5))
def test_each_line_that_is_not_blank_is_in_exactly_one_block(lines: list[str], first: int) -> None:
    blocks = split_blocks(lines, first)
    lines_of_blocks = [at for block in blocks for at in range(block.start, block.end)]
    assert lines_of_blocks == sorted(set(lines_of_blocks))
    assert {at for at in range(first, len(lines)) if lines[at].strip(" \t")} <= set(lines_of_blocks)
    assert all(
        lines[block.start].strip(" \t") and lines[block.end - 1].strip(" \t") for block in blocks
    )


def test_headings_within_fences_quotes_and_lists_are_not_headings() -> None:
    lines = [
        "# one",
        "```",
        "# two",
        "```",
        "> # three",
        "",
        "- # four",
        "",
        "Five",
        "---",
        "<!--",
        "# six",
        "-->",
    ]
    assert [(block.start, block.level) for block in split_blocks(lines) if block.level] == [
        (0, 1),
        (8, 2),
    ]


def test_link_reference_definitions_are_blocks_too() -> None:
    assert split_blocks(["a", "", "[x]: http://y", "[z]: /q", "b"]) == [
        Block(0, 1, "paragraph"),
        Block(2, 4, "reference"),
        Block(4, 5, "paragraph"),
    ]


def test_scanned_lines_are_not_kept_until_the_garbage_collector_runs() -> None:
    lines = ["# One", "", "text", "", "- item", "", "> quote", "", "```", "code", "```"]
    gc.disable()
    try:
        before = sys.getrefcount(lines)
        assert len(split_blocks(lines)) == 5
        assert sys.getrefcount(lines) == before
    finally:
        gc.enable()


def test_plain_text_has_paragraphs_only() -> None:
    assert split_paragraphs(["# a", "- b", "", " ", "```", "c"]) == [
        Block(0, 2, "paragraph"),
        Block(4, 6, "paragraph"),
    ]


def test_lines_beyond_the_parsers_depth_take_in_no_others() -> None:
    lines = ["> " * 200 + "x", "lazy", "", "# after"]
    assert split_blocks(lines) == [Block(0, 2, "quote"), Block(3, 4, "heading", 1)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 50_000, id="brackets"),
        pytest.param(">" * 50_000, id="one deep quote"),
        pytest.param((">" * 50 + " x\nlazy\n") * 800, id="deep quotes"),
        pytest.param("- " * 24_000 + "x", id="one deep list"),
        pytest.param("- x\n" * 12_000 + "<b>", id="a long list with an awkward end"),
        pytest.param("-\n" * 20_000, id="empty items"),
        pytest.param("|" * 24_000 + "\n" + "|-" * 12_000 + "|", id="a wide table"),
        pytest.param("<!--\n" + "x\n" * 20_000, id="an unclosed comment"),
        pytest.param("[a\n# h\n" * 6_000, id="labels that never close"),
        pytest.param("[a\n===\n" * 6_000, id="labels in headings"),
    ],
)
def test_hostile_text_takes_time_in_proportion_to_its_length(text: str) -> None:
    started_s = process_time()
    split_blocks(text.split("\n"))
    assert process_time() - started_s < 2
