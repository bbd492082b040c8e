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


def test_a_task_is_ready_once_what_it_names_is_done_though_that_has_no_task(bench: Any) -> None:
    for named in ("WU-0", ".memories/a.md", ".memories/a.md#design/sketch", ".memories/a*1.md"):
        notes = {"tasks.md": TASKS.format(blocked_by=named), "a.md": DONE, "a*1.md": DONE}
        ready = find_ready(bench, **notes)
        assert [item.heading[-1] for item in ready.items] == ["First"], named
        assert (ready.n_ready, ready.blocked) == (1, 0), named


def test_a_task_is_blocked_by_what_is_open_or_not_known(bench: Any) -> None:
    for named in (
        "WU-9",
        ".memories/b.md",
        ".memories/b.md#design/sketch",
        ".memories/a*2.md",
        "*.md",
    ):
        notes = {"tasks.md": TASKS.format(blocked_by=named), "b.md": OPEN, "ax2.md": DONE}
        ready = find_ready(bench, **notes)
        assert (ready.items, ready.blocked) == ([], 1), named


def test_of_many_open_sections_the_same_are_ready_in_the_same_order(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether each open section is judged, or only the first ones."""
    statuses = ("open", "", "blocked", "done", "Closed", "archived")
    parts = []
    for number in range(60):
        meta = f"task: WU-{number % 7}, status: {statuses[number % 6] or 'wip'}"
        meta += f", priority: P{number % 4}" if number % 5 else ""
        meta += f", created: 2026-03-{number % 9 + 10}" if number % 3 else ""
        meta += f", blocked_by: WU-{number % 8}" if number % 11 == 1 else ""
        meta += ", kind: checkpoint" if number % 13 == 2 else ""
        meta += f", expires: 20{20 + number % 12}-01-01" if number % 7 == 3 else ""
        body = "- blocked_by [[gone]]\n" if number % 17 == 4 else f"Text {number}.\n"
        parts.append(f"## Part {number}\n<!-- memory: {{{meta}}} -->\n{body}")
    for at in range(3):
        bench.write(f".memories/2026-02-0{at + 1} n.md", "# Work\n\n" + "\n".join(parts[at::3]))
    bench.sync(is_full=True)
    call = make_call(bench.workspace, bench.config, now_s=NOW_S)
    for includes in (False, True):
        asked = [TaskReadyParams(limit=n, include_archived=includes) for n in (1, 3, 8, 50)]
        judged = [list_ready(call, params).items for params in asked]
        assert len(judged[-1]) > 8
        with monkeypatch.context() as patch:
            patch.setattr("memsyncd.engine.work.MAX_JUDGED", 0)
            assert [list_ready(call, params).items for params in asked] == judged
