"""Build a context: a block of markdown for a prompt that fills a budget and never exceeds it.

The best chunks come first. They fill the budget without being joined, each line once; the block
shows them in order of note and line. The first chunk that does not fit is cut at a line end and
closes the block. If not even its first line fits, the chunk is omitted, and the next is tried. The
same chunks give the same bytes.

Chunks may be limited to a share of the budget: they fill the block up to that share, and get more
only after all others have had their turn. The first chunk of each share may be cut within a line,
and its label may be shortened. So a note of one long line always has a part in the block, and
leaves room for others; the very first chunk is always shown.

A chunk whose heading and text are in the block already is omitted; `ContextLines.same_as` names the
section that says the same. So is a chunk of which a memory of the block is a promotion, or has the
whole text. A conflict copy of a note comes after the note itself.

Chunks may belong to parts, whose headings the block shows.

`passages` decides which chunks come first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, starmap, zip_longest
from operator import eq
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.core.model import QUARTERS_PER_TOKEN, Span, count_quarters, count_tokens
from memsyncd.core.paths import find_copied, show_path
from memsyncd.headings import list_letters, name_section
from memsyncd.operations.sections import SHORT_MARK, mark_warning

# --- Filling a budget -----------------------------------------------------------------------------

CONTEXT_HEADING = "## Prior Knowledge"
NO_ROOM, SAME = "no room", "the same as"
_BETWEEN = "\n\n"
# The most characters or bytes that a line can save when it closes a gap between the lines of an
# excerpt: the mark for the gap, numbers in the label, and lines that close fences.
MAX_SAVED = 250
# With this much room left, a label and a line fit unless they are very long: no estimate is needed.
AMPLE_QUARTERS = 2000
# If fewer characters of a line than this fit below its label, the label is shortened: the path, and
# the heading or workspace, to this part of the budget each. If still fewer characters fit, the line
# is omitted unless the block is empty without it.
LEAST_CHARACTERS = 40
LABEL_SHARE = 6
# The number of unread chunks that are read at first; it doubles each time, because most blocks are
# full after few chunks.
N_READ_FIRST = 12


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The room for a block, its heading and labels included.

    `max_bytes` counts UTF-8; None means no limit.
    """

    max_tokens: int
    max_bytes: int | None = None


class MemoryFacts(NamedTuple):
    """The facts about a whole section that tells a fact: the words of its label behind the heading,
    the anchor of the section that it was promoted from, and whether it is shown even if other
    sections mention it, because somebody works on it.
    """

    marks: str = ""
    source: str = ""
    is_work: bool = False


class ContextChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that may go into a context; `reason` says why.

    `heading` is the breadcrumb of its section, `anchor` unique among sections. The label shows
    `note`, the stated title of the note, unless the path does, and `labels`, properties that the
    question names. `n_blanks_before` is the number of
    blank lines right before it that belong to no chunk. Sections are shown in the
    order of their groups, places, paths and lines. The label shows `workspace`, the `relation` to
    other sections, and the ISO `day` that the section states, if they are not empty. `part` is the
    heading of the part of the block, of which a group may have several; empty for none. `memory` is
    None for a piece of a section; it has the day, too.

    `share` limits the chunk and the chunks before it to a part of the budget, above 0 and up to 1.

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
    part: str = ""
    memory: MemoryFacts | None = None
    share: float = 1.0
    unread: int = 0
    day: str = ""
    note: str = ""
    labels: tuple[str, ...] = ()


# Returns unread chunks with their texts, in the same order.
ReadChunks = Callable[[Sequence[ContextChunk]], Sequence[ContextChunk]]


class ContextLines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a chunk that a block includes or omits; `reason` says why. `same_as` is the anchor
    of the section that says the same, if the lines are omitted because of it.
    """

    chunk: ContextChunk
    span: Span
    reason: str
    same_as: str = ""


class ContextBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A text for a prompt, empty if it includes nothing.

    `included` and `omitted` have the order of the chunks, the best first. Every line of every chunk
    is in one of the two.
    """

    text: str
    n_tokens: int
    included: tuple[ContextLines, ...]
    omitted: tuple[ContextLines, ...]


