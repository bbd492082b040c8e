"""Memories of two branches, merged by git itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memsyncd.cli.git_merges import (
    DRIVER_LINES,
    UNION_LINES,
    VAULT_LINES,
    add_driver,
    find_missing,
    is_tracked,
    make_driver,
)
from memsyncd.core.editing.additions import Addition, append_section
from memsyncd.core.editing.topics import append_value
from memsyncd.core.upkeep import archive_sections
from memsyncd.errors import Unwritable
from tests.cli.test_transcripts import ShellSession
from tests.git import git, try_git

pytestmark = [pytest.mark.life, pytest.mark.needs("git")]


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


PROGRAM = (sys.executable, "-m", "memsyncd")


def remember(root: Path, path: str, text: str) -> None:
    place = root / path
    addition = Addition(content=text, summary=text, kind="decision", tags=("a",))
    data, _, _ = append_section(path, place.read_bytes(), [addition], at="2026-11-20T10:00:00Z")
    place.write_bytes(data)


PATHS = ("MEMORY.md", ".memories/decisions.md", ".memories/deep/a.md")


def merge_two_branches(root: Path) -> subprocess.CompletedProcess[bytes]:
    git(root, "checkout", "-qb", "other")
    for path in PATHS:
        remember(root, path, "Other words")
    commit(root)
    git(root, "checkout", "-q", "main")
    for path in PATHS:
        remember(root, path, "Main words")
    commit(root)
    return try_git(root, "merge", "-q", "other")


def test_without_the_driver_git_has_a_conflict(repository: Path) -> None:
    assert is_tracked(repository.as_posix())
    assert "has a conflict" in find_missing(str(repository))
    assert merge_two_branches(repository).returncode != 0


def test_with_the_driver_git_keeps_the_memories_of_both_branches(repository: Path) -> None:
    add_driver(str(repository), PROGRAM)
    commit(repository)
    assert not find_missing(str(repository))
    assert merge_two_branches(repository).returncode == 0
    for path in PATHS:
        text = (repository / path).read_text()
        assert "\n\n## Main words\n" in text
        assert "\n\n## Other words\n" in text
        assert "<<<<" not in text


def test_acts_on_one_section_and_values_of_one_field_are_merged_by_git(repository: Path) -> None:
    """A union of lines would put the status and the text of a section into another section."""
    add_driver(str(repository), PROGRAM)
    note, path = repository / PATHS[0], PATHS[0]
    remember(repository, path, "One about pools")
    remember(repository, path, "Log")
    commit(repository)
    git(repository, "checkout", "-qb", "other")
    anchor, log = f"{path}#notes/one-about-pools", f"{path}#notes/log"
    note.write_bytes(archive_sections(path, note.read_bytes(), [anchor])[0])
    append(note, path, log, "from the branch", "2026-11-21T10:00:00Z")
    remember(repository, path, "Branch words")
    commit(repository)
    git(repository, "checkout", "-q", "main")
    note.write_text(note.read_text().replace("tags: [a],", "tags: [a, b], priority: P1,", 1))
    append(note, path, log, "from main", "2026-11-21T11:00:00Z")
    remember(repository, path, "Main words")
    commit(repository)
    assert try_git(repository, "merge", "-q", "other").returncode == 0
    made = "<!-- memory: {{kind: decision, tags: [{}], created: 2026-11-20T10:00:00Z}} -->\n"
    assert note.read_text() == (
        "# Notes\n\nThe first line.\n\n"
        "## One about pools\n<!-- memory: {kind: decision, tags: [a, b], priority: P1, "
        "created: 2026-11-20T10:00:00Z} -->\nOne about pools\n\n"
        f"## Log\n{made.format('a')}- 2026-11-21T11:00:00Z from main\n"
        "- 2026-11-21T10:00:00Z from the branch\n\nLog\n\n"
        f"## Branch words\n{made.format('a')}Branch words\n\n"
        f"## Main words\n{made.format('a')}Main words\n"
    )


def append(note: Path, path: str, anchor: str, text: str, at: str) -> None:
    addition = Addition(content=text)
    done = append_value(path, note.read_bytes(), anchor, addition, at=at, keep=None)
    note.write_bytes(done.data)


def change_line(root: Path, new: str) -> None:
    note = root / "MEMORY.md"
    note.write_text(note.read_text().replace("The first line.", new))
    commit(root)


def test_of_texts_that_both_branches_have_changed_both_stay(repository: Path) -> None:
    add_driver(str(repository), PROGRAM)
    commit(repository)
    git(repository, "checkout", "-qb", "other")
    change_line(repository, "theirs")
    git(repository, "checkout", "-q", "main")
    change_line(repository, "ours")
    remember(repository, "MEMORY.md", "Main words")
    commit(repository)
    done = try_git(repository, "merge", "-q", "other")
    assert done.returncode == 0
    assert b"memsyncd choose 'MEMORY.md#notes/notes' --keep this\n" in done.stderr
    text = (repository / "MEMORY.md").read_text()
    assert text.startswith("# Notes\n\ntheirs\n\n## Main words\n")
    assert text.endswith("\n\n## Notes\n<!-- memory: {conflict: notes} -->\n\nours\n")
    # On the other branch git gives the same note.
    git(repository, "checkout", "-q", "other")
    try_git(repository, "merge", "-q", "main~1")
    try_git(repository, "merge", "-q", "main")
    assert (repository / "MEMORY.md").read_text() == text


def test_a_note_that_cannot_be_merged_stays_as_it_is_and_git_says_so(repository: Path) -> None:
    add_driver(str(repository), PROGRAM)
    note = repository / "MEMORY.md"
    note.write_bytes("# Notes\n\nThe first line.\n".encode("utf-16"))
    commit(repository)
    git(repository, "checkout", "-qb", "other")
    note.write_bytes("# Notes\n\ntheirs\n".encode("utf-16"))
    commit(repository)
    git(repository, "checkout", "-q", "main")
    ours = "# Notes\n\nours\n".encode("utf-16")
    note.write_bytes(ours)
    commit(repository)
    done = try_git(repository, "merge", "-q", "other")
    assert done.returncode != 0
    assert b"MEMORY.md is UTF-16" in done.stderr
    assert "UU MEMORY.md" in git(repository, "status", "--short")
    assert note.read_bytes() == ours


def test_a_clone_without_the_program_merges_lines_or_has_a_conflict(repository: Path) -> None:
    add_driver(str(repository), ("/none/memsyncd",))
    commit(repository)
    assert merge_two_branches(repository).returncode != 0
    text = (repository / "MEMORY.md").read_text()
    assert "<<<<<<< ours" in text
    assert "Other words" in text
    git(repository, "merge", "--abort")
    git(repository, "config", "--unset", "merge.memsyncd.driver")
    assert "this clone does not have" in find_missing(str(repository))
    assert try_git(repository, "merge", "-q", "other").returncode != 0


def test_a_program_at_any_path_is_called(tmp_path: Path) -> None:
    program = tmp_path / "it's 100% here"
    program.write_text('#!/bin/sh\necho "$@" >called\n')
    program.chmod(0o755)
    driver = make_driver((str(program),)).replace("%%", "%").replace("%O %A %B %P", "o a b p")
    subprocess.run(["sh", "-c", driver], cwd=tmp_path, check=True)
    assert (tmp_path / "called").read_text() == "merge-driver o a b p\n"


def test_other_lines_of_the_attributes_stay_and_union_is_replaced(repository: Path) -> None:
    file = repository / ".gitattributes"
    file.write_text(f"*.png binary\n{UNION_LINES[0]}\n{UNION_LINES[1]}\n\n# end")
    assert "union" in find_missing(str(repository))
    for _ in range(2):
        add_driver(str(repository), PROGRAM)
        assert file.read_text() == "*.png binary\n\n# end\n" + "".join(
            f"{line}\n" for line in DRIVER_LINES
        )
    assert not find_missing(str(repository))


def test_a_link_is_not_followed(repository: Path, tmp_path: Path) -> None:
    (repository / ".gitattributes").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unwritable):
        add_driver(str(repository), PROGRAM)
    assert not (tmp_path / "elsewhere").exists()


def test_outside_of_a_repository_there_is_nothing_to_merge(tmp_path: Path) -> None:
    assert not find_missing(str(tmp_path))
    assert not is_tracked(str(tmp_path))


def test_no_program_that_a_repository_configures_is_run(repository: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    program.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(program))
    assert find_missing(str(repository))
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


def test_init_says_how_writes_no_attributes_by_itself_and_replaces_another_driver(
    shell: ShellSession,
) -> None:
    done = shell.do("memsyncd init")
    assert "memsyncd init --merge-driver ." in done.stderr
    assert not (shell.cwd / ".gitattributes").exists()
    done = shell.do("memsyncd init --merge-driver")
    assert done.returncode == 0
    assert (shell.cwd / ".gitattributes").read_text().splitlines() == list(DRIVER_LINES)
    assert "merge-driver" not in shell.do("memsyncd init").stderr
    assert "memsyncd" in git(shell.cwd, "config", "merge.memsyncd.driver")
    git(shell.cwd, "config", "merge.memsyncd.driver", "another")
    shell.do("memsyncd init --merge-driver")
    assert "merge-driver %O %A %B %P" in git(shell.cwd, "config", "merge.memsyncd.driver")


def test_init_lets_git_merge_all_notes_of_a_vault(shell: ShellSession) -> None:
    (shell.cwd / ".obsidian").mkdir()
    (shell.cwd / "Plan.md").write_text("# Plan\n")
    git(shell.cwd, "add", "Plan.md")
    shell.do("memsyncd start .")
    try:
        assert f"memsyncd init --merge-driver {shell.cwd}" in shell.do("memsyncd doctor").stdout
        for _ in range(2):
            assert shell.do("memsyncd init --merge-driver").returncode == 0
            lines = (shell.cwd / ".gitattributes").read_text().splitlines()
            assert lines == [*DRIVER_LINES, *VAULT_LINES]
        assert not find_missing(str(shell.cwd), is_vault=True)
        assert not (shell.cwd / "MEMORY.md").exists()
        assert not (shell.cwd / ".memories").exists()
    finally:
        shell.do("memsyncd stop")


def test_init_refuses_a_driver_where_there_is_no_repository(shell: ShellSession) -> None:
    folder = shell.cwd.parent / "elsewhere"
    for words in (
        f"memsyncd init --merge-driver {folder}",
        f"memsyncd init --user --merge-driver {folder}",
    ):
        done = shell.do(words)
        assert done.returncode == 2
        assert "is in no repository of git" in done.stderr
    assert not list(folder.iterdir())
    git(folder, "init", "-q")
    shell.do(f"memsyncd init --user --merge-driver {folder}")
    assert (folder / ".gitattributes").read_text().splitlines() == list(DRIVER_LINES)


@pytest.mark.parametrize(("typed", "is_written"), [("y\n", True), ("\n", False), ("no\n", False)])
def test_init_asks_on_a_terminal(shell: ShellSession, typed: str, *, is_written: bool) -> None:
    screen = shell.show("memsyncd init", types=typed)
    assert "[y/N]" in screen
    assert (shell.cwd / ".gitattributes").exists() == is_written


def test_doctor_names_a_repository_that_would_not_merge(shell: ShellSession) -> None:
    shell.do("memsyncd init")
    shell.do("memsyncd start .")
    try:
        assert "git_merges" not in shell.do("memsyncd doctor --json").stdout
        commit(shell.cwd)
        report = shell.do("memsyncd doctor --json").stdout
        assert "git_merges" in report
        assert f"memsyncd init --merge-driver {shell.cwd}" in report
        shell.do("memsyncd init --merge-driver")
        assert not find_missing(str(shell.cwd))
    finally:
        shell.do("memsyncd stop")
