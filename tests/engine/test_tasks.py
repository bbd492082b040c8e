"""Whether a task is ready depends on the tasks, sections and notes that block it."""

from __future__ import annotations

from typing import Any

import pytest

from memsyncd.operations.tasks.declare import TaskReady, TaskReadyParams
from memsyncd.operations.tasks.run import list_ready
from tests.engine.conftest import make_call

NOW_S = 1_795_000_000.0
TASKS = """# Tasks

## First
<!-- memory: {{task: WU-1, blocked_by: "{blocked_by}"}} -->
Split the ports.

## Empty
<!-- memory: {{task: WU-1}} -->

## Closed
<!-- memory: {{task: WU-0, status: done}} -->
Define the ports.
"""
DONE = "# Design\n\n## Sketch\n<!-- memory: {status: done} -->\nDrawn.\n"
OPEN = "# Design\n\n## Sketch\n<!-- memory: {status: open} -->\nNot drawn.\n"


def find_ready(bench: Any, **notes: str) -> TaskReady:
    for path, text in notes.items():
        bench.write(f".memories/{path}", text)
    bench.sync(is_full=True)
    return list_ready(make_call(bench.workspace, bench.config, now_s=NOW_S), TaskReadyParams())


@pytest.mark.parametrize(
    "named", ["WU-0", ".memories/a.md", ".memories/a.md#design/sketch", ".memories/a*1.md"]
)
def test_a_task_is_ready_once_what_it_names_is_done_though_that_has_no_task(
    bench: Any, named: str
) -> None:
    notes = {"tasks.md": TASKS.format(blocked_by=named), "a.md": DONE, "a*1.md": DONE}
    ready = find_ready(bench, **notes)
    assert [item.heading[-1] for item in ready.items] == ["First"]
    assert (ready.n_ready, ready.blocked) == (1, 0)


@pytest.mark.parametrize(
    "named", ["WU-9", ".memories/b.md", ".memories/b.md#design/sketch", ".memories/a*2.md", "*.md"]
)
def test_a_task_is_blocked_by_what_is_open_or_not_known(bench: Any, named: str) -> None:
    notes = {"tasks.md": TASKS.format(blocked_by=named), "b.md": OPEN, "ax2.md": DONE}
    ready = find_ready(bench, **notes)
    assert (ready.items, ready.blocked) == ([], 1)
