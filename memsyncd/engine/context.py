"""Builds a block of markdown for a prompt, for a query or for the start of a session.

For a query, candidates are ranked as in a search, left unjoined, and cut to the lines that match;
without one, pinned, lasting and recent notes are offered. `core.search.context` decides what fits
the budget. Everything is read from one committed generation of the index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.search.context import (
    Budget,
    ContextBlock,
    ContextChunk,
    ContextLines,
    build_context_block,
    count_title_lines,
)
from memsyncd.core.search.highlight import Matcher
from memsyncd.core.search.passages import (
    ScoredPassage,
    StartChunk,
    compute_rarity,
    find_start_place,
    order_start_chunks,
    score_lines,
    select_passages,
)
from memsyncd.core.search.query import (
    Filters,
    Query,
    compile_query,
    compile_term,
    extract_filters,
)
from memsyncd.core.search.ranking import DEFAULT_RANKING, Candidate
from memsyncd.core.search.words import find_subwords
from memsyncd.engine.candidates import find_families, make_patterns, rank
from memsyncd.engine.clock import find_local_day
from memsyncd.engine.explain import Question, explain_empty_index, explain_nothing
from memsyncd.engine.metadata import describe_meta
from memsyncd.engine.redaction import (
    read_redacted_sections,
    read_redacted_texts,
    read_redacted_titles,
)
from memsyncd.engine.search import DEFAULT_OPTIONS, RunOptions, make_question
from memsyncd.engine.workspace import Workspace
from memsyncd.first_notes import is_first_text
from memsyncd.protocol.search import (
    ContextAnswer,
    ContextParams,
    ContextPart,
    LeftOutPart,
    mark_warning,
)
from memsyncd.store.lookup import count_matches
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    PINNED_IMPORTANCE,
    count_blank_lines_before,
    count_matching,
    find_start_chunks,
)

MATCH = "match"
# A block shows lines of fewer chunks than a search needs for its passages, and reads the text of
# all of them.
N_CONTEXT_CANDIDATES = 200
# A note's best chunk counts this much more for its other chunks than in a search: evidence lies
# together. Measured on chats and documents, the first 500 tokens contain half a point more of it.
NOTE_FACTOR = 2.0
# Few chunks are smaller: a budget divided by it is more chunks than a block can show.
MIN_CHUNK_TOKENS = 50
FoundChunk = tuple[int, ContextChunk]
"""A chunk with the number of its section in the index."""
NO_ROOM = "the budget has no room for a single line: ask with a larger one"


def build_context(
    workspace: Workspace,
    params: ContextParams,
    config: Config,
    options: RunOptions = DEFAULT_OPTIONS,
) -> ContextAnswer:
    """Build a block from a workspace's notes. Raises what `search` raises."""
    question = make_question(params, config, options)
    today = find_local_day(options.now_s)
    has_words = bool(extract_filters(params.query, today)[1].strip())
    timeout_s = options.limit_s(params, config)
    budget = Budget(max_tokens=params.max_tokens, max_bytes=params.max_bytes)
    n_unranked = n_empty = 0
    with workspace.acquire(timeout_s) as reader:
        if has_words:
            found = _find_matching(reader, workspace, question, budget, config, options.now_s)
            chunks, n_unranked = found
        else:
            chunks, n_empty = _find_start_chunks(reader, workspace, question, budget, config)
        block = _build_block([chunk for _, chunk in chunks], budget, params, config)
        included = _read_included(reader, chunks, block, config, options.now_s)
    if block.text or chunks:
        why_empty = None if block.text else NO_ROOM
        return _make_answer(workspace, block, included, n_unranked, why_empty=why_empty)
    why_empty = (
        explain_nothing([workspace], question, timeout_s).why
        if has_words
        else _explain_empty_start(workspace, question.filters, n_empty)
    )
    return _make_answer(workspace, block, [], 0, why_empty=why_empty)


