from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.workspace import handover
from memsyncd.workspace.folders import HeldFolder, hold_folder
from memsyncd.workspace.handover import give_back, holds, name_copy, take_away
from memsyncd.workspace.names import is_conflict_copy


@pytest.fixture
def folder(root: Path) -> Iterator[HeldFolder]:
    with hold_folder(str(root), "") as held:
        yield held


def test_a_file_holds_its_bytes_and_no_other(root: Path, folder: HeldFolder) -> None:
    (root / "a").write_bytes(b"text")
    assert holds(folder.fd, "a", b"text")
    assert not any(holds(folder.fd, "a", data) for data in (b"", b"tex", b"text\n", b"teXt"))


def test_what_is_no_regular_file_or_cannot_be_read_holds_nothing(root: Path, folder: HeldFolder) -> None:
    (root / "real").write_bytes(b"")
    (root / "link").symlink_to("real")
    os.mkfifo(root / "fifo")
    assert not any(holds(folder.fd, name, b"") for name in ("gone", "link", "fifo", ".memories", "real/x"))


def test_a_file_that_another_process_has_open_for_writing_is_not_given_away(root: Path, folder: HeldFolder) -> None:
    (root / "a").write_bytes(b"text")
    script = "import sys; f = open(sys.argv[1], 'r+b'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script, root / "a"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        is_given = take_away(folder, "a", b"text")
    if is_given:
        pytest.skip("this system does not tell who writes")
    assert (root / "a").read_bytes() == b"text"
    assert take_away(folder, "a", b"text")
    assert sorted(os.listdir(root)) == [".memories"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux grants leases")
def test_who_opens_a_file_for_writing_while_it_is_looked_at_ends_nobody(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").write_bytes(b"text")
    real, writers = handover.fcntl.fcntl, []

    def open_once_leased(fd: int, command: int, argument: int) -> int:
        if (command, argument) == (handover.fcntl.F_SETLEASE, handover.fcntl.F_UNLCK):
            writers.append(subprocess.Popen([sys.executable, "-c", "import sys; open(sys.argv[1], 'ab').close()", root / "a"]))
            signal.sigtimedwait([signal.SIGURG], 10)
        return real(fd, command, argument)

    monkeypatch.setattr(handover.fcntl, "fcntl", open_once_leased)
    fd = os.open(root / "a", os.O_RDONLY)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    try:
        assert not handover._is_being_written(fd)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(fd)
    assert [writer.wait(10) for writer in writers] == [0]


def test_what_is_given_back_takes_its_name_or_the_first_free_copys(root: Path, folder: HeldFolder) -> None:
    for number in range(3):
        (root / f"aside{number}").write_text(str(number))
        give_back(folder.fd, f"aside{number}", "a.md")
    names = ("a.md", "a_conflict-1.md", "a_conflict-2.md")
    assert [(root / name).read_text() for name in names] == ["0", "1", "2"]


@given(stem=st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=255))
@pytest.mark.parametrize("suffix", ["", ".md", ".markdown"])
def test_a_copys_name_fits_and_is_known_for_one_and_keeps_its_suffix(stem: str, suffix: str) -> None:
    copy = name_copy(stem.replace(".", "_") + suffix, 7)
    assert len(copy.encode()) <= 255
    assert is_conflict_copy(copy)
    assert copy.endswith(f"_conflict-7{suffix}")
