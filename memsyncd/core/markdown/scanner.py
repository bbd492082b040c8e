"""Split a note into blocks as markdown-it's block rules define them; inline rules never run.

A block is a run of lines that belongs together: a paragraph, one item of a top-level list, a table,
a fence. Headings are ATX and setext headings outside of fences, quotes and lists. Text that is not
markdown has paragraphs only.

The scanner finds blocks many times faster than a parser. Its rule for every line: be exactly right,
or call the line uncertain. Uncertain regions (html, lazy lines after nested blocks, reference
definitions of several lines) go to markdown-it. A test compares the scanner with markdown-it alone.

markdown-it reads as few lines of a region as possible. A block that it finds is certain if it ends
before the region does: at the margin a block depends on nothing above it, and on nothing below the
line that ended it. Therefore a region is cut only where no reference definition can continue, and
blocks that may look further than the next line are taken only from a larger region.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


BLANKS: Final = " \t"

# A line that begins with one of these characters may be more than text of a paragraph.
SPECIAL_STARTS: Final = frozenset("#>*-+_=~`<|:[0123456789 \t")

# Characters that markdown-it strips from the ends of a table's row and cells.
TRIMMED: Final = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
    "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

# A table ends where its rows lack more cells than this: markdown-it's guard against tiny texts with
# huge tables.
MISSING_CELLS_LIMIT: Final = 0x10000

_MARKER_STARTS = frozenset("#*_`~+[0123456789")

_INDENTED_CODE = re.compile(r" {4}| {0,3}\t")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_RULE = re.compile(r" {0,3}(?P<rule>[-_*])[ \t]*(?:(?P=rule)[ \t]*){2,}$")
_QUOTE = re.compile(r" {0,3}> ?")
_QUOTED = re.compile(r"[ \t]*> ?")
_MARKER = re.compile(r" {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?:[ \t]|$)")
_MARGIN_MARKER = re.compile(r"(?:[-+*]|[0-9]{1,9}[.)])[ \t]")
_INTERRUPTING_MARKER = re.compile(r" {0,3}(?:[-+*]|0{0,8}1[.)])[ \t]+[^ \t]")
_ITEM = re.compile(r" {0,3}(?:([-+*])|[0-9]{1,9}([.)]))(?: {1,4}(?=[^ \t])|[ \t]*$)")
_HTML = re.compile(r" {0,3}<[/!?A-Za-z]")
_DELIMITER = re.compile(r" {0,3}(?:[|:]|-(?![ \t]))[-|: \t]+$")
_DELIMITER_CELL = re.compile(r":?-+:?")
_BARE_PIPE = re.compile(r"(?<!\\)\|")
_REFERENCE = re.compile(
    r" {0,3}\[[^\[\]\\]*[A-Za-z0-9][^\[\]\\]*\]:[ \t]+(?:https?://)?[A-Za-z0-9_./?#=~+,;!-]+[ \t]*$"
)
_TITLE_STARTS = ('"', "'", "(")
_TERMINATOR = re.compile(
    "|".join(rule.pattern for rule in (_MARKER, _QUOTE, _HEADING, _FENCE, _RULE))
)
_INTERRUPTER = re.compile(
    "|".join(rule.pattern for rule in (_INTERRUPTING_MARKER, _QUOTE, _HEADING, _FENCE, _RULE))
)
_DEEP = re.compile(r"(?:[ \t]*(?:[->*+]|[0-9]{1,9}[.)])){16}")


class Item(NamedTuple):
    """A list item's first line.

    `kind` is the bullet, or the sign after the number: an item of another kind begins another list.
    `indent` is the column at which the content begins, or would begin.
    """

    kind: str
    indent: int
    content: str


def is_paragraph_text(text: str) -> bool:
    """True if the text, a line without its indent, is certainly only text of a paragraph, and no
    head of a table or part of a reference.
    """
    if not text or "|" in text or "]:" in text:
        return False
    return text[0] not in SPECIAL_STARTS or (text[0] in _MARKER_STARTS and not is_terminator(text))


def is_indented_code(line: str) -> bool:
    """True if the line is indented by four columns or more, blank or not."""
    return _INDENTED_CODE.match(line) is not None


def indent_width(line: str) -> int:
    """The columns before the first character that is not blank."""
    blank = line[: len(line) - len(line.lstrip(BLANKS))]
    return len(blank.expandtabs(4)) if "\t" in blank else len(blank)


def heading_level(line: str) -> int:
    """1-6 for an ATX heading, else 0."""
    match = _HEADING.match(line)
    return len(match[1]) if match else 0


def underline_level(line: str) -> int:
    """1 or 2 for a line that makes a heading of the paragraph above it, else 0."""
    if not _UNDERLINE.match(line):
        return 0
    return 1 if "=" in line else 2


def fence_mark(line: str) -> str:
    """The run of backticks or tildes that opens a fence, empty if the line opens none."""
    match = _FENCE.match(line)
    return match[1] if match else ""


def is_closing_fence(line: str, mark: str) -> bool:
    """True if the line closes a fence that `mark` opened."""
    text = line.strip(BLANKS)
    return text.startswith(mark) and not text.strip(mark[0]) and not is_indented_code(line)


def follow_fence(fence: str, line: str) -> str:
    """The mark of the fence that is open after the line; empty if none is. `fence` is the mark of
    the fence that is open before the line.
    """
    if not fence:
        return fence_mark(line)
    return "" if is_closing_fence(line, fence) else fence


def is_rule(line: str) -> bool:
    return _RULE.match(line) is not None


def is_marker(line: str) -> bool:
    """True if a list item could begin on this line, an empty item included."""
    return _MARKER.match(line) is not None


def is_marker_at_margin(line: str) -> bool:
    """True if a list item begins without indent and has a blank after its marker, as most items."""
    return _MARGIN_MARKER.match(line) is not None


def parse_item(line: str) -> Item | None:
    """Parse a list item in one of its plain forms: text after one to four spaces, or no text."""
    match = _ITEM.match(line)
    if not match:
        return None
    content = line[match.end() :]
    indent = match.end() if content else len(line.rstrip(BLANKS)) + 1
    return Item(match[1] or match[2], indent, content)


def is_deep(line: str) -> bool:
    """True if the line nests so many lists and quotes that markdown-it would take long, and then
    give up on the whole text.
    """
    return _DEEP.match(line) is not None


def quoted_text(line: str) -> str | None:
    """The text after the `>` and one space; None if the line does not begin with a `>`.

    The `>` may have any indent, as within a quote.
    """
    match = _QUOTED.match(line)
    return line[match.end() :] if match else None


def may_be_html(line: str) -> bool:
    return _HTML.match(line) is not None


def is_terminator(line: str) -> bool:
    """True if the line ends a quote, table or item above it. The line must not be indented as code;
    html is not considered.
    """
    return _TERMINATOR.match(line) is not None


def is_interrupting(line: str) -> bool:
    """True if the line ends a paragraph above it; html and tables are not considered."""
    return _INTERRUPTER.match(line) is not None


def is_reference(line: str, below: str) -> bool:
    """True if the line is certainly a link reference definition of one line."""
    return _REFERENCE.match(line) is not None and not below.lstrip(BLANKS).startswith(_TITLE_STARTS)


def is_delimiter(line: str) -> bool:
    """True if the line could be the delimiter row under a table's head."""
    return _DELIMITER.match(line) is not None


