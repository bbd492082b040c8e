"""The token of the loopback port is private or not used, and a port that cannot be had is an error."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from memsyncd.errors import BadConfig, Unsafe
from memsyncd.server.loopback import load_token, make_url, open_port


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