def build_block(
    chunks: Sequence[ContextChunk],
    budget: Budget,
    *,
    heading: str = "",
    news: str = "",
    is_marked: bool = True,
    read: ReadChunks = list,
    n_added: int = 0,
) -> ContextBlock:
    """Build a block, with a mark if it needs one. `n_added` chunks come before the first chunk that
    answers the question. This chunk is shown even if the added chunks, the heading or the whole
    mark must be left out for it. `news` is always shown, below the mark, even alone.
    """
    chunks = put_copies_behind(chunks)
    best = chunks[n_added] if n_added < len(chunks) else None
    orders = [chunks]
    if best is not None and (n_added or best.share < 1):
        others = (*chunks[:n_added], *chunks[n_added + 1 :])
        orders.append([replace(best, share=1.0), *others])

    def is_good(block: ContextBlock) -> bool:
        return bool(block.text) if best is None else _shows(block, best)

    def build(*marks: str) -> ContextBlock:
        tries = (
            build_context_block(
                order,
                budget,
                heading=_BETWEEN.join(filter(None, (first_line, mark, news))),
                read=read,
                has_news=bool(news),
            )
            for mark in marks
            for first_line in dict.fromkeys((" ".join(heading.split()), ""))
            for order in orders
        )
        first = next(tries)
        if is_good(first):
            return first
        return next(filter(is_good, tries), first)

    block = build("")
    marks = _list_marks(block.text) if is_marked else []
    # The mark takes its room from the notes, so that the whole keeps within the budget.
    return build(*marks) if marks else block


def _list_marks(text: str) -> list[str]:
    """Return the lines that may mark a block with this text, the preferred line first; the last is
    for a block without room for the others. Empty if the text needs no mark.
    """
    # The patterns are compiled at their first use.
    from memsyncd.core.guard.injection import describe_injections

    warning = describe_injections(text)
    return [mark_warning(warning, "a note quoted below"), SHORT_MARK] if warning else []


def _shows(block: ContextBlock, chunk: ContextChunk) -> bool:
    """True if a block has text of a chunk, in its section or in a section that says the same."""
    place = (chunk.anchor, chunk.span.start)
    said = [*block.included, *(part for part in block.omitted if part.same_as)]
    return any((lines.chunk.anchor, lines.span.start) == place for lines in said)


def build_context_block(
    chunks: Sequence[ContextChunk],
    budget: Budget,
    *,
    heading: str = CONTEXT_HEADING,
    read: ReadChunks = list,
    has_news: bool = False,
) -> ContextBlock:
    """Fill the budget with `chunks`, best first, under a heading, which may be empty.

    `read` is called for unread chunks, when they are tried. With `has_news`, the heading alone is a
    block, if nothing else is.
    """
    chunks = put_copies_behind(chunks)
    filling = _Filling(budget, heading, chunks, read)
    filling.fill()
    text = filling.render() or (heading if has_news and filling.has_room else "")
    included = tuple(filling.included.values())
    return ContextBlock(
        text=text,
        n_tokens=count_tokens(text),
        included=included,
        omitted=tuple(_omitted_lines(chunks, included, filling.same)),
    )


def put_copies_behind(chunks: Sequence[ContextChunk]) -> Sequence[ContextChunk]:
    """Return the chunks, each chunk of a conflict copy behind the chunk of the note itself that
    has the same heading and lines, if there is one.
    """
    copied = {at: path for at, chunk in enumerate(chunks) if (path := find_copied(chunk.path))}
    if not copied:
        return chunks
    ordered = [*chunks]
    places = {(chunk.path, chunk.heading, chunk.span): at for at, chunk in enumerate(chunks)}
    for at, path in copied.items():
        own = places.pop((path, chunks[at].heading, chunks[at].span), -1)
        if own > at:
            copy, note = ordered[at], ordered[own]
            ordered[at] = replace(note, share=copy.share)
            ordered[own] = replace(copy, share=note.share)
    return ordered


class _Text(NamedTuple):
    """A text with its costs, counted once."""

    text: str
    quarters: int
    n_bytes: int

    @classmethod
    def of(cls, text: str) -> _Text:
        return cls(text, count_quarters(text), len(text.encode()))


