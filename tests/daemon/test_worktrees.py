"""Linked git worktrees: what is checked out there is read, found and changed there; memory that git
does not track is shared."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.errors import BadRequest, NoteNotFound, WorkspaceNotFound
from tests.daemon.conftest import wait_until
from tests.git import git

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

    MakePlace = Callable[..., Place]

pytestmark = [pytest.mark.shared_daemon, pytest.mark.needs("git")]

ON_MAIN = "# Database\n\nPostgres, on the main branch.\n"
ON_BRANCH = "# Database\n\nSQLite, on this branch.\n"
REDIS = "# Redis\n\nThe database has a cache.\n"
LARCH = "# Larch\n\nIt grows on this branch.\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-m", "a commit", "--allow-empty")


@pytest.fixture
def main(home: Home) -> Path:
    """The folder of a repository with one commit."""
    folder = home.make_folder()
    git(folder, "init")
    write(folder / "README", "x")
    commit(folder)
    return folder


def add_worktree(main: Path, name: str = "../linked", branch: str = "fix") -> Path:
    git(main, "worktree", "add", "-b", branch, name)
    return Path(os.path.normpath(main / name))


@pytest.fixture
def branch(main: Path) -> Path:
    """A worktree whose branch has committed another MEMORY.md and a note of its own."""
    write(main / "MEMORY.md", ON_MAIN)
    write(main / ".memories/redis.md", REDIS)
    commit(main)
    linked = add_worktree(main)
    write(linked / "MEMORY.md", ON_BRANCH)
    write(linked / ".memories/larch.md", LARCH)
    commit(linked)
    return linked


def run_in(folder: Path, place: Place, *words: str) -> str:
    return place.run(sys.executable, "-m", "memsyncd", *words, cwd=folder)


def find(place: Place, folder: Path | str, word: str) -> set[str]:
    """The absolute paths of the notes in which a folder's search finds the word."""
    found = place.client.call("search", query=word, workspace=str(folder), wait="disk")
    roots = {workspace["id"]: workspace["root"] for workspace in found["workspaces"]}
    return {f"{roots[hit['workspace']]}/{hit['path']}" for hit in found["hits"]}


def list_ids(place: Place) -> set[str]:
    return {workspace["id"] for workspace in place.client.call("workspace.list")["workspaces"]}


# --- what is checked out ---


def read_in_all_ways(place: Place, root: Path) -> dict[str, str]:
    """The text of a worktree's MEMORY.md, as each reading method returns it."""
    call, at = place.client.call, str(root)
    full = f"{root}/MEMORY.md"
    status = call("status", workspace=at)["workspaces"][0]
    listed = {note["path"] for note in call("list", workspace=at)["notes"]}
    assert "MEMORY.md" in listed
    return {
        "get": call("get", path="MEMORY.md", workspace=at)["text"],
        "get by its absolute path": call("get", path=full)["text"],
        "get by the workspace's id": call("get", path="MEMORY.md", workspace=status["id"])["text"],
        "get of a section": call("get", anchor="MEMORY.md#database", workspace=at)["text"],
        "context": call("context", query="database", workspace=at)["text"],
        "context of a session": call("context", workspace=at)["text"],
        "memory": call("memory", command="view", path="/memories/MEMORY.md", workspace=at)["text"],
        "search": call("search", query="database", workspace=at)["hits"][0]["snippet"],
        "render": call("render", path="MEMORY.md", workspace=at)["html"],
        "command line": run_in(root, place, "get", "MEMORY.md"),
        "command line, from a folder": run_in(root / ".memories", place, "get", "../MEMORY.md"),
    }


