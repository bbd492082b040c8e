"""The memory folders of Claude Code's projects, on the real disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.paths import slug_project
from memsyncd.files.folder_kinds import (
    AWAITED_LIMIT,
    AgentProject,
    ProjectListing,
    find_agent_globs,
    list_projects,
    recognise_place,
)


def write(place: Path, text: str = "larch\n") -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def list_all(folder: Path, **known: str) -> ProjectListing:
    listing = list_projects(str(folder), known)
    assert listing is not None
    return listing


def test_projects_with_notes_are_listed_and_the_others_awaited(tmp_path: Path) -> None:
    write(tmp_path / "-a" / "memory" / "MEMORY.md")
    write(tmp_path / "-b" / "memory" / "topics" / "x.md")
    (tmp_path / "-c" / "memory").mkdir(parents=True)
    write(tmp_path / "-d" / "1.jsonl", "{}\n")
    write(tmp_path / "-e" / "memory" / ".DS_Store")
    write(tmp_path / "file.md")
    (tmp_path / "-f").symlink_to(tmp_path / "-a")
    (tmp_path / "-g").mkdir()
    (tmp_path / "-g" / "memory").symlink_to(tmp_path / "-a" / "memory")
    listing = list_all(tmp_path)
    assert listing.projects == (AgentProject("-a", ""), AgentProject("-b", ""))
    assert listing.awaited == {f"{slug}{end}" for slug in ("-c", "-d", "-e", "-g") for end in ENDS}


ENDS = ("", "/memory")


def test_a_folder_that_cannot_be_listed_is_no_empty_one(tmp_path: Path) -> None:
    assert list_projects(str(tmp_path / "gone"), {}) is None
    assert list_all(tmp_path) == ProjectListing((), frozenset())


def test_the_path_of_a_project_is_in_its_latest_transcript_unless_it_is_known(
    tmp_path: Path,
) -> None:
    slug = slug_project("/srv/my.api")
    write(tmp_path / slug / "memory" / "MEMORY.md")
    write(tmp_path / slug / "old.jsonl", json.dumps({"cwd": "/srv/my-api"}))
    write(tmp_path / slug / "new.jsonl", '{"type":"mode"}\n' + json.dumps({"cwd": "/srv/my.api"}))
    os.utime(tmp_path / slug / "old.jsonl", (1, 1))
    assert list_all(tmp_path).projects == (AgentProject(slug, "/srv/my.api"),)
    assert list_all(tmp_path, **{slug: "/srv/my-api"}).projects[0].path == "/srv/my-api"


def test_a_number_of_folders_is_awaited_those_that_changed_last(tmp_path: Path) -> None:
    for number in range(AWAITED_LIMIT + 5):
        (tmp_path / f"p{number}").mkdir()
        os.utime(tmp_path / f"p{number}", (number, number))
    awaited = list_all(tmp_path).awaited
    assert len(awaited) == 2 * AWAITED_LIMIT
    assert "p4" not in awaited
    assert "p5" in awaited


@given(st.sets(st.sampled_from(["AGENTS.md", "GEMINI.md", ".cursorrules", ".cursor/rules/a.mdc"])))
def test_a_repository_has_the_instructions_that_are_there(
    tmp_path_factory: pytest.TempPathFactory, files: set[str]
) -> None:
    root = tmp_path_factory.mktemp("repository")
    for path in files:
        write(root / path)
    rules = {".cursor/rules/a.mdc": ".cursor/rules/**/*.mdc"}
    assert set(find_agent_globs(str(root))) == {rules.get(path, path) for path in files}


@pytest.mark.parametrize(
    ("path", "preset", "what"),
    [
        (".claude", "claude-code", "projects of Claude Code"),
        (".claude/projects", "claude-code", "projects of Claude Code"),
        (".claude/projects/-a/memory", "vault", "memory folder of Claude Code"),
        (".codex/memories", "vault", "memory folder of Codex"),
        (".gemini", "memory", "memory of Gemini CLI"),
        ("code/.claude", "memory", "MEMORY.md and .memories/"),
    ],
)
def test_the_folders_of_agents_are_recognised(
    tmp_path: Path, path: str, preset: str, what: str
) -> None:
    (tmp_path / ".claude/projects/-a/memory").mkdir(parents=True)
    (tmp_path / path).mkdir(parents=True, exist_ok=True)
    place = recognise_place(str(tmp_path / path))
    assert (place.preset, place.what) == (preset, what)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (
            '{\n  // for notes\n  "recommendations": [\n    "esbenp.prettier",\n    "foam.foam-vscode",\n  ]\n}',
            "Foam vault",
        ),
        (
            '{"recommendations": [], "unwantedRecommendations": ["foam.foam-vscode"]}',
            "MEMORY.md and .memories/",
        ),
        ('{"recommendations": ["esbenp.prettier"]}', "MEMORY.md and .memories/"),
    ],
)
def test_a_folder_for_which_the_extension_of_foam_is_recommended_is_its_vault(
    tmp_path: Path, settings: str, what: str
) -> None:
    write(tmp_path / ".vscode/extensions.json", settings)
    assert recognise_place(str(tmp_path)).what == what


def test_a_fifo_in_place_of_the_settings_of_an_editor_does_not_hold_up(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    os.mkfifo(tmp_path / ".vscode/extensions.json")
    assert recognise_place(str(tmp_path)).preset == "memory"


@pytest.mark.parametrize(
    ("path", "settings", "excluded"),
    [
        (".obsidian/templates.json", '{"folder": "Meta/Templates/"}', ["Meta/Templates"]),
        (".obsidian/templates.json", '{"folder": ""}', []),
        (".obsidian/templates.json", '{"folder": "../other"}', []),
        (".obsidian/templates.json", '{"folder": 7', []),
        (".obsidian/templates.json", "[]", []),
        (
            "logseq/config.edn",
            '{;; :hidden ["no"]\n :hidden ["/drafts" , "pages/a.md" "x*"]}',
            ["drafts", "pages/a.md"],
        ),
        ("logseq/config.edn", "{:hidden []}", []),
        ("logseq/config.edn", ":hidden [", []),
    ],
)
def test_pages_that_the_settings_of_a_vault_hide_are_left_out(
    tmp_path: Path, path: str, settings: str, excluded: list[str]
) -> None:
    write(tmp_path / path, settings)
    place = recognise_place(str(tmp_path))
    backups = ("logseq/bak", "logseq/version-files")
    assert [path for path in place.exclude if path not in backups] == excluded


def test_a_fifo_in_place_of_the_settings_of_a_vault_does_not_hold_up(tmp_path: Path) -> None:
    (tmp_path / ".obsidian").mkdir()
    os.mkfifo(tmp_path / ".obsidian/templates.json")
    assert recognise_place(str(tmp_path)).exclude == ()
