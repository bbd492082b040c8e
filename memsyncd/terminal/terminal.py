"""Print data to stdout and messages to stderr. Only a terminal that supports colours, links and
progress gets them.

`NO_COLOR` and `TERM=dumb` switch colours off, `FORCE_COLOR` switches them on for a pipe, and
`--color` decides before them. On a terminal, lines are broken between words; in a pipe they stay as
they are. Notes, names and paths are untrusted: control characters that could move the cursor,
rename the window or reverse the text are removed from them.
"""

from __future__ import annotations

import os

from memsyncd.terminal.wrap import HANG, break_text, measure_line, render_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TextIO

DEFAULT_WIDTH = 80
STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}

# C0 except tab and newline, DEL, C1; then the characters that change the order of text or hide it.
_CONTROLS = [*range(9), *range(11, 32), *range(127, 160)]
_HIDDEN = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF]
_REMOVED = dict.fromkeys([*_CONTROLS, *_HIDDEN])
_ON_ONE_LINE = {**_REMOVED, 9: " ", 10: " "}
_ESCAPED = {code: f"\\u{code:04x}" for code in _REMOVED if code > 31}


def clean(text: str) -> str:
    """Remove control characters; tabs and newlines stay."""
    return text if text.isprintable() else text.translate(_REMOVED)


def clean_line(text: str) -> str:
    """Remove control characters and put the text on one line."""
    return " ".join(clean(text).split())


def clean_values(value: Any) -> Any:
    """Clean every text in a result of the daemon and put it on one line, so that the name of a file
    cannot look like two names.
    """
    if isinstance(value, str):
        # All characters to remove or replace are not printable; `translate` is ten times slower.
        return value if value.isprintable() else value.translate(_ON_ONE_LINE)
    if isinstance(value, list):
        return [clean_values(item) for item in value]
    if isinstance(value, dict):
        return {clean_values(name): clean_values(item) for name, item in value.items()}
    return value


def render_json(value: object) -> str:
    """Render one line of JSON that is safe to print: it escapes the characters that `clean`
    removes.
    """
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)


class Paint:
    """Add colours and links to text, or return it unchanged if the output supports none. Without
    colours, a terminal marks words by `**`: `has_marks`.
    """

    __slots__ = ("has_colour", "has_links", "has_marks", "host", "shows_ids")

    def __init__(
        self,
        *,
        has_colour: bool = False,
        has_links: bool = False,
        has_marks: bool = False,
        host: str = "",
    ) -> None:
        self.shows_ids = False
        self.has_colour = has_colour
        self.has_links = has_links
        self.has_marks = has_marks
        self.host = host

    def __call__(self, style: str, text: str) -> str:
        """Return the text in a style: words of STYLES, such as `bold red`."""
        if not self.has_colour or not text:
            return text
        return f"\x1b[{';'.join(STYLES[word] for word in style.split())}m{text}\x1b[0m"

    def render_id(self, section: Mapping[str, Any]) -> str:
        """Return the short id of a section with the gap behind it, if ids are to be shown."""
        return f"{self('yellow', section['id'])}  " if self.shows_ids and section.get("id") else ""

    def link(self, text: str, path: str, line: int) -> str:
        """Return the text as a link (OSC 8) that opens the file at the line."""
        if not self.has_links or not path.startswith("/"):
            return text
        from urllib.parse import quote

        return f"\x1b]8;;file://{self.host}{quote(path)}#{line}\x1b\\{text}\x1b]8;;\x1b\\"


