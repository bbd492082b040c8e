"""Scans of whole folders of notes, compared with git and with a plain walk."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memsyncd.core.changes.diff import KnownStats, Snapshot, hash_stat
from memsyncd.core.paths import is_note_name, is_pruned_path
from memsyncd.files.scan import WorkspaceRules, count_notes, scan
from tests.files.conftest import parse_scope
from tests.files.test_scan import write


def find(root: Path, *include: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return sorted(scan(parse_scope(str(root), include=include or ("**",), exclude=exclude)).files)


# --- what is left out -----------------------------------------------------------------------------


def test_a_whole_folder_has_every_note_beneath_it(root: Path) -> None:
    notes = ["MEMORY.md", ".memories/x.md", "a.md", "b/c.markdown", "b/d/e.txt", "target/f.md"]
    for path in (*notes, "b/image.png", ".obsidian/g.md", "b/.trash/h.md"):
        write(root, path)
    snapshot = scan(parse_scope(str(root), include=["**"]))
    assert sorted(snapshot.files) == sorted(notes)
    assert not snapshot.problems


def test_packages_virtual_environments_caches_and_build_output_are_left_out(root: Path) -> None:
    for path in (
        "a.md",
        "node_modules/b.md",
        "x/node_modules/y/c.md",
        "env/pyvenv.cfg",
        "env/lib/d.md",
        "cache/CACHEDIR.TAG",
        "cache/e.md",
        "web/package.json",
        "web/dist/f.md",
        "web/g.md",
        "dist/h.md",
    ):
        write(root, path)
    assert find(root) == ["a.md", "dist/h.md", "web/g.md"]


def test_a_virtual_environment_that_was_added_itself_is_not_left_out(root: Path) -> None:
    write(root, "pyvenv.cfg")
    write(root, "a.md")
    assert find(root) == ["a.md"]


def test_memory_and_named_includes_are_found_though_git_ignores_them(root: Path) -> None:
    write(root, ".gitignore", "*.md\n.memories\n!kept.md\n")
    for path in ("MEMORY.md", ".memories/a.md", "CLAUDE.local.md", "docs/b.md", "kept.md", "c.md"):
        write(root, path)
    include = ("**", "CLAUDE.local.md", "docs/**/*.md")
    assert find(root, *include) == [
        ".memories/a.md",
        "CLAUDE.local.md",
        "MEMORY.md",
        "docs/b.md",
        "kept.md",
    ]


def test_globs_with_a_wildcard_over_folders_select_as_they_are_written(root: Path) -> None:
    for path in ("README.md", "a/README.md", "a/b/README.md", "a/b/c.md", "notes/x.txt"):
        write(root, path)
    assert find(root, "**/README.md") == ["README.md", "a/README.md", "a/b/README.md"]
    assert find(root, "*/README.md") == ["a/README.md"]
    assert find(root, "**/*.txt", exclude=("notes",)) == []


def test_ignore_files_begin_anew_in_another_repository(root: Path) -> None:
    write(root, ".gitignore", "drafts/\n")
    for path in ("drafts/a.md", "sub/drafts/b.md", "sub/c.md"):
        write(root, path)
    assert find(root) == ["sub/c.md"]
    write(root, "sub/.git", "gitdir: ../.git/modules/sub\n")
    assert find(root) == ["sub/c.md", "sub/drafts/b.md"]


def test_an_ignore_file_that_cannot_be_read_any_more_keeps_its_rules(root: Path) -> None:
    ignore = write(root, ".gitignore", "a.md\n")
    write(root, "a.md")
    write(root, "b.md")
    scope, ignore_rules = parse_scope(str(root), include=["**"]), WorkspaceRules()
    assert sorted(scan(scope, ignore_rules=ignore_rules).files) == ["b.md"]
    ignore.unlink()
    ignore.mkdir()
    assert sorted(scan(scope, ignore_rules=ignore_rules).files) == ["b.md"]
    ignore.rmdir()
    assert sorted(scan(scope, ignore_rules=ignore_rules).files) == ["a.md", "b.md"]


def test_a_link_into_the_whole_folder_finds_no_note_twice(root: Path) -> None:
    write(root, "a/b.md")
    (root / "link").symlink_to(root / "a")
    (root / "c.md").symlink_to(root / "a/b.md")
    assert find(root) == ["a/b.md"]


def test_pruned_folders_are_named_once_and_without_those_whose_name_says_it(root: Path) -> None:
    for path in ("env/pyvenv.cfg", "env/a/b.md", "ignored/c/d.md", "node_modules/e.md"):
        write(root, path)
    write(root, ".gitignore", "ignored/\n")
    snapshot = scan(parse_scope(str(root), include=["**"]))
    assert snapshot.pruned_folders == {"env", "ignored"}


# --- scans of a part, and with known notes --------------------------------------------------------


def hash_stats(root: Path, paths: Collection[str]) -> KnownStats:
    stats = {path: os.lstat(root / path) for path in paths}
    return KnownStats(
        (path, hash_stat((stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)))
        for path, stat in stats.items()
    )


def all_of(snapshot: Snapshot, known: Collection[str]) -> list[str]:
    return sorted({*snapshot.files, *known} - (set(snapshot.not_skipped) - snapshot.files.keys()))


@pytest.mark.parametrize(
    ("path", "is_found"),
    [
        ("a/b.md", True),
        ("ignored/b.md", False),
        ("env/lib/b.md", False),
        ("web/dist/b.md", False),
        ("a/node_modules/b.md", False),
        ("a/draft.md", False),
        ("a/kept/draft.md", True),
    ],
)
def test_a_scan_of_one_note_agrees_with_one_of_everything(
    root: Path, path: str, is_found: bool
) -> None:
    write(root, ".gitignore", "ignored/\ndraft.md\n")
    write(root, "a/kept/.gitignore", "!draft.md\n")
    write(root, "env/pyvenv.cfg")
    write(root, "web/package.json")
    write(root, path)
    scope = parse_scope(str(root), include=["**"])
    assert (path in scan(scope).files) == is_found
    assert (path in scan(scope, [path]).files) == is_found


def test_known_notes_are_matched_again_when_a_rule_changes(root: Path) -> None:
    paths = ["a/b.md", "a/c.md", "d.md"]
    for path in paths:
        write(root, path)
    scope, ignore_rules = parse_scope(str(root), include=["**"]), WorkspaceRules()
    stats = hash_stats(root, paths)
    for text, expected in (
        ("", paths),
        ("c.md\n", ["a/b.md", "d.md"]),
        # The index forgets a note only after its grace; until then the note is known.
        ("c.md\n", ["a/b.md", "d.md"]),
        ("", paths),
        ("a/\n", ["d.md"]),
        ("a/\n", ["d.md"]),
        ("a/*\n!b.md\n", ["a/b.md", "d.md"]),
    ):
        write(root, ".gitignore", text)
        assert all_of(scan(scope, known=stats, ignore_rules=ignore_rules), stats) == expected
    write(root, "a/.gitignore", "*\n")
    assert all_of(scan(scope, known=stats, ignore_rules=ignore_rules), stats) == ["d.md"]


def test_a_count_is_complete_or_ends_at_its_limit(root: Path) -> None:
    for number in range(20):
        write(root, f"{number}/a.md")
    scope = parse_scope(str(root), include=["**"])
    assert (count_notes(scope, limit_s=60).n_notes, count_notes(scope, limit_s=60).is_complete) == (
        20,
        True,
    )
    assert not count_notes(scope, limit_s=0).is_complete


# --- git as the reference -------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "docs", "x.md", "y.md", "kept.md", "note é.md"])
FILES = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
RULES = st.sampled_from(
    [
        "*",
        "!*/",
        "*.md",
        "!kept.md",
        "!*.md",
        "docs/",
        "/docs",
        "docs/*",
        "!docs/kept.md",
        "a/b",
        "a/**",
        "**/b",
        "a/**/x.md",
        "/*",
        "!/a",
        "[xy].md",
        "?.md",
        "[!x].md",
        "# comment",
        "",
        "b/ ",
        "\\!x.md",
        "\\x.md",
        "\\*.md",
        "note*",
        "!note é.md",
        "a*/",
        "**",
        "**/",
        "!**/b/",
        "*/x.md",
    ]
)
IGNORES = st.dictionaries(
    st.sampled_from(["", "a/", "docs/", "a/b/"]),
    st.lists(RULES, max_size=5).map("\n".join),
    max_size=3,
)


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        yield root


def fill(root: Path, files: list[str], ignores: dict[str, str]) -> None:
    for entry in root.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for path in files:
        # Some names are a file in one place and a folder in another.
        try:
            write(root, path)
        except OSError:
            continue
    for folder, text in ignores.items():
        if (root / folder).is_dir():
            write(root, f"{folder}.gitignore", text)


def list_as_git(root: Path) -> list[str]:
    command = ["git", "-C", str(root), "-c", "core.excludesFile=/dev/null", "ls-files"]
    command += ["-z", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    paths = [path for path in listed.split("\0") if path]
    return sorted(
        path for path in paths if is_note_name(path.rpartition("/")[2]) and not is_pruned_path(path)
    )


SOME_FILES = ["x.md", "kept.md", "a/x.md", "a/kept.md", "a/b/y.md", "docs/x.md", "docs/kept.md"]


@pytest.mark.needs("git")
@settings(max_examples=150)
@given(files=st.lists(FILES, max_size=10), ignores=IGNORES)
# Patterns as people write them: all but some notes; a folder but a note in it; a folder's name.
@example(files=SOME_FILES, ignores={"": "*\n!*/\n!kept.md"})
@example(files=SOME_FILES, ignores={"": "x.md/\nkept.md/"})
@example(files=SOME_FILES, ignores={"": "docs/*\n!docs/kept.md\n/a/b"})
@example(files=SOME_FILES, ignores={"": "/*\n!/a\n/a/*\n!/a/b"})
@example(files=SOME_FILES, ignores={"": "docs/", "docs/": "!x.md", "a/": "*\n!b/\n!kept.md"})
def test_a_scan_finds_the_notes_that_git_would_add(
    repository: Path, files: list[str], ignores: dict[str, str]
) -> None:
    fill(repository, files, ignores)
    expected = list_as_git(repository)
    assert find(repository) == expected
    scope = parse_scope(str(repository), include=["**"])
    every = [path for path in files if is_note_name(path.rpartition("/")[2])]
    for path in every:
        assert sorted(scan(scope, [path]).files) == [
            note for note in expected if f"{note}/".startswith(f"{path}/")
        ]


@given(files=st.lists(FILES, max_size=10), ignores=st.lists(IGNORES, min_size=1, max_size=4))
@settings(max_examples=60)
@pytest.mark.needs("git")
def test_scans_with_known_notes_find_what_a_first_scan_finds(
    repository: Path, files: list[str], ignores: list[dict[str, str]]
) -> None:
    scope, ignore_rules = parse_scope(str(repository), include=["**"]), WorkspaceRules()
    stats = KnownStats()
    for rules in ignores:
        for path in repository.rglob(".gitignore"):
            path.unlink()
        fill(repository, files, rules)
        first = sorted(scan(scope).files)
        for _ in range(2):
            assert all_of(scan(scope, known=stats, ignore_rules=ignore_rules), stats) == first
            stats.update(hash_stats(repository, first))
            for path in [path for path in stats if not (repository / path).is_file()]:
                del stats[path]
