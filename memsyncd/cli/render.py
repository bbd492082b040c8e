"""How do the daemon's answers look to people? Every function takes an answer that was cleaned and gives text to print."""

from __future__ import annotations

import os

from memsyncd.cli.figures import measure, render_count, shorten
from memsyncd.cli.places import show_path, show_span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memsyncd.cli.terminal import Paint

MARK = "**"
INDENT = "  "


def render_hit(hit: dict[str, Any], paint: Paint, *, root: str, cwd: str, width: int, has_parts: bool) -> str:
    """A line that says where, and below it the snippet; `width` 0 leaves the snippet on one line."""
    place = show_span(show_path(hit["path"], root, cwd), hit["start_line"], hit["end_line"])
    linked = paint.link(paint("bold blue", place), os.path.join(root, hit["path"]) if root else "", hit["start_line"])
    trail = " › ".join(hit["heading"])
    marks = "  ".join(filter(None, [hit["kind"] or "", render_tags(hit["tags"])]))
    score = f"{hit['score']:.2f}" if hit["score"] >= 0.005 else "<0.01"
    parts = [
        linked,
        trail and shorten(trail, max(width - measure(place) - 24, 24)) if width else trail,
        paint("cyan", marks),
        paint("dim", score),
    ]
    lines = [INDENT.join(filter(None, parts)), *render_snippet(hit["snippet"], paint, width=width)]
    if has_parts:
        lines.append(paint("dim", INDENT + _render_parts(hit)))
    return "\n".join(lines)


def render_tags(tags: list[str]) -> str:
    return " ".join("#" + tag for tag in tags)


def render_snippet(snippet: str, paint: Paint, *, width: int) -> Iterator[str]:
    """The snippet's lines, indented, its matched words lit: they stand between marks, which colour replaces."""
    is_lit = False
    for line in wrap_words(snippet, width - len(INDENT)) if width else [" ".join(snippet.split())]:
        pieces = line.split(MARK)
        if not paint.has_colour:
            yield INDENT + line
            continue
        lit = [paint("bold yellow", piece) if (i % 2 == 1) != is_lit else piece for i, piece in enumerate(pieces)]
        is_lit ^= len(pieces) % 2 == 0
        yield INDENT + "".join(lit)


def wrap_words(text: str, width: int) -> Iterator[str]:
    """Lines of whole words of at most `width` columns, marks not counted; a longer word has a line for itself."""
    line: list[str] = []
    used = 0
    for word in text.split():
        columns = measure(word.replace(MARK, ""))
        if line and used + 1 + columns > width:
            yield " ".join(line)
            line, used = [], 0
        used += columns + (1 if line else 0)
        line.append(word)
    if line:
        yield " ".join(line)


def render_freshness(freshness: dict[str, Any]) -> str:
    """What a reader should know of how old the answer is; empty if there is nothing to know."""
    if freshness["pending"]:
        return f"{render_count(freshness['pending'], 'note')} not indexed yet; --wait includes them"
    state = freshness["state"]
    return "" if state == "ready" else f"the workspace is {state}; see `memsyncd status`"


def _render_parts(hit: dict[str, Any]) -> str:
    parts = [f"{name} {value:.3g}" for name, value in (hit.get("explain") or {}).items()]
    words = ", ".join(hit["matched"])
    return " · ".join([*parts, f"holds {words}"] if words else parts)
