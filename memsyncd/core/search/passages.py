"""Find the words of a question in texts: the passages that answer it, snippets, words in a row.

For a question, `select_passages` puts the lines that answer it first. Chunks overlap and hold more
than the question asks for, and a context has little room. It splits strong chunks where any chunk
of their section begins or ends, so that each line is in one passage. A passage has the raw score of
the strongest chunk that holds it, plus two bonuses: for the share of the question's words in it,
where rare words count more, and for a lead that holds a word of the question. A lead names the
speaker or subject of the text after it, as in `- **Ann:** …`, `Timeout: …` or `**Timeout** …`. Weak
chunks follow unsplit.

At the start of a session there is no question. `order_start_chunks` puts MEMORY.md first, then
pinned chunks, then chunks of important kinds (preferences and errors) by importance, then chunks
about the project as a whole, then the notes that were saved last. MEMORY.md gets half of the budget
before the others get their share. All groups but the last get three quarters together, so that the
newest notes keep room however much is pinned. A chunk that did not fit into the share of its group
is tried again when all groups have had their share.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, groupby, starmap
from operator import itemgetter
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.core.model import Span
from memsyncd.core.search.context import ContextChunk, ReadChunks, is_title
from memsyncd.core.search.words import (
    UNSPACED,
    FoldedText,
    find_spaced_places,
    find_subword_ranges,
    find_subwords,
    fold,
    fold_with_places,
    space_out,
)

# --- Passages for a question ----------------------------------------------------------------------

# The bonus of a passage that holds all words, and the bonus of a lead: shares of the raw score of
# the strongest chunk. Measured on chats and on documents: the first 1,000 tokens hold two points
# more of the evidence.
WORDS_SHARE, LEAD_SHARE = 0.3, 0.15
# Share of the raw score of the strongest chunk. Scoring weaker chunks takes time and changes next
# to nothing.
STRONG_SHARE = 0.4
MIN_RARITY = 0.000001

_LEAD = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)?(?:\*\*.{1,40}?\*\*|[^:*`\[\]()]{1,40}?:(?=\s))")


# Returns the bonus of each text for the words in it.
WeighTexts = Callable[[Sequence[str]], Sequence[float]]


class ScoredPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that a search found, with its raw score, and the share that its vector gives."""

    chunk: ContextChunk
    raw_score: float
    semantic_share: float


def compute_rarity(n_chunks: int, n_holding: int) -> float:
    """The weight of a word that `n_holding` of the chunks hold, as in bm25; small, never 0, for a
    word in half of them.
    """
    return max(MIN_RARITY, math.log((n_chunks - n_holding + 0.5) / (n_holding + 0.5)))


def compute_rarities(n_chunks: int, counts: Sequence[int]) -> list[float]:
    """Return the weight of each word; `counts` are the numbers of chunks that hold it."""
    return [compute_rarity(n_chunks, min(count, n_chunks)) for count in counts]


def score_lines(terms: Collection[int], rarities: Sequence[float], *, is_led: bool) -> float:
    """The bonus of a text for the words in it, which are indices of `rarities`; `is_led` if one of
    them is in its lead.
    """
    if not terms:
        return 0.0
    share = sum([rarities[index] for index in terms]) / sum(rarities)
    return WORDS_SHARE * share + LEAD_SHARE * is_led


def select_passages(
    passages: Sequence[ScoredPassage], weigh: WeighTexts, read: ReadChunks = list
) -> list[ContextChunk]:
    """The passages of strong chunks, the best first, then weak chunks by their raw score.

    `weigh` returns the bonus of each text for the words in it. `read` is called for the unread
    chunks of sections with a strong chunk; the others stay unread. Where raw scores carry no
    information, because only filters found the chunks, the chunks stay as they are.
    """
    strongest = max((passage.raw_score for passage in passages), default=0.0)
    if strongest <= 0:
        return [passage.chunk for passage in passages]
    least = STRONG_SHARE * strongest
    strong = {passage.chunk.anchor for passage in passages if passage.raw_score >= least}
    passages = _read_strong(passages, strong, read)
    sections: dict[str, list[ScoredPassage]] = {}
    for passage in passages:
        if passage.chunk.anchor in strong:
            sections.setdefault(passage.chunk.anchor, []).append(passage)
    scored = [cut for section in sections.values() for cut in _split_section(section, least)]
    bonuses = weigh([chunk.text for _, chunk in scored])
    cuts = [
        (raw_score / strongest + bonus, chunk)
        for (raw_score, chunk), bonus in zip(scored, bonuses, strict=True)
    ]
    cuts.sort(key=lambda cut: (-cut[0], cut[1].path, cut[1].span))
    return [
        *(chunk for _, chunk in cuts),
        *(passage.chunk for passage in passages if passage.raw_score < least),
    ]