class Terminal:
    """The output of a command: `print` for data, `report` for messages, `draw` for a line that the
    next output replaces.

    In a `page`, the output is kept until its end; if it is longer than the screen, the user's pager
    shows it.
    """

    __slots__ = (
        "_drawn",
        "_page",
        "can_draw",
        "can_page",
        "env",
        "err",
        "err_paint",
        "is_err_terminal",
        "is_out_terminal",
        "out",
        "paint",
        "width",
    )

    def __init__(self, out: TextIO, err: TextIO, env: Mapping[str, str]) -> None:
        self.out = out
        self.err = err
        self.env = env
        self.is_out_terminal = _is_terminal(out)
        self.is_err_terminal = _is_terminal(err)
        self.choose_colour("auto")
        self.width = get_width(env)
        self.can_draw = self.is_err_terminal and env.get("TERM") != "dumb"
        self.can_page = self.is_out_terminal and env.get("TERM") != "dumb"
        self._drawn = False
        self._page: list[tuple[TextIO, str]] | None = None

    def choose_colour(self, when: str) -> None:
        """Decide on colours: `auto` by the streams and the environment, `always` or `never`."""
        self.paint = _make_paint(self.env, when, is_terminal=self.is_out_terminal)
        self.err_paint = _make_paint(self.env, when, is_terminal=self.is_err_terminal)

    def print(self, text: str = "", *, hang: int = HANG) -> None:
        """Print lines of data. On a terminal, long ones are broken between words; `hang` indents
        what follows the first, 0 for the text of a note.
        """
        self.print_exactly(break_text(text, self.width, hang) if self.is_out_terminal else text)

    def line_up(self, rows: Sequence[Sequence[str]]) -> list[list[str]]:
        """Pad the cells of a table. On a terminal, a column takes at most half of the width."""
        return render_table(rows, self.width // 2) if self.is_out_terminal else render_table(rows)

    def print_table(self, rows: Sequence[Sequence[str]]) -> None:
        """Print rows of cells in columns."""
        for cells in self.line_up(rows):
            self.print_row(cells)

    def print_row(self, cells: Sequence[str]) -> None:
        """Print a row of `line_up`. Its last cell is continued in its column, if this begins in the
        left half.
        """
        column = sum(map(measure_line, cells[:-1]))
        self.print("".join(cells).rstrip(), hang=column if column <= self.width // 2 else 2 * HANG)

    def print_exactly(self, text: str) -> None:
        """Print a text for a program: no line is broken."""
        self.clear()
        if self._page is None:
            self.out.write(text + "\n")
        else:
            self._page.append((self.out, text + "\n"))

    def print_json(self, value: object) -> None:
        self.print_exactly(render_json(value))

    def report(self, text: str) -> None:
        self.clear()
        text = (break_text(text, self.width) if self.is_err_terminal else text) + "\n"
        if self._page is not None and self.is_err_terminal:
            self._page.append((self.err, text))
            return
        # If both streams go to one file or screen, earlier data must come first.
        self.out.flush()
        self.err.write(text)
        self.err.flush()

    def page(self) -> PagedOutput:
        """Return a context in which the output is one page."""
        return PagedOutput(self, is_outer=self._page is None)

    def begin_page(self) -> None:
        """Keep the output until `end_page`, if it goes to a terminal."""
        if self.can_page:
            self._page = []

    def end_page(self, *, is_whole: bool) -> None:
        """Print what was kept, or show it with the pager if it is longer than the screen. A page
        that `is_whole` not, because of an error, is printed.
        """
        page, self._page = self._page, None
        if not page:
            return
        problem = ""
        text = "".join(text for _, text in page)
        height = get_height(self.env)
        if is_whole and 0 < height <= _count_rows(text, self.width):
            # Late, because few answers are that long.
            from memsyncd.terminal.pager import find_pager, run_pager

            if pager := find_pager(self.env):
                problem = run_pager(pager, text, self.env)
                if not problem:
                    return
        for stream, part in page:
            if stream is self.err:
                self.out.flush()
            stream.write(part)
        self.err.flush()
        self.warn(problem)

    def warn(self, text: str) -> None:
        """Report an important text in yellow; do nothing for an empty text."""
        if text:
            self.report(self.err_paint("yellow", text))

    def note(self, text: str) -> None:
        """Report a less important text, dimmed; do nothing for an empty text."""
        if text:
            self.report(self.err_paint("dim", text))

    def draw(self, text: str) -> None:
        """Draw a line over the last drawn line; do nothing unless stderr `can_draw`."""
        if self.can_draw:
            self.err.write(f"\r{text}\x1b[K")
            self.err.flush()
            self._drawn = True

    def clear(self) -> None:
        """Erase the drawn line."""
        if self._drawn:
            self.err.write("\r\x1b[K")
            self.err.flush()
            self._drawn = False


class PagedOutput:
    """A context whose output is one page, or a part of the page around it."""

    __slots__ = ("_is_outer", "_terminal")

    def __init__(self, terminal: Terminal, *, is_outer: bool) -> None:
        self._terminal = terminal
        self._is_outer = is_outer

    def __enter__(self) -> None:
        if self._is_outer:
            self._terminal.begin_page()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_outer:
            self._terminal.end_page(is_whole=kind is None)


def get_width(env: Mapping[str, str]) -> int:
    """Return the width in columns: `COLUMNS`, else the terminal's width, else 80."""
    named = env.get("COLUMNS", "")
    if named.isdecimal() and int(named) > 0:
        return int(named)
    for descriptor in (1, 2, 0):
        try:
            return os.get_terminal_size(descriptor).columns or DEFAULT_WIDTH
        except OSError:
            continue
    return DEFAULT_WIDTH


def get_height(env: Mapping[str, str]) -> int:
    """Return the height in lines: `LINES`, else the terminal's height, 0 if it is unknown."""
    named = env.get("LINES", "")
    if named.isdecimal() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(1).lines
    except OSError:
        return 0


def _count_rows(text: str, width: int) -> int:
    """Return how many rows of a screen the text takes; a word may be longer than a row."""
    return sum(max(1, -(-measure_line(line) // width)) for line in text.splitlines())


def _make_paint(env: Mapping[str, str], when: str, *, is_terminal: bool) -> Paint:
    is_dumb = env.get("TERM") == "dumb"
    is_forced = env.get("FORCE_COLOR", "0") not in ("", "0")
    has_colour = when == "always" or (
        when == "auto" and not env.get("NO_COLOR") and (is_forced or (is_terminal and not is_dumb))
    )
    return Paint(
        has_colour=has_colour,
        has_links=is_terminal and not is_dumb and when != "never",
        has_marks=is_terminal,
        host=os.uname().nodename,
    )


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False
