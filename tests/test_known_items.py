"""The parts of the known-item benchmark that compute: the draw, and which hits are right."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.known_items import (
    CHARACTERS,
    PLAIN,
    QUOTED,
    RARE,
    WORDS,
    Item,
    cut_phrase,
    draw_items,
    find_rank,
    find_rare_words,
    hold_phrase,
    hold_word,
)

LINE = "the crew paints the deck, oils the winch and checks all ropes before the ship sails"
UNSPACED_LINE = "船が出る前に乗組員は甲板を塗りウインチに油をさし全てのロープをwinch-2で確かめる"
NOTES = {
    "crew.md": [LINE, "", "| --- | --- | --- | --- | --- |", 'he said "stop" to all of them'],
    "deck.md": [UNSPACED_LINE, "kraken sighted"],
}


@given(st.integers())
def test_a_phrase_is_a_piece_of_its_line_and_splits_no_word(seed: int) -> None:
    phrase = cut_phrase(LINE, Random(seed))
    assert f" {phrase} " in f" {LINE} "
    assert WORDS[0] <= len(phrase.split()) <= WORDS[1]
    phrase = cut_phrase(UNSPACED_LINE, Random(seed))
    assert phrase in UNSPACED_LINE
    assert CHARACTERS[0] <= len(phrase) <= CHARACTERS[1] + len("winch-2")
    assert ("winch-2" in phrase) == bool(set("winch-2") & set(phrase))


@given(st.integers())
def test_the_same_notes_and_seed_give_the_same_phrases_and_none_has_only_signs(
    seed: int,
) -> None:
    items = draw_items(NOTES, 5, seed)
    assert [item[:2] for item in draw_items(NOTES, 5, seed)] == [item[:2] for item in items]
    assert [item.kind for item in items] == [PLAIN] * 2 + [QUOTED] * 2 + [RARE] * 5
    for plain, quoted in zip(items[:2], items[2:4], strict=True):
        assert quoted.query == f'"{plain.query}"'
        assert sum(plain.query in " ".join(lines) for lines in NOTES.values()) == 1


def test_a_rare_word_is_long_and_in_two_notes_at_most() -> None:
    notes = {
        f"{n}.md": ["common rareword" if n < 2 else "common short 船が出る前に"] for n in range(3)
    }
    assert find_rare_words(notes) == ["rareword"]


@pytest.mark.parametrize(
    ("phrase", "text", "is_held"),
    [
        ("| Text | Text text |", "|Text|Text text|", True),
        ("the **Crew** paints", "so\nthe crew\n> paints.", True),
        ("the crew paints", "bathe crew paints", False),
        ("the crew paints", "the crew who paints", False),
        ("設定を変更", "「設定」を変更する", True),
        ("設定を変更", "設定の変更", False),
        ("שלום עולם", "שָׁלוֹם עוֹלָם", True),
    ],
)
def test_a_text_holds_a_phrase_if_it_has_its_words_in_a_row(
    phrase: str, text: str, is_held: bool
) -> None:
    assert hold_phrase(phrase)(text) == is_held


def test_a_text_holds_a_whole_word_in_any_spelling_of_its_letters() -> None:
    assert hold_word("winch")("The Winch.")
    assert not hold_word("winch")("winches")


def test_the_first_hit_whose_lines_path_or_heading_hold_the_item_gives_the_rank() -> None:
    item = Item(PLAIN, "kraken sighted", hold_phrase("kraken sighted"))
    first = {"path": "deck.md", "start_line": 1, "end_line": 1, "heading": []}
    second = {"path": "deck.md", "start_line": 1, "end_line": 2, "heading": []}
    titled = {"path": "crew.md", "start_line": 2, "end_line": 2, "heading": ["Kraken sighted"]}
    assert find_rank([first, second, titled], item, NOTES) == 2
    assert find_rank([titled], item, NOTES) == 1
    assert find_rank([first], item, NOTES) == float("inf")
