from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.recall.context import Piece
from memsyncd.core.recall.narrow import LEAD_SHARE, WORDS_SHARE, Offer, find_rarity, narrow_pieces, weigh_lines
from memsyncd.core.span import Span

BLANK_LINES = frozenset({4, 9, 10})


def line_of(number: int) -> str:
    return "" if number in BLANK_LINES else f"line {number}"


def offer(start: int, end: int, strength: float = 1.0, *, section: str = "a.md#one", n_blanks_before: int = 0) -> Offer:
    text = "\n".join(map(line_of, range(start, end + 1)))
    piece = Piece(
        path=section.partition("#")[0],
        anchor=section,
        heading=("One",),
        kind=None,
        span=Span(start, end),
        text=text,
        reason="match",
        n_blanks_before=n_blanks_before,
    )
    return Offer(piece=piece, strength=strength)


def nothing(_text: str) -> float:
    return 0.0


def places(pieces: list[Piece]) -> list[tuple[int, int]]:
    return [(piece.span.start, piece.span.end) for piece in pieces]


# --- cutting ----------------------------------------------------------------------------------------------------------


def test_pieces_that_overlap_are_cut_where_one_begins_or_ends() -> None:
    pieces = narrow_pieces([offer(1, 3, 8.0), offer(2, 7, 10.0), offer(6, 8, 5.0)], nothing)
    assert places(pieces) == [(2, 4), (5, 5), (6, 7), (1, 1), (8, 8)]


def test_blank_lines_go_with_what_is_before_them() -> None:
    assert places(narrow_pieces([offer(1, 3), offer(1, 8)], nothing)) == [(1, 4), (5, 8)]


def test_a_cut_at_the_beginning_of_a_piece_keeps_the_blank_lines_that_stand_before_it() -> None:
    [first, second] = narrow_pieces([offer(11, 13, n_blanks_before=2), offer(13, 14)], nothing)[:2]
    assert (first.n_blanks_before, second.n_blanks_before) == (2, 0)


def test_pieces_of_different_sections_do_not_cut_each_other() -> None:
    pieces = narrow_pieces([offer(1, 3), offer(2, 3, section="b.md#one")], nothing)
    assert [(piece.path, *place) for piece, place in zip(pieces, places(pieces), strict=True)] == [("a.md", 1, 3), ("b.md", 2, 3)]


def test_parts_of_a_giant_line_stay_whole() -> None:
    whole = offer(1, 3)
    part = Offer(piece=replace(whole.piece, text="half of a line"), strength=2.0)
    assert narrow_pieces([part, whole], nothing) == [part.piece, whole.piece]


@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.integers(0, 6), st.floats(0, 9), st.sampled_from(["a.md#x", "a.md#y"])), max_size=12
    )
)
def test_every_line_is_shown_once_among_the_strong_and_none_is_lost(rows: list[tuple[int, int, float, str]]) -> None:
    offers = [offer(start, start + more, strength, section=section) for start, more, strength, section in rows]
    offers.sort(key=lambda one: -one.strength)
    pieces = narrow_pieces(offers, nothing)
    assert find_lines(pieces) == find_lines([one.piece for one in offers])
    for piece in pieces:
        assert piece.text == "\n".join(map(line_of, range(piece.span.start, piece.span.end + 1)))
    weak = [one.piece for one in offers if one.strength < 0.4 * offers[0].strength]
    strong = pieces[: len(pieces) - len(weak)]
    assert pieces[len(strong) :] == weak
    if offers and offers[0].strength > 0:
        for one, other in itertools.combinations(strong, 2):
            assert one.anchor != other.anchor or one.span.end < other.span.start or other.span.end < one.span.start


def find_lines(pieces: list[Piece]) -> set[tuple[str, int]]:
    return {(piece.anchor, line) for piece in pieces for line in range(piece.span.start, piece.span.end + 1)}


# --- order ------------------------------------------------------------------------------------------------------------


def test_what_holds_the_words_comes_before_what_stands_beside_it() -> None:
    def weigh(text: str) -> float:
        return 0.3 if "7" in text else 0.0

    assert places(narrow_pieces([offer(1, 7, 10.0), offer(5, 6, 9.0)], weigh)) == [(7, 7), (1, 4), (5, 6)]


def test_what_is_less_than_half_as_strong_comes_last_whatever_it_holds() -> None:
    def weigh(text: str) -> float:
        return 0.45 if "7" in text else 0.0

    assert places(narrow_pieces([offer(1, 3, 10.0), offer(7, 8, 3.9)], weigh)) == [(1, 3), (7, 8)]


def test_equals_come_in_order_of_note_and_line() -> None:
    offers = [offer(5, 6, section="b.md#x"), offer(7, 8, section="a.md#x"), offer(1, 2, section="a.md#y")]
    assert places(narrow_pieces(offers, nothing)) == [(1, 2), (7, 8), (5, 6)]


def test_where_strengths_tell_nothing_pieces_stay_as_they_are() -> None:
    offers = [offer(5, 8, 0.0), offer(1, 7, 0.0)]
    assert narrow_pieces(offers, lambda text: 1.0) == [one.piece for one in offers]
    assert narrow_pieces([], nothing) == []


# --- what lines gain --------------------------------------------------------------------------------------------------


def test_a_word_tells_the_more_the_fewer_chunks_hold_it() -> None:
    rarities = [find_rarity(100, n_holding) for n_holding in range(101)]
    assert rarities == sorted(rarities, reverse=True)
    assert rarities[-1] == find_rarity(0, 0) == pytest.approx(0.000001)


def test_lines_gain_by_the_share_of_words_that_they_hold() -> None:
    text = "so the pear is red"
    assert weigh_lines(text, {}, [3.0, 1.0]) == 0.0
    assert weigh_lines(text, {0: [(7, 11)]}, [3.0, 1.0]) == pytest.approx(WORDS_SHARE * 0.75)
    assert weigh_lines(text, {0: [(7, 11)], 1: [(15, 18)]}, [3.0, 1.0]) == pytest.approx(WORDS_SHARE)


@pytest.mark.parametrize(
    ("text", "is_led"),
    [
        ("- **Ann:** hello", True),
        ("**Ann** said hello", True),
        ("Ann: hello", True),
        ("1. Ann: hello", True),
        ("* Élan and Ann: hello", True),
        ("Bea: hello Ann", False),
        ("- **Bea:** hello Ann: so", False),
        ("hello Ann", False),
        ("see http://Ann", False),
        ("`x: Ann`", False),
        (f"{'so ' * 20}Ann: hello", False),
    ],
)
def test_lines_gain_by_a_lead_that_is_asked_for(text: str, is_led: bool) -> None:
    at = text.encode().index(b"Ann")
    assert weigh_lines(text, {0: [(at, at + 3)]}, [1.0]) == pytest.approx(WORDS_SHARE + LEAD_SHARE * is_led)
