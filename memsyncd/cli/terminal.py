"""What may be shown where? Data go to stdout, talk to stderr; colour, links and progress only to a terminal that wants them.

`NO_COLOR` and `TERM=dumb` switch colour off, `FORCE_COLOR` switches it on for a pipe. Notes, names and paths come from
anywhere: control characters that could move the cursor, rename the window or turn the text round are taken out of them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TextIO

DEFAULT_WIDTH = 80
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}

# C0 but tab and newline, DEL, C1; then what reorders or hides text.
_CONTROLS = [*range(9), *range(11, 32), *range(127, 160)]
_HIDDEN = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF]
_REMOVED = dict.fromkeys([*_CONTROLS, *_HIDDEN])
_ON_ONE_LINE = {**_REMOVED, 9: " ", 10: " "}
_ESCAPED = {code: f"\\u{code:04x}" for code in _REMOVED if code > 31}


def clean(text: str) -> str:
    """The text without control characters; tabs and newlines stay."""
    return text.translate(_REMOVED)


def clean_line(text: str) -> str:
    """The text on one line, without control characters."""
    return " ".join(clean(text).split())


def clean_values(value: Any) -> Any:
    """An answer of the daemon, every text in it cleaned and on one line: a file's name must not look like two."""
    if isinstance(value, str):
        return value.translate(_ON_ONE_LINE)
    if isinstance(value, list):
        return [clean_values(item) for item in value]
    if isinstance(value, dict):
        return {clean_values(name): clean_values(item) for name, item in value.items()}
    return value


def render_json(value: object) -> str:
    """One line of JSON that says the same and is safe to print: what cleaning removes is escaped."""
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)


class Paint:
    """Text in colours, or as it is where there are none."""

    __slots__ = ("has_colour", "has_links", "host")

    def __init__(self, *, has_colour: bool = False, has_links: bool = False, host: str = "") -> None:
        self.has_colour = has_colour
        self.has_links = has_links
        self.host = host

    def __call__(self, style: str, text: str) -> str:
        """`style` is words of STYLES, such as `bold red`."""
        if not self.has_colour or not text:
            return text
        return f"\x1b[{';'.join(STYLES[word] for word in style.split())}m{text}\x1b[0m"

    def link(self, text: str, path: str, line: int) -> str:
        """The text as a link (OSC 8) that opens the file at the line."""
        if not self.has_links or not path.startswith("/"):
            return text
        from urllib.parse import quote

        return f"\x1b]8;;file://{self.host}{quote(path)}#{line}\x1b\\{text}\x1b]8;;\x1b\\"


class Terminal:
    """Where a command prints: `print` for data, `say` for talk, `show` for a line that is drawn over."""

    __slots__ = ("_drawn", "can_draw", "err", "err_paint", "is_shown", "is_talk_shown", "out", "paint", "width")

    def __init__(self, out: TextIO, err: TextIO, env: Mapping[str, str]) -> None:
        self.out = out
        self.err = err
        self.is_shown = _is_terminal(out)
        self.is_talk_shown = _is_terminal(err)
        self.paint = _find_paint(env, is_terminal=self.is_shown)
        self.err_paint = _find_paint(env, is_terminal=self.is_talk_shown)
        self.width = find_width(env)
        self.can_draw = self.is_talk_shown and env.get("TERM") != "dumb"
        self._drawn = False

    def print(self, text: str = "") -> None:
        self.clear()
        self.out.write(text + "\n")

    def print_json(self, value: object) -> None:
        self.print(render_json(value))

    def say(self, text: str) -> None:
        self.clear()
        # Where both end up in one file or on one screen, what was printed before stands before.
        self.out.flush()
        self.err.write(text + "\n")
        self.err.flush()

    def show(self, text: str) -> None:
        """Draw one line over the last one; nothing where stderr is no terminal that can."""
        if self.can_draw:
            self.err.write(f"\r{text}\x1b[K")
            self.err.flush()
            self._drawn = True

    def clear(self) -> None:
        """Take the drawn line away."""
        if self._drawn:
            self.err.write("\r\x1b[K")
            self.err.flush()
            self._drawn = False


def find_width(env: Mapping[str, str]) -> int:
    """Columns to write in: those of the terminal, `COLUMNS`, or 80."""
    named = env.get("COLUMNS", "")
    if named.isdecimal() and int(named) > 0:
        return int(named)
    for descriptor in (1, 2, 0):
        try:
            return os.get_terminal_size(descriptor).columns or DEFAULT_WIDTH
        except OSError:
            continue
    return DEFAULT_WIDTH


def _find_paint(env: Mapping[str, str], *, is_terminal: bool) -> Paint:
    is_dumb = env.get("TERM") == "dumb"
    is_forced = env.get("FORCE_COLOR", "0") not in ("", "0")
    has_colour = not env.get("NO_COLOR") and (is_forced or (is_terminal and not is_dumb))
    return Paint(has_colour=has_colour, has_links=is_terminal and not is_dumb, host=os.uname().nodename)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False