def test_every_method_reads_finds_and_changes_what_is_checked_out(
    make_place: MakePlace, main: Path, branch: Path
) -> None:
    place = make_place(main)
    listed = place.client.call("list", path="/memories/larch.md", workspace=str(branch))
    assert [note["path"] for note in listed["notes"]] == [".memories/larch.md"]
    assert find(place, branch, "postgres") == set()
    assert find(place, branch, "SQLite") == {f"{branch}/MEMORY.md"}
    assert find(place, branch, "grows") == {f"{branch}/.memories/larch.md"}
    assert find(place, main, "grows") == set()
    for way, text in read_in_all_ways(place, branch).items():
        assert "SQLite" in text, way
        assert "Postgres" not in text, way
    for way, text in read_in_all_ways(place, main).items():
        assert "Postgres" in text, way

    call, at = place.client.call, str(branch)
    memory = {"command": "str_replace", "old_str": "SQLite", "new_str": "DuckDB"}
    call("memory", path="/memories/MEMORY.md", workspace=at, **memory)
    assert (branch / "MEMORY.md").read_text() == ON_BRANCH.replace("SQLite", "DuckDB")
    for way, text in read_in_all_ways(place, branch).items():
        assert "DuckDB" in text, way
    call("undo", path=f"{branch}/MEMORY.md")
    assert (branch / "MEMORY.md").read_text() == ON_BRANCH
    added = call("note.add", content="The birch is white.", kind="decision", workspace=at)
    assert "birch" in (branch / added["path"]).read_text()
    assert call("history", workspace=at)["revisions"][0]["path"] == added["path"]
    captured = {"step": "deploy", "error": "The pine fell."}
    call("capture", workspace=f"{branch}/src", **captured)
    assert find(place, branch, "pine")
    task = call("note.add", content="Fell it.", kind="task", task="T1", workspace=at)
    assert f"{branch}/{task['path']}" in find(place, branch, "fell")
    assert (main / "MEMORY.md").read_text() == ON_MAIN
    assert sorted(os.listdir(main / ".memories")) == ["redis.md"]
    assert call("history", workspace=str(main))["revisions"] == []


def test_a_worktree_is_named_after_the_repository_and_its_folder(
    place: Place, main: Path, branch: Path
) -> None:
    name = f"api-{main.name}"
    added = place.client.call("workspace.add", path=str(main), name=name)["workspaces"][0]["id"]
    answer = place.client.call("workspace.add", path=str(branch))
    [info] = answer["workspaces"]
    assert (info["root"], info["main"]) == (str(branch), added)
    assert info["name"] == f"{name}-linked"
    assert (answer["found"]["worktree"], answer["found"]["shared"]) == (str(branch), [])
    # A search of all workspaces leaves out the branches' copies.
    asked = place.client.call("search", query="database", workspace="*")["workspaces"]
    assert added in {workspace["id"] for workspace in asked}
    assert info["id"] not in {workspace["id"] for workspace in asked}
    place.client.call("workspace.remove", workspace=added)
    assert info["id"] not in list_ids(place)


def test_a_nested_and_a_detached_worktree_are_workspaces_of_their_own(
    make_place: MakePlace, main: Path
) -> None:
    write(main / "MEMORY.md", ON_MAIN)
    commit(main)
    place = make_place(main)
    nested = add_worktree(main, ".claude/worktrees/fix")
    write(nested / "MEMORY.md", ON_BRANCH)
    detached = main.parent / "detached"
    git(main, "worktree", "add", "--detach", str(detached))
    assert find(place, nested / "src", "database") == {f"{nested}/MEMORY.md"}
    assert find(place, detached, "database") == {f"{detached}/MEMORY.md"}
    assert find(place, main, "database") == {f"{main}/MEMORY.md"}


def test_a_submodule_of_a_worktree_belongs_to_it(
    make_place: MakePlace, main: Path, branch: Path
) -> None:
    other = main.parent / "other"
    other.mkdir()
    git(other, "init")
    commit(other)
    for root in (main, branch):
        git(root, "submodule", "add", str(other), "sub")
    place = make_place(main)
    assert find(place, main / "sub", "database") == {
        f"{main}/MEMORY.md",
        f"{main}/.memories/redis.md",
    }
    assert f"{branch}/MEMORY.md" in find(place, branch / "sub", "database")


def test_a_worktree_that_is_removed_is_no_workspace_any_more_and_keeps_its_history(
    own: Home,
) -> None:
    main = own.make_folder()
    git(main, "init")
    write(main / "MEMORY.md", ON_MAIN)
    commit(main)
    linked = add_worktree(main)
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(main))
        client.call("note.add", content="Larch.", workspace=str(linked))
        added = next(
            workspace
            for workspace in client.call("workspace.list")["workspaces"]
            if workspace["root"] == str(linked)
        )
    assert daemon.stop() == 0
    daemon = own.start()
    with daemon.client() as client:
        listed = {
            workspace["root"]: workspace
            for workspace in client.call("workspace.list")["workspaces"]
        }
        assert listed[str(linked)] == added
        git(main, "worktree", "remove", "--force", str(linked))
        git(main, "worktree", "prune")

        def is_forgotten() -> bool:
            infos = client.call("workspace.list")["workspaces"]
            return str(linked) not in {info["root"] for info in infos}

        wait_until(is_forgotten, "it is still a workspace")
        with pytest.raises(WorkspaceNotFound):
            client.call("search", query="larch", workspace=str(linked))
        # A branch that is checked out at the same place again has its history.
        git(main, "worktree", "add", str(linked), "fix")
        history = client.call("history", workspace=str(linked))
        assert history["revisions"]
    assert daemon.stop() == 0