def _read_strong(
    passages: Sequence[ScoredPassage], strong: Collection[str], read: ReadChunks
) -> list[ScoredPassage]:
    """Return the passages; in strong sections their texts are read."""
    unread = [
        passage.chunk
        for passage in passages
        if passage.chunk.unread and passage.chunk.anchor in strong
    ]
    texts = iter(read(unread) if unread else ())
    return [
        replace(passage, chunk=next(texts))
        if passage.chunk.unread and passage.chunk.anchor in strong
        else passage
        for passage in passages
    ]


def _split_section(
    passages: Sequence[ScoredPassage], least: float
) -> Iterator[tuple[float, ContextChunk]]:
    """Yield passages with the raw score of the strongest chunk that holds each, if it is at least
    `least`.
    """
    best: dict[int, ScoredPassage] = {}
    texts: dict[int, str] = {}
    edges: set[int] = set()
    # The strongest first, so that each line is taken from the strongest chunk that holds it.
    for passage in sorted(passages, key=lambda passage: -passage.raw_score):
        lines, span = passage.chunk.text.split("\n"), passage.chunk.span
        if len(lines) != span.n_lines:
            if passage.raw_score >= least:
                # in a part of a giant line the lines are unknown
                yield passage.raw_score, passage.chunk
            continue
        edges |= {span.start, span.end + 1}
        for line, text in enumerate(lines, span.start):
            if line not in best:
                best[line], texts[line] = passage, text
    for span in _split_at_edges(texts, edges):
        numbers = range(span.start, span.end + 1)
        passage = best[span.start]
        for line in numbers:
            if best[line].raw_score > passage.raw_score:
                passage = best[line]
        if passage.raw_score >= least:
            n_blanks = (
                passage.chunk.n_blanks_before if span.start == passage.chunk.span.start else 0
            )
            text = "\n".join(texts[line] for line in numbers)
            yield (
                passage.raw_score,
                replace(passage.chunk, span=span, text=text, n_blanks_before=n_blanks),
            )


def _split_at_edges(texts: Mapping[int, str], edges: set[int]) -> Iterator[Span]:
    """Runs of lines between edges.

    Blank lines go with the lines before them, as at the end of a chunk.
    """
    start = end = 0
    is_due = False
    for line in sorted(texts):
        is_due = is_due or line in edges
        is_blank = not texts[line].strip()
        if start and (line != end + 1 or (is_due and not is_blank)):
            yield Span(start, end)
            start = 0
        is_due = is_due and is_blank
        start, end = start or line, line
    if start:
        yield Span(start, end)


# --- Chunks for the start of a session ------------------------------------------------------------

StartReason = Literal["MEMORY.md", "pinned", "important", "project", "recent"]
# The most important reason first.
START_REASONS: Final[tuple[StartReason, ...]] = (
    "MEMORY.md",
    "pinned",
    "important",
    "project",
    "recent",
)
# Chunks of these are ordered by importance.
_WEIGHED: Final = ("pinned", "important", "project")

MEMORY_SHARE = 0.5
LASTING_SHARE = 0.75
_SHARES: Final[Mapping[StartReason, float]] = {"MEMORY.md": MEMORY_SHARE, "recent": 1.0}
# So many times the tokens of a block are read for each share, and at least so many chunks.
SPARE_ROOM, LEAST_READ_CHUNKS = 1.5, 60
# An estimate of the tokens in a label; the exact number is unknown before the block is filled.
LABEL_TOKENS = 25


class StartChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that is worth knowing without a question.

    `weight` is its section's importance, 0-1, and `modified_ns` the time of its note.
    """

    chunk: int
    section: int
    path: str
    span: Span
    n_tokens: int
    reason: StartReason
    weight: float
    modified_ns: int


def sort_start_chunks(chunks: Iterable[StartChunk]) -> list[StartChunk]:
    """Return the chunks, the most important first."""
    return sorted(chunks, key=_start_order)


def order_start_chunks(chunks: Iterable[StartChunk]) -> list[tuple[StartChunk, float]]:
    """The chunks, the most important first, each with the share of the block that it and the chunks
    before it may fill.
    """
    return [
        (chunk, _SHARES.get(chunk.reason, LASTING_SHARE)) for chunk in sort_start_chunks(chunks)
    ]


def limit_start_chunks(
    ordered: Iterable[tuple[StartChunk, float]], max_tokens: int
) -> list[tuple[StartChunk, float]]:
    """Return the chunks of each share that a block of `max_tokens` can show, and some more, because
    a block leaves out chunks that say nothing or the same as others.
    """
    kept: list[tuple[StartChunk, float]] = []
    for _, of_share in groupby(ordered, key=itemgetter(1)):
        n_tokens = 0
        for number, (chunk, share) in enumerate(of_share):
            if n_tokens >= SPARE_ROOM * max_tokens and number >= LEAST_READ_CHUNKS:
                break
            n_tokens += chunk.n_tokens
            kept.append((chunk, share))
    return kept


def find_start_place(chunk: StartChunk) -> tuple[int, float]:
    """Return the sort key of a chunk's section in a block: by reason, then by importance."""
    weight = chunk.weight if chunk.reason in _WEIGHED else 0.0
    return START_REASONS.index(chunk.reason), -weight


def _start_order(chunk: StartChunk) -> tuple[object, ...]:
    return (
        find_start_place(chunk),
        -chunk.modified_ns,
        chunk.path,
        chunk.span,
        chunk.chunk,
    )


# --- Matches --------------------------------------------------------------------------------------
# Terms match words of the index: folded and stemmed by its own tokenizer.

# Start, end and word, in order of start.
Token = tuple[int, int, str]
TextRange = tuple[int, int]
# Splits texts into the words of the index, with their ranges in bytes of UTF-8.
Tokenize = Callable[[Sequence[str]], Sequence[Sequence[Token]]]
# Splits texts into the words of the index, without their ranges: faster.
Split = Callable[[Sequence[str]], Sequence[Sequence[str]]]


NO_STEMS: frozenset[str] = frozenset()


class TermPattern(msgspec.Struct, frozen=True):
    """A term as the tokenizer sees it: `words` in a row, or the words of `spelling`; with
    `is_prefix` the last word may be a beginning. Each of `related` may stand for a single word.
    """

    words: tuple[str, ...]
    is_prefix: bool
    related: frozenset[str] = NO_STEMS
    spelling: tuple[str, ...] = ()


