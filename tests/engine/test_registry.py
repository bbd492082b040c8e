from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from memsyncd.core.paths import slug_project
from memsyncd.engine.registry import FolderCheck, Registry
from memsyncd.engine.workspace import Entry, Settings
from memsyncd.errors import BadRequest, Conflict, StoreFailed, WorkspaceNotFound
from memsyncd.files.folder_kinds import AgentProject, recognise_place

Open = Callable[[], Registry]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def open_registry(home: Path) -> Open:
    """A registry as the next start of the daemon finds it."""

    def open_one() -> Registry:
        registry = Registry(home / "state" / "workspaces.json", home=str(home), uid=os.geteuid())
        registry.read(())
        return registry

    return open_one


def make_folder(home: Path, name: str) -> str:
    (home / name).mkdir(parents=True, exist_ok=True)
    return str(home / name)


def test_the_user_wide_workspace_of_the_configuration_takes_the_place_of_an_added_one(
    home: Path, open_registry: Open
) -> None:
    registry = open_registry()
    added = registry.add(
        registry.make_entry(make_folder(home, "added"), Settings(is_user_wide=True))
    )
    folder = make_folder(home, "configured")
    entry = replace(registry.make_entry(folder, Settings(is_user_wide=True)), source="config")
    registry.configure([entry])
    users = {entry.name: entry.is_user_wide for entry in registry.entries.values()}
    assert users == {"added": False, "configured": True}
    with pytest.raises(Conflict, match="is the user-wide") as refused:
        registry.add(replace(added, is_user_wide=True))
    assert "memsyncd config path" in refused.value.hint


def test_a_configured_workspace_replaces_an_added_one_and_changes_only_in_the_file(
    home: Path, open_registry: Open
) -> None:
    registry = open_registry()
    added = registry.add(registry.make_entry(make_folder(home, "project")))
    configured = replace(added, name="configured", source="config")
    registry.read([configured])
    assert registry.entries == {added.id: configured}
    with pytest.raises(Conflict):
        registry.remove(configured)
    with pytest.raises(Conflict):
        registry.add(registry.make_entry(added.root, Settings(name="other")))
    assert registry.add(registry.make_entry(added.root)) == configured


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"workspaces": 5}',
        '{"workspaces": ["text"]}',
        '{"workspaces": {"a": 1}}',
        '{"workspaces": [{"id": "a"}]}',
        (
            '{"workspaces": [{"id": "a", "name": "a", "root": "/a",'
            ' "include": ["/x"], "exclude": []}]}'
        ),
        (
            '{"workspaces": [{"id": "a", "name": "a", "root": "/a",'
            ' "include": [], "exclude": ["../x"]}]}'
        ),
        "\udcff",
    ],
)
def test_a_damaged_file_is_set_aside_and_the_registry_works(
    home: Path, open_registry: Open, text: str
) -> None:
    file = home / "state" / "workspaces.json"
    file.parent.mkdir()
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    registry = Registry(file, home=str(home), uid=os.geteuid())
    assert "set aside" in registry.read(())
    assert registry.entries == {}
    assert file.with_suffix(".damaged").exists()
    registry.add(registry.make_entry(make_folder(home, "project")))
    assert len(open_registry().entries) == 1


def test_a_file_that_cannot_be_read_now_is_neither_set_aside_nor_written_over(home: Path) -> None:
    file = home / "state" / "workspaces.json"
    file.mkdir(parents=True)
    registry = Registry(file, home=str(home), uid=os.geteuid())
    with pytest.raises(StoreFailed, match="cannot be read"):
        registry.read(())
    assert file.is_dir()


def test_another_configuration_keeps_added_workspaces(home: Path, open_registry: Open) -> None:
    registry = open_registry()
    added = registry.add(registry.make_entry(make_folder(home, "project")))
    configured = replace(registry.make_entry(make_folder(home, "other")), source="config")
    registry.configure([configured])
    assert set(registry.entries) == {added.id, configured.id}
    registry.configure([])
    assert set(registry.entries) == {added.id}


