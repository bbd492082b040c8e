from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.core.model import Span
from memsyncd.core.search.context import ContextChunk
from memsyncd.core.search.passages import (
    LASTING_SHARE,
    LEAD_SHARE,
    MEMORY_SHARE,
    START_REASONS,
    WORDS_SHARE,
    ScoredPassage,
    StartChunk,
    StartReason,
    compute_rarity,
    find_lead,
    order_start_chunks,
    score_lines,
    select_passages,
)

# --- Passages for a question ----------------------------------------------------------------------

BLANK_LINES = frozenset({4, 9, 10})


def line_of(number: int) -> str:
    return "" if number in BLANK_LINES else f"line {number}"


def make_passage(
    start: int,
    end: int,
    strength: float = 1.0,
    *,
    section: str = "a.md#one",
    n_blanks_before: int = 0,
) -> ScoredPassage:
    text = "\n".join(map(line_of, range(start, end + 1)))
    chunk = ContextChunk(
        path=section.partition("#")[0],
        anchor=section,
        heading=("One",),
        kind=None,
        span=Span(start, end),
        text=text,
        reason="match",
        n_blanks_before=n_blanks_before,
    )
    return ScoredPassage(chunk=chunk, raw_score=strength, semantic_share=0.0)


def nothing(_text: str) -> float:
    return 0.0


def spans(chunks: list[ContextChunk]) -> list[tuple[int, int]]:
    return [(chunk.span.start, chunk.span.end) for chunk in chunks]


# --- splitting ------------------------------------------------------------------------------------


def test_only_sections_with_a_strong_chunk_are_read() -> None:
    passages = [
        make_passage(1, 3, 10.0),
        make_passage(3, 5, 1.0),
        make_passage(1, 2, 2.0, section="b.md#one"),
    ]
    unread = [
        replace(one, chunk=replace(one.chunk, text="", unread=number))
        for number, one in enumerate(passages, 1)
    ]
    asked: list[int] = []

    def read(chunks: Sequence[ContextChunk]) -> list[ContextChunk]:
        asked.extend(chunk.unread for chunk in chunks)
        return [passages[chunk.unread - 1].chunk for chunk in chunks]

    *chunks, weak, other = select_passages(unread, nothing, read)
    assert asked == [1, 2]
    assert [*chunks, weak] == select_passages(passages[:2], nothing)
    assert other == unread[2].chunk


def test_chunks_that_overlap_are_cut_where_one_begins_or_ends() -> None:
    chunks = select_passages(
        [make_passage(1, 3, 8.0), make_passage(2, 7, 10.0), make_passage(6, 8, 5.0)], nothing
    )
    assert spans(chunks) == [(2, 4), (5, 5), (6, 7), (1, 1), (8, 8)]


def test_blank_lines_go_with_the_lines_before_them() -> None:
    assert spans(select_passages([make_passage(1, 3), make_passage(1, 8)], nothing)) == [
        (1, 4),
        (5, 8),
    ]


def test_a_passage_at_the_beginning_of_a_chunk_keeps_the_blank_lines_before_it() -> None:
    [first, second] = select_passages(
        [make_passage(11, 13, n_blanks_before=2), make_passage(13, 14)], nothing
    )[:2]
    assert (first.n_blanks_before, second.n_blanks_before) == (2, 0)


def test_chunks_of_different_sections_do_not_cut_each_other() -> None:
    chunks = select_passages([make_passage(1, 3), make_passage(2, 3, section="b.md#one")], nothing)
    assert [(chunk.path, *place) for chunk, place in zip(chunks, spans(chunks), strict=True)] == [
        ("a.md", 1, 3),
        ("b.md", 2, 3),
    ]


def test_chunks_of_a_giant_line_are_not_split() -> None:
    whole = make_passage(1, 3)
    part = ScoredPassage(
        chunk=replace(whole.chunk, text="half of a line"), raw_score=2.0, semantic_share=0.0
    )
    assert select_passages([part, whole], nothing) == [part.chunk, whole.chunk]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 20),
            st.integers(0, 6),
            st.floats(0, 9),
            st.sampled_from(["a.md#x", "a.md#y"]),
        ),
        max_size=12,
    )
)
def test_every_line_is_shown_once_among_the_strong_and_none_is_lost(
    rows: list[tuple[int, int, float, str]],
) -> None:
    passages = [
        make_passage(start, start + more, strength, section=section)
        for start, more, strength, section in rows
    ]
    passages.sort(key=lambda one: -one.raw_score)
    chunks = select_passages(passages, nothing)
    assert find_lines(chunks) == find_lines([one.chunk for one in passages])
    for chunk in chunks:
        assert chunk.text == "\n".join(map(line_of, range(chunk.span.start, chunk.span.end + 1)))
    weak = [one.chunk for one in passages if one.raw_score < 0.4 * passages[0].raw_score]
    strong = chunks[: len(chunks) - len(weak)]
    assert chunks[len(strong) :] == weak
    if passages and passages[0].raw_score > 0:
        for one, other in itertools.combinations(strong, 2):
            assert (
                one.anchor != other.anchor
                or one.span.end < other.span.start
                or other.span.end < one.span.start
            )


def find_lines(chunks: list[ContextChunk]) -> set[tuple[str, int]]:
    return {
        (chunk.anchor, line)
        for chunk in chunks
        for line in range(chunk.span.start, chunk.span.end + 1)
    }


