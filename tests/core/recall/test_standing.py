from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.model import Span
from memsyncd.core.search.context import START_REASONS, StartChunk, StartReason, order_start_chunks


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
        chunk=chunk, section=chunk, path=path, span=Span(line, line), n_tokens=n_tokens, reason=reason, weight=weight,
        modified_ns=modified_ns,
    )  # fmt: skip


def order(*chunks: StartChunk, max_tokens: int = 2000) -> list[int]:
    return [chunk.chunk for chunk in order_start_chunks(chunks, max_tokens=max_tokens)]


def test_what_is_pinned_comes_first_then_memory_then_the_project_then_what_was_saved_last() -> None:
    chunks = [make(i, reason) for i, reason in enumerate(reversed(START_REASONS))]
    assert order(*chunks) == [3, 2, 1, 0]


def test_of_notes_the_newest_comes_first_and_its_lines_in_order() -> None:
    chunks = [
        make(1, "recent", modified_ns=1, path="old.md"),
        make(2, "recent", modified_ns=9, path="new.md", line=8),
        make(3, "recent", modified_ns=9, path="new.md", line=2),
    ]
    assert order(*chunks) == [3, 2, 1]


def test_of_what_is_pinned_the_most_important_comes_first() -> None:
    assert order(make(1, "pinned", weight=0.9, modified_ns=9), make(2, "pinned", weight=1.0)) == [2, 1]


def test_however_much_is_pinned_the_newest_is_not_the_first_to_go() -> None:
    pinned = [make(i, "pinned", line=i) for i in range(1, 50)]
    ordered = order(*pinned, make(99, "recent"), max_tokens=1000)
    assert ordered[:8] == [1, 2, 3, 4, 5, 6, 99, 7]


def test_one_chunk_that_lasts_comes_first_in_the_smallest_block() -> None:
    assert order(make(1, "MEMORY.md", n_tokens=300), make(2, "MEMORY.md", line=4), make(3, "recent"), max_tokens=100) == [1, 3, 2]


@st.composite
def chunk_lists(draw: st.DrawFn) -> list[StartChunk]:
    rows = draw(
        st.lists(
            st.tuples(st.sampled_from(START_REASONS), st.integers(0, 3), st.integers(0, 200), st.integers(1, 9)), max_size=20
        )
    )
    return [
        make(i, reason, modified_ns=modified_ns, n_tokens=n_tokens, line=line)
        for i, (reason, modified_ns, n_tokens, line) in enumerate(rows)
    ]


@given(chunk_lists(), st.integers(100, 3000), st.randoms(use_true_random=False))
def test_order_loses_nothing_and_does_not_depend_on_how_chunks_come(
    chunks: list[StartChunk], max_tokens: int, shuffler: random.Random
) -> None:
    ordered = order_start_chunks(chunks, max_tokens=max_tokens)
    assert sorted(chunk.chunk for chunk in ordered) == sorted(chunk.chunk for chunk in chunks)
    assert order_start_chunks(shuffler.sample(chunks, len(chunks)), max_tokens=max_tokens) == ordered
