"""The sockets and tokens that a daemon creates, refuses and removes."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsyncd.errors import AlreadyRunning, BadConfig, MemsyncdError, Unsafe
from memsyncd.server.listen import (
    PATH_LIMIT_BYTES,
    OwnedSocket,
    check_outside,
    check_path,
    load_token,
    make_url,
    open_port,
    open_socket,
)


@pytest.fixture(name="run")
def make_run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(name="owned")
def make_owned(run: Path) -> Iterator[OwnedSocket]:
    owned = acquire(run)
    yield owned
    owned.close()


def acquire(folder: Path) -> OwnedSocket:
    return open_socket(str(folder / "s.sock"))


def refuse(folder: Path) -> MemsyncdError:
    with pytest.raises(MemsyncdError) as caught:
        acquire(folder)
    assert caught.value.hint
    return caught.value


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def make_stale(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def test_socket_and_folder_are_private_to_the_user(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        owned = acquire(tmp_path / "a" / "run")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(os.stat(owned.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "a" / "run").st_mode) == 0o700
    connect(Path(owned.path))
    owned.close()


@pytest.mark.parametrize("has_fchmod", [True, False])
def test_making_the_socket_private_leaves_the_umask_unchanged(
    run: Path, monkeypatch: pytest.MonkeyPatch, has_fchmod: bool
) -> None:
    def fail(*_: int) -> None:
        raise OSError("not for sockets")

    if not has_fchmod:
        monkeypatch.setattr(os, "fchmod", fail)
    before = os.umask(0o002)
    try:
        owned = acquire(run)
        assert stat.S_IMODE(os.stat(owned.path).st_mode) == 0o600
        assert os.umask(0o002) == 0o002
    finally:
        os.umask(before)
    owned.close()


def test_several_daemons_replace_a_stale_socket_at_once_and_only_one_gets_it(run: Path) -> None:
    make_stale(run / "s.sock")
    won: list[OwnedSocket] = []
    lost: list[AlreadyRunning] = []
    barrier = threading.Barrier(4)

    def race() -> None:
        barrier.wait()
        try:
            won.append(acquire(run))
        except AlreadyRunning as error:
            lost.append(error)

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 3)
    connect(run / "s.sock")
    won[0].close()


def test_a_socket_that_answers_is_not_replaced(run: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(run / "s.sock"))
        other.listen(1)
        before = os.stat(run / "s.sock")
        assert isinstance(refuse(run), AlreadyRunning)
        assert os.path.samestat(before, os.stat(run / "s.sock"))


def test_close_does_not_remove_another_socket_at_the_path(run: Path) -> None:
    owned = acquire(run)
    (run / "s.sock").unlink()
    assert not owned.is_ours()
    make_stale(run / "s.sock")
    assert not owned.is_ours()
    owned.close()
    assert (run / "s.sock").exists()


def test_a_socket_whose_file_was_removed_can_be_bound_again(run: Path) -> None:
    owned = acquire(run)
    (run / "s.sock").unlink()
    run.rmdir()
    with owned.sock:
        owned.rebind()
    assert owned.is_ours()
    assert stat.S_IMODE(os.stat(owned.path).st_mode) == 0o600
    connect(Path(owned.path))
    assert isinstance(refuse(run), AlreadyRunning)
    owned.close()
    assert not Path(owned.path).exists()


def test_rebind_does_not_replace_a_socket_that_answers(run: Path) -> None:
    owned = acquire(run)
    (run / "s.sock").unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(run / "s.sock"))
        other.listen(1)
        with pytest.raises(AlreadyRunning):
            owned.rebind()
    owned.close()
    assert (run / "s.sock").exists()


def test_a_second_close_does_not_affect_the_next_owner(run: Path) -> None:
    first = acquire(run)
    first.close()
    second = acquire(run)
    first.close()
    assert second.is_ours()
    assert isinstance(refuse(run), AlreadyRunning)
    second.close()


def test_children_do_not_inherit_the_socket(owned: OwnedSocket) -> None:
    assert not os.get_inheritable(owned.sock.fileno())


def test_a_file_that_is_no_socket_is_left(run: Path) -> None:
    (run / "s.sock").write_text("precious")
    assert isinstance(refuse(run), Unsafe)
    assert (run / "s.sock").read_text() == "precious"
    (run / "s.sock").unlink()
    acquire(run).close()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
def test_a_folder_that_other_users_can_write_to_is_unsafe(run: Path, mode: int) -> None:
    run.chmod(mode)
    error = refuse(run)
    assert isinstance(error, Unsafe)
    assert error.hint == f"chmod 700 {run}"
    run.chmod(0o700)


def test_a_folder_that_other_users_can_only_read_is_accepted(run: Path) -> None:
    run.chmod(0o755)
    acquire(run).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_unsafe(run: Path) -> None:
    os.chown(run, 65534, 65534)
    assert "belongs to user 65534" in refuse(run).message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
def test_a_socket_of_another_user_is_unsafe(run: Path) -> None:
    make_stale(run / "s.sock")
    os.lchown(run / "s.sock", 65534, 65534)
    assert "belongs to user 65534" in refuse(run).message


def test_links_and_a_file_in_place_of_the_folder_are_unsafe(run: Path, tmp_path: Path) -> None:
    (run / "s.sock").symlink_to(tmp_path / "elsewhere")
    assert isinstance(refuse(run), Unsafe)
    (tmp_path / "link").symlink_to(run)
    assert isinstance(refuse(tmp_path / "link"), Unsafe)
    (tmp_path / "file").write_text("")
    assert isinstance(refuse(tmp_path / "file"), Unsafe)


@pytest.mark.parametrize(
    "path", ["", "s.sock", "/tmp/\0", "/tmp/folder/", "/" + "x" * 107, "/" + "ü" * 54]
)
def test_an_invalid_socket_path_is_bad_configuration(path: str) -> None:
    with pytest.raises(BadConfig) as caught:
        check_path(path)
    assert "MEMSYNCD_SOCKET" in caught.value.hint


def test_the_longest_path_that_a_socket_can_have_works(tmp_path: Path) -> None:
    name = "x" * (100 - len(os.fsencode(tmp_path)))
    if len(name) < 2:
        pytest.skip("the temporary folder's own path is too long")
    check_path("/" + "x" * (PATH_LIMIT_BYTES - 1))
    owned = open_socket(str(tmp_path / name))
    connect(Path(owned.path))
    owned.close()


def test_the_path_limit_equals_the_limit_of_the_system(tmp_path: Path) -> None:
    longest = "/tmp/" + "x" * (PATH_LIMIT_BYTES - 5)
    with socket.socket(socket.AF_UNIX) as sock:
        with pytest.raises(OSError, match="too long"):
            sock.connect(longest + "x")
        with pytest.raises(FileNotFoundError):
            sock.connect(longest)


def test_a_folder_that_cannot_be_created_is_bad_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert isinstance(refuse(tmp_path / "file" / "run"), BadConfig)


def test_a_socket_inside_a_workspace_is_bad_configuration(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "run").mkdir(parents=True)
    (tmp_path / "way-in").symlink_to(root)
    for path in [root / "s", root / "run" / "s", tmp_path / "way-in" / "run" / "s"]:
        with pytest.raises(BadConfig):
            check_outside(str(path), [str(tmp_path / "other"), str(root)])
    check_outside(str(tmp_path / "project-2" / "s"), [str(root)])
    check_outside(str(tmp_path / "s"), [str(root)])


def test_a_token_is_created_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "http-token"
    before = os.umask(0)
    try:
        token = load_token(str(path))
    finally:
        os.umask(before)
    assert len(token) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_token(str(path)) == token
    assert [file.name for file in path.parent.iterdir()] == ["http-token"]


def test_two_tokens_differ(tmp_path: Path) -> None:
    assert load_token(str(tmp_path / "a")) != load_token(str(tmp_path / "b"))


def make_link(path: Path) -> None:
    (path.parent / "other").write_text("t" * 40)
    path.symlink_to("other")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: (path.write_text("t" * 40), path.chmod(0o644)),
        lambda path: (path.write_text("short\n"), path.chmod(0o600)),
        lambda path: (path.write_text(""), path.chmod(0o600)),
        lambda path: (path.write_text("t" * 40 + "\nX: y"), path.chmod(0o600)),
        lambda path: path.mkdir(),
        lambda path: os.mkfifo(path, 0o600),
        make_link,
    ],
    ids=["readable", "short", "empty", "two lines", "folder", "pipe", "link"],
)
def test_a_file_that_is_no_private_token_is_refused_and_left(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    path = tmp_path / "http-token"
    spoil(path)
    with pytest.raises((Unsafe, BadConfig)) as refusal:
        load_token(str(path))
    assert "remove it" in refusal.value.hint
    assert "ttttt" not in refusal.value.message
    assert os.path.lexists(path)


def test_a_port_has_a_url(tmp_path: Path) -> None:
    with open_port(("127.0.0.1", 0)) as sock:
        assert make_url(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_a_port_that_is_taken_is_an_error_with_a_hint() -> None:
    with open_port(("127.0.0.1", 0)) as sock:
        address = ("127.0.0.1", sock.getsockname()[1])
        with pytest.raises(BadConfig) as refusal:
            open_port(address)
    assert "[http]" in refusal.value.hint
