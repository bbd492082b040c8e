"""Render a note's markdown as HTML for a page, with the number of the file's line at each block.

A note may come from anywhere, so the page shows its HTML tags as text. A link keeps its address
only if it leads to a web page or a mailbox. An image becomes a link. A link to another note has its
target in `data-note`, and the page follows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from memsyncd.core.markdown.frontmatter import find_front_matter
from memsyncd.core.markdown.scanner import follow_fence

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# Deeper nesting is shown as text, as the parser of notes does.
MAX_NESTING = 100
# Longer lines are cut: a browser lays out a line of a megabyte for seconds.
LINE_LIMIT_CHARS = 20_000
LONG_LINE_END = " …"
# A window of a long note ends before the first heading after this many lines or characters, or at
# the latest after three times as many. A window is rendered within a tenth of a second.
WINDOW_LINES = 2_000
WINDOW_CHARS = 200_000

_WEB = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_WIKI_LINK = re.compile(r"!?\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]*))?\]\]")
_COMMENT_LINE = re.compile(r"\s*<!--.*?-->\s*")


def render_html(lines: Sequence[str], first_line: int) -> str:
    """Return the lines as HTML. The first of them is line `first_line` of its note.

    Each block has `data-line`, the number of its first line in the file. Front matter, and comments
    on lines of their own, are left out.
    """
    visible = _hide_metadata(lines) if first_line == 1 else _hide_comments(lines, 0)
    text = "\n".join(_cut_line(line) for line in visible)
    rendered: str = _parser().render(text, {"first_line": first_line})
    return rendered


def find_window(lines: Sequence[str], line: int) -> tuple[int, int]:
    """Return the first and the last line of the window that shows `line`; both count from 1.

    The windows of a note follow each other without a gap, and depend on its lines alone.
    """
    first, size, fence = 1, 0.0, ""
    for number, text in enumerate(lines, 1):
        if number > first and _is_window_full(size, text, fence):
            if number > line:
                return first, number - 1
            first, size = number, 0.0
        size += max(1 / WINDOW_LINES, min(len(text), LINE_LIMIT_CHARS) / WINDOW_CHARS)
        fence = follow_fence(fence, text)
    return first, len(lines)


def _is_window_full(size: float, next_line: str, fence: str) -> bool:
    """True if a window ends before the line. `size` is 1 for a full window."""
    if size < 1 or (fence and size < 3):
        return False
    return size >= 3 or next_line.startswith("#") or (size >= 2 and not next_line.strip())


def _hide_metadata(lines: Sequence[str]) -> list[str]:
    """Blank the front matter, so that the other lines keep their numbers."""
    n_front = find_front_matter("", lines).n_lines
    return [""] * n_front + _hide_comments(lines, n_front)


def _hide_comments(lines: Sequence[str], first: int) -> list[str]:
    """Blank comments that fill a line, except within fenced code."""
    visible, fence = [], ""
    for line in lines[first:]:
        visible.append("" if not fence and _COMMENT_LINE.fullmatch(line) else line)
        fence = follow_fence(fence, line)
    return visible


def _cut_line(line: str) -> str:
    # For markdown-it a lone CR ends a line; it must not here, because the lines are already split.
    line = line.replace("\r", " ")
    return line if len(line) <= LINE_LIMIT_CHARS else line[:LINE_LIMIT_CHARS] + LONG_LINE_END


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.core.ruler.push("lines", _number_blocks)
    parser.add_render_rule("text", _render_text)
    parser.add_render_rule("image", _render_image)
    parser.add_render_rule("link_open", _render_link)
    return parser


def _number_blocks(state: Any) -> None:
    """Add `data-line` to each block."""
    first_line = state.env.get("first_line", 1)
    for token in state.tokens:
        if token.map is not None and token.nesting >= 0:
            token.attrSet("data-line", str(token.map[0] + first_line))


def _render_text(_renderer: object, tokens: Sequence[Token], at: int, *_: object) -> str:
    """Escape text, with a link for each `[[note]]` and `[[note|label]]` in it."""
    text, made, after = tokens[at].content, [], 0
    for match in _WIKI_LINK.finditer(text):
        target, label = match[1].strip(), (match[2] or match[1]).strip()
        made.append(escape(text[after : match.start()]))
        made.append(f'<a href="#" data-note="{escape(target)}">{escape(label)}</a>')
        after = match.end()
    return "".join(made) + escape(text[after:])


def _render_image(_renderer: object, tokens: Sequence[Token], at: int, *_: object) -> str:
    source = str(tokens[at].attrGet("src") or "")
    label = tokens[at].content or source
    return f'<a class="image"{_link_attributes(source)}>{escape(label)}</a>'


def _render_link(_renderer: object, tokens: Sequence[Token], at: int, *_: object) -> str:
    return f"<a{_link_attributes(str(tokens[at].attrGet('href') or ''))}>"


def _link_attributes(target: str) -> str:
    """The attributes of a link. Only addresses of web pages and mailboxes can be opened."""
    if _WEB.match(target):
        return f' href="{escape(target)}" rel="noopener noreferrer" target="_blank"'
    if not target or _SCHEME.match(target) or target.startswith("//"):
        return ""
    return f' href="#" data-note="{escape(target)}"'
