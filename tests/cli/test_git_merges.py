"""Memories of two branches, merged by git itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from memsyncd.cli.git_merges import UNION_LINES, add_union_lines, has_conflicts, is_tracked
from memsyncd.core.editing.additions import Addition, append_section
from memsyncd.errors import Unwritable
from tests.cli.test_transcripts import ShellSession

pytestmark = pytest.mark.needs("git")


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    identity += ["-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *identity, *words], cwd=folder, check=False, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".memories" / "deep").mkdir(parents=True)
    for path in ("MEMORY.md", ".memories/decisions.md", ".memories/deep/a.md"):
        (root / path).write_text("# Notes\n\nThe first line.\n")
    git(root, "init", "-q")
    commit(root)
    return root


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")


def remember(root: Path, path: str, text: str) -> None:
    place = root / path
    addition = Addition(content=text, summary=text, kind="decision")
    data, _ = append_section(path, place.read_bytes(), [addition], at="2026-11-20T10:00:00Z")
    place.write_bytes(data)


PATHS = ("MEMORY.md", ".memories/decisions.md", ".memories/deep/a.md")


def merge_two_branches(root: Path) -> int:
    git(root, "checkout", "-qb", "other")
    for path in PATHS:
        remember(root, path, "Other words")
    commit(root)
    git(root, "checkout", "-q", "main")
    for path in PATHS:
        remember(root, path, "Main words")
    commit(root)
    return git(root, "merge", "-q", "other").returncode


def test_without_the_lines_git_has_a_conflict(repository: Path) -> None:
    assert is_tracked(repository.as_posix())
    assert has_conflicts(str(repository))
    assert merge_two_branches(repository) != 0


def test_with_the_lines_git_keeps_the_memories_of_both_branches(repository: Path) -> None:
    add_union_lines(str(repository))
    commit(repository)
    assert not has_conflicts(str(repository))
    assert merge_two_branches(repository) == 0
    for path in PATHS:
        text = (repository / path).read_text()
        assert "Other words" in text
        assert "Main words" in text
        assert "<<<<" not in text


def test_only_missing_lines_are_added_and_others_stay(repository: Path) -> None:
    file = repository / ".gitattributes"
    file.write_text(f"*.png binary\n{UNION_LINES[0]}")
    assert has_conflicts(str(repository))
    for _ in range(2):
        add_union_lines(str(repository))
        assert file.read_text() == f"*.png binary\n{UNION_LINES[0]}\n{UNION_LINES[1]}\n"
    assert not has_conflicts(str(repository))


def test_a_link_is_not_followed(repository: Path, tmp_path: Path) -> None:
    (repository / ".gitattributes").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unwritable):
        add_union_lines(str(repository))
    assert not (tmp_path / "elsewhere").exists()


def test_outside_of_a_repository_there_is_nothing_to_merge(tmp_path: Path) -> None:
    assert not has_conflicts(str(tmp_path))
    assert not is_tracked(str(tmp_path))


def test_no_program_that_a_repository_configures_is_run(repository: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    program.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(program))
    assert has_conflicts(str(repository))
    assert is_tracked(str(repository))
    assert not (tmp_path / "was-run").exists()


# --- init -----------------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path) -> ShellSession:
    home = tmp_path / "home"
    home.mkdir()
    run_dir = home / "run"
    run_dir.mkdir(mode=0o700)
    session = ShellSession(home, str(run_dir))
    git(home, "init", "-q", "project")
    session.cwd = home / "project"
    return session


def test_init_says_how_and_writes_no_attributes_by_itself(shell: ShellSession) -> None:
    done = shell.do("memsyncd init")
    assert "memsyncd init --union ." in done.stderr
    assert not (shell.cwd / ".gitattributes").exists()
    done = shell.do("memsyncd init --union")
    assert done.returncode == 0
    assert (shell.cwd / ".gitattributes").read_text().splitlines() == list(UNION_LINES)
    assert "union" not in shell.do("memsyncd init").stderr


@pytest.mark.parametrize(("typed", "is_written"), [("y\n", True), ("\n", False), ("no\n", False)])
def test_init_asks_on_a_terminal(shell: ShellSession, typed: str, *, is_written: bool) -> None:
    screen = shell.show("memsyncd init", types=typed)
    assert "[y/N]" in screen
    assert (shell.cwd / ".gitattributes").exists() == is_written


def test_init_creates_its_folder(shell: ShellSession) -> None:
    assert shell.do("memsyncd init new/deep").returncode == 0
    assert os.path.isfile(shell.cwd / "new" / "deep" / "MEMORY.md")


def test_doctor_names_a_repository_that_would_not_merge(shell: ShellSession) -> None:
    shell.do("memsyncd init")
    shell.do("memsyncd start .")
    try:
        assert "git_merges" not in shell.do("memsyncd doctor --json").stdout
        commit(shell.cwd)
        found = shell.do("memsyncd doctor --json").stdout
        assert "git_merges" in found
        assert f"memsyncd init --union {shell.cwd}" in found
        shell.do("memsyncd init --union")
        assert "git_merges" not in shell.do("memsyncd doctor --json").stdout
    finally:
        shell.do("memsyncd stop")