# --- order ----------------------------------------------------------------------------------------


def test_passages_with_the_words_come_before_their_neighbours() -> None:
    def weigh(text: str) -> float:
        return 0.3 if "7" in text else 0.0

    assert spans(select_passages([make_passage(1, 7, 10.0), make_passage(5, 6, 9.0)], weigh)) == [
        (7, 7),
        (1, 4),
        (5, 6),
    ]


def test_weak_chunks_come_last_whatever_they_contain() -> None:
    def weigh(text: str) -> float:
        return 0.45 if "7" in text else 0.0

    assert spans(select_passages([make_passage(1, 3, 10.0), make_passage(7, 8, 3.9)], weigh)) == [
        (1, 3),
        (7, 8),
    ]


def test_equal_passages_are_ordered_by_note_and_line() -> None:
    passages = [
        make_passage(5, 6, section="b.md#x"),
        make_passage(7, 8, section="a.md#x"),
        make_passage(1, 2, section="a.md#y"),
    ]
    assert spans(select_passages(passages, nothing)) == [(1, 2), (7, 8), (5, 6)]


def test_chunks_without_raw_scores_keep_their_order() -> None:
    passages = [make_passage(5, 8, 0.0), make_passage(1, 7, 0.0)]
    assert select_passages(passages, lambda text: 1.0) == [one.chunk for one in passages]
    assert select_passages([], nothing) == []


# --- bonuses of lines -----------------------------------------------------------------------------


def test_a_rarer_word_weighs_more() -> None:
    rarities = [compute_rarity(100, n_holding) for n_holding in range(101)]
    assert rarities == sorted(rarities, reverse=True)
    assert rarities[-1] == compute_rarity(0, 0) == pytest.approx(0.000001)


def test_lines_gain_by_the_share_of_words_that_they_contain() -> None:
    assert score_lines([], [3.0, 1.0], is_led=False) == 0.0
    assert score_lines([0], [3.0, 1.0], is_led=False) == pytest.approx(WORDS_SHARE * 0.75)
    assert score_lines([0, 1], [3.0, 1.0], is_led=False) == pytest.approx(WORDS_SHARE)
    assert score_lines([0, 1], [3.0, 1.0], is_led=True) == pytest.approx(WORDS_SHARE + LEAD_SHARE)


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
def test_a_lead_names_a_speaker_or_subject(text: str, is_led: bool) -> None:
    lead = find_lead(text)
    assert text.startswith(lead)
    assert ("Ann" in lead) == is_led


# --- Chunks for the start of a session ------------------------------------------------------------


def make(
    chunk: int,
    reason: StartReason,
    *,
    modified_ns: int = 1,
    n_tokens: int = 100,
    weight: float = 1.0,
    line: int = 1,
    path: str = "a.md",
) -> StartChunk:
    return StartChunk(
        chunk=chunk,
        section=chunk,
        path=path,
        span=Span(line, line),
        n_tokens=n_tokens,
        reason=reason,
        weight=weight,
        modified_ns=modified_ns,
    )


def order(*chunks: StartChunk) -> list[int]:
    return [chunk.chunk for chunk, _ in order_start_chunks(chunks)]


def test_chunks_come_in_the_order_of_their_reasons() -> None:
    chunks = [make(i, reason) for i, reason in enumerate(reversed(START_REASONS))]
    assert order(*chunks) == [4, 3, 2, 1, 0]


def test_the_newest_note_comes_first_with_its_lines_in_order() -> None:
    chunks = [
        make(1, "recent", modified_ns=1, path="old.md"),
        make(2, "recent", modified_ns=9, path="new.md", line=8),
        make(3, "recent", modified_ns=9, path="new.md", line=2),
    ]
    assert order(*chunks) == [3, 2, 1]


def test_the_most_important_pinned_chunk_comes_first() -> None:
    assert order(make(1, "pinned", weight=0.9, modified_ns=9), make(2, "pinned", weight=1.0)) == [
        2,
        1,
    ]


def test_memory_and_lasting_chunks_may_fill_a_share_of_the_block_and_recent_ones_all() -> None:
    chunks = [make(i, reason) for i, reason in enumerate(START_REASONS)]
    shares = [share for _, share in order_start_chunks(chunks)]
    assert shares == [MEMORY_SHARE, LASTING_SHARE, LASTING_SHARE, LASTING_SHARE, 1.0]


@st.composite
def chunk_lists(draw: st.DrawFn) -> list[StartChunk]:
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(START_REASONS),
                st.integers(0, 3),
                st.integers(0, 200),
                st.integers(1, 9),
            ),
            max_size=20,
        )
    )
    return [
        make(i, reason, modified_ns=modified_ns, n_tokens=n_tokens, line=line)
        for i, (reason, modified_ns, n_tokens, line) in enumerate(rows)
    ]


@given(chunk_lists(), st.randoms(use_true_random=False))
def test_ordering_loses_no_chunk_and_does_not_depend_on_input_order(
    chunks: list[StartChunk], shuffler: random.Random
) -> None:
    ordered = order_start_chunks(chunks)
    assert sorted(chunk.chunk for chunk, _ in ordered) == sorted(chunk.chunk for chunk in chunks)
    assert [share for _, share in ordered] == sorted(share for _, share in ordered)
    assert order_start_chunks(shuffler.sample(chunks, len(chunks))) == ordered
