"""The doctor on a network's file system: a warning for notes, an error for databases, and nothing
on a local disk.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.service.conftest import Manager

SERVER = Path(__file__).with_name("network_file_system.py")
pytestmark = pytest.mark.skipif(
    not Path("/dev/fuse").exists(), reason="the kernel has no FUSE here"
)


def examine(user: Manager, **env: str) -> dict[str, dict[str, Any]]:
    """Return the findings that are not ok, by their check."""
    done = user.memsyncd("doctor", "--json", **env)
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    return {
        finding["check"]: finding
        for finding in findings
        if finding["level"] in ("warning", "error")
    }


def test_notes_on_a_network_are_reported_as_found_late(user: Manager) -> None:
    far, near = user.folder / "far", user.folder / "near"
    far.mkdir(exist_ok=True)
    with user.begin(sys.executable, str(SERVER), str(far)):
        assert user.memsyncd("start", str(far)).returncode == 0
        assert json.loads(user.memsyncd("search", "larch", "--wait", "--json").stdout)["hits"]
        findings = examine(user)
        assert (findings["filesystem"]["level"], findings["filesystem"]["where"]) == (
            "warning",
            str(far),
        )
        assert "fuse.sshfs" in findings["filesystem"]["what"]
        assert "keep notes on a local disk" in findings["filesystem"]["remedy"]
        near.mkdir()
        (near / "MEMORY.md").write_text("# Far\n\nlarch\n")
        assert user.memsyncd("remove", "far").returncode == 0
        assert user.memsyncd("add", str(near)).returncode == 0
        assert examine(user) == {}
        assert user.memsyncd("stop").returncode == 0
    user.do("umount", "-l", str(far))
    shutil.rmtree(near)


@pytest.mark.parametrize(
    ("variable", "what"), [("XDG_STATE_HOME", "history"), ("XDG_CACHE_HOME", "indexes")]
)
def test_databases_on_a_network_are_found(user: Manager, variable: str, what: str) -> None:
    far = user.folder / "far"
    far.mkdir(exist_ok=True)
    with user.begin(sys.executable, str(SERVER), str(far)):
        findings = examine(user, **{variable: str(far)})
        assert findings["filesystem"]["level"] == "error"
        assert what in findings["filesystem"]["what"]
        assert variable in findings["filesystem"]["remedy"]
        assert "filesystem" not in examine(user)
    user.do("umount", "-l", str(far))
