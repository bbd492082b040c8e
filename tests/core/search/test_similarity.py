"""Texts are compared by their words and their order."""

from __future__ import annotations

from datetime import date
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search import similarity as similarity_module
from memsyncd.core.search.query import parse_query
from memsyncd.core.search.similarity import (
    MIN_FEATURES,
    CopyFinder,
    Features,
    compute_similarity,
    find_features,
    group_pairs,
    group_similar,
    make_similar_query,
)

TODAY = date(2026, 11, 20)
POOL = "Redis gives up after 30 s, so the connection pool must not wait longer than that."


def compare(one: str, other: str) -> float:
    return compute_similarity(find_features(one), find_features(other))


def test_the_same_words_in_the_same_order_are_similar() -> None:
    for other, least, most in (
        (POOL, 1.0, 1.0),
        (POOL.upper().replace(",", " -"), 1.0, 1.0),
        (f"## Pool\n<!-- memory: {{kind: error}} -->\n\n**{POOL}**", 0.9, 1.0),
        ("Redis gives up after 30 s, so the pool must not wait longer.", 0.7, 0.95),
        (" ".join(reversed(POOL.rstrip(".").split())), 0.3, 0.6),
        ("We chose Postgres because of its row locks.", 0.0, 0.1),
        ("", 0.0, 0.0),
    ):
        assert least <= compare(POOL, other) <= most, other


def test_a_text_without_spaces_is_compared_by_pairs_of_characters() -> None:
    assert compare("接続プールは三十秒待つ", "接続プールは四十秒待つ") > 0.5
    assert compare("接続プールは三十秒待つ", "行の鍵があるので選んだ") < 0.1


@given(one=st.text(), other=st.text())
def test_similarity_is_symmetric_bounded_and_full_for_the_text_itself(one: str, other: str) -> None:
    similarity = compare(one, other)
    assert similarity == compare(other, one)
    assert 0.0 <= similarity <= 1.0
    assert compare(one, one) == (1.0 if find_features(one) else 0.0)


@given(text=st.text(max_size=3000))
def test_any_text_has_a_query_of_plain_words(text: str) -> None:
    query = parse_query(make_similar_query(text), TODAY)
    assert not query.must
    assert not query.must_not
    assert query.filters == parse_query("", TODAY).filters


WORDS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6).map(" ".join)
ITEMS = st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), WORDS), max_size=12)


@given(items=ITEMS, min_similarity=st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_few_short_texts_are_grouped_as_by_comparing_all_pairs(
    items: list[tuple[str, str]], min_similarity: float
) -> None:
    featured = [(owner, find_features(text)) for owner, text in items]

    def compare_at(at: int, other: int) -> float:
        is_other = featured[at][0] != featured[other][0]
        return compute_similarity(featured[at][1], featured[other][1]) if is_other else 0.0

    groups = {number: {number} for number in range(len(items))}
    for at in range(len(items)):
        for other in range(at):
            if compare_at(at, other) >= min_similarity:
                joined = groups[at] | groups[other]
                groups |= dict.fromkeys(joined, joined)
    results = group_similar(featured, min_similarity)
    wanted = {tuple(sorted(group)) for group in groups.values() if len(group) > 1}
    assert {group.members for group in results} == wanted
    for group in results:
        assert group.similarity == min(
            max(compare_at(at, other) for other in group.members) for at in group.members
        )


def test_copies_of_one_owner_do_not_hide_those_of_another() -> None:
    items = [("many", find_features(POOL))] * 300 + [("one", find_features(POOL))]
    [group] = group_similar(items, 0.9)
    assert (group.members, group.similarity) == (tuple(range(301)), 1.0)


WORD_SETS = st.lists(
    st.frozensets(st.integers(0, 40).map(lambda n: (f"w{n}",)), min_size=1, max_size=30), max_size=8
)


@given(texts=WORD_SETS, least=st.floats(0.05, 1.0), texts_a_pass=st.sampled_from([2, 100]))
def test_groups_of_near_copies_are_what_all_similar_pairs_connect(
    texts: list[Features], least: float, texts_a_pass: int
) -> None:
    similar = {
        (first, other): similarity
        for first, other in combinations(range(len(texts)), 2)
        if min(len(texts[first]), len(texts[other])) >= MIN_FEATURES
        and (similarity := compute_similarity(texts[first], texts[other])) >= least
    }
    finder = CopyFinder(least)
    for text in texts:
        finder.add(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity_module, "TEXTS_A_PASS", texts_a_pass)
        finder.find(lambda _: None)
    groups = finder.list_groups()
    assert [[*group.members] for group in groups] == group_pairs(similar)
    for group in groups:
        within = {*group.members}
        pairs = [value for pair, value in similar.items() if within.issuperset(pair)]
        assert group.similarity == min(pairs)


def test_many_copies_of_a_template_are_one_group_without_comparing_each_with_each() -> None:
    finder = CopyFinder(0.7)
    for number in range(1_000):
        finder.add(find_features(f"{POOL} It was seen on host{number} in rack{number % 7}."))
    with pytest.MonkeyPatch.context() as patch:
        compared: list[int] = []
        compare_texts = similarity_module._compare
        patch.setattr(
            similarity_module,
            "_compare",
            lambda *texts: (compared.append(1), compare_texts(*texts))[1],
        )
        finder.find(lambda _: None)
    [group] = finder.list_groups()
    assert group.members == tuple(range(1_000))
    assert len(compared) < 1_000 * 4 * similarity_module.MAX_HOLDING


@given(pairs=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=15))
def test_a_group_holds_whatever_pairs_connect(pairs: list[tuple[int, int]]) -> None:
    groups = group_pairs(pairs)
    place = {number: at for at, group in enumerate(groups) for number in group}
    assert sorted(place) == sorted({number for pair in pairs for number in pair})
    assert sum(map(len, groups)) == len(place)
    assert all(place[first] == place[other] for first, other in pairs)
    assert [len(group) for group in groups] == sorted(map(len, groups), reverse=True)
    for group in groups:
        reached = {group[0]}
        for _ in group:
            reached |= {b for a, b in pairs if a in reached} | {a for a, b in pairs if b in reached}
        assert reached == {*group}