class Matcher:
    """Find a set of terms in texts, in one pass over a text for any number of terms."""

    def __init__(self, patterns: Sequence[TermPattern]) -> None:
        # In order of the terms; other spellings come last.
        spelled = [(index, term.spelling) for index, term in enumerate(patterns) if term.spelling]
        self._patterns = [*patterns, *(TermPattern(words, is_prefix=False) for _, words in spelled)]
        self._terms = [*range(len(patterns)), *(index for index, _ in spelled)]
        self._by_first: dict[str, list[int]] = {}
        self._prefixes: list[tuple[str, int]] = []
        self.has_phrases = False
        for index, term in enumerate(self._patterns):
            if term.is_prefix and len(term.words) == 1:
                self._prefixes.append((term.words[0], index))
            elif term.words:
                self._by_first.setdefault(term.words[0], []).append(index)
                self.has_phrases = self.has_phrases or len(term.words) > 1
                for word in term.related:
                    self._by_first.setdefault(word, []).append(index)

        beginnings = chain(self._by_first, (prefix for prefix, _ in self._prefixes))
        self._beginnings = tuple({word[:2] for word in beginnings})

    def select(self, words: Iterable[str]) -> list[int]:
        """The indices of the words that may match, chosen before they are folded and stemmed, which
        takes longer. If terms have several words: the indices of all words, or none if no word may
        match.
        """
        # A stem begins as its word does; without accents, another letter may.
        begin, words = self._beginnings, [*words]
        indices = [
            index
            for index, word in enumerate(words)
            if word.lower().startswith(begin) or not word.isascii()
        ]
        return [*range(len(words))] if indices and self.has_phrases else indices

    def find(self, tokens: Sequence[Token]) -> dict[int, list[TextRange]]:
        """The ranges of each term in the text, by the term's index."""
        runs = self.find_runs([token[2] for token in tokens])
        return {
            index: [(tokens[first][0], tokens[last][1]) for first, last in some]
            for index, some in runs.items()
        }

    def find_runs(self, words: Sequence[str]) -> dict[int, list[tuple[int, int]]]:
        """The first and the last word of each place of a term, by the term's index."""
        runs: dict[int, list[tuple[int, int]]] = {}
        by_first, prefixes, terms = self._by_first, self._prefixes, self._terms
        if not prefixes and not self.has_phrases:
            # Few words of a text match: the loop takes no step for the others.
            for at in [at for at, word in enumerate(words) if word in by_first]:
                for index in by_first[words[at]]:
                    runs.setdefault(terms[index], []).append((at, at))
            return runs
        for at, word in enumerate(words):
            for index in by_first.get(word, ()):
                last = self._find_last(words, at, self._patterns[index])
                if last is not None:
                    runs.setdefault(terms[index], []).append((at, last))
            for prefix, index in prefixes:
                if word.startswith(prefix):
                    runs.setdefault(index, []).append((at, at))
        return runs

    def find_terms(self, words: Sequence[str]) -> dict[int, None]:
        """The indices of the terms in a text of these words, in the order of `find`: faster."""
        by_first = self._by_first
        if self._prefixes or self.has_phrases:
            return dict.fromkeys(self.find_runs(words))
        matching = [word for word in words if word in by_first]
        return {self._terms[index]: None for word in matching for index in by_first[word]}

    def _find_last(self, words: Sequence[str], at: int, term: TermPattern) -> int | None:
        """The last word of a row that begins at `at` and equals the term, else None."""
        end = at + len(term.words) - 1
        if end == at:
            return at
        if end >= len(words) or any(
            words[at + n] != word for n, word in enumerate(term.words[:-1])
        ):
            return None
        last = term.words[-1]
        return (
            end if words[end] == last or (term.is_prefix and words[end].startswith(last)) else None
        )


# 1 for the first byte of a character in UTF-8, 0 for the others.
_IS_FIRST_BYTE = tuple(int(byte & 0xC0 != 0x80) for byte in range(256))


def to_character_ranges(text: str, places: Iterable[TextRange]) -> list[TextRange]:
    """Convert ranges in bytes of the text's UTF-8 to ranges in characters."""
    if text.isascii():
        return list(places)
    data = text.encode("utf-8", "replace")
    # The number of characters that begin before each byte.
    counts = [*accumulate(map(_IS_FIRST_BYTE.__getitem__, data), initial=0)]
    return [(counts[start], counts[end]) for start, end in places]


def sort_ranges(places: Iterable[TextRange]) -> list[TextRange]:
    """Each range once, by start; of ranges with the same start the longest comes first."""
    return sorted(sorted(set(places), key=itemgetter(1), reverse=True), key=itemgetter(0))


def find_lead(text: str) -> str:
    """The beginning of a text that names a speaker or subject; empty if it has none."""
    lead = _LEAD.match(text)
    return lead[0] if lead else ""


def weigh_texts(
    texts: Sequence[str],
    matcher: Matcher,
    rarities: Sequence[float],
    split: Split,
    tokenize: Tokenize,
) -> list[float]:
    """Return the bonus of each text for the terms in it, whose `rarities` are known."""
    folded = [fold(text) for text in texts]
    spaced = [space_out(text) for text in folded]
    terms = [matcher.find_terms(words) for words in split(spaced)]
    leads = [
        find_lead(text) if indices else "" for text, indices in zip(folded, terms, strict=True)
    ]
    # Subwords only tell whether a term is in a text: a text with all terms needs no look at them.
    missing = [at for at, indices in enumerate(terms) if len(indices) < len(rarities)]
    possible = {at: some for at in missing if (some := _select_words(folded[at], matcher))}
    stems = split([" ".join(some) for some in possible.values()]) if possible else ()
    for at, words in zip(possible, stems, strict=True):
        terms[at] = matcher.find_terms(words) | terms[at]
    led = [at for at, lead in enumerate(leads) if lead]
    # A phrase may begin in the lead and end after it.
    searched = [spaced[at] if matcher.has_phrases else space_out(leads[at]) for at in led]
    tokens = dict(zip(led, tokenize(searched) if led else (), strict=True))
    return [
        score_lines(
            indices, rarities, is_led=at in tokens and _is_led(matcher, tokens[at], leads[at])
        )
        for at, indices in enumerate(terms)
    ]


