"""Typed links bring to a hit the sections that they lead to, and contradictions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.config import Config, SearchConfig
from memsyncd.core.model import count_tokens
from memsyncd.engine.relations import MAX_RELATED, find_heads
from memsyncd.operations.links.declare import LinksParams
from memsyncd.operations.links.run import find_links, list_other_relations
from memsyncd.operations.recall.declare import RecallParams
from memsyncd.operations.recall.run import recall
from memsyncd.operations.sections import Filters
from tests.engine.conftest import SEARCH_POLICY, build_block, search_in

ERRORS = """# Errors

## Pool timeouts
<!-- memory: {kind: error, keywords: [redis]} -->

Redis gives up after thirty seconds.

### Seen in staging

The stalled workers waited.

- resolved_by [[fixes#Pool size]]
- caused_by [[fixes#Slow scans]]

## Disk full

Another failure of the disk.

- resolved_by [[fixes#Slow scans]]
"""
FIXES = """# Fixes

## Pool size
<!-- memory: {kind: solution_approach} -->

Raise the limit to fifty connections.

### Where

In the settings of the pool.

## Slow scans
<!-- memory: {status: archived} -->

Replace KEYS by SCAN.
"""
POOL, SIZE, SCANS = (
    ".memories/errors.md#errors/pool-timeouts",
    ".memories/fixes.md#fixes/pool-size",
    ".memories/fixes.md#fixes/slow-scans",
)


@pytest.fixture
def errors(bench: Any) -> Any:
    bench.config = SEARCH_POLICY
    bench.write(".memories/errors.md", ERRORS)
    bench.write(".memories/fixes.md", FIXES)
    bench.rebuild()
    return bench


def list_related(hit: Any) -> list[tuple[str, str]]:
    return [(related.relation, related.anchor) for related in hit.related]


def test_a_hit_brings_what_resolved_it_from_anywhere_in_its_memory(errors: Any) -> None:
    [hit] = search_in([errors.workspace], "thirty seconds", follow=["resolved_by"]).hits
    assert list_related(hit) == [("resolved_by", SIZE)]
    [fix] = hit.related
    assert (fix.kind, fix.start_line, fix.end_line) == ("solution_approach", 3, 10)
    assert fix.snippet == "Raise the limit to fifty connections."
    [plain] = search_in([errors.workspace], "thirty seconds").hits
    assert plain.related == []


def test_a_solution_that_says_what_it_resolves_comes_with_its_error(errors: Any) -> None:
    """The link may stand at either end; each end brings the other."""
    errors.write(".memories/lags.md", "# Lags\n\n## Kafka\n\nThe consumer lags at night.\n")
    errors.write(
        ".memories/cures.md",
        "# Cures\n\n## Poll more\n\nMore records for each poll.\n\n### Why\n\n"
        "- resolves [[lags#Kafka]]\n",
    )
    errors.sync()
    lag, cure = ".memories/lags.md#lags/kafka", ".memories/cures.md#cures/poll-more"
    follow = ["resolved_by", "resolves"]
    [hit] = search_in([errors.workspace], "consumer", follow=follow).hits
    assert list_related(hit) == [("resolved_by", cure)]
    [hit] = search_in([errors.workspace], "records", follow=follow).hits
    assert list_related(hit) == [("resolves", lag)]
    recalled = recall(
        errors.workspace, SEARCH_POLICY, RecallParams(text="consumer", follow=follow), 0.0
    )
    assert [memory.anchor for memory in recalled.memories] == [lag, cure]
    block = build_block(errors.workspace, "consumer", follow=follow)
    assert "[Kafka resolved_by this]" in block.text


def test_what_filters_hide_is_not_brought(errors: Any) -> None:
    follow = ["caused_by", "resolved_by"]
    [hit] = search_in([errors.workspace], "thirty seconds", follow=follow).hits
    assert list_related(hit) == [("resolved_by", SIZE)]
    answer = search_in(
        [errors.workspace], "thirty seconds", follow=follow, filters=Filters(include_archived=True)
    )
    assert list_related(answer.hits[0]) == [("resolved_by", SIZE), ("caused_by", SCANS)]


def test_a_secret_in_what_a_relation_leads_to_is_masked(errors: Any) -> None:
    key = "ghp_" + "a1B2c3D4e5" * 4
    errors.write(".memories/fixes.md", f"# Fixes\n\n## Pool size\n\nUse {key[:40]} there.\n")
    errors.rebuild()
    [hit] = search_in([errors.workspace], "thirty seconds", follow=["resolved_by"]).hits
    assert "masked" in hit.related[0].snippet
    assert key[:40] not in hit.related[0].snippet


def test_a_hit_has_a_limited_number_of_related_sections(bench: Any) -> None:
    bench.config = SEARCH_POLICY
    many = "".join(f"- informs [[n{number}]]\n" for number in range(MAX_RELATED + 5))
    bench.write("MEMORY.md", f"# Hub\n\nhub words\n\n{many}")
    for number in range(MAX_RELATED + 5):
        bench.write(f".memories/n{number}.md", f"leaf {number}\n")
    bench.rebuild()
    [hit] = search_in([bench.workspace], "hub", follow=["informs"]).hits
    assert [related.path for related in hit.related] == [
        f".memories/n{number}.md" for number in range(MAX_RELATED)
    ]


def test_contradictions_are_reported_from_both_sides(bench: Any) -> None:
    bench.config = SEARCH_POLICY
    bench.write("old.txt", "")
    bench.write(
        ".memories/rules.md",
        "# Rules\n\n## Tabs\n\nUse tabulators.\n\n## Spaces\n\nUse spaces.\n\n"
        "- contradicts [[#Tabs]]\n\n## Others\n\nUse anything.\n",
    )
    bench.write(".memories/style.md", "# Style\n\nUse nothing.\n\n- contradicts [[rules]]\n")
    bench.rebuild()
    tabs, spaces, style = (
        ".memories/rules.md#rules/tabs",
        ".memories/rules.md#rules/spaces",
        ".memories/style.md#style",
    )
    words = {"tabulators": tabs, "spaces": spaces, "nothing": style}
    alone = Config(search=SearchConfig(passage_tokens=1))
    results = {}
    for word, anchor in words.items():
        [hit] = search_in([bench.workspace], word, alone).hits
        assert hit.anchor == anchor
        results[word] = (hit.contradicts, hit.contradicted_by)
    assert results == {
        "tabulators": ([], [spaces, style]),
        "spaces": ([tabs], [style]),
        "nothing": ([".memories/rules.md"], []),
    }
    # A passage of several sections has the relations of all of them.
    joined, *_ = search_in([bench.workspace], "use").hits
    assert (joined.contradicts, set(joined.contradicted_by)) == ([tabs], {spaces, style})
    block = build_block(bench.workspace, "tabulators")
    assert f"[contradicted by {spaces}, {style}]" in block.text
    assert block.included[0].contradicted_by == [spaces, style]
    recalled = recall(bench.workspace, SEARCH_POLICY, RecallParams(text="tabulators"), 0.0)
    assert recalled.memories[0].contradicted_by == [spaces, style]


def test_a_context_includes_what_resolved_its_errors_within_the_budget(errors: Any) -> None:
    for max_tokens in (100, 150, 400, 2000):
        block = build_block(
            errors.workspace, "thirty seconds", follow=["resolved_by"], max_tokens=max_tokens
        )
        assert count_tokens(block.text) <= max_tokens, max_tokens
        parts = {part.anchor: part for part in block.included}
        assert POOL in parts, max_tokens
        if max_tokens >= 400:
            assert (
                "### Fixes › Pool size (solution_approach) · [Pool timeouts resolved_by this]"
                in (block.text)
            )
            assert "Raise the limit" in block.text
            fix = parts[SIZE]
            assert (fix.reason, fix.relation, fix.related_to) == ("related", "resolved_by", POOL)


def test_a_recall_puts_the_solution_behind_its_error(errors: Any) -> None:
    params = RecallParams(keywords=["redis"], follow=["resolved_by"])
    recalled = recall(errors.workspace, SEARCH_POLICY, params, 0.0)
    assert [
        (memory.anchor, memory.relation, memory.related_to) for memory in recalled.memories
    ] == [
        (POOL, None, None),
        (SIZE, "resolved_by", POOL),
    ]
    assert "In the settings of the pool." in recalled.memories[1].text
    small = recall(
        errors.workspace, SEARCH_POLICY, RecallParams(keywords=["redis"], max_tokens=100), 0.0
    )
    assert len(small.memories) == 1


def test_the_relations_of_notes_are_named_for_one_that_none_has(errors: Any) -> None:
    def others(**asked: Any) -> list[str]:
        return list_other_relations(errors.workspace, LinksParams(**asked))

    assert "resolved_by" in others(relation="resolvd_by")
    assert others(relation=["resolvd_by", "resolved_by"]) == others() == []


def test_a_walk_follows_the_named_relations_alone(errors: Any) -> None:
    errors.write(".memories/plan.md", "# Plan\n\n- informs [[errors#Pool timeouts]]\n")
    errors.write(".memories/fixes.md", FIXES.replace("## Slow", "- part_of [[plan]]\n\n## Slow"))
    errors.rebuild()

    def walk(**asked: Any) -> list[tuple[str, str | None]]:
        links, _ = find_links(
            errors.workspace, SEARCH_POLICY, LinksParams(anchor=POOL, direction="out", **asked)
        )
        return [(link.relation, link.to) for link in links]

    steps = [("resolved_by", SIZE), ("part_of", ".memories/plan.md")]
    assert walk(relation="resolved_by", depth=5) == steps[:1]
    assert walk(relation=["resolved_by", "part_of"], depth=1) == steps[:1]
    for depth in (2, 5):
        assert walk(relation=["resolved_by", "part_of"], depth=depth) == steps
    # Untyped and other links are no steps.
    assert walk(relation="part_of", depth=5) == []


@given(
    levels=st.lists(
        st.tuples(st.sampled_from(["n#a", "n#a/b", "n#a/b/c", "n#d", "n#d/e"]), st.integers(0, 6)),
        unique_by=lambda pair: pair[0],
    )
)
def test_each_section_is_in_one_memory_whose_head_is_the_section_or_above_it(
    levels: list[tuple[str, int]],
) -> None:
    heads = find_heads(levels)
    assert set(heads) == {anchor for anchor, _ in levels}
    for anchor, head in heads.items():
        assert head == anchor or anchor.startswith(f"{head}/")
        assert heads[head] == head
