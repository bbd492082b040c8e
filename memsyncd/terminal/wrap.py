"""Measure text in columns, line up tables, and break lines for a terminal: between words, so that
none is cut, and with the colours kept.

A word that is wider than the terminal, such as a long path, stays whole on a line of its own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HANG = 2
"""Columns by which the rest of a broken line stands further right than its beginning."""
ARROW = "→"
TAB = "    "
"""Stands for a tab in a coloured line."""
_RESET = "\x1b[0m"
_NO_LINK = "\x1b]8;;\x1b\\"
# A colour, a link (OSC 8), blanks, or other text.
_PIECE = r"(\x1b\[[\d;]*m)|(\x1b\]8;;[^\x1b]*\x1b\\)|( +)|([^ \x1b]+|\x1b)"
# What may begin an item: its text stands behind it.
MARK = r" *(?:[-*+>!→●•▸] +|\d{1,3}[.)] +)"


def display_width(text: str) -> int:
    """Return the width of the text in columns: a wide character has two, a combining mark none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def measure_line(line: str) -> int:
    """Return the width in columns of a line with colours and links."""
    if "\x1b" not in line:
        return display_width(line)
    import re

    return display_width("".join(piece[2] + piece[3] for piece in re.findall(_PIECE, line)))


def pad(text: str, width: int) -> str:
    """Fill the text, which may have colours, with blanks to `width` columns."""
    return text + " " * (width - measure_line(text))


def render_table(rows: Sequence[Sequence[str]], most: int = 10_000) -> list[list[str]]:
    """Pad every cell except a row's last to the width of its column and two spaces, so that the
    joined cells line up. Cells may have colours and links. A cell wider than `most` columns stands
    out of its column, instead of moving the next columns of all rows.
    """
    widths: dict[int, int] = {}
    for row in rows:
        for i, cell in enumerate(row):
            if (width := measure_line(cell)) <= most:
                widths[i] = max(widths.get(i, 0), width)
    return [
        [
            cell if i == len(row) - 1 else pad(cell, max(widths.get(i, 0), measure_line(cell)) + 2)
            for i, cell in enumerate(row)
        ]
        for row in rows
    ]


def break_text(text: str, width: int, hang: int = HANG) -> str:
    """Break every line of a text as `break_line` does."""
    return "\n".join(part for line in text.split("\n") for part in break_line(line, width, hang))


def break_line(line: str, width: int, hang: int = HANG) -> list[str]:
    """Break a line into lines of at most `width` columns. What follows the first is indented by the
    indentation of the line, and by its mark (`- `, `3. `) or by `hang`. Characters that have no
    blanks between them, as in Japanese, are words.
    """
    number = ""
    if "\t" in line:
        first, _, _ = line.partition("\t")
        # The memory tool numbers the lines of a note.
        number = f"{first}\t".expandtabs() if first.strip(" ").isdecimal() else ""
        # Escapes would count as columns.
        line = line.replace("\t", TAB) if "\x1b" in line else line.expandtabs()
    if (len(line) <= width and line.isascii()) or measure_line(line) <= width:
        return [line]
    # Late, because most lines fit.
    import re

    plain = "".join(piece[2] + piece[3] for piece in re.findall(_PIECE, line))
    mark = re.match(MARK, plain)
    begin = len(number) or (mark.end() if mark else 0)
    indent = begin or len(plain) - len(plain.lstrip(" ")) + hang
    # A mark that leaves no room beside it is a word like the others.
    wrapper = _Wrapper(width, min(indent, width // 2), begin if begin <= width // 2 else 0)
    for colour, link, blanks, text in re.findall(_PIECE, line):
        wrapper.add(colour, link, blanks, text)
    return wrapper.finish()


class _Wrapper:
    """The lines so far, the current line, and the word that is being read with its escapes."""

    def __init__(self, width: int, indent: int, mark: int) -> None:
        self.width = width
        self.indent = indent
        # Columns of the mark, which stays with the first word.
        self.mark = mark
        self.lines: list[str] = []
        self.current = self.gap = self.word = ""
        self.used = self.columns = 0
        self.is_empty = True
        # In force before the word, and after it.
        self.colour = self.link = self.next_colour = self.next_link = ""

    def add(self, colour: str, link: str, blanks: str, text: str) -> None:
        if blanks and self.word.endswith(ARROW):
            # It stays with what it points to.
            self.word += blanks
            self.columns += len(blanks)
        elif blanks:
            self._place_word()
            self.gap += blanks
        elif colour:
            self.word += colour
            self.next_colour = "" if colour in (_RESET, "\x1b[m") else self.next_colour + colour
        elif link:
            self.word += link
            self.next_link = "" if link == _NO_LINK else link
        elif text.isascii():
            self.word += text
            self.columns += len(text)
        else:
            for char in text:
                self._add_character(char)

    def _add_character(self, char: str) -> None:
        columns = display_width(char)
        if columns > 1 and self.columns:
            self._place_word()
        self.word += char
        self.columns += columns
        if columns > 1:
            self._place_word()

    def _place_word(self) -> None:
        if self.columns:
            is_over = self.used + len(self.gap) + self.columns > self.width
            if is_over and not self.is_empty:
                self._break()
            self.current += self.gap
            self.used += len(self.gap) + self.columns
            self.gap, self.columns = "", 0
            self.is_empty = self.is_empty and self.used < self.mark
        self.current += self.word
        self.word = ""
        self.colour, self.link = self.next_colour, self.next_link

    def _break(self) -> None:
        end = _RESET * bool(self.colour) + _NO_LINK * bool(self.link)
        self.lines.append(self.current + end)
        self.current = " " * self.indent + self.link + self.colour
        self.used, self.gap, self.is_empty = self.indent, "", True

    def finish(self) -> list[str]:
        self._place_word()
        return [*self.lines, self.current]


def wrap_words(text: str, width: int) -> Iterator[str]:
    """Yield lines of whole words with at most `width` columns; a longer word gets its own line."""
    if text:
        yield from break_line(" ".join(text.split()), width, 0)
