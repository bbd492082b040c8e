from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from memsyncd.files.scope import Worktree, find_owner, find_worktree

pytestmark = pytest.mark.needs("git")

ENV = {
    "PATH": os.environ.get("PATH", ""),
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", folder, *words], check=True, env=ENV, capture_output=True)


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = Path(os.path.realpath(tmp_path)) / "main"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


@pytest.fixture
def linked(main: Path) -> Path:
    """A linked worktree beside the main one."""
    git(main, "worktree", "add", "-q", "../linked")
    return main.parent / "linked"


def test_a_linked_worktree_leads_to_the_main_one_from_any_depth(main: Path, linked: Path) -> None:
    (linked / "a/b").mkdir(parents=True)
    found = find_worktree(str(linked / "a/b"))
    assert found == Worktree(str(linked), str(main))
    assert found.in_main(str(linked / "a/b")) == str(main / "a/b")


def test_a_main_worktree_and_a_folder_without_git_are_no_linked_worktrees(
    main: Path, tmp_path: Path
) -> None:
    assert find_worktree(str(main)) is None
    assert find_worktree("/") is None


def test_a_submodule_is_no_linked_worktree(main: Path) -> None:
    other = main.parent / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../other", "sub")
    assert find_worktree(str(main / "sub")) is None


def test_a_worktree_of_a_bare_repository_leads_to_the_folder_of_both(main: Path) -> None:
    project = main.parent / "project"
    git(main, "clone", "-q", "--bare", ".", str(project / ".bare"))
    git(project / ".bare", "worktree", "add", "-q", "../feature")
    assert find_worktree(str(project / "feature")) == Worktree(
        str(project / "feature"), str(project)
    )


def test_a_pointer_that_the_repository_does_not_return_is_ignored(main: Path, linked: Path) -> None:
    hostile = main.parent / "hostile"
    hostile.mkdir()
    shutil.copy(linked / ".git", hostile / ".git")
    assert find_worktree(str(hostile)) is None


def test_a_folder_that_itself_claims_to_be_a_worktree_is_not_trusted(main: Path) -> None:
    hostile = main.parent / "hostile"
    for folder in ("own", "worktrees/own"):
        (hostile / folder).mkdir(parents=True)
        (hostile / ".git").write_text(f"gitdir: {folder}\n")
        (hostile / folder / "gitdir").write_text(f"{hostile}/.git\n")
        (hostile / folder / "commondir").write_text(f"{main}/.git\n")
        assert find_worktree(str(hostile)) is None


@pytest.mark.parametrize(
    "text",
    ["", "gitdir:", "gitdir: /nowhere", "gitdir: a\nb", "hello", "gitdir: \0", "\xff" * 5000],
)
def test_a_malformed_pointer_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    assert find_worktree(os.path.realpath(tmp_path)) is None


def test_a_worktree_without_memory_belongs_to_the_main_ones_workspace(
    main: Path, linked: Path
) -> None:
    (main / "MEMORY.md").write_text("")
    (linked / "src").mkdir()
    assert find_owner(str(linked / "src"), [str(main)]) == str(main)


def test_a_worktree_with_its_own_memory_does_not_belong_to_the_main_ones_workspace(
    main: Path, linked: Path
) -> None:
    (main / "MEMORY.md").write_text("")
    (linked / "MEMORY.md").write_text("")
    assert find_owner(str(linked), [str(main)]) is None
    assert find_owner(str(linked), [str(main), str(linked)]) == str(linked)


def test_a_worktree_within_another_workspace_belongs_to_the_main_ones_workspace(
    main: Path, linked: Path
) -> None:
    assert find_owner(str(linked / "x"), [str(main), str(main.parent)]) == str(main)
    assert find_owner(str(linked / "x"), [str(main.parent)]) == str(main.parent)


def test_a_folder_of_a_worktree_belongs_to_the_same_folder_of_the_main_one(
    main: Path, linked: Path
) -> None:
    assert find_owner(str(linked / "packages/a/src"), [str(main), str(main / "packages/a")]) == str(
        main / "packages/a"
    )
