"""Format numbers, times, columns, paths and hits as text for people.

Functions that take a result of the daemon expect that `clean_values` has cleaned it.
"""

from __future__ import annotations

import os

from memsyncd.terminal.terminal import clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from memsyncd.terminal.terminal import Paint

# --- numbers and columns ------------------------------------------------------------------------

_SIZES = ("kB", "MB", "GB", "TB")
_SPANS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def render_count(n: int, one: str, many: str = "") -> str:
    """Render `1 note`, `1,204 notes`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def render_size(size_bytes: int) -> str:
    """Render `512 B`, `2.1 MB`; the units are powers of 1,000, as in file managers."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in _SIZES:
        size /= 1000
        if size < 999.5 or unit == _SIZES[-1]:
            return f"{size:.1f} {unit}" if size < 99.95 else f"{size:.0f} {unit}"
    raise AssertionError(size_bytes)


def render_duration(duration_s: float) -> str:
    """Render `3 h 12 min`, `42 s`, `180 ms`: the largest unit, and the next if not zero."""
    if duration_s < 1:
        return f"{max(duration_s, 0) * 1000:.0f} ms"
    if duration_s < 10:
        return f"{duration_s:.1f} s"
    whole_s = round(duration_s)
    for large_s, large, small_s, small in _SPANS:
        if whole_s >= large_s:
            n, rest_s = divmod(whole_s, large_s)
            return (
                f"{n} {large} {rest_s // small_s} {small}" if rest_s // small_s else f"{n} {large}"
            )
    return f"{whole_s} s"


