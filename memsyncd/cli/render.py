"""How do the daemon's answers look to people? Every function takes an answer that was cleaned and gives text to print."""

from __future__ import annotations

import os

from memsyncd.cli.figures import measure, render_bar, render_count, render_table, shorten
from memsyncd.cli.places import show_path, show_span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memsyncd.cli.terminal import Paint

MARK = "**"
INDENT = "  "
BAR = 8
"""Columns of the bar that shows a score."""


def render_hit(hit: dict[str, Any], paint: Paint, *, root: str, cwd: str, width: int) -> str:
    """A line that says where, and below it the snippet; `width` 0, for what no terminal shows, leaves the snippet on one line."""
    place = show_span(show_path(hit["path"], root, cwd), hit["start_line"], hit["end_line"])
    linked = paint.link(paint("bold blue", place), os.path.join(root, hit["path"]) if root else "", hit["start_line"])
    trail = " › ".join(hit["heading"])
    marks = "  ".join(filter(None, [hit["kind"] or "", render_tags(hit["tags"])]))
    parts = [
        linked,
        trail and shorten(trail, max(width - measure(place) - 24 - BAR, 24)) if width else trail,
        paint("cyan", marks),
        paint("dim", _render_score(hit["score"], has_bar=bool(width))),
    ]
    return "\n".join([INDENT.join(filter(None, parts)), *render_snippet(hit["snippet"], paint, width=width)])


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
    if freshness.get("reason"):
        return str(freshness["reason"])
    if freshness["pending"]:
        return f"{render_count(freshness['pending'], 'note')} not indexed yet; --wait includes them"
    state = freshness["state"]
    return "" if state == "ready" else f"the workspace is {state}; see `memsyncd status`"


def render_explanation(hits: list[dict[str, Any]], paint: Paint) -> str:
    """A table of what each hit's score is made of, in the order of the hits, and of the words that it holds."""
    parts = [hit.get("explain") or {} for hit in hits]
    names = [*dict.fromkeys(name for each in parts for name in each)]
    rows = [["hit", "score", *names, "holds"]]
    for number, (hit, each) in enumerate(zip(hits, parts, strict=True), 1):
        figures = [f"{each[name]:.3g}" if name in each else "" for name in names]
        rows.append([str(number), _render_score(hit["score"], has_bar=False), *figures, ", ".join(hit["matched"])])
    head, *rest = ("".join(cells) for cells in render_table(rows))
    return "\n".join([paint("bold", head), *rest])


def _render_score(score: float, *, has_bar: bool) -> str:
    bar = render_bar(round(score * 100), 100, BAR) + " " if has_bar else ""
    return bar + (f"{score:.2f}" if score >= 0.005 else "<0.01")
