from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsyncd.workspace.folders import hold_folder, hold_new_folder


def test_a_held_folder_is_in_place_until_it_or_one_above_is_moved_deleted_or_replaced(root: Path) -> None:
    (root / ".memories/a/b").mkdir(parents=True)
    with hold_folder(str(root), ".memories/a/b") as folder:
        assert folder.is_in_place()
        (root / ".memories/a").rename(root / "away")
        assert not folder.is_in_place()
        (root / ".memories/a/b").mkdir(parents=True)
        assert not folder.is_in_place()
        os.rmdir(root / ".memories/a/b")
        (root / ".memories/a/b").symlink_to(root / "away/b")
        assert not folder.is_in_place()
    with hold_folder(str(root), "") as folder:
        assert folder.is_in_place()
        root.rename(root.parent / "elsewhere")
        assert not folder.is_in_place()


def test_folders_that_were_made_for_nothing_are_taken_away_but_not_those_that_others_use(root: Path) -> None:
    with pytest.raises(RuntimeError), hold_new_folder(str(root), ".memories/a/b/c"):
        raise RuntimeError
    assert os.listdir(root / ".memories") == []
    with pytest.raises(RuntimeError), hold_new_folder(str(root), ".memories/a/b/c"):  # noqa: PT012
        (root / ".memories/a/theirs.md").write_text("x")
        raise RuntimeError
    assert os.listdir(root / ".memories/a") == ["theirs.md"]
    with pytest.raises(NotADirectoryError), hold_new_folder(str(root), ".memories/a/new/../theirs.md"):
        pass


def test_folders_that_were_there_stay(root: Path) -> None:
    (root / ".memories/a").mkdir()
    with pytest.raises(RuntimeError), hold_new_folder(str(root), ".memories/a/b"):
        raise RuntimeError
    assert os.listdir(root / ".memories") == ["a"]
    with hold_new_folder(str(root), ".memories/a/b") as folder:
        assert folder.is_in_place()
    assert (root / ".memories/a/b").is_dir()


def test_a_link_in_the_place_of_a_folder_is_not_gone_through(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (root / ".memories/a").symlink_to(tmp_path / "out")
    with pytest.raises(OSError, match=r"Not a directory|symbolic"), hold_new_folder(str(root), ".memories/a/b"):
        pass
    assert os.listdir(tmp_path / "out") == []
