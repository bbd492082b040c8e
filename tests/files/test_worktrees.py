from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from memsyncd.core.paths import Worktree
from memsyncd.files.scan import scan
from memsyncd.files.scope import (
    find_owner,
    find_present,
    find_shared_folder,
    find_worktree,
    find_worktree_root,
    find_worktree_trouble,
)
from tests.files.conftest import parse_scope
from tests.files.test_scan import write

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
    worktree = find_worktree(str(linked / "a/b"))
    assert worktree == Worktree(top=str(linked), main=str(main), repository=f"{main}/.git")
    assert worktree.in_tree(str(linked / "a/b"), str(main)) == str(main / "a/b")


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
        top=str(project / "feature"), main=str(project), repository=str(project / ".bare")
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


def test_a_worktree_with_notes_of_its_own_shares_the_memory_unless_it_has_a_root(
    main: Path, linked: Path
) -> None:
    (main / "MEMORY.md").write_text("")
    (linked / "MEMORY.md").write_text("")
    assert find_owner(str(linked), [str(main)]) == str(main)
    assert find_owner(str(linked), [str(main), str(linked)]) == str(linked)


def test_a_worktree_that_shares_nothing_belongs_to_the_roots_around_it_alone(
    main: Path, linked: Path
) -> None:
    git(main, "worktree", "add", "-q", "-b", "inner", ".worktrees/inner")
    inner = main / ".worktrees/inner"
    for path in (linked, inner):
        assert find_owner(str(path), [str(main)], "own") is None
        assert find_owner(str(path), [str(main), str(path)], "own") == str(path)
        assert find_owner(str(path), [str(main.parent), str(main)], "own") == str(main.parent)
    assert find_owner(str(inner / "src"), [str(main)]) == str(main)


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


def test_the_worktrees_of_a_bare_repository_share_the_memory_of_the_one_with_a_root(
    main: Path,
) -> None:
    bare = main.parent / "project.git"
    git(main, "clone", "-q", "--bare", ".", str(bare))
    for name in ("one", "two", "three"):
        git(bare, "worktree", "add", "-q", "-b", name, f"../{name}")
    one, two, three = (str(main.parent / name) for name in ("one", "two", "three"))
    assert find_owner(f"{two}/src", []) is None
    assert find_owner(f"{two}/src", [one]) == one
    assert find_owner(f"{two}/src", [one, three]) is None
    assert find_owner(f"{two}/src", [one, two]) == two
    (main.parent / "one" / "src").mkdir()
    assert find_shared_folder(f"{two}/src", [one]) == f"{one}/src"
    assert find_shared_folder(f"{two}/src", [one, three]) is None


def test_the_folder_of_a_bare_repository_around_its_worktrees_stands_for_none_of_them(
    main: Path,
) -> None:
    project = main.parent / "project"
    git(main, "clone", "-q", "--bare", ".", str(project / ".bare"))
    for name in ("one", "two"):
        git(project / ".bare", "worktree", "add", "-q", "-b", name, f"../{name}")
    one, two = str(project / "one"), str(project / "two")
    assert find_worktree_root(f"{two}/src", one) == two
    assert find_worktree_root(f"{two}/src", f"{one}/docs") == f"{two}/docs"
    assert find_worktree_root(f"{two}/src", str(project)) == two


def test_a_moved_worktree_is_followed_once_git_knows_it_and_says_so_before(
    main: Path, linked: Path
) -> None:
    moved = main.parent / "moved"
    git(main, "worktree", "move", str(linked), str(moved))
    assert find_owner(str(moved), [str(main)]) == str(main)
    again = main.parent / "again"
    moved.rename(again)
    assert find_owner(str(again), [str(main)]) is None
    assert "git worktree repair" in find_worktree_trouble(str(again))
    git(again, "worktree", "repair")
    assert find_owner(str(again), [str(main)]) == str(main)
    assert find_worktree_trouble(str(again)) == ""


