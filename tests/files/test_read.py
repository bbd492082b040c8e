from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from memsyncd.core.digest import digest_bytes
from memsyncd.core.paths import NotePath, parse_note_path
from memsyncd.errors import MemsyncdError, PathRefused, TooLarge, Unwritable
from memsyncd.files import read
from memsyncd.files.read import ReadFile, TextFile, Unread, read_note_file, read_text_file
from memsyncd.files.scan import scan
from memsyncd.files.scope import Scope
from tests.files.conftest import parse_scope

# --- notes for the index ------------------------------------------------------------------------


def read_note(root: Path, path: str, *, max_file_bytes: int = 1000) -> ReadFile | Unread:
    return read_note_file(
        parse_scope(str(root), max_file_bytes=max_file_bytes), parse_note_path(path), now_ns=7
    )


def read_whole_note(root: Path, path: str, *, max_file_bytes: int = 1000) -> ReadFile:
    file = read_note(root, path, max_file_bytes=max_file_bytes)
    assert isinstance(file, ReadFile)
    return file


def find_reason(root: Path, path: str) -> str:
    unread = read_note(root, path)
    assert isinstance(unread, Unread)
    assert unread.problem is None or (unread.problem.code, unread.problem.path) == (
        unread.reason,
        path,
    )
    return unread.reason


@pytest.mark.parametrize("data", [b"", b"# hi\n", b"\xff\x00\r", b"x" * 1000])
def test_a_note_is_read_as_its_bytes(root: Path, data: bytes) -> None:
    (root / "MEMORY.md").write_bytes(data)
    file = read_whole_note(root, "MEMORY.md")
    assert file.data == data
    assert file.record.digest == digest_bytes(data)
    assert file.record.read_at_ns == 7
    assert file.record.stat == scan(parse_scope(str(root))).files["MEMORY.md"]
    assert not file.is_unstable


def test_a_note_over_the_limit_is_refused_and_no_more_than_the_limit_is_read(root: Path) -> None:
    (root / "MEMORY.md").write_bytes(b"x" * 1001)
    assert find_reason(root, "MEMORY.md") == "too_large"


def test_a_sparse_file_of_a_terabyte_costs_no_memory(root: Path) -> None:
    with open(root / "MEMORY.md", "wb") as file:
        file.truncate(2**40)
    assert find_reason(root, "MEMORY.md") == "too_large"


def test_a_missing_note_has_vanished_and_is_not_a_problem(root: Path) -> None:
    (root / ".memories/file.md").write_text("x")
    for path in ("MEMORY.md", ".memories/gone/a.md", ".memories/file.md/a.md"):
        assert find_reason(root, path) == "vanished"


def test_a_file_outside_the_scope_is_not_read(root: Path) -> None:
    (root / "secret.md").write_text("x")
    (root / ".memories/data.json").write_text("x")
    assert find_reason(root, "secret.md") == "not_a_note"
    assert find_reason(root, ".memories/data.json") == "not_a_note"


def test_a_fifo_a_folder_and_a_link_out_are_refused_at_once(root: Path) -> None:
    os.mkfifo(root / ".memories/fifo.md")
    (root / ".memories/folder.md").mkdir()
    (root / "MEMORY.md").symlink_to("/etc/passwd")
    (root / ".memories/etc").symlink_to("/etc")
    (root / ".memories/self.md").symlink_to("self.md")
    assert find_reason(root, ".memories/fifo.md") == "not_a_file"
    assert find_reason(root, ".memories/folder.md") == "not_a_file"
    assert find_reason(root, "MEMORY.md") == "link_outside"
    assert find_reason(root, ".memories/etc/x.md") in ("link_outside", "vanished")
    assert find_reason(root, ".memories/self.md") == "unreadable_file"


def test_a_note_without_permission_is_reported_as_unreadable(plain_root: Path) -> None:
    (plain_root / "MEMORY.md").write_text("x")
    (plain_root / "MEMORY.md").chmod(0)
    assert find_reason(plain_root, "MEMORY.md") == "unreadable_file"


def test_a_note_that_changes_once_while_it_is_read_is_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = root / "MEMORY.md"
    note.write_bytes(b"old")
    change_after_reads(monkeypatch, note, [b"newer"])
    file = read_whole_note(root, "MEMORY.md")
    assert (file.data, file.is_unstable) == (b"newer", False)


