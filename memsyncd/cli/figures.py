"""How are numbers, times and columns written for people? Short, with their units, and lined up in any script."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZES = ("kB", "MB", "GB", "TB")
_SPANS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def render_count(n: int, one: str, many: str = "") -> str:
    """`1 note`, `1,204 notes`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def render_size(size_bytes: int) -> str:
    """`512 B`, `2.1 MB`: powers of 1,000, as file managers show them."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in _SIZES:
        size /= 1000
        if size < 999.5 or unit == _SIZES[-1]:
            return f"{size:.1f} {unit}" if size < 99.95 else f"{size:.0f} {unit}"
    raise AssertionError(size_bytes)


def render_duration(duration_s: float) -> str:
    """`3 h 12 min`, `42 s`, `180 ms`: the two largest units that say something."""
    if duration_s < 1:
        return f"{max(duration_s, 0) * 1000:.0f} ms"
    if duration_s < 10:
        return f"{duration_s:.1f} s"
    whole_s = round(duration_s)
    for large_s, large, small_s, small in _SPANS:
        if whole_s >= large_s:
            n, rest_s = divmod(whole_s, large_s)
            return f"{n} {large} {rest_s // small_s} {small}" if rest_s // small_s else f"{n} {large}"
    return f"{whole_s} s"


def render_age(at_s: float | None, now_s: float) -> str:
    """`3 min ago`, `just now`, `never`."""
    if at_s is None:
        return "never"
    age_s = now_s - at_s
    if age_s < 1:
        return "just now"
    return render_duration(float(int(age_s)) if age_s < 60 else age_s // 60 * 60).replace(".0 s", " s") + " ago"


def measure(text: str) -> int:
    """How many columns the text takes: wide characters take two, marks that combine none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def pad(text: str, width: int) -> str:
    """The text filled up with blanks to `width` columns."""
    return text + " " * (width - measure(text))


def shorten(text: str, width: int) -> str:
    """The text cut to `width` columns, its end replaced by `…` if it is longer."""
    if measure(text) <= width:
        return text
    while text and measure(text) >= width:
        text = text[:-1]
    return text.rstrip() + "…"


def render_table(rows: Sequence[Sequence[str]], gap: int = 2) -> list[list[str]]:
    """The rows with every cell but a row's last padded to its column, so that joining the cells lines them up."""
    widths = [
        max((measure(row[i]) for row in rows if i < len(row)), default=0) + gap for i in range(max(map(len, rows), default=0))
    ]
    return [[cell if i == len(row) - 1 else pad(cell, widths[i]) for i, cell in enumerate(row)] for row in rows]


def render_bar(done: int, total: int, width: int = 24) -> str:
    """A bar of `width` columns."""
    filled = width if total <= 0 else min(width, done * width // total)
    return "━" * filled + "─" * (width - filled)