_NO_TEXT = _Text("", 0, 0)
# The content of a chunk: its heading, and its lines without the heading.
_Said = tuple[tuple[str, ...], tuple[str, ...]]


# The line that names the source of a promotion.
SOURCE_LINE = re.compile(r"^[ \t]*[-*+] discovered_from \[\[[^\]\n]*\]\][ \t]*$", re.MULTILINE)
# A shorter text may be in another one by chance.
LEAST_TOLD_WORDS = 4
_CITATION = re.compile(r"\(\S+:\d+\)\s*$")
_ANY_WORD = re.compile(r"\w+")


class Told:
    """The facts that the memories of a block tell."""

    def __init__(self) -> None:
        self._promotions: dict[str, str] = {}
        self._words: dict[str, str] = {}

    def find(self, chunk: ContextChunk, lines: Sequence[str]) -> str:
        """Return the anchor of the memory that is a promotion of a chunk's section, or has all of
        its lines; empty if there is none. Work is shown even if other memories mention it.
        """
        if chunk.anchor in self._promotions:
            return self._promotions[chunk.anchor]
        if not self._words or (chunk.memory and chunk.memory.is_work):
            return ""
        # Each line of a summary is a fact, with a citation behind it.
        facts = lines if chunk.kind == "summary" else [" ".join(lines)]
        texts = [_list_all_words(_CITATION.sub("", fact)) for fact in facts]
        if sum(text.count(" ") - 1 for text in texts) < LEAST_TOLD_WORDS:
            return ""
        tellers = [
            next((own for own, words in self._words.items() if text in words), "") for text in texts
        ]
        return tellers[0] if all(tellers) else ""

    def add(self, chunk: ContextChunk, text: str) -> None:
        """Add a memory, and its text as the block shows it."""
        if chunk.memory and chunk.memory.source:
            self._promotions[chunk.memory.source] = chunk.anchor
        self._words[chunk.anchor] = _list_all_words(text)


def _list_all_words(text: str) -> str:
    """The words of a text, in lower case, with a blank before and behind each."""
    return f" {' '.join(_ANY_WORD.findall(text.lower()))} "


