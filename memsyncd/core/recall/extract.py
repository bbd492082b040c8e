"""How do some lines of a section read in a prompt? A label that says where they stand, then the lines.

Lines that are not shown leave a mark, and the label names every line that is. What the label says already, the heading and its
`memory` comment, is not said twice. A fence that a run of lines leaves open is closed, so that nothing after it is taken for
code. Which lines, is left to `context`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memsyncd.core.notepath import show_path
from memsyncd.core.span import Span

CUT_MARK = "…"
_COMMENT = re.compile(r"\s*<!--\s*memory:.*-->\s*")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_FENCE = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)*(?P<mark>`{3,}|~{3,})(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """What is shown of a section: its lines by number. `blanks` are lines known to be blank, which are no gap when left out;
    `cut_after` is the line where it was cut short.
    """

    path: str
    heading: tuple[str, ...]
    kind: str | None
    lines: Mapping[int, str]
    blanks: frozenset[int] = frozenset()
    cut_after: int | None = None

    @property
    def start(self) -> int:
        return min(self.lines)

    def with_lines(self, lines: Mapping[int, str], *, blanks: Iterable[int] = (), cut_after: int | None = None) -> Excerpt:
        return replace(self, lines={**self.lines, **lines}, blanks=self.blanks.union(blanks), cut_after=cut_after)


def render_excerpt(excerpt: Excerpt) -> str:
    """The label and the lines, without an end of line after the last."""
    runs = group_lines(excerpt.lines, excerpt.blanks)
    texts = [_render_label(excerpt, runs)]
    for i, run in enumerate(runs):
        if i and texts[-1] != CUT_MARK:
            texts.append(CUT_MARK)
        texts += _render_run(excerpt, run)
    return "\n".join(texts)


def group_lines(lines: Iterable[int], blanks: frozenset[int] = frozenset()) -> list[Span]:
    """Line numbers as spans of those that follow each other, or between which there are only blank lines."""
    runs: list[Span] = []
    for line in sorted(lines):
        if runs and blanks.issuperset(range(runs[-1].end + 1, line)):
            runs[-1] = Span(runs[-1].start, line)
        else:
            runs.append(Span(line, line))
    return runs


def count_title_lines(lines: Sequence[str], heading: str) -> int:
    """How many lines at the beginning of a section's text a label with this heading stands for."""
    if not heading or _letters(lines[0]) != _letters(heading):
        return 0
    if lines[0].lstrip().startswith("#"):
        n_lines = 1
    elif len(lines) > 1 and _UNDERLINE.fullmatch(lines[1]):
        n_lines = 2
    else:
        return 0
    while n_lines < len(lines) and (not lines[n_lines].strip() or _COMMENT.fullmatch(lines[n_lines])):
        n_lines += 1
    return n_lines


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _render_label(excerpt: Excerpt, runs: Sequence[Span]) -> str:
    name = " ".join(" › ".join(excerpt.heading).split())
    kind = f"({show_path(excerpt.kind)})" if excerpt.kind else ""
    spans = ", ".join(str(run.start) if run.n_lines == 1 else f"{run.start}-{run.end}" for run in runs)
    return " ".join(filter(None, ("###", name, kind, "·" if name or kind else "", f"{show_path(excerpt.path)}:{spans}")))


def _render_run(excerpt: Excerpt, run: Span) -> Iterator[str]:
    shown = [line for line in range(run.start, run.end + 1) if excerpt.lines.get(line, "").strip()]
    if not shown:
        return
    texts: list[str] = []
    for line in range(shown[0], shown[-1] + 1):
        texts.append(excerpt.lines.get(line, ""))
        if line == excerpt.cut_after:
            texts += [*_close_fence(texts), CUT_MARK]
            yield from texts
            texts = []
    yield from texts
    yield from _close_fence(texts)


def _close_fence(texts: Iterable[str]) -> list[str]:
    """The line that closes what is open at the end of these, if anything is."""
    mark = ""
    for found in filter(None, map(_FENCE.fullmatch, texts)):
        if not mark and "`" not in found["rest"]:
            mark = found["mark"]
        elif mark and found["mark"].startswith(mark) and not found["rest"].strip():
            mark = ""
    return [mark] if mark else []
