from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsyncd.terminal.format import render_path, render_span
from memsyncd.terminal.places import find_note, find_workspace_note, parse_target


@pytest.mark.parametrize(
    ("text", "found"),
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
    text: str, found: tuple[str, str | None, int | None, int | None]
) -> None:
    target = parse_target(text)
    assert (target.path, target.heading, target.start_line, target.end_line) == found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "notes").resolve()
    (root / ".memories" / "deep").mkdir(parents=True)
    (root / "MEMORY.md").write_text("# M\n")
    (root / ".memories" / "a.md").write_text("# A\n")
    return root


def find(path: str, cwd: Path, *roots: Path) -> tuple[str | None, str]:
    return find_note(path, str(cwd), [str(each) for each in roots])


def test_a_path_from_the_current_folder_is_found_beneath_its_root(root: Path) -> None:
    assert find("a.md", root / ".memories", root) == (str(root), ".memories/a.md")
    assert find("../MEMORY.md", root / ".memories", root) == (str(root), "MEMORY.md")


def test_the_root_itself_is_a_dot(root: Path) -> None:
    for path, cwd in ((".", root), (str(root), root.parent), ("..", root / ".memories")):
        assert find(path, cwd, root) == (str(root), ".")


def test_an_absolute_path_is_found_beneath_its_root_even_if_the_file_is_gone(root: Path) -> None:
    assert find(f"{root}/.memories/gone.md", Path("/"), root) == (str(root), ".memories/gone.md")


def test_a_relative_path_that_does_not_exist_here_is_relative_to_the_root(root: Path) -> None:
    assert find(".memories/a.md", root / ".memories" / "deep", root) == (None, ".memories/a.md")


def test_a_path_in_no_workspace_stays_unchanged(root: Path, tmp_path: Path) -> None:
    assert find(f"{tmp_path}/other.md", root, root) == (None, f"{tmp_path}/other.md")
    assert find(f"{root}-two/a.md", root, root) == (None, f"{root}-two/a.md")


def test_a_path_of_the_memory_tool_stays_unchanged(root: Path) -> None:
    cwd = str(root)
    assert find_workspace_note("/memories/a.md", cwd, [cwd]) == (None, "/memories/a.md")
    assert find_workspace_note("/memories/a.md", cwd, ["/memories"]) == ("/memories", "a.md")
    assert find_workspace_note("/memoriesx/a.md", cwd, [cwd]) == ("/memoriesx", "/memoriesx/a.md")


def test_the_nearest_root_wins(root: Path) -> None:
    inner = root / ".memories"
    assert find(f"{inner}/a.md", Path("/"), root, inner) == (str(inner), "a.md")


def test_a_folder_that_is_a_link_leads_to_the_real_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert find(f"{tmp_path}/link/MEMORY.md", Path("/"), root) == (str(root), "MEMORY.md")


def test_a_note_that_is_a_link_keeps_its_own_name(root: Path) -> None:
    os.symlink(root / "MEMORY.md", root / ".memories" / "link.md")
    assert find(".memories/link.md", root, root) == (str(root), ".memories/link.md")


def test_without_a_current_folder_a_relative_path_stays_unchanged(root: Path) -> None:
    assert find_note("MEMORY.md", "", [str(root)]) == (None, "MEMORY.md")


def test_paths_are_shown_as_one_would_type_them_here() -> None:
    assert render_path(".memories/a.md", "/w", "/w") == ".memories/a.md"
    assert render_path(".memories/a.md", "/w", "/w/.memories") == "a.md"
    assert render_path("MEMORY.md", "/w", "/w/src") == "../MEMORY.md"
    assert render_path("MEMORY.md", "/w", "/wide") == "/w/MEMORY.md"
    assert render_path("MEMORY.md", "", "/wide") == "MEMORY.md"


def test_a_span_of_one_line_is_one_number() -> None:
    assert render_span("a.md", 3, 3) == "a.md:3"
    assert render_span("a.md", 3, 9) == "a.md:3-9"
