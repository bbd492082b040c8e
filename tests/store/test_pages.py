"""Pages that are read group by group equal pages of all sections sorted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.search.filters import Filters
from memsyncd.engine.metadata import bind_sort_keys, make_valuation
from memsyncd.store import pages
from memsyncd.store.index import Index, PutNote
from memsyncd.store.pages import OrderName, PageOrder, find_page
from memsyncd.store.pool import Reader

Put = Callable[..., PutNote]
NOW_S = 1_772_366_400.0  # 2026-03-01
METAS = st.fixed_dictionaries(
    {"created": st.sampled_from(["2026-02-28", "2026-02-01", "2027-01-01", "2019-01-01"])},
    optional={
        "kind": st.sampled_from(["decision", "bug"]),
        "importance": st.sampled_from(["0", "0.2", "0.9"]),
        "priority": st.sampled_from(["P0", "P3"]),
        "status": st.sampled_from(["open", "archived"]),
        "tags": st.sampled_from(["[a]", "[b]"]),
    },
)
NOTES = st.lists(st.lists(METAS, max_size=3), min_size=1, max_size=6)
RECALLS = st.dictionaries(
    st.tuples(st.integers(0, 5), st.integers(0, 2)), st.integers(1, 4), max_size=6
)
FILTERS = st.sampled_from([Filters(), Filters(tags=("a",)), Filters(includes_archived=True)])


@settings(max_examples=60)
@given(
    notes=NOTES,
    recalls=RECALLS,
    filters=FILTERS,
    name=st.sampled_from(["worth", "importance", "priority"]),
    path=st.sampled_from([None, "f"]),
    most=st.tuples(st.sampled_from([0, 2_000]), st.integers(0, 3)),
)
def test_pages_of_groups_are_those_of_all_sections_sorted(
    notes: list[list[dict[str, str]]],
    recalls: dict[tuple[int, int], int],
    filters: Filters,
    name: OrderName,
    path: str | None,
    most: tuple[int, int],
    put: Put,
) -> None:
    filters = replace(filters, includes_expired=True)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        index = Index(Path(folder) / "index.db", "f" * 32)
        try:
            index.apply([put(name_note(n), render(metas)) for n, metas in enumerate(notes)])
            with index.pool.acquire(10.0) as reader:
                accesses = {
                    f"{name_note(n)}#part-{at}": times for (n, at), times in recalls.items()
                }
                keys = bind_sort_keys(make_valuation(Config(), NOW_S, accesses))
                patch.setattr(pages, "has_classes", lambda _: False)
                every = find_page(reader, filters, PageOrder(name, keys), path=path, limit=9)
                patch.setattr(pages, "has_classes", lambda _: True)
                # Each group is read by paths, or sorted, and some recalls only raise bounds.
                patch.setattr(pages, "_are_few", lambda *_: False)
                patch.setattr(pages, "_find_most_sorted", lambda *_: most[0])
                patch.setattr(pages, "MAX_RECALLED", most[1])
                for limit in (1, 2, 9):
                    assert read_all(reader, filters, name, keys, path, limit) == every
        finally:
            index.close()


def read_all(
    reader: Reader,
    filters: Filters,
    name: OrderName,
    keys: dict[str, Any],
    path: str | None,
    limit: int,
) -> list[tuple[str, float]]:
    """Return the notes of all pages of `limit` notes."""
    every: list[tuple[str, float]] = []
    after = None
    while True:
        page = find_page(reader, filters, PageOrder(name, keys, after), path=path, limit=limit)
        every += page
        if len(page) < limit:
            return every
        after = page[-1][1], page[-1][0]


def name_note(number: int) -> str:
    return f"{'f/' * (number % 2)}n{number}.md"


def render(metas: list[dict[str, str]]) -> str:
    """A note without sections is blank."""
    parts = []
    for number, meta in enumerate(metas):
        pairs = ", ".join(f"{key}: {value}" for key, value in meta.items())
        parts.append(f"# Part {number}\n<!-- memory: {{{pairs}}} -->\n\ntext\n")
    return "\n".join(parts)
