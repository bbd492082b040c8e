from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.families import (
    FAMILY_WEIGHT,
    K1,
    compute_gains,
    compute_idf,
    is_related,
    make_family,
)

OCCURRENCES = st.dictionaries(st.integers(1, 20), st.floats(0.01, 50))


@pytest.mark.parametrize(
    ("stem", "other", "is_one"),
    [
        ("electr", "electrician", True),
        ("mainten", "maintain", True),
        ("heizung", "heizt", False),
        ("photograph", "photocopi", False),
        ("authent", "auth", True),
        ("configur", "conf", True),
        ("configur", "con", False),
        ("market", "marksman", False),
        ("ключ", "ключи", True),
        ("test", "test", False),
    ],
)
def test_words_are_related_by_a_long_enough_beginning(stem: str, other: str, is_one: bool) -> None:
    family = make_family(stem)
    assert family is not None
    assert is_related(family, other) is is_one


@pytest.mark.parametrize("stem", ["", "oil", "37f2ab", "x1y2z3"])
def test_short_words_and_numbers_have_no_family(stem: str) -> None:
    assert make_family(stem) is None


@given(st.text("abcdeé", min_size=4, max_size=12), st.text("abcdeé", max_size=8))
def test_all_that_continues_a_word_is_related_to_it(stem: str, ending: str) -> None:
    family = make_family(stem)
    assert family is not None
    assert is_related(family, stem + ending) is bool(ending)
    assert all(len(stem) <= 2 * len(short) for short in family.shorter)


def score(idf: float, occurrences: float) -> float:
    return idf * (K1 + 1) * occurrences / (1 + occurrences)


@given(own=OCCURRENCES, longer=OCCURRENCES, shorter=OCCURRENCES)
def test_a_chunk_scores_as_if_related_words_were_a_share_of_the_word(
    own: dict[int, float], longer: dict[int, float], shorter: dict[int, float]
) -> None:
    n_chunks = 100
    every = {chunk: own.get(chunk, 0) + longer.get(chunk, 0) for chunk in {*own, *longer}}

    def score_all(counts: dict[int, float]) -> dict[int, float]:
        idf = compute_idf(n_chunks, len(counts))
        return {chunk: score(idf, n) for chunk, n in counts.items()}

    mine = score_all(own)
    related = [score_all(every), score_all(shorter)]
    gains = compute_gains(n_chunks, len(own), mine, related, has_own=True)
    idf = compute_idf(n_chunks, len(own) or len({*every, *shorter}))
    for chunk in {*every, *shorter}:
        n_related = longer.get(chunk, 0) + shorter.get(chunk, 0)
        wanted = score(idf, own.get(chunk, 0) + FAMILY_WEIGHT * n_related)
        assert mine.get(chunk, 0) + gains.get(chunk, 0) == pytest.approx(wanted, rel=1e-6)
    assert gains.keys() == longer.keys() | shorter.keys()
