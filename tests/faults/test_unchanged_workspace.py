"""The daemon by itself changes nothing in a workspace: no byte, no mode, no time and no name."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.daemon.conftest import Home


def read_everything(root: Path) -> dict[str, tuple[object, ...]]:
    """Return everything that could change, except the time of the last read."""
    entries = {}
    for path in (root, *root.rglob("*")):
        stat = path.lstat()
        data = path.read_bytes() if path.is_file() else None
        entries[str(path)] = (
            stat.st_ino,
            stat.st_mode,
            stat.st_mtime_ns,
            stat.st_ctime_ns,
            stat.st_nlink,
            data,
        )
    return entries


def test_indexing_searching_rebuilding_and_stopping_change_no_file_of_a_workspace(
    own: Home,
) -> None:
    root = own.make_folder()
    (root / ".memories" / "deep").mkdir(parents=True)
    (root / "MEMORY.md").write_bytes(b"\xef\xbb\xbf# Memory\r\n\r\nlarch  \r\n\r\n\r\n")
    (root / ".memories" / "odd.md").write_bytes(b"---\nkind: [\n---\n<<<<<<< HEAD\nlarch\xff\0\n")
    (root / ".memories" / "deep" / "link.md").symlink_to("../odd.md")
    (root / ".memories" / "read-only.md").write_text("larch\n")
    (root / ".memories" / "read-only.md").chmod(0o400)
    before = read_everything(root)
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        assert client.call("search", query="larch", wait="disk")["hits"]
        client.call("context", query="larch")
        client.call("get", path="MEMORY.md")
        client.call("memory", command="view", path="/memories/odd.md")
        client.call("sync", full=True)
        client.call("sync", rebuild=True)
        shutil.rmtree(own.folder / "cache")
        wait_until(lambda: own.log.read_text().count("index_rebuilt") > 1, "it did not heal")
    assert daemon.stop() == 0
    again = own.start()
    with again.client() as client:
        assert client.call("search", query="larch", wait="disk")["hits"]
        client.call("workspace.remove", workspace=str(root))
    assert again.stop() == 0
    assert read_everything(root) == before
