from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.federation import (
    FoundLines,
    RawHit,
    TermCounts,
    compare_raw_scores,
    find_repeated,
    interleave_by_size,
)
from memsyncd.core.search.passages import compute_rarity

N_TERMS = 3
COUNTS = st.integers(0, 50).flatmap(
    lambda n_chunks: st.builds(
        TermCounts,
        st.just(n_chunks),
        st.tuples(*[st.integers(0, n_chunks)] * N_TERMS),
        st.sampled_from([0.0, 0.1, 0.5]),
        st.floats(0.1, 30),
    )
)
HITS = st.lists(
    st.builds(
        RawHit,
        st.floats(0, 40),
        st.frozensets(st.integers(0, N_TERMS - 1)),
        st.floats(0, 1),
    ),
    max_size=6,
).map(lambda hits: sorted(hits, key=lambda hit: -hit.raw_score))
PARTS = st.lists(st.tuples(COUNTS, HITS), max_size=4)


@given(parts=PARTS)
def test_the_order_of_each_index_is_kept(parts: list[tuple[TermCounts, list[RawHit]]]) -> None:
    for (_, hits), scores in zip(parts, compare_raw_scores(parts, 0.0), strict=True):
        assert len(scores) == len(hits)
        assert scores == sorted(scores, reverse=True)
        assert all(map(math.isfinite, scores))


@given(part=st.tuples(COUNTS, HITS))
def test_one_index_alone_keeps_its_scores(part: tuple[TermCounts, list[RawHit]]) -> None:
    [scores] = compare_raw_scores([part], 0.4)
    assert scores == pytest.approx([hit.raw_score for hit in part[1]])


def test_a_vector_counts_as_much_as_its_chunk_is_near() -> None:
    """The unit of each index is the score of its own best words."""
    near, far = TermCounts(100, (5,), spread=0.5, unit=2.0), TermCounts(100, (5,), 0.1, 8.0)
    by_vector = RawHit(4 / 3, semantic_share=1.0)
    of_words = [RawHit(8.0, frozenset({0}))]
    [[nearest], [_, other]] = compare_raw_scores(
        [(near, [by_vector]), (far, [*of_words, RawHit(16 / 3, semantic_share=1.0)])], 0.4
    )
    # The rarities of both together differ a little from the rarities of each.
    assert nearest == pytest.approx(16 / 3, rel=0.05)
    assert other == pytest.approx(16 / 3 * 0.1 / 0.5, rel=0.05)


def test_words_count_for_both_parts_where_an_index_has_no_vectors() -> None:
    with_vectors = TermCounts(100, (5,), spread=0.5, unit=6.0)
    best = RawHit(10.0, frozenset({0}), semantic_share=0.4)  # 6 by its words and 4 by its vector
    words_alone = RawHit(6.0, frozenset({0}))
    [[one], [other]] = compare_raw_scores(
        [(with_vectors, [best]), (TermCounts(100, (5,)), [words_alone])], 0.4
    )
    assert one == pytest.approx(other)


@given(n_terms=st.integers(1, 20), n_chunks=st.integers(1, 50), tf=st.floats(0.1, 2.0))
def test_a_hit_of_one_word_scores_as_in_one_index_of_all_chunks(
    n_terms: int, n_chunks: int, tf: float
) -> None:
    common = TermCounts(n_chunks, (min(n_terms, n_chunks),))
    rare = TermCounts(100, (1,))
    hit = RawHit(tf * common.rarities[0], frozenset({0}))
    [[score], _] = compare_raw_scores([(common, [hit]), (rare, [])], 0.0)
    total = compute_rarity(n_chunks + 100, min(n_terms, n_chunks) + 1)
    assert math.isclose(score, tf * total, rel_tol=1e-6)


@given(parts=st.lists(st.lists(st.integers(0, 100), max_size=6), max_size=4))
def test_items_of_several_parts_are_interleaved_in_their_own_order(parts: list[list[int]]) -> None:
    merged = interleave_by_size(parts)
    assert sorted(merged) == [(i, j) for i, part in enumerate(parts) for j in range(len(part))]
    for index in range(len(parts)):
        own = [at for part, at in merged if part == index]
        assert own == sorted(own)


def test_each_part_gets_as_much_room_as_the_others() -> None:
    assert interleave_by_size([[10, 10], [4, 4, 4]]) == [(0, 0), (1, 0), (1, 1), (1, 2), (0, 1)]


PLACES = st.lists(
    st.builds(
        lambda root, path, first, n: FoundLines(root, path, first, first + n),
        st.sampled_from(["/v", "/v/a", "/v/a/b", "/va"]),
        st.sampled_from(["x.md", "a/x.md", "a/b/x.md", "b/x.md"]),
        st.integers(1, 6),
        st.integers(0, 3),
    ),
    max_size=8,
)


@given(places=PLACES)
def test_no_lines_are_shown_twice_and_a_file_is_left_out_only_for_a_workspace_within(
    places: list[FoundLines],
) -> None:
    repeated = find_repeated(places)
    kept = [place for index, place in enumerate(places) if index not in repeated]
    for each in kept:
        for other in kept:
            same_file = f"{each.root}/{each.path}" == f"{other.root}/{other.path}"
            common = each.first_line <= other.last_line and other.first_line <= each.last_line
            assert each.root == other.root or not (same_file and common)
    for index in repeated:
        place = places[index]
        files = {f"{each.root}/{each.path}" for each in kept if len(each.root) > len(place.root)}
        assert f"{place.root}/{place.path}" in files


def test_workspaces_beside_each_other_repeat_nothing() -> None:
    assert not find_repeated([FoundLines("/v", "x.md", 1, 2), FoundLines("/va", "x.md", 1, 2)])
    assert find_repeated([FoundLines("/v", "a/x.md", 1, 9), FoundLines("/v/a", "x.md", 2, 3)]) == {
        0
    }
