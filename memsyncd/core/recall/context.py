"""Which of the chunks that were found go into a prompt? A block of markdown that fills a budget and never exceeds it.

Chunks come best first and fill the budget unjoined, each line once; shown they are in order of note and line. The first chunk
that does not fit is cut at a line end, and closes the block; one of which not a line fits is left out, and the next is tried.
The same chunks give the same bytes. Which chunks there are, and which is best, is left to others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memsyncd.core.recall.extract import CUT_MARK, Excerpt, count_title_lines, group_lines, render_excerpt
from memsyncd.core.span import Span
from memsyncd.core.tokens import QUARTERS_PER_TOKEN, count_quarters, count_tokens

CONTEXT_HEADING = "## Prior Knowledge"
NO_ROOM = "no room"
_BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a block may take, its heading and labels included. `max_bytes` counts UTF-8; None means any number."""

    max_tokens: int
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChunk:
    """A chunk on offer; `reason` says why it is. `heading` is the breadcrumb of its section, `anchor` unique among sections.

    `n_blanks_before` are the blank lines right before it that stand in no chunk.
    """

    path: str
    anchor: str
    heading: tuple[str, ...]
    kind: str | None
    span: Span
    text: str
    reason: str
    n_blanks_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLines:
    """Lines of a chunk that a block shows, or does not; `reason` says why."""

    chunk: ContextChunk
    span: Span
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBlock:
    """A text for a prompt, empty if nothing is in it. `included` and `omitted` are best first, as the chunks were.

    Every line of every chunk is in one of the two.
    """

    text: str
    n_tokens: int
    included: tuple[ContextLines, ...]
    omitted: tuple[ContextLines, ...]


def build_context_block(chunks: Sequence[ContextChunk], budget: Budget, *, heading: str = CONTEXT_HEADING) -> ContextBlock:
    """Fill the budget with `chunks`, best first, under a heading, which may be empty."""
    filling = _Filling(budget, heading)
    included = tuple(filling.take(chunks))
    text = filling.render()
    return ContextBlock(text=text, n_tokens=count_tokens(text), included=included, omitted=tuple(_find_omitted(chunks, included)))


class _Text(NamedTuple):
    """A text with what it costs, counted once."""

    text: str
    quarters: int
    n_bytes: int

    @classmethod
    def of(cls, text: str) -> _Text:
        return cls(text, count_quarters(text), len(text.encode()))


