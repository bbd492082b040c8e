"""What the status line says of workspaces in every state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memsyncd.daemon.standing import Standing
from memsyncd.engine.policies import SyncPolicy
from memsyncd.engine.workspaces import Entry, Workspace
from memsyncd.store.index import Counts


def make_workspace(folder: Path, name: str = "trees", **condition: Any) -> Workspace:
    entry = Entry(id=name, name=name, root=str(folder))
    workspace = Workspace(entry, SyncPolicy(), index_path=folder / f"{name}.db", records_path=folder / f"{name}.records")
    workspace.change(**{"is_indexing": False, "counts": Counts(files=1204)} | condition)
    return workspace


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        ({}, "1 workspace, 1,204 notes"),
        ({"counts": Counts(files=1)}, "1 workspace, 1 note"),
        ({"is_indexing": True}, "1 workspace, 1,204 notes; indexing"),
        ({"is_indexing": True, "pending": 30}, "1 workspace, 1,204 notes; indexing 0/30"),
        ({"faults": {"watch": "deaf"}}, "1 workspace, 1,204 notes; degraded: trees"),
        ({"root_state": "missing"}, "1 workspace, 1,204 notes; missing: trees"),
    ],
)
def test_the_line_says_what_is_so(tmp_path: Path, condition: dict[str, Any], line: str) -> None:
    assert Standing().render([make_workspace(tmp_path, **condition)], ()) == line


def test_progress_is_told_against_the_most_there_was_to_do(tmp_path: Path) -> None:
    standing, workspace = Standing(), make_workspace(tmp_path, is_indexing=True, pending=2000)
    assert standing.render([workspace], ()).endswith("indexing 0/2,000")
    workspace.change(pending=500)
    assert standing.render([workspace], ()).endswith("indexing 1,500/2,000")
    workspace.change(is_indexing=False, pending=0)
    assert standing.render([workspace], ()) == "1 workspace, 1,204 notes"
    workspace.change(is_indexing=True, pending=10)
    assert standing.render([workspace], ()).endswith("indexing 0/10")


def test_many_that_are_amiss_are_named_in_part_and_counted(tmp_path: Path) -> None:
    workspaces = [make_workspace(tmp_path, f"w{n}", faults={"watch": "deaf"}) for n in range(5)]
    assert Standing().render(workspaces, ()).endswith("; degraded: w0, w1, w2 and 2 more")


def test_parts_that_make_no_progress_are_named(tmp_path: Path) -> None:
    assert Standing().render([], ("writer", "store")) == "0 workspaces, 0 notes; no progress: writer, store"