# --- what is shared ---


def test_a_worktree_without_memory_shares_all_of_the_main_one(
    make_place: MakePlace, main: Path
) -> None:
    linked = add_worktree(main)
    (linked / ".memories").mkdir()  # git tracks no empty folder
    write(main / "MEMORY.md", ON_MAIN)
    write(main / "CLAUDE.md", "Run the tests.")
    write(linked / "CLAUDE.md", "Run no tests.")
    place = make_place(main)
    call = place.client.call
    for folder in (linked, linked / "src"):
        status = call("status", workspace=str(folder))
        assert status["workspaces"][0]["id"] == place.id
    run_in(linked, place, "remember", "The birch is white.", "--kind", "decision")
    assert "birch" in (main / ".memories/decisions.md").read_text()
    memory = {"command": "create", "path": "/memories/oak.md", "file_text": "# Oak\n\nOld.\n"}
    call("memory", workspace=str(linked), **memory)
    assert (main / ".memories/oak.md").read_text() == memory["file_text"]
    assert find(place, linked, "old") == {f"{main}/.memories/oak.md"}
    for path in ("MEMORY.md", ".memories/oak.md"):
        text = (main / path).read_text()
        assert call("get", path=str(linked / path))["text"] == text.rstrip("\n")
        assert call("get", path=path, workspace=str(linked))["text"] == text.rstrip("\n")
    call("undo", path=str(linked / ".memories/oak.md"))
    assert not (main / ".memories/oak.md").exists()
    shared = call("context", workspace=str(linked), query="database")
    assert f"· {main}/MEMORY.md:1-3\nPostgres" in shared["text"]
    assert shared["workspaces"][0]["worktree"] == str(linked)
    # The rules of the branch are not indexed, so nothing answers as if they were.
    with pytest.raises(NoteNotFound, match="is not indexed"):
        call("get", path=str(linked / "CLAUDE.md"))
    answer = call("workspace.add", path=str(linked))
    assert answer["workspaces"][0]["id"] == place.id
    assert answer["found"]["worktree"] == str(linked)
    run_in(linked, place, "init")
    assert os.listdir(linked / ".memories") == []
    assert not (linked / "MEMORY.md").exists()


def test_another_branch_may_have_memory_where_the_last_had_none(
    make_place: MakePlace, main: Path
) -> None:
    linked = add_worktree(main)
    write(main / "MEMORY.md", ON_MAIN)
    place = make_place(main)
    assert find(place, linked, "database") == {f"{main}/MEMORY.md"}
    write(linked / "MEMORY.md", ON_BRANCH)
    assert find(place, linked, "database") == {f"{linked}/MEMORY.md"}
    (linked / "MEMORY.md").unlink()
    assert find(place, linked, "database") == {f"{main}/MEMORY.md"}


@pytest.fixture
def mixed(main: Path) -> Path:
    """A worktree with another MEMORY.md, of a repository that ignores `.memories/`."""
    write(main / "MEMORY.md", ON_MAIN)
    write(main / ".gitignore", ".memories/\n")
    write(main / ".memories/redis.md", REDIS)
    commit(main)
    linked = add_worktree(main)
    write(linked / "MEMORY.md", ON_BRANCH)
    commit(linked)
    return linked