def is_table(head: str, below: str) -> bool:
    """True if these two lines begin a table."""
    if "|" not in head or not is_delimiter(below) or is_indented_code(head):
        return False
    cells = [cell.strip(TRIMMED) for cell in below.lstrip(BLANKS).split("|")]
    if "" in cells[1:-1]:
        return False
    filled = [cell for cell in cells if cell]
    return all(_DELIMITER_CELL.fullmatch(cell) for cell in filled) and 0 < count_cells(head) == len(
        filled
    )


def count_cells(row: str) -> int:
    """The number of cells in a table's row, without empty ones outside the outermost pipes."""
    cells = _BARE_PIPE.split(row.strip(TRIMMED))
    if cells and not cells[0]:
        cells.pop(0)
    if cells and not cells[-1]:
        cells.pop()
    return len(cells)


# --- Blocks ---------------------------------------------------------------------------------------

PARAGRAPH: Final = "paragraph"
HEADING: Final = "heading"
ITEM: Final = "item"
QUOTE: Final = "quote"
FENCE: Final = "fence"
CODE: Final = "code"
HTML: Final = "html"
# The lines of YAML at the top of a note, with both `---`. `frontmatter` finds them.
FRONT_MATTER: Final = "front_matter"
TABLE: Final = "table"
RULE: Final = "rule"
REFERENCE: Final = "reference"


