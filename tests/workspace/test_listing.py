from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsyncd.core.notepath import NotePath
from memsyncd.errors import PathRefused, Unwritable
from memsyncd.workspace.listing import find_files, is_folder, list_folder
from memsyncd.workspace.scope import Scope, parse_scope


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def show(scope: Scope, path: str | None, *, depth: int = 2) -> list[tuple[str, int]]:
    found = list_folder(scope, None if path is None else NotePath(path), depth=depth)
    return [(one.path.text + "/" * one.is_folder, one.size_bytes) for one in found]


def find(scope: Scope, path: str | None) -> list[str]:
    return [one.text for one in find_files(scope, None if path is None else NotePath(path))]


def test_a_folder_shows_files_of_any_suffix_as_deep_as_asked_and_the_size_of_all_beneath(root: Path) -> None:
    write(root, ".memories/a.md", ".memories/b/c.xml", ".memories/b/d/e", ".memories/b/d/f/g.md", "MEMORY.md")
    scope = parse_scope(str(root))
    n_bytes = len(".memories/b/c.xml") + len(".memories/b/d/e") + len(".memories/b/d/f/g.md")
    assert show(scope, ".memories", depth=1) == [(".memories/a.md", 14), (".memories/b/", n_bytes)]
    assert [path for path, _ in show(scope, ".memories")] == [
        ".memories/a.md",
        ".memories/b/",
        ".memories/b/c.xml",
        ".memories/b/d/",
    ]
    assert [path for path, _ in show(scope, ".memories/b/d")] == [".memories/b/d/e", ".memories/b/d/f/", ".memories/b/d/f/g.md"]


def test_all_memory_is_memory_md_and_what_is_in_memories_but_the_memory_md_there(root: Path) -> None:
    write(root, ".memories/a.md", ".memories/MEMORY.md", "MEMORY.md", "README.md")
    scope = parse_scope(str(root))
    assert show(scope, None) == [(".memories/a.md", 14), ("MEMORY.md", 9)]
    assert find(scope, None) == [".memories/MEMORY.md", ".memories/a.md", "MEMORY.md"]


def test_what_is_hidden_excluded_special_or_has_no_name_in_utf8_is_not_shown(root: Path) -> None:
    write(root, ".memories/.git/x.md", ".memories/.x.md", ".memories/drafts/y.md", ".memories/node_modules/z/w.md")
    os.mkfifo(root / ".memories/fifo.md")
    Path(os.fsdecode(os.fsencode(root) + b"/.memories/\xff.md")).write_text("x")
    scope = parse_scope(str(root), exclude=["drafts"])
    assert show(scope, ".memories") == []
    assert find(scope, ".memories") == [".memories/node_modules/z/w.md"]


def test_links_are_shown_as_what_they_lead_to_where_they_may_lead_and_are_no_files_of_the_folder(
    root: Path, tmp_path: Path
) -> None:
    write(root, "docs/real.md", ".memories/sub/own.md")
    write(tmp_path, "out/secret.md", "shared/team.md")
    shared = os.path.realpath(tmp_path / "shared")
    for name, target in (
        ("docs", "../docs"),
        ("file.md", "../docs/real.md"),
        ("out", tmp_path / "out"),
        ("out.md", tmp_path / "out/secret.md"),
        ("team", shared),
        ("broken", "nowhere"),
        ("loop", "."),
        ("self", "self"),
    ):
        (root / ".memories" / name).symlink_to(target)
    scope = parse_scope(str(root), allow_links_to=[shared])
    shown = [path for path, _ in show(scope, ".memories", depth=9)]
    assert ".memories/docs/real.md" in shown
    assert ".memories/file.md" in shown
    assert ".memories/team/team.md" in shown
    assert not [path for path in shown if "secret" in path or "broken" in path or "out" in path or "self" in path]
    assert not [path for path in shown if path.startswith(".memories/loop")]
    assert find(scope, ".memories") == [".memories/sub/own.md"]


def test_a_folder_that_is_not_there_is_empty_and_one_that_leads_out_is_refused(root: Path) -> None:
    scope = parse_scope(str(root))
    (root / ".memories/etc").symlink_to("/etc")
    write(root, ".memories/file.md")
    for path in (".memories/gone", ".memories/file.md", ".memories/file.md/x"):
        assert show(scope, path) == []
        assert find(scope, path) == []
        assert not is_folder(scope, NotePath(path))
    for act in (is_folder, find_files):
        with pytest.raises(PathRefused):
            act(scope, NotePath(".memories/etc"))
    (root / ".memories").rename(root / "away")
    assert show(scope, None) == []


def test_a_folder_is_one_also_behind_a_link_within_the_workspace(root: Path) -> None:
    scope = parse_scope(str(root))
    write(root, "docs/a.md", ".memories/a.md")
    (root / ".memories/docs").symlink_to("../docs")
    os.mkfifo(root / ".memories/fifo")
    told = {name: is_folder(scope, NotePath(f".memories/{name}")) for name in ("docs", "a.md", "fifo", "gone")}
    assert told == {"docs": True, "a.md": False, "fifo": False, "gone": False}
    assert is_folder(scope, NotePath(".memories"))


def test_a_folder_that_cannot_be_listed_is_named_where_all_must_be_known_and_passed_over_where_some_are_shown(
    plain_root: Path,
) -> None:
    write(plain_root, ".memories/a/b.md", ".memories/c.md")
    (plain_root / ".memories/a").chmod(0)
    scope = parse_scope(str(plain_root))
    assert show(scope, ".memories") == [(".memories/a/", 0), (".memories/c.md", 14)]
    with pytest.raises(Unwritable, match=r"\.memories/a: "):
        find_files(scope, NotePath(".memories"))
    with pytest.raises(Unwritable):
        list_folder(scope, NotePath(".memories/a"), depth=1)


def test_a_workspace_that_is_away_is_not_an_empty_one(root: Path) -> None:
    scope = parse_scope(str(root))
    root.rename(root.parent / "away")
    with pytest.raises(Unwritable, match="not there"):
        list_folder(scope, None, depth=2)
    with pytest.raises(Unwritable):
        find_files(scope, None)
    with pytest.raises(Unwritable):
        is_folder(scope, NotePath(".memories"))
