"""Which blocks begin an awkward region, and where can a scan go on behind them?

A parser reads as few lines as will do. Of the blocks it finds those are certain that end before the region does: at the margin a
block depends on nothing above it, and on nothing below the line that ended it. So a region is cut only where no reference
definition can go on, and blocks that may look further than the line behind them are taken only from a larger region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memsyncd.core.markdown import linerules as rules
from memsyncd.core.markdown.blocks import BLANKS, CODE, ITEM, Block

RegionParser = Callable[[Sequence[str], int, int], list[Block]]
"""Takes lines, the first of a region (0-based) and the one after it; gives the blocks as they were if the text ended there."""

_REGION_LINES = 8
_REGION_GROWTH = 4


def read_region(lines: Sequence[str], at: int, parse: RegionParser) -> tuple[list[Block], int]:
    """Blocks from line `at` on, which begins one, and the line to go on from. There may be none only at the end of the text."""
    n_lines = _REGION_LINES
    while True:
        after = _find_cut(lines, at + n_lines)
        found = parse(lines, at, after)
        if after >= len(lines):
            return found, after
        while found and _is_uncertain(lines, found[-1], after):
            found.pop()
        if found:
            return found, found[-1].end
        n_lines *= _REGION_GROWTH


def is_before_delimiter(lines: Sequence[str], at: int) -> bool:
    """True if line `at` could be a table's head, were it not in a list."""
    return at + 1 < len(lines) and rules.is_delimiter(lines[at + 1])


def _is_uncertain(lines: Sequence[str], block: Block, after: int) -> bool:
    """Indented code looks beyond blank lines for more of it; an item must not be cut off before what looks like a table."""
    if block.end >= after or block.kind == CODE:
        return True
    return block.kind == ITEM and is_before_delimiter(lines, block.end)


def _find_cut(lines: Sequence[str], at: int) -> int:
    """The first line from `at` on before which a text can be cut: under a blank line, or a list item at the margin."""
    while at < len(lines) and lines[at - 1].strip(BLANKS) and not rules.is_marker(lines[at]):
        at += 1
    return min(at, len(lines))