class Block(NamedTuple):
    """Lines `start` to `end` as markdown-it maps them: 0-based, end exclusive.

    Neither the first nor the last line is blank. `level` is 1-6 for a heading and 0 for the rest.
    """

    start: int
    end: int
    kind: str
    level: int = 0


def split_paragraphs(lines: Sequence[str]) -> list[Block]:
    """The blocks of plain text: the runs of lines between blank lines."""
    return list(_split_at_blanks(lines, 0, len(lines), PARAGRAPH))


def fill_gaps(blocks: Iterable[Block], lines: Sequence[str], first: int) -> Iterator[Block]:
    """Yield the blocks without blank lines at their ends, and a further block for each run of lines
    from `first` on that is in none of them.

    Such lines are link reference definitions. markdown-it emits no token for them; they become
    blocks, so that a search finds them.
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


# --- Blocks of markdown ---------------------------------------------------------------------------

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
    """The blocks of the lines from `first` (0-based) on, in order. Every line that is not blank is
    in exactly one block.
    """
    return list(fill_gaps(_Scan(lines).run(first), lines, first))


def parse_blocks(lines: Sequence[str], first: int, after: int) -> list[Block]:
    """The blocks that markdown-it itself finds in the lines from `first` to before `after`."""
    text = "\n".join(lines[first:after]) + "\n"
    return [_make_block(token, first) for token in _parser().parse(text) if _is_block(token)]


@cache
def _parser() -> MarkdownIt:
    # Most notes need no markdown-it: importing it takes 15 ms and 2 MB.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table")
    parser.core.ruler.enableOnly(["block"])
    return parser


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


# --- The scanner ----------------------------------------------------------------------------------

UNCERTAIN: Final = -1


class _Scan:
    """Scan one text once.

    Each `_scan_…` takes the index of the line where a block begins, appends the block, and returns
    the index of the line at which to continue, or `UNCERTAIN`.
    """

    __slots__ = ("_blocks", "_lines", "_n", "_undefined_until")

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._n = len(lines)
        self._blocks: list[Block] = []
        self._undefined_until = 0

    def run(self, first: int) -> list[Block]:
        lines, n, special = self._lines, self._n, SPECIAL_STARTS
        at = first
        while at < n:
            line = lines[at]
            if not line:
                at += 1
                continue
            after = (
                self._scan_paragraph(at) if line[0] not in special else self._scan_special(at, line)
            )
            at = after if after > at else self._parse_from(at)
        return self._blocks

    # --- Paragraphs, and lines that may turn out to be paragraphs ---------------------------------

    def _scan_special(self, at: int, line: str) -> int:
        if line[0] == "#" and "|" not in line:
            return self._scan_heading(at)
        text = line
        if line[0] in BLANKS:
            text = line.lstrip(BLANKS)
            if not text:
                return at + 1
            if is_indented_code(line):
                return self._scan_code(at)
        if "|" in text and at + 1 < self._n and is_table(line, self._lines[at + 1]):
            return self._scan_table(at)
        scan = self._SCANS.get(text[0])
        return scan(self, at) if scan else self._scan_paragraph(at)

    def _scan_paragraph(self, at: int) -> int:
        lines, n, special = self._lines, self._n, SPECIAL_STARTS
        end = at + 1
        while end < n:
            line = lines[end]
            if not line:
                break
            if line[0] in special:
                after = self._check_line(at, end, line)
                if after:
                    return after
                if not self._continues(line):
                    break
            end += 1
        self._blocks.append(Block(at, end, PARAGRAPH))
        return end

    def _check_line(self, at: int, end: int, line: str) -> int:
        """Check whether this line turns the lines before it into something else than a paragraph.
        Returns the line at which to continue; 0 if they are a paragraph.
        """
        if is_delimiter(line):
            if is_table(self._lines[end - 1], line):
                if end - 1 > at:
                    self._blocks.append(Block(at, end - 1, PARAGRAPH))
                return self._scan_table(end - 1)
        elif may_be_html(line):
            return UNCERTAIN
        level = underline_level(line)
        if level:
            self._blocks.append(Block(at, end + 1, HEADING, level))
            return end + 1
        return 0

    @staticmethod
    def _continues(line: str) -> bool:
        """True if the line continues a paragraph. It must not be an underline."""
        if not line.strip(BLANKS):
            return False
        return is_indented_code(line) or not is_interrupting(line)

    def _scan_reference(self, at: int) -> int:
        line = self._lines[at]
        if is_reference(line, self._lines[at + 1] if at + 1 < self._n else ""):
            return at + 1
        return UNCERTAIN if self._may_define(at) else self._scan_paragraph(at)

    def _may_define(self, at: int) -> bool:
        """True if the label that opens on this line may be the label of a definition. A label may
        extend beyond the end of a paragraph.
        """
        end = max(at, self._undefined_until)
        while end < self._n and self._lines[end].strip(BLANKS):
            line = self._lines[end]
            if "]:" in line:
                return True
            if end > at and is_terminator(line):
                break
            end += 1
        self._undefined_until = end
        return False

    # --- Leaves -----------------------------------------------------------------------------------

    def _scan_heading(self, at: int) -> int:
        level = heading_level(self._lines[at])
        if not level:
            return self._scan_paragraph(at)
        self._blocks.append(Block(at, at + 1, HEADING, level))
        return at + 1

    def _scan_code(self, at: int) -> int:
        end = after = at + 1
        while after < self._n:
            line = self._lines[after]
            after += 1
            if is_indented_code(line) and line.strip(BLANKS):
                end = after
            elif line.strip(BLANKS):
                break
        self._blocks.append(Block(at, end, CODE))
        return end

    def _scan_fence(self, at: int) -> int:
        mark = fence_mark(self._lines[at])
        if not mark:
            return self._scan_paragraph(at)
        end = at + 1
        while end < self._n:
            line = self._lines[end]
            end += 1
            if mark in line and is_closing_fence(line, mark):
                break
        self._blocks.append(Block(at, end, FENCE))
        return end

    def _scan_html(self, at: int) -> int:
        """Scan comments, because they hold metadata; other html is uncertain."""
        if not self._lines[at].lstrip(BLANKS).startswith("<!--"):
            return UNCERTAIN if may_be_html(self._lines[at]) else self._scan_paragraph(at)
        end = at + 1
        while end <= self._n and "-->" not in self._lines[end - 1]:
            end += 1
        self._blocks.append(Block(at, min(end, self._n), HTML))
        return min(end, self._n)

    def _scan_table(self, at: int) -> int:
        n_columns = count_cells(self._lines[at])
        end, n_missing = at + 2, 0
        while end < self._n:
            line = self._lines[end]
            if not line.startswith("|"):
                if may_be_html(line):
                    return UNCERTAIN
                if not line.strip(TRIMMED) or is_indented_code(line) or is_terminator(line):
                    break
            n_missing += n_columns - count_cells(line)
            if n_missing > MISSING_CELLS_LIMIT:
                break
            end += 1
        self._blocks.append(Block(at, end, TABLE))
        return end

    # --- Containers -------------------------------------------------------------------------------

    def _scan_quote(self, at: int) -> int:
        """Scan lines with `>`. A line without it may follow only if all lines before it are one
        plain paragraph.
        """
        end, is_plain, is_empty = at, True, False
        is_code = is_deep(self._lines[at])
        while end < self._n:
            line = self._lines[end]
            content = quoted_text(line)
            if content is not None:
                is_plain = is_plain and is_paragraph_text(content)
                is_empty = not content.strip(BLANKS)
            elif (
                is_empty
                or not line.strip(BLANKS)
                or (not is_indented_code(line) and is_terminator(line))
            ):
                break
            elif not (is_code or (is_plain and is_paragraph_text(line))):
                return UNCERTAIN
            end += 1
        self._blocks.append(Block(at, end, QUOTE))
        return end

    def _scan_rule_or_list(self, at: int) -> int:
        line = self._lines[at]
        if is_rule(line):
            self._blocks.append(Block(at, at + 1, RULE))
            return at + 1
        if not is_marker(line):
            return self._scan_paragraph(at)
        return self._scan_list(at)

    def _scan_list(self, at: int) -> int:
        kind = ""
        while at < self._n:
            line = self._lines[at]
            item = parse_item(line)
            if item is None:
                return self._leave_list(at) if is_marker(line) else at
            if kind not in ("", item.kind) or (item.content[:1] == item.kind and is_rule(line)):
                return at
            kind = item.kind
            end = self._item_end(at, item)
            if end == UNCERTAIN:
                return self._leave_list(at)
            self._blocks.append(Block(at, end, ITEM))
            at = end
        return at

    def _item_end(self, at: int, item: Item) -> int:
        """The line after an item and after the blank lines that follow the item."""
        end = at + 1
        if end < self._n and is_marker_at_margin(self._lines[end]):
            return end
        is_plain, was_blank = is_paragraph_text(item.content), not item.content
        if was_blank and end < self._n and not self._lines[end].strip(BLANKS):
            return end + 1
        while end < self._n:
            line = self._lines[end]
            text = line.lstrip(BLANKS)
            if is_marker_at_margin(line):
                return end
            if not text:
                is_plain, was_blank = False, True
            elif indent_width(line) >= item.indent:
                is_plain, was_blank = is_plain and is_paragraph_text(text), False
            elif is_indented_code(line):
                return UNCERTAIN
            elif was_blank or is_terminator(line):
                return end
            elif not (is_plain and is_paragraph_text(text)) and not is_deep(self._lines[at]):
                return UNCERTAIN
            end += 1
        return end

    # --- Regions for the parser -------------------------------------------------------------------

    def _leave_list(self, at: int) -> int:
        """Keep the items found so far, and let markdown-it parse from `at` on, where an item is
        uncertain.

        If the region would begin with the head of a table, it begins some items earlier.
        """
        while self._blocks and is_before_delimiter(self._lines, at):
            last = self._blocks[-1]
            if last.kind != ITEM or last.end != at:
                break
            at = self._blocks.pop().start
        return self._parse_from(at)

    def _parse_from(self, at: int) -> int:
        while self._blocks and self._blocks[-1].start >= at:
            self._blocks.pop()
        blocks, after = read_region(self._lines, at)
        self._blocks.extend(blocks)
        return after

    # The scan by the first character of a block. Bound methods would make a cycle of references,
    # which would keep the lines of each note until the garbage collector runs.
    _SCANS: ClassVar[Mapping[str, Callable[[_Scan, int], int]]] = {
        "#": _scan_heading,
        ">": _scan_quote,
        "`": _scan_fence,
        "~": _scan_fence,
        "<": _scan_html,
        "[": _scan_reference,
        **dict.fromkeys("-*_+0123456789", _scan_rule_or_list),
    }


# --- Uncertain regions ----------------------------------------------------------------------------

_REGION_LINES = 8
_REGION_GROWTH = 4


def read_region(lines: Sequence[str], at: int) -> tuple[list[Block], int]:
    """Parse the region that begins with a block at line `at`. Returns its certain blocks, and the
    line at which to continue. There are no blocks only at the end of the text.
    """
    n_lines = _REGION_LINES
    while True:
        after = _cut_line(lines, at + n_lines)
        blocks = parse_blocks(lines, at, after)
        if after >= len(lines):
            return blocks, after
        while blocks and _is_uncertain(lines, blocks[-1], after):
            blocks.pop()
        if blocks:
            return blocks, blocks[-1].end
        n_lines *= _REGION_GROWTH


def is_before_delimiter(lines: Sequence[str], at: int) -> bool:
    """True if line `at` could be a table's head outside of a list."""
    return at + 1 < len(lines) and is_delimiter(lines[at + 1])


def _is_uncertain(lines: Sequence[str], block: Block, after: int) -> bool:
    """True if a larger region may change this block: indented code may continue beyond blank lines,
    and an item must not be cut off before lines that look like a table.
    """
    if block.end >= after or block.kind == CODE:
        return True
    return block.kind == ITEM and is_before_delimiter(lines, block.end)


def _cut_line(lines: Sequence[str], at: int) -> int:
    """The first line from `at` on before which a text can be cut: the line follows a blank line, or
    begins a list item.
    """
    while at < len(lines) and lines[at - 1].strip(BLANKS) and not is_marker(lines[at]):
        at += 1
    return min(at, len(lines))
