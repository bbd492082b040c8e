"""The gate fails if any ranking parameter is switched off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsyncd.engine.workspace import Workspace
from tests.benchmarks.ablations import ABLATIONS, NO_ABLATION, Ablation
from tests.benchmarks.in_process import find_lines, find_shown, open_indexed
from tests.benchmarks.questions import QuestionSet, read_set
from tests.recall.conftest import BLOCK_TOKENS
from tests.recall.gate import MINIMUM_SCORES, find_short, measure_category

OWN = Path(__file__).parent
Workspaces = dict[str, Workspace]


@pytest.fixture(scope="module")
def own() -> QuestionSet:
    return read_set(OWN)


@pytest.fixture(scope="module")
def workspaces(own: QuestionSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspaces]:
    needed = {ablation.category for ablation in ABLATIONS}
    scopes = {one.scope for one in own.questions if one.category in needed}
    with contextlib.ExitStack() as stack:
        yield {
            scope: stack.enter_context(
                open_indexed(own, scope, tmp_path_factory.mktemp("ablation"))
            )
            for scope in sorted(scopes)
        }


def test_each_ablation_has_questions_of_its_own(own: QuestionSet) -> None:
    assert {ablation.category for ablation in ABLATIONS} <= MINIMUM_SCORES.keys()
    assert MINIMUM_SCORES.keys() == {one.category for one in own.questions}
    assert len({ablation.name for ablation in ABLATIONS}) == len(ABLATIONS)


@pytest.mark.life
# One test for all, so that the notes are indexed once and not in each process of the suite.
def test_the_gate_holds_and_fails_without_any_one_parameter(
    own: QuestionSet, workspaces: Workspaces
) -> None:
    for ablation in ABLATIONS:
        assert find_misses(own, workspaces, ablation.category, NO_ABLATION) == []
    unnoticed = [
        ablation.name
        for ablation in ABLATIONS
        if not find_misses(own, workspaces, ablation.category, ablation)
    ]
    assert unnoticed == []


def find_misses(
    own: QuestionSet, workspaces: Workspaces, category: str, ablation: Ablation
) -> list[str]:
    """The result of the gate for a category while an ablation is applied."""
    questions = [one for one in own.questions if one.category == category]
    with ablation.apply() as policy:
        found = {one.id: find_lines(workspaces[one.scope], one, policy) for one in questions}
        shown = {
            one.id: find_shown(workspaces[one.scope], one, policy, max_tokens=BLOCK_TOKENS)
            for one in questions
        }
    reached = measure_category(own, category, found, shown)
    if not ablation.is_search:
        reached = reached._replace(recall=1.0, mrr=1.0)
    if not ablation.is_context:
        reached = reached._replace(shown=1.0)
    return [*find_short(category, reached)]
