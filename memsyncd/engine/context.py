"""How does a question, or none, become a block for a prompt?

With a question its candidates are ranked as for a search, left unjoined and narrowed to the lines
that answer; without one what lasts and what is recent is offered. What fits the budget is
`core/search/context`'s to say; here the index is read, one committed generation of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from memsyncd.core.search.context import (
    CONTEXT_HEADING,
    Budget,
    ContextBlock,
    ContextChunk,
    build_context_block,
    count_title_lines,
)
from memsyncd.core.search.highlight import Matcher
from memsyncd.core.search.passages import (
    ScoredPassage,
    StartChunk,
    compute_rarity,
    order_start_chunks,
    score_lines,
    select_passages,
)
from memsyncd.core.search.query import (
    NO_FILTERS,
    Filters,
    Query,
    compile_query,
    compile_term,
    extract_filters,
    parse_query,
)
from memsyncd.core.search.ranking import N_CANDIDATES, Candidate
from memsyncd.core.search.words import find_subwords
from memsyncd.engine.explain import Question, explain_empty_index, explain_nothing
from memsyncd.engine.masking import mask_sections, mask_texts
from memsyncd.engine.policies import SearchPolicy
from memsyncd.engine.recall import Asked, find_wanted, rank
from memsyncd.engine.workspace import Workspace
from memsyncd.store.lookup import count_matches
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    count_blank_lines_before,
    find_start_chunks,
    read_sections,
    read_texts,
)

MATCH = "match"
NOTE_FACTOR = 2.0
"""How much more a note's best chunk counts for its others than in a search: evidence lies together.
Measured on chats and documents: the first 500 tokens hold half a point more of it, on both.
"""
LEAST_CHUNK_TOKENS = 50
"""Few chunks are smaller: a budget divided by it is more of them than a block can show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedContext:
    """What a block is wanted for. `hidden` and `now_s` are as in `recall.Asked`."""

    query: str = ""
    filters: Filters = NO_FILTERS
    budget: Budget
    heading: str = CONTEXT_HEADING
    timeout_s: float = 1.0
    hidden: frozenset[tuple[str, str]] = frozenset()
    now_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A block, and if it is empty why. `n_unranked` chunks match besides, and less well than all
    that it has or leaves out.
    """

    block: ContextBlock
    why_empty: str | None
    n_unranked: int = 0


def build_context(workspace: Workspace, asked: AskedContext, policy: SearchPolicy) -> Built:
    """Make a block of a workspace's memory. Raises as `recall.search`."""
    query = parse_query(asked.query)
    filters = asked.filters.join(query.filters)
    question = Question(text=asked.query, query=query, filters=filters, hidden=asked.hidden)
    has_words = bool(extract_filters(asked.query)[1].strip())
    n_unranked = 0
    with workspace.acquire(asked.timeout_s) as reader:
        if has_words:
            pieces, n_unranked = _find_matching(reader, workspace, question, asked, policy)
        else:
            pieces = _find_unasked(reader, workspace, question, asked.budget, policy)
    block = build_context_block(pieces, asked.budget, heading=asked.heading)
    if block.text:
        return Built(block=block, why_empty=None, n_unranked=n_unranked)
    if pieces:
        return Built(
            block=block,
            why_empty="the budget has no room for a single line: ask with a larger one",
            n_unranked=n_unranked,
        )
    if has_words:
        return Built(
            block=block, why_empty=explain_nothing([workspace], question, asked.timeout_s).why
        )
    return Built(block=block, why_empty=_explain_unasked(workspace, filters))


