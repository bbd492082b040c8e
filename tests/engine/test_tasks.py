"""Whether a task is ready depends on the tasks, sections and notes that block it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from memsyncd.core.search.filters import Filters
from memsyncd.engine.metadata import bind_sort_keys, make_valuation
from memsyncd.operations.tasks.declare import TaskReady, TaskReadyParams
from memsyncd.operations.tasks.run import list_ready
from memsyncd.store import work
from memsyncd.store.work import ProjectSections
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


def test_the_first_sections_of_a_project_are_the_same_by_the_index_as_by_sorting_all(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(7)
    for number in range(40):
        day = f"---\ndate: 2026-0{1 + number % 9}-01\n---\n" if number % 2 else ""
        lines = [f"{day}# Note {number}\n"]
        for at in range(6):
            values = {
                "lifecycle": rng.choice(("project", "project", "task")),
                "kind": rng.choice(("", "decision", "error", "own")),
                "importance": rng.choice(("", "0.3", "0.8")),
                "created": rng.choice(("", f"2026-01-{rng.randint(10, 14)}")),
                "status": rng.choice(("", "", "done", "archived", "open")),
                "task": rng.choice(("", "T-1")),
                "expires": rng.choice(("", "", "2020-01-01")),
                "tags": rng.choice(("", "[pinned]")),
            }
            pairs = ", ".join(f"{key}: {value}" for key, value in values.items() if value)
            text = "" if at == 3 else f"Text {at}.\n"
            lines.append(f"## Part {at}\n<!-- memory: {{{pairs}}} -->\n{text}")
        bench.write(f".memories/note-{number}.md", "\n".join(lines))
    bench.rebuild()
    keys = bind_sort_keys(make_valuation(bench.config, NOW_S))
    with bench.workspace.acquire(5.0) as reader:
        for filters in (Filters(), Filters(includes_archived=True), Filters(kinds=("error",))):
            own = ProjectSections(reader, replace(filters, now_s=NOW_S), other_than="T-1")
            n_all = own.count()[0]
            assert n_all > 5
            for most in (1, 3, 10, n_all, n_all + 1):
                expected = own.find_first("importance", keys, most=most)
                assert len(expected) == min(most, n_all)
                with monkeypatch.context() as patch:
                    patch.setattr(work, "MAX_SORTED", 0)
                    assert own.find_first("importance", keys, most=most) == expected