def _select_words(text: str, matcher: Matcher) -> list[str]:
    """Return the subwords of a text that may match."""
    subwords = find_subwords(text).split()
    return [subwords[at] for at in matcher.select(subwords)]


def _is_led(matcher: Matcher, tokens: Sequence[Token], lead: str) -> bool:
    n_bytes = len(space_out(lead).encode("utf-8", "replace"))
    return any(places[0][0] < n_bytes for places in matcher.find(tokens).values())


# --- Snippets -------------------------------------------------------------------------------------
# A snippet is one window of the text around the densest matches. White space is folded, and matched
# words stand between `**` and `**`. Stars of the text that could be taken for marks are removed, so
# every second part of a snippet that is split at `**` is marked.

MARK = "**"
WINDOW_CHARACTERS = 240
_ELLIPSIS = "…"
_SPACE = re.compile(r"\s+")
_UNDERLINE = re.compile(r"\A[ ]{0,3}(?:=+|-+)[ \t]*(?:\n|$)")
_COMMENT = re.compile(r"\A\s*<!--\s*memory:.*?-->", re.DOTALL)
_STARS = re.compile(r"\*{2,}")


class TextWords(NamedTuple):
    """The words of a text as the index has them, with their places: the tokenizer's words, and
    subwords, which are indexed too.

    Words are joined by blanks, and start and end of each follow one another: a cache keeps many.
    """

    words: str
    places: array[int]
    subwords: str
    subword_places: array[int]

    def find(self, matcher: Matcher) -> dict[int, list[TextRange]]:
        """Return the ranges of the terms in the text, in characters, by the term's index."""
        ranges: dict[int, list[TextRange]] = {}
        for words, places in (
            (self.words, self.places),
            (self.subwords, self.subword_places),
        ):
            if words:
                for index, runs in matcher.find_runs(words.split(" ")).items():
                    some = [(places[2 * first], places[2 * last + 1]) for first, last in runs]
                    ranges[index] = ranges[index] + some if index in ranges else some
        return ranges


def find_text_words(texts: Sequence[str], tokenize: Tokenize) -> list[TextWords]:
    """Return the words of each text."""
    folded = [fold_with_places(text) for text in texts]
    spaced = [space_out(each.text) for each in folded]
    words = tokenize(spaced)
    subwords = [find_subword_ranges(each.text) for each in folded]
    stems = tokenize([" ".join([word for _, _, word in some]) for some in subwords])
    return [
        _pack_words(*columns)
        for columns in zip(folded, spaced, words, subwords, stems, strict=True)
    ]


def _pack_words(
    folded: FoldedText,
    spaced: str,
    words: Sequence[Token],
    subwords: Sequence[Token],
    stems: Sequence[Token],
) -> TextWords:
    """Pack the words of one text: `words` are in bytes of the spaced text, `subwords` in characters
    of the folded text. `stems` are what the tokenizer makes of the subwords.
    """
    if len(stems) != len(subwords):  # the index has other words than these
        subwords = stems = ()
    ranges = to_character_ranges(spaced, [(start, end) for start, end, _ in words])
    if spaced != folded.text:
        places = find_spaced_places(folded.text)
        ranges = [(places[start], places[end - 1] + 1) for start, end in ranges]
    subword_ranges = [(start, end) for start, end, _ in subwords]
    if folded.pieces:
        ranges = [*starmap(folded.find_original, ranges)]
        subword_ranges = [*starmap(folded.find_original, subword_ranges)]
    return TextWords(
        " ".join([word for _, _, word in words]),
        array("I", chain.from_iterable(ranges)),
        " ".join([stem for _, _, stem in stems]),
        array("I", chain.from_iterable(subword_ranges)),
    )


