from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.words import (
    NAME_LIMIT_CHARACTERS,
    SubwordFinder,
    find_subword_ranges,
    find_subwords,
    is_unspaced,
    spell_out,
    split_words,
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("plain words, snake_case and DEC-0054", ""),
        ("call getUserName or HTTPServer2", "get User Name HTTP Server 2"),
        ("C++ and f#, not a+b or #tag", "Cplusplus fsharp"),
        ("日本語のメモ", "日本 本語 語の のメ メモ モ"),
        ("v2の設計", "の設 設計 計"),
        ("ภาษา", "ภา าษ ษา า"),
        ("x" * 100_000, ""),
        ("aB" * NAME_LIMIT_CHARACTERS, ""),
    ],
)
def test_these_subwords_are_indexed_with_a_text(text: str, parts: str) -> None:
    assert find_subwords(text) == parts


@pytest.mark.parametrize(
    ("typed", "rows"),
    [
        ("snake_case", [("snake", "case")]),
        ("src/app/main.py", [("src", "app", "main", "py")]),
        ("C++", [("Cplusplus",)]),
        ("日本語", [("日本", "本語")]),
        ("語", [("語",)]),
        ("疫苗温度", [("疫苗",), ("苗温",), ("温度",)]),
        ("v2の設計", [("v2",), ("の設", "設計")]),
        ("!?", []),
    ],
)
def test_a_typed_word_is_split_into_these_sequences(
    typed: str, rows: list[tuple[str, ...]]
) -> None:
    assert [row.words for row in split_words(typed)] == rows


def test_a_phrase_of_any_length_is_one_sequence() -> None:
    assert [row.words for row in split_words("疫苗温度", is_strict=True)] == [
        ("疫苗", "苗温", "温度")
    ]


@given(
    st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=2, max_size=12),
    st.data(),
)
def test_any_two_adjacent_characters_are_found(run: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(run) - 2))
    [row] = split_words(run[at : at + 2])
    assert is_unspaced(run)
    assert row.words[0] in find_subwords(f"before {run} after").split()


@given(st.text(max_size=200))
def test_any_text_can_be_split(text: str) -> None:
    find_subwords(text)
    assert all(row.words for row in split_words(text))


@given(st.text(max_size=100))
def test_a_subword_is_found_at_its_range(text: str) -> None:
    for start, end, word in find_subword_ranges(text):
        assert word[0] in (text[start], spell_out(text[start:end])[:1])
        assert start < end <= len(text)


@pytest.mark.parametrize(
    ("text", "spellings"),
    [
        ("Müller geht", "Mueller"),
        ("die Straße und das Öl", "Strasse Oel"),
        ("Платёж и ёлка", "Платеж елка"),
        ("еще е\u0308ж", "еж"),
        ("Mu\u0308ller", "Mueller"),
        ("café", ""),
        ("GRÜẞE", "GRUeSSE"),
    ],
)
def test_german_words_are_indexed_as_spelled_without_umlauts(text: str, spellings: str) -> None:
    assert find_subwords(text) == spellings


HUMPED = st.text(st.sampled_from("aB1 _+#.C日本é"), max_size=60)


@given(HUMPED)
def test_subwords_of_camel_case_are_those_of_a_plain_pattern(text: str) -> None:
    humped = re.compile(
        rf"(?<![A-Za-z0-9])(?=[A-Za-z0-9]*?(?:[a-z0-9][A-Z]|[A-Z]{{2}}[a-z]))"
        rf"[A-Za-z0-9]{{2,{NAME_LIMIT_CHARACTERS}}}+(?![A-Za-z0-9])"
    )
    part = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
    plain = [
        (found.start(), found.end(), found[0])
        for word in humped.finditer(text)
        for found in part.finditer(text, word.start(), word.end())
    ]
    assert find_subword_ranges(text)[: len(plain)] == plain
    assert not any(humped.search(found) for _, _, found in find_subword_ranges(text)[len(plain) :])


@given(HUMPED)
def test_every_indexed_subword_has_a_range(text: str) -> None:
    assert find_subwords(text).split() == [word for _, _, word in find_subword_ranges(text)]


WORDS = st.lists(
    st.sampled_from(
        ["aB", "HTTPServer", "plain", "C++", "C#", "日本", "é", "x1Y2", " ", "_", "a" * 90]
    ),
    max_size=5,
).map("".join)


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, max_size=3), st.data())
def test_the_subwords_of_a_piece_of_a_text_are_those_of_the_piece_alone(
    lines: list[str], titles: list[str], data: st.DataObject
) -> None:
    finder = SubwordFinder("\n".join(lines))
    for _ in range(2):
        first = data.draw(st.integers(1, len(lines)))
        piece = "\n".join(lines[first - 1 : data.draw(st.integers(first, len(lines)))])
        piece = (
            piece[: data.draw(st.integers(0, len(piece)))] if data.draw(st.booleans()) else piece
        )
        assert finder.find(titles, piece, first) == find_subwords(f"{' '.join(titles)}\n{piece}")


@given(st.characters())
def test_no_character_of_a_script_without_spaces_is_overlooked(character: str) -> None:
    # A code point without a meaning is no letter to FTS5 either.
    if is_unspaced(character) and character.isalnum():
        assert find_subwords(f"a {character} b") == character
