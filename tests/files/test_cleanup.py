"""Temporary files of a killed process are removed, or restored if another program wrote them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsyncd.core.paths import NotePath, is_conflict_copy
from memsyncd.files.write import remove_temporary_files
from tests.files.conftest import parse_scope

LEFT = ".memsyncd-0123456789abcdef.tmp"
KNOWN = [b"x"]


def test_temporary_files_here_and_above_are_removed_and_nothing_else(root: Path) -> None:
    for path in (
        LEFT,
        f".memories/{LEFT}",
        f".memories/a/{LEFT}",
        f".memories/b/{LEFT}",
        ".memories/a/.other.tmp",
    ):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text("x")
    aside = root / ".memories" / LEFT.replace("0", "f")
    (aside / "b/c").mkdir(parents=True)
    (aside / "b/c/d.md").write_text("x")
    remove_temporary_files(parse_scope(str(root)), NotePath(".memories/a/n.md"), KNOWN)
    left = sorted(str(place.relative_to(root)) for place in root.rglob("*"))
    assert left == [
        ".memories",
        ".memories/a",
        ".memories/a/.other.tmp",
        ".memories/b",
        f".memories/b/{LEFT}",
    ]


def test_temporary_files_above_a_missing_folder_are_removed(root: Path) -> None:
    (root / ".memories" / LEFT).write_text("x")
    (root / LEFT).write_text("x")
    remove_temporary_files(parse_scope(str(root)), NotePath(".memories/gone/too/n.md"), KNOWN)
    assert os.listdir(root) == [".memories"]
    assert os.listdir(root / ".memories") == []
    remove_temporary_files(parse_scope(str(root.parent / "gone")), NotePath("MEMORY.md"), KNOWN)


def test_temporary_files_behind_a_link_out_of_the_workspace_are_left_alone(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LEFT).write_text("x")
    (root / ".memories/link").symlink_to(tmp_path / "out")
    for scope in (
        parse_scope(str(root)),
        parse_scope(str(root), allow_links_to=[str(tmp_path / "out")]),
    ):
        remove_temporary_files(scope, NotePath(".memories/link/n.md"), KNOWN)
    assert (tmp_path / "out" / LEFT).exists()


def test_a_save_just_before_the_kill_gets_its_name_back_or_one_beside_it(root: Path) -> None:
    scope, note = parse_scope(str(root)), NotePath(".memories/a.md")
    (root / f".memories/{LEFT}").write_text("theirs")
    remove_temporary_files(scope, note, [b"old", b"new"])
    (root / f".memories/{LEFT}").write_text("theirs, too")
    (root / f".memories/{LEFT.replace('0', 'f')}").write_text("ne")
    remove_temporary_files(scope, note, [b"old", b"new"])
    texts = {
        is_conflict_copy(place.name): place.read_text() for place in (root / ".memories").iterdir()
    }
    assert texts == {False: "theirs", True: "theirs, too"}
    assert (root / note.text).read_text() == "theirs"


def test_a_save_just_before_the_kill_is_only_recorded_if_a_newer_file_has_its_name(
    root: Path,
) -> None:
    recorded = []

    def keep(data: bytes) -> bool:
        recorded.append(data)
        return True

    (root / f".memories/{LEFT}").write_text("theirs")
    (root / ".memories/a.md").write_text("newer")
    note = NotePath(".memories/a.md")
    remove_temporary_files(parse_scope(str(root)), note, [b"old", b"new"], keep=keep)
    assert recorded == [b"theirs"]
    assert os.listdir(root / ".memories") == ["a.md"]
    assert (root / note.text).read_text() == "newer"


@pytest.mark.usefixtures("exchanging")
def test_a_save_that_the_killed_process_displaced_takes_the_place_of_the_new_text(
    root: Path,
) -> None:
    (root / f".memories/{LEFT}").write_text("theirs")
    (root / ".memories/a.md").write_text("new")
    note = NotePath(".memories/a.md")
    remove_temporary_files(parse_scope(str(root)), note, [b"old", b"new"], put=b"new")
    assert os.listdir(root / ".memories") == ["a.md"]
    assert (root / note.text).read_text() == "theirs"


def test_a_folder_with_an_unknown_file_gets_its_name_back(root: Path) -> None:
    aside = root / ".memories" / LEFT
    for path, text in (("b/old.md", "old"), ("b/c/new.md", "theirs")):
        (aside / path).parent.mkdir(parents=True, exist_ok=True)
        (aside / path).write_text(text)
    remove_temporary_files(parse_scope(str(root)), NotePath(".memories/a/b/old.md"), [b"old"])
    assert (root / ".memories/a/b/c/new.md").read_text() == "theirs"
    assert not aside.exists()
