"""Which daemon owns a folder, and where a client finds it."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.errors import AlreadyRunning, Unsafe
from memsyncd.lock import FolderLocks, Holder, is_held, parse_holder, read_holder
from tests.programs import succeeds

LOCK = """
import os, sys, subprocess
from memsyncd.lock import FolderLocks, Holder
locks = FolderLocks(sys.argv[2:], Holder(os.getpid(), "0.2.0", sys.argv[1]))
print(locks.problem)
"""
HOLD = f"""{LOCK}
child = subprocess.Popen([sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(name="paths")
def make_paths(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name / "daemon.lock") for name in ("state", "cache")]


def acquire(paths: list[str], socket_path: str = "/nowhere/m.sock") -> FolderLocks:
    return FolderLocks(paths, Holder(os.getpid(), "0.2.0", socket_path))


@pytest.fixture(name="other")
def start_other(paths: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start another process that has both folders, and a child of it."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, "/run/m.sock", *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        child = int(process.stdout.readline())
        yield process, child
        process.kill()
    os.kill(child, 9)


def test_a_daemon_names_itself_in_both_folders_for_its_user_alone(paths: list[str]) -> None:
    before = os.umask(0)
    try:
        locks = acquire(paths, "/run/ü/m.sock")
    finally:
        os.umask(before)
    for path in paths:
        holder = read_holder(path)
        assert holder is not None
        assert (holder.pid, holder.version) == (os.getpid(), "0.2.0")
        assert holder.socket_path == "/run/ü/m.sock"
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert not locks.problem
    locks.close()
    assert [read_holder(path) for path in paths] == [None, None]
    acquire(paths).close()


@pytest.mark.parametrize("kept", [0, 1])
def test_another_process_gets_neither_folder_and_learns_who_has_it(
    paths: list[str], other: tuple[subprocess.Popen[bytes], int], kept: int
) -> None:
    elsewhere = os.path.dirname(os.path.dirname(paths[0])) + "/elsewhere/daemon.lock"
    with pytest.raises(AlreadyRunning) as caught:
        acquire([elsewhere, paths[kept]])
    assert caught.value.data == {"pid": other[0].pid, "socket": "/run/m.sock"}
    assert f"process {other[0].pid}, on /run/m.sock" in caught.value.message
    assert is_held([paths[kept]])
    assert not is_held([elsewhere])


def test_a_killed_daemon_costs_nothing_even_while_its_child_lives(
    paths: list[str], other: tuple[subprocess.Popen[bytes], int]
) -> None:
    process, child = other
    process.kill()
    process.wait()
    os.kill(child, 0)
    assert not is_held(paths)
    holder = read_holder(paths[0])
    assert holder is not None
    assert holder.pid == process.pid
    acquire(paths).close()


def test_one_of_several_that_start_at_once_gets_the_folders(paths: list[str]) -> None:
    won: list[FolderLocks] = []
    lost: list[AlreadyRunning] = []
    barrier = threading.Barrier(4)

    def race(number: int) -> None:
        barrier.wait()
        try:
            won.append(acquire(paths[number % 2 :]))
        except AlreadyRunning as error:
            lost.append(error)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 3)
    won[0].close()


def test_a_refusal_releases_what_was_locked_before(paths: list[str]) -> None:
    second = acquire(paths[1:])
    with pytest.raises(AlreadyRunning):
        acquire(paths)
    assert not is_held(paths[:1])
    second.close()


def test_a_command_that_looks_at_the_lock_keeps_no_daemon_from_starting(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire(paths).close()
    with open(paths[0], "r+b") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        # By the second try the command has looked.
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
        acquire(paths).close()


def test_a_lock_file_that_was_removed_is_locked_and_written_again(paths: list[str]) -> None:
    locks = acquire(paths)
    for path in paths:
        os.unlink(path)
    os.rmdir(os.path.dirname(paths[1]))
    locks.renew()
    assert is_held(paths[:1])
    assert is_held(paths[1:])
    assert read_holder(paths[1]) is not None
    locks.renew()
    locks.close()
    assert not is_held(paths)


def test_a_folder_that_cannot_be_made_is_said_until_it_can(paths: list[str]) -> None:
    folder = Path(paths[1]).parent
    folder.write_text("in its place")
    locks = acquire(paths)
    assert locks.problem.startswith(f"{folder} cannot be locked (")
    locks.renew()
    assert locks.problem
    folder.unlink()
    locks.renew()
    assert (locks.problem, is_held(paths[1:])) == ("", True)
    folder.rename(folder.with_suffix(".aside"))
    folder.write_text("in its place")
    for _ in range(2):
        locks.renew()
        assert locks.problem
    locks.close()
    assert not is_held([str(folder.with_suffix(".aside") / "daemon.lock")])


def test_a_daemon_whose_lock_file_another_one_has_learns_it(paths: list[str]) -> None:
    locks = acquire(paths)
    os.unlink(paths[0])
    second = acquire(paths[:1])
    with pytest.raises(AlreadyRunning):
        locks.renew()
    locks.close()
    second.close()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "socket"])
def test_a_lock_that_is_not_a_regular_file_is_refused_and_stays(
    paths: list[str], kind: str
) -> None:
    path = Path(paths[0])
    path.parent.mkdir()
    precious = path.parent / "precious"
    precious.write_text("text")
    if kind == "link":
        path.symlink_to(precious)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
    with pytest.raises(Unsafe) as caught:
        acquire(paths)
    assert caught.value.hint
    assert read_holder(str(path)) is None
    assert not is_held([str(path)])
    assert precious.read_text() == "text"


@given(st.binary(max_size=40), st.integers(1, 2**22), st.text("01.ab", min_size=1, max_size=8))
def test_the_text_of_a_lock_is_read_as_it_was_written_and_a_part_of_it_names_nobody(
    name: bytes, pid: int, version: str
) -> None:
    path = os.fsdecode(b"/" + name.replace(b"\0", b""))
    text = Holder(pid, version, path).render()
    holder = parse_holder(text)
    assert holder is not None
    assert (holder.pid, holder.version, holder.socket_path) == (pid, version, path)
    if b"\n" not in name:
        assert not any(parse_holder(text[:end]) for end in range(len(text)))


@given(st.binary(max_size=100))
def test_any_text_in_a_lock_file_is_read(text: bytes) -> None:
    parse_holder(text)


# --- file systems without locks -------------------------------------------------------------------


@pytest.mark.skipif(not succeeds("strace", "true"), reason="strace makes a call fail")
@pytest.mark.parametrize("error", ["ENOLCK", "EOPNOTSUPP", "ENOSYS"])
def test_a_file_system_without_locks_is_said_and_a_daemon_that_answers_is_still_found(
    paths: list[str], tmp_path: Path, error: str
) -> None:
    def run() -> tuple[int, str]:
        words = [sys.executable, "-c", LOCK, str(tmp_path / "m.sock"), *paths]
        inject = ["strace", "-o", os.devnull, "-e", f"inject=flock:error={error}"]
        done = subprocess.run([*inject, *words], capture_output=True, check=False)
        return done.returncode, (done.stdout + done.stderr).decode()

    status, said = run()
    assert (status, "cannot be locked" in said) == (0, True), said
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "m.sock"))
        listening.listen()
        status, said = run()
    assert status == 1
    assert "AlreadyRunning" in said
