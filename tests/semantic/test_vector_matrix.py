from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="the extra `semantic` is not installed")

from memsyncd.semantic.vector_matrix import Compared, Matrix  # noqa: E402

DIMENSIONS = 16


def digest(number: int) -> bytes:
    return number.to_bytes(16, "big")


def make_vectors(n: int, seed: int = 0) -> Any:
    rows = np.random.default_rng(seed).normal(size=(n, DIMENSIONS)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make_matrix(n: int) -> tuple[Matrix, Any]:
    """Chunks 10, 20, … with the vectors of the digests 0, 1, …"""
    vectors, matrix = make_vectors(n), Matrix(DIMENSIONS)
    chunks = [(10 * number + 10, digest(number)) for number in range(n)]
    assert len(matrix.assign(chunks)) == n
    matrix.add([digest(number) for number in range(n)], vectors)
    assert matrix.assign(chunks) == []
    return matrix, vectors


def test_cosines_are_exact_to_half_a_hundredth() -> None:
    matrix, vectors = make_matrix(300)
    question = make_vectors(1, seed=9)[0]
    ids, cosines = matrix.compare(question)
    assert ids.tolist() == [10 * number + 10 for number in range(300)]
    assert np.abs(cosines - vectors @ question).max() < 0.01


def test_a_stored_matrix_is_the_same() -> None:
    matrix, vectors = make_matrix(20)
    rows = Matrix(DIMENSIONS).add([digest(number) for number in range(20)], vectors)
    stored = Matrix(DIMENSIONS, rows)
    assert stored.assign([(10 * number + 10, digest(number)) for number in range(20)]) == []
    question = vectors[3]
    assert stored.compare(question).cosines.tolist() == matrix.compare(question).cosines.tolist()


def test_equal_chunks_share_a_vector_and_those_without_one_are_left_out() -> None:
    matrix = Matrix(DIMENSIONS)
    chunks = [(1, digest(1)), (2, digest(1)), (3, digest(2))]
    assert matrix.assign(chunks) == [(2, digest(1)), (3, digest(2))]
    matrix.add([digest(1)], make_vectors(1))
    assert matrix.assign(chunks) == [(3, digest(2))]
    assert matrix.compare(make_vectors(1)[0]).ids.tolist() == [1, 2]


def test_dropped_vectors_are_overwritten_and_their_places_are_used_again() -> None:
    matrix, vectors = make_matrix(5)
    matrix.drop([digest(2), digest(99)])
    assert matrix.compare(vectors[2]).ids.tolist() == [10, 20, 40, 50]
    matrix.add([digest(7)], vectors[2:3])
    matrix.assign([(7, digest(7)), (10, digest(0))])
    ids, cosines = matrix.compare(vectors[2])
    assert ids.tolist() == [7, 10]
    assert cosines[0] > 0.99


IDS = st.lists(st.integers(0, 40), max_size=30)


@given(
    st.sets(st.integers(0, 40)),
    IDS,
    st.none() | IDS,
    st.integers(0, 50),
    st.randoms(use_true_random=False),
)
def test_a_plain_search_makes_the_same_choice(
    ids: set[int], candidates: list[int], allowed: list[int] | None, nearest: int, chance: Any
) -> None:
    # Few values, so that many are equal.
    cosine_of = {id_: chance.randrange(8) / 8 for id_ in sorted(ids)}
    compared = Compared(
        np.array(sorted(ids), dtype=np.int64), np.array([*cosine_of.values()], dtype=np.float32)
    )
    chosen = compared.choose(
        np.array(candidates, dtype=np.int64),
        None if allowed is None else np.array(allowed, dtype=np.int64),
        nearest,
    )
    open_to = ids if allowed is None else ids & set(allowed)
    if not open_to:
        assert chosen is None
        return
    best = sorted(open_to, key=lambda id_: (-cosine_of[id_], id_))[:nearest]
    assert chosen is not None
    assert set(chosen[0].tolist()) == set(best) | (open_to & set(candidates))
    assert chosen[1].tolist() == [cosine_of[id_] for id_ in chosen[0].tolist()]
    assert chosen[2] == pytest.approx(np.median([cosine_of[id_] for id_ in open_to]), abs=1e-5)
    assert chosen[3] == pytest.approx(max(cosine_of[id_] for id_ in open_to), abs=1e-5)


def test_the_mean_of_chunks_has_length_one_and_is_none_without_vectors() -> None:
    matrix, vectors = make_matrix(5)
    mean = matrix.mean(np.array([10, 30, 31]))
    assert mean is not None
    assert np.linalg.norm(mean) == pytest.approx(1.0, abs=1e-5)
    expected = vectors[0] + vectors[2]
    assert mean @ expected / np.linalg.norm(expected) > 0.99
    assert matrix.mean(np.array([31])) is None


@pytest.mark.parametrize("n", [5, 1500])
def test_the_nearest_pairs_are_found_once_each(n: int) -> None:
    matrix, vectors = make_matrix(n)
    finder = matrix.find_pairs(0.5, 8)
    while finder.step():
        pass
    first, second, cosines = finder.result()
    exact = np.triu(vectors @ vectors.T, 1)
    best = np.sort(exact[exact >= 0.5])[::-1][:8]
    assert np.abs(cosines - best).max(initial=0.0) < 0.01
    assert (first < second).all()
    assert len({*zip(first.tolist(), second.tolist(), strict=True)}) == len(best)


def test_among_equally_near_chunks_the_first_are_chosen() -> None:
    ids = np.arange(1, 5001)
    compared = Compared(ids, np.where(ids % 2, 0.25, 0.5).astype(np.float32))
    chosen = compared.choose(np.empty(0, np.int64), None, 7)
    assert chosen is not None
    assert chosen[0].tolist() == [2, 4, 6, 8, 10, 12, 14]


def test_a_matrix_has_another_version_after_each_change_that_questions_may_see() -> None:
    matrix, other = Matrix(3), Matrix(3)
    versions = [matrix.version, other.version]
    vectors = np.eye(3, dtype=np.float32)
    matrix.add([b"a", b"b"], vectors[:2])
    for change in (lambda: matrix.assign([(1, b"a"), (2, b"b")]), lambda: matrix.drop([b"a"])):
        change()
        versions.append(matrix.version)
    matrix.compare(vectors[0])
    assert matrix.version == versions[-1]
    assert len({*versions}) == len(versions)
