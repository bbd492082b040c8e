from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsyncd.core.paths import is_note_name
from memsyncd.files import write
from memsyncd.files.scan import scan
from memsyncd.files.write import (
    ExchangeUnsupportedError,
    OpenFolder,
    choose_rename,
    create_folder,
    exchange,
    is_temporary,
    make_temporary_name,
    open_folder,
    rename_noreplace,
    write_temporary,
)
from tests.files.conftest import parse_scope

# --- temporary files ----------------------------------------------------------------------------

LEFT = ".memsyncd-0123456789abcdef.tmp"


@pytest.fixture
def folder(root: Path) -> Iterator[OpenFolder]:
    with open_folder(str(root), ".memories") as opened:
        yield opened


def test_a_temporary_name_is_unique_and_hidden_and_no_note_has_it() -> None:
    names = {make_temporary_name() for _ in range(100)}
    assert len(names) == 100
    assert all(
        is_temporary(name) and name.startswith(".") and not is_note_name(name) for name in names
    )
    assert not any(
        is_temporary(name)
        for name in (".memsyncd-1.tmp", "a.md", f"{LEFT}x", f"x{LEFT}", ".memsyncd-x.tmp")
    )


def test_a_scan_reports_no_temporary_file(root: Path, folder: OpenFolder) -> None:
    with write_temporary(folder.fd, b"x", like_fd=None) as temporary:
        snapshot = scan(parse_scope(str(root)))
        assert os.listdir(root / ".memories") == [temporary.name]
    assert (dict(snapshot.files), snapshot.problems) == ({}, ())


