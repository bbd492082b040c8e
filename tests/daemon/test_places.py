"""Folders of each kind as workspaces: vaults, memory folders of agents, repositories."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.core.digest import digest_bytes
from memsyncd.core.paths import is_note_name, is_pruned_path
from memsyncd.errors import BadRequest, MemsyncdError, PathRefused
from tests.daemon.conftest import wait_until
from tests.git import git

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home, Place

    MakePlace = Callable[..., Place]

pytestmark = pytest.mark.shared_daemon
# A guard against hanging, for thousands of notes on a busy machine.
BUSY_S = 60.0


def write(root: Path, path: str, text: str = "larch") -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{text}\n")


def fill(root: Path, *paths: str) -> None:
    for path in paths:
        write(root, path)


def read_vault(root: Path) -> dict[str, str]:
    """Path and digest of every note, by a plain walk."""
    found = {}
    for place in root.rglob("*"):
        path = str(place.relative_to(root))
        inside = path.removeprefix(".memories/")
        if is_note_name(place.name) and place.is_file() and not is_pruned_path(inside):
            found[path] = digest_bytes(place.read_bytes())
    return found


def wait_equal(place: Place) -> None:
    place.wait(
        lambda: place.notes() == read_vault(place.root),
        "the index differs from the disk",
    )


def add(daemon: Daemon, root: Path, **options: object) -> dict[str, Any]:
    with daemon.client() as client:
        answer = client.call("workspace.add", path=str(root), **options)
        client.call("workspace.remove", workspace=answer["workspaces"][0]["id"])
    return {**answer["workspaces"][0], **answer["found"]}


# --- what a folder is -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "what"),
    [
        (".obsidian/app.json", "Obsidian vault"),
        ("logseq/config.edn", "Logseq vault"),
        (".zk/config.toml", "zk vault"),
        (".foam/templates/x.md", "Foam vault"),
        (".vscode/foam.json", "Foam vault"),
    ],
)
def test_a_vault_is_recognised_and_all_of_its_notes_are_indexed(
    root: Path, make_place: MakePlace, daemon: Daemon, mark: str, what: str
) -> None:
    fill(root, mark, "index.md", "journals/2026_11_20.md", "a b/c.md", ".trash/d.md", "e.png")
    added = add(daemon, root)
    assert (added["what"], added["preset"], added["memory_dir"]) == (what, "vault", ".")
    assert (added["notes"], added["is_complete"], added["has_memory"]) == (3, True, True)
    place = make_place(root)
    wait_equal(place)
    assert place.status()["problems"] == 0
    for settings in ({}, {"preset": "vault"}):
        again = place.client.call("workspace.add", path=str(root), **settings)["found"]
        assert (again["what"], again["notes"]) == (what, 3)


def test_what_a_vault_leaves_out_stays_out_and_dropped_globs_are_named(
    root: Path, make_place: MakePlace
) -> None:
    fill(root, ".obsidian/app.json", "a.md", "shapes/t.md", "attic/b.md", "drafts/c.md")
    (root / ".obsidian/templates.json").write_text('{"folder": "shapes"}')
    place = make_place(root, exclude=["drafts"])
    for exclude, dropped in ((["attic"], {"exclude": ["drafts"]}), ([], {})):
        answer = place.client.call("workspace.add", path=str(root), exclude=exclude)
        assert answer["workspaces"][0]["exclude"] == ["shapes", "attic"]
        assert answer["found"]["dropped"] == dropped
    done = place.home.run("add", str(root), "--exclude", "drafts")
    assert "left out: shapes, drafts" in done.stderr
    assert "dropped, name them again to keep them: --exclude attic" in done.stderr


def test_the_memory_folder_of_claude_code_is_a_vault_without_a_memories_folder(
    home: Home, make_place: MakePlace
) -> None:
    root = home.make_folder() / ".claude/projects/-home-ann-code/memory"
    fill(root, "MEMORY.md", "feedback_tests.md", "user_role.md")
    place = make_place(root)
    assert set(place.notes()) == {"MEMORY.md", "feedback_tests.md", "user_role.md"}
    place.client.call("note.add", content="Larch grows.", kind="decision", workspace=place.id)
    assert (root / "decisions.md").is_file()
    assert not (root / ".memories").exists()


def test_a_repository_has_its_memory_and_read_only_instructions_for_agents(
    root: Path, make_place: MakePlace, daemon: Daemon
) -> None:
    fill(root, "MEMORY.md", ".memories/a.md", "AGENTS.md", "README.md", "docs/b.md")
    added = add(daemon, root)
    assert (added["preset"], added["memory_dir"], added["notes"]) == ("memory", ".memories", 3)
    place = make_place(root)
    assert place.find("larch") == {"MEMORY.md", ".memories/a.md", "AGENTS.md"}
    with pytest.raises(PathRefused, match="read-only"):
        place.client.call("note.add", content="x", note="AGENTS.md", workspace=place.id)
    assert (root / "AGENTS.md").read_text() == "larch\n"


@pytest.mark.parametrize(
    ("paths", "namesakes", "what"),
    [
        (["AGENTS.md"], [], "no MEMORY.md and no .memories/ yet"),
        (["AGENTS.md", "pkg/MEMORY.md"], ["pkg/MEMORY.md"], "no MEMORY.md and no .memories/ yet"),
        (
            ["memory.md", "pkg/Memory.md"],
            ["memory.md", "pkg/Memory.md"],
            "MEMORY.md and .memories/",
        ),
        (["MEMORY.md", "pkg/MEMORY.md"], [], "MEMORY.md and .memories/"),
    ],
)
def test_what_is_nearly_memory_is_named_where_there_is_none(
    root: Path, daemon: Daemon, paths: list[str], namesakes: list[str], what: str
) -> None:
    fill(root, *paths)
    with daemon.client() as client:
        found = client.call("workspace.add", path=str(root))["found"]
        client.call("workspace.remove", workspace=str(root))
    assert (found["namesakes"], found["what"]) == (namesakes, what)


@pytest.mark.parametrize("path", ["CLAUDE.md", ".cursor/rules/deep/style.mdc", ".cursorrules"])
def test_instructions_made_after_the_workspace_are_read_by_themselves(
    root: Path, make_place: MakePlace, path: str
) -> None:
    fill(root, "MEMORY.md")
    place = make_place(root)
    fill(root, path)
    place.wait(lambda: place.find("larch") == {"MEMORY.md", path}, f"{path} is not found")


def test_adding_again_names_the_instructions_that_are_there(
    root: Path, make_place: MakePlace
) -> None:
    fill(root, "MEMORY.md")
    place = make_place(root)
    fill(root, "AGENTS.md", ".github/copilot-instructions.md")
    again = place.client.call("workspace.add", path=str(root))["found"]
    assert again["read_only"] == ["AGENTS.md", ".github/copilot-instructions.md"]
    assert again["notes"] == 3
    less = place.client.call("workspace.add", path=str(root), exclude=["AGENTS.md"])["found"]
    assert less["read_only"] == [".github/copilot-instructions.md"]


RULES = (
    ".cursor/rules/style.mdc",
    ".cursorrules",
    ".github/copilot-instructions.md",
    ".github/instructions/tests.instructions.md",
    "CLAUDE.md",
    "GEMINI.md",
)


def test_rules_of_agents_are_found_as_they_change_and_nothing_is_written_to_them(
    root: Path, make_place: MakePlace
) -> None:
    fill(root, "MEMORY.md", ".cursor/mcp.json", ".github/workflows/ci.md", *RULES)
    place = make_place(root)
    assert place.find("larch") == {"MEMORY.md", *RULES}
    rule = "---\ndescription: Style, of tests\nglobs: **/*.py\nalwaysApply: false\n---\nalder\n"
    write(root, ".cursor/rules/deep/tests.mdc", rule)
    place.wait(lambda: place.find("alder") == {".cursor/rules/deep/tests.mdc"}, "no new rule")
    assert place.client.call("problems", workspace=place.id)["problems"] == []
    for path in RULES:
        before = (root / path).read_text()
        for method, params in (
            ("note.add", {"content": "x", "note": path}),
            ("memory", {"command": "delete", "path": f"/memories/{path}"}),
            ("undo", {"path": path}),
        ):
            with pytest.raises(MemsyncdError):
                place.client.call(method, workspace=place.id, **params)
        assert (root / path).read_text() == before


INSTRUCTIONS = ("AGENTS.md", "deep/claude.md", "GEMINI.md", "CLAUDE.local.md")
SETTINGS: dict[str, dict[str, Any]] = {
    "a repository": {"preset": "memory", "include": ["deep/*.md"]},
    "a vault": {"preset": "vault"},
    "a folder of its own": {"preset": "vault", "memory_dir": "deep"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_no_act_makes_changes_moves_or_removes_instructions_for_agents(
    root: Path, make_place: MakePlace, settings: dict[str, Any]
) -> None:
    notes = (".memories/a.md", "deep/a.md", "deep/sub/Agents.md")
    fill(root, "MEMORY.md", "a.md", *notes, *INSTRUCTIONS)
    place = make_place(root, **settings)
    place.client.call("note.add", workspace=place.id, content="x", note="MEMORY.md")
    folder = place.client.call("workspace.list")["workspaces"]
    memory_dir = next(
        workspace["memory_dir"] for workspace in folder if workspace["id"] == place.id
    )
    inside = "" if memory_dir == "." else f"{memory_dir}/"

    def name(path: str) -> str:
        return f"/memories/{path.removeprefix(inside)}"

    there = [*INSTRUCTIONS, "deep/sub/Agents.md"]
    files = [path for path in root.rglob("*") if path.name != "MEMORY.md" and path.is_file()]
    before = {path: path.read_bytes() for path in files}
    new = ("AGENTS.override.md", f"{inside}CLAUDE.md", f"{inside}new/gemini.MD")
    acts: list[tuple[str, dict[str, Any]]] = []
    for path in (*there, *new):
        old = name(path)
        note, content = {"note": f"./{path}"}, {"content": "kites"}
        acts += [
            ("memory", {"command": "create", "path": old, "file_text": "x"}),
            ("memory", {"command": "str_replace", "path": old, "old_str": "larch"}),
            ("memory", {"command": "insert", "path": old, "insert_line": 0, "insert_text": "x"}),
            ("memory", {"command": "delete", "path": old}),
            ("memory", {"command": "rename", "old_path": old, "new_path": name(f"{inside}b.md")}),
            ("memory", {"command": "rename", "old_path": name(f"{inside}a.md"), "new_path": old}),
            ("note.add", {**note, **content}),
            ("note.add_many", {"items": [{**note, **content}]}),
            ("promote", {"anchor": "MEMORY.md#x", "tag": "decision", "note": path}),
            ("topic.create", {"title": "Kites", **note}),
            ("topic.patch", {"topic": path, "summary": "x"}),
            ("field.append", {"topic": path, "field": "x", **content}),
        ]
    for folder_path in ("deep/sub", "deep"):
        old = name(folder_path)
        acts += [
            ("memory", {"command": "delete", "path": old}),
            ("memory", {"command": "rename", "old_path": old, "new_path": name(f"{inside}z")}),
        ]
    for method, params in acts:
        with pytest.raises(MemsyncdError):
            place.client.call(method, workspace=place.id, **params)
    place.client.call("topic.archive", workspace=place.id, topics=there[:1], apply=True)
    place.client.call("archive", workspace=place.id, path="**", below=100, apply=True)
    files = [path for path in root.rglob("*") if path.name != "MEMORY.md" and path.is_file()]
    assert {path: path.read_bytes() for path in files} == before


def test_in_a_vault_the_memory_tool_makes_and_moves_notes_alone(
    root: Path, make_place: MakePlace
) -> None:
    fill(root, ".obsidian/app.json", "a.md", "img.png", "run.sh")
    place = make_place(root)
    for params in (
        {"command": "create", "path": "/memories/x.sh", "file_text": "rm -rf /"},
        {"command": "create", "path": "/memories/x.png", "file_text": "x"},
        {"command": "str_replace", "path": "/memories/run.sh", "old_str": "larch"},
        {"command": "insert", "path": "/memories/run.sh", "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": "/memories/img.png"},
        {"command": "rename", "old_path": "/memories/img.png", "new_path": "/memories/img.md"},
        {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/a.sh"},
    ):
        with pytest.raises(PathRefused, match="no note of this workspace"):
            place.client.call("memory", workspace=place.id, **params)
    assert sorted(path.name for path in root.iterdir()) == [
        ".obsidian", "a.md", "img.png", "run.sh"
    ]  # fmt: skip


def test_a_folder_without_memory_has_no_note_and_says_how_many_others_it_holds(
    root: Path, daemon: Daemon
) -> None:
    fill(root, "a.md", "b/c.md", "node_modules/d.md")
    added = add(daemon, root)
    assert (added["notes"], added["others"], added["has_memory"]) == (0, 2, False)
    assert add(daemon, root, preset="vault")["notes"] == 2
    assert add(daemon, root, include=["b/*.md"])["notes"] == 1


def test_a_given_preset_or_include_wins_over_what_the_folder_is(root: Path, daemon: Daemon) -> None:
    fill(root, ".obsidian/app.json", "a.md", "b/c.md", "MEMORY.md")
    assert add(daemon, root, preset="memory")["notes"] == 1
    assert add(daemon, root, include=["b/**"])["notes"] == 2
    with pytest.raises(BadRequest, match="memory_dir"):
        add(daemon, root, memory_dir="../elsewhere")


def test_a_workspace_keeps_its_settings_over_a_restart(own: Home) -> None:
    root = own.make_folder()
    fill(root, ".obsidian/app.json", "a/b.md", "inbox/c.md")
    daemon = own.start()
    with daemon.client() as client:
        settings = {"memory_dir": "inbox", "read_only": ["a/*.md"]}
        client.call("workspace.add", path=str(root), **settings)
        before = client.call("workspace.list")
    daemon.stop()
    with own.start().client() as client:
        after = client.call("workspace.list")["workspaces"]
    assert after == before["workspaces"]
    assert (after[0]["preset"], after[0]["memory_dir"]) == ("vault", "inbox")


# --- the memory folder ----------------------------------------------------------------------------


def test_the_memory_tool_sees_and_edits_all_notes_of_a_vault_and_nothing_hidden(
    root: Path, make_place: MakePlace
) -> None:
    fill(root, ".obsidian/app.json", "a.md", "deep/b.md", "node_modules/c.md")
    place = make_place(root)

    def memory(command: str, **params: object) -> str:
        params["workspace"] = place.id
        return str(place.client.call("memory", command=command, **params)["text"])

    shown = memory("view", path="/memories")
    assert "/memories/a.md" in shown
    assert "/memories/deep/b.md" in shown
    assert "/memories/node_modules" not in shown
    assert ".obsidian" not in shown
    memory("create", path="/memories/deep/new.md", file_text="maple\n")
    memory("str_replace", path="/memories/a.md", old_str="larch", new_str="maple")
    memory("rename", old_path="/memories/deep", new_path="/memories/deeper")
    memory("delete", path="/memories/deeper/b.md")
    assert read_vault(root).keys() == {"a.md", "deeper/new.md"}
    wait_equal(place)
    for path in ("/memories/.obsidian/app.json", "/memories/../x.md", "/memories/.git/config"):
        with pytest.raises(PathRefused):
            memory("view", path=path)
        with pytest.raises(PathRefused):
            memory("create", path=path, file_text="x")
    with pytest.raises(PathRefused, match="every note of this vault"):
        place.client.call("memory.clear", confirm=True, workspace=place.id)
    history = place.client.call("history", path="/memories/a.md", workspace=place.id)
    place.client.call("undo", revision=history["revisions"][0]["revision"], workspace=place.id)
    assert (root / "a.md").read_text() == "larch\n"


def test_memories_are_written_to_the_memory_dir_of_the_workspace(
    root: Path, make_place: MakePlace
) -> None:
    fill(root, ".obsidian/app.json", "a.md", "inbox/b.md")
    place = make_place(root, memory_dir="inbox")
    for note in (None, "ideas", "/memories/more.md"):
        place.client.call(
            "note.add", content="Maple.", kind="decision", note=note, workspace=place.id
        )
    assert {path.name for path in (root / "inbox").iterdir()} == {
        "b.md",
        "decisions.md",
        "ideas.md",
        "more.md",
    }
    shown = place.client.call("memory", command="view", path="/memories", workspace=place.id)
    assert "/memories/b.md" in shown["text"]
    assert "/memories/a.md" not in shown["text"]
    wait_equal(place)


def test_a_memory_dir_is_indexed_without_an_include(root: Path, make_place: MakePlace) -> None:
    fill(root, "MEMORY.md", "notes/a.md", "other/b.md")
    place = make_place(root, memory_dir="notes")
    assert set(place.notes()) == {"MEMORY.md", "notes/a.md"}


# --- changes --------------------------------------------------------------------------------------


def test_a_changed_ignore_file_takes_effect_by_itself(root: Path, make_place: MakePlace) -> None:
    fill(root, ".obsidian/app.json", "a.md", "drafts/b.md", "drafts/deep/c.md")
    place = make_place(root)
    (root / ".gitignore").write_text("drafts/\n")
    place.wait_found("larch", "a.md")
    write(root, "drafts/deep/d.md", "maple")
    (root / ".gitignore").write_text("")
    place.wait_found("larch", "a.md", "drafts/b.md", "drafts/deep/c.md")
    place.wait_found("maple", "drafts/deep/d.md")
    write(root, "drafts/deep/e.md", "willow")
    place.wait_found("willow", "drafts/deep/e.md")


FOLDERS = ["a", "b", "a/c", "a/d", "b/c", "b/c/e", "node_modules", ".trash", "a/.hidden"]


@pytest.mark.parametrize("seed", range(4))
def test_the_index_of_a_vault_equals_a_walk_after_any_moves_of_folders(
    root: Path, make_place: MakePlace, seed: int
) -> None:
    chance = random.Random(seed)
    fill(root, ".obsidian/app.json", "a/c/x.md", "b/c/y.md", ".memories/deep/z.md")
    outside = root.parent / "outside"
    outside.mkdir()
    place = make_place(root)
    for _ in range(5):
        for number in range(30):
            folder, other = (root / chance.choice(FOLDERS) for _ in range(2))
            choice = chance.randrange(6)
            try:
                if choice < 2:
                    write(folder, f"{chance.choice('xyz')}.md", f"larch {number}")
                elif choice == 2:
                    folder.rename(other)
                elif choice == 3:
                    folder.rename(outside / chance.choice("pq"))
                elif choice == 4:
                    (outside / chance.choice("pq")).rename(folder)
                else:
                    shutil.rmtree(folder)
            except OSError:
                continue
        wait_equal(place)


def test_folders_over_the_limit_are_said_once_and_found_by_timed_scans(
    make_home: Callable[..., Home],
) -> None:
    from tests.daemon.conftest import Place as DaemonPlace

    home = make_home("[sync]\nreconcile_s = 1\nmax_watched_folders = 5\n")
    root = home.make_folder()
    fill(root, ".obsidian/app.json", *(f"{number}/a.md" for number in range(12)))
    place = DaemonPlace(home, home.start(), root)
    place.wait(lambda: place.status()["state"] == "degraded", "the limit is not reported")
    status = place.status()
    assert status["watcher"] == "timed"
    [reason] = status["reasons"]
    assert "max_watched_folders" in reason
    for method, params in (("search", {"query": "maple"}), ("context", {}), ("list", {})):
        freshness = place.client.call(method, workspace=place.id, **params)["freshness"]
        assert (freshness["state"], freshness["reason"]) == ("degraded", reason)
    for number in range(8):
        write(root, f"{number}/b.md", "maple")
    place.wait_found("maple", *(f"{number}/b.md" for number in range(8)))
    write(root, "3/c.md", "willow")
    place.wait_found("willow", "3/c.md")
    assert place.status()["missed_events"] == 0
    findings = place.client.call("doctor", workspace=place.id)["findings"]
    assert [
        finding["check"] for finding in findings if "max_watched_folders" in finding["what"]
    ] == ["watcher"]
    place.close()


def test_a_limit_of_folders_that_is_raised_is_in_force_without_a_timed_scan(
    make_home: Callable[..., Home],
) -> None:
    from tests.daemon.conftest import Place as DaemonPlace

    home = make_home("[sync]\nreconcile_s = 3600\nmax_watched_folders = 5\n")
    root = home.make_folder()
    fill(root, ".obsidian/app.json", *(f"{number}/a.md" for number in range(12)))
    daemon = home.start()
    place = DaemonPlace(home, daemon, root)
    place.wait(lambda: place.status()["watcher"] == "timed", "the limit is not reported")
    home.config.write_text("[sync]\nreconcile_s = 3600\n")
    daemon.process.send_signal(signal.SIGHUP)
    place.wait(lambda: place.status()["watcher"] != "timed", "the limit is still in force")
    for number in range(4, 12):
        write(root, f"{number}/b.md", "maple")
    place.wait_found("maple", *(f"{number}/b.md" for number in range(4, 12)))
    place.close()


def test_more_links_than_one_answer_holds_are_listed_in_pages(
    root: Path, make_place: MakePlace
) -> None:
    write(root, "MEMORY.md", "\n".join(f"[[none-{number}]]" for number in range(10_050)))
    place = make_place(root)
    program = (sys.executable, "-m", "memsyncd", "links")
    place.wait_found("9999", "MEMORY.md")
    answer = json.loads(place.run(*program, "--limit", "20000", "--json"))
    assert answer["n_links"] == len({link["target"] for link in answer["links"]}) == 10_050
    shown = place.run(*program, "--limit", "10040").splitlines()
    assert len(shown) == 10_041
    assert shown[-1] == "10 more; show them with --limit 10050"


# --- git ------------------------------------------------------------------------------------------


@pytest.mark.needs("git")
@pytest.mark.timeout(300)
def test_a_switch_of_branches_with_2000_notes_leaves_the_notes_of_the_branch(
    root: Path, make_place: MakePlace
) -> None:
    git(root, "init", "-q")
    for number in range(2000):
        write(root, f"{number % 40}/{number}.md", f"Note {number}")
    write(root, ".obsidian/app.json")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    git(root, "checkout", "-qb", "other")
    for number in range(20):
        shutil.rmtree(root / str(number))
    for number in range(20, 40):
        (root / str(number)).rename(root / f"moved-{number}")
        write(root, f"moved-{number}/{number}.md", "larch")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "other")
    place = make_place(root)
    assert place.notes() == read_vault(root)
    for branch, n_notes in (("main", 2000), ("other", 1000)):
        git(root, "checkout", "-q", branch)
        # A comparison takes as long as the index does, so it is made once.
        wait_until(
            lambda n_notes=n_notes: place.status()["files"] == n_notes,
            f"{branch} has another number of notes",
            limit_s=BUSY_S,
        )
        place.client.call("sync", workspace=place.id)
        assert place.notes() == read_vault(root)


@pytest.mark.needs("git")
def test_clones_and_submodules_in_a_vault_are_found_with_their_own_ignore_files(
    root: Path, make_place: MakePlace
) -> None:
    other = root.parent / "other"
    fill(other, "one.md", "drafts/two.md", "build/three.md")
    (other / ".gitignore").write_text("build/\n")
    git(other, "init", "-q")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "all")
    fill(root, ".obsidian/app.json", "a.md", "drafts/b.md")
    (root / ".gitignore").write_text("drafts/\n")
    git(root, "init", "-q")
    place = make_place(root)
    git(root, "clone", "-q", str(other), "clone")
    place.wait_found("larch", "a.md", "clone/one.md", "clone/drafts/two.md")
    git(root, "submodule", "--quiet", "add", str(other), "sub")
    write(root, "sub/build/new.md")
    place.wait_found(
        "larch",
        "a.md",
        "clone/one.md",
        "clone/drafts/two.md",
        "sub/one.md",
        "sub/drafts/two.md",
    )
