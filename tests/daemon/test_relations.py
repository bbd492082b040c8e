"""Relations of memories against the real daemon: walks, what resolved an error, contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from memsyncd.client.memory import Memsyncd

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon


def add_error_and_solution(memory: Memsyncd) -> tuple[str, str]:
    solution = memory.add(
        "Give the pool an upper limit of connections.",
        summary="Limit the pool",
        kind="solution_approach",
        topic="redis",
    )
    error = memory.add(
        "The redis client ran out of sockets.\n\n"
        f"- resolved_by [[{solution['path']}#Limit the pool]]",
        summary="Sockets exhausted",
        kind="error",
        topic="redis",
        keywords=["redis", "sockets"],
    )
    return error["anchor"], solution["anchor"]


def test_an_error_leads_to_its_solution_by_a_walk_a_search_a_context_and_a_recall(
    place: Place, memory: Memsyncd
) -> None:
    error, solution = add_error_and_solution(memory)
    [link] = memory.links(error, relation="resolved_by", direction="out", depth=3)["links"]
    assert (link["source"], link["to"], link["depth"]) == (error, solution, 1)
    [back] = memory.links(solution, relation="resolved_by", direction="in")["links"]
    assert back["source"] == error
    assert f'"{error}" -> "{solution}" [label="resolved_by"];' in str(
        memory.links(error, format="dot")["drawing"]
    )
    refused = place.home.run("links", error, "--draw", "svg", cwd=place.root)
    assert "--draw dot | dot -Tsvg" in refused.stderr

    [hit] = memory.search("sockets", kind="error", follow="resolved_by")
    [fix] = hit["related"]
    assert (fix["relation"], fix["anchor"], fix["kind"]) == (
        "resolved_by", solution, "solution_approach",
    )  # fmt: skip
    block = memory.context("sockets", follow=["resolved_by"], kind="error")
    assert "[Sockets exhausted resolved_by this]" in block
    assert "upper limit" in block
    recalled = memory.recall("sockets", follow="resolved_by")["memories"]
    assert [(memory["anchor"], memory["relation"]) for memory in recalled] == [
        (error, None), (solution, "resolved_by"),
    ]  # fmt: skip


def test_a_contradiction_is_reported_on_both_sides(memory: Memsyncd) -> None:
    old = memory.add("Deploy on Fridays.", summary="Fridays", note="a.md")["anchor"]
    new = memory.add(
        "Never deploy before a weekend.\n\n- contradicts [[a#Fridays]]",
        summary="Weekends",
        note="b.md",
    )["anchor"]
    hits = {hit["anchor"]: hit for hit in memory.search("deploy")}
    assert (hits[old]["contradicts"], hits[old]["contradicted_by"]) == ([], [new])
    assert (hits[new]["contradicts"], hits[new]["contradicted_by"]) == ([old], [])
