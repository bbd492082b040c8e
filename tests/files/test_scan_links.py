from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsyncd.core.changes.diff import Snapshot
from memsyncd.core.paths import parse_note_path
from memsyncd.files.read import ReadFile, read_note_file
from memsyncd.files.scan import scan
from memsyncd.files.scope import Scope
from tests.files.conftest import parse_scope


def write(place: Path, text: str = "x") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def link(place: Path, target: str | Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def find_codes(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in snapshot.problems]


def read_all(scope: Scope, snapshot: Snapshot) -> dict[str, bytes]:
    files = {
        path: read_note_file(scope, parse_note_path(path), now_ns=0) for path in snapshot.files
    }
    return {path: file.data for path, file in files.items() if isinstance(file, ReadFile)}


def test_a_link_to_a_file_of_the_workspace_is_followed_and_read(root: Path) -> None:
    write(root / "docs/real.md", "text")
    link(root / ".memories/link.md", "../docs/real.md")
    scope = parse_scope(str(root))
    snapshot = scan(scope)
    assert read_all(scope, snapshot) == {".memories/link.md": b"text"}
    assert snapshot.files[".memories/link.md"].inode == (root / "docs/real.md").stat().st_ino
    assert snapshot.link_folders == {str(root / "docs")}


def test_the_folder_of_a_broken_links_target_is_watched_unless_it_is_outside(root: Path) -> None:
    link(root / ".memories/note.md", "../docs/deep/real.md")
    link(root / ".memories/folder", "../more/folder")
    link(root / ".memories/out.md", "../../outside/real.md")
    snapshot = scan(parse_scope(str(root)))
    assert snapshot.link_folders == {str(root / "docs/deep"), str(root / "more")}
    assert {problem.path for problem in snapshot.problems} == {
        ".memories/note.md",
        ".memories/out.md",
    }


def test_a_link_to_a_note_with_its_own_path_is_skipped(root: Path) -> None:
    write(root / ".memories/real.md")
    link(root / "MEMORY.md", ".memories/real.md")
    link(root / ".memories/again.md", "real.md")
    snapshot = scan(parse_scope(str(root)))
    assert list(snapshot.files) == [".memories/real.md"]
    assert not snapshot.problems


def test_the_target_of_several_links_is_added_once_under_the_first_of_them(root: Path) -> None:
    write(root / "docs/sub/real.md")
    link(root / ".memories/c.md", "../docs/sub/real.md")
    link(root / ".memories/b", "../docs")
    link(root / ".memories/a", "../docs/sub")
    assert list(scan(parse_scope(str(root))).files) == [".memories/a/real.md"]


def test_a_link_to_a_folder_is_walked_and_its_folders_are_watched(root: Path) -> None:
    write(root / "notes/a.md", "a")
    write(root / "notes/deep/b.md", "b")
    write(root / "notes/.hidden/c.md")
    link(root / ".memories/shared", "../notes")
    scope = parse_scope(str(root))
    snapshot = scan(scope)
    assert read_all(scope, snapshot) == {
        ".memories/shared/a.md": b"a",
        ".memories/shared/deep/b.md": b"b",
    }
    assert snapshot.link_folders == {str(root / "notes"), str(root / "notes/deep")}


def test_memories_itself_may_be_a_link_within_the_workspace(root: Path) -> None:
    (root / ".memories").rmdir()
    write(root / "docs/memory/a.md", "a")
    link(root / ".memories", "docs/memory")
    scope = parse_scope(str(root))
    assert read_all(scope, scan(scope)) == {".memories/a.md": b"a"}


def test_links_out_of_the_workspace_are_reported_without_their_targets(
    root: Path, tmp_path: Path
) -> None:
    write(tmp_path / "secret/key.md")
    link(root / "MEMORY.md", tmp_path / "secret/key.md")
    link(root / ".memories/folder", tmp_path / "secret")
    link(root / ".memories/passwd.md", "/etc/passwd")
    link(root / "docs", tmp_path / "secret")
    snapshot = scan(parse_scope(str(root), include=["docs/*.md"]))
    assert not snapshot.files
    paths = [".memories/folder", ".memories/passwd.md", "MEMORY.md", "docs"]
    assert find_codes(snapshot) == [(path, "link_outside") for path in paths]
    assert "secret" not in repr(snapshot.problems)


def test_a_link_to_a_sibling_whose_name_begins_like_the_roots_leads_out(root: Path) -> None:
    write(root.parent / "workspace-other/a.md")
    link(root / ".memories/a.md", root.parent / "workspace-other/a.md")
    assert find_codes(scan(parse_scope(str(root)))) == [(".memories/a.md", "link_outside")]


def test_a_folder_that_the_owner_allows_may_be_linked_to(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "shared/team/a.md", "team")
    write(tmp_path / "shared/one.md", "one")
    link(root / ".memories/team", tmp_path / "shared/team")
    link(root / ".memories/one.md", tmp_path / "shared/one.md")
    scope = parse_scope(str(root), allow_links_to=[str(tmp_path / "shared")])
    snapshot = scan(scope)
    assert read_all(scope, snapshot) == {".memories/team/a.md": b"team", ".memories/one.md": b"one"}
    assert not snapshot.problems


def test_a_link_within_a_followed_folder_obeys_the_same_rules(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "out.md")
    write(root / "else/where.md")
    link(root / "docs/out.md", tmp_path / "out.md")
    link(root / "docs/in", "../else")
    link(root / ".memories/docs", "../docs")
    snapshot = scan(parse_scope(str(root)))
    assert list(snapshot.files) == [".memories/docs/in/where.md"]
    assert find_codes(snapshot) == [(".memories/docs/out.md", "link_outside")]


@pytest.mark.parametrize("target", [".", "..", "../.memories", "self.md"])
def test_a_link_to_itself_or_to_a_folder_above_it_is_a_loop(root: Path, target: str) -> None:
    write(root / ".memories/a.md")
    link(root / ".memories/self.md", target)
    snapshot = scan(parse_scope(str(root)))
    assert list(snapshot.files) == [".memories/a.md"]
    assert find_codes(snapshot) == [(".memories/self.md", "link_loop")]


def test_two_folders_that_link_to_each_other_are_walked_once(root: Path) -> None:
    write(root / "x/a.md")
    write(root / "y/b.md")
    link(root / "x/to_y", "../y")
    link(root / "y/to_x", "../x")
    link(root / ".memories/x", "../x")
    assert sorted(scan(parse_scope(str(root))).files) == [
        ".memories/x/a.md",
        ".memories/x/to_y/b.md",
    ]


def test_a_broken_link_is_reported_if_its_name_is_a_notes(root: Path) -> None:
    link(root / ".memories/gone.md", "nowhere.md")
    link(root / ".memories/gone", "nowhere")
    link(root / ".memories/.#a.md", "user@host.1:2")
    assert find_codes(scan(parse_scope(str(root)))) == [(".memories/gone.md", "link_broken")]


def test_a_link_to_a_fifo_is_reported(root: Path) -> None:
    os.mkfifo(root / "fifo")
    link(root / ".memories/a.md", "../fifo")
    assert find_codes(scan(parse_scope(str(root)))) == [(".memories/a.md", "not_a_file")]


def test_a_restricted_scan_that_meets_a_link_becomes_a_full_scan(root: Path) -> None:
    write(root / "docs/real.md")
    write(root / "MEMORY.md")
    link(root / ".memories/a.md", "../docs/real.md")
    link(root / ".memories/b.md", "../docs/real.md")
    link(root / ".memories/folder", "../docs")
    scope = parse_scope(str(root))
    for only in (".memories/b.md", ".memories/folder/real.md", ".memories/folder"):
        snapshot = scan(scope, [only])
        assert snapshot.only is None
        assert snapshot.files == scan(scope).files
    assert scan(scope, ["MEMORY.md"]).only == frozenset({"MEMORY.md"})


def test_a_hard_link_is_a_note_of_its_own(root: Path) -> None:
    os.link(write(root / ".memories/a.md"), root / ".memories/b.md")
    assert sorted(scan(parse_scope(str(root))).files) == [".memories/a.md", ".memories/b.md"]
