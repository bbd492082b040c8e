"""Build a context: a block of markdown for a prompt that fills a budget and never exceeds it.

Chunks come best first and fill the budget unjoined, each line once; the block shows them in order
of note and line. The first chunk that does not fit is cut at a line end and closes the block. A
chunk of which not a single line fits is omitted, and the next is tried. The same chunks give the
same bytes.

`passages` decides which chunks come first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.core.model import QUARTERS_PER_TOKEN, Span, count_quarters, count_tokens
from memsyncd.core.notepath import show_path

# --- Filling a budget -----------------------------------------------------------------------------

CONTEXT_HEADING = "## Prior Knowledge"
NO_ROOM = "no room"
_BETWEEN = "\n\n"
# A line that closes a gap between lines shown can save so many characters or bytes at most: of the
# mark for the gap, the numbers in the label, and the lines that close fences.
MAX_SAVED = 250
# With so much room left a label and a line fit, but for very long ones: filling needs no estimate.
AMPLE_QUARTERS = 2000
# Unread chunks that are read at once, twice as many each time: mostly the block is full after few.
N_READ_FIRST = 12


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The room for a block, its heading and labels included.

    `max_bytes` counts UTF-8; None means no limit.
    """

    max_tokens: int
    max_bytes: int | None = None


class ContextChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that may go into a context; `reason` says why.

    `heading` is the breadcrumb of its section, `anchor` unique among sections. `n_blanks_before` is
    the number of blank lines right before it that belong to no chunk. Sections are shown in the
    order of their groups, places, paths and lines. The label shows `workspace`, and `relation` to
    other sections, if they are not empty.

    `unread` is 0, or the number in the index of a chunk whose text and blank lines are not read
    yet.
    """

    path: str
    anchor: str
    heading: tuple[str, ...]
    kind: str | None
    span: Span
    text: str
    reason: str
    n_blanks_before: int = 0
    place: tuple[int, float] = (0, 0.0)
    group: int = 0
    workspace: str = ""
    relation: str = ""
    unread: int = 0


# Returns unread chunks with their texts, in the same order.
ReadChunks = Callable[[Sequence[ContextChunk]], Sequence[ContextChunk]]


class ContextLines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a chunk that a block includes or omits; `reason` says why."""

    chunk: ContextChunk
    span: Span
    reason: str


class ContextBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A text for a prompt, empty if it includes nothing.

    `included` and `omitted` are best first, as the chunks were. Every line of every chunk is in one
    of the two.
    """

    text: str
    n_tokens: int
    included: tuple[ContextLines, ...]
    omitted: tuple[ContextLines, ...]


def build_context_block(
    chunks: Sequence[ContextChunk],
    budget: Budget,
    *,
    heading: str = CONTEXT_HEADING,
    read: ReadChunks = list,
) -> ContextBlock:
    """Fill the budget with `chunks`, best first, under a heading, which may be empty.

    `read` is called for unread chunks, when they are tried.
    """
    filling = _Filling(budget, heading)
    included = tuple(filling.include(chunks, read))
    text = filling.render()
    return ContextBlock(
        text=text,
        n_tokens=count_tokens(text),
        included=included,
        omitted=tuple(_omitted_lines(chunks, included)),
    )


class _Text(NamedTuple):
    """A text with its costs, counted once."""

    text: str
    quarters: int
    n_bytes: int

    @classmethod
    def of(cls, text: str) -> _Text:
        return cls(text, count_quarters(text), len(text.encode()))


class _Filling(msgspec.Struct):
    """A block while it is filled: the excerpt of each section, by anchor, and its rendered text."""

    budget: Budget
    heading: str
    excerpts: dict[str, Excerpt] = msgspec.field(default_factory=dict)
    texts: dict[str, _Text] = msgspec.field(default_factory=dict)
    # The cost of the block so far, with a separator after each text.
    quarters: int = 0
    n_bytes: int = 0

    def __post_init__(self) -> None:
        if self.heading:
            self._add(_Text.of(self.heading))

    def _add(self, text: _Text) -> None:
        self.quarters += text.quarters + len(_BETWEEN)
        self.n_bytes += text.n_bytes + len(_BETWEEN)

    def _remove(self, text: _Text) -> None:
        self.quarters -= text.quarters + len(_BETWEEN)
        self.n_bytes -= text.n_bytes + len(_BETWEEN)

    def include(self, chunks: Sequence[ContextChunk], read: ReadChunks) -> Iterator[ContextLines]:
        """Include the chunks that fit, in order, and yield their lines."""
        for chunk in self._read_possible(chunks, read):
            shown = self.excerpts[chunk.anchor].lines if chunk.anchor in self.excerpts else {}
            fresh = {line: text for line, text in _place_lines(chunk).items() if line not in shown}
            if not fresh or not self._may_fit(chunk, fresh):
                continue
            before = self._current_excerpt(chunk)
            if self._put(chunk.anchor, before.with_lines(fresh)):
                yield ContextLines(chunk=chunk, span=chunk.span, reason=chunk.reason)
            elif cut := self._cut(chunk, before, fresh):
                yield cut
                return

    def _read_possible(
        self, chunks: Sequence[ContextChunk], read: ReadChunks
    ) -> Iterator[ContextChunk]:
        """Yield the chunks for whose labels there is room, with their texts."""
        known: dict[int, ContextChunk] = {}
        n_at_once = N_READ_FIRST
        for at, chunk in enumerate(chunks):
            if not self._may_fit_label(chunk):
                continue
            if chunk.unread and at not in known:
                unread = (i for i in range(at, len(chunks)) if chunks[i].unread)
                places = [
                    *islice(filter(lambda i: self._may_fit_label(chunks[i]), unread), n_at_once)
                ]
                known = dict(zip(places, read([chunks[i] for i in places]), strict=True))
                n_at_once *= 2
            yield known.get(at, chunk)

    def render(self) -> str:
        if not self.texts:
            return ""
        in_order = sorted(self.excerpts, key=lambda anchor: self.excerpts[anchor].order)
        texts = (self.texts[anchor].text for anchor in in_order if anchor in self.texts)
        return _BETWEEN.join(filter(None, (self.heading, *texts)))

    def _current_excerpt(self, chunk: ContextChunk) -> Excerpt:
        """The excerpt of the chunk's section without the chunk."""
        before = self.excerpts.get(chunk.anchor) or Excerpt(chunk, {})
        start = chunk.span.start
        return before.with_lines({}, blanks=range(start - chunk.n_blanks_before, start))

    @property
    def _is_ample(self) -> bool:
        left = self.budget.max_tokens * QUARTERS_PER_TOKEN - self.quarters
        return not self.texts or left >= AMPLE_QUARTERS

    def _may_fit_label(self, chunk: ContextChunk) -> bool:
        """False if there is no room for the label of a chunk's section, which needs no text."""
        if self._is_ample or chunk.anchor in self.texts:
            return True
        label = _render_label(chunk, [Span(chunk.span.start, chunk.span.start)])
        return self._has_room(chunk.anchor, _Text.of(label))

    def _may_fit(self, chunk: ContextChunk, fresh: Mapping[int, str]) -> bool:
        """False if not even the first line of a chunk fits: then no cut of the chunk does.

        This passes over most chunks once the block is full, without rendering them.
        """
        line = next((line for line, text in fresh.items() if text.strip()), None)
        if self._is_ample or line is None:
            return True
        text = fresh[line]
        n_saved = MAX_SAVED
        if chunk.anchor not in self.texts:
            text, n_saved = render_excerpt(Excerpt(chunk, {line: text})), 0
        least, max_bytes = _Text.of(text), self.budget.max_bytes
        max_quarters = self.budget.max_tokens * QUARTERS_PER_TOKEN
        return self.quarters + least.quarters <= max_quarters + n_saved and (
            max_bytes is None or self.n_bytes + least.n_bytes <= max_bytes + n_saved
        )

    def _put(self, anchor: str, excerpt: Excerpt) -> bool:
        """Show this excerpt of a section if there is room for it.

        The label of a heading alone is left out where that of a section beneath it repeats it.
        """
        if excerpt.is_label and any(
            excerpt.is_repeated_by(self.excerpts[one]) for one in self.texts
        ):
            self.excerpts[anchor] = excerpt
            return True
        text = _Text.of(render_excerpt(excerpt))
        if not self._has_room(anchor, text):
            return False
        if anchor in self.texts:
            self._remove(self.texts[anchor])
        self._add(text)
        self.excerpts[anchor], self.texts[anchor] = excerpt, text
        above = anchor.rpartition("/")[0]
        while "#" in above:
            label = self.excerpts[above] if above in self.texts else None
            if label and label.is_label and label.is_repeated_by(excerpt):
                self._remove(self.texts.pop(above))
            above = above.rpartition("/")[0]
        return True

    def _has_room(self, anchor: str, text: _Text) -> bool:
        quarters, n_bytes = self.quarters + text.quarters, self.n_bytes + text.n_bytes
        if anchor in self.texts:
            quarters -= self.texts[anchor].quarters + len(_BETWEEN)
            n_bytes -= self.texts[anchor].n_bytes + len(_BETWEEN)
        max_bytes = self.budget.max_bytes
        return quarters <= self.budget.max_tokens * QUARTERS_PER_TOKEN and (
            max_bytes is None or n_bytes <= max_bytes
        )

    def _cut(
        self, chunk: ContextChunk, before: Excerpt, fresh: dict[int, str]
    ) -> ContextLines | None:
        """Show as many lines of a chunk as there is room for; of the very first chunk, if need be,
        a part of its first line.
        """
        ends = [line for line, text in fresh.items() if text.strip()]
        end = self._cut_lines(chunk.anchor, before, fresh, ends[:-1])
        if end is None and not self.texts and ends:
            end = self._cut_first_line(chunk.anchor, before, fresh, ends[0])
        return (
            None
            if end is None
            else ContextLines(chunk=chunk, span=Span(chunk.span.start, end), reason=chunk.reason)
        )

    def _cut_lines(
        self, anchor: str, before: Excerpt, fresh: dict[int, str], ends: Sequence[int]
    ) -> int | None:
        def cut(n_ends: int) -> Excerpt:
            end = ends[n_ends - 1]
            return before.with_lines(
                {line: text for line, text in fresh.items() if line <= end}, cut_after=end
            )

        n_ends = _largest_fitting(
            len(ends), lambda n: self._has_room(anchor, _Text.of(render_excerpt(cut(n))))
        )
        return ends[n_ends - 1] if n_ends and self._put(anchor, cut(n_ends)) else None

    def _cut_first_line(
        self, anchor: str, before: Excerpt, fresh: dict[int, str], end: int
    ) -> int | None:
        text = fresh[end]

        def cut(n_characters: int) -> Excerpt:
            lines = {line: "" for line in fresh if line < end}
            return before.with_lines({**lines, end: text[:n_characters].rstrip() + CUT_MARK})

        n_characters = _largest_fitting(
            len(text) - 1, lambda n: self._has_room(anchor, _Text.of(render_excerpt(cut(n))))
        )
        blank = text.rfind(" ", 0, n_characters)
        n_characters = blank if blank > n_characters // 2 else n_characters
        return end if n_characters and self._put(anchor, cut(n_characters)) else None