class _Filling(msgspec.Struct):
    """A block while it is filled: the excerpt of each section, by anchor, and its rendered text.

    By the number of a chunk, `included` has its lines that the block shows, and `same` the anchor
    of the section that says the same.
    """

    budget: Budget
    heading: str
    chunks: Sequence[ContextChunk]
    read: ReadChunks
    excerpts: dict[str, Excerpt] = msgspec.field(default_factory=dict)
    texts: dict[str, _Text] = msgspec.field(default_factory=dict)
    included: dict[int, ContextLines] = msgspec.field(default_factory=dict)
    same: dict[int, str] = msgspec.field(default_factory=dict)
    is_closed: bool = False
    share: float = 1.0
    # The present cost of the block, with a separator after each text, and its present limit.
    quarters: int = 0
    n_bytes: int = 0
    max_quarters: int = 0
    max_bytes: int | None = None
    # The numbers of the chunks to cut rather than omit, and of the chunks whose first line is cut;
    # the anchor of each content in the block; the chunks that were read.
    _needed: set[int] = msgspec.field(default_factory=set)
    _cut_within: set[int] = msgspec.field(default_factory=set)
    _said: dict[_Said, str] = msgspec.field(default_factory=dict)
    _known: dict[int, ContextChunk] = msgspec.field(default_factory=dict)
    _parts: set[str] = msgspec.field(default_factory=set)
    _told: Told = msgspec.field(default_factory=Told)
    _n_at_once: int = 0
    _top: _Text = _NO_TEXT

    def __post_init__(self) -> None:
        self._n_at_once = N_READ_FIRST
        if self.heading:
            self._top = _Text.of(f"{self.heading}{_BETWEEN}")
            self._add(_Text.of(self.heading))

    def _add(self, text: _Text) -> None:
        self.quarters += text.quarters + len(_BETWEEN)
        self.n_bytes += text.n_bytes + len(_BETWEEN)

    def _remove(self, text: _Text) -> None:
        self.quarters -= text.quarters + len(_BETWEEN)
        self.n_bytes -= text.n_bytes + len(_BETWEEN)

    def fill(self) -> None:
        """Include the chunks that fit, in order."""
        later: list[int] = []
        numbers = range(len(self.chunks))
        for share, group in groupby(numbers, key=lambda at: self.chunks[at].share):
            self._limit(share)
            of_share = [*group]
            self._needed.add(of_share[0])
            later += self._fill_share(of_share, is_bounded=share < 1)
        self._limit(1.0)
        if later and not self.is_closed:
            self._fill_share(later, is_bounded=False)

    def _limit(self, share: float) -> None:
        """Let the block be no larger than its heading and a share of the rest of the budget."""

        def limit(whole: int, top: int) -> int:
            return min(whole, top + int(share * max(0, whole - top)))

        self.share, whole = share, self.budget.max_bytes
        self.max_quarters = limit(self.budget.max_tokens * QUARTERS_PER_TOKEN, self._top.quarters)
        self.max_bytes = None if whole is None else limit(whole, self._top.n_bytes)

    def _fill_share(self, numbers: Sequence[int], *, is_bounded: bool) -> Sequence[int]:
        """Include these chunks as far as they fit; return the chunks to retry with more room."""
        for position, at in enumerate(numbers):
            is_needed = at in self._needed
            if is_needed or self._may_fit_label(self.chunks[at]):
                chunk = self._read_chunk(at, numbers[position:])
                fresh = self._find_fresh(at, chunk)
                if not fresh:
                    continue
                is_possible = is_needed or self._may_fit(chunk, fresh)
                if is_possible and self._include(at, chunk, fresh, is_bounded=is_bounded):
                    continue
            if is_bounded:
                return numbers[position:]
            if self.is_closed:
                break
        return ()

    def _find_fresh(self, at: int, chunk: ContextChunk) -> dict[int, str]:
        """Return the lines of a chunk that the block does not show yet, by number; none if it says
        the same as another section.
        """
        placed = _place_lines(chunk)
        said = (chunk.heading, tuple(filter(None, map(str.strip, placed.values()))))
        anchor = self._said.get(said, chunk.anchor)
        if anchor == chunk.anchor:
            anchor = self._told.find(chunk, said[1]) or anchor
        if anchor != chunk.anchor and any(said):
            self.same[at] = anchor
            return {}
        included_lines = self.excerpts[chunk.anchor].lines if chunk.anchor in self.excerpts else {}
        fresh = {line: text for line, text in placed.items() if line not in included_lines}
        if not fresh:
            self._said.setdefault(said, chunk.anchor)
        return placed if at in self._cut_within else fresh

    def _include(
        self, at: int, chunk: ContextChunk, fresh: dict[int, str], *, is_bounded: bool
    ) -> bool:
        """Include lines of a chunk; return True if all of them fit."""
        before = self._current_excerpt(chunk)
        is_whole = self._put(chunk.anchor, before.with_lines(fresh))
        end: int | None = chunk.span.end
        if not is_whole:
            is_within = at in self._needed or not self.texts
            end = None
            if is_within or not is_bounded:
                end = self._cut(at, chunk, before, fresh, is_within=is_within)
        if end is not None:
            self.included[at] = ContextLines(
                chunk=replace(chunk, share=self.share),
                span=Span(chunk.span.start, end),
                reason=chunk.reason,
            )
            said = tuple(filter(None, map(str.strip, _place_lines(chunk).values())))
            self._said.setdefault((chunk.heading, said), chunk.anchor)
            if chunk.memory and chunk.anchor in self.texts:
                self._told.add(chunk, self.texts[chunk.anchor].text)
            self.is_closed = not is_whole and not is_bounded
        return is_whole

    def _read_chunk(self, at: int, following: Sequence[int]) -> ContextChunk:
        """Return a chunk with its text; if it is unread, read the texts of some following chunks,
        too.
        """
        chunk = self.chunks[at]
        if chunk.unread and at not in self._known:
            unread = (
                number
                for number in following
                if self.chunks[number].unread
                and number not in self._known
                and (number == at or self._may_fit_label(self.chunks[number]))
            )
            places = [*islice(unread, self._n_at_once)]
            read = self.read([self.chunks[place] for place in places])
            self._known.update(zip(places, read, strict=True))
            self._n_at_once *= 2
        return self._known.get(at, chunk)

    def render(self) -> str:
        if not self.texts:
            return ""
        every = sorted(self.excerpts, key=lambda anchor: self.excerpts[anchor].order)
        in_order = filter(self.texts.__contains__, every)
        texts = [self.heading]
        for part, anchors in groupby(in_order, key=lambda anchor: self.excerpts[anchor].chunk.part):
            texts += [part, *(self.texts[anchor].text for anchor in anchors)]
        return _BETWEEN.join(filter(None, texts))

    @property
    def has_room(self) -> bool:
        """True if the block is within its budget."""
        return self.quarters <= self.max_quarters + len(_BETWEEN) and (
            self.max_bytes is None or self.n_bytes <= self.max_bytes + len(_BETWEEN)
        )

    def _current_excerpt(self, chunk: ContextChunk) -> Excerpt:
        """The excerpt of the chunk's section without the chunk."""
        before = self.excerpts.get(chunk.anchor) or Excerpt(chunk, {})
        start = chunk.span.start
        return before.with_lines({}, blanks=range(start - chunk.n_blanks_before, start))

    @property
    def _is_ample(self) -> bool:
        return not self.texts or self.max_quarters - self.quarters >= AMPLE_QUARTERS

    def _may_fit_label(self, chunk: ContextChunk) -> bool:
        """False if there is no room for the label of a chunk's section, which needs no text."""
        if self._is_ample or chunk.anchor in self.texts:
            return True
        label = _render_label(chunk, [Span(chunk.span.start, chunk.span.start)])
        return self._has_room(chunk, _Text.of(label))

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
        least = _Text.of(text)
        return self.quarters + least.quarters <= self.max_quarters + n_saved and (
            self.max_bytes is None or self.n_bytes + least.n_bytes <= self.max_bytes + n_saved
        )

    def _put(self, anchor: str, excerpt: Excerpt) -> bool:
        """Show this excerpt of a section if there is room for it.

        An excerpt that is only the label of a heading is left out if the label of a section beneath
        repeats it.
        """
        if excerpt.is_label and any(
            excerpt.is_repeated_by(self.excerpts[other]) for other in self.texts
        ):
            self.excerpts[anchor] = excerpt
            return True
        text = _Text.of(render_excerpt(excerpt))
        if not self._has_room(excerpt.chunk, text):
            return False
        if anchor in self.texts:
            self._remove(self.texts[anchor])
        self._add(text)
        if part := self._new_part(excerpt.chunk):
            self._parts.add(part.text)
            self._add(part)
        self.excerpts[anchor], self.texts[anchor] = excerpt, text
        above = anchor.rpartition("/")[0]
        while "#" in above:
            label = self.excerpts[above] if above in self.texts else None
            if label and label.is_label and label.is_repeated_by(excerpt):
                self._remove(self.texts.pop(above))
            above = above.rpartition("/")[0]
        return True

    def _new_part(self, chunk: ContextChunk) -> _Text | None:
        """The heading of a chunk's part, if the block does not have it yet."""
        return _Text.of(chunk.part) if chunk.part and chunk.part not in self._parts else None

    def _has_room(self, chunk: ContextChunk, text: _Text) -> bool:
        """True if there is room for this text of a chunk's section."""
        quarters, n_bytes = self.quarters + text.quarters, self.n_bytes + text.n_bytes
        if before := self.texts.get(chunk.anchor):
            quarters -= before.quarters + len(_BETWEEN)
            n_bytes -= before.n_bytes + len(_BETWEEN)
        if part := self._new_part(chunk):
            quarters += part.quarters + len(_BETWEEN)
            n_bytes += part.n_bytes + len(_BETWEEN)
        return quarters <= self.max_quarters and (
            self.max_bytes is None or n_bytes <= self.max_bytes
        )

    def _cut(
        self,
        at: int,
        chunk: ContextChunk,
        before: Excerpt,
        fresh: dict[int, str],
        *,
        is_within: bool,
    ) -> int | None:
        """Show as many lines of a chunk as there is room for; with `is_within`, a part of the first
        line if the whole does not fit. Return the last line, None for none.
        """
        ends = [line for line, text in fresh.items() if text.strip()]
        end = self._cut_lines(chunk.anchor, before, fresh, ends[:-1])
        if end is None and is_within:
            if not ends:  # the label of a heading alone is too long
                short = replace(before.with_lines(fresh), label_limits=self._label_limits)
                return chunk.span.end if self._put(chunk.anchor, short) else None
            end = self._cut_first_line(chunk.anchor, before, fresh, ends[0])
            if end is not None:
                self._cut_within.add(at)
        return end

    @property
    def _label_limits(self) -> tuple[int, int]:
        max_quarters = self.budget.max_tokens * QUARTERS_PER_TOKEN
        max_bytes = self.budget.max_bytes or max_quarters
        return max_quarters // LABEL_SHARE, max_bytes // LABEL_SHARE

    def _cut_lines(
        self, anchor: str, before: Excerpt, fresh: dict[int, str], ends: Sequence[int]
    ) -> int | None:
        def cut(n_ends: int) -> Excerpt:
            end = ends[n_ends - 1]
            return before.with_lines(
                {line: text for line, text in fresh.items() if line <= end}, cut_after=end
            )

        n_ends = _largest_fitting(
            len(ends), lambda n: self._has_room(before.chunk, _Text.of(render_excerpt(cut(n))))
        )
        return ends[n_ends - 1] if n_ends and self._put(anchor, cut(n_ends)) else None

    def _cut_first_line(
        self, anchor: str, before: Excerpt, fresh: dict[int, str], end: int
    ) -> int | None:
        text = fresh[end]
        lines = {line: "" for line in fresh if line < end}

        def cut(n_characters: int, label: Excerpt) -> Excerpt:
            return label.with_lines({**lines, end: text[:n_characters].rstrip() + CUT_MARK})

        n_characters = 0
        for label in (before, replace(before, label_limits=self._label_limits)):
            n_characters = _largest_fitting(
                len(text) - 1,
                lambda n, label=label: self._has_room(  # type: ignore[misc]
                    label.chunk, _Text.of(render_excerpt(cut(n, label)))
                ),
            )
            if n_characters >= min(len(text) - 1, LEAST_CHARACTERS):
                break
        else:
            if self.texts:  # there is better use for the room
                return None
        n_characters = _find_word_end(text, n_characters)
        return end if n_characters and self._put(anchor, cut(n_characters, label)) else None


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
    chunks: Sequence[ContextChunk], included: Sequence[ContextLines], same: Mapping[int, str]
) -> Iterator[ContextLines]:
    """Yield the lines of the chunks that are not included, each once: first lines without room,
    then the lines of chunks that say the `same` as a section.
    """
    taken: dict[str, list[Span]] = {}
    for part in included:
        taken.setdefault(part.chunk.anchor, []).append(part.span)
    repeated = list(_find_missing(chunks, taken, same))
    for part in repeated:
        taken.setdefault(part.chunk.anchor, []).append(part.span)
    others = {at: "" for at in range(len(chunks)) if at not in same}
    yield from _find_missing(chunks, taken, others)
    yield from repeated


