"""Find the chunks of an index that match the words of a plan, with their scores by words.

On a large index the rarest words select chunks. Words that are related to the words of the query
are looked up as well, and so are chunks that hold the words of the query in a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from memsyncd.core.search.passages import ALL_WORDS, VERBATIM, RunFinder, join_words
from memsyncd.core.search.plan import SearchPlan
from memsyncd.core.search.query import (
    Form,
    Query,
    Term,
    choose_rarest,
    compile_positive,
    compile_selection,
    drop_terms,
)
from memsyncd.core.search.ranking import (
    DEFAULT_RANKING,
    FIRST_READ,
    NO_CHUNKS,
    NO_GAINS,
    ChunkRow,
    FoundChunks,
)
from memsyncd.core.search.words import K1, compute_idf, make_families
from memsyncd.errors import NotFresh
from memsyncd.store.pool import ENTRY_BYTES, Reader
from memsyncd.store.search import (
    MAX_SORTED,
    FoundFamily,
    count_matching,
    find_candidates,
    find_exact,
    find_filtered,
    find_rows,
    read_family,
)
from memsyncd.store.texts import read_texts

# In an index of this size or more a common word takes milliseconds: FTS5 ranks each chunk with it.
LARGE_INDEX_CHUNKS = 8_000
# On a large index, a word is ignored if more chunks hold it than one in this number.
COMMON_SHARE = 10
# The rarest words of a question select chunks, as many words as match at most this number of chunks
# in total, or this share of the index; see `choose_rarest`. Two of the next words must occur
# together. With a tenth of these, the first five hits of 364 questions about 108,687 chunks hold a
# point less of the evidence; with four times as many, the hits of 1,461 questions hold no more.
SELECTING_MATCHES = 5_000
SELECTING_SHARE = 20
MAX_PAIRED = 6
# Related words in more chunks, or in a larger share, help little and take long. Families are looked
# up only for the rarest words; a word in more chunks finds enough by itself. With ten times as many
# chunks, the hits of 2,221 questions hold no more evidence, and families take three times as long.
# In a large index a share would be thousands of chunks, each of which is ranked.
FAMILY_CHUNKS, FAMILY_SHARE, MAX_FAMILY_CHUNKS = 150, 100, 600
FAMILY_OWN_CHUNKS = 50
MAX_FAMILIES, MAX_FAMILIES_LARGE = 8, 3
# If fewer chunks are selected, four times as many matches are allowed; if these are still too few,
# all words select.
ENOUGH_SELECTED = 200
# The most matches of all terms together, and the most terms, of a hurried search. With more, most
# searches take longer than a hurried search may.
MAX_HURRIED_MATCHES = 2_000
MAX_HURRIED_TERMS = 8
HURRIED = "there is more to look up than a hurried search may"


class MatchedWords(NamedTuple):
    """The chunks that match the words of a plan; the number of chunks per term, where it was
    counted; the families of words by the index of their term; and the gains from words in a row.
    """

    chunks: FoundChunks
    counts: Mapping[Term, int]
    families: Mapping[int, FoundFamily]
    runs: Mapping[int, float]


def match_words(reader: Reader, plan: SearchPlan, n_chunks: int, limit: int) -> MatchedWords:
    """Find the best `limit` chunks of an index of `n_chunks`. The gains from words in a row are not
    in their scores yet.

    Raises NotFresh if the plan is hurried and there is much to look up.
    """
    counts = _count_terms(reader, plan, n_chunks)
    families = find_families(reader, plan, n_chunks)
    n_related = sum([family.n_related for family in families.values()])
    if plan.is_hurried and n_related > MAX_HURRIED_MATCHES:
        raise NotFresh(HURRIED)
    if counts and not families and not any(counts.values()):
        candidates = NO_CHUNKS
    else:
        candidates = _find_chunks(reader, plan, n_chunks, limit, counts, families)
    candidates, runs = _find_runs(reader, plan, candidates, n_chunks, limit)
    if candidates.rows and plan.pending is None and len(candidates.rows) <= FIRST_READ:
        candidates = _read_rest(candidates)
    return MatchedWords(candidates, counts, families, runs)


def _read_rest(candidates: FoundChunks) -> FoundChunks:
    """Read at once all values that the ranking of a few chunks needs."""
    exact = candidates.exact
    if exact is None:
        exact = candidates.read_exact([row[0] for row in candidates.rows])
    files = candidates.read_files({row[1] for row in candidates.rows})
    return candidates._replace(exact=exact, files=files)


def _count_terms(reader: Reader, plan: SearchPlan, n_chunks: int) -> dict[Term, int]:
    """Count the matches of each term, as far as the ranking needs; none on a small index."""
    most = n_chunks // COMMON_SHARE
    if plan.is_hurried:
        if len(plan.terms) > MAX_HURRIED_TERMS:
            raise NotFresh(HURRIED)
        most = MAX_HURRIED_MATCHES
    elif n_chunks < LARGE_INDEX_CHUNKS or len(plan.terms) < 2:
        return {}
    counts = count_matching(reader, [planned.match for planned in plan.terms], most=most + 1)
    if plan.is_hurried and sum(counts) > most:
        raise NotFresh(HURRIED)
    return dict(zip([planned.term for planned in plan.terms], counts, strict=True))


def _find_chunks(
    reader: Reader,
    plan: SearchPlan,
    n_chunks: int,
    limit: int,
    counts: Mapping[Term, int],
    families: Mapping[int, FoundFamily],
) -> FoundChunks:
    if not plan.match:
        return find_filtered(reader, plan.filters, plan.must_not, limit=limit)
    # On a small index it takes less time to count the matches than to let SQLite sort them.
    most = n_chunks // COMMON_SHARE if counts else _choose_most(plan, n_chunks)
    n_each = [*counts.values()] or count_matching(reader, [plan.match], most=most + 1)
    find = partial(
        find_candidates,
        limit=limit,
        must_not=plan.must_not,
        families=families,
        is_filling=not plan.query.must,
        # Matches beyond the limit were not counted.
        n_matching=sum(n_each) if plan.is_hurried or max(n_each) <= most else math.inf,
    )
    if n_chunks >= LARGE_INDEX_CHUNKS and len(plan.query.should) > 1:
        for rare, selecting in _find_rare(plan.query, counts, n_chunks):
            candidates = find(reader, rare, plan.filters, selecting=selecting)
            # Rare words may be in no chunk that passes the filters; then common words decide.
            if len(candidates.rows) >= min(limit, ENOUGH_SELECTED) or (
                candidates.rows and not selecting
            ):
                return candidates
    return find(reader, plan.match, plan.filters)


def _choose_most(plan: SearchPlan, n_chunks: int) -> int:
    """Return up to how many the matches of a plan are counted, whose terms were not counted. The
    gain of a single word depends on the number of all its matches.
    """
    return max(MAX_SORTED, n_chunks) if _is_single_word(plan) else MAX_SORTED


def _is_single_word(plan: SearchPlan) -> bool:
    terms = [planned.term for planned in plan.terms]
    return len(terms) == 1 and terms[0].form is Form.WORD and len(terms[0].words) == 1


def find_families(reader: Reader, plan: SearchPlan, n_chunks: int) -> dict[int, FoundFamily]:
    """Return the families of words that the index has, by the index of the term in the plan.

    Words and families in many chunks have none: they say little and take long to look up.
    """
    words = {
        index: (planned.family_word, planned.spellings[0])
        for index, planned in enumerate(plan.terms)
        if planned.family_word
    }
    most_families = MAX_FAMILIES if n_chunks < LARGE_INDEX_CHUNKS else MAX_FAMILIES_LARGE
    share = min(n_chunks // FAMILY_SHARE, MAX_FAMILY_CHUNKS)
    most_own, most_related = FAMILY_OWN_CHUNKS, max(FAMILY_CHUNKS, share)
    # A word takes less time to count than its family to read: the rarest words come first.
    counts = count_matching(reader, [match for _, match in words.values()], most=most_own + 1)
    rarest = [
        (n_own, index)
        for n_own, index in sorted(zip(counts, words, strict=True))
        if n_own <= most_own
    ]
    stems = reader.split_all([words[index][0] for _, index in rarest])
    families: dict[int, FoundFamily] = {}
    for (n_own, index), planned in zip(rarest, make_families(stems), strict=True):
        if len(families) == most_families:
            break
        family = read_family(reader, planned, words[index][1])
        if family and family.n_related <= most_related:
            families[index] = family._replace(n_own=n_own)
    return dict(sorted(families.items()))


def _find_rare(
    query: Query, counts: Mapping[Term, int], n_chunks: int
) -> Iterator[tuple[str, str]]:
    """Yield queries for a large index, each with the expression that selects chunks, empty if all
    of its words select.

    Words that more than a tenth of the chunks contain are left out. The rarest of the others select
    chunks, and so do two of the next words together; all of them rank.
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
    """The expression for the chunks that the rarest words select, about `most`. It is empty if it
    would not leave out most matches, because selecting takes time, too.
    """
    chosen = choose_rarest(query.should, [counts[term] for term in query.should], most=most)
    if sum(map(counts.__getitem__, chosen)) > most:
        chosen = ()  # even the rarest word is frequent: two words have to occur together
    others = sorted({*query.should} - {*chosen}, key=lambda term: (counts[term], term.text))
    if sum(map(counts.__getitem__, others)) <= sum(map(counts.__getitem__, chosen)):
        return ""
    return compile_selection(chosen, others[:MAX_PAIRED])


