from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.config import SearchConfig
from memsyncd.core.editing.kinds import KindDefaults
from memsyncd.core.model import Span
from memsyncd.core.search import ranking
from memsyncd.core.search.dates import find_named_dates
from memsyncd.core.search.ranking import (
    DAY_S,
    DEFAULT_RANKING,
    MAX_BOOST,
    Candidate,
    FoundChunks,
    Passage,
    Ranked,
    RankingFeatures,
    RankingPolicy,
    SemanticGains,
    apply_boosts,
    bound_exact_ratio,
    compute_boosts,
    compute_semantic_gains,
    fit_policy,
    normalize_scores,
    rank_candidates,
    rank_passages,
)

# --- Fusion ---------------------------------------------------------------------------------------


COSINES = st.dictionaries(st.integers(1, 30), st.floats(-1, 1), max_size=12)
LEXICAL = st.floats(0, 60)
SEMANTIC_WEIGHTS = st.floats(0.05, 0.9)
MEDIANS = st.floats(-1, 0.5)


def compute(
    cosines: dict[int, float], median: float, most: float, weight: float = 0.4
) -> SemanticGains:
    highest = max(cosines.values(), default=median)
    return compute_semantic_gains(
        cosines, median=median, highest=highest, lexical={}, highest_lexical=most, weight=weight
    )


@given(cosines=COSINES, median=MEDIANS, most=LEXICAL)
def test_without_weight_or_without_cosines_nothing_is_gained(
    cosines: dict[int, float], median: float, most: float
) -> None:
    assert compute(cosines, median, most, weight=0.0).of == {}
    assert compute({}, median, most).of == {}


@given(cosines=COSINES, median=MEDIANS, most=LEXICAL, weight=SEMANTIC_WEIGHTS)
def test_a_gain_is_bounded_and_that_of_the_nearest_makes_its_share_of_the_sum(
    cosines: dict[int, float], median: float, most: float, weight: float
) -> None:
    gains = compute(cosines, median, most, weight)
    highest = gains.unit * weight / (1 - weight)
    assert all(0 < gain <= highest * (1 + 1e-9) for gain in gains.of.values())
    if gains.of:
        share = max(gains.of.values()) / (gains.unit + max(gains.of.values()))
        assert math.isclose(share, weight, rel_tol=1e-6)
        assert gains.unit == (most if most > 1e-9 else 1.0)


@given(cosines=COSINES, median=MEDIANS, most=LEXICAL, weight=SEMANTIC_WEIGHTS)
def test_the_nearer_gains_more_and_what_is_below_the_median_nothing(
    cosines: dict[int, float], median: float, most: float, weight: float
) -> None:
    gains = compute(cosines, median, most, weight).of
    for chunk, near in cosines.items():
        assert near > median or chunk not in gains
        for other, nearer in cosines.items():
            assert near > nearer or gains.get(chunk, 0.0) <= gains.get(other, 0.0)


@given(
    cosines=COSINES,
    lexical=st.dictionaries(st.integers(1, 30), LEXICAL, min_size=1, max_size=12),
    median=MEDIANS,
    weight=SEMANTIC_WEIGHTS,
    coverage=st.floats(0, 1),
)
def test_the_order_is_that_of_the_weighted_sum_of_both_parts(
    cosines: dict[int, float],
    lexical: dict[int, float],
    median: float,
    weight: float,
    coverage: float,
) -> None:
    most = max(lexical.values())
    highest = max(cosines.values(), default=median)
    assume(most > 0.01 and highest - median > 0.01)
    gains = compute_semantic_gains(
        cosines,
        median=median,
        highest=highest,
        lexical=lexical,
        highest_lexical=most,
        weight=weight,
        coverage=coverage,
    ).of

    def fuse(chunk: int) -> float:
        """Words count for a vector that is not made yet, and as far as few have one."""
        by_words = lexical.get(chunk, 0.0) / most
        nearest = by_words
        if chunk in cosines:
            nearest = coverage * max(0.0, (cosines[chunk] - median) / (highest - median))
            nearest += (1 - coverage) * by_words
        return (1 - weight) * by_words + weight * nearest

    for chunk in lexical.keys() | cosines.keys():
        score = lexical.get(chunk, 0.0) + gains.get(chunk, 0.0)
        assert math.isclose(score * (1 - weight) / most, fuse(chunk), rel_tol=1e-6, abs_tol=1e-9)