def _find_missing(
    chunks: Sequence[ContextChunk], taken: Mapping[str, Sequence[Span]], numbers: Mapping[int, str]
) -> Iterator[ContextLines]:
    """Yield the lines, not taken yet, of the chunks with these numbers; with the section that says
    the same.
    """
    best: dict[tuple[str, str], ContextChunk] = {}
    missing: dict[tuple[str, str], list[Span]] = {}
    for at, same_as in numbers.items():
        chunk = chunks[at]
        others = taken.get(chunk.anchor)
        spans = _subtract(chunk.span, others) if others else [chunk.span]
        if spans:
            best.setdefault((chunk.anchor, same_as), chunk)
            missing.setdefault((chunk.anchor, same_as), []).extend(spans)
    for key, spans in missing.items():
        reason = f"{SAME} {key[1]}" if key[1] else NO_ROOM
        for span in _join(spans) if len(spans) > 1 else spans:
            yield ContextLines(chunk=best[key], span=span, reason=reason, same_as=key[1])


def _subtract(span: Span, others: Iterable[Span]) -> list[Span]:
    """The lines of a span that are in none of the others."""
    left: list[Span] = []
    start = span.start
    for other in sorted(others, key=lambda own: own.start):
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
    for span in sorted(spans, key=lambda own: own.start):
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
    after which the excerpt was cut. `label_limits` are the most quarters of tokens and the most
    bytes in the label, for the heading and for the path each.
    """

    chunk: ContextChunk
    lines: Mapping[int, str]
    blanks: frozenset[int] = frozenset()
    cut_after: int | None = None
    label_limits: tuple[int, int] | None = None

    @property
    def order(self) -> tuple[int, str, tuple[int, float], str, int]:
        chunk = self.chunk
        return chunk.group, chunk.part, chunk.place, chunk.path, min(self.lines)

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
    texts = [_render_label(excerpt.chunk, runs, excerpt.label_limits)]
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
    if not heading or not is_title(lines[0], heading):
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


def is_title(line: str, heading: str) -> bool:
    """True if a line has the letters and digits of a heading, and no others."""
    # The line of most headings is the plain text; most other lines differ in the first letter.
    letters = zip_longest(filter(str.isalnum, line), filter(str.isalnum, heading))
    return line.strip("# \t") == heading or all(starmap(eq, letters))


def _render_label(
    of: ContextChunk, runs: Sequence[Span], limits: tuple[int, int] | None = None
) -> str:
    spans = [str(run.start) if run.n_lines == 1 else f"{run.start}-{run.end}" for run in runs]
    place = ", ".join(spans)
    is_shown = list_letters(of.note) in list_letters(of.path)
    trail = name_section("" if is_shown else of.note, of.heading)
    name, path = " ".join(trail.split()), show_path(of.path)
    if limits:
        name = f"[{show_path(of.workspace)}]" if of.workspace else " ".join(of.heading[-1:])
        name, path = shorten(name, *limits), shorten(path[::-1], *limits)[::-1]
        return " ".join(filter(None, ("###", name, "·" if name else "", f"{path}:{place}")))
    words = ["###"]
    if name:
        words.append(name)
    if marks := of.memory.marks if of.memory else _render_marks(of, name):
        words.append(f"({show_path(marks)})")
    if len(words) > 1:
        words.append("·")
    words += [f"[{show_path(label)}]" for label in (of.workspace, of.relation) if label]
    return f"{' '.join(words)} {path}:{place}"


def _render_marks(of: ContextChunk, name: str) -> str:
    """Return the day and the kind; no day if the name or the path has it."""
    day = "" if of.day in name or of.day in of.path else of.day
    return ", ".join(filter(None, (day, of.kind, *of.labels)))


def shorten(text: str, max_quarters: int, max_bytes: int | None = None) -> str:
    """Return as many whole words of the beginning of a text as fit, with a mark where it is cut."""

    def fits(text: str) -> bool:
        is_small = max_bytes is None or len(text.encode()) <= max_bytes
        return is_small and count_quarters(text) <= max_quarters

    if fits(text):
        return text
    n = _largest_fitting(len(text), lambda n: fits(text[:n] + CUT_MARK))
    return text[: _find_word_end(text, n)].rstrip() + CUT_MARK


def _find_word_end(text: str, n: int) -> int:
    """The end of the last whole word in the first `n` characters; `n` if that word is long."""
    blank = text.rfind(" ", 0, n)
    return blank if blank > n // 2 else n


def _render_run(excerpt: Excerpt, run: Span) -> Iterator[str]:
    filled = [line for line in range(run.start, run.end + 1) if excerpt.lines.get(line, "").strip()]
    if not filled:
        return
    texts: list[str] = []
    for line in range(filled[0], filled[-1] + 1):
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
    for fence in filter(None, map(_FENCE.fullmatch, texts)):
        if not mark and "`" not in fence["rest"]:
            mark = fence["mark"]
        elif mark and fence["mark"].startswith(mark) and not fence["rest"].strip():
            mark = ""
    return [mark] if mark else []