def test_a_note_that_keeps_changing_is_unstable_and_its_stat_differs_from_the_next_scans(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = root / "MEMORY.md"
    note.write_bytes(b"0")
    change_after_reads(monkeypatch, note, [b"x" * n for n in range(2, 20)])
    file = read_whole_note(root, "MEMORY.md")
    assert file.is_unstable
    assert not file.record.stat.is_same_as(scan(parse_scope(str(root))).files["MEMORY.md"])


def change_after_reads(monkeypatch: pytest.MonkeyPatch, note: Path, texts: list[bytes]) -> None:
    """Write the next text after each read, which is the worst moment."""
    real_read = read.read_bounded

    def read_then_change(fd: int, size_bytes: int, *, limit_bytes: int) -> bytes:
        data = real_read(fd, size_bytes, limit_bytes=limit_bytes)
        if texts:
            note.write_bytes(texts.pop(0))
        return data

    monkeypatch.setattr(read, "read_bounded", read_then_change)


def test_a_note_replaced_while_others_read_it_is_always_seen_whole(root: Path) -> None:
    note, temp = root / "MEMORY.md", root / "temp"
    note.write_bytes(b"a" * 900)
    stop = threading.Event()

    def replace() -> None:
        for n in range(100_000):
            if stop.is_set():
                return
            temp.write_bytes((b"a", b"b")[n % 2] * 900)
            temp.rename(note)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        seen = {read_whole_note(root, "MEMORY.md").data for _ in range(500)}
    finally:
        stop.set()
        writer.join()
    assert seen <= {b"a" * 900, b"b" * 900}


@pytest.fixture
def evicted_note(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(errno.EDEADLK, "would deadlock")

    (root / "MEMORY.md").write_text("x")
    monkeypatch.setattr(os, "pread", refuse)


@pytest.mark.usefixtures("evicted_note")
def test_an_evicted_note_that_the_system_does_not_fetch_is_reported(root: Path) -> None:
    assert find_reason(root, "MEMORY.md") == "evicted"


def test_reading_leaves_no_descriptor_open(root: Path) -> None:
    (root / "MEMORY.md").write_text("x")
    before = len(os.listdir("/dev/fd"))
    for path in ("MEMORY.md", ".memories/gone.md"):
        read_note(root, path)
    assert len(os.listdir("/dev/fd")) == before


# --- files for a caller -------------------------------------------------------------------------


def read_text(scope: Scope, path: str) -> TextFile | None:
    return read_text_file(scope, NotePath(path))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("data", [b"", b"\xff\x00\r\n", b"x" * 100])
def test_a_file_of_any_suffix_is_read_as_its_bytes(root: Path, data: bytes) -> None:
    scope = parse_scope(str(root), max_file_bytes=100)
    for path in (".memories/a.xml", ".memories/noext", "MEMORY.md", ".memories/b.md"):
        (root / path).write_bytes(data)
        file = read_text(scope, path)
        assert file is not None
        assert (file.path, file.data, file.digest) == (NotePath(path), data, digest_bytes(data))
    assert file.stat == scan(scope).files[".memories/b.md"]


def test_a_file_over_the_limit_is_refused(root: Path) -> None:
    with open(root / ".memories/a.md", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(TooLarge):
        read_text(parse_scope(str(root)), ".memories/a.md")


@pytest.mark.usefixtures("way")
def test_a_missing_file_is_none(root: Path) -> None:
    (root / ".memories/a.md").write_text("x")
    for path in ("MEMORY.md", ".memories/gone/b.md", ".memories/a.md/b.md"):
        assert read_text(parse_scope(str(root)), path) is None


@pytest.mark.usefixtures("way")
def test_a_file_that_is_not_regular_is_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / ".memories/fifo")
    (root / ".memories/folder").mkdir()
    with contextlib.suppress(PermissionError):
        os.mknod(root / ".memories/device", 0o600 | 0o020000, os.makedev(1, 5))
    scope = parse_scope(str(root))
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(root / ".memories"):
        listener.bind("sock")
        for path in os.listdir(root / ".memories"):
            with pytest.raises(PathRefused, match="not a regular file"):
                read_text(scope, f".memories/{path}")
    with pytest.raises(PathRefused, match="not a regular file"):
        read_text(scope, ".memories")


@pytest.mark.parametrize(
    "path", ["README.md", ".memoriesX/a.md", "MEMORY.md/a", "src/.memories/a.md"]
)
def test_a_path_outside_memory_is_refused(root: Path, path: str) -> None:
    with pytest.raises(PathRefused, match="outside memory"):
        read_text(parse_scope(str(root)), path)


def test_an_included_file_is_read_and_an_excluded_one_is_refused(root: Path) -> None:
    (root / "docs").mkdir()
    (root / "docs/a.md").write_text("x")
    scope = parse_scope(str(root), include=["docs/*.md"], exclude=["drafts"])
    assert read_text(scope, "docs/a.md") is not None
    for path in (".memories/drafts/a.md", ".memories/drafts"):
        with pytest.raises(PathRefused, match="excludes"):
            read_text(scope, path)


@pytest.mark.usefixtures("way")
def test_a_link_that_leads_out_or_to_a_hidden_path_is_refused(root: Path) -> None:
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
    for path in (
        "out.md",
        "etc/passwd",
        "git/config",
        "root/.git/config",
        "self",
        "self/x",
        "root",
    ):
        with pytest.raises(PathRefused) as caught:
            read_text(parse_scope(str(root)), f".memories/{path}")
        assert "/etc/" not in caught.value.message.removesuffix(path)


def test_a_file_without_permission_is_unwritable(plain_root: Path) -> None:
    (plain_root / "MEMORY.md").write_text("x")
    (plain_root / "MEMORY.md").chmod(0)
    with pytest.raises(Unwritable, match="denied"):
        read_text(parse_scope(str(plain_root)), "MEMORY.md")


def test_a_file_of_a_missing_workspace_is_not_reported_as_missing(root: Path) -> None:
    root.rename(root.parent / "away")
    for replace in (lambda: None, lambda: root.write_text("a file")):
        replace()
        with pytest.raises(Unwritable, match="is missing"):
            read_text(parse_scope(str(root)), ".memories/a.md")


def test_a_file_that_keeps_changing_is_read_as_it_was_at_the_last_attempt(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = root / "MEMORY.md"
    note.write_bytes(b"0")
    change_after_reads(monkeypatch, note, [b"x" * n for n in range(2, 20)])
    file = read_text(parse_scope(str(root)), "MEMORY.md")
    assert file is not None
    assert file.data == b"xxx"


@pytest.mark.usefixtures("evicted_note")
def test_an_evicted_file_raises_and_leaves_no_descriptor_open(root: Path) -> None:
    n_before = len(os.listdir("/dev/fd"))
    with pytest.raises(MemsyncdError, match="deadlock"):
        read_text(parse_scope(str(root)), "MEMORY.md")
    assert len(os.listdir("/dev/fd")) == n_before