def test_the_weight_leaves_most_of_the_score_to_words() -> None:
    assert 0 < DEFAULT_RANKING.semantic < 0.5


# --- Raw scores -----------------------------------------------------------------------------------

# Each chunk by itself: other tests cover the shares of its note and its neighbours.
ALONE = RankingPolicy(exact=0.5, note=0.0, neighbour_bonus=0.0, day=0.4)


def make(
    chunk: int,
    start: int,
    end: int,
    *,
    stemmed: float = 5.0,
    exact: float = 0.0,
    file: int = 1,
    n_tokens: int = 50,
    day: str | None = None,
) -> Candidate:
    return Candidate(
        chunk=chunk,
        file=file,
        section=chunk,
        path=f"{file}.md",
        start_line=start,
        end_line=end,
        stemmed=stemmed,
        exact=exact,
        n_tokens=n_tokens,
        day=day,
    )


def rank(*candidates: Candidate, limit: int = 10, passage_tokens: int = 400) -> tuple[Passage, ...]:
    results = FoundChunks(
        [
            (c.chunk, c.file, c.section, c.start_line, c.end_line, c.n_tokens, c.stemmed)
            for c in candidates
        ],
        lambda _: {c.chunk: c.exact for c in candidates},
        lambda _: {c.file: (c.path, c.day) for c in candidates},
    )
    return rank_passages(results, (), ALONE, limit=limit, passage_tokens=passage_tokens)


def join_passages(
    ranked: Sequence[Ranked], *, limit: int, passage_tokens: int, apart: Collection[int] = ()
) -> tuple[Passage, ...]:
    """Join chunks that touch, the stronger absorbing the weaker, line by line; chunks of sections
    `apart` join only with chunks of their own section.
    """
    passages: list[Passage] = []
    sizes: list[float] = []
    lines_of = {
        chunk.candidate.chunk: (chunk.candidate.section, chunk.candidate.span) for chunk in ranked
    }
    for each in ranked:
        chunk = each.candidate
        lines = range(chunk.start_line, chunk.end_line + 1)
        for at, passage in enumerate(passages):
            span = passage.span
            if passage.best.candidate.file != chunk.file or not any(
                span.start - 2 <= line <= span.end + 2 for line in lines
            ):
                continue
            both = {passage.best.candidate.section, chunk.section}
            if len(both) > 1 and not both.isdisjoint(apart):
                continue
            fresh = [line for line in lines if not span.start <= line <= span.end]
            size = sizes[at] + chunk.n_tokens * len(fresh) / len(lines)
            if size <= passage_tokens or not fresh:
                passages[at] = Passage(
                    best=passage.best,
                    chunks=(*passage.chunks, chunk.chunk),
                    sections=(*passage.sections, chunk.section),
                    span=span.join(chunk.span),
                )
                sizes[at] = size
                break
        else:
            if len(passages) < limit:
                alone = Passage(
                    best=each, chunks=(chunk.chunk,), sections=(chunk.section,), span=chunk.span
                )
                passages.append(alone)
                sizes.append(chunk.n_tokens)
    return tuple(replace(passage, spans=join_spans(passage, lines_of)) for passage in passages)


def join_spans(passage: Passage, lines_of: Mapping[int, tuple[int, Span]]) -> dict[int, Span]:
    """The first and last line of each section of a passage, if it has several."""
    spans: dict[int, Span] = {}
    for section, span in (lines_of[chunk] for chunk in passage.chunks):
        spans[section] = spans[section].join(span) if section in spans else span
    return spans if len(spans) > 1 else {}


