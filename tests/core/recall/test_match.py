from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.highlight import Matcher, TermPattern, Token, sort_ranges, to_character_ranges


def tokenize(text: str) -> list[Token]:
    """Words as they stand, placed in bytes: the index's own tokenizer folds and stems besides."""
    return [
        (len(text[: found.start()].encode()), len(text[: found.end()].encode()), found.group())
        for found in re.finditer(r"\w+", text)
    ]


def find(text: str, *wanted: tuple[str, bool]) -> dict[int, list[str]]:
    """What of the text each wanted row of words has met; True stands for one whose last word is only begun."""
    matcher = Matcher([TermPattern(tuple(words.split()), is_prefix) for words, is_prefix in wanted])
    data = text.encode()
    return {index: [data[a:b].decode() for a, b in places] for index, places in matcher.find(tokenize(text)).items()}


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("a cache is a cache", ("cache", False), ["cache", "cache"]),
        ("a cache", ("disk", False), None),
        ("caches", ("cache", False), None),
        ("caches and cached", ("cache", True), ["caches", "cached"]),
        ("redis - timeout, redis", ("redis timeout", False), ["redis - timeout"]),
        ("redis timeouts", ("redis timeout", False), None),
        ("redis timeouts", ("redis timeout", True), ["redis timeouts"]),
        ("redis", ("redis timeout", False), None),
        ("redis", ("redis timeout", True), None),
        ("a a a", ("a a", False), ["a a", "a a"]),
        ("anything", ("", False), None),
        ("anything", ("", True), None),
    ],
)
def test_a_term_is_met_here(text: str, wanted: tuple[str, bool], found: list[str] | None) -> None:
    assert find(text, wanted).get(0) == found


def test_each_term_is_told_by_its_own_index() -> None:
    assert find("red blue", ("green", False), ("blue", False), ("re", True)) == {1: ["blue"], 2: ["red"]}


@given(st.lists(st.sampled_from(["a", "ab", "b", "é"]), max_size=12), st.lists(st.sampled_from("ab"), min_size=1, max_size=3))
def test_a_row_of_words_is_found_exactly_where_it_stands(words: list[str], wanted: list[str]) -> None:
    n_places = sum(words[at : at + len(wanted)] == wanted for at in range(len(words)))
    assert len(find(" ".join(words), (" ".join(wanted), False)).get(0, [])) == n_places


@given(st.text(alphabet="aé日\U0001f600 ", max_size=40))
def test_places_in_bytes_become_places_of_the_same_characters(text: str) -> None:
    data = text.encode()
    byte_places = [(start, end) for start, end, _ in tokenize(text)]
    places = to_character_ranges(text, byte_places)
    assert [text[start:end] for start, end in places] == [data[start:end].decode() for start, end in byte_places]


@pytest.mark.parametrize("text", ["redis timeout", "rédis timeout"])
def test_of_places_that_begin_as_one_the_longest_comes_first(text: str) -> None:
    n_bytes = len(text.encode())
    places = sort_ranges(to_character_ranges(text, [(0, 5), (0, n_bytes), (0, 5)]))
    assert places[0] == (0, len(text))
    assert len(places) == 2
