"""Texts about workspaces: what was found in a folder, a sync, changes."""

from __future__ import annotations

import io
from typing import Any

import pytest

from memsyncd.cli.commands import load_command
from memsyncd.operations.changes.show import render_change
from memsyncd.operations.workspaces.show import describe_found, render_sync_report
from memsyncd.terminal.console import Console
from memsyncd.terminal.parser import parse_command
from memsyncd.terminal.terminal import Paint, Terminal

PLAIN = Paint()
REPORT: dict[str, Any] = {
    "workspace": "notes-1",
    "generation": 43,
    "added": 3,
    "modified": 0,
    "moved": 1,
    "removed": 0,
    "unchanged": 1200,
    "failed": [],
    "chunks": {"upserted": 14, "deleted": 2, "kept": 9, "moved": 1},
    "duration_ms": 35.2,
}
NOTHING = dict.fromkeys(("added", "moved", "unchanged"), 0) | {
    "chunks": {"upserted": 0, "deleted": 0, "kept": 0, "moved": 0}
}
INFO: dict[str, Any] = {"preset": "memory", "has_memory": False, "include": []}
FOUND: dict[str, Any] = {
    "what": "MEMORY.md and .memories/",
    "notes": 0,
    "others": 35,
    "is_complete": True,
    "worktree": None,
}


class AskedConsole(Console):
    """A console that keeps the parameters of a request."""

    def call_on(self, workspace: str | None, method: str, **params: object) -> dict[str, Any]:
        self.sent = {key: value for key, value in params.items() if value is not None}
        freshness = {"state": "ready", "pending": 0}
        return {"workspace": "notes-1", "notes": [], "freshness": freshness}

    def call(self, method: str, **params: object) -> dict[str, Any]:
        return {"workspaces": []}


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["--notes"], {"sections": False}),
        (["-w", "notes"], {"sections": False}),
        (["--notes", "--json"], {}),
        (["--sections"], {}),
        (["--notes", "--sort", "decay"], {"sort": "decay", "explain": True}),
    ],
)
def test_sections_are_requested_only_if_they_are_printed(
    words: list[str], sent: dict[str, object]
) -> None:
    console = AskedConsole(Terminal(io.StringIO(), io.StringIO(), {}), {})
    command = load_command("list")
    command.run(parse_command("list", command, words), console)
    assert console.sent == sent


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({}, "there is neither MEMORY.md nor .memories/"),
        ({"has_memory": True}, "MEMORY.md and .memories/ hold no note"),
        (
            {"include": ["docs/*.md"]},
            "no note matches docs/*.md, and there is neither MEMORY.md nor .memories/",
        ),
    ],
)
def test_adding_nothing_says_why_and_how_many_notes_the_whole_folder_has(
    info: dict[str, Any], reason: str
) -> None:
    init = "create a first MEMORY.md: memsyncd init ~/wiki"
    assert describe_found(FOUND, INFO | info, "~/wiki") == [
        f"nothing to index yet: {reason}",
        "the folder holds 35 notes; index them all: memsyncd add ~/wiki --preset vault",
        f"or {init}",
    ]
    assert describe_found(FOUND | {"others": 0}, INFO | info, "~/wiki")[1:] == [init]
    some = describe_found(FOUND | {"is_complete": False}, INFO | info, "~/wiki")
    assert "holds more than 35 notes" in some[1]


def test_each_file_that_is_nearly_memory_gets_its_own_remedy() -> None:
    place = FOUND | {"namesakes": ["memory.md", "pkg/MEMORY.md"]}
    assert describe_found(place, INFO, "~/wiki")[-2:] == [
        "memory.md is seen, but not read as memory; rename it to MEMORY.md",
        "pkg/MEMORY.md is seen, but not read as memory; index it: --include pkg/MEMORY.md",
    ]


@pytest.mark.parametrize(
    ("report", "line"),
    [
        ({}, "3 added, 1 moved, 1,200 unchanged · 14 chunks written · 2 deleted · 35 ms"),
        (NOTHING, "no notes · 35 ms"),
        (NOTHING | {"failed": [{"path": "a.md", "problem": "x"}]}, "no notes · 1 failed · 35 ms"),
    ],
)
def test_a_sync_is_reported_in_one_line(report: dict[str, Any], line: str) -> None:
    assert render_sync_report(REPORT | report, PLAIN) == f"{line}, generation 43"


@pytest.mark.parametrize(
    ("change", "end"),
    [
        ({}, "a.md, b.md"),
        (
            {"paths": [f"{n}.md" for n in range(9)]},
            "0.md, 1.md, 2.md, 3.md, 4.md, 5.md and 3 more",
        ),
        ({"complete": False}, "a.md, b.md  (older changes are missing: search again)"),
        ({"paths": ["a\nb.md"]}, "a b.md"),
    ],
)
def test_a_change_is_one_line(change: dict[str, Any], end: str) -> None:
    changed = {"workspace": "notes-1", "generation": 43, "paths": ["a.md", "b.md"]}
    changed |= {"chunks": 3, "complete": True, **change}
    line = render_change(changed, {"notes-1": "notes"}, PLAIN, clock="12:03:44")
    assert line == f"12:03:44  notes  generation 43  3 chunks  {end}"