@st.composite
def candidate_lists(draw: st.DrawFn) -> list[Candidate]:
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(1, 3),
                st.integers(1, 40),
                st.integers(0, 6),
                st.floats(0, 30),
                st.integers(1, 200),
            ),
            max_size=25,
        )
    )
    return [
        make(number, start, start + more, stemmed=stemmed, file=file, n_tokens=n_tokens)
        for number, (file, start, more, stemmed, n_tokens) in enumerate(rows, 1)
    ]


# --- order ----------------------------------------------------------------------------------------


def test_equal_scores_order_by_path_and_line() -> None:
    passages = rank(
        make(1, 50, 51, file=2),
        make(2, 90, 91, file=1),
        make(3, 10, 11, file=2),
        make(4, 1, 2, file=1),
    )
    assert [passage.best.candidate.chunk for passage in passages] == [4, 2, 3, 1]


@given(candidate_lists(), st.randoms(use_true_random=False))
def test_the_order_in_which_candidates_come_does_not_matter(
    candidates: list[Candidate], shuffler: random.Random
) -> None:
    distinct = list(
        {
            (candidate.file, candidate.span, candidate.stemmed): candidate
            for candidate in candidates
        }.values()
    )
    shuffled = shuffler.sample(distinct, len(distinct))
    assert rank(*shuffled) == rank(*distinct)


@given(candidate_lists())
def test_scores_never_grow_on_the_way_down(candidates: list[Candidate]) -> None:
    raw_scores = [passage.best.raw_score for passage in rank(*candidates, limit=100)]
    assert raw_scores == sorted(raw_scores, reverse=True)


def test_exact_words_count_half_relative_to_their_stems() -> None:
    first, second = rank_candidates(
        [make(1, 1, 2, stemmed=4.0), make(2, 5, 6, stemmed=3.0, exact=4.0)], (), ALONE
    )
    assert (first.candidate.chunk, first.raw_score, second.raw_score) == (2, 5.0, 4.0)
    assert first.parts == {
        "stems": 3.0,
        "family": 0.0,
        "run": 0.0,
        "exact": 2.0,
        "note": 0.0,
        "beside": 0.0,
        "day": 1.0,
    }


def test_a_chunk_gains_by_the_best_of_its_note() -> None:
    weak, strong, other = (
        make(1, 1, 2, stemmed=4.0),
        make(2, 50, 51, stemmed=10.0),
        make(3, 1, 2, stemmed=5.0, file=2),
    )
    order = rank_candidates([weak, strong, other], (), RankingPolicy(note=0.2))
    assert [(chunk.candidate.chunk, chunk.raw_score) for chunk in order] == [
        (2, 12.0),
        (1, 6.0),
        (3, 6.0),
    ]


@pytest.mark.parametrize(("start", "gain"), [(4, 2.0), (5, 2.0), (6, 2.0), (7, 0.0), (1, 2.0)])
def test_a_chunk_gains_by_the_best_that_touches_it(start: int, gain: float) -> None:
    policy = RankingPolicy(note=0.0, neighbour_bonus=0.2)
    chunks = [
        make(1, 1, 4, stemmed=1.0),
        make(2, 1, 4, stemmed=3.0),
        make(3, start, 9, stemmed=10.0),
    ]
    parts = {
        candidate.candidate.chunk: candidate.parts["beside"]
        for candidate in rank_candidates(chunks, (), policy)
    }
    assert parts == pytest.approx({1: max(gain, 0.6), 2: max(gain, 0.2), 3: 0.6 if gain else 0.0})


def test_a_chunk_gains_nothing_by_another_note_or_by_chunks_without_the_words() -> None:
    chunks = [make(1, 1, 4), make(2, 2, 5, file=2), make(3, 3, 6, file=2, stemmed=-0.1)]
    parts = {
        candidate.candidate.chunk: candidate.parts["beside"]
        for candidate in rank_candidates(chunks, (), RankingPolicy())
    }
    assert parts == {1: 0.0, 2: 0.0, 3: 1.0}


