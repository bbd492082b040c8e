"""Print data to stdout and messages to stderr. Only a terminal that supports colours, links and
progress gets them.

`NO_COLOR` and `TERM=dumb` switch colours off, `FORCE_COLOR` switches them on for a pipe. Notes,
names and paths are untrusted: control characters that could move the cursor, rename the window or
reverse the text are removed from them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
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
    """Add colours and links to text, or return it unchanged if the output supports none."""

    __slots__ = ("has_colour", "has_links", "host", "shows_ids")

    def __init__(
        self, *, has_colour: bool = False, has_links: bool = False, host: str = ""
    ) -> None:
        self.shows_ids = False
        self.has_colour = has_colour
        self.has_links = has_links
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
    """

    __slots__ = (
        "_drawn",
        "can_draw",
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
        self.is_out_terminal = _is_terminal(out)
        self.is_err_terminal = _is_terminal(err)
        self.paint = _make_paint(env, is_terminal=self.is_out_terminal)
        self.err_paint = _make_paint(env, is_terminal=self.is_err_terminal)
        self.width = get_width(env)
        self.can_draw = self.is_err_terminal and env.get("TERM") != "dumb"
        self._drawn = False

    def print(self, text: str = "") -> None:
        self.clear()
        self.out.write(text + "\n")

    def print_json(self, value: object) -> None:
        self.print(render_json(value))

    def report(self, text: str) -> None:
        self.clear()
        # If both streams go to one file or screen, earlier data must come first.
        self.out.flush()
        self.err.write(text + "\n")
        self.err.flush()

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


def _make_paint(env: Mapping[str, str], *, is_terminal: bool) -> Paint:
    is_dumb = env.get("TERM") == "dumb"
    is_forced = env.get("FORCE_COLOR", "0") not in ("", "0")
    has_colour = not env.get("NO_COLOR") and (is_forced or (is_terminal and not is_dumb))
    return Paint(
        has_colour=has_colour, has_links=is_terminal and not is_dumb, host=os.uname().nodename
    )


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False
