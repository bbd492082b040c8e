"""Split a note into sections, name each with an anchor, and pack the sections' blocks into chunks.

A section runs from its heading to the line before the next heading of any level: it does not hold
the lines of the sections beneath it. Its anchor consists of the path, the slugs of the headings
above it and its own slug. Equal anchors get `-2`, `-3`, … in order of lines. The lines before the
first heading, front matter included, are the section `path#`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, Protocol

from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.scanner import BLANKS, HEADING, Block
from memsyncd.core.model import (
    CHUNK_LIMIT_CHARS,
    QUARTERS_PER_TOKEN,
    Chunk,
    count_quarters,
    split_long_text,
)

HEADING_LIMIT_CHARS = 300
SLUG_LIMIT_CHARS = 80

_CLOSING_MARKS = re.compile(r"(?:^|[ \t])#+[ \t]*$")
# Inline marks: a sign that the text must contain, the pattern, and its replacement.
_INLINE = (
    ("<!--", re.compile(r"<!--.*?-->"), ""),
    ("[", re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]"), r"\1"),
    ("[", re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])"), r"\1"),
    # Runs of marks, except `_` within a word. The look-behinds follow the first mark, so that the
    # search can skip to the next mark; this takes a quarter of the time.
    ("", re.compile(r"[*`~_](?<!\\.)(?:(?<!_)[*`~]*|(?<=_)(?:(?<!\w_)_*|_*(?!\w)))"), ""),
)
_MAYBE_INLINE = re.compile(r"[<\[*`~_\\]")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_NO_SLUG = re.compile(r"[^\w\- ]+")


class RawSection(NamedTuple):
    """A section without its metadata. Lines are 0-based, `end` is exclusive.

    `blocks` are the blocks beneath its heading. If there are none, the heading is the only block.
    """

    anchor: str
    heading: tuple[str, ...]
    level: int
    start: int
    end: int
    blocks: Sequence[Block]


class NamedSection(Protocol):
    """A section with its name."""

    @property
    def anchor(self) -> str: ...
    @property
    def heading(self) -> tuple[str, ...]: ...
    @property
    def level(self) -> int: ...


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
    return [*sections, *_split_headed(path, lines, blocks, heads, len(lines), ())]


def split_sections_below(
    path: str,
    lines: Sequence[str],
    blocks: Sequence[Block],
    end: int,
    above: Sequence[NamedSection],
) -> list[RawSection]:
    """Split lines that begin with a heading and end before line `end` into sections. `above` are
    all sections of the note above these lines.
    """
    heads = [at for at, block in enumerate(blocks) if block.kind == HEADING]
    return [*_split_headed(path, lines, blocks, heads, end, above)]


def heading_text(lines: Sequence[str], block: Block) -> str:
    """The plain text of a heading, as one line without its marks."""
    first = lines[block.start].strip()
    if first.startswith("#") and block.end == block.start + 1:
        return _strip_marks(first[: 2 * HEADING_LIMIT_CHARS + 6])
    text = " ".join(line.strip() for line in lines[block.start : block.end - 1])
    return _strip_inline(text[: 2 * HEADING_LIMIT_CHARS])[:HEADING_LIMIT_CHARS]


# Notes repeat headings, and an edit splits the same note several times, so slugs are cached.
@lru_cache(maxsize=4096)
def make_slug(text: str) -> str:
    """The slug of a heading: letters and digits of any script in lower case, words joined by `-`;
    `section` if nothing is left.

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
    path: str,
    lines: Sequence[str],
    blocks: Sequence[Block],
    heads: Sequence[int],
    last_end: int,
    above: Sequence[NamedSection],
) -> Iterator[RawSection]:
    names = _AnchorNames(path, (section.anchor for section in above))
    parents = find_parents(above)
    starts = [*(blocks[at].start for at in heads[1:]), last_end]
    for at, after, end in zip(heads, [*heads[1:], len(blocks)], starts, strict=False):
        head = blocks[at]
        level = head.level
        while parents and parents[-1][0] >= level:
            parents.pop()
        text = heading_text(lines, head)
        _, headings, parent = parents[-1] if parents else (0, (), "")
        heading, anchor = (*headings, text), names.name(parent, text)
        parents.append((level, heading, anchor))
        yield RawSection(anchor, heading, level, head.start, end, blocks[at + 1 : after] or [head])


def find_parents(sections: Iterable[NamedSection]) -> list[tuple[int, tuple[str, ...], str]]:
    """Return the level, the headings and the anchor of each section whose lines go on below the
    last of these: the last section itself and the sections around it.
    """
    parents: list[tuple[int, tuple[str, ...], str]] = []
    for section in sections:
        if section.level:
            while parents and parents[-1][0] >= section.level:
                parents.pop()
            parents.append((section.level, section.heading, section.anchor))
    return parents