def test_a_note_of_the_day_that_the_question_names_gains() -> None:
    candidates = [
        make(1, 1, 2, day="2023-05-07", file=1),
        make(2, 1, 2, day="2023-06-07", file=2),
        make(3, 1, 2, file=3),
    ]
    order = rank_candidates(candidates, find_named_dates("what was decided on 7 May 2023?"), ALONE)
    assert [(chunk.candidate.chunk, chunk.raw_score) for chunk in order] == [
        (1, 7.0),
        (2, 5.0),
        (3, 5.0),
    ]
    assert [candidate.candidate.chunk for candidate in rank_candidates(candidates, (), ALONE)] == [
        1,
        2,
        3,
    ]


@given(
    words=st.floats(0.1, 40),
    share=st.floats(0, 1),
    other=st.sampled_from([None, "2022-05-07", "2023-05-06", "2023-05-15"]),
)
def test_with_vectors_a_named_day_outweighs_the_highest_cosine(
    words: float, share: float, other: str | None
) -> None:
    policy = RankingPolicy()
    most = words * policy.semantic / (1 - policy.semantic)
    semantic = {1: most, 2: share * most}
    rows = [(at, at, at, 1, 2, 10, words + gain) for at, gain in semantic.items()]
    files = {1: ("a.md", other), 2: ("b.md", "2023-05-07")}
    candidates = FoundChunks(rows, lambda _: {}, lambda _: files, semantic=semantic)
    named = find_named_dates("7 May 2023")
    passages = rank_passages(candidates, named, policy, limit=2, passage_tokens=400)
    assert [passage.best.candidate.chunk for passage in passages] == [2, 1]


@pytest.mark.parametrize(("share", "first"), [(0.0, 1), (0.5, 2)])
def test_with_vectors_the_next_day_gains_half_so_much(share: float, first: int) -> None:
    rows = [(1, 1, 1, 1, 2, 10, 16.6), (2, 2, 2, 1, 2, 10, 10.0 + 6.6 * share)]
    files = {1: ("a.md", "2023-05-08"), 2: ("b.md", "2023-05-07")}
    candidates = FoundChunks(rows, lambda _: {}, lambda _: files, semantic={1: 6.6})
    named = find_named_dates("7 May 2023")
    passages = rank_passages(candidates, named, RankingPolicy(), limit=2, passage_tokens=400)
    assert passages[0].best.candidate.chunk == first
    words = rank_candidates(candidates.make_candidates(), named, RankingPolicy())
    assert words[0].candidate.chunk == 1


# --- scores ---------------------------------------------------------------------------------------


def test_a_score_is_the_share_of_the_first_times_the_share_of_words_held() -> None:
    assert normalize_scores([8.0, 4.0, 2.0], coverage=1.0) == (1.0, 0.5, 0.25)
    assert normalize_scores([8.0, 4.0], coverage=0.5) == (0.5, 0.25)
    assert normalize_scores([], coverage=1.0) == ()


@pytest.mark.parametrize("raw_scores", [[0.0], [0.000001, 0.0], [5.0, 0.0, -0.000001], [-0.5]])
def test_a_word_in_nearly_all_chunks_is_still_a_hit(
    raw_scores: list[float],
) -> None:
    assert all(score > 0 for score in normalize_scores(raw_scores, coverage=0.01))


@given(st.lists(st.floats(-1, 1e9), max_size=20), st.floats(0, 1))
def test_scores_lie_above_0_up_to_1_and_never_grow_on_the_way_down(
    raw_scores: list[float], coverage: float
) -> None:
    scores = normalize_scores(sorted(raw_scores, reverse=True), coverage=coverage)
    assert len(scores) == len(raw_scores)
    assert list(scores) == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


# --- joining --------------------------------------------------------------------------------------


def test_touching_chunks_of_a_note_become_one_passage_under_the_stronger() -> None:
    [passage] = rank(make(1, 1, 4, stemmed=3.0), make(2, 6, 9, stemmed=8.0))
    assert passage.best.candidate.chunk == 2
    assert {*passage.chunks} == {1, 2}
    assert passage.span == Span(1, 9)
    assert passage.best.raw_score == 8.0


