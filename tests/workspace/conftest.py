"""A workspace on the real disk, and a user whom file modes bind even where tests run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsyncd.workspace import confine, renames
from tests.programs import succeeds

NOBODY = 65534


@pytest.fixture(params=["best", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to open and rename: the system's best, and those for systems without openat2 and renames with flags."""
    if request.param == "plain":
        monkeypatch.setattr(confine, "choose_opener", lambda: confine.open_part_by_part)
        monkeypatch.setattr(renames, "choose_rename", lambda: None)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty workspace with `.memories/`."""
    folder = Path(os.path.realpath(tmp_path)) / "workspace"
    (folder / ".memories").mkdir(parents=True)
    return folder


@pytest.fixture
def plain_root() -> Iterator[Path]:
    """The same, owned by a user without special rights, as whom the test runs."""
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
    """A workspace on a disk of its own, with room for some pages."""
    folder = Path(os.path.realpath(tmp_path)) / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=20,mode=700", "none", str(folder)]
    if os.geteuid() != 0 or not succeeds(*mount):
        pytest.skip("only root may mount a small disk, and not everywhere")
    (folder / ".memories").mkdir()
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
