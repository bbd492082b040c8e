"""Split a note into sections, and name each with an anchor.

A section runs from its heading to the line before the next heading of any level: it does not hold
its children's lines. Its anchor consists of the path, the slugs of the headings above it and its
own slug; duplicates, in order of lines, get `-2`, `-3`, … The lines before the first heading, front
matter included, are the section `path#`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.scanner import HEADING, Block

HEADING_LIMIT_CHARS = 300
SLUG_LIMIT_CHARS = 80

_CLOSING_MARKS = re.compile(r"(?:^|[ \t])#+[ \t]*$")
# Each with a sign that it needs.
_INLINE = (
    ("<!--", re.compile(r"<!--.*?-->"), ""),
    ("[", re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]"), r"\1"),
    ("[", re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])"), r"\1"),
    # Runs of marks, but for `_` within a word. The look-behinds follow the first mark, so that the
    # search can skip to the next one: a quarter of the time.
    ("", re.compile(r"[*`~_](?<!\\.)(?:(?<!_)[*`~]*|(?<=_)(?:(?<!\w_)_*|_*(?!\w)))"), ""),
)
_MAYBE_INLINE = re.compile(r"[<\[*`~_\\]")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_NO_SLUG = re.compile(r"[^\w\- ]+")


class RawSection(NamedTuple):
    """A section before its metadata is known. Lines are 0-based, end exclusive.

    `blocks` are those beneath its heading; without any, its heading.
    """

    anchor: str
    heading: tuple[str, ...]
    level: int
    start: int
    end: int
    blocks: Sequence[Block]


def split_sections(
    path: str, lines: Sequence[str], blocks: Sequence[Block], *, has_top: bool
) -> list[RawSection]:
    """Split a note into sections.

    `has_top` says that lines precede the blocks, so that the section `path#` exists in any case.
    """
    heads = [at for at, block in enumerate(blocks) if block.kind == HEADING]
    first = heads[0] if heads else len(blocks)
    sections: list[RawSection] = []
    if has_top or first:
        end = blocks[first].start if heads else len(lines)
        sections.append(RawSection(f"{path}#", (), 0, 0, end, blocks[:first]))
    return [*sections, *_split_headed(path, lines, blocks, heads)]


def heading_text(lines: Sequence[str], block: Block) -> str:
    """The plain text of a heading, one line, without its marks."""
    first = lines[block.start].strip()
    if first.startswith("#") and block.end == block.start + 1:
        return _strip_marks(first[: 2 * HEADING_LIMIT_CHARS + 6])
    text = " ".join(line.strip() for line in lines[block.start : block.end - 1])
    return _strip_inline(text[: 2 * HEADING_LIMIT_CHARS])[:HEADING_LIMIT_CHARS]


# Notes of one kind repeat their headings.
@lru_cache(maxsize=1024)
def make_slug(text: str) -> str:
    """Lower case, words joined by `-`, letters and digits of any script; `section` if nothing is
    left.

    Anchors appear in answers, so secrets in them are redacted.
    """
    slug = "-".join(_NO_SLUG.sub("", redact(text).lower()).replace("-", " ").split())
    return slug[:SLUG_LIMIT_CHARS].rstrip("-") or "section"


@lru_cache(maxsize=1024)
def _strip_marks(line: str) -> str:
    """The plain text of an ATX heading's line."""
    text = line.lstrip("#")[: 2 * HEADING_LIMIT_CHARS]
    text = _CLOSING_MARKS.sub("", text) if "#" in text else text
    return _strip_inline(text)[:HEADING_LIMIT_CHARS]


def _strip_inline(text: str) -> str:
    if _MAYBE_INLINE.search(text):
        for sign, pattern, by in _INLINE:
            if sign in text:
                text = pattern.sub(by, text)
        if "\\" in text:
            text = _ESCAPE.sub(r"\1", text)
    return " ".join(text.split())


def _split_headed(
    path: str, lines: Sequence[str], blocks: Sequence[Block], heads: Sequence[int]
) -> Iterator[RawSection]:
    names = _AnchorNames(path)
    above: list[tuple[int, tuple[str, ...], str]] = []
    starts = [*(blocks[at].start for at in heads[1:]), len(lines)]
    for at, after, end in zip(heads, [*heads[1:], len(blocks)], starts, strict=False):
        head = blocks[at]
        level = head.level
        while above and above[-1][0] >= level:
            above.pop()
        text = heading_text(lines, head)
        _, parents, parent = above[-1] if above else (0, (), "")
        heading, anchor = (*parents, text), names.name(parent, text)
        above.append((level, heading, anchor))
        yield RawSection(anchor, heading, level, head.start, end, blocks[at + 1 : after] or [head])


class _AnchorNames:
    """Assign anchors, each once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._taken: set[str] = set()
        self._n_twins: dict[str, int] = {}

    def name(self, parent: str, text: str) -> str:
        base = f"{parent}/{make_slug(text)}" if parent else f"{self._path}#{make_slug(text)}"
        anchor, taken = base, self._taken
        while anchor in taken:
            self._n_twins[base] = self._n_twins.get(base, 1) + 1
            anchor = f"{base}-{self._n_twins[base]}"
        taken.add(anchor)
        return anchor
