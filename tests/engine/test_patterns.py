"""The sections that several workspaces have in common are read within bounds, the newest of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memsyncd.config import Config
from memsyncd.engine.plan import RunOptions
from memsyncd.errors import NotFresh
from memsyncd.operations.similar.declare import PatternsParams
from memsyncd.operations.similar.patterns import (
    find_patterns,
    find_shared_categories,
    read_categories,
    read_category_sections,
)
from memsyncd.store.connection import CancellationToken

PARAMS = PatternsParams()
OPTIONS = RunOptions(now_s=1.0)
SAME = "Redis gives up after thirty seconds, so the pool must not wait."


def make_note(kind: str, *texts: str) -> str:
    sections = "".join(f"## Part {n}\n\n{text}\n\n" for n, text in enumerate(texts))
    return f"---\nkind: {kind}\n---\n# Title\n\n{sections}"


def read_all(benches: list[Any], *, most: int = 100) -> list[Any]:
    counts = [read_categories(bench.workspace, PARAMS, 5.0) for bench in benches]
    common = find_shared_categories(counts, PARAMS.min_workspaces)
    return [
        read_category_sections(
            bench.workspace,
            common,
            sum(n for category, n in count.items() if category in common),
            Config(),
            OPTIONS,
            most=most,
        )
        for bench, count in zip(benches, counts, strict=True)
    ]


@pytest.fixture
def benches(make_bench: Callable[..., Any]) -> list[Any]:
    made = [make_bench("one"), make_bench("two")]
    for bench in made:
        bench.open()
        bench.write(".memories/errors.md", make_note("error", SAME, f"Only {bench.root.name}."))
        bench.write(".memories/own.md", make_note(f"kind_{bench.root.name}", SAME))
        bench.write("MEMORY.md", f"# Plain\n\n{SAME}\n")
        bench.rebuild()
    return made


def test_only_common_kinds_are_read_and_short_texts_are_not_compared(benches: list[Any]) -> None:
    parts = read_all(benches)
    assert [[section.described.anchor for section in part.sections] for part in parts] == [
        [".memories/errors.md#title/part-0"]
    ] * 2
    [pattern] = find_patterns(parts, PARAMS)
    assert (pattern.kind, pattern.similarity, pattern.n_workspaces) == ("error", 1.0, 2)
    assert pattern.sections[0].snippet == SAME


def test_the_title_of_a_note_is_the_topic_that_is_asked_for(benches: list[Any]) -> None:
    for bench in benches:
        name = bench.root.name
        bench.write(f".memories/{name}.md", f"# Redis\n\n## {name}\n\n{SAME}\n")
        bench.rebuild()
    params = PatternsParams(topic="redis")
    counts = [read_categories(bench.workspace, params, 5.0) for bench in benches]
    assert [{*count} for count in counts] == [{(None, "Redis")}] * 2
    parts = [
        read_category_sections(
            bench.workspace, count, 1, Config(), OPTIONS, most=9, has_titles=True
        )
        for bench, count in zip(benches, counts, strict=True)
    ]
    [pattern] = find_patterns(parts, params)
    assert {section.path for section in pattern.sections} == {
        ".memories/one.md",
        ".memories/two.md",
    }


def test_what_is_too_much_is_counted(benches: list[Any]) -> None:
    parts = read_all(benches, most=1)
    assert [part.n_left_out for part in parts] == [3, 3]


def test_a_secret_is_neither_shown_nor_compared(benches: list[Any]) -> None:
    key = "ghp_" + ("a1B2c3D4e5" * 4)[:36]
    for bench in benches:
        bench.write(".memories/errors.md", make_note("error", f"{SAME} It needs {key} as well."))
        bench.rebuild()
    [pattern] = find_patterns(read_all(benches), PARAMS)
    assert all(
        key not in section.snippet and "masked" in section.snippet for section in pattern.sections
    )


def test_a_cancelled_request_compares_nothing(benches: list[Any]) -> None:
    parts = read_all(benches)
    token = CancellationToken()
    token.cancel()
    with pytest.raises(NotFresh):
        token.run(lambda: find_patterns(parts, PARAMS))
