"""Which lines of what was found come first in a block? Chunks overlap and say more than is asked, and a block has little room.

Strong chunks are cut where any chunk of their section begins or ends, so that each of their lines is in one cut. A cut is as
strong as the strongest chunk that it is of, and gains by what it holds itself: the share of the question's words, rare ones
counting for more, and a lead that is one of them, as in `- **Ann:** …`, `Timeout: …` or `**Timeout** …`: what follows is said by
whom or of what was asked. Weak chunks follow as they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memsyncd.core.recall.context import ContextChunk
from memsyncd.core.recall.match import TextRange
from memsyncd.core.span import Span

WORDS_SHARE, LEAD_SHARE = 0.3, 0.15
"""What a cut gains that holds all words, and one with a lead, of the raw_score of the strongest chunk. Measured on chats and on
documents: the first 1,000 tokens hold two points more of what is asked for.
"""
STRONG_SHARE = 0.4
"""Of the raw_score of the strongest. To weigh what is weaker takes time and changes next to nothing."""
MIN_RARITY = 0.000001

_LEAD = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)?(?:\*\*.{1,40}?\*\*|[^:*`\[\]()]{1,40}?:(?=\s))")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPassage:
    """A chunk that was found, and how strongly."""

    chunk: ContextChunk
    raw_score: float


def compute_rarity(n_chunks: int, n_holding: int) -> float:
    """How much a word tells that so many of the chunks hold, as bm25 has it; little, never nothing, if that is half of them."""
    return max(MIN_RARITY, math.log((n_chunks - n_holding + 0.5) / (n_holding + 0.5)))


def score_lines(text: str, found: Mapping[int, Sequence[TextRange]], rarities: Sequence[float]) -> float:
    """What lines gain by the words that stand in them: `found` are places in bytes, by the place of the word in `rarities`."""
    if not found:
        return 0.0
    share = sum(rarities[index] for index in found) / sum(rarities)
    lead = _LEAD.match(text)
    n_bytes = len(lead[0].encode("utf-8", "replace")) if lead else 0
    is_led = any(start < n_bytes for places in found.values() for start, _ in places)
    return WORDS_SHARE * share + LEAD_SHARE * is_led


def select_passages(passages: Sequence[ScoredPassage], weigh: Callable[[str], float]) -> list[ContextChunk]:
    """The cuts of strong chunks, the best first, then weak chunks in their order, which is by raw_score; `weigh` says what a text
    gains by the words in it.

    Where strengths tell nothing, as of what filters alone have found, the chunks stay as they are.
    """
    strongest = max((passage.raw_score for passage in passages), default=0.0)
    if strongest <= 0:
        return [passage.chunk for passage in passages]
    least = STRONG_SHARE * strongest
    cuts = [
        (raw_score / strongest + weigh(chunk.text), chunk)
        for section in _group_sections(passages)
        if any(passage.raw_score >= least for passage in section)
        for raw_score, chunk in _cut_section(section, least)
    ]
    cuts.sort(key=lambda cut: (-cut[0], cut[1].path, cut[1].span))
    return [*(chunk for _, chunk in cuts), *(passage.chunk for passage in passages if passage.raw_score < least)]


def _group_sections(passages: Sequence[ScoredPassage]) -> list[list[ScoredPassage]]:
    sections: dict[str, list[ScoredPassage]] = {}
    for passage in passages:
        sections.setdefault(passage.chunk.anchor, []).append(passage)
    return [*sections.values()]


def _cut_section(passages: Sequence[ScoredPassage], least: float) -> Iterator[tuple[float, ContextChunk]]:
    """Cuts with the raw_score of the strongest chunk that each is of, those of at least `least`."""
    best: dict[int, ScoredPassage] = {}
    texts: dict[int, str] = {}
    edges: set[int] = set()
    for passage in sorted(passages, key=lambda passage: -passage.raw_score):
        lines, span = passage.chunk.text.split("\n"), passage.chunk.span
        if len(lines) != span.n_lines:
            if passage.raw_score >= least:
                yield passage.raw_score, passage.chunk  # a part of a giant line: which lines these are cannot be told
            continue
        edges |= {span.start, span.end + 1}
        for line, text in enumerate(lines, span.start):
            best.setdefault(line, passage)
            texts.setdefault(line, text)
    for span in _find_cuts(texts, edges):
        numbers = range(span.start, span.end + 1)
        passage = max((best[line] for line in numbers), key=lambda passage: passage.raw_score)
        if passage.raw_score >= least:
            n_blanks = passage.chunk.n_blanks_before if span.start == passage.chunk.span.start else 0
            text = "\n".join(texts[line] for line in numbers)
            yield passage.raw_score, replace(passage.chunk, span=span, text=text, n_blanks_before=n_blanks)


def _find_cuts(texts: Mapping[int, str], edges: set[int]) -> Iterator[Span]:
    """Runs of lines between edges. Blank lines go with what is before them, as they do where a chunk ends."""
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
