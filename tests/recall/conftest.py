"""Sets of questions, asked of the real engine in this process; each scope is a workspace of its own on the real disk."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from memsyncd.core.search.context import Budget
from memsyncd.engine.context import build_context
from memsyncd.engine.indexing import close_workspace, open_workspace
from memsyncd.engine.policies import Clock, SearchPolicy, SyncPolicy
from memsyncd.engine.search import search
from memsyncd.engine.sync import SyncRequest, sync_workspace
from memsyncd.engine.workspaces import Entry, Workspace
from memsyncd.protocol.search import ContextParams, SearchParams
from tests.benchmarks.questions import Lines, Question, QuestionSet, find_scope_path

Answers = tuple[dict[str, list[Lines]], dict[str, list[Lines]]]
"""What a search finds and what a block of 500 tokens shows, by the question's id, the best first."""
N_RESULTS = 50
BLOCK = Budget(max_tokens=500)


@pytest.fixture(scope="session")
def ask_all(tmp_path_factory: pytest.TempPathFactory) -> Callable[[QuestionSet], Answers]:
    """Index the notes of a set and ask all its questions."""

    def ask(asked: QuestionSet) -> Answers:
        found: dict[str, list[Lines]] = {}
        shown: dict[str, list[Lines]] = {}
        for scope in asked.notes:
            with lend_workspace(asked, scope, tmp_path_factory.mktemp("r")) as workspace:
                for one in asked.questions:
                    if one.scope == scope:
                        found[one.id], shown[one.id] = find_lines(workspace, one), find_shown(workspace, one)
        return found, shown

    return ask


def find_shown(workspace: Workspace, question: Question) -> list[Lines]:
    params = ContextParams(query=question.text, max_tokens=BLOCK.max_tokens, timeout_ms=30_000)
    parts = build_context(workspace, params, SearchPolicy()).included
    return [Lines(path=find_scope_path(part.path), start=part.start_line, end=part.end_line) for part in parts]


def find_lines(workspace: Workspace, question: Question) -> list[Lines]:
    params = SearchParams(query=question.text, limit=N_RESULTS, timeout_ms=30_000)
    found = search([workspace], params, SearchPolicy())
    return [Lines(path=find_scope_path(hit.path), start=hit.start_line, end=hit.end_line) for hit in found.hits]


@contextlib.contextmanager
def lend_workspace(asked: QuestionSet, scope: str, folder: Path) -> Iterator[Workspace]:
    policy, clock = SyncPolicy(), Clock(now_s=time.monotonic, wall_ns=time.time_ns)
    asked.copy_scope(scope, folder / "project")
    workspace = Workspace(
        Entry(id="project-1", name="project", root=str((folder / "project").resolve())),
        policy,
        index_path=folder / "index.db",
        records_path=folder / "records.db",
    )
    take(open_workspace(workspace, policy, clock))
    try:
        take(sync_workspace(workspace, policy, clock, SyncRequest()))
        yield workspace
    finally:
        take(close_workspace(workspace))


def take(steps: Generator[None, None, Any]) -> Any:
    """Take all steps of a job and give its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
