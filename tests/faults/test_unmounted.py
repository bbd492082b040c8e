"""The disk of a workspace is unmounted: the workspace is missing and not empty.

It answers from its index until the disk is back.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.daemon.conftest import list_digests, read_notes, wait_until
from tests.faults.conftest import code_of

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


def list_notes(client: Client) -> dict[str, str]:
    return list_digests(client)


def write(client: Client, path: str = "written.md") -> str:
    """Return the error code of a write; empty if it succeeds."""
    return code_of(
        lambda: client.call(
            "memory", command="create", path=f"/memories/{path}", file_text="written\n"
        )
    )


def move(client: Client, old: str, new: str) -> str:
    """Return the error code of a rename; empty if it succeeds."""
    paths = {"old_path": f"/memories/{old}", "new_path": f"/memories/{new}"}
    return code_of(lambda: client.call("memory", command="rename", **paths))


def check_nothing_is_written_to(mount_point: Path, client: Client) -> None:
    name = mount_point.name
    assert write(client, f"{name}/written.md") == "unwritable"
    assert write(client, "beside.md") == ""
    assert move(client, "beside.md", f"{name}/moved.md") == "unwritable"
    assert list(mount_point.iterdir()) == []


def test_an_unmounted_root_is_missing_and_keeps_its_index(
    own: Home, mount: Callable[[Path, str], None]
) -> None:
    root = own.make_folder()
    mount(root, "10m")
    fill(root, "larch")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync")
        unmount(root)
        # A write is refused even before a scan: the text would lie beneath the disk later.
        assert write(client) == "unwritable"
        wait_until(lambda: status(client)["state"] == "missing", "nobody noticed")
        assert write(client) == "unwritable"
        assert list(root.iterdir()) == []
        client.call("sync", full=True)
        assert len(find(client, "larch")) == N_NOTES
        assert client.call("history")["revisions"] == []
        mount(root, "10m")
        fill(root, "maple")
        assert write(client) == ""
        wait_until(lambda: len(find(client, "maple")) == N_NOTES, "it was not taken up")
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        unmount(root)
    assert daemon.stop() == 0
    again = own.start()
    with again.client() as client:
        wait_until(lambda: status(client)["state"] == "missing", "nobody noticed at the start")
        assert len(find(client, "maple")) == N_NOTES
        # Another folder in its place is a workspace like any other.
        fill(root, "hazel")
        wait_until(lambda: len(find(client, "hazel")) == N_NOTES, "it was not taken up")
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        wait_until(
            lambda: list_notes(client) == read_notes(root), "the index differs from the disk"
        )
    assert again.stop() == 0


def test_a_rebuild_while_the_disk_is_unmounted_does_not_count_it_as_empty(
    own: Home, mount: Callable[[Path, str], None]
) -> None:
    root = own.make_folder()
    mount(root, "10m")
    fill(root, "larch")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync")
        unmount(root)
        assert code_of(lambda: client.call("sync", rebuild=True, timeout_ms=200)) == "timeout"
        assert len(find(client, "larch")) == N_NOTES
        shutil.rmtree(own.folder / "cache")
        wait_until(
            lambda: "index.db was deleted or replaced" in own.log.read_text(), "nobody noticed"
        )
        wait_until(lambda: status(client)["state"] == "missing", "it is not missed")
        assert len(find(client, "larch")) == N_NOTES, "the open index answers"
    assert daemon.stop() == 0
    again = own.start()
    with again.client() as client:
        wait_until(lambda: status(client)["state"] == "missing", "it is not missed")
        assert "missing" in client.call("search", query="larch")["why_empty"]
        assert client.call("history")["revisions"] == []
        mount(root, "10m")
        fill(root, "maple")
        wait_until(lambda: len(find(client, "maple")) == N_NOTES, "it was not taken up")
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        shutil.rmtree(root / ".memories")
        wait_until(lambda: status(client)["files"] == 0, "what is gone stayed")
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
    assert again.stop() == 0


def test_notes_that_another_disk_in_the_place_of_a_vault_lacks_are_removed(
    own: Home, mount: Callable[[Path, str], None]
) -> None:
    root = own.make_folder()
    for number in range(N_NOTES):
        (root / f"{number}.md").write_text("larch\n")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root), preset="vault")
        client.call("sync")
        mount(root, "10m")
        wait_until(lambda: status(client)["state"] == "missing", "nobody noticed")
        (root / "other.md").write_text("maple\n")
        wait_until(lambda: list(list_notes(client)) == ["other.md"], "what is gone stayed")
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        unmount(root)
        wait_until(lambda: len(find(client, "larch")) == N_NOTES, "it was not taken up")
        wait_until(lambda: not find(client, "maple"), "what is gone stayed")
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
    assert daemon.stop() == 0


def test_notes_of_a_disk_beneath_a_root_or_where_a_link_leads_stay_while_it_is_unmounted(
    own: Home, mount: Callable[[Path, str], None]
) -> None:
    root, elsewhere = own.make_folder(), own.make_folder()
    inside, linked = root / "with space", elsewhere / "disk"
    for folder, word in ((inside, "larch"), (linked, "maple")):
        mount(folder, "10m")
        (folder / "deep").mkdir()
        for number in range(N_NOTES):
            (folder / "deep" / f"{number}.md").write_text(f"{word} number{number}\n")
    (root / "own.md").write_text("hazel\n")
    (root / "link").symlink_to(linked / "deep")
    own.config.write_text(
        f'[[workspace]]\npath = "{root}"\npreset = "vault"\nallow_links_to = ["{elsewhere}"]\n'
    )
    daemon = own.start()
    with daemon.client() as client:
        client.call("sync")
        unmount(inside)
        unmount(linked)
        linked.rmdir()  # as programs do when a disk is plugged in
        wait_until(lambda: status(client)["state"] == "degraded", "nobody noticed")
        client.call("sync", full=True)
        (root / "own.md").unlink()
        wait_until(lambda: not find(client, "hazel"), "what is gone stayed")
        assert len(find(client, "larch")) == len(find(client, "maple")) == N_NOTES
        assert client.call("sync")["removed"] == 0
        problems = {
            problem["path"]: problem["code"] for problem in client.call("problems")["problems"]
        }
        assert problems["with space"] == problems["link"] == "not_mounted"
        assert [revision["path"] for revision in client.call("history")["revisions"]] == ["own.md"]
        check_nothing_is_written_to(inside, client)
    assert daemon.stop() == 0
    again = own.start()
    with again.client() as client:
        client.call("sync")
        assert len(find(client, "larch")) == len(find(client, "maple")) == N_NOTES
        mount(inside, "10m")
        mount(linked, "10m")
        (inside / "deep").mkdir()
        (inside / "deep" / "0.md").write_text("larch number0\n")
        (linked / "deep").mkdir()
        client.call("sync")
        wait_until(lambda: len(find(client, "larch")) == 1, "what is gone stayed")
        wait_until(lambda: not find(client, "maple"), "what is gone stayed")
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        unmount(inside)
        client.call("sync")
        assert status(client)["state"] == "degraded"
        inside.rmdir()
        wait_until(lambda: status(client)["state"] == "ready", "it is not ready")
        wait_until(lambda: not find(client, "larch"), "what is gone stayed")
    assert again.stop() == 0
