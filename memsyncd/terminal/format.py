"""Format numbers, times, columns, paths and hits as text for people.

Functions that take a result of the daemon expect that `clean_values` has cleaned it.
"""

from __future__ import annotations

import os

from memsyncd.headings import name_section
from memsyncd.terminal.terminal import clean_line
from memsyncd.terminal.wrap import break_line, display_width

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


def truncate(text: str, width: int) -> str:
    """Cut the text to `width` columns; a longer text ends with `…`."""
    if display_width(text) <= width:
        return text
    while text and display_width(text) >= width:
        text = text[:-1]
    return text.rstrip() + "…"


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
    trail = render_name(hit)
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
    explanation = render_explanation(hit) if hit.get("explain") else ()
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
            *(render_snippet(hit["snippet"], paint, width=width) if hit["snippet"] else ()),
            *_render_labels(hit.get("labels", ()), paint, width=width),
            *(INDENT + paint("dim", line) for line in explanation),
            *_render_relations(hit, paint, root=root, cwd=cwd, width=width),
        ]
    )


def render_name(section: dict[str, Any]) -> str:
    """Return `Note › Heading`; the note is not named if the first heading says the same."""
    # A daemon of an older version does not send the title.
    return name_section(section.get("title", ""), section["heading"])


def _render_labels(labels: Sequence[str], paint: Paint, *, width: int) -> Iterator[str]:
    if labels:
        text = INDENT + " · ".join(labels)
        lines = break_line(text, width, 0) if width else (text,)
        yield from (paint("cyan", line) for line in lines)


def _render_relations(
    hit: dict[str, Any], paint: Paint, *, root: str, cwd: str, width: int
) -> Iterator[str]:
    """Yield lines for the contradictions of a hit, the memories that supersede it, and the targets
    of its typed links.
    """
    for text in render_contradictions(hit, paint, root=root, cwd=cwd):
        yield f"{INDENT}{text}"
    for section in hit["related"]:
        other = section.get("workspace_name")
        path = f"{other}:{section['path']}" if other else render_path(section["path"], root, cwd)
        place = render_span(path, section["start_line"], section["end_line"])
        trail = render_name(section)
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
        "conflict" if section.get("meta", {}).get("conflict") else "",
    ]
    return "  ".join(filter(None, marks))


def render_tags(tags: list[str]) -> str:
    return " ".join("#" + tag for tag in tags)


def render_snippet(snippet: str, paint: Paint, *, width: int) -> Iterator[str]:
    """Yield the snippet's lines, indented. Matched words are coloured; a terminal without colours
    keeps the marks around them, and any other output has the text as the note has it.
    """
    parts = " ".join(snippet.split()).split(HIGHLIGHT_MARK)
    if paint.has_colour:
        text = "".join(
            paint("bold yellow", part) if i % 2 else part for i, part in enumerate(parts)
        )
    else:
        text = (HIGHLIGHT_MARK if paint.has_marks else "").join(parts)
    yield from break_line(INDENT + text, width, 0) if width else (INDENT + text,)


def render_freshness(freshness: dict[str, Any], *, can_wait: bool) -> str:
    """Say which changes on disk the index of a result lacks, or why; empty if it is up to date.
    `can_wait`: the command has the option --wait.
    """
    if freshness.get("reason"):
        return str(freshness["reason"])
    if freshness["pending"]:
        advice = "--wait includes them" if can_wait else "to wait for them: memsyncd sync"
        return f"{render_count(freshness['pending'], 'note')} not indexed yet; {advice}"
    state = freshness["state"]
    return "" if state == "ready" else f"the workspace is {state}; see `memsyncd status`"


# The parts of a score that are added, the factors, and the factors of the worth.
_ADDED = {
    "stems": "stems",
    "family": "related words",
    "run": "words in a row",
    "semantic": "meaning",
    "exact": "exact words",
    "note": "same note",
    "beside": "passages beside",
}
_FACTORS = ("day", "importance", "recency", "decay")
_WORTH = ("recency", "accesses", "importance")


def render_explanation(hit: Mapping[str, Any]) -> list[str]:
    """Render three lines on why a hit was found: the words that it holds, the parts of its score,
    and the worth of its section. Parts that change nothing are left out; `--json` has them.
    """
    parts = hit.get("explain") or {}
    related = ", ".join(hit.get("matched_related", ()))
    words = [", ".join(hit["matched"]), f"{related} by related words" if related else ""]
    added = [
        f"{name} {parts[part]:.3g}" for part, name in _ADDED.items() if round(parts.get(part, 0), 2)
    ]
    factors = [
        f" × {name} {parts[name]:.3g}" for name in _FACTORS if round(parts.get(name, 1), 2) != 1
    ]
    lines = [
        f"words  {'; '.join(filter(None, words)) or 'none: found by its meaning'}",
        f"score  {' + '.join(added) or 'near 0: most passages have these words'}{''.join(factors)}",
    ]
    if "worth" in parts:
        lines.append(render_worth(parts))
    return lines


def render_worth(parts: Mapping[str, Any]) -> str:
    """Render `worth  0.69 = recency 0.97 × accesses 1.00 × importance 0.71`."""
    factors = " × ".join(f"{name} {parts[f'decay_{name}']:.2f}" for name in _WORTH)
    return f"worth  {parts['worth']:.2f} = {factors}"


def render_score(score: float, *, has_bar: bool = False) -> str:
    """Render `0.65`, after a bar if `has_bar`."""
    bar = render_bar(round(score * 100), 100, BAR) + " " if has_bar else ""
    return bar + (f"{score:.2f}" if score >= 0.005 else "<0.01")
