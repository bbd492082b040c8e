from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.baselines import (
    CHUNK_CHARACTERS,
    OVERLAP_CHARACTERS,
    Fts,
    Ripgrep,
    find_chunks,
    find_ripgrep,
)
from tests.benchmarks.questions import Lines, QuestionSet, read_set


@given(st.lists(st.integers(0, 2 * CHUNK_CHARACTERS).map("x".__mul__), max_size=60))
def test_chunks_hold_every_line_and_overlap_by_little(lines: list[str]) -> None:
    chunks = list(find_chunks(lines))
    assert {number for first, last in chunks for number in range(first, last + 1)} == set(
        range(1, len(lines) + 1)
    )
    for (before, end), (first, _) in itertools.pairwise(chunks):
        assert before < first <= end + 1
        assert sum(len(line) + 1 for line in lines[first - 1 : end]) <= OVERLAP_CHARACTERS
    for first, last in chunks:
        assert (
            first == last
            or sum(len(line) + 1 for line in lines[first - 1 : last]) <= CHUNK_CHARACTERS
        )


@pytest.fixture
def question_set(tmp_path: Path) -> QuestionSet:
    notes = tmp_path / "memories" / "one"
    notes.mkdir(parents=True)
    (notes / "a.md").write_text("A red apple\nand a pear.\n")
    (notes / "b.md").write_text("A green apple.\n")
    (tmp_path / "questions.jsonl").write_text(
        '{"id": "1", "scope": "memories/one", "question": "?", "category": "c", "evidence": []}'
    )
    return read_set(tmp_path)


def test_all_words_or_any_word(question_set: QuestionSet) -> None:
    question = "is the apple red"
    assert (
        Fts(question_set, tokenizer="unicode61", is_any=False).ask("memories/one", question) == []
    )
    hits = Fts(question_set, tokenizer="porter unicode61", is_any=True).ask(
        "memories/one", question
    )
    assert hits == [Lines(path="a.md", start=1, end=3), Lines(path="b.md", start=1, end=2)]


@pytest.mark.needs("rg")
def test_ripgrep_gives_notes_by_number_of_words(question_set: QuestionSet) -> None:
    hits = Ripgrep(question_set, find_ripgrep() or "").ask(
        "memories/one", "is the GREEN apple good?"
    )
    assert [lines.path for lines in hits] == ["b.md", "a.md"]
