from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsyncd.core.notepath import is_note_name
from memsyncd.workspace.folders import HeldFolder, hold_folder
from memsyncd.workspace.scan import scan
from memsyncd.workspace.scope import parse_scope
from memsyncd.workspace.temporaries import is_temporary, make_name, writing_temporary

LEFT = ".memsyncd-0123456789abcdef.tmp"


@pytest.fixture
def folder(root: Path) -> Iterator[HeldFolder]:
    with hold_folder(str(root), ".memories") as held:
        yield held


def test_a_temporarys_name_is_its_own_hidden_and_no_notes() -> None:
    names = {make_name() for _ in range(100)}
    assert len(names) == 100
    assert all(is_temporary(name) and name.startswith(".") and not is_note_name(name) for name in names)
    assert not any(is_temporary(name) for name in (".memsyncd-1.tmp", "a.md", f"{LEFT}x", f"x{LEFT}", ".memsyncd-x.tmp"))


def test_a_temporary_is_no_problem_for_a_scan(root: Path, folder: HeldFolder) -> None:
    with writing_temporary(folder.fd, b"x", like_fd=None) as temporary:
        snapshot = scan(parse_scope(str(root)))
        assert os.listdir(root / ".memories") == [temporary.name]
    assert (dict(snapshot.files), snapshot.problems) == ({}, ())


def test_a_temporary_is_gone_at_the_end_unless_it_has_another_name_by_then(root: Path, folder: HeldFolder) -> None:
    with writing_temporary(folder.fd, b"x", like_fd=None) as temporary:
        (root / ".memories" / temporary.name).rename(root / "kept")
        (root / ".memories" / temporary.name).write_text("somebody else's")
    assert (root / "kept").read_bytes() == b"x"
    assert (root / ".memories" / temporary.name).read_text() == "somebody else's"
    with pytest.raises(RuntimeError), writing_temporary(folder.fd, b"x", like_fd=None):  # noqa: PT012
        assert len(os.listdir(root / ".memories")) == 2
        raise RuntimeError
    assert len(os.listdir(root / ".memories")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
def test_a_temporary_belongs_to_whom_the_old_file_belonged(root: Path, folder: HeldFolder) -> None:
    (root / "old").write_text("x")
    (root / "old").chmod(0o640)
    os.chown(root / "old", 1234, 4321)
    fd = os.open(root / "old", os.O_RDONLY)
    with writing_temporary(folder.fd, b"y", like_fd=fd) as temporary:
        stat = os.fstat(temporary.fd)
    os.close(fd)
    assert (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777) == (1234, 4321, 0o640)
