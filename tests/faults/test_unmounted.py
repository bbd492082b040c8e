"""A workspace lies on a disk that goes away: it is missing and not empty, and answers from its index until the disk is back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.daemon.conftest import read_notes, wait_until

if TYPE_CHECKING:
    from memsyncd.client import Client
    from tests.daemon.conftest import Home

N_NOTES = 5


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(root: Path, word: str) -> None:
    (root / ".memories").mkdir(exist_ok=True)
    for number in range(N_NOTES):
        (root / ".memories" / f"{number}.md").write_text(f"{word} number{number}\n")


def status(client: Client) -> dict[str, Any]:
    return dict(client.call("status")["workspaces"][0])


def find(client: Client, word: str) -> list[str]:
    return [hit["path"] for hit in client.call("search", query=word)["hits"]]


def test_a_root_that_is_unmounted_is_missing_and_forgets_nothing(own: Home, mount: Callable[[Path, str], None]) -> None:
    root = own.make_folder()
    mount(root, "10m")
    fill(root, "larch")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync")
        unmount(root)
        wait_until(lambda: status(client)["state"] == "missing", "nobody noticed")
        client.call("sync", full=True)
        assert len(find(client, "larch")) == N_NOTES
        assert client.call("history")["revisions"] == []
        mount(root, "10m")
        fill(root, "maple")
        wait_until(lambda: len(find(client, "maple")) == N_NOTES, "it was not taken up")
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        unmount(root)
    assert daemon.stop() == 0
    again = own.start()
    with again.client() as client:
        wait_until(lambda: status(client)["state"] == "missing", "nobody noticed at the start")
        assert len(find(client, "maple")) == N_NOTES
        # A folder of one's own in its place is a workspace like any other.
        fill(root, "hazel")
        wait_until(lambda: len(find(client, "hazel")) == N_NOTES, "it was not taken up")
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        assert {note["path"]: note["digest"] for note in client.call("list")["notes"]} == read_notes(root)
    assert again.stop() == 0