@given(candidate_lists(), st.integers(10, 400))
def test_every_candidate_is_in_one_passage_of_its_own_note_that_spans_it(
    candidates: list[Candidate], passage_tokens: int
) -> None:
    passages = rank(*candidates, limit=100, passage_tokens=passage_tokens)
    placed = [chunk for passage in passages for chunk in passage.chunks]
    of_chunk = {candidate.chunk: candidate for candidate in candidates}
    assert sorted(placed) == sorted(of_chunk)
    for passage in passages:
        joined = [of_chunk[chunk] for chunk in passage.chunks]
        assert passage.sections == tuple(candidate.section for candidate in joined)
        assert {candidate.file for candidate in joined} == {passage.best.candidate.file}
        assert passage.span.start == min(candidate.span.start for candidate in joined)
        assert passage.span.end == max(candidate.span.end for candidate in joined)
        assert passage.best.candidate.stemmed == max(candidate.stemmed for candidate in joined)


# --- all in one -----------------------------------------------------------------------------------

POLICIES = st.builds(
    RankingPolicy,
    exact=st.floats(0, 2),
    note=st.floats(0, 1),
    neighbour_bonus=st.floats(0, 2),
    day=st.floats(0, 1),
)


@st.composite
def found_chunks(draw: st.DrawFn, exact_ratio: float = 10.0) -> FoundChunks:
    """Candidates of several notes, some of a day, with scores that often equal each other. None
    scores more by exact words than by stems times `exact_ratio`.
    """
    scores = st.sampled_from([0.0, 1.0, 2.0, 2.5, 9.0]) | st.floats(0, 30)
    shares = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1)
    files = {
        file: (f"{file % 3}-{file}.md", draw(st.none() | st.just("2023-05-07")))
        for file in range(1, 7)
    }
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(1, 6),
                st.integers(1, 30),
                st.integers(0, 6),
                st.integers(1, 200),
                scores,
                shares,
            ),
            max_size=30,
        )
    )
    exact: dict[int, float] = {}
    rows = []
    for chunk, (file, start, more, n_tokens, stemmed, share) in enumerate(drawn, 1):
        section = 10 * file + start // 8
        rows.append((chunk, file, section, start, start + more, n_tokens, stemmed))
        if share:
            exact[chunk] = share * exact_ratio * stemmed
    return FoundChunks(
        rows,
        lambda chunks: {chunk: exact[chunk] for chunk in chunks if chunk in exact},
        lambda some: {number: files[number] for number in some},
    )


@settings(max_examples=5 * settings().max_examples)
@given(
    st.sampled_from([0.5, 1.0, 3.0]).flatmap(
        lambda ratio: st.tuples(found_chunks(ratio), st.just(ratio))
    ),
    POLICIES,
    st.sampled_from(["", "7 May 2023"]),
    st.integers(1, 12),
    st.integers(10, 400),
    st.booleans(),
    st.sampled_from([1, 4, 128]),
    st.sampled_from([1, 2, 1000]),
)
def test_passages_are_those_of_reading_ranking_boosting_and_joining_everything(
    found_with_ratio: tuple[FoundChunks, float],
    policy: RankingPolicy,
    question: str,
    limit: int,
    passage_tokens: int,
    has_boosts: bool,
    first_read: int,
    apart_every: int,
) -> None:
    def boost(ranked: Sequence[Ranked]) -> list[Ranked]:
        return apply_boosts(ranked, features, SearchConfig(importance=0.1), KINDS, TODAY_S)

    candidates, ratio = found_with_ratio
    candidates = candidates._replace(
        find_apart=lambda ids: [number for number in ids if number % apart_every == 0]
    )
    features = {
        row[0]: RankingFeatures(importance=row[0] % 3 / 2, day=None, saved_s=0.0)
        for row in candidates.rows
    }
    named = find_named_dates(question)
    everything = rank_candidates(
        candidates.make_candidates(), named, fit_policy(policy, candidates)
    )
    slow = join_passages(
        boost(everything) if has_boosts else everything,
        limit=limit,
        passage_tokens=passage_tokens,
        apart=range(0, 1000, apart_every),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranking, "FIRST_READ", first_read)
        for find_ratio in (None, lambda: ratio, lambda: math.inf):
            fast = rank_passages(
                candidates,
                named,
                policy,
                limit=limit,
                passage_tokens=passage_tokens,
                find_exact_ratio=find_ratio,
                boost=boost if has_boosts else None,
            )
            assert fast == slow


