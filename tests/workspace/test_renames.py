from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsyncd.workspace import renames
from memsyncd.workspace.renames import NotPossibleError, choose_rename, exchange, rename_to_free


@pytest.fixture
def fd(root: Path) -> Iterator[int]:
    opened = os.open(root, os.O_RDONLY)
    yield opened
    os.close(opened)


def refuse_with(code: int) -> renames.RenameAt:
    """A rename as on a file system that knows no flags."""

    def rename_at(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return rename_at


@pytest.fixture(params=["best", "no call", "no flag", "no links"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "no call":
        monkeypatch.setattr(renames, "choose_rename", lambda: None)
    elif request.param != "best":
        monkeypatch.setattr(renames, "choose_rename", lambda: refuse_with(errno.EINVAL))
    if request.param == "no links":

        def refuse_link(*_: object, **__: object) -> None:
            raise PermissionError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse_link)
    return str(request.param)


@pytest.mark.usefixtures("system")
def test_a_free_name_is_taken_by_files_and_folders(root: Path, fd: int) -> None:
    (root / "a").write_text("a")
    (root / "folder").mkdir()
    (root / "folder/x").write_text("x")
    rename_to_free(fd, "a", fd, "b")
    rename_to_free(fd, "folder", fd, "other")
    assert sorted(os.listdir(root)) == [".memories", "b", "other"]
    assert (root / "other/x").read_text() == "x"


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("old", ["file", "folder"])
def test_a_name_that_something_has_is_never_taken(root: Path, fd: int, old: str) -> None:
    (root / "file").write_text("a")
    (root / "folder").mkdir()
    (root / "taken").write_text("b")
    (root / "empty").mkdir()
    (root / "link").symlink_to("nowhere")
    for new in ("taken", "empty", "link"):
        with pytest.raises(FileExistsError):
            rename_to_free(fd, old, fd, new)
    assert (root / "taken").read_text() == "b"
    assert (root / "link").is_symlink()
    assert sorted(os.listdir(root)) == [".memories", "empty", "file", "folder", "link", "taken"]


@pytest.mark.usefixtures("system")
def test_what_is_not_there_cannot_be_renamed(fd: int) -> None:
    with pytest.raises(FileNotFoundError):
        rename_to_free(fd, "gone", fd, "b")


def test_two_names_change_places(root: Path, fd: int) -> None:
    if choose_rename() is None:
        pytest.skip("this system cannot exchange names")
    (root / "a").write_text("a")
    (root / "b").mkdir()
    exchange(fd, "a", "b")
    assert (root / "b").read_text() == "a"
    assert (root / "a").is_dir()
    with pytest.raises(FileNotFoundError):
        exchange(fd, "a", "gone")


def test_where_names_cannot_be_exchanged_in_one_step_it_is_said(
    root: Path, fd: int, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("a")
    (root / "b").write_text("b")
    if system != "best":
        with pytest.raises(NotPossibleError):
            exchange(fd, "a", "b")
        assert (root / "a").read_text() == "a"
    monkeypatch.setattr(renames, "choose_rename", lambda: refuse_with(errno.EROFS))
    for rename in (lambda: exchange(fd, "a", "b"), lambda: rename_to_free(fd, "a", fd, "c")):
        with pytest.raises(OSError, match="Read-only"):
            rename()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have their own")
def test_linux_renames_with_flags() -> None:
    choose_rename.cache_clear()
    assert choose_rename() is not None


def test_a_link_that_cannot_be_made_a_rename_leaves_one_name(root: Path, fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").write_text("a")
    monkeypatch.setattr(renames, "choose_rename", lambda: None)
    real = os.unlink

    def refuse_old(path: str, *, dir_fd: int) -> None:
        if path == "a":
            raise PermissionError(errno.EPERM, "not yours")
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse_old)
    with pytest.raises(PermissionError):
        rename_to_free(fd, "a", fd, "b")
    assert sorted(os.listdir(root)) == [".memories", "a"]