def test_a_temporary_file_is_removed_at_the_end_unless_it_was_renamed(
    root: Path, folder: OpenFolder
) -> None:
    with write_temporary(folder.fd, b"x", like_fd=None) as temporary:
        (root / ".memories" / temporary.name).rename(root / "kept")
        (root / ".memories" / temporary.name).write_text("of another program")
    assert (root / "kept").read_bytes() == b"x"
    assert (root / ".memories" / temporary.name).read_text() == "of another program"
    with pytest.raises(RuntimeError), write_temporary(folder.fd, b"x", like_fd=None):  # noqa: PT012
        assert len(os.listdir(root / ".memories")) == 2
        raise RuntimeError
    assert len(os.listdir(root / ".memories")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the owner of a file")
def test_a_temporary_file_has_the_owner_and_mode_of_the_old_file(
    root: Path, folder: OpenFolder
) -> None:
    (root / "old").write_text("x")
    (root / "old").chmod(0o640)
    os.chown(root / "old", 1234, 4321)
    fd = os.open(root / "old", os.O_RDONLY)
    with write_temporary(folder.fd, b"y", like_fd=fd) as temporary:
        stat = os.fstat(temporary.fd)
    os.close(fd)
    assert (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777) == (1234, 4321, 0o640)


# --- renames ------------------------------------------------------------------------------------


@pytest.fixture
def fd(root: Path) -> Iterator[int]:
    opened = os.open(root, os.O_RDONLY)
    yield opened
    os.close(opened)


def refuse_with(code: int) -> write.RenameAt:
    """Return a rename that fails as on a file system without rename flags."""

    def rename_at(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return rename_at


@pytest.fixture(params=["best", "no call", "no flag", "no links"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "no call":
        monkeypatch.setattr(write, "choose_rename", lambda: None)
    elif request.param != "best":
        monkeypatch.setattr(write, "choose_rename", lambda: refuse_with(errno.EINVAL))
    if request.param == "no links":

        def refuse_link(*_: object, **__: object) -> None:
            raise PermissionError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse_link)
    return str(request.param)


@pytest.mark.usefixtures("system")
def test_files_and_folders_are_renamed_to_a_free_name(root: Path, fd: int) -> None:
    (root / "a").write_text("a")
    (root / "folder").mkdir()
    (root / "folder/x").write_text("x")
    rename_noreplace(fd, "a", fd, "b")
    rename_noreplace(fd, "folder", fd, "other")
    assert sorted(os.listdir(root)) == [".memories", "b", "other"]
    assert (root / "other/x").read_text() == "x"


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("old", ["file", "folder"])
def test_a_rename_never_replaces_anything(root: Path, fd: int, old: str) -> None:
    (root / "file").write_text("a")
    (root / "folder").mkdir()
    (root / "taken").write_text("b")
    (root / "empty").mkdir()
    (root / "link").symlink_to("nowhere")
    for new in ("taken", "empty", "link"):
        with pytest.raises(FileExistsError):
            rename_noreplace(fd, old, fd, new)
    assert (root / "taken").read_text() == "b"
    assert (root / "link").is_symlink()
    assert sorted(os.listdir(root)) == [".memories", "empty", "file", "folder", "link", "taken"]


def test_two_names_are_exchanged(root: Path, fd: int) -> None:
    if choose_rename() is None:
        pytest.skip("this system cannot exchange names")
    (root / "a").write_text("a")
    (root / "b").mkdir()
    exchange(fd, "a", "b")
    assert (root / "b").read_text() == "a"
    assert (root / "a").is_dir()
    with pytest.raises(FileNotFoundError):
        exchange(fd, "a", "gone")


def test_an_unsupported_exchange_and_other_errors_are_raised(
    root: Path, fd: int, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("a")
    (root / "b").write_text("b")
    if system != "best":
        with pytest.raises(ExchangeUnsupportedError):
            exchange(fd, "a", "b")
        assert (root / "a").read_text() == "a"
    monkeypatch.setattr(write, "choose_rename", lambda: refuse_with(errno.EROFS))
    for rename in (lambda: exchange(fd, "a", "b"), lambda: rename_noreplace(fd, "a", fd, "c")):
        with pytest.raises(OSError, match="Read-only"):
            rename()


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is a call of Linux")
def test_linux_renames_with_flags() -> None:
    choose_rename.cache_clear()
    assert choose_rename() is not None


def test_a_rename_by_link_that_cannot_remove_the_old_name_leaves_one_name(
    root: Path, fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("a")
    monkeypatch.setattr(write, "choose_rename", lambda: None)
    real = os.unlink

    def refuse_old(path: str, *, dir_fd: int) -> None:
        if path == "a":
            raise PermissionError(errno.EPERM, "not yours")
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse_old)
    with pytest.raises(PermissionError):
        rename_noreplace(fd, "a", fd, "b")
    assert sorted(os.listdir(root)) == [".memories", "a"]


# --- open folders -------------------------------------------------------------------------------


def test_an_open_folder_is_in_place_until_it_or_one_above_is_moved_deleted_or_replaced(
    root: Path,
) -> None:
    (root / ".memories/a/b").mkdir(parents=True)
    with open_folder(str(root), ".memories/a/b") as folder:
        assert folder.is_in_place()
        (root / ".memories/a").rename(root / "away")
        assert not folder.is_in_place()
        (root / ".memories/a/b").mkdir(parents=True)
        assert not folder.is_in_place()
        os.rmdir(root / ".memories/a/b")
        (root / ".memories/a/b").symlink_to(root / "away/b")
        assert not folder.is_in_place()
    with open_folder(str(root), "") as folder:
        assert folder.is_in_place()
        root.rename(root.parent / "elsewhere")
        assert not folder.is_in_place()


def test_created_folders_are_removed_after_a_failure_except_those_that_others_use(
    root: Path,
) -> None:
    with pytest.raises(RuntimeError), create_folder(str(root), ".memories/a/b/c"):
        raise RuntimeError
    assert os.listdir(root / ".memories") == []
    with pytest.raises(RuntimeError), create_folder(str(root), ".memories/a/b/c"):  # noqa: PT012
        (root / ".memories/a/theirs.md").write_text("x")
        raise RuntimeError
    assert os.listdir(root / ".memories/a") == ["theirs.md"]
    with (
        pytest.raises(NotADirectoryError),
        create_folder(str(root), ".memories/a/new/../theirs.md"),
    ):
        pass


def test_a_link_in_the_place_of_a_folder_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (root / ".memories/a").symlink_to(tmp_path / "out")
    with (
        pytest.raises(OSError, match=r"Not a directory|symbolic"),
        create_folder(str(root), ".memories/a/b"),
    ):
        pass
    assert os.listdir(tmp_path / "out") == []