def test_only_chunks_that_may_be_shown_are_read() -> None:
    read: list[int] = []

    def read_exact(chunks: Sequence[int]) -> dict[int, float]:
        read.extend(chunks)
        return {}

    rows = [(at, at, at, 1, 1, 10, 20.0 if at <= 20 else 1.0) for at in range(1, 601)]
    candidates = FoundChunks(
        rows, read_exact, lambda files: {file: (f"{file:03}.md", None) for file in files}
    )
    passages = rank_passages(
        candidates, (), RankingPolicy(), limit=10, passage_tokens=400, find_exact_ratio=lambda: 1.0
    )
    assert [passage.best.candidate.chunk for passage in passages] == [*range(1, 11)]
    assert len(read) == ranking.FIRST_READ


@given(
    st.integers(20, 1000).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(
                st.integers(1, n // 3).flatmap(
                    lambda stems: st.tuples(st.just(stems), st.integers(0, stems))
                ),
                min_size=1,
                max_size=4,
            ),
        )
    )
)
def test_the_bound_of_exact_words_holds_for_each_word(
    counts: tuple[int, list[tuple[int, int]]],
) -> None:
    n_chunks, words = counts
    ratio = bound_exact_ratio(n_chunks, [word[0] for word in words], [word[1] for word in words])
    for stems, exact in words:
        for n_times in (1, 3):
            saturated = 2.2 * n_times / (n_times + 1.2)
            by_stem = saturated * math.log((n_chunks - stems + 0.5) / (stems + 0.5))
            by_word = saturated * math.log((n_chunks - exact + 0.5) / (exact + 0.5)) if exact else 0
            assert by_word <= ratio * by_stem


# --- cutting --------------------------------------------------------------------------------------


def test_chunks_of_one_giant_line_are_one_passage_though_each_alone_is_too_large() -> None:
    (passage,) = rank(
        *(make(number, 3, 3, stemmed=number, n_tokens=16_384) for number in range(1, 20))
    )
    assert passage.span == Span(3, 3)
    assert len(passage.chunks) == 19


# --- Boosts ---------------------------------------------------------------------------------------

TODAY_S = 20_000 * DAY_S  # 2024-10-04
KINDS = {"decision": KindDefaults(".memories/decisions.md", 1.0)}
WEIGHTS = st.floats(0.0, 0.1)
LEANINGS = st.builds(
    SearchConfig,
    importance=WEIGHTS,
    recency=WEIGHTS,
    decay=WEIGHTS,
    half_life_days=st.floats(0.1, 36_500),
)
TRAITS = st.builds(
    RankingFeatures,
    importance=st.none() | st.floats(0, 1),
    day=st.none() | st.dates().map(lambda day: day.isoformat()),
    saved_s=st.floats(-2e9, 8e9),
)


def factors(
    boosts: SearchConfig,
    *,
    importance: float | None = None,
    day: str | None = None,
    age_days: float = 0,
) -> dict[str, float]:
    features = RankingFeatures(importance=importance, day=day, saved_s=TODAY_S - age_days * DAY_S)
    return {
        name: round(factor, 4)
        for name, factor in compute_boosts(features, boosts, KINDS, TODAY_S).items()
    }


@pytest.mark.parametrize(
    ("importance", "factor"),
    [(1.0, 1.1), (0.75, 1.0488), (0.5, 1.0), (None, 1.0), (0.0, round(1 / 1.1, 4))],
)
def test_importance_above_half_raises_and_below_half_lowers(
    importance: float | None, factor: float
) -> None:
    assert factors(SearchConfig(importance=0.1), importance=importance) == {"importance": factor}


