"""The places with notes that tools know, in a home that the test writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.files.folder_kinds import (
    ToolFolders,
    find_places,
    parse_graph_name,
    parse_obsidian_vaults,
    parse_zk_notebook,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["vaults", "path", "a"]), inner, max_size=3)
    ),
)


def write(place: Path, text: str = "larch\n") -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def find(home: Path, here: str = "", zk: str = "") -> dict[str, tuple[str, str]]:
    folders = ToolFolders(
        home=str(home),
        claude=f"{home}/.claude",
        codex=f"{home}/.codex",
        config=f"{home}/.config",
        zk=zk,
        here=here,
    )
    return {
        place.name: (place.path.removeprefix(f"{home}/"), place.what)
        for place in find_places(folders)
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def test_nothing_is_found_in_an_empty_home(home: Path) -> None:
    assert find(home, str(home)) == {}


def test_memories_of_agents_are_found(home: Path) -> None:
    (home / ".claude/projects").mkdir(parents=True)
    write(home / ".codex/memories/MEMORY.md")
    write(home / ".gemini/GEMINI.md")
    assert find(home) == {
        "claude-code": (".claude/projects", "projects of Claude Code"),
        "codex": (".codex/memories", "memory folder of Codex"),
        "gemini": (".gemini", "memory of Gemini CLI"),
    }


def test_vaults_are_found_in_the_lists_of_their_tools_each_once(home: Path) -> None:
    for folder in ("a/notes", "b/notes", "graph", "zk"):
        (home / folder).mkdir(parents=True)
    paths = [f"{home}/{folder}" for folder in ("a/notes", "b/notes", "gone")]
    vaults = {str(at): {"path": path, "ts": 1} for at, path in enumerate(paths)}
    write(home / ".config/obsidian/obsidian.json", json.dumps({"vaults": vaults}))
    coded = f"{home}/graph".replace("/", "++")
    write(home / f".logseq/graphs/logseq_local_{coded}.transit")
    write(home / ".config/zk/config.toml", '[notebook]\ndir = "~/zk"\n')
    expected = {
        "notes": ("a/notes", "Obsidian vault"),
        "notes-2": ("b/notes", "Obsidian vault"),
        "graph": ("graph", "Logseq vault"),
        "zk": ("zk", "zk vault"),
    }
    assert find(home) == expected
    assert find(home, zk=f"{home}/graph") == {key: expected[key] for key in expected if key != "zk"}


def test_the_rules_of_the_repository_around_a_folder_are_found(home: Path) -> None:
    (home / "code/api/.git").mkdir(parents=True)
    (home / "code/api/src/deep").mkdir(parents=True)
    assert find(home, f"{home}/code/api/src/deep") == {}
    write(home / "code/api/AGENTS.md")
    rules = ("code/api", "rules of this repository for agents")
    assert find(home, f"{home}/code/api/src/deep") == {"api": rules}
    write(home / "AGENTS.md")
    assert find(home, str(home)) == {}
    write(home / "plain/.cursorrules")
    assert find(home, f"{home}/plain") == {"plain": ("plain", rules[1])}


def test_the_vault_around_a_folder_is_found_once(home: Path) -> None:
    write(home / "notes/.obsidian/app.json", "{}")
    (home / "notes/daily").mkdir()
    vault = {"notes": ("notes", "Obsidian vault")}
    assert find(home) == {}
    assert find(home, f"{home}/notes/daily") == vault
    write(
        home / ".config/obsidian/obsidian.json",
        json.dumps({"vaults": {"1": {"path": f"{home}/notes"}}}),
    )
    assert find(home, f"{home}/notes") == vault


@given(JSON | st.text())
def test_a_list_of_vaults_may_be_anything(value: object) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    assert all(isinstance(path, str) for path in parse_obsidian_vaults(text))


@given(st.text(st.characters(exclude_characters="+%\0"), min_size=1).map(lambda name: f"/{name}"))
def test_the_folder_of_a_graph_is_in_the_name_of_its_file(path: str) -> None:
    coded = path.replace("/", "++").replace(":", "+3A+")
    assert parse_graph_name(f"logseq_local_{coded}.transit") == path
    assert parse_graph_name(f"{coded}.transit") == ""


def test_the_notebook_of_zk_is_in_its_configuration() -> None:
    for text, folder in (
        ('[notebook]\ndir = "~/zk"', "~/zk"),
        ("[notebook]\ndir = 3", ""),
        ("notebook = 3", ""),
        ("[note]\nlanguage = 'en'", ""),
        ("[[[", ""),
        ("", ""),
    ):
        assert parse_zk_notebook(text) == folder, text