def _build_block(
    chunks: Sequence[ContextChunk], budget: Budget, params: ContextParams, config: Config
) -> ContextBlock:
    heading = " ".join(params.heading.split())
    block = build_context_block(chunks, budget, heading=heading)
    # At the start of a session nobody has asked for what is quoted.
    is_marked = params.mark or not params.query.strip()
    if not (is_marked and config.guard.has_instructions):
        return block
    # The patterns are compiled when they are needed first.
    from memsyncd.core.guard.injection import describe_injections

    warning = describe_injections(block.text)
    if not warning:
        return block
    # The mark takes its room from the notes, so that the whole keeps within the budget.
    mark = mark_warning(warning, "a note quoted below")
    return build_context_block(chunks, budget, heading=f"{heading}\n\n{mark}".lstrip())


def _make_answer(
    workspace: Workspace,
    block: ContextBlock,
    included: list[ContextPart],
    n_unranked: int,
    *,
    why_empty: str | None,
) -> ContextAnswer:
    return ContextAnswer(
        workspace=workspace.id,
        text=block.text,
        tokens=block.n_tokens,
        included=included,
        left_out=[
            LeftOutPart(**_describe_place(part), kind=part.chunk.kind) for part in block.omitted
        ],
        unranked=n_unranked,
        why_empty=why_empty,
    )


def _read_included(
    reader: Reader, chunks: Sequence[FoundChunk], block: ContextBlock, config: Config, now_s: float
) -> list[ContextPart]:
    """Describe what the block includes, with metadata, which is read of these sections alone."""
    ids = {chunk.anchor: section for section, chunk in chunks}
    shown = {ids[part.chunk.anchor] for part in block.included}
    sections, kinds = read_redacted_sections(reader, shown, config), config.kinds
    return [
        ContextPart(
            **_describe_place(part),
            **describe_meta(sections[ids[part.chunk.anchor]], kinds, now_s),
        )
        for part in block.included
    ]


def _describe_place(part: ContextLines) -> dict[str, Any]:
    return {
        "anchor": part.chunk.anchor,
        "path": part.chunk.path,
        "start_line": part.span.start,
        "end_line": part.span.end,
        "heading": list(part.chunk.heading),
        "reason": part.reason,
    }


# --- for a query --------------------------------------------------------------------------------


