"""The projects of Claude Code as they come and go while the daemon runs, in a home of their own."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.core.paths import slug_project
from memsyncd.errors import Busy, WorkspaceNotFound
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from memsyncd.client import Client
    from tests.daemon.conftest import Daemon, Home


class Claude:
    """What Claude Code has written, and a client of the daemon that watches it."""

    def __init__(self, home: Home, daemon: Daemon, client: Client) -> None:
        self.home, self.daemon, self.client = home, daemon, client
        self.folder = home.folder / ".claude"
        (self.folder / "projects").mkdir(parents=True)

    def start_session(self, project: str) -> Path:
        """Make the project and Claude Code's folders for it; return the memory folder."""
        path = self.home.folder / project
        path.mkdir(parents=True, exist_ok=True)
        own = self.folder / "projects" / slug_project(str(path))
        (own / "memory").mkdir(parents=True, exist_ok=True)
        lines = [{"type": "summary"}, {"type": "user", "cwd": str(path), "message": "hello"}]
        (own / "1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return own / "memory"

    def remember(self, project: str, word: str) -> Path:
        memory = self.start_session(project)
        text = f"---\nname: {word}\ndescription: a word\nmetadata:\n  type: user\n---\n\n{word}\n"
        (memory / f"{word}.md").write_text(text)
        return memory

    def add(self) -> dict[str, Any]:
        return self.client.call("workspace.add", path=str(self.folder))

    def names(self) -> set[str]:
        return {workspace["name"] for workspace in self.client.call("workspace.list")["workspaces"]}

    def wait_found(self, word: str, project: str) -> None:
        """Wait until the word is found by a search in the project's folder."""

        def is_found() -> bool:
            place = str(self.home.folder / project)
            try:
                return bool(self.client.call("search", query=word, workspace=place)["hits"])
            except (WorkspaceNotFound, Busy):  # it is not listed yet, or being opened
                return False

        wait_until(is_found, f"{word!r} was not found in {project}")

    def status(self, name: str) -> dict[str, Any]:
        return dict(self.client.call("status", workspace=name)["workspaces"][0])


@pytest.fixture
def claude(make_home: Callable[..., Home]) -> Iterator[Claude]:
    # Only events can tell of a change: no reconcile comes during a test.
    home = make_home("[sync]\nreconcile_s = 600\n")
    daemon = home.start()
    with daemon.client() as client:
        yield Claude(home, daemon, client)


def test_projects_are_found_as_they_come_and_kept_when_they_go(claude: Claude) -> None:
    claude.remember("code/api", "larch")
    claude.start_session("code/empty")
    added = claude.add()
    assert [workspace["name"] for workspace in added["workspaces"]] == ["claude-api"]
    assert added["workspaces"][0]["project"] == str(claude.home.folder / "code/api")
    assert (added["found"]["what"], added["found"]["notes"]) == ("projects of Claude Code", 1)
    claude.wait_found("larch", "code/api")
    # A project that is new, one that had no note yet, and one beneath a folder of the other.
    claude.remember("my code/web.site", "alder")
    claude.remember("code/empty", "maple")
    claude.remember("code/api/tools", "rowan")
    claude.wait_found("alder", "my code/web.site")
    claude.wait_found("maple", "code/empty")
    claude.wait_found("rowan", "code/api/tools")
    assert claude.names() == {"claude-api", "claude-web.site", "claude-empty", "claude-tools"}
    assert claude.client.call("problems")["problems"] == []
    hit = claude.client.call("search", query="alder", workspace="claude-web.site")["hits"][0]
    assert hit["kind"] == "preference"
    # A project that disappears is missing, with its index, and comes back.
    memory = claude.start_session("code/api")
    shutil.move(memory.parent, claude.home.folder / "aside")
    wait_until(lambda: claude.status("claude-api")["state"] == "missing", "it is not missing")
    claude.wait_found("larch", "code/api")
    shutil.move(claude.home.folder / "aside", memory.parent)
    (memory / "fir.md").write_text("juniper\n")
    claude.wait_found("juniper", "code/api")


def test_a_daemon_finds_after_a_restart_what_came_and_left_out_meanwhile(claude: Claude) -> None:
    claude.remember("api", "larch")
    claude.remember("web", "alder")
    claude.add()
    assert claude.names() == {"claude-api", "claude-web"}
    claude.client.call("workspace.remove", workspace="claude-web")
    claude.daemon.stop()
    claude.remember("new", "maple")
    with claude.home.start().client() as client:
        claude.client = client
        claude.wait_found("maple", "new")
        claude.wait_found("larch", "api")
        assert claude.names() == {"claude-api", "claude-new"}
        gone = client.call("workspace.remove", workspace=str(claude.folder))
        assert [collection["name"] for collection in gone["collections"]] == ["claude-code"]
        assert claude.names() == set()
    assert (claude.folder / "projects").is_dir()


def test_a_configured_collection_is_listed_and_a_workspace_of_the_project_comes_first(
    own: Home,
) -> None:
    (own.folder / "config.toml").write_text(
        '[[workspace]]\npath = "~/.claude"\npreset = "claude-code"\nexclude = ["*-left-out"]\n'
    )
    daemon = own.start()
    with daemon.client() as client:
        claude = Claude(own, daemon, client)
        claude.remember("left out", "birch")
        claude.remember("api", "larch")
        claude.wait_found("larch", "api")
        assert claude.names() == {"claude-api"}
        (own.folder / "api" / "MEMORY.md").write_text("yew\n")
        client.call("workspace.add", path=str(own.folder / "api"))
        claude.wait_found("yew", "api")
        hits = client.call("search", query="larch", workspace=str(own.folder / "api"))["hits"]
        assert not hits
        of_agent = [
            workspace
            for workspace in client.call("workspace.list")["workspaces"]
            if workspace["project"]
        ]
        assert [workspace["name"] for workspace in of_agent] == ["claude-api"]
        assert client.call("search", query="larch", workspace="claude-api")["hits"]
        shutil.move(claude.folder, own.folder / "aside")
        wait_until(
            lambda: bool(client.call("status")["collections"][0]["is_missing"]), "not missing"
        )
        assert "cannot be listed" in run(own, "doctor")[1]
        assert claude.names() == {"api", "claude-api"}


# --- discover -------------------------------------------------------------------------------------


def run(home: Home, *words: str, cwd: Path | None = None, **env: str) -> tuple[int, str]:
    done = home.run(*words, cwd=cwd, **env)
    return done.returncode, done.stdout + done.stderr


def discover(home: Home, cwd: Path, **env: str) -> dict[str, dict[str, Any]]:
    _, text = run(home, "discover", "--json", cwd=cwd, **env)
    return {place["name"]: place for place in json.loads(text)["places"]}


def test_discover_lists_what_is_there_and_adds_it(claude: Claude) -> None:
    home = claude.home.folder
    claude.remember("code/api", "larch")
    api, vault, codex = home / "code/api", home / "Notes", home / "elsewhere" / "memories"
    for folder in (api / ".git", vault / ".obsidian", codex):
        folder.mkdir(parents=True)
    for note in (api / "CLAUDE.md", vault / "a.md", vault / "b.md", codex / "MEMORY.md"):
        note.write_text("alder\n")
    listed = home / "config/obsidian/obsidian.json"
    listed.parent.mkdir(parents=True)
    listed.write_text(json.dumps({"vaults": {"1": {"path": str(vault)}}}))
    env = {"CODEX_HOME": str(codex.parent)}
    places = discover(claude.home, api, **env)
    assert {name: (place["notes"], place["workspace"]) for name, place in places.items()} == {
        "claude-code": (1, None),
        "codex": (1, None),
        "Notes": (2, None),
        "api": (1, None),
    }
    status, text = run(claude.home, "discover", "--add", cwd=api, **env)
    assert (status, "--yes" in text, claude.names()) == (2, True, set())
    command = shlex.split(places["api"]["command"])[1:]
    assert run(claude.home, *command)[0] == 0
    assert run(claude.home, "discover", "--add", "Notes", cwd=api)[0] == 0
    assert claude.names() == {"api", "Notes"}
    assert run(claude.home, "discover", "--add", "--yes", cwd=api, **env)[0] == 0
    assert claude.names() == {"api", "Notes", "codex", "claude-api"}
    assert {place["workspace"] for place in discover(claude.home, api, **env).values()} == {
        *("api", "Notes", "codex", "claude-code")
    }
    # A rule that the repository has got since is read by itself.
    (api / ".cursorrules").write_text("rowan\n")
    wait_until(
        lambda: len(claude.client.call("list", workspace="api")["notes"]) == 2, "no new rule"
    )
    assert discover(claude.home, api, **env)["api"]["notes"] == 2


def test_discover_names_the_next_command_without_a_daemon_and_without_a_place(own: Home) -> None:
    status, text = run(own, "discover")
    assert (status, "memsyncd start" in text) == (3, True)
    own.start()
    status, text = run(own, "discover")
    assert (status, "memsyncd add" in text) == (1, True)
    assert run(own, "discover", "--json") == (1, '{"places":[]}\n')


def test_a_folder_of_projects_that_is_made_anew_step_by_step_is_watched_again(
    claude: Claude,
) -> None:
    claude.remember("api", "larch")
    claude.add()
    claude.wait_found("larch", "api")
    shutil.rmtree(claude.folder)

    def is_missing() -> bool:
        return bool(claude.client.call("workspace.list")["collections"][0]["is_missing"])

    wait_until(is_missing, "the folder of projects is not known to be gone")
    claude.folder.mkdir()
    # Each folder is made after the daemon has seen the one before.
    time.sleep(1)
    (claude.folder / "projects").mkdir()
    wait_until(lambda: not is_missing(), "the folder of projects is not found again")
    claude.remember("web", "maple")
    claude.wait_found("maple", "web")


def test_a_project_whose_folders_come_one_by_one_is_found_with_its_first_note(
    claude: Claude,
) -> None:
    claude.remember("api", "larch")
    claude.add()
    claude.wait_found("larch", "api")
    path = claude.home.folder / "web"
    path.mkdir()
    own = claude.folder / "projects" / slug_project(str(path))
    # The daemon lists the projects after each folder.
    for folder in (own, own / "memory"):
        folder.mkdir()
        time.sleep(1)
    claude.remember("web", "maple")
    claude.wait_found("maple", "web")