@pytest.mark.parametrize(
    ("age_days", "factor"), [(0, 1.1), (30, 1.0488), (60, 1.0241), (10_000, 1.0), (-5, 1.1)]
)
def test_recency_raises_new_notes(age_days: int, factor: float) -> None:
    assert factors(SearchConfig(recency=0.1), age_days=age_days, day="1990-01-01") == {
        "recency": factor
    }
    weekly = SearchConfig(recency=0.1, half_life_days=7)
    assert factors(weekly, age_days=age_days * 7 / 30) == factors(
        SearchConfig(recency=0.1), age_days=age_days
    )


def test_decay_lowers_notes_of_an_old_day_or_saved_on_one() -> None:
    for day, factor in (
        ("2024-10-04", 1.0),
        ("2024-09-04", 0.9535),
        ("1990-01-01", round(1 / 1.1, 4)),
        ("2030-01-01", 1.0),
        (None, 0.9535),
    ):
        assert factors(SearchConfig(decay=0.1), age_days=30, day=day) == {"decay": factor}, day


def test_half_a_weight_has_half_the_effect_and_boosts_that_are_off_are_not_listed() -> None:
    assert factors(SearchConfig(importance=0.05), importance=1.0) == {"importance": 1.0488}
    assert factors(SearchConfig()) == {}
    assert not SearchConfig().has_boosts
    assert SearchConfig(decay=0.01).has_boosts


def test_an_age_changes_only_from_day_to_day() -> None:
    features = RankingFeatures(importance=None, day="2024-10-01", saved_s=TODAY_S - 1)
    boosts = SearchConfig(recency=0.1, decay=0.1)
    assert compute_boosts(features, boosts, KINDS, TODAY_S) == compute_boosts(
        features, boosts, KINDS, TODAY_S + DAY_S - 1
    )
    assert compute_boosts(features, boosts, KINDS, TODAY_S) != compute_boosts(
        features, boosts, KINDS, TODAY_S + DAY_S
    )


@given(TRAITS, LEANINGS, st.floats(0, 8e9))
def test_boosts_together_stay_within_their_bounds(
    features: RankingFeatures, boosts: SearchConfig, now_s: float
) -> None:
    product = math.prod(compute_boosts(features, boosts, KINDS, now_s).values())
    assert 1 / MAX_BOOST - 1e-9 <= product <= MAX_BOOST + 1e-9


def test_boosted_candidates_are_sorted_again_and_name_their_boosts() -> None:
    candidates = [
        Candidate(
            chunk=chunk,
            file=chunk,
            section=chunk,
            path=f"{chunk}.md",
            start_line=1,
            end_line=2,
            n_tokens=50,
            day=None,
            stemmed=stemmed,
            exact=0.0,
        )
        for chunk, stemmed in ((1, 10.0), (2, 9.5), (3, 4.0))
    ]
    ranked = rank_candidates(candidates, (), RankingPolicy(note=0.0))
    features = {
        chunk: RankingFeatures(importance=importance, day=None, saved_s=0.0)
        for chunk, importance in ((1, None), (2, 1.0), (3, 1.0))
    }
    boosted = apply_boosts(ranked, features, SearchConfig(importance=0.1), KINDS, TODAY_S)
    assert [chunk.candidate.chunk for chunk in boosted] == [2, 1, 3]
    assert boosted[0].raw_score == pytest.approx(10.45)
    assert boosted[0].parts["importance"] == pytest.approx(1.1)
    assert math.prod([boosted[2].parts["stems"], boosted[2].parts["importance"]]) == pytest.approx(
        boosted[2].raw_score
    )


def test_a_section_without_importance_has_that_of_its_kind() -> None:
    boosts = SearchConfig(importance=0.1)
    message, by_kind, nothing = (
        RankingFeatures(importance=importance, kind=kind, day=None, saved_s=0.0)
        for importance, kind in ((1.0, None), (None, "Decision"), (None, "rumour"))
    )
    assert (
        compute_boosts(message, boosts, KINDS, TODAY_S)
        == compute_boosts(by_kind, boosts, KINDS, TODAY_S)
        == {"importance": MAX_BOOST}
    )
    assert compute_boosts(nothing, boosts, KINDS, TODAY_S) == {"importance": 1.0}
