"""A workspace on the real disk, and a user bound by file modes even if the tests run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from memsyncd.config import SyncConfig
from memsyncd.files import confined, scope, write
from tests.programs import succeeds

NOBODY = 65534
parse_scope = partial(scope.parse_scope, max_file_bytes=SyncConfig().max_file_bytes)


def before(
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    action: Callable[[], object],
    *,
    n_times: int = 1,
) -> None:
    """Let another program act just before the first calls of a function of `write`."""
    real, left = getattr(write, function), [action] * n_times

    def intervene_first(*args: object) -> object:
        if left:
            left.pop()()
        return real(*args)

    monkeypatch.setattr(write, function, intervene_first)


@pytest.fixture(params=["best", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Open and rename in the best way of this system, and then without openat2 and rename flags."""
    if request.param == "plain":
        monkeypatch.setattr(confined, "choose_opener", lambda: confined.open_part_by_part)
        monkeypatch.setattr(write, "choose_rename", lambda: None)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty workspace with `.memories/`."""
    folder = Path(os.path.realpath(tmp_path)) / "workspace"
    (folder / ".memories").mkdir(parents=True)
    return folder


@pytest.fixture
def exchanging(root: Path) -> None:
    """Skip the test if the system cannot exchange two names in one step."""
    folder = os.open(root, os.O_RDONLY)
    for name in ("x", "y"):
        (root / name).mkdir()
    try:
        write.exchange(folder, "x", "y")
    except write.ExchangeUnsupportedError:
        pytest.skip("names cannot be exchanged here")
    finally:
        os.close(folder)
        for name in ("x", "y"):
            (root / name).rmdir()


@pytest.fixture
def plain_root() -> Iterator[Path]:
    """An empty workspace of an unprivileged user; the test runs as that user."""
    folder = Path(os.path.realpath(tempfile.mkdtemp()))
    (folder / ".memories").mkdir()
    is_root = os.geteuid() == 0
    if is_root:
        for place in (folder, folder / ".memories"):
            os.chown(place, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        subprocess.run(["chmod", "-R", "u+rwX", folder], check=True)
        shutil.rmtree(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A workspace on its own disk with room for a few pages."""
    folder = Path(os.path.realpath(tmp_path)) / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=20,mode=700", "none", str(folder)]
    if os.geteuid() != 0 or not succeeds(*mount):
        pytest.skip("only root may mount a small disk, and not on every system")
    (folder / ".memories").mkdir()
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
