"""Classify single lines of markdown by CommonMark's block rules as markdown-it applies them.

`scanner` calls these rules; it knows the lines around. Only spaces and tabs are blank here. Indents
are counted in columns; a tab goes to the next multiple of four.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

BLANKS: Final = " \t"

# First characters of lines that may be more than the text of a paragraph.
SPECIAL_STARTS: Final = frozenset("#>*-+_=~`<|:[0123456789 \t")

# Characters that markdown-it strips from the ends of a table's row and cells.
TRIMMED: Final = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
    "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

# A table whose rows lack more cells than this ends there: markdown-it's guard against tiny texts
# with huge tables.
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

    `kind` says lists apart; `indent` is the column at which its content begins, if it has any.
    """

    kind: str
    indent: int
    content: str


def is_paragraph_text(text: str) -> bool:
    """True if a line without its indent is certainly only text of a paragraph: no head of a table,
    no part of a reference.
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
    found = _HEADING.match(line)
    return len(found[1]) if found else 0


def underline_level(line: str) -> int:
    """1 or 2 for a line that makes a heading of the paragraph above it, else 0."""
    if not _UNDERLINE.match(line):
        return 0
    return 1 if "=" in line else 2


def fence_mark(line: str) -> str:
    """The run of backticks or tildes that opens a fence, empty if the line opens none."""
    found = _FENCE.match(line)
    return found[1] if found else ""


def is_closing_fence(line: str, mark: str) -> bool:
    """True if the line closes a fence that `mark` opened."""
    text = line.strip(BLANKS)
    return text.startswith(mark) and not text.strip(mark[0]) and not is_indented_code(line)


def follow_fence(fence: str, line: str) -> str:
    """The mark of the fence that is open behind the line; empty if none is. `fence` is open before
    it.
    """
    if not fence:
        return fence_mark(line)
    return "" if is_closing_fence(line, fence) else fence


def is_rule(line: str) -> bool:
    return _RULE.match(line) is not None


def is_marker(line: str) -> bool:
    """True if a list item could begin here, empty ones included."""
    return _MARKER.match(line) is not None


def is_marker_at_margin(line: str) -> bool:
    """True for most of the lines that begin a list item: no indent, and text after the marker."""
    return _MARGIN_MARKER.match(line) is not None


def parse_item(line: str) -> Item | None:
    """Parse a list item in one of its plain forms: text after one to four spaces, or no text."""
    found = _ITEM.match(line)
    if not found:
        return None
    content = line[found.end() :]
    indent = found.end() if content else len(line.rstrip(BLANKS)) + 1
    return Item(found[1] or found[2], indent, content)


def is_deep(line: str) -> bool:
    """True if the line nests so many lists and quotes that a parser takes long and then gives up on
    the whole text.
    """
    return _DEEP.match(line) is not None


def quoted_text(line: str) -> str | None:
    """The text after the `>` and one space, None if the line has no `>`.

    Within a quote any indent is allowed.
    """
    found = _QUOTED.match(line)
    return line[found.end() :] if found else None


def may_be_html(line: str) -> bool:
    return _HTML.match(line) is not None


def is_terminator(line: str) -> bool:
    """True if the line, not indented as code, ends quotes, tables and items; html is not
    considered.
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