def test_a_worktree_finds_what_is_checked_out_and_what_git_does_not_track(
    make_place: MakePlace, main: Path, mixed: Path
) -> None:
    place = make_place(main)
    both = {f"{mixed}/MEMORY.md", f"{main}/.memories/redis.md"}
    assert find(place, mixed, "database") == both
    assert find(place, mixed, "postgres") == set()
    call = place.client.call
    own = call("status", workspace=str(mixed))["workspaces"][0]
    for name in (str(mixed), own["id"], own["name"]):
        assert find(place, name, "database") == both
        text = call("context", query="database", workspace=name)["text"]
        assert "SQLite" in text
        assert f"{main}/.memories/redis.md:1-3" in text
        assert "Postgres" not in text
        paths = {note["path"] for note in call("list", workspace=name)["notes"]}
        assert paths == {"MEMORY.md", f"{main}/.memories/redis.md"}
        assert "SQLite" in call("get", path="MEMORY.md", workspace=name)["text"]
        listed = call("list", path="/memories/redis.md", workspace=name)
        assert ([note["path"] for note in listed["notes"]], listed["workspace"]) == (
            [".memories/redis.md"],
            place.id,
        )
        redis = call("get", path=".memories/redis.md", workspace=name)
        assert (redis["text"], redis["workspace"]) == (REDIS.rstrip("\n"), place.id)
    answer = call("workspace.add", path=str(mixed))
    assert answer["workspaces"][0]["id"] == own["id"]
    assert answer["found"]["shared"] == [f"{main}/.memories"]


def test_what_a_worktree_writes_goes_where_the_note_is(
    make_place: MakePlace, main: Path, mixed: Path
) -> None:
    place = make_place(main)
    call, at = place.client.call, str(mixed)
    own = call("status", workspace=at)["workspaces"][0]["name"]
    edit = {"command": "str_replace", "old_str": "atabase", "new_str": "ata base"}
    call("memory", path="/memories/MEMORY.md", workspace=at, **edit)
    call("memory", path="/memories/redis.md", workspace=at, **edit)
    run_in(mixed, place, "remember", "The birch is white.", "--kind", "decision")
    assert (mixed / "MEMORY.md").read_text() == ON_BRANCH.replace("atabase", "ata base")
    assert (main / ".memories/redis.md").read_text() == REDIS.replace("atabase", "ata base")
    assert "birch" in (main / ".memories/decisions.md").read_text()
    assert (main / "MEMORY.md").read_text() == ON_MAIN
    assert not (mixed / ".memories").exists()
    run_in(mixed, place, "init")
    assert not (mixed / ".memories").exists()
    viewed = call("memory", command="view", path="/memories", workspace=at)["text"]
    assert "/memories/redis.md" in viewed
    # Both histories have such a number.
    with pytest.raises(BadRequest, match="two workspaces") as refused:
        call("undo", revision=1, workspace=at)
    assert own in refused.value.hint
    call("undo", revision=1, workspace=own)
    assert (mixed / "MEMORY.md").read_text() == ON_BRANCH
    call("undo", path=".memories/redis.md", workspace=at)
    assert (main / ".memories/redis.md").read_text() == REDIS
    for method, params in (("cleanup", {}), ("archive", {}), ("memory.clear", {"confirm": True})):
        with pytest.raises(BadRequest, match="two workspaces"):
            call(method, workspace=at, **params)
    rename = {"command": "rename", "old_path": "/memories/redis.md"}
    with pytest.raises(BadRequest, match="two workspaces"):
        call("memory", **rename, new_path="/memories/MEMORY.md", workspace=at)


def test_a_worktree_is_a_folder_by_itself_if_nothing_is_to_be_shared(
    make_home: Callable[[str], Home],
) -> None:
    home = make_home('[sync]\nworktrees = "own"\n')
    main = home.make_folder()
    git(main, "init")
    write(main / "MEMORY.md", ON_MAIN)
    commit(main)
    linked = add_worktree(main)
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(main))
        with pytest.raises(WorkspaceNotFound):
            client.call("search", query="database", workspace=str(linked))
        [info] = client.call("workspace.add", path=str(linked))["workspaces"]
        assert (info["root"], info["main"]) == (str(linked), None)
    assert daemon.stop() == 0


# --- what is no worktree ---


def test_a_folder_that_claims_to_be_a_worktree_of_another_is_not_trusted(
    make_place: MakePlace, main: Path, home: Home
) -> None:
    write(main / "MEMORY.md", "larch")
    place = make_place(main)
    liar = home.make_folder()
    (liar / ".git").write_text(f"gitdir: {main}/.git/worktrees/liar\n")
    with pytest.raises(WorkspaceNotFound):
        place.client.call("status", workspace=str(liar))