def test_a_worktree_whose_main_one_is_gone_or_was_pruned_says_so(main: Path, linked: Path) -> None:
    shutil.move(main, main.parent / "elsewhere")
    assert find_owner(str(linked), [str(main)]) is None
    assert "is gone" in find_worktree_trouble(str(linked))


def test_a_submodule_of_a_worktree_is_a_part_of_it_unless_it_has_a_root(
    main: Path, linked: Path
) -> None:
    other = main.parent / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "first")
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../other", "sub")
    git(linked, *add)
    sub = str(linked / "sub")
    assert find_worktree(sub) == find_worktree(str(linked))
    assert find_worktree_trouble(sub) == ""
    assert find_owner(sub, [str(main)]) == str(main)
    assert find_owner(sub, [str(main), str(linked)]) == str(linked)
    assert find_owner(sub, [str(main), sub]) == sub


@pytest.mark.parametrize(
    ("made", "expected"),
    [([], ()), (["MEMORY.md"], ("MEMORY.md",)), ([".memories/a.md"], (".memories",))],
)
def test_an_empty_folder_is_no_memory(
    tmp_path: Path, made: list[str], expected: tuple[str, ...]
) -> None:
    (tmp_path / ".memories").mkdir()
    for path in made:
        write(tmp_path, path)
    assert find_present(str(tmp_path), ("MEMORY.md", ".memories", "docs")) == expected


def test_a_folder_shares_its_memory_with_the_same_folder_of_the_main_one(
    main: Path, linked: Path
) -> None:
    (main / "docs").mkdir()
    assert find_shared_folder(str(linked), []) == str(main)
    assert find_shared_folder(str(linked / "docs"), []) == str(main / "docs")
    assert find_shared_folder(str(linked / "new"), []) is None
    assert find_shared_folder(str(main), []) is None


# --- within a whole folder ------------------------------------------------------------------------


def find_notes(root: Path) -> list[str]:
    return sorted(scan(parse_scope(str(root), include=["**"])).files)


def test_a_worktree_beside_its_main_one_is_no_part_of_the_folder_of_both(main: Path) -> None:
    vault = main.parent
    write(main, "a.md")
    git(main, "add", "-A")
    git(main, "commit", "-q", "-m", "a note")
    git(main, "worktree", "add", "-q", "../fix")
    write(vault, "b.md")
    assert find_notes(vault) == ["b.md", "main/a.md"]
    assert find_notes(vault / "fix") == ["a.md"]
    only = scan(parse_scope(str(vault), include=["**"]), ["fix/a.md"])
    assert not only.files
    shutil.rmtree(main)
    assert find_notes(vault) == ["b.md", "fix/a.md"]


def test_a_visible_worktree_within_the_main_one_is_no_part_of_it(main: Path) -> None:
    write(main, "a.md")
    git(main, "add", "-A")
    git(main, "commit", "-q", "-m", "a note")
    git(main, "worktree", "add", "-q", "trees/fix")
    os.symlink("trees/fix", main / "shortcut")
    assert find_notes(main) == ["a.md"]


def test_a_worktree_without_a_scanned_main_one_is_part_of_the_folder(
    main: Path, linked: Path
) -> None:
    write(linked, "x.md")
    vault = main.parent / "vault"
    git(main, "worktree", "add", "-q", "../vault/other")
    write(vault, "other/y.md")
    assert find_notes(vault) == ["other/y.md"]
    write(main.parent, ".gitignore", "main/\n")
    assert find_notes(main.parent) == ["linked/x.md", "vault/other/y.md"]


@pytest.mark.parametrize("name", [".git", ".bare"])
def test_the_worktrees_of_a_bare_repository_are_parts_of_the_folder(main: Path, name: str) -> None:
    project = main.parent / "project"
    git(main.parent, "clone", "-q", "--bare", str(main), str(project / name))
    git(project / name, "worktree", "add", "-q", str(project / "feature"))
    write(project, "feature/x.md")
    assert find_notes(project) == ["feature/x.md"]