# --- Words in a row -------------------------------------------------------------------------------

# The number of chunks, the best by words, whose texts are searched for runs. If none of them holds
# the question as typed, this many chunks that hold all its words in a row are looked up.
RUN_CHUNKS, HOLDING_CHUNKS = 16, 100
# The gain from a run of all words, as a share of the highest score by words.
RUN_WEIGHT = 1.0
# The gain from the exact word in a question of a single word, as a share of the highest score of a
# word. It is more than a passage with a related word may gain from its note and its neighbours.
WORD_WEIGHT = 2.0


def _find_runs(
    reader: Reader, plan: SearchPlan, candidates: FoundChunks, n_chunks: int, limit: int
) -> tuple[FoundChunks, Mapping[int, float]]:
    """Return the found chunks, with chunks that hold the whole question in a row, and the gains of
    chunks from words in a row, or from the single word of a question. All chunks of the question
    were found if they are fewer than `limit`.
    """
    if not (candidates.rows and plan.terms):
        return candidates, NO_GAINS
    strongest = _find_strongest(candidates.rows)
    most, counted, gains = strongest[0][6], dict[int, float](), dict[int, float]()
    if len(plan.finder.words) > 1:
        candidates, counted = _count_runs(reader, plan, candidates, _leave_out_tied(strongest))
    if _is_single_word(plan):
        # This follows the runs, because it reads the exact words of all found chunks.
        [n_matching] = count_matching(reader, [plan.match], most=n_chunks)
        if n_matching <= HOLDING_CHUNKS and len(candidates.rows) < limit:
            candidates, holding = _read_exact_word(candidates)
        else:
            candidates, holding = _find_exact_word(reader, plan, candidates)
            # The exact form of a common word may be rare: then it scores more than its stem.
            exact = (candidates.exact or NO_GAINS).values()
            most += DEFAULT_RANKING.exact * max(exact, default=0.0)
        gains = dict.fromkeys(holding, WORD_WEIGHT * (K1 + 1) * compute_idf(n_chunks, n_matching))
    for chunk, run in counted.items():
        if run > 0.0:
            gains[chunk] = gains.get(chunk, 0.0) + RUN_WEIGHT * most * run
    return candidates, gains


