"""How do revisions look to people? Every function takes what was cleaned and gives text to print."""

from __future__ import annotations

from memsyncd.cli.figures import render_age, render_size, render_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from memsyncd.cli.terminal import Paint

OUTSIDE = "outside"
DIFF_STYLES = {"@": "cyan", "+": "green", "-": "red", "\\": "dim"}
"""By what a line of a diff begins with, once its two names are through."""
N_NAMES = 2


def render_revisions(revisions: Sequence[dict[str, Any]], paint: Paint, *, now_s: float) -> Iterator[str]:
    """A line for each: number, age, who, what, how much, where."""
    rows = [
        [
            str(revision["revision"]),
            render_age(revision["at"], now_s),
            revision["client"] or OUTSIDE,
            find_deed(revision),
            render_growth(revision),
            _render_path(revision) + ("" if revision["is_kept"] else "  (its texts are not kept any more)"),
        ]
        for revision in revisions
    ]
    for number, age, *rest in render_table(rows):
        yield (paint("bold", number) + paint("dim", age) + "".join(rest)).rstrip()


def find_deed(revision: dict[str, Any]) -> str:
    """What was done: the writer's command, or what a change from outside comes to."""
    command = str(revision["command"])
    if command != OUTSIDE:
        return command
    if revision["old_path"] not in (None, revision["path"]):
        return "rename"
    return "create" if revision["old_digest"] is None else "delete" if revision["new_digest"] is None else "edit"


def render_growth(revision: dict[str, Any]) -> str:
    """`+120 B`, `-40 B`, `±0 B`: by how much the note grew."""
    growth_bytes = (revision["new_bytes"] or 0) - (revision["old_bytes"] or 0)
    sign = "+" if growth_bytes > 0 else "-" if growth_bytes < 0 else "±"
    return sign + render_size(abs(growth_bytes))


def _render_path(revision: dict[str, Any]) -> str:
    path, old_path = str(revision["path"]), revision["old_path"]
    return path if old_path in (None, path) else f"{old_path} → {path}"


def render_diff(diff: str, paint: Paint) -> str:
    """A unified diff, its lines in colours."""
    lines = diff.removesuffix("\n").split("\n")
    names = [paint("bold", line) for line in lines[:N_NAMES]]
    return "\n".join(names + [_paint_line(line, paint) for line in lines[N_NAMES:]])


def _paint_line(line: str, paint: Paint) -> str:
    style = DIFF_STYLES.get(line[:1])
    return paint(style, line) if style else line