def render_age(at_s: float | None, now_s: float) -> str:
    """Render `3 min ago`, `just now`, `never`."""
    if at_s is None:
        return "never"
    age_s = now_s - at_s
    if age_s < 1:
        return "just now"
    return (
        render_duration(float(int(age_s)) if age_s < 60 else age_s // 60 * 60).replace(".0 s", " s")
        + " ago"
    )


def display_width(text: str) -> int:
    """Return the width of the text in columns: a wide character has two, a combining mark none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def pad(text: str, width: int) -> str:
    """Fill the text with blanks to `width` columns."""
    return text + " " * (width - display_width(text))


def truncate(text: str, width: int) -> str:
    """Cut the text to `width` columns; a longer text ends with `…`."""
    if display_width(text) <= width:
        return text
    while text and display_width(text) >= width:
        text = text[:-1]
    return text.rstrip() + "…"


def render_table(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad every cell except a row's last to the width of its column and two spaces, so that the
    joined cells line up.
    """
    widths = [
        max((display_width(row[i]) for row in rows if i < len(row)), default=0) + 2
        for i in range(max(map(len, rows), default=0))
    ]
    return [
        [cell if i == len(row) - 1 else pad(cell, widths[i]) for i, cell in enumerate(row)]
        for row in rows
    ]


def render_bar(done: int, total: int, width: int = 24) -> str:
    """Render a bar of `width` columns."""
    filled = width if total <= 0 else min(width, done * width // total)
    return "━" * filled + "─" * (width - filled)


# --- places -------------------------------------------------------------------------------------


def render_path(path: str, root: str, cwd: str) -> str:
    """Return the path as a person would type it: relative to the current folder if the workspace
    contains this folder, else absolute. An empty `root` is unknown: the path stays as it is.
    """
    if not root or (cwd == root and not path.startswith("/")):
        return path
    full = os.path.join(root, path)
    is_inside = cwd == root or cwd.startswith(root.rstrip("/") + "/")
    return os.path.relpath(full, cwd) if is_inside else full


def render_span(path: str, start_line: int, end_line: int) -> str:
    """Return `path:12` or `path:12-18`."""
    return f"{path}:{render_lines(start_line, end_line)}"


def render_place(section: Mapping[str, Any], paint: Paint, *, root: str, cwd: str) -> str:
    """Render the path of a note or section, and its lines if it has lines, as a link that opens the
    file. `root` is the root of its workspace, empty if unknown.
    """
    path, start_line = section["path"], section.get("start_line")
    place = render_path(path, clean_line(root), cwd)
    if start_line:
        place = render_span(place, start_line, section["end_line"])
    link = paint.link(
        paint("bold blue", place), os.path.join(root, path) if root else "", start_line or 1
    )
    return paint.render_id(section) + link


def render_lines(start_line: int, end_line: int) -> str:
    """Return `12` or `12-18`."""
    return str(start_line) if start_line == end_line else f"{start_line}-{end_line}"


# --- hits ---------------------------------------------------------------------------------------

HIGHLIGHT_MARK = "**"
INDENT = "  "
# Columns of a score's bar.
BAR = 8


def render_hit(hit: dict[str, Any], paint: Paint, *, root: str, cwd: str, width: int) -> str:
    """Render the place of a hit and, below, its snippet. `width` 0 is for output that is not a
    terminal: the snippet stays on one line.
    """
    trail = " › ".join(hit["heading"])
    marks = render_meta(hit)
    if width and trail:
        place = render_span(render_path(hit["path"], root, cwd), hit["start_line"], hit["end_line"])
        trail = truncate(trail, max(width - display_width(place) - 24 - BAR, 24))
    parts = [
        render_place(hit, paint, root=root, cwd=cwd),
        trail,
        paint("cyan", marks),
        paint("dim", render_score(hit["score"], has_bar=bool(width))),
    ]
    others = [
        f"{section['heading'][-1]} ({render_lines(section['start_line'], section['end_line'])})"
        for section in hit.get("sections", ())
        if section["heading"] and section["anchor"] != hit["anchor"]
    ]
    return "\n".join(
        [
            INDENT.join(filter(None, parts)),
            *([f"{INDENT}with {', '.join(others)}"] if others else ()),
            *([INDENT + paint("yellow", hit["mark"])] if hit.get("mark") else ()),
            *render_snippet(hit["snippet"], paint, width=width),
            *_render_relations(hit, paint, root=root, cwd=cwd, width=width),
        ]
    )


def _render_relations(
    hit: dict[str, Any], paint: Paint, *, root: str, cwd: str, width: int
) -> Iterator[str]:
    """Yield lines for the contradictions of a hit, the memories that supersede it, and the targets
    of its typed links.
    """
    for text in render_contradictions(hit, paint, root=root, cwd=cwd):
        yield f"{INDENT}{text}"
    for section in hit["related"]:
        place = render_span(
            render_path(section["path"], root, cwd), section["start_line"], section["end_line"]
        )
        trail = " › ".join(section["heading"])
        words = INDENT.join(filter(None, (place, trail, paint("cyan", render_meta(section)))))
        yield f"{INDENT}{paint('cyan', section['relation'])} → {words}"
        for line in render_snippet(section["snippet"], paint, width=width):
            yield f"{INDENT}{line}"


def render_contradictions(
    section: dict[str, Any], paint: Paint, *, root: str, cwd: str
) -> Iterator[str]:
    for name in ("contradicts", "contradicted_by", "supersedes", "superseded_by"):
        if section[name]:
            paths = ", ".join(render_path(place, root, cwd) for place in section[name])
            since = f" since {section['since']}" if name == "supersedes" else ""
            yield f"{paint('yellow', name.replace('_', ' '))} {paths}{since}"


def render_meta(section: dict[str, Any]) -> str:
    """Render the metadata of a section: `decision  #ops  P0  task:WU-7  expired`."""
    status = section["status"] or ""
    marks = [
        section["kind"] or "",
        render_tags(section["tags"]),
        section["priority"] or "",
        f"task:{section['task']}" if section["task"] else "",
        "" if status == "active" else status,
        "expired" if section["is_expired"] else "",
    ]
    return "  ".join(filter(None, marks))


def render_tags(tags: list[str]) -> str:
    return " ".join("#" + tag for tag in tags)


def render_snippet(snippet: str, paint: Paint, *, width: int) -> Iterator[str]:
    """Yield the snippet's lines, indented. Colours, if there are any, replace the marks around
    matched words.
    """
    is_highlighted = False
    for line in wrap_words(snippet, width - len(INDENT)) if width else [" ".join(snippet.split())]:
        parts = line.split(HIGHLIGHT_MARK)
        if not paint.has_colour:
            yield INDENT + line
            continue
        highlighted = [
            paint("bold yellow", part) if (i % 2 == 1) != is_highlighted else part
            for i, part in enumerate(parts)
        ]
        is_highlighted ^= len(parts) % 2 == 0
        yield INDENT + "".join(highlighted)


def wrap_words(text: str, width: int) -> Iterator[str]:
    """Yield lines of whole words with at most `width` columns; marks around words do not count. A
    longer word gets its own line.
    """
    line: list[str] = []
    used = 0
    for word in text.split():
        columns = display_width(word.replace(HIGHLIGHT_MARK, ""))
        if line and used + 1 + columns > width:
            yield " ".join(line)
            line, used = [], 0
        used += columns + (1 if line else 0)
        line.append(word)
    if line:
        yield " ".join(line)


def render_freshness(freshness: dict[str, Any]) -> str:
    """Say which changes on disk the index of a result lacks, or why; empty if it is up to date."""
    if freshness.get("reason"):
        return str(freshness["reason"])
    if freshness["pending"]:
        return f"{render_count(freshness['pending'], 'note')} not indexed yet; --wait includes them"
    state = freshness["state"]
    return "" if state == "ready" else f"the workspace is {state}; see `memsyncd status`"


FORMER_WORTH = "decay_score"
"""The former name of `worth`, which programs still get and no table shows."""
# The columns of an explanation. A search shows only some of them.
_PARTS = {
    "stems": "words of the query, in any form",
    "family": "words related to them",
    "run": "words in a row, as in the query, or its one word itself",
    "semantic": "nearness in meaning",
    "exact": "words as they are typed",
    "note": "the strongest passage of the same note",
    "beside": "the passages before and after",
    "day": "factor, if the query names a day",
    "importance": "factor, as [search] importance says",
    "recency": "factor, as [search] recency says",
    "decay": "factor, as [search] decay says",
    "cosine": "of the question's vector and the chunk's, from -1 to 1",
    "chunks": "how many are joined in this passage",
    "worth": "of the section: the product of the next three; no part of the score",
    "decay_recency": "by its age",
    "decay_accesses": "by how often it was recalled",
    "decay_importance": "by its importance",
}


def list_parts(hits: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each column of the explanation, with its meaning."""
    names = {name for hit in hits for name in hit.get("explain") or {}}
    rows = [[name, text] for name, text in _PARTS.items() if name in names]
    for name, text in render_table(rows):
        yield f"{name}{text}"


def render_explanation(hits: list[dict[str, Any]], paint: Paint) -> str:
    """Render a table with a row for each hit: the parts of its score, and the words that it
    contains.
    """
    parts = [hit.get("explain") or {} for hit in hits]
    names = [*dict.fromkeys(name for each in parts for name in each if name != FORMER_WORTH)]
    rows = [["hit", "score", *names, "contains"]]
    for number, (hit, each) in enumerate(zip(hits, parts, strict=True), 1):
        values = [f"{each[name]:.3g}" if name in each else "" for name in names]
        rows.append(
            [
                str(number),
                render_score(hit["score"]),
                *values,
                ", ".join(_render_words(hit)),
            ]
        )
    head, *rest = ("".join(cells) for cells in render_table(rows))
    return "\n".join([paint("bold", head), *rest])


def _render_words(hit: dict[str, Any]) -> list[str]:
    """Return the words of the query that a hit contains; `(related)` marks a word of which the hit
    has related words only.
    """
    return [*hit["matched"], *(f"{word} (related)" for word in hit.get("matched_related", ()))]


def render_score(score: float, *, has_bar: bool = False) -> str:
    """Render `0.65`, after a bar if `has_bar`."""
    bar = render_bar(round(score * 100), 100, BAR) + " " if has_bar else ""
    return bar + (f"{score:.2f}" if score >= 0.005 else "<0.01")