def _largest_fitting(n: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `n` that fits, provided that every smaller number fits if a larger
    one does; 0 if none fits.
    """
    least, most = 0, n
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _place_lines(chunk: ContextChunk) -> dict[int, str]:
    """A chunk's lines by number; lines that the label repeats are empty."""
    texts = chunk.text.split("\n")
    if len(texts) != chunk.span.n_lines:
        # In a chunk of a giant line the text does not determine which lines of the span these are.
        texts = [" ".join(texts), *[""] * (chunk.span.n_lines - 1)]
    n_title_lines = count_title_lines(texts, chunk.heading[-1]) if chunk.heading else 0
    return {chunk.span.start + i: "" if i < n_title_lines else text for i, text in enumerate(texts)}


def _omitted_lines(
    chunks: Sequence[ContextChunk], included: Sequence[ContextLines]
) -> Iterator[ContextLines]:
    shown: dict[str, list[Span]] = {}
    for part in included:
        shown.setdefault(part.chunk.anchor, []).append(part.span)
    best: dict[str, ContextChunk] = {}
    missing: dict[str, list[Span]] = {}
    for chunk in chunks:
        others = shown.get(chunk.anchor)
        spans = _subtract(chunk.span, others) if others else [chunk.span]
        if spans:
            best.setdefault(chunk.anchor, chunk)
            missing.setdefault(chunk.anchor, []).extend(spans)
    for anchor, spans in missing.items():
        for span in _join(spans) if len(spans) > 1 else spans:
            yield ContextLines(chunk=best[anchor], span=span, reason=NO_ROOM)


def _subtract(span: Span, others: Iterable[Span]) -> list[Span]:
    """The lines of a span that are in none of the others."""
    left: list[Span] = []
    start = span.start
    for other in sorted(others, key=lambda one: one.start):
        if other.start > span.end:
            break
        if start < other.start:
            left.append(Span(start, other.start - 1))
        start = max(start, other.end + 1)
    if start == span.start:
        return [span]
    return [*left, Span(start, span.end)] if start <= span.end else left


def _join(spans: Iterable[Span]) -> list[Span]:
    """The lines of all spans, as runs of consecutive lines."""
    runs: list[Span] = []
    for span in sorted(spans, key=lambda one: one.start):
        if runs and span.start <= runs[-1].end + 1:
            runs[-1] = runs[-1].join(span)
        else:
            runs.append(span)
    return runs


# --- Excerpts of sections -------------------------------------------------------------------------

CUT_MARK = "…"
_COMMENT = re.compile(r"\s*<!--\s*memory:.*-->\s*")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_FENCE = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)*(?P<mark>`{3,}|~{3,})(?P<rest>.*)", re.DOTALL)


class Excerpt(msgspec.Struct, frozen=True):
    """The shown lines of a section, by number. `chunk` is one of its chunks, for the label.

    `blanks` are lines known to be blank, which leave no gap when omitted; `cut_after` is the line
    after which the excerpt was cut.
    """

    chunk: ContextChunk
    lines: Mapping[int, str]
    blanks: frozenset[int] = frozenset()
    cut_after: int | None = None

    @property
    def order(self) -> tuple[int, tuple[int, float], str, int]:
        chunk = self.chunk
        return chunk.group, chunk.place, chunk.path, min(self.lines)

    @property
    def is_label(self) -> bool:
        """True if no line says more than the label: a heading alone."""
        return not any(map(str.strip, self.lines.values()))

    def is_repeated_by(self, other: Excerpt) -> bool:
        """True if the label of another section, beneath this one, says all of this label."""
        own = self.chunk
        is_beneath = other.chunk.anchor.startswith(f"{own.anchor}/")
        return is_beneath and own.kind in (None, other.chunk.kind)

    def with_lines(
        self, lines: Mapping[int, str], *, blanks: Iterable[int] = (), cut_after: int | None = None
    ) -> Excerpt:
        return replace(
            self,
            lines={**self.lines, **lines},
            blanks=self.blanks.union(blanks),
            cut_after=cut_after,
        )


def render_excerpt(excerpt: Excerpt) -> str:
    """A label with path and lines, then the lines, without an end of line after the last.

    Omitted lines leave a mark, and the label names every line shown. The label states heading and
    `memory` comment, so the lines do not repeat them. A fence that a run of lines leaves open is
    closed, so that no later text is taken for code.
    """
    runs = group_lines(excerpt.lines, excerpt.blanks)
    texts = [_render_label(excerpt.chunk, runs)]
    for i, run in enumerate(runs):
        if i and texts[-1] != CUT_MARK:
            texts.append(CUT_MARK)
        texts += _render_run(excerpt, run)
    return "\n".join(texts)


def group_lines(lines: Iterable[int], blanks: frozenset[int]) -> list[Span]:
    """Line numbers as spans of consecutive lines; lines with only blank lines between them count as
    consecutive.
    """
    runs: list[Span] = []
    start = end = 0
    for line in sorted(lines):
        if not start:
            start = line
        elif line > end + 1 and not blanks.issuperset(range(end + 1, line)):
            runs.append(Span(start, end))
            start = line
        end = line
    return [*runs, Span(start, end)] if start else runs


def count_title_lines(lines: Sequence[str], heading: str) -> int:
    """The number of lines at the beginning of a section's text that a label with this heading
    repeats.
    """
    if not heading or _letters(lines[0]) != _letters(heading):
        return 0
    if lines[0].lstrip().startswith("#"):
        n_lines = 1
    elif len(lines) > 1 and _UNDERLINE.fullmatch(lines[1]):
        n_lines = 2
    else:
        return 0
    while n_lines < len(lines) and (
        not lines[n_lines].strip() or _COMMENT.fullmatch(lines[n_lines])
    ):
        n_lines += 1
    return n_lines


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _render_label(of: ContextChunk, runs: Sequence[Span]) -> str:
    words = ["###"]
    if name := " ".join(" › ".join(of.heading).split()):
        words.append(name)
    if of.kind:
        words.append(f"({show_path(of.kind)})")
    if len(words) > 1:
        words.append("·")
    words += [f"[{show_path(one)}]" for one in (of.workspace, of.relation) if one]
    spans = [str(run.start) if run.n_lines == 1 else f"{run.start}-{run.end}" for run in runs]
    return f"{' '.join(words)} {show_path(of.path)}:{', '.join(spans)}"


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
    """The line that closes a fence left open at the end of these lines, if there is one."""
    mark = ""
    for found in filter(None, map(_FENCE.fullmatch, texts)):
        if not mark and "`" not in found["rest"]:
            mark = found["mark"]
        elif mark and found["mark"].startswith(mark) and not found["rest"].strip():
            mark = ""
    return [mark] if mark else []
