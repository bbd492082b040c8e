from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from memsyncd.core.digest import digest_bytes
from memsyncd.core.notepath import parse_note_path
from memsyncd.workspace import files
from memsyncd.workspace.files import ReadFile, Unread, read_note_file
from memsyncd.workspace.scan import scan
from memsyncd.workspace.scope import parse_scope


def read(root: Path, path: str, *, max_file_bytes: int = 1000) -> ReadFile | Unread:
    return read_note_file(parse_scope(str(root), max_file_bytes=max_file_bytes), parse_note_path(path), now_ns=7)


def read_whole(root: Path, path: str, *, max_file_bytes: int = 1000) -> ReadFile:
    found = read(root, path, max_file_bytes=max_file_bytes)
    assert isinstance(found, ReadFile)
    return found


def find_reason(root: Path, path: str) -> str:
    found = read(root, path)
    assert isinstance(found, Unread)
    assert found.problem is None or (found.problem.code, found.problem.path) == (found.reason, path)
    return found.reason


@pytest.mark.parametrize("data", [b"", b"# hi\n", b"\xff\x00\r", b"x" * 1000])
def test_a_note_is_read_as_the_bytes_that_stand_there(root: Path, data: bytes) -> None:
    (root / "MEMORY.md").write_bytes(data)
    found = read_whole(root, "MEMORY.md")
    assert found.data == data
    assert found.record.digest == digest_bytes(data)
    assert found.record.read_at_ns == 7
    assert found.record.stat == scan(parse_scope(str(root))).files["MEMORY.md"]
    assert not found.is_growing


def test_a_note_over_the_limit_is_refused_and_no_more_than_the_limit_is_read(root: Path) -> None:
    (root / "MEMORY.md").write_bytes(b"x" * 1001)
    assert find_reason(root, "MEMORY.md") == "too_large"


def test_a_sparse_file_of_a_terabyte_costs_no_memory(root: Path) -> None:
    with open(root / "MEMORY.md", "wb") as file:
        file.truncate(2**40)
    assert find_reason(root, "MEMORY.md") == "too_large"


def test_a_note_that_is_gone_has_vanished_and_is_no_problem(root: Path) -> None:
    (root / ".memories/file.md").write_text("x")
    for path in ("MEMORY.md", ".memories/gone/a.md", ".memories/file.md/a.md"):
        assert find_reason(root, path) == "vanished"


def test_what_the_scope_does_not_hold_is_not_read(root: Path) -> None:
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


def test_a_note_without_permission_is_named_unreadable(plain_root: Path) -> None:
    (plain_root / "MEMORY.md").write_text("x")
    (plain_root / "MEMORY.md").chmod(0)
    assert find_reason(plain_root, "MEMORY.md") == "unreadable_file"


def test_a_note_that_changes_once_while_it_is_read_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = root / "MEMORY.md"
    note.write_bytes(b"old")
    change_after_reads(monkeypatch, note, [b"newer"])
    found = read_whole(root, "MEMORY.md")
    assert (found.data, found.is_growing) == (b"newer", False)


def test_a_note_that_never_rests_is_handed_over_as_growing_with_a_stat_that_a_scan_will_doubt(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = root / "MEMORY.md"
    note.write_bytes(b"0")
    change_after_reads(monkeypatch, note, [b"x" * n for n in range(2, 20)])
    found = read_whole(root, "MEMORY.md")
    assert found.is_growing
    assert not found.record.stat.is_same_as(scan(parse_scope(str(root))).files["MEMORY.md"])


def change_after_reads(monkeypatch: pytest.MonkeyPatch, note: Path, texts: list[bytes]) -> None:
    """Write the next text after each whole read, as a writer at the worst moment would."""
    real_read = files.read_bounded

    def read_then_change(fd: int, size_bytes: int, *, limit_bytes: int) -> bytes:
        data = real_read(fd, size_bytes, limit_bytes=limit_bytes)
        if texts:
            note.write_bytes(texts.pop(0))
        return data

    monkeypatch.setattr(files, "read_bounded", read_then_change)


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
        seen = {read_whole(root, "MEMORY.md").data for _ in range(500)}
    finally:
        stop.set()
        writer.join()
    assert seen <= {b"a" * 900, b"b" * 900}


def test_an_evicted_note_that_the_system_will_not_fetch_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "MEMORY.md").write_text("x")

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EDEADLK, "would deadlock")

    monkeypatch.setattr(os, "pread", refuse)
    assert find_reason(root, "MEMORY.md") == "evicted"


def test_reading_leaves_no_descriptor_open(root: Path) -> None:
    (root / "MEMORY.md").write_text("x")
    before = len(os.listdir("/dev/fd"))
    for path in ("MEMORY.md", ".memories/gone.md"):
        read(root, path)
    assert len(os.listdir("/dev/fd")) == before