def highlight(text: str, ranges: Mapping[int, Sequence[TextRange]]) -> str:
    """Render a snippet of `text` around the ranges that `TextWords.find` found in it."""
    return render_snippet(text, sort_ranges(chain.from_iterable(ranges.values())))


def render_snippet(text: str, matches: Sequence[tuple[int, int]]) -> str:
    """Cut `text` to about WINDOW_CHARACTERS around `matches`, (start, end) pairs in characters, in
    order of start.

    Matches that overlap or touch are marked together.
    """
    start, end = _choose_window(text, matches)
    parts, at = [], start
    for first, after in _join(matches):
        if first < start or after > end:
            continue
        parts += [_plain(text[at:first]), MARK, _plain(text[first:after]), MARK]
        at = after
    parts.append(_plain(text[at:end]))
    body = " ".join("".join(parts).split())
    return f"{_ELLIPSIS if start > 0 else ''}{body}{_ELLIPSIS if end < len(text) else ''}"


def _join(ranges: Iterable[TextRange]) -> list[TextRange]:
    """The ranges, in order of start; ranges that overlap or touch are made one."""
    joined: list[TextRange] = []
    for start, end in ranges:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def strip_title(text: str, heading: str) -> str:
    """A chunk's text without its heading and `memory` comment, which an answer shows separately;
    empty if nothing else is left.
    """
    first, _, rest = text.partition("\n")
    if not heading or not is_title(first, heading):
        return text
    if not first.lstrip().startswith("#"):
        rest = _UNDERLINE.sub("", rest, count=1)
    return _COMMENT.sub("", rest, count=1).strip("\n")


