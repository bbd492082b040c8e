"""Which line does somebody see of a hit, and which words are lit in it?

One window of the text around the densest matches, white space folded, matched words between `**` and `**`. Of the text's own
stars those are left out that could be taken for marks: whoever splits a snippet at `**` has every second piece lit.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

MARK = "**"
WINDOW_CHARACTERS = 240
_ELLIPSIS = "…"
_SPACE = re.compile(r"\s+")
_UNDERLINE = re.compile(r"\A[ ]{0,3}(?:=+|-+)[ \t]*(?:\n|$)")
_COMMENT = re.compile(r"\A\s*<!--\s*memory:.*?-->", re.DOTALL)
_STARS = re.compile(r"\*{2,}")


def render_snippet(text: str, matches: Sequence[tuple[int, int]], *, window: int = WINDOW_CHARACTERS) -> str:
    """Cut `text` to about `window` characters around `matches`, (start, end) pairs in characters, in order of start.

    Of matches that overlap the first is marked.
    """
    start, end = _find_window(text, matches, window)
    pieces, at = [], start
    for first, after in matches:
        if first < at or after > end:
            continue
        pieces += [_plain(text[at:first]), MARK, _plain(text[first:after]), MARK]
        at = after
    pieces.append(_plain(text[at:end]))
    body = _SPACE.sub(" ", "".join(pieces)).strip()
    return f"{_ELLIPSIS if start > 0 else ''}{body}{_ELLIPSIS if end < len(text) else ''}"


def strip_title(text: str, heading: str) -> str:
    """A chunk's text without its heading and `memory` comment, which an answer shows beside it; all of it if that is all."""
    first, _, rest = text.partition("\n")
    if not heading or _letters(first) != _letters(heading):
        return text
    if not first.lstrip().startswith("#"):
        rest = _UNDERLINE.sub("", rest, count=1)
    return _COMMENT.sub("", rest, count=1).strip("\n") or text


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _find_window(text: str, matches: Sequence[tuple[int, int]], window: int) -> tuple[int, int]:
    if len(text) <= window:
        return 0, len(text)
    starts, ends = [first for first, _ in matches], sorted(after for _, after in matches)
    best, best_count = 0, -1
    for first in starts:
        # Those that end within the window, less those that began before it: a long line may hold thousands.
        count = bisect_right(ends, first + window) - bisect_left(starts, first)
        if count > best_count:
            best, best_count = first, count
    start = _find_word_start(text, max(0, min(best - window // 5, len(text) - window)))
    end = min(len(text), start + window)
    space = text.rfind(" ", start, end) if end < len(text) else end
    return start, space if space > start + window // 2 else end


def _find_word_start(text: str, at: int) -> int:
    if at == 0:
        return 0
    space = _SPACE.search(text, at, at + 30)
    return space.end() if space else at


def _plain(text: str) -> str:
    """Without stars in a row, and without those at an end, which would lengthen the mark beside it."""
    return _STARS.sub("", text).strip("*")