def test_an_ambiguous_name_finds_no_workspace(home: Path, open_registry: Open) -> None:
    registry = open_registry()
    added = registry.add(registry.make_entry(make_folder(home, "one"), Settings(name="notes")))
    configured = replace(
        registry.make_entry(make_folder(home, "two"), Settings(name="notes")), source="config"
    )
    registry.configure([configured])
    with pytest.raises(Conflict, match="2 workspaces are called notes") as refused:
        registry.find("notes")
    assert added.id in refused.value.hint
    assert [registry.find(text) for text in (added.id, configured.root)] == [added, configured]


def test_a_failure_while_writing_leaves_the_file_as_it_was(
    home: Path, open_registry: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = open_registry()
    registry.add(registry.make_entry(make_folder(home, "project")))
    file = home / "state" / "workspaces.json"
    before = file.read_bytes()

    def fail(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    [known] = registry.entries.values()
    with pytest.raises(StoreFailed, match="No space"):
        registry.add(registry.make_entry(make_folder(home, "other")))
    with pytest.raises(StoreFailed, match="No space"):
        registry.remove(known)
    assert file.read_bytes() == before
    assert json.loads(before)["version"] == 1
    assert registry.entries == {known.id: known}


def test_a_file_of_a_version_without_presets_is_read(home: Path, open_registry: Open) -> None:
    registry = open_registry()
    entry = registry.add(
        registry.make_entry(make_folder(home, "project"), Settings(include=("docs/**",)))
    )
    file = home / "state" / "workspaces.json"
    rows = json.loads(file.read_text())
    for key in ("read_only", "preset", "memory_dir"):
        del rows["workspaces"][0][key]
    file.write_text(json.dumps(rows))
    assert open_registry().entries == {entry.id: entry}


def test_a_known_folder_gets_the_settings_that_are_given_and_keeps_the_others(
    home: Path, open_registry: Open
) -> None:
    registry = open_registry()
    root = make_folder(home, "project")
    registry.add(registry.make_entry(root, Settings(preset="vault", exclude=("drafts",))))
    again = registry.add(registry.make_entry(root, Settings(memory_dir="inbox")))
    assert (again.preset, again.exclude, again.memory_folder) == ("vault", ("drafts",), "inbox")
    assert registry.add(registry.make_entry(root, Settings(preset="memory"))).preset == "memory"


# --- collections ----------------------------------------------------------------------------------


def make_project(home: Path, project: str, *, name: str = "MEMORY.md") -> AgentProject:
    """The memory folder of Claude Code for a project."""
    path = make_folder(home, project)
    memory = home / ".claude/projects" / slug_project(path) / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    (memory / name).write_text("larch\n")
    return AgentProject(slug_project(path), path)


def add_collection(registry: Registry, home: Path, *projects: AgentProject) -> Entry:
    path = str(home / ".claude")
    seen = registry.check_folder(path)
    made = registry.make_entry(path, seen=seen.root, place=seen.place)
    collection = registry.add(made, seen)
    registry.note_projects(collection, projects)
    return collection


def test_the_memory_of_each_project_of_a_collection_is_a_workspace_over_a_restart(
    home: Path, open_registry: Open
) -> None:
    api, web = make_project(home, "api"), make_project(home, "my web")
    registry = open_registry()
    collection = add_collection(registry, home, api, web)
    assert (collection.name, collection.root) == ("claude-code", f"{home}/.claude/projects")
    assert registry.note_projects(collection, (api, web)) == []
    again = open_registry()
    assert again.entries == registry.entries
    assert again.collections == registry.collections == {collection.id: collection}
    assert {
        (entry.name, entry.project, entry.memory_folder) for entry in again.entries.values()
    } == {
        ("claude-api", api.path, "."),
        ("claude-my web", web.path, "."),
    }


def test_a_path_of_a_project_leads_to_its_memory_unless_it_has_a_workspace(
    home: Path, open_registry: Open
) -> None:
    registry = open_registry()
    inner = make_folder(home, "api/src/deep")
    api = make_project(home, "api")
    add_collection(registry, home, api)
    memory = registry.find("claude-api")
    assert registry.find(api.path) == registry.find(inner) == memory
    with pytest.raises(WorkspaceNotFound):
        registry.find(make_folder(home, "other"))
    own = registry.add(registry.make_entry(api.path))
    assert registry.find(inner) == own
    assert registry.find("claude-api") == registry.find(memory.root) == memory


def test_memory_for_the_home_folder_is_not_that_of_everything_in_it(
    home: Path, open_registry: Open
) -> None:
    registry = open_registry()
    add_collection(registry, home, make_project(home, "."))
    assert registry.find(str(home)).collection
    with pytest.raises(WorkspaceNotFound):
        registry.find(make_folder(home, "other"))


def test_a_project_whose_path_is_unknown_gets_it_once_a_transcript_tells_it(
    home: Path, open_registry: Open
) -> None:
    registry = open_registry()
    api = make_project(home, "api")
    collection = add_collection(registry, home, AgentProject(api.slug, ""))
    (entry,) = registry.entries.values()
    assert (entry.name, entry.project) == ("claude-api", "")
    assert registry.find(api.path) == entry
    assert registry.note_projects(collection, [api]) == []
    registry.note_projects(collection, [AgentProject(api.slug, "")])
    assert open_registry().entries[entry.id].project == api.path


def test_a_removed_workspace_of_a_collection_stays_out_of_it(
    home: Path, open_registry: Open
) -> None:
    registry = open_registry()
    projects = make_project(home, "api"), make_project(home, "web")
    collection = add_collection(registry, home, *projects)
    registry.remove(registry.find("claude-api"))
    again = open_registry()
    collection = again.collections[collection.id]
    assert collection.exclude == (projects[0].slug,)
    assert again.note_projects(collection, projects) == []
    assert {entry.name for entry in again.entries.values()} == {"claude-web"}
    again.remove(collection)
    assert not open_registry().entries
    assert not open_registry().collections


def test_a_collection_of_the_configuration_keeps_its_workspaces_while_it_is_there(
    home: Path, open_registry: Open
) -> None:
    registry = open_registry()
    api, web = make_project(home, "api"), make_project(home, "web")
    entry = registry.make_entry(
        str(home / ".claude"), Settings(preset="claude-code", exclude=("*-web",))
    )
    configured = replace(entry, source="config")
    registry.configure([configured])
    registry.note_projects(configured, (api, web))
    again = open_registry()
    assert not again.entries
    again.configure([configured])
    registry.read([configured])
    member = registry.find("claude-api")
    assert (len(registry.entries), member.source) == (1, "config")
    for entry in (member, configured):
        with pytest.raises(Conflict, match="configuration"):
            registry.remove(entry)
    registry.configure([replace(configured, exclude=("*",))])
    assert not registry.entries


def test_memory_of_projects_leaves_the_only_workspace_the_only_one(
    home: Path, open_registry: Open
) -> None:
    registry = open_registry()
    add_collection(registry, home, make_project(home, "api"), make_project(home, "web"))
    with pytest.raises(WorkspaceNotFound, match="several"):
        registry.find(None)
    own = registry.add(registry.make_entry(make_folder(home, "notes")))
    assert registry.find(None) == own


def test_a_collection_takes_no_globs_and_no_taken_name(home: Path, open_registry: Open) -> None:
    registry = open_registry()
    make_project(home, "api")
    path = str(home / ".claude")
    for options in ({"include": ["*.md"]}, {"read_only": ["a.md"]}, {"memory_dir": "a"}):
        with pytest.raises(BadRequest, match="exclude alone"):
            registry.make_entry(path, Settings(preset="claude-code", **options))
    registry.add(registry.make_entry(make_folder(home, "notes"), Settings(name="claude-code")))
    assert add_collection(registry, home).name == "claude-code-2"
    with pytest.raises(Conflict):
        registry.add(registry.make_entry(make_folder(home, "n2"), Settings(name="claude-code-2")))


def test_a_folder_that_becomes_a_vault_is_one_when_it_is_added_again(
    home: Path, open_registry: Open
) -> None:
    registry, folder = open_registry(), home / "notes"
    (folder / "inner" / ".obsidian").mkdir(parents=True)

    def add() -> tuple[Entry, FolderCheck]:
        seen = registry.check_folder(str(folder))
        made = registry.make_entry(str(folder), Settings(), seen=seen.root, place=seen.place)
        return registry.add(made, seen), seen

    first, seen = add()
    assert not first.is_vault
    assert first.recognise_vault() is None
    assert seen.vaults == (str(folder / "inner"),)
    (folder / ".obsidian").mkdir()
    assert first.recognise_vault() == recognise_place(str(folder))
    assert add()[0].is_vault
    (folder / "MEMORY.md").write_text("# Memory\n")
    assert registry.check_folder(str(folder)).place is None