@dataclass(slots=True)
class _Filling:
    """A block while it is filled: what is shown of each section, by anchor, and how that reads."""

    budget: Budget
    heading: str
    excerpts: dict[str, Excerpt] = field(default_factory=dict)
    texts: dict[str, _Text] = field(default_factory=dict)

    def take(self, chunks: Sequence[ContextChunk]) -> Iterator[ContextLines]:
        """Let in what fits, in order, and say what did."""
        for chunk in chunks:
            before = self._find_before(chunk)
            fresh = {line: text for line, text in _place_lines(chunk).items() if line not in before.lines}
            if not fresh:
                continue
            if self._put(chunk.anchor, before.with_lines(fresh)):
                yield ContextLines(chunk=chunk, span=chunk.span, reason=chunk.reason)
            elif cut := self._cut(chunk, before, fresh):
                yield cut
                return

    def render(self) -> str:
        if not self.texts:
            return ""
        in_order = sorted(self.excerpts, key=lambda anchor: (self.excerpts[anchor].path, self.excerpts[anchor].start))
        return _BETWEEN.join(filter(None, (self.heading, *(self.texts[anchor].text for anchor in in_order))))

    def _find_before(self, chunk: ContextChunk) -> Excerpt:
        """What is shown of the chunk's section without it."""
        before = self.excerpts.get(chunk.anchor) or Excerpt(path=chunk.path, heading=chunk.heading, kind=chunk.kind, lines={})
        start = chunk.span.start
        return before.with_lines({}, blanks=range(start - chunk.n_blanks_before, start))

    def _put(self, anchor: str, excerpt: Excerpt) -> bool:
        """Show this much of a section if there is room for it."""
        text = _Text.of(render_excerpt(excerpt))
        if not self._has_room(anchor, text):
            return False
        self.excerpts[anchor], self.texts[anchor] = excerpt, text
        return True

    def _has_room(self, anchor: str, text: _Text) -> bool:
        whole = [text, *(other for key, other in self.texts.items() if key != anchor)]
        if self.heading:
            whole.append(_Text.of(self.heading))
        n_between = len(_BETWEEN) * (len(whole) - 1)
        if sum(each.quarters for each in whole) + n_between > self.budget.max_tokens * QUARTERS_PER_TOKEN:
            return False
        max_bytes = self.budget.max_bytes
        return max_bytes is None or sum(each.n_bytes for each in whole) + n_between <= max_bytes

    def _cut(self, chunk: ContextChunk, before: Excerpt, fresh: dict[int, str]) -> ContextLines | None:
        """Show as much of a chunk as there is room for: lines, or of the very first one a part of its first line."""
        ends = [line for line, text in fresh.items() if text.strip()]
        end = self._cut_lines(chunk.anchor, before, fresh, ends[:-1])
        if end is None and not self.texts and ends:
            end = self._cut_first_line(chunk.anchor, before, fresh, ends[0])
        return None if end is None else ContextLines(chunk=chunk, span=Span(chunk.span.start, end), reason=chunk.reason)

    def _cut_lines(self, anchor: str, before: Excerpt, fresh: dict[int, str], ends: Sequence[int]) -> int | None:
        def cut(n_ends: int) -> Excerpt:
            end = ends[n_ends - 1]
            return before.with_lines({line: text for line, text in fresh.items() if line <= end}, cut_after=end)

        n_ends = _find_most(len(ends), lambda n: self._has_room(anchor, _Text.of(render_excerpt(cut(n)))))
        return ends[n_ends - 1] if n_ends and self._put(anchor, cut(n_ends)) else None

    def _cut_first_line(self, anchor: str, before: Excerpt, fresh: dict[int, str], end: int) -> int | None:
        text = fresh[end]

        def cut(n_characters: int) -> Excerpt:
            lines = {line: "" for line in fresh if line < end}
            return before.with_lines({**lines, end: text[:n_characters].rstrip() + CUT_MARK})

        n_characters = _find_most(len(text) - 1, lambda n: self._has_room(anchor, _Text.of(render_excerpt(cut(n)))))
        blank = text.rfind(" ", 0, n_characters)
        n_characters = blank if blank > n_characters // 2 else n_characters
        return end if n_characters and self._put(anchor, cut(n_characters)) else None


def _find_most(n: int, fits: Callable[[int], bool]) -> int:
    """The most, up to `n`, that fits, supposing that less fits if more does; 0 if nothing does."""
    least, most = 0, n
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _place_lines(chunk: ContextChunk) -> dict[int, str]:
    """A chunk's lines by number, those that the label stands for empty."""
    texts = chunk.text.split("\n")
    if len(texts) != chunk.span.n_lines:
        # A chunk of a giant line: which of its span's lines these are cannot be told.
        texts = [" ".join(texts), *[""] * (chunk.span.n_lines - 1)]
    n_title_lines = count_title_lines(texts, chunk.heading[-1]) if chunk.heading else 0
    return {chunk.span.start + i: "" if i < n_title_lines else text for i, text in enumerate(texts)}


def _find_omitted(chunks: Sequence[ContextChunk], included: Sequence[ContextLines]) -> Iterator[ContextLines]:
    shown: dict[str, set[int]] = {}
    for part in included:
        shown.setdefault(part.chunk.anchor, set()).update(_lines(part.span))
    best: dict[str, ContextChunk] = {}
    missing: dict[str, set[int]] = {}
    for chunk in chunks:
        lines = set(_lines(chunk.span)) - shown.get(chunk.anchor, set())
        if lines:
            best.setdefault(chunk.anchor, chunk)
            missing.setdefault(chunk.anchor, set()).update(lines)
    for anchor, lines in missing.items():
        yield from (ContextLines(chunk=best[anchor], span=run, reason=NO_ROOM) for run in group_lines(lines))


def _lines(span: Span) -> range:
    return range(span.start, span.end + 1)