class _AnchorNames:
    """Assign anchors, each once, beside those that are taken."""

    def __init__(self, path: str, taken: Iterable[str]) -> None:
        self._path = path
        self._taken = set(taken)
        self._n_twins: dict[str, int] = {}

    def name(self, parent: str, text: str) -> str:
        base = f"{parent}/{make_slug(text)}" if parent else f"{self._path}#{make_slug(text)}"
        anchor, taken = base, self._taken
        while anchor in taken:
            self._n_twins[base] = self._n_twins.get(base, 1) + 1
            anchor = f"{base}-{self._n_twins[base]}"
        taken.add(anchor)
        return anchor


class ChunkPolicy(Protocol):
    """A chunk has at most `max_tokens` tokens, and repeats at most `overlap` tokens of the chunk
    before.
    """

    @property
    def max_tokens(self) -> int: ...
    @property
    def overlap(self) -> int: ...


WHOLE = slice(0, None)


class Unit(NamedTuple):
    """Lines that stay together in a chunk: a block, or one line of a block that is too long. Lines
    are 0-based, `end` is exclusive.
    """

    start: int
    end: int


class Packer:
    """Pack the blocks of one note into chunks. Raises ValueError for a policy whose overlap would
    never end.

    The costs of the lines are summed once, so the cost of any run of lines is one subtraction.
    With `part`, only these lines of the note can be packed.
    """

    __slots__ = ("_cost_before", "_first", "_lines", "_max", "_overlap")

    def __init__(
        self,
        lines: Sequence[str],
        policy: ChunkPolicy,
        *,
        part: slice = WHOLE,
    ) -> None:
        if not 0 <= policy.overlap < policy.max_tokens:
            raise ValueError(f"not a chunk policy: {policy.overlap} of {policy.max_tokens} tokens")
        # Most lines are ASCII, even in notes that are not; a call for each line would take longer.
        costs = [
            (len(line) if line.isascii() else count_quarters(line)) + 1 for line in lines[part]
        ]
        self._cost_before = list(accumulate(costs, initial=0))
        self._first: int = part.start
        self._lines = lines
        self._max = policy.max_tokens * QUARTERS_PER_TOKEN
        self._overlap = policy.overlap * QUARTERS_PER_TOKEN

    def pack(self, anchor: str, start: int, blocks: Sequence[Block]) -> list[Chunk]:
        """The chunks of the blocks, in order.

        The first chunk begins at line `start`, the heading's line, at or before the first block.
        """
        end = blocks[-1].end
        if self._cost(start, end) <= self._max:
            # Most sections are short: there is nothing to split and nothing to group.
            return self._make_chunks(anchor, start, end)
        units = self._split_units(blocks)
        chunks: list[Chunk] = []
        for first, last in self._group(start, units):
            chunks += self._make_chunks(
                anchor, units[first].start if first else start, units[last].end
            )
        return chunks

    def _cost(self, start: int, end: int) -> int:
        """The cost of these lines joined by newlines, in quarters of a token."""
        before = self._cost_before
        return before[end - self._first] - before[start - self._first] - 1

    def _split_units(self, blocks: Sequence[Block]) -> list[Unit]:
        units: list[Unit] = []
        for start, end, _, _ in blocks:
            if self._cost(start, end) <= 2 * self._max:
                units.append(Unit(start, end))
            else:
                units.extend(
                    Unit(at, at + 1) for at in range(start, end) if self._lines[at].strip(BLANKS)
                )
        return units

    def _group(self, start: int, units: Sequence[Unit]) -> Iterator[tuple[int, int]]:
        """The first and last unit of each chunk."""
        if not units:
            return
        first = 0
        for at in range(1, len(units)):
            if self._cost(units[first].start if first else start, units[at].end) > self._max:
                yield first, at - 1
                first = self._next_first_unit(units, first, at)
        yield first, len(units) - 1

    def _next_first_unit(self, units: Sequence[Unit], first: int, at: int) -> int:
        """The first unit of the next chunk, which must hold unit `at`; the chunk before began at
        unit `first`.
        """
        for earlier in range(at - 1, first - 1, -1):
            begin = units[earlier].start
            if (
                self._cost(begin, units[at - 1].end) > self._overlap
                or self._cost(begin, units[at].end) > self._max
            ):
                return earlier + 1
        return max(first, 1)

    def _make_chunks(self, anchor: str, start: int, end: int) -> list[Chunk]:
        text = "\n".join(self._lines[start:end])
        if len(text) <= CHUNK_LIMIT_CHARS:
            return [Chunk(anchor, start + 1, end, text)]
        parts = enumerate(split_long_text(text))
        return [Chunk(anchor, start + 1, end, part, number) for number, part in parts]
