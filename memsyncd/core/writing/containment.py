"""How is a text kept within its section, whatever is in it? Headings go below the section's, what is left open is closed.

Whether it holds is not reasoned about but tried, with the parser that will read the note: a heading put after the text must be
found. Text that cannot be kept otherwise goes into a fence, within which nothing means anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from memsyncd.core.markdown.blocks import FENCE, HEADING, HTML, Block
from memsyncd.core.markdown.outline import split_blocks

SECTION_LEVEL: Final = 2

_DEEPEST_LEVEL = 6
_PROBE = f"{'#' * SECTION_LEVEL} probe"
_ATX = re.compile(r" {0,3}#{1,6}(?=[ \t]|$)")
_CLOSING_MARKS = re.compile(r"(?:(?<=[ \t])|^)#+$")
_FENCE_MARK = re.compile(r" {0,3}(`{3,}|~{3,})")
_TICKS = re.compile(r"`+")
_HTML_ENDS = (
    (re.compile(r" {0,3}<!--"), "-->"),
    (re.compile(r" {0,3}<\?"), "?>"),
    (re.compile(r" {0,3}<!\[CDATA\["), "]]>"),
    (re.compile(r" {0,3}<![A-Za-z]"), ">"),
    (re.compile(r" {0,3}<script\b", re.IGNORECASE), "</script>"),
    (re.compile(r" {0,3}<pre\b", re.IGNORECASE), "</pre>"),
    (re.compile(r" {0,3}<style\b", re.IGNORECASE), "</style>"),
    (re.compile(r" {0,3}<textarea\b", re.IGNORECASE), "</textarea>"),
)


def make_heading_line(level: int, text: str) -> str:
    """One line that is a heading of this text; a `#` at its end is escaped, or it would be a mark."""
    text = " ".join(text.split())
    return f"{'#' * level} {_CLOSING_MARKS.sub(lambda marks: chr(92) + marks[0], text)}".rstrip()


def contain(lines: Sequence[str]) -> list[str]:
    """The lines, changed only where they would not stay within their section."""
    kept = _push_headings(lines)
    kept += find_closing_lines(kept)
    return kept if _is_contained(kept) else _put_into_fence(lines)


def find_closing_lines(lines: Sequence[str], first: int = 0) -> list[str]:
    """What must follow the lines of a note so that a heading after them is one: nothing, as a rule."""
    probed = split_blocks([*lines, "", _PROBE], first)
    if probed and probed[-1].kind == HEADING and probed[-1].start == len(lines) + 1:
        return []
    blocks = split_blocks(lines, first)
    return [_find_end(lines, blocks[-1])] if blocks else []


def _find_end(lines: Sequence[str], block: Block) -> str:
    opening = lines[block.start]
    if block.kind == FENCE and (fence := _FENCE_MARK.match(opening)):
        return fence[1]
    if block.kind == HTML:
        return next((end for start, end in _HTML_ENDS if start.match(opening)), "")
    return ""


def _push_headings(lines: Sequence[str]) -> list[str]:
    heads = [block for block in split_blocks(lines) if block.kind == HEADING]
    n_more = SECTION_LEVEL + 1 - min((head.level for head in heads), default=_DEEPEST_LEVEL)
    if n_more <= 0:
        return list(lines)
    pushed: list[str] = []
    done = 0
    for head in heads:
        level = min(head.level + n_more, _DEEPEST_LEVEL)
        pushed += [*lines[done : head.start], _push_heading(lines[head.start : head.end], level)]
        done = head.end
    return [*pushed, *lines[done:]]


def _push_heading(lines: Sequence[str], level: int) -> str:
    if len(lines) == 1:
        return _ATX.sub("#" * level, lines[0])
    return make_heading_line(level, " ".join(line.strip() for line in lines[:-1]))


def _is_contained(lines: Sequence[str]) -> bool:
    whole = [_PROBE, "<!-- memory: {} -->", *lines, "", _PROBE]
    heads = [block for block in split_blocks(whole) if block.kind == HEADING]
    levels = [head.level for head in heads[1:-1]]
    return (
        len(heads) > 1
        and heads[0].start == 0
        and heads[-1].start == len(whole) - 1
        and all(level > SECTION_LEVEL for level in levels)
    )


def _put_into_fence(lines: Sequence[str]) -> list[str]:
    longest = max((len(ticks) for line in lines for ticks in _TICKS.findall(line)), default=0)
    mark = "`" * max(longest + 1, 3)
    return [mark, *lines, mark]
