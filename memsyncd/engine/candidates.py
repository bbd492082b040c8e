"""Find the chunks of one workspace that match a query: what a search and a context rank.

On a large index the rarest words select. Words that are related to those of the query are looked up
as well, and phrases that a sentence quotes count as words where too few chunks have them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

from memsyncd.config import Config
from memsyncd.core.search.federation import TermCounts
from memsyncd.core.search.passages import ALL_WORDS, NO_STEMS, VERBATIM, RunFinder, TermPattern
from memsyncd.core.search.query import (
    Form,
    Query,
    Term,
    choose_rarest,
    compile_positive,
    compile_selection,
    compile_spellings,
    compile_term,
    drop_terms,
    read_plain_text,
)
from memsyncd.core.search.ranking import (
    DEFAULT_RANKING,
    NO_CHUNKS,
    NO_COSINES,
    NO_GAINS,
    NO_SEMANTIC_GAINS,
    ChunkRow,
    FoundChunks,
    Ranked,
    RankingPolicy,
    SemanticGains,
    apply_boosts,
    apply_factors,
    bound_exact_ratio,
    compute_semantic_gains,
    fill_ranked,
    fit_policy,
    rank_candidates,
)
from memsyncd.core.search.words import K1, IdentifierMatcher, compute_idf, is_unspaced
from memsyncd.engine.clock import find_local_day
from memsyncd.engine.explain import Question
from memsyncd.engine.redaction import read_redacted_chunks
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NotFresh
from memsyncd.operations.semantic.declare import SemanticState
from memsyncd.semantic import PendingCosines
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    MAX_SORTED,
    FoundFamily,
    count_matching,
    find_candidates,
    find_exact,
    find_filtered,
    find_rows,
    list_allowed,
    read_family,
    read_files,
    read_ranking_features,
)
from memsyncd.store.texts import read_texts

# From this size on a common word costs milliseconds: FTS5 ranks every chunk that contains it.
LARGE_INDEX_CHUNKS = 8_000
# On a large index, words in more than one of so many chunks are not looked for.
COMMON_SHARE = 10
# The rarest words of a question select chunks as long as they match so many together, or such a
# share of the index; see `choose_rarest`. Of the next ones, two have to occur together. With a
# tenth as many, the first five hits of 364 questions about 108,687 chunks hold a point less of the
# evidence; with these, the hits of 1,461 questions hold as much as with four times as many.
SELECTING_MATCHES = 5_000
SELECTING_SHARE = 20
MAX_PAIRED = 6
# Related words in more chunks, or in a larger share, say little and take long. The families of the
# rarest words are looked up; a word of more chunks finds enough by itself: with ten times as many,
# 2,221 questions hold as much evidence, and families take three times as long.
FAMILY_CHUNKS, FAMILY_SHARE = 150, 100
FAMILY_OWN_CHUNKS = 50
MAX_FAMILIES, MAX_FAMILIES_LARGE = 8, 3
# Names of code are looked for in the text of so many chunks, those that score most by their words.
IDENTIFIER_CHUNKS = 30
# Words with more matches together are looked for once, with all candidates: passing over their
# matches takes longer than the scores of some hundred chunks.
MAX_READ_TWICE = 2_500
# If fewer are selected, four times as many matches may be, then all words select.
ENOUGH_SELECTED = 200
# Matches of all terms together, and terms. A search for more takes longer than a hurried search
# may, more often than not.
MAX_HURRIED_MATCHES = 2_000
MAX_HURRIED_TERMS = 8
HURRIED = "there is more to look up than a hurried search may"


def rank(
    reader: Reader,
    workspace: Workspace,
    asked: AskedQuestion,
    config: Config,
    now_s: float,
    *,
    limit: int,
) -> tuple[list[Ranked], UsedVectors]:
    """Rank the chunks of one workspace that match, unjoined, best first: the best `limit`, and some
    that vectors found.
    """
    ranked, vectors = _rank_one(reader, workspace, asked, config, now_s, limit)
    if asked.relaxed is None or len(ranked) >= limit:
        return ranked, vectors
    more, vectors = _rank_one(reader, workspace, asked.relaxed, config, now_s, limit)
    return fill_ranked(ranked, more), vectors


def _rank_one(
    reader: Reader,
    workspace: Workspace,
    asked: AskedQuestion,
    config: Config,
    now_s: float,
    limit: int,
) -> tuple[list[Ranked], UsedVectors]:
    query = asked.question.query
    matched = find_visible(reader, workspace, asked, limit)
    boost = make_boost(reader, matched.chunks, config, now_s, query.identifiers)
    ranking = fit_policy(asked.ranking, matched.chunks)
    ranked = rank_candidates(matched.chunks.make_candidates(), query.days, ranking)
    return boost(ranked) if boost else ranked, matched.vectors


class MatchedChunks(NamedTuple):
    """The chunks that match a query, how many match each term as far as that was counted, the
    families of words by the index of their term, and the use of vectors.
    """

    chunks: FoundChunks
    counts: Mapping[Term, int]
    families: Mapping[int, FoundFamily]
    vectors: UsedVectors


def find_visible(
    reader: Reader, workspace: Workspace, asked: AskedQuestion, limit: int
) -> MatchedChunks:
    """Find the chunks of one workspace that match, without those of notes that are absent."""
    n_chunks = workspace.condition.counts.chunks
    question, vectors = asked.question, asked.vectors
    is_hurried = question.is_hurried
    counts = _count_terms(reader, question.query, n_chunks, is_hurried=is_hurried)
    families = find_families(reader, question.query, n_chunks)
    if is_hurried and sum(family.n_related for family in families.values()) > MAX_HURRIED_MATCHES:
        raise NotFresh(HURRIED)
    if counts and not families and not any(counts.values()):
        found = NO_CHUNKS
    else:
        found = _find_candidates(reader, question, n_chunks, limit, counts, families)
    found, runs = _find_runs(reader, question, found, n_chunks)
    if asked.pending is not None:
        found, vectors = _add_cosines(
            reader, workspace, found, question, asked.ranking, asked.pending
        )
    found = found.add_runs(runs)
    absent = {path for workspace_id, path in question.absent if workspace_id == workspace.id}
    if absent:
        files = found.read_files({row[1] for row in found.rows})
        found = found._replace(rows=[row for row in found.rows if files[row[1]][0] not in absent])
    return MatchedChunks(found, counts, families, vectors)


# --- words in a row -----------------------------------------------------------------------------

# The texts of so many chunks that score most by words are searched for runs. If none holds the
# question as it was typed, so many that hold all its words in a row are looked up.
RUN_CHUNKS, HOLDING_CHUNKS = 16, 100
# What a run of all words adds to a score, as a share of the highest score by words.
RUN_WEIGHT = 1.0
# What the exact word adds where the question has no other, as a share of the most that a word may
# score: more than what a passage with a relative of it may get from its note and from the passages
# beside it.
WORD_WEIGHT = 2.0


def _find_runs(
    reader: Reader, question: Question, found: FoundChunks, n_chunks: int
) -> tuple[FoundChunks, Mapping[int, float]]:
    """Return what was found, with chunks that hold the whole question in a row, and what chunks
    gain from words in a row, or from the one word of a question.
    """
    query = question.query
    finder = RunFinder(query.plain_text, [word for one in query.positive for word in one.words])
    if not (found.rows and query.positive):
        return found, NO_GAINS
    strongest = _find_strongest(found.rows)
    most, counted, gains = strongest[0][6], dict[int, float](), dict[int, float]()
    if len(finder.words) > 1:
        found, counted = _count_runs(reader, question, found, finder, _leave_out_tied(strongest))
    [term, *others] = query.positive
    if not others and term.form is Form.WORD and len(term.words) == 1:
        # After the runs, because it reads the exact words of all that was found.
        found, holding = _find_exact(reader, question, found)
        [n_matching] = count_matching(reader, [question.match], most=n_chunks)
        gains = dict.fromkeys(holding, WORD_WEIGHT * (K1 + 1) * compute_idf(n_chunks, n_matching))
        # The exact form of a common word may be rare: then it scores more than its stem.
        most += DEFAULT_RANKING.exact * max((found.exact or NO_GAINS).values(), default=0.0)
    for chunk, run in counted.items():
        if run > 0.0:
            gains[chunk] = gains.get(chunk, 0.0) + RUN_WEIGHT * most * run
    return found, gains


def _count_runs(
    reader: Reader,
    question: Question,
    found: FoundChunks,
    finder: RunFinder,
    strongest: Sequence[int],
) -> tuple[FoundChunks, dict[int, float]]:
    """Return what was found, with chunks that hold the whole question in a row, and what runs count
    in the strongest chunks and in these.
    """
    counted = _measure_runs(reader, finder, strongest)
    if max(counted.values(), default=0.0) < VERBATIM:
        holding = find_exact(reader, f'text : "{" ".join(finder.words)}"', most=HOLDING_CHUNKS)
        found = _add_rows(reader, question, found, holding)
        signs = _measure_runs(reader, finder, holding) if len(holding) <= RUN_CHUNKS else {}
        # The index folds accents as well, so it has the last word.
        counted |= {chunk: max(ALL_WORDS, signs.get(chunk, 0.0)) for chunk in holding}
    return found, counted


def _find_exact(
    reader: Reader, question: Question, found: FoundChunks
) -> tuple[FoundChunks, Sequence[int]]:
    """Return what was found, with chunks that hold the one word of a question itself, and these."""
    holding = find_exact(reader, question.match, most=HOLDING_CHUNKS)
    if holding:
        found = _add_rows(reader, question, found, holding)
    else:  # it is in none, or in many
        found = found._replace(exact=found.read_exact([row[0] for row in found.rows]))
        holding = [*(found.exact or ())]
    return found, holding


def _find_strongest(rows: Sequence[ChunkRow]) -> list[ChunkRow]:
    """Return the rows that score most, one more than RUN_CHUNKS, the strongest first."""
    # Most rows are in this order already.
    return sorted(rows, key=itemgetter(6), reverse=True)[: RUN_CHUNKS + 1]


def _leave_out_tied(strongest: Sequence[ChunkRow]) -> list[int]:
    """Return the chunks of RUN_CHUNKS rows, without the last if others that are left out score the
    same: which of these come first depends on the order in which notes were indexed.
    """
    least = strongest[-1][6] if len(strongest) > RUN_CHUNKS else -math.inf
    return [row[0] for row in strongest if row[6] > least]


def _measure_runs(reader: Reader, finder: RunFinder, chunks: Sequence[int]) -> dict[int, float]:
    texts = read_texts(reader, chunks) if chunks else {}
    return {chunk: finder.measure(text) for chunk, text in texts.items()}


def _add_rows(
    reader: Reader, question: Question, found: FoundChunks, chunks: Sequence[int]
) -> FoundChunks:
    """Add the rows of those of `chunks` that are not among what was found and pass the filters."""
    more = [*{*chunks} - {row[0] for row in found.rows}] if chunks else []
    if not more:
        return found
    rows = find_rows(reader, more, question.filters, question.must_not)
    scores = found.read_stems(more)
    return found._replace(
        rows=[*found.rows, *((*row[:6], scores.get(row[0], 0.0)) for row in rows)]
    )


# --- vectors ------------------------------------------------------------------------------------

# So many of the chunks nearest to a question are candidates, besides those with its words. Three
# times as many find as much: R@5 of chats 0.866, of documents 0.725 and 0.795 (0.724 and 0.789).
N_NEAREST = 100
# A chunk without any word of the question is found from this cosine on: that of unrelated texts is
# lower, or for some models all are higher. A single line that is shorter is a heading alone.
LEAST_COSINE, LEAST_TOKENS = 0.1, 16
# Of the time of a request, what waiting for its cosines may take; `[semantic] question_ms` is less.
VECTORS_SHARE = 0.5


class UsedVectors(NamedTuple):
    """How a search used vectors: whether the answer covers all chunks, how many have none yet, why
    it is so unless semantic search is switched off, the cosines of chunks, and what they gain.
    """

    state: SemanticState = "off"
    pending: int = 0
    reason: str = ""
    cosines: Mapping[int, float] = NO_COSINES
    gains: SemanticGains = NO_SEMANTIC_GAINS


NO_VECTORS = UsedVectors()


class AskedQuestion(NamedTuple):
    """A question with the policy that ranks its chunks, and the relaxed question if it has one.

    `pending` while it is being embedded; else `vectors` tells how vectors are used without that.
    """

    question: Question
    ranking: RankingPolicy
    pending: PendingCosines | None
    vectors: UsedVectors
    relaxed: AskedQuestion | None


def uses_vectors(workspace: Workspace) -> bool:
    """True if questions about this workspace may wait for the vector process."""
    return workspace.vectors.status().state != "off"


def prepare_vectors(workspaces: Sequence[Workspace], text: str, now_s: float) -> bool:
    """Have a question embedded before a thread is free to search for it; never blocks. False if
    words alone answer it.
    """
    # The vector is kept for all of them.
    vectors = next((one.vectors for one in workspaces if uses_vectors(one)), None)
    question = read_plain_text(text, find_local_day(now_s)) if vectors else ""
    if vectors and question:
        vectors.prepare(question)
    return bool(question)


def begin_question(
    workspace: Workspace, question: Question, ranking: RankingPolicy
) -> AskedQuestion:
    """Begin the vectors of a question, and of the relaxed one, which may not be needed.

    To be called before a reader is acquired: vectors of an index that replaces that of the reader
    have the ids of other chunks.
    """
    pending, vectors = _begin_vectors(workspace, question, ranking)
    relaxed = question.relaxed
    return AskedQuestion(
        question,
        ranking,
        pending,
        vectors,
        begin_question(workspace, relaxed, ranking) if relaxed else None,
    )


def _begin_vectors(
    workspace: Workspace, question: Question, ranking: RankingPolicy
) -> tuple[PendingCosines | None, UsedVectors]:
    """Have the vector process embed a question while SQLite searches; not for filters alone, nor if
    semantic search is off.
    """
    is_open = workspace.readers is not None
    if not (ranking.semantic and question.match and is_open):
        return None, NO_VECTORS
    status = workspace.vectors.status()
    if status.state == "off":
        return None, UsedVectors(reason=(status.reason or "") if status.failed else "")
    return workspace.vectors.begin(question.query.plain_text), NO_VECTORS


def _add_cosines(
    reader: Reader,
    workspace: Workspace,
    found: FoundChunks,
    question: Question,
    ranking: RankingPolicy,
    pending: PendingCosines,
) -> tuple[FoundChunks, UsedVectors]:
    """Add to the scores of chunks what their vectors add, and the nearest chunks, with or without
    words of the question. Phrases that have to match stay so.
    """
    is_strict = bool(question.query.must)
    allowed = list_allowed(reader, question.filters, question.must_not)
    known = [row[0] for row in found.rows]
    end_s = time.monotonic() + VECTORS_SHARE * question.timeout_s
    pending.select(known, allowed, 0 if is_strict else N_NEAREST)
    # They are needed anyway, and the process is busy for longer.
    exact = {**found.read_exact(known)} if known else {}
    cosines = pending.finish(end_s)
    if cosines is None:
        return found._replace(exact=exact), UsedVectors(reason=pending.reason)
    near = [] if is_strict else [*cosines.of.keys() - known]
    stems = found.read_stems(near) if near else {}
    exact |= found.read_exact([*stems]) if stems else {}
    rows, wordless = _read_near(reader, found, question, near, cosines.of, stems)
    rows += found.rows
    status = workspace.vectors.status()
    # What each has by its stems; exact words are read later, of chunks that may be shown.
    lexical = {row[0]: row[6] * (1.0 + ranking.exact) for row in rows}
    gains = compute_semantic_gains(
        cosines.of,
        median=cosines.median,
        highest=cosines.highest,
        lexical=lexical,
        highest_lexical=max(lexical.values(), default=0.0),
        weight=ranking.semantic,
        coverage=1.0 - status.pending / max(1, status.total),
    )
    find_gain = gains.of.get
    found = found._replace(
        # By name: a slice and a sum of tuples take half as long again.
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
    return found, UsedVectors(state, status.pending, reason, cosines.of, gains)


def _read_near(
    reader: Reader,
    found: FoundChunks,
    question: Question,
    near: Sequence[int],
    cosines: Mapping[int, float],
    stems: Mapping[int, float],
) -> tuple[list[ChunkRow], frozenset[int]]:
    """Return the rows of chunks that their vectors found, and which of them have no word of the
    question.
    """
    rows, wordless = [], []
    for row in find_rows(reader, near, question.filters, question.must_not):
        chunk = row[0]
        lexical = stems.get(chunk, 0.0) + found.gains.get(chunk, 0.0)
        if lexical:
            rows.append((*row[:6], lexical))
        elif cosines[chunk] >= LEAST_COSINE and (row[3] != row[4] or row[5] >= LEAST_TOKENS):
            rows.append(row)
            wordless.append(chunk)
    return rows, frozenset(wordless)


def make_boost(
    reader: Reader,
    found: FoundChunks,
    config: Config,
    now_s: float,
    identifiers: Sequence[str],
) -> Callable[[Sequence[Ranked]], list[Ranked]] | None:
    """Return what boosts chunks among those found; None if nothing does."""
    factors = _compute_identifier_factors(reader, found, config, identifiers)
    if not config.search.has_boosts:
        return partial(apply_factors, name="identifier", factors=factors) if factors else None
    features = read_ranking_features(reader, [row[0] for row in found.rows])
    return lambda ranked: apply_factors(
        apply_boosts(ranked, features, config.search, config.kinds, now_s), "identifier", factors
    )


def _compute_identifier_factors(
    reader: Reader, found: FoundChunks, config: Config, identifiers: Sequence[str]
) -> dict[int, float]:
    """Return the factors of the best chunks whose code has names of the question, by chunk."""
    if not identifiers:
        return {}
    best = nlargest(IDENTIFIER_CHUNKS, found.rows, key=itemgetter(6))
    texts = read_redacted_chunks(reader, [row[0] for row in best], config)
    files, matcher = found.read_files({row[1] for row in best}), IdentifierMatcher(identifiers)
    factors: dict[int, float] = {}
    for chunk, file, *_, score in best:
        gain = matcher.compute_factor(texts.get(chunk, ""), files[file][0]) - 1.0
        if gain > 0.0:
            # Words in a row are no reason to count a name for more.
            share = 1.0 - found.runs.get(chunk, 0.0) / score if score > 0.0 else 1.0
            factors[chunk] = 1.0 + share * gain
    return factors


def find_exact_ratio(
    reader: Reader, query: Query, workspace: Workspace, counts: Mapping[Term, int]
) -> Callable[[], float] | None:
    """Return the function that bounds what exact words score; None for what has no such bound, and
    for words with so many matches that to count them and to read twice takes longer than to read
    the exact words of all candidates.

    A chunk holds no exact word more often than its stem, but some prefixes.
    """
    if any(term.form is Form.PREFIX for term in query.positive):
        return None
    if sum(counts.values()) > MAX_READ_TWICE:
        return None
    most = workspace.condition.counts.chunks
    matches = [one for term in query.positive for one in compile_spellings(term)]
    return lambda: bound_exact_ratio(
        most,
        count_matching(reader, matches, most=most),
        count_matching(reader, matches, most=most, is_exact=True),
    )


def count_terms(
    reader: Reader, query: Query, workspace: Workspace, gains: SemanticGains = NO_SEMANTIC_GAINS
) -> TermCounts:
    """Count the chunks of a workspace, and those that each term of the query matches. `gains` are
    those of the search whose hits are merged.
    """
    n_chunks = workspace.condition.counts.chunks
    matches = [compile_term(term) for term in query.positive]
    counts = tuple(count_matching(reader, matches, most=n_chunks))
    return TermCounts(n_chunks, counts, gains.spread, gains.unit)


def _count_terms(
    reader: Reader, query: Query, n_chunks: int, *, is_hurried: bool
) -> dict[Term, int]:
    """Count the matches of each term, on a small index of none, as far as it matters how many.

    Raises NotFresh if there is more to look up than a hurried search may.
    """
    most = n_chunks // COMMON_SHARE
    if is_hurried:
        if len(query.positive) > MAX_HURRIED_TERMS:
            raise NotFresh(HURRIED)
        most = MAX_HURRIED_MATCHES
    elif n_chunks < LARGE_INDEX_CHUNKS or len(query.positive) < 2:
        return {}
    matches = [compile_term(term) for term in query.positive]
    counts = count_matching(reader, matches, most=most + 1)
    if is_hurried and sum(counts) > most:
        raise NotFresh(HURRIED)
    return dict(zip(query.positive, counts, strict=True))


def _find_candidates(
    reader: Reader,
    question: Question,
    n_chunks: int,
    limit: int,
    counts: Mapping[Term, int],
    families: Mapping[int, FoundFamily],
) -> FoundChunks:
    query, filters, must_not = question.query, question.filters, question.must_not
    if not question.match:
        return find_filtered(reader, filters, must_not, limit=limit)
    # On a small index it takes less time to count the matches than to let SQLite sort them.
    uncounted = count_matching(reader, [question.match], most=MAX_SORTED + 1) if not counts else ()
    find = partial(
        find_candidates,
        limit=limit,
        must_not=must_not,
        families=families,
        is_filling=not query.must,
        n_matching=sum(counts.values()) + sum(uncounted),
    )
    if n_chunks >= LARGE_INDEX_CHUNKS and len(query.should) > 1:
        for rare, selecting in _find_rare(query, counts, n_chunks):
            found = find(reader, rare, filters, selecting=selecting)
            # Rare words may occur nowhere, or nowhere that passes the filters; then common words
            # decide.
            if len(found.rows) >= min(limit, ENOUGH_SELECTED) or (found.rows and not selecting):
                return found
    return find(reader, question.match, filters)


def find_families(reader: Reader, query: Query, n_chunks: int) -> dict[int, FoundFamily]:
    """Return the families of words that the index has, by the index of the term in the query.

    Of words and families in many chunks there is none: it says little and takes long to look up.
    """
    words = {
        index: (term.words[0], compile_spellings(term)[0])
        for index, term in enumerate(query.positive)
        if term.form is Form.WORD
        and len(term.words) == 1
        and not is_unspaced(term.words[0])
        # A name of code has no relatives.
        and term.words[0].lower() not in query.identifiers
    }
    most_families = MAX_FAMILIES if n_chunks < LARGE_INDEX_CHUNKS else MAX_FAMILIES_LARGE
    most_own, most_related = FAMILY_OWN_CHUNKS, max(FAMILY_CHUNKS, n_chunks // FAMILY_SHARE)
    # A word takes less time to count than its family to read: the rarest words come first.
    counts = count_matching(reader, [match for _, match in words.values()], most=most_own + 1)
    found: dict[int, FoundFamily] = {}
    for n_own, index in sorted(zip(counts, words, strict=True)):
        if n_own > most_own or len(found) == most_families:
            break
        family = read_family(reader, *words[index])
        if family and family.n_related <= most_related:
            found[index] = family._replace(n_own=n_own)
    return dict(sorted(found.items()))


def _find_rare(
    query: Query, counts: Mapping[Term, int], n_chunks: int
) -> Iterator[tuple[str, str]]:
    """Yield what to look for on a large index, and the words of it that select, if not all do.

    Words that more than a tenth of the chunks contain are left out. Of the others the rarest
    select chunks, and so do two of the next ones together; all of them rank.
    """
    common = {term for term in query.should if counts[term] > n_chunks // COMMON_SHARE}
    rare = drop_terms(query, common)
    expression = compile_positive(rare)
    most = max(SELECTING_MATCHES, n_chunks // SELECTING_SHARE)
    selections = [] if query.must else [_compile_selecting(rare, counts, most * n) for n in (1, 4)]
    for selecting in dict.fromkeys(filter(None, selections)):
        yield expression, selecting
    yield expression, ""


def _compile_selecting(query: Query, counts: Mapping[Term, int], most: int) -> str:
    """The expression for what the rarest words select, with about `most` matches; empty if it would
    not leave out most matches, since to select takes time, too.
    """
    chosen = choose_rarest(query.should, [counts[term] for term in query.should], most=most)
    if sum(map(counts.__getitem__, chosen)) > most:
        chosen = ()  # even the rarest word is frequent: two have to occur together
    others = sorted({*query.should} - {*chosen}, key=lambda term: (counts[term], term.text))
    if sum(map(counts.__getitem__, others)) <= sum(map(counts.__getitem__, chosen)):
        return ""
    return compile_selection(chosen, others[:MAX_PAIRED])


def make_patterns(
    reader: Reader, query: Query, families: Mapping[int, FoundFamily]
) -> list[TermPattern]:
    """Make the patterns of the terms that a query looks for, from their words as the index's
    tokenizer sees them.
    """
    patterns = []
    for index, term in enumerate(query.positive):
        words = reader.split(" ".join(term.words))
        related = families[index].stems if index in families else NO_STEMS
        spelling = tuple(reader.split(term.spelling)) if term.spelling else ()
        patterns.append(TermPattern(tuple(words), term.form is Form.PREFIX, related, spelling))
    return patterns