def _count_runs(
    reader: Reader,
    plan: SearchPlan,
    candidates: FoundChunks,
    strongest: Sequence[int],
) -> tuple[FoundChunks, dict[int, float]]:
    """Return the found chunks, with chunks that hold the whole question in a row, and the values of
    runs in the strongest chunks and in these.
    """
    counted = _measure_runs(reader, plan.finder, strongest)
    if max(counted.values(), default=0.0) < VERBATIM:
        holding = find_exact(reader, f'text : "{" ".join(plan.finder.words)}"', most=HOLDING_CHUNKS)
        candidates = _add_rows(reader, plan, candidates, holding)
        signs = _measure_runs(reader, plan.finder, holding) if len(holding) <= RUN_CHUNKS else {}
        # The index folds accents as well, so it has the last word.
        counted |= {chunk: max(ALL_WORDS, signs.get(chunk, 0.0)) for chunk in holding}
    return candidates, counted


def _find_exact_word(
    reader: Reader, plan: SearchPlan, candidates: FoundChunks
) -> tuple[FoundChunks, Sequence[int]]:
    """Return the found chunks, with chunks that hold exactly the single word of a question, and the
    numbers of these.
    """
    holding = find_exact(reader, plan.match, most=HOLDING_CHUNKS)
    if not holding:  # the word is in no chunk, or in many
        return _read_exact_word(candidates)
    return _add_rows(reader, plan, candidates, holding), holding


def _read_exact_word(candidates: FoundChunks) -> tuple[FoundChunks, Sequence[int]]:
    """Return the found chunks with their scores by exact words, and the numbers of the chunks that
    have one.
    """
    exact = candidates.read_exact([row[0] for row in candidates.rows])
    return candidates._replace(exact=exact), [*exact]


def _find_strongest(rows: Sequence[ChunkRow]) -> list[ChunkRow]:
    """Return the RUN_CHUNKS + 1 rows with the highest scores, the strongest first."""
    # Most rows are in this order already.
    return sorted(rows, key=itemgetter(6), reverse=True)[: RUN_CHUNKS + 1]


def _leave_out_tied(strongest: Sequence[ChunkRow]) -> list[int]:
    """Return the chunks of the first RUN_CHUNKS rows. Rows that tie with the next row are left out:
    which of them come first depends on the order in which notes were indexed.
    """
    least = strongest[-1][6] if len(strongest) > RUN_CHUNKS else -math.inf
    return [row[0] for row in strongest if row[6] > least]


def _measure_runs(reader: Reader, finder: RunFinder, chunks: Sequence[int]) -> dict[int, float]:
    def join(missing: Sequence[int]) -> dict[int, str]:
        return {chunk: join_words(text) for chunk, text in read_texts(reader, missing).items()}

    joined = reader.keep("joined", chunks, join, lambda words: ENTRY_BYTES + len(words))
    return finder.measure_all(joined, partial(read_texts, reader))


def _add_rows(
    reader: Reader, plan: SearchPlan, candidates: FoundChunks, chunks: Sequence[int]
) -> FoundChunks:
    """Add the rows of chunks that were not found yet and pass the filters."""
    more = [*{*chunks} - {row[0] for row in candidates.rows}] if chunks else []
    if not more:
        return candidates
    rows = find_rows(reader, more, plan.filters, plan.must_not)
    scores = candidates.read_stems(more)
    added = [(*row[:6], scores.get(row[0], 0.0)) for row in rows]
    return candidates._replace(rows=[*candidates.rows, *added])