def _find_matching(
    reader: Reader,
    workspace: Workspace,
    question: Question,
    asked: AskedContext,
    policy: SearchPolicy,
) -> tuple[list[ContextChunk], int]:
    """The best of what matches, and how many chunks match besides."""
    if not question.query.positive and question.filters.is_empty:
        return [], 0
    limit = max(N_CANDIDATES, asked.budget.max_tokens // LEAST_CHUNK_TOKENS)
    searched = Asked(
        query=question.text, filters=question.filters, hidden=question.hidden, now_s=asked.now_s
    )
    ranking = replace(policy.ranking, note=NOTE_FACTOR * policy.ranking.note)
    ranked = rank(
        reader, workspace, question.query, searched, replace(policy, ranking=ranking), limit=limit
    )
    match = compile_query(question.query)
    n_matching = (
        count_matches(reader, match, question.filters, most=workspace.condition.counts.chunks)
        if match
        else 0
    )
    pieces = _read_pieces(reader, [(one.candidate, MATCH) for one in ranked], policy)
    offers = [
        ScoredPassage(chunk=piece, raw_score=one.raw_score)
        for piece, one in zip(pieces, ranked, strict=True)
    ]
    weigh = _find_scale(reader, question.query, workspace.condition.counts.chunks)
    return select_passages(offers, weigh), max(0, n_matching - len(ranked))


def _find_scale(reader: Reader, query: Query, n_chunks: int) -> Callable[[str], float]:
    """What says how much lines gain by the words of a query that stand in them."""
    counts = [count_matches(reader, compile_term(term), most=n_chunks) for term in query.positive]
    rarities = [compute_rarity(n_chunks, min(count, n_chunks)) for count in counts]
    matcher = Matcher([find_wanted(reader, term) for term in query.positive])

    def weigh(text: str) -> float:
        found = matcher.find(reader.tokenize(text))
        beside = matcher.find(reader.tokenize(parts)) if (parts := find_subwords(text)) else {}
        return score_lines(text, {**dict.fromkeys(beside, ()), **found}, rarities)

    return weigh


def _find_unasked(
    reader: Reader, workspace: Workspace, question: Question, budget: Budget, policy: SearchPolicy
) -> list[ContextChunk]:
    found = find_start_chunks(reader, question.filters)
    visible = [chunk for chunk in found if (workspace.id, chunk.path) not in question.hidden]
    read = _read_pieces(reader, [(chunk, chunk.reason) for chunk in visible], policy)
    pieces = {chunk.chunk: piece for chunk, piece in zip(visible, read, strict=True)}
    above = {
        (piece.path, piece.heading[:depth]) for piece in read for depth in range(len(piece.heading))
    }
    # What tells nothing must not take its share of the room from what does.
    telling = [chunk for chunk in visible if _is_telling(pieces[chunk.chunk], above)]
    return [
        pieces[chunk.chunk] for chunk in order_start_chunks(telling, max_tokens=budget.max_tokens)
    ]


def _is_telling(piece: ContextChunk, above: Collection[tuple[str, tuple[str, ...]]]) -> bool:
    """False for what nobody needs who has not asked for it: what a note says of itself, and a
    heading that the labels of sections below it say, too (`above`, by path).
    """
    lines = piece.text.rstrip().split("\n")
    if (
        piece.span.start == 1
        and lines[0].startswith("---")
        and len(lines) > 1
        and lines[-1].rstrip() in ("---", "...")
    ):
        return False
    is_heading = bool(piece.heading) and count_title_lines(lines, piece.heading[-1]) == len(lines)
    return not (is_heading and (piece.path, piece.heading) in above)


def _explain_unasked(workspace: Workspace, filters: Filters) -> str:
    if not workspace.condition.counts.files:
        return explain_empty_index(workspace)
    if not filters.is_empty:
        return f"there are notes, and the filters ({', '.join(filters.words)}) leave none of them"
    return "all that is indexed is archived or was deleted just now: ask with is:archived for the archive"


def _read_pieces(
    reader: Reader, chosen: Sequence[tuple[Candidate | StartChunk, str]], policy: SearchPolicy
) -> list[ContextChunk]:
    sections = mask_sections(
        reader, read_sections(reader, {chunk.section for chunk, _ in chosen}), policy
    )
    texts = mask_texts(reader, read_texts(reader, [chunk.chunk for chunk, _ in chosen]), policy)
    blanks = count_blank_lines_before(reader, sections)
    return [
        ContextChunk(
            path=chunk.path,
            anchor=sections[chunk.section].anchor,
            heading=sections[chunk.section].heading,
            kind=sections[chunk.section].kind,
            span=chunk.span,
            text=texts[chunk.chunk].text,
            reason=reason,
            n_blanks_before=blanks.get(chunk.chunk, 0),
        )
        for chunk, reason in chosen
    ]
