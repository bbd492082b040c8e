"""Which blocks does a markdown note have, and where? As markdown-it's block rules say; inline rules are never run.

Headings are ATX and setext ones, none inside fences, quotes or lists. Each item of a top-level list is a block of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from memsyncd.core.markdown.blocks import CODE, FENCE, HEADING, HTML, ITEM, PARAGRAPH, QUOTE, RULE, TABLE, Block, fill_gaps
from memsyncd.core.markdown.scanner import scan_blocks

_KINDS = {
    "paragraph_open": PARAGRAPH,
    "heading_open": HEADING,
    "list_item_open": ITEM,
    "blockquote_open": QUOTE,
    "fence": FENCE,
    "code_block": CODE,
    "html_block": HTML,
    "table_open": TABLE,
    "hr": RULE,
}
_LISTS = ("bullet_list_open", "ordered_list_open")


def split_blocks(lines: Sequence[str], first: int = 0) -> list[Block]:
    """The blocks of the lines from `first` on, in order; every line that is not blank is in exactly one."""
    return list(fill_gaps(scan_blocks(lines, first, parse_blocks), lines, first))


def split_blocks_slowly(lines: Sequence[str], first: int = 0) -> list[Block]:
    """The same by markdown-it alone: what `find_blocks` is measured by and must equal."""
    return list(fill_gaps(parse_blocks(lines, first, len(lines)), lines, first))


def parse_blocks(lines: Sequence[str], first: int, after: int) -> list[Block]:
    """The blocks that markdown-it itself sees in the lines from `first` to before `after`."""
    text = "\n".join(lines[first:after]) + "\n"
    return [_make_block(token, first) for token in _PARSER.parse(text) if _is_block(token)]


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table")
    parser.core.ruler.enableOnly(["block"])
    return parser


_PARSER = _make_parser()


def _is_block(token: Token) -> bool:
    if token.map is None or token.nesting < 0:
        return False
    if token.level == 0:
        return token.type not in _LISTS
    return token.level == 1 and token.type == "list_item_open"


def _make_block(token: Token, first: int) -> Block:
    start, end = token.map or (0, 0)
    level = int(token.tag[1]) if token.type == "heading_open" else 0
    return Block(start + first, max(end, start + 1) + first, _KINDS[token.type], level)
