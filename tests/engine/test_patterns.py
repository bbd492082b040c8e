"""The sections that several workspaces have in common are read within bounds, the newest of them."""

from __future__ import annotations

import random
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
from tests.engine.concepts import ConceptVectors
from tests.engine.conftest import SEARCH_POLICY

PARAMS = PatternsParams()
OPTIONS = RunOptions(now_s=1.0)
SAME = "Redis gives up after thirty seconds, so the pool must not wait."


def make_note(kind: str, *texts: str) -> str:
    sections = "".join(f"## Part {n}\n\n{text}\n\n" for n, text in enumerate(texts))
    return f"---\nkind: {kind}\n---\n# Title\n\n{sections}"


def read_all(benches: list[Any], *, most: int = 100, params: PatternsParams = PARAMS) -> list[Any]:
    counts = [read_categories(bench.workspace, params, 5.0) for bench in benches]
    common = find_shared_categories(counts, params.min_workspaces)
    return [
        read_category_sections(
            bench.workspace,
            common,
            sum(sum(by.values()) for category, by in count.items() if category in common),
            Config(),
            OPTIONS,
            params,
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
        read_category_sections(bench.workspace, count, 1, Config(), OPTIONS, params, most=9)
        for bench, count in zip(benches, counts, strict=True)
    ]
    [pattern] = find_patterns(parts, params)
    assert {section.path for section in pattern.sections} == {
        ".memories/one.md",
        ".memories/two.md",
    }


def test_the_clients_of_one_workspace_are_compared_like_workspaces(
    make_bench: Callable[..., Any],
) -> None:
    """The same fragments give the same patterns, in a workspace for each client or in one."""
    rng = random.Random(7)
    clients = ("acme", "Globex", "initech")
    texts = (
        SAME,
        "Each row of the orders page asks the database once more.",
        "The backup was never restored until the day when it had to be.",
        "Deploys on Friday broke the weekend, so releases stop on Thursday.",
    )
    one = make_bench("one")
    apart = {client: make_bench(client) for client in clients}
    for bench in (one, *apart.values()):
        bench.config = SEARCH_POLICY
        bench.open()
    sections: dict[str, list[str]] = {client: [] for client in clients}
    for number in range(24):
        client, kind, text = rng.choice(clients), rng.choice(("error", "fact")), rng.choice(texts)
        sections[client].append(
            f"## {client} {number}\n<!-- memory: {{kind: {kind}, topic: ops, source: {{client:"
            f" {client}, date: 2026-03-{number + 1:02}}}}} -->\n\n{text}\n\n"
        )
    for client, bench in apart.items():
        bench.write(".memories/log.md", "# Log\n\n" + "".join(sections[client]))
        bench.rebuild()
    one.write(
        ".memories/log.md", "# Log\n\n" + "".join(s for each in sections.values() for s in each)
    )
    one.write(".memories/own.md", f"# Own\n\n## Ours\n<!-- memory: {{kind: error}} -->\n\n{SAME}\n")
    one.rebuild()

    def find(benches: list[Any], **by: Any) -> list[Any]:
        params = PatternsParams(**by)
        return find_patterns(read_all(benches, params=params), params)

    for least in (2, 3):
        inside = find([one], by="source.client", min_workspaces=least)
        across = find([*apart.values()], min_workspaces=least)
        assert inside
        for patterns in (inside, across):
            for pattern in patterns:
                assert len({section.source.split(";")[0] for section in pattern.sections}) >= least
        assert {frozenset(s.heading[-1] for s in pattern.sections) for pattern in inside} == {
            frozenset(s.heading[-1] for s in pattern.sections) for pattern in across
        }
        assert {pattern.n_workspaces for pattern in inside} == {1}
        assert all(set(pattern.values) <= {*clients} for pattern in inside)
    assert find([one], by="nowhere") == find([one], by="source.nowhere") == find([one]) == []


def test_vectors_find_what_recurs_in_other_words(make_bench: Callable[..., Any]) -> None:
    one = make_bench("one")
    one.config = SEARCH_POLICY
    one.open()
    texts = {
        "acme": "The automobile of the buyer broke down upon every single trip abroad.",
        "globex": "Driving our vehicle fails whenever somebody goes far away with it.",
        "initech": "A physician must be present in all of the buildings during work.",
    }
    one.write(
        ".memories/log.md",
        "# Log\n\n"
        + "".join(
            f"## At {client}\n<!-- memory: {{kind: error, source: {{client: {client}}}}} -->\n\n{text}\n\n"
            for client, text in texts.items()
        )
        + "".join(
            f"## Other {n}\n\nSomething else, the number {n} of many.\n\n" for n in range(30)
        ),
    )
    one.rebuild()
    params = PatternsParams(by="source.client")
    assert find_patterns(read_all([one], params=params), params) == []
    one.workspace.vectors = ConceptVectors(one.workspace)
    [pattern] = find_patterns(read_all([one], params=params), params)
    assert pattern.values == ["acme", "globex"]
    assert pattern.similarity > 0.8


def test_what_is_too_much_is_counted(benches: list[Any]) -> None:
    parts = read_all(benches, most=1)
    assert [part.n_left_out for part in parts] == [2, 2]


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
