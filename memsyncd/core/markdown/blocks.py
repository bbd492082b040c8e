"""What is a block, and which blocks has a text that is not markdown?

A block is a run of lines that belongs together: a paragraph, one list item, a table, a fence. Finding those of markdown is
left to `outline` and `scanner`, which agree on the values here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

PARAGRAPH: Final = "paragraph"
HEADING: Final = "heading"
ITEM: Final = "item"
QUOTE: Final = "quote"
FENCE: Final = "fence"
CODE: Final = "code"
HTML: Final = "html"
TABLE: Final = "table"
RULE: Final = "rule"
REFERENCE: Final = "reference"

BLANKS: Final = " \t"


class Block(NamedTuple):
    """Lines `start` to `end` as markdown-it maps them: 0-based, end exclusive. Neither the first nor the last line is blank.

    `level` is 1-6 for a heading and 0 for the rest.
    """

    start: int
    end: int
    kind: str
    level: int = 0


def split_paragraphs(lines: Sequence[str]) -> list[Block]:
    """The blocks of plain text: what stands between blank lines."""
    return list(_split_at_blanks(lines, 0, len(lines), PARAGRAPH))


def fill_gaps(blocks: Iterable[Block], lines: Sequence[str], first: int) -> Iterator[Block]:
    """The same blocks without blank lines at their ends, and a block for each run of lines from `first` on that none holds.

    Such lines are link reference definitions: markdown-it reads them and says nothing, but somebody wrote them to find them.
    """
    done = first
    for block in blocks:
        start, end, _, _ = block
        if start > done:
            yield from _split_at_blanks(lines, done, start, REFERENCE)
        done = end
        last = lines[end - 1]
        yield block if last and last[-1] not in BLANKS else _trim(block, lines)
    yield from _split_at_blanks(lines, done, len(lines), REFERENCE)


def _trim(block: Block, lines: Sequence[str]) -> Block:
    end = block.end
    while end > block.start + 1 and not lines[end - 1].strip(BLANKS):
        end -= 1
    return block._replace(end=end)


def _split_at_blanks(lines: Sequence[str], first: int, after: int, kind: str) -> Iterator[Block]:
    start = -1
    for at in range(first, after):
        is_blank = not lines[at].strip(BLANKS)
        if start < 0 and not is_blank:
            start = at
        elif start >= 0 and is_blank:
            yield Block(start, at, kind)
            start = -1
    if start >= 0:
        yield Block(start, after, kind)
