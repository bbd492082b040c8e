"""Order the chunks for a context, the most important first: for a question and without one.

For a question, `select_passages` puts the lines that answer it first: chunks overlap and hold more
than the question asks for, and a context has little room. Strong chunks are split where any chunk
of their section begins or ends, so that each line is in one passage. A passage has the raw score of
the strongest chunk that holds it, plus bonuses: for the share of the question's words in it, rare
words counting more, and for a lead that holds one of them, as in `- **Ann:** …`, `Timeout: …` or
`**Timeout** …`, which names the speaker or subject of the text after it. Weak chunks follow
unsplit.

Without a question, at the start of a session, `order_start_chunks` puts MEMORY.md first, then
pinned chunks, then those of important kinds (preferences and errors) by importance, then chunks
about the project as a whole, then the notes saved last. MEMORY.md gets half of the budget before
the others get theirs, and all but the last three quarters: however much is pinned, the newest is
never the first to go. What a share has no room for follows when all have had theirs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from memsyncd.core.model import Span
from memsyncd.core.search.context import ContextChunk, ReadChunks

# --- Passages for a question ----------------------------------------------------------------------

# The bonus of a passage that holds all words, and that of a lead, as shares of the raw score of the
# strongest chunk. Measured on chats and on documents: the first 1,000 tokens hold two points more
# of the evidence.
WORDS_SHARE, LEAD_SHARE = 0.3, 0.15
# Share of the raw score of the strongest chunk. Scoring weaker chunks takes time and changes next
# to nothing.
STRONG_SHARE = 0.4
MIN_RARITY = 0.000001

_LEAD = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)?(?:\*\*.{1,40}?\*\*|[^:*`\[\]()]{1,40}?:(?=\s))")


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


def score_lines(found: Collection[int], rarities: Sequence[float], *, is_led: bool) -> float:
    """The bonus of a text for the words in it, which are indices of `rarities`; `is_led` if one of
    them is in its lead.
    """
    if not found:
        return 0.0
    share = sum([rarities[index] for index in found]) / sum(rarities)
    return WORDS_SHARE * share + LEAD_SHARE * is_led


def find_lead(text: str) -> str:
    """The beginning of a text that names a speaker or subject; empty if it has none."""
    lead = _LEAD.match(text)
    return lead[0] if lead else ""


def select_passages(
    passages: Sequence[ScoredPassage], weigh: Callable[[str], float], read: ReadChunks = list
) -> list[ContextChunk]:
    """The passages of strong chunks, the best first, then weak chunks in their order, which is by
    raw score.

    `weigh` returns the bonus of a text for the words in it. `read` is called for the unread chunks
    of sections with a strong one; the others stay unread. Where raw scores carry no information, as
    for chunks that only filters found, the chunks stay as they are.
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
    cuts = [
        (raw_score / strongest + weigh(chunk.text), chunk)
        for section in sections.values()
        for raw_score, chunk in _split_section(section, least)
    ]
    cuts.sort(key=lambda cut: (-cut[0], cut[1].path, cut[1].span))
    return [
        *(chunk for _, chunk in cuts),
        *(passage.chunk for passage in passages if passage.raw_score < least),
    ]


def _read_strong(
    passages: Sequence[ScoredPassage], strong: Collection[str], read: ReadChunks
) -> list[ScoredPassage]:
    """Return the passages with the texts of those in strong sections."""
    unread = [one.chunk for one in passages if one.chunk.unread and one.chunk.anchor in strong]
    texts = iter(read(unread) if unread else ())
    return [
        replace(one, chunk=next(texts)) if one.chunk.unread and one.chunk.anchor in strong else one
        for one in passages
    ]


def _split_section(
    passages: Sequence[ScoredPassage], least: float
) -> Iterator[tuple[float, ContextChunk]]:
    """Passages with the raw score of the strongest chunk that holds each, those of at least
    `least`.
    """
    best: dict[int, ScoredPassage] = {}
    texts: dict[int, str] = {}
    edges: set[int] = set()
    # The strongest first, so that each line is of the strongest chunk that holds it.
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


def order_start_chunks(chunks: Iterable[StartChunk]) -> list[tuple[StartChunk, float]]:
    """The chunks, the most important first, each with the share of the block that it and those
    before it may fill.
    """
    return [
        (chunk, _SHARES.get(chunk.reason, LASTING_SHARE))
        for chunk in sorted(chunks, key=_start_order)
    ]


def find_start_place(chunk: StartChunk) -> tuple[int, float]:
    """Return what orders the sections of a block: by reason, then by importance."""
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
