"""The status line for workspaces in every state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memsyncd.config import Config
from memsyncd.daemon.display import StatusLine
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.store.index import Counts


def make_workspace(folder: Path, name: str = "trees", **condition: Any) -> Workspace:
    entry = Entry(id=name, name=name, root=str(folder))
    workspace = Workspace(
        entry,
        Config(),
        index_path=folder / f"{name}.db",
        records_path=folder / f"{name}.records",
    )
    workspace.change(**{"is_indexing": False, "counts": Counts(files=1204)} | condition)
    return workspace


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        ({}, "1 workspace, 1,204 notes"),
        ({"counts": Counts(files=1)}, "1 workspace, 1 note"),
        ({"is_indexing": True}, "1 workspace, 1,204 notes; indexing"),
        ({"is_indexing": True, "pending": 30}, "1 workspace, 1,204 notes; indexing 0/30"),
        ({"is_indexing": True, "n_to_fill": 30}, "1 workspace, 1,204 notes; indexing 0/30"),
        ({"faults": {"watch": "deaf"}}, "1 workspace, 1,204 notes; degraded: trees"),
        ({"root_state": "missing"}, "1 workspace, 1,204 notes; missing: trees"),
    ],
)
def test_the_status_line_names_the_state_of_the_workspaces(
    tmp_path: Path, condition: dict[str, Any], line: str
) -> None:
    assert StatusLine().render([make_workspace(tmp_path, **condition)], ()) == line


def test_progress_is_relative_to_the_largest_number_of_pending_notes(tmp_path: Path) -> None:
    line, workspace = StatusLine(), make_workspace(tmp_path, is_indexing=True, pending=2000)
    assert line.render([workspace], ()).endswith("indexing 0/2,000")
    workspace.change(pending=500)
    assert line.render([workspace], ()).endswith("indexing 1,500/2,000")
    workspace.change(is_indexing=False, pending=0)
    assert line.render([workspace], ()) == "1 workspace, 1,204 notes"
    workspace.change(is_indexing=True, pending=10)
    assert line.render([workspace], ()).endswith("indexing 0/10")


def test_stalled_parts_are_named(tmp_path: Path) -> None:
    assert (
        StatusLine().render([], ("writer", "store"))
        == "0 workspaces, 0 notes; no progress: writer, store"
    )
