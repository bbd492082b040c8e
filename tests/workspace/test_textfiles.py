from __future__ import annotations

import contextlib
import errno
import os
import socket
from pathlib import Path

import pytest

from memsyncd.core.digest import digest_bytes
from memsyncd.core.notepath import NotePath
from memsyncd.errors import MemsyncdError, PathRefused, TooLarge, Unwritable
from memsyncd.workspace import textfiles
from memsyncd.workspace.scan import scan
from memsyncd.workspace.scope import Scope, parse_scope
from memsyncd.workspace.textfiles import TextFile, read_text_file


def read(scope: Scope, path: str) -> TextFile | None:
    return read_text_file(scope, NotePath(path))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("data", [b"", b"\xff\x00\r\n", b"x" * 100])
def test_a_file_of_any_suffix_is_read_as_its_bytes(root: Path, data: bytes) -> None:
    scope = parse_scope(str(root), max_file_bytes=100)
    for path in (".memories/a.xml", ".memories/noext", "MEMORY.md", ".memories/b.md"):
        (root / path).write_bytes(data)
        file = read(scope, path)
        assert file is not None
        assert (file.path, file.data, file.digest) == (NotePath(path), data, digest_bytes(data))
    assert file.identity == scan(scope).files[".memories/b.md"]


def test_a_file_over_the_limit_is_refused(root: Path) -> None:
    with open(root / ".memories/a.md", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(TooLarge):
        read(parse_scope(str(root)), ".memories/a.md")


@pytest.mark.usefixtures("way")
def test_nothing_is_read_where_nothing_is(root: Path) -> None:
    (root / ".memories/a.md").write_text("x")
    for path in ("MEMORY.md", ".memories/gone/b.md", ".memories/a.md/b.md"):
        assert read(parse_scope(str(root)), path) is None


@pytest.mark.usefixtures("way")
def test_what_is_no_regular_file_is_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / ".memories/fifo")
    (root / ".memories/folder").mkdir()
    with contextlib.suppress(PermissionError):
        os.mknod(root / ".memories/device", 0o600 | 0o020000, os.makedev(1, 5))
    scope = parse_scope(str(root))
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(root / ".memories"):
        listener.bind("sock")
        for path in os.listdir(root / ".memories"):
            with pytest.raises(PathRefused, match="not a regular file"):
                read(scope, f".memories/{path}")
    with pytest.raises(PathRefused, match="not a regular file"):
        read(scope, ".memories")


@pytest.mark.parametrize("path", ["README.md", ".memoriesX/a.md", "MEMORY.md/a", "src/.memories/a.md"])
def test_what_is_no_memory_is_not_read(root: Path, path: str) -> None:
    with pytest.raises(PathRefused, match="no place of memory"):
        read(parse_scope(str(root)), path)


def test_what_is_included_is_read_and_what_is_excluded_is_not(root: Path) -> None:
    (root / "docs").mkdir()
    (root / "docs/a.md").write_text("x")
    scope = parse_scope(str(root), include=["docs/*.md"], exclude=["drafts"])
    assert read(scope, "docs/a.md") is not None
    for path in (".memories/drafts/a.md", ".memories/drafts"):
        with pytest.raises(PathRefused, match="excludes"):
            read(scope, path)


@pytest.mark.usefixtures("way")
def test_nothing_is_read_where_a_link_leads_out_or_to_what_is_hidden(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git/config").write_text("secret")
    for name, target in (
        ("out.md", "/etc/passwd"),
        ("etc", "/etc"),
        ("git", "../.git"),
        ("root", ".."),
        ("self", "self"),
        ("top.md", ".."),
    ):
        (root / ".memories" / name).symlink_to(target)
    for path in ("out.md", "etc/passwd", "git/config", "root/.git/config", "self", "self/x", "root"):
        with pytest.raises(PathRefused) as caught:
            read(parse_scope(str(root)), f".memories/{path}")
        assert "/etc/" not in caught.value.message.removesuffix(path)


def test_a_file_without_permission_is_named(plain_root: Path) -> None:
    (plain_root / "MEMORY.md").write_text("x")
    (plain_root / "MEMORY.md").chmod(0)
    with pytest.raises(Unwritable, match="denied"):
        read(parse_scope(str(plain_root)), "MEMORY.md")


def test_a_workspace_that_is_away_holds_no_missing_files(root: Path) -> None:
    root.rename(root.parent / "away")
    for replace in (lambda: None, lambda: root.write_text("a file")):
        replace()
        with pytest.raises(Unwritable, match="not there"):
            read(parse_scope(str(root)), ".memories/a.md")


def test_a_file_that_never_rests_is_read_as_it_was_last(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = root / "MEMORY.md"
    note.write_bytes(b"0")
    real, texts = textfiles.read_bounded, [b"x" * n for n in range(2, 20)]

    def read_then_change(fd: int, size_bytes: int, *, limit_bytes: int) -> bytes:
        data = real(fd, size_bytes, limit_bytes=limit_bytes)
        note.write_bytes(texts.pop(0))
        return data

    monkeypatch.setattr(textfiles, "read_bounded", read_then_change)
    file = read(parse_scope(str(root)), "MEMORY.md")
    assert file is not None
    assert file.data == b"xxx"


def test_a_file_that_the_system_has_moved_to_a_cloud_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "MEMORY.md").write_text("x")

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EDEADLK, "would deadlock")

    monkeypatch.setattr(os, "pread", refuse)
    n_before = len(os.listdir("/dev/fd"))
    with pytest.raises(MemsyncdError, match="deadlock"):
        read(parse_scope(str(root)), "MEMORY.md")
    assert len(os.listdir("/dev/fd")) == n_before