def _find_matching(
    reader: Reader,
    workspace: Workspace,
    question: Question,
    budget: Budget,
    config: Config,
    now_s: float,
) -> tuple[list[FoundChunk], int]:
    """Return the best of the matching lines, and how many chunks match beyond those ranked."""
    if question.is_empty:
        return [], 0
    limit = max(N_CONTEXT_CANDIDATES, budget.max_tokens // MIN_CHUNK_TOKENS)
    ranking = replace(DEFAULT_RANKING, note=NOTE_FACTOR * DEFAULT_RANKING.note)
    ranked = rank(reader, workspace, question, config, now_s, limit=limit, ranking=ranking)
    n_chunks = workspace.condition.counts.chunks
    match = compile_query(question.query.relaxed or question.query)
    n_matching = count_matches(reader, match, question.filters, most=n_chunks) if match else 0
    chunks = _read_chunks(reader, [(one.candidate, MATCH) for one in ranked], config)
    passages = [
        ScoredPassage(chunk=chunk, raw_score=one.raw_score)
        for (_, chunk), one in zip(chunks, ranked, strict=True)
    ]
    score = _make_line_scorer(reader, question.query, n_chunks)
    ids = {chunk.anchor: section for section, chunk in chunks}
    selected = [(ids[chunk.anchor], chunk) for chunk in select_passages(passages, score)]
    return selected, max(0, n_matching - len(ranked))


def _make_line_scorer(reader: Reader, query: Query, n_chunks: int) -> Callable[[str], float]:
    """Make the function that scores lines by the query's words in them."""
    matches = [compile_term(term) for term in query.positive]
    counts = count_matching(reader, matches, most=n_chunks)
    matcher = Matcher(make_patterns(reader, query, find_families(reader, query, n_chunks)))
    rarities = [compute_rarity(n_chunks, min(count, n_chunks)) for count in counts]

    def score(text: str) -> float:
        found = matcher.find(reader.tokenize(text))
        subwords = find_subwords(text)
        in_subwords = matcher.find(reader.tokenize(subwords)) if subwords else {}
        return score_lines(text, {**dict.fromkeys(in_subwords, ()), **found}, rarities)

    return score


# --- for the start of a session -----------------------------------------------------------------


def _find_start_chunks(
    reader: Reader, workspace: Workspace, question: Question, budget: Budget, config: Config
) -> tuple[list[FoundChunk], int]:
    """Return the chunks of a session start, and how many say nothing and are left out."""
    kinds = {name: kind.importance for name, kind in config.kinds.items()}
    important = {name: one for name, one in kinds.items() if one >= PINNED_IMPORTANCE}
    found = find_start_chunks(reader, question.filters, important)
    visible = [chunk for chunk in found if (workspace.id, chunk.path) not in question.absent]
    read = _read_chunks(reader, [(chunk, chunk.reason) for chunk in visible], config)
    chunks = {start.chunk: chunk for start, chunk in zip(visible, read, strict=True)}
    parents = {
        (chunk.path, chunk.heading[:depth])
        for _, chunk in read
        for depth in range(len(chunk.heading))
    }
    # Chunks without information must not take room from others.
    useful = [start for start in visible if _is_informative(chunks[start.chunk][1], parents)]
    ordered = order_start_chunks(useful, max_tokens=budget.max_tokens)
    placed = [
        (start.section, replace(chunks[start.chunk][1], place=find_start_place(start)))
        for start in ordered
    ]
    return placed, len(visible) - len(useful)


def _is_informative(chunk: ContextChunk, parents: Collection[tuple[str, tuple[str, ...]]]) -> bool:
    """False for a note's front matter, for the unchanged text of a first note, and for a heading
    alone that the labels of its sub-sections show too (`parents`: paths and headings).
    """
    lines = chunk.text.rstrip().split("\n")
    if is_first_text(chunk.path, chunk.span.start, lines):
        return False
    is_delimited = len(lines) > 1 and lines[-1].rstrip() in ("---", "...")
    if chunk.span.start == 1 and lines[0].startswith("---") and is_delimited:
        return False
    is_heading = bool(chunk.heading) and count_title_lines(lines, chunk.heading[-1]) == len(lines)
    return not (is_heading and (chunk.path, chunk.heading) in parents)


def _explain_empty_start(workspace: Workspace, filters: Filters, n_empty: int) -> str:
    if n_empty and filters.is_empty:
        return "memory has only headings and first notes yet: add what is worth knowing"
    if not workspace.condition.counts.files:
        return explain_empty_index(workspace)
    if not filters.is_empty:
        return f"there are notes, and the filters ({', '.join(filters.words)}) leave none of them"
    return (
        "all that is indexed is archived or was deleted just now:"
        " ask with is:archived for the archive"
    )


# --- chunks -------------------------------------------------------------------------------------


def _read_chunks(
    reader: Reader, chosen: Sequence[tuple[Candidate | StartChunk, str]], config: Config
) -> list[FoundChunk]:
    sections = {chunk.section for chunk, _ in chosen}
    blanks = count_blank_lines_before(reader, sections)
    titles = read_redacted_titles(reader, sections, config)
    texts = read_redacted_texts(reader, [chunk for chunk, _ in chosen], config)
    return [
        (
            chunk.section,
            ContextChunk(
                path=chunk.path,
                anchor=titles[chunk.section].anchor,
                heading=titles[chunk.section].heading,
                kind=titles[chunk.section].kind,
                span=chunk.span,
                text=texts[chunk.chunk],
                reason=reason,
                n_blanks_before=blanks.get(chunk.chunk, 0),
            ),
        )
        for chunk, reason in chosen
    ]
