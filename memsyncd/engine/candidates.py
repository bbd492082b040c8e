"""Find the chunks of a workspace that match a query, for a search or a context to rank.

The store finds them by their words; vectors add to their scores and find further chunks. Phrases
that a sentence quotes count as words if too few chunks have them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.search.federation import TermCounts
from memsyncd.core.search.passages import NO_STEMS, TermPattern
from memsyncd.core.search.plan import SearchPlan
from memsyncd.core.search.query import Form, Term, read_plain_text
from memsyncd.core.search.ranking import (
    FIRST_READ,
    NO_COSINES,
    NO_SEMANTIC_GAINS,
    ChunkRow,
    FoundChunks,
    Ranked,
    SemanticGains,
    apply_boosts,
    apply_factors,
    bound_exact_ratio,
    compute_semantic_gains,
    fill_ranked,
    rank_found,
)
from memsyncd.core.search.words import IdentifierMatcher
from memsyncd.engine.clock import find_local_day
from memsyncd.engine.redaction import read_redacted_chunks
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.semantic.declare import SemanticState
from memsyncd.semantic import PendingCosines
from memsyncd.store.candidates import match_words
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    FoundFamily,
    count_matching,
    find_rows,
    list_allowed,
    read_files,
    read_ranking_features,
)

# The number of chunks, the best by their words, whose texts are searched for names of code.
IDENTIFIER_CHUNKS = 30


class RankedChunks(NamedTuple):
    """The chunks that match, unjoined, the best first, and how they were found."""

    ranked: Sequence[Ranked]
    vectors: UsedVectors
    families: Mapping[int, FoundFamily]


class MatchedChunks(NamedTuple):
    """The chunks that match a query; the number of chunks per term, where it was counted; the
    families of words by the index of their term; and the use of vectors.
    """

    chunks: FoundChunks
    counts: Mapping[Term, int]
    families: Mapping[int, FoundFamily]
    vectors: UsedVectors


def rank(
    reader: Reader, workspace: Workspace, plan: SearchPlan, config: Config, *, limit: int
) -> RankedChunks:
    """Rank the matching chunks of a workspace, unjoined: the best `limit`, and some that vectors
    found, the best first.
    """
    strict = _rank_strictly(reader, workspace, plan, config, limit)
    if plan.relaxed is None or len(strict.ranked) >= limit:
        return strict
    more = _rank_strictly(reader, workspace, plan.relaxed, config, limit)
    return more._replace(ranked=fill_ranked(strict.ranked, more.ranked))


def _rank_strictly(
    reader: Reader, workspace: Workspace, plan: SearchPlan, config: Config, limit: int
) -> RankedChunks:
    matched = find_visible(reader, workspace, plan, limit)
    is_boosted = plan.is_boosted or plan.query.identifiers
    boost = make_boost(reader, matched.chunks, plan, config) if is_boosted else None
    ranked = rank_found(matched.chunks, plan.query.days, plan.ranking)
    return RankedChunks(boost(ranked) if boost else ranked, matched.vectors, matched.families)


def find_visible(
    reader: Reader, workspace: Workspace, plan: SearchPlan, limit: int
) -> MatchedChunks:
    """Find the chunks of one workspace that match, without the chunks of absent notes."""
    chunks, counts, families, runs = match_words(
        reader, plan, workspace.condition.counts.chunks, limit
    )
    vectors = UsedVectors(reason=plan.lexical_reason)
    if plan.pending is not None:
        chunks, vectors = _add_cosines(reader, workspace, chunks, plan)
    if runs:
        chunks = chunks.add_runs(runs)
    absent = {path for workspace_id, path in plan.absent if workspace_id == workspace.id}
    if absent:
        files = chunks.files or chunks.read_files({row[1] for row in chunks.rows})
        chunks = chunks._replace(
            rows=[row for row in chunks.rows if files[row[1]][0] not in absent]
        )
    return MatchedChunks(chunks, counts, families, vectors)


# --- vectors ------------------------------------------------------------------------------------

# The number of chunks nearest to a question that are candidates besides the chunks with its words.
# Three times as many find no more: R@5 is 0.866 for chats, 0.725 and 0.795 for documents (with this
# number 0.724 and 0.789).
N_NEAREST = 100
# The least cosine of a chunk without any word of the question. Cosines of unrelated texts are
# lower; with some models all cosines are higher. A single line with fewer tokens is only a heading.
LEAST_COSINE, LEAST_TOKENS = 0.1, 16
# The share of a request's time that waiting for cosines may take; `[semantic] question_ms` is less.
VECTORS_SHARE = 0.5


class UsedVectors(NamedTuple):
    """How a search used vectors: whether the answer covers all chunks, how many chunks have no
    vector yet, the reason unless semantic search is switched off, the cosines of chunks, and their
    gains.
    """

    state: SemanticState = "off"
    pending: int = 0
    reason: str = ""
    cosines: Mapping[int, float] = NO_COSINES
    gains: SemanticGains = NO_SEMANTIC_GAINS


NO_VECTORS = UsedVectors()


def uses_vectors(workspace: Workspace) -> bool:
    """True if questions about this workspace may wait for the vector process."""
    return workspace.vectors.status().state != "off"


def prepare_vectors(workspaces: Sequence[Workspace], text: str, now_s: float) -> bool:
    """Have a question embedded before a thread is free to search for it; never blocks. False if
    only words answer it.
    """
    # All workspaces share the vector.
    vectors = next((workspace.vectors for workspace in workspaces if uses_vectors(workspace)), None)
    question = read_plain_text(text, find_local_day(now_s)) if vectors else ""
    if vectors and question:
        vectors.prepare(question)
    return bool(question)


def begin_vectors(workspace: Workspace, plan: SearchPlan) -> SearchPlan:
    """Return the plan with pending cosines of its question, which are computed while SQLite
    searches; the relaxed plan has them, too. A plan of filters alone has no cosines, nor has a
    workspace where semantic search is off.

    Call this before a reader is acquired: the vectors of an index that replaces the reader's index
    have other chunk ids.
    """
    if not (plan.ranking.semantic and plan.match and workspace.readers is not None):
        return plan
    status = workspace.vectors.status()
    relaxed = plan.relaxed
    if status.state == "off":
        reason = (status.reason or "") if status.failed else ""
        if not reason:
            return plan
        relaxed = relaxed and replace(relaxed, lexical_reason=reason)
        return replace(plan, lexical_reason=reason, relaxed=relaxed)
    begin = workspace.vectors.begin
    pending = begin(plan.query.plain_text)
    relaxed = relaxed and replace(relaxed, pending=begin(relaxed.query.plain_text))
    return replace(plan, pending=pending, relaxed=relaxed)


def _add_cosines(
    reader: Reader, workspace: Workspace, candidates: FoundChunks, plan: SearchPlan
) -> tuple[FoundChunks, UsedVectors]:
    """Add the gains of vectors to the scores of chunks, and add the nearest chunks, with or without
    words of the question. Phrases that must match still must.

    Filters limit the chunks that vectors find. The highest score by words is estimated from the
    stems, because exact words are read later.
    """
    pending: PendingCosines = plan.pending
    is_strict, weights = bool(plan.query.must), plan.ranking
    allowed = list_allowed(reader, plan.filters, plan.must_not)
    numbers = [row[0] for row in candidates.rows]
    end_s = time.monotonic() + VECTORS_SHARE * plan.timeout_s
    pending.select(numbers, allowed, 0 if is_strict else N_NEAREST)
    # Exact words are needed anyway, and the vector process is busy for longer.
    exact = {**candidates.read_exact(numbers)} if numbers else {}
    cosines = pending.finish(end_s)
    if cosines is None:
        return candidates._replace(exact=exact), UsedVectors(reason=pending.reason)
    nearest = [] if is_strict else [*cosines.of.keys() - numbers]
    stems = candidates.read_stems(nearest) if nearest else {}
    exact |= candidates.read_exact([*stems]) if stems else {}
    rows, wordless = _read_nearest(reader, candidates, plan, nearest, cosines.of, stems)
    rows += candidates.rows
    status = workspace.vectors.status()
    # Scores by stems; exact words are read later, for chunks that may be in the answer.
    lexical = {row[0]: row[6] * (1.0 + weights.exact) for row in rows}
    gains = compute_semantic_gains(
        cosines.of,
        median=cosines.median,
        highest=cosines.highest,
        lexical=lexical,
        highest_lexical=max(lexical.values(), default=0.0),
        weight=weights.semantic,
        coverage=1.0 - status.pending / max(1, status.total),
    )
    find_gain = gains.of.get
    candidates = candidates._replace(
        # A slice and a sum of tuples would take half as long again.
        rows=[
            (chunk, file, section, start, end, n_tokens, score + find_gain(chunk, 0.0))
            for chunk, file, section, start, end, n_tokens, score in rows
        ],
        read_files=partial(read_files, reader),
        semantic=gains.of,
        wordless=wordless,
        exact=exact,
    )
    is_partial = status.pending > 0 or status.failed
    state: SemanticState = "partial" if is_partial else "ready"
    reason = (status.reason or "") if is_partial else ""
    if status.pending and not status.failed:
        chunks = "chunk has" if status.pending == 1 else "chunks have"
        reason = f"{status.pending:,} {chunks} no vector yet, so only their words find them"
    return candidates, UsedVectors(state, status.pending, reason, cosines.of, gains)


def _read_nearest(
    reader: Reader,
    candidates: FoundChunks,
    plan: SearchPlan,
    nearest: Sequence[int],
    cosines: Mapping[int, float],
    stems: Mapping[int, float],
) -> tuple[list[ChunkRow], frozenset[int]]:
    """Return the rows of the chunks that vectors found, and the chunks among them without a word of
    the question.
    """
    rows, wordless = [], []
    for row in find_rows(reader, nearest, plan.filters, plan.must_not):
        chunk = row[0]
        lexical = stems.get(chunk, 0.0) + candidates.gains.get(chunk, 0.0)
        if lexical:
            rows.append((*row[:6], lexical))
        elif cosines[chunk] >= LEAST_COSINE and (row[3] != row[4] or row[5] >= LEAST_TOKENS):
            rows.append(row)
            wordless.append(chunk)
    return rows, frozenset(wordless)


# --- boosts --------------------------------------------------------------------------------------


def make_boost(
    reader: Reader, chunks: FoundChunks, plan: SearchPlan, config: Config
) -> Callable[[Sequence[Ranked]], list[Ranked]] | None:
    """Return the function that boosts the found chunks; None if no boost applies."""
    if not (plan.is_boosted or plan.query.identifiers):
        return None
    factors = _compute_identifier_factors(reader, chunks, config, plan.query.identifiers)
    if not plan.is_boosted:
        return partial(apply_factors, name="identifier", factors=factors) if factors else None
    features = read_ranking_features(reader, [row[0] for row in chunks.rows])
    return lambda ranked: apply_factors(
        apply_boosts(ranked, features, config.search, config.kinds, plan.now_s),
        "identifier",
        factors,
    )


def _compute_identifier_factors(
    reader: Reader, chunks: FoundChunks, config: Config, identifiers: Sequence[str]
) -> dict[int, float]:
    """Return the factors of the best chunks whose code has names of the question, by chunk."""
    if not identifiers:
        return {}
    best = nlargest(IDENTIFIER_CHUNKS, chunks.rows, key=itemgetter(6))
    texts = read_redacted_chunks(reader, [row[0] for row in best], config)
    files, matcher = chunks.read_files({row[1] for row in best}), IdentifierMatcher(identifiers)
    factors: dict[int, float] = {}
    for chunk, file, *_, score in best:
        gain = matcher.compute_factor(texts.get(chunk, ""), files[file][0]) - 1.0
        if gain > 0.0:
            # A name multiplies only the part of the score that is not from words in a row.
            share = 1.0 - chunks.runs.get(chunk, 0.0) / score if score > 0.0 else 1.0
            factors[chunk] = 1.0 + share * gain
    return factors


# --- counts for the ranking ----------------------------------------------------------------------

# If all words together have more matches than this, exact words are read once, for all candidates:
# passing over the matches takes longer than the scores of some hundred chunks.
MAX_READ_TWICE = 2_500


def make_exact_bound(
    reader: Reader, workspace: Workspace, plan: SearchPlan, matched: MatchedChunks
) -> Callable[[], float] | None:
    """Return the function that bounds the scores of exact words. None for plans without such a
    bound, for few chunks, and for words with very many matches: counting these and reading twice
    takes longer than reading the exact words of all candidates.

    A chunk holds no exact word more often than its stem; for a prefix this may be false.
    """
    chunks = matched.chunks
    if chunks.exact is not None or len(chunks.rows) <= FIRST_READ:
        return None
    if any(planned.term.form is Form.PREFIX for planned in plan.terms):
        return None
    if sum(matched.counts.values()) > MAX_READ_TWICE:
        return None
    most = workspace.condition.counts.chunks
    matches = [match for planned in plan.terms for match in planned.spellings]
    return lambda: bound_exact_ratio(
        most,
        count_matching(reader, matches, most=most),
        count_matching(reader, matches, most=most, is_exact=True),
    )


def count_terms(
    reader: Reader, plan: SearchPlan, workspace: Workspace, gains: SemanticGains = NO_SEMANTIC_GAINS
) -> TermCounts:
    """Count the chunks of a workspace, and the chunks that match each term of the plan. `gains` are
    the gains of the search whose hits are merged.
    """
    n_chunks = workspace.condition.counts.chunks
    matches = [planned.match for planned in plan.terms]
    counts = tuple(count_matching(reader, matches, most=n_chunks))
    return TermCounts(n_chunks, counts, gains.spread, gains.unit)


NO_FOUND_FAMILIES: Mapping[int, FoundFamily] = {}


def make_patterns(
    reader: Reader, plan: SearchPlan, families: Mapping[int, FoundFamily] = NO_FOUND_FAMILIES
) -> list[TermPattern]:
    """Make the patterns of a plan's terms, from their words by the index's tokenizer."""
    words = reader.split_all([planned.words for planned in plan.terms])
    spellings = reader.split_all([planned.spelling for planned in plan.terms])
    return [
        TermPattern(
            tuple(words[index]),
            planned.form is Form.PREFIX,
            families[index].stems if index in families else NO_STEMS,
            tuple(spellings[index]),
        )
        for index, planned in enumerate(plan.terms)
    ]
