from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsyncd.terminal.format import render_path, render_span
from memsyncd.terminal.places import find_note, find_workspace_note, parse_target


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("MEMORY.md", ("MEMORY.md", None, None, None)),
        ("a.md:12", ("a.md", None, 12, 12)),
        ("a.md:12-18", ("a.md", None, 12, 18)),
        ("/w/a b.md:3", ("/w/a b.md", None, 3, 3)),
        ("a.md#redis/timeouts", ("a.md", "redis/timeouts", None, None)),
        ("a.md#", ("a.md", "", None, None)),
        ("c#.md", ("c#.md", None, None, None)),
        ("C#.MD", ("C#.MD", None, None, None)),
        ("C#.MD#", ("C#.MD", "", None, None)),
        ("c#.md:12", ("c#.md", None, 12, 12)),
        ("c#.md#setup", ("c#.md", "setup", None, None)),
        ("c#/a.md", ("c#/a.md", None, None, None)),
        ("a.md:", ("a.md:", None, None, None)),
        ("a.md:x", ("a.md:x", None, None, None)),
        ("a.md:1-", ("a.md:1-", None, None, None)),
        ("a.md:-1", ("a.md:-1", None, None, None)),
        (":1", (":1", None, None, None)),
        ("", ("", None, None, None)),
    ],
)
def test_a_target_is_a_path_with_lines_or_a_heading(
    text: str, wanted: tuple[str, str | None, int | None, int | None]
) -> None:
    target = parse_target(text)
    assert (target.path, target.heading, target.start_line, target.end_line) == wanted


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "notes").resolve()
    (root / ".memories" / "deep").mkdir(parents=True)
    (root / "MEMORY.md").write_text("# M\n")
    (root / ".memories" / "a.md").write_text("# A\n")
    os.symlink(root / "MEMORY.md", root / ".memories" / "link.md")
    (tmp_path / "link").symlink_to(root)
    return root


@pytest.mark.parametrize(
    ("path", "cwd", "roots", "place"),
    [
        ("a.md", "<root>/.memories", ["<root>"], ("<root>", ".memories/a.md")),
        ("../MEMORY.md", "<root>/.memories", ["<root>"], ("<root>", "MEMORY.md")),
        (".", "<root>", ["<root>"], ("<root>", ".")),
        ("<root>", "/", ["<root>"], ("<root>", ".")),
        ("..", "<root>/.memories", ["<root>"], ("<root>", ".")),
        # The file need not exist.
        ("<root>/.memories/gone.md", "/", ["<root>"], ("<root>", ".memories/gone.md")),
        # A relative path that names nothing here is relative to the root.
        (".memories/a.md", "<root>/.memories/deep", ["<root>"], (None, ".memories/a.md")),
        ("MEMORY.md", "", ["<root>"], (None, "MEMORY.md")),
        ("<root>-two/a.md", "<root>", ["<root>"], (None, "<root>-two/a.md")),
        # The nearest root wins.
        (
            "<root>/.memories/a.md",
            "/",
            ["<root>", "<root>/.memories"],
            ("<root>/.memories", "a.md"),
        ),
        # A link to a folder leads to the real root; a link to a note keeps its name.
        ("<root>/../link/MEMORY.md", "/", ["<root>"], ("<root>", "MEMORY.md")),
        (".memories/link.md", "<root>", ["<root>"], ("<root>", ".memories/link.md")),
    ],
)
def test_a_path_is_beneath_its_nearest_root_or_stays_unchanged(
    root: Path, path: str, cwd: str, roots: list[str], place: tuple[str | None, str]
) -> None:
    def fill(text: str) -> str:
        return text.replace("<root>", str(root))

    real_root, below = place
    wanted = (real_root and fill(real_root), fill(below))
    assert find_note(fill(path), fill(cwd), [*map(fill, roots)]) == wanted


def test_a_path_of_the_memory_tool_stays_unchanged(root: Path) -> None:
    cwd = str(root)
    assert find_workspace_note("/memories/a.md", cwd, [cwd]) == (None, "/memories/a.md")
    assert find_workspace_note("/memories/a.md", cwd, ["/memories"]) == ("/memories", "a.md")
    assert find_workspace_note("/memoriesx/a.md", cwd, [cwd]) == ("/memoriesx", "/memoriesx/a.md")


def test_paths_are_shown_as_one_would_type_them_here() -> None:
    assert render_path(".memories/a.md", "/w", "/w") == ".memories/a.md"
    assert render_path(".memories/a.md", "/w", "/w/.memories") == "a.md"
    assert render_path("MEMORY.md", "/w", "/w/src") == "../MEMORY.md"
    assert render_path("MEMORY.md", "/w", "/wide") == "/w/MEMORY.md"
    assert render_path("MEMORY.md", "", "/wide") == "MEMORY.md"


def test_a_span_of_one_line_is_one_number() -> None:
    assert render_span("a.md", 3, 3) == "a.md:3"
    assert render_span("a.md", 3, 9) == "a.md:3-9"