def _choose_window(text: str, matches: Sequence[tuple[int, int]]) -> tuple[int, int]:
    window = WINDOW_CHARACTERS
    if len(text) <= window:
        return 0, len(text)
    starts, ends = [first for first, _ in matches], sorted([after for _, after in matches])
    best, best_count = 0, -1
    for first in starts:
        # The matches that end within the window, less the matches that began before it: a line may
        # hold thousands.
        count = bisect_right(ends, first + window) - bisect_left(starts, first)
        if count > best_count:
            best, best_count = first, count
    start = _next_word_start(text, max(0, min(best - window // 5, len(text) - window)))
    end = min(len(text), start + window)
    space = text.rfind(" ", start, end) if end < len(text) else end
    return start, space if space > start + window // 2 else end


def _next_word_start(text: str, at: int) -> int:
    if at == 0:
        return 0
    space = _SPACE.search(text, at, at + 30)
    return space.end() if space else at


def _plain(text: str) -> str:
    """The text without stars in a row, and without stars at its ends, which would lengthen the mark
    next to them.
    """
    return _STARS.sub("", text).strip("*") if "*" in text else text


# --- Words in a row -------------------------------------------------------------------------------
# bm25 counts how often words occur and how rare they are, not where: a sentence of common words
# scores less than a text that repeats one of its rarer words. So words in a row have a score of
# their own: the square of the share that the weightiest run of the question's words has of the
# whole question.

# Further words of a question are ignored.
MAX_WORDS = 64
# The values of a run of all words: without, and with the signs of the question. A run that lacks a
# word counts less than 1. The step is larger than the gain of a text from the texts beside it.
ALL_WORDS, VERBATIM = 1.5, 1.6
# The value of a word without information in a run, such as `of` and `the`, beside another.
STOPWORD_WEIGHT = 0.1

_WORD = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{UNSPACED}]").match
# Blanks for all bytes of ASCII but letters and digits, and small letters for capitals.
_ASCII_WORDS = bytes(
    ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else 32 for c in range(256)
)


class RunFinder:
    """Find runs of a question's words in texts. `words` are the question's words, folded; each
    character of a script without spaces is a word.
    """

    def __init__(self, question: str, telling: Collection[str]) -> None:
        """`telling` are the words with information, in the typed form."""
        self._verbatim = " ".join(question.split())
        words: list[str] = []
        # Each word with the blank before it, if there is one.
        self._parts: list[str] = []
        for match in _WORD.findall(fold(question).lower()):
            pieces = [*match] if _IS_UNSPACED(match) else [match]
            words += pieces
            self._parts += [f" {pieces[0]}", *pieces[1:]]
        self.words = tuple(words[:MAX_WORDS])
        self._pairs = [self._join(start, start + 2) for start in range(len(self.words) - 1)]
        folded = {fold(word).lower() for word in telling}
        self._weights = [
            1.0 if word in folded or _IS_UNSPACED(word) else STOPWORD_WEIGHT for word in self.words
        ]

    def measure(self, text: str) -> float:
        """Return the value of the weightiest run of a text, from 0 to VERBATIM."""
        return self.measure_all({0: join_words(text)}, lambda _: {0: text})[0]

    def measure_all(
        self, joined: Mapping[int, str], read: Callable[[Sequence[int]], Mapping[int, str]]
    ) -> dict[int, float]:
        """Return the value of the weightiest run of each text, by the texts' numbers. `joined` are
        their words by `join_words`; `read` returns the texts themselves.
        """
        values = {number: self._measure_words(words) for number, words in joined.items()}
        whole = [number for number, value in values.items() if value == ALL_WORDS]
        texts = read(whole) if whole else {}
        verbatim = [n for n in whole if self._verbatim in " ".join(texts[n].split())]
        return values | dict.fromkeys(verbatim, VERBATIM)

    def _measure_words(self, joined: str) -> float:
        if not self._pairs:
            return 0.0
        heaviest, end = 0.0, 0
        for start in [start for start, pair in enumerate(self._pairs) if pair in joined]:
            at = max(end, start + 2)
            while at < len(self.words) and self._join(start, at + 1) in joined:
                at += 1
            if at > end:
                end = at
                heaviest = max(heaviest, self._weigh(start, end))
        share = heaviest / self._weigh(0, len(self.words))
        return share * share if share < 1.0 else ALL_WORDS

    def _weigh(self, start: int, end: int) -> float:
        """Return the weight of the words from `start` to before `end`, less its weightiest word."""
        weights = self._weights[start:end]
        return sum(weights) - max(weights)

    def _join(self, start: int, end: int) -> str:
        """The words from `start` on, before `end`, as `join_words` has them."""
        first, *others = self._parts[start:end]
        return "".join(
            (
                first.strip() if _IS_UNSPACED(self.words[start]) else first,
                *others,
                "" if _IS_UNSPACED(self.words[end - 1]) else " ",
            )
        )


def join_words(text: str) -> str:
    """The folded words of a text with one blank between two of them, before the first and after the
    last; a run of a script without spaces is one word.
    """
    if not text.isascii():
        return f" {' '.join(_WORD.findall(fold(text).lower()))} "
    return f" {b' '.join(text.encode().translate(_ASCII_WORDS).split()).decode()} "


# --- Labels ---------------------------------------------------------------------------------------

# At most so many properties are shown, each with so many characters of its value.
MOST_LABELS, MOST_CHARACTERS = 3, 60
# Other fields of an answer always show the first; the others say little about the note.
_SHOWN: Final = frozenset("title tag tags".split())
_HIDDEN: Final = frozenset("alias aliases cssclass cssclasses date id".split())
_CUT = "…"


def choose_labels(
    stated: Mapping[str, str], extra: Mapping[str, str], matches: Callable[[str], bool]
) -> list[str]:
    """Return properties as `key: value`, those that match the question first. An answer has fields
    for the `stated` ones, so these are shown only if they match.
    """
    matching, others = [], []
    for key, value in (*stated.items(), *extra.items()):
        text = " ".join(f"{key}: {value}".split())
        if key.lower() in _SHOWN or not value.strip():
            continue
        if matches(text):
            matching.append(_shorten(key, text, matches))
        elif key not in stated and key.lower() not in _HIDDEN:
            others.append(_shorten(key, text, None))
    return [*matching, *others][:MOST_LABELS]


def _shorten(key: str, text: str, matches: Callable[[str], bool] | None) -> str:
    """Cut a long value; a value that matches is cut around its first word that does."""
    limit = len(key) + 2 + MOST_CHARACTERS
    if len(text) <= limit:
        return text
    words = text.split()
    first = next((at for at, word in enumerate(words) if matches and matches(word)), 0)
    before = " ".join(words[1:first])
    if len(f"{key}: {before} {words[first]}") <= limit or not first:
        return text[:limit].rstrip() + _CUT
    return f"{key}: {_CUT} {' '.join(words[first:])}"[: limit + 2].rstrip() + _CUT
