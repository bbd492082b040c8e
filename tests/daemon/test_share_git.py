"""Git in repositories that another user, program or machine has prepared, and in its hooks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memsyncd.errors import ShareFailed
from memsyncd.operations.share.git import Author, NewCommit, Processes, Repository
from tests.git import git

pytestmark = [pytest.mark.life, pytest.mark.needs("git")]

Open = Callable[..., Repository]


@pytest.fixture
def open_repository(tmp_path: Path) -> Open:
    """Return a function that opens a folder as the daemon does, with more of an environment."""
    (tmp_path / "home").mkdir()

    def open_folder(folder: Path, **env: str) -> Repository:
        own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
        return Repository(str(folder), own | env, Processes(), network_s=20.0)

    return open_folder


def make_project(folder: Path) -> Path:
    """Make a project whose git tracks its memory. Return the memory's folder."""
    memories = folder / ".memories"
    memories.mkdir(parents=True)
    git(folder, "init", "-q", "--initial-branch=main")
    (memories / "a.md").write_text("# A\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "begin")
    return memories


def test_a_project_of_another_user_is_not_taken_for_one_that_tracks_nothing(
    open_repository: Open, tmp_path: Path
) -> None:
    memories = make_project(tmp_path / "project")
    assert open_repository(memories).find_tracking() == str(memories.parent)
    foreign = open_repository(memories, GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    with pytest.raises(ShareFailed, match=f"{memories.parent}: it belongs to another user"):
        foreign.find_tracking()
    with pytest.raises(ShareFailed, match="another user"):
        open_repository(memories.parent, GIT_TEST_ASSUME_DIFFERENT_OWNER="1").read_head()


@pytest.mark.parametrize("name", ["project", "a:b", "linked"])
def test_a_repository_above_the_folder_never_counts(
    open_repository: Open, tmp_path: Path, name: str
) -> None:
    memories = make_project(tmp_path / name)
    if name == "linked":
        (tmp_path / "workspace").mkdir()
        (tmp_path / "workspace/.memories").symlink_to(memories)
        memories = tmp_path / "workspace/.memories"
    with pytest.raises(ShareFailed, match="no git repository"):
        open_repository(memories).read_head()


def test_a_name_or_message_with_any_letters_is_committed_and_listed(
    open_repository: Open, tmp_path: Path
) -> None:
    repository = open_repository(tmp_path)
    repository.create("main")
    tree = git(tmp_path, "mktree")
    git(tmp_path, "update-ref", "HEAD", git(tmp_path, "commit-tree", tree, text="\x02\x01\x03 x"))
    git(tmp_path, "config", "user.name", "ann <the first>\nfrom refs/heads/other")
    author = repository.find_author("me@here")
    path = 'we"ird\n\\ é.md'
    head = repository.find_commit("HEAD")
    new = NewCommit(author=author, message="m\n", parents=(head,), files={path: b"a\r\n"})
    commit = repository.commit([new], Author("", "me@here"), 1e9)
    assert repository.read_blobs(repository.list_tree(commit).values()).popitem()[1] == b"a\r\n"
    first, *_ = repository.list_log(commit)
    assert (first.commit, first.writer, first.paths) == (
        commit,
        "ann the first from refs/heads/other",
        (path,),
    )


def test_names_that_differ_by_case_are_two_notes(open_repository: Open, tmp_path: Path) -> None:
    repository = open_repository(tmp_path)
    repository.create("main")
    # Git says so by itself on the disks of most laptops.
    git(tmp_path, "config", "core.ignoreCase", "true")
    ann = Author("ann", "ann@example.org")

    def commit(files: dict[str, bytes | None], *parents: str) -> str:
        new = NewCommit(author=ann, message="m\n", parents=parents, files=files)
        return repository.commit([new], ann, 1e9)

    both = commit({"Note.md": b"upper", "note.md": b"lower"})
    assert repository.list_tree(both).keys() == {"Note.md", "note.md"}
    renamed = commit({"Note.md": b"upper", "note.md": None}, both)
    assert repository.list_tree(renamed).keys() == {"Note.md"}


def test_neither_a_hook_around_it_nor_the_repository_decides_which_program_git_runs(
    open_repository: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    open_repository(folder).create("main")
    git(folder, "config", "protocol.ext.allow", "always")
    git(folder, "config", "remote.origin.url", f"ext::touch {tmp_path}/was-run")
    of_hook = open_repository(
        folder,
        GIT_CONFIG="/dev/null",
        GIT_CONFIG_PARAMETERS="'remote.origin.url'='elsewhere'",
        GIT_QUARANTINE_PATH="x",
    )
    assert of_hook.find_remote().startswith("ext::")
    with pytest.raises(ShareFailed, match="not allowed"):
        of_hook.fetch("main")
    assert not (tmp_path / "was-run").exists()
