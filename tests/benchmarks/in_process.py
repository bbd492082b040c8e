"""Ask the engine in this process: each scope of a set is a workspace of its own on the real disk.

The answers equal those over a socket; they come without a daemon's start and its other threads.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.context import merge_offers, offer_context
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.rebuild import close_workspace, open_workspace
from memsyncd.engine.search import search
from memsyncd.engine.sync import SyncRequest, sync_workspace
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.operations.context.declare import ContextParams
from memsyncd.operations.search.declare import SearchParams
from tests.benchmarks.questions import Lines, Question, QuestionSet, find_scope_path

N_RESULTS = 50
TIMEOUT_S = 30.0


def find_lines(workspace: Workspace, question: Question, config: Config) -> list[Lines]:
    """The places of a search's hits, best first."""
    params = SearchParams(query=question.text, limit=N_RESULTS)
    return [
        Lines(path=find_scope_path(hit.path), start=hit.start_line, end=hit.end_line)
        for hit in search([workspace], params, config, RunOptions(timeout_s=TIMEOUT_S)).hits
    ]


def find_shown(
    workspace: Workspace, question: Question, config: Config, *, max_tokens: int
) -> list[Lines]:
    """The places that a context block includes, best first."""
    params = ContextParams(query=question.text, max_tokens=max_tokens)
    options = RunOptions(timeout_s=TIMEOUT_S)
    return [
        Lines(path=find_scope_path(part.path), start=part.start_line, end=part.end_line)
        for part in merge_offers(
            [offer_context(workspace, params, config, options)], params, config
        ).included
    ]


@contextlib.contextmanager
def open_indexed(question_set: QuestionSet, scope: str, folder: Path) -> Iterator[Workspace]:
    """A workspace with the notes of a scope, indexed, in an empty folder."""
    config, clock = Config(), Clock(now_s=time.monotonic, wall_ns=time.time_ns)
    question_set.copy_scope(scope, folder / "project")
    workspace = Workspace(
        Entry(id="project-1", name="project", root=str((folder / "project").resolve())),
        config,
        index_path=folder / "index.db",
        records_path=folder / "records.db",
    )
    take(open_workspace(workspace, config, clock))
    try:
        take(sync_workspace(workspace, config, clock, SyncRequest()))
        yield workspace
    finally:
        take(close_workspace(workspace))


def take(steps: Generator[None, None, Any]) -> Any:
    """Take all steps of a job and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
