"""Records are deleted, replaced or damaged: memsyncd deletes no part of them and reports losses."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.daemon.workspace_files import WorkspaceFiles

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

N_WRITES = 3


LOOKS = "[sync]\nreconcile_s = 0.3\n"


@pytest.fixture(scope="module")
def home(make_home: Callable[..., Home]) -> Home:
    return make_home(LOOKS)


@pytest.fixture
def kept(home: Home, daemon: Daemon) -> Iterator[WorkspaceFiles]:
    kept = WorkspaceFiles(home, daemon)
    write(kept, *range(N_WRITES))
    yield kept
    kept.client.call("workspace.remove", workspace=kept.id)
    kept.client.close()


@pytest.fixture
def pair(make_home: Callable[..., Home]) -> Iterator[tuple[WorkspaceFiles, WorkspaceFiles]]:
    """Two files of a daemon that ends before the test does."""
    home = make_home(LOOKS)
    daemon = home.start()
    pair = WorkspaceFiles(home, daemon), WorkspaceFiles(home, daemon)
    for kept in pair:
        write(kept, *range(N_WRITES))
    yield pair
    for kept in pair:
        kept.client.close()


def write(kept: WorkspaceFiles, *numbers: int) -> None:
    for number in numbers:
        kept.client.call(
            "memory",
            command="create",
            path=f"/memories/w{number}.md",
            file_text=f"written{number}\n",
            workspace=kept.id,
        )
        kept.n_notes += 1


def written(kept: WorkspaceFiles) -> list[int]:
    """The writes that the history has, newest first."""
    revisions = kept.client.call("history", workspace=kept.id)["revisions"]
    return [
        int(revision["path"].removeprefix(".memories/w").removesuffix(".md"))
        for revision in revisions
        if "/w" in revision["path"]
    ]


def wait_for_log(kept: WorkspaceFiles, what: str) -> None:
    kept.wait(lambda: what in kept.log(), f"nobody noticed: {what}")


def start_again(pair: tuple[WorkspaceFiles, WorkspaceFiles]) -> None:
    daemon = pair[0].home.start()
    for kept in pair:
        kept.client.close()
        kept.daemon, kept.client = daemon, daemon.client()


def written_on_disk(kept: WorkspaceFiles) -> list[int]:
    """The same, as a reader after a crash would find it."""
    with tempfile.TemporaryDirectory(dir=kept.home.folder) as folder:
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{kept.records}{suffix}", f"{folder}/records.db{suffix}")
        with contextlib.closing(sqlite3.connect(f"{folder}/records.db")) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            rows = file.execute(
                "SELECT path FROM revisions WHERE state = 'done' AND path LIKE '%/w%' ORDER BY id DESC"
            )
            return [int(path.removeprefix(".memories/w").removesuffix(".md")) for (path,) in rows]


def empty_log(kept: WorkspaceFiles) -> None:
    """Move all rows to the file, as happens sooner or later."""
    with contextlib.closing(sqlite3.connect(kept.records)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # A full scan records the current size of the file.
    kept.client.call("sync", workspace=kept.id)


def test_damaged_records_are_set_aside_and_those_of_a_newer_program_stay_unchanged(
    pair: tuple[WorkspaceFiles, WorkspaceFiles],
) -> None:
    damaged, newer = pair
    assert damaged.daemon.stop() == 0
    damaged.records.write_bytes(b"these were records" * 1000)
    with sqlite3.connect(newer.records) as file:
        file.execute("PRAGMA user_version = 999")
    start_again(pair)
    damaged.wait(lambda: damaged.status()["state"] == "ready", "it is not ready")
    newer.wait(
        lambda: any("newer" in reason for reason in newer.status()["reasons"]), "nothing was said"
    )
    assert [len(kept.find("larch", wait="disk")) for kept in pair] == [20, 20]
    (aside,) = damaged.records.parent.glob("records.db.damaged-*")
    assert aside.read_bytes().startswith(b"these were records")
    assert "records.db was damaged and set aside" in damaged.log()
    with sqlite3.connect(newer.records) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (999,)


def test_records_whose_wal_is_deleted_while_they_are_open_lose_nothing(
    pair: tuple[WorkspaceFiles, WorkspaceFiles],
) -> None:
    for kept, suffix in zip(pair, ("-wal", "-shm"), strict=True):
        Path(f"{kept.records}{suffix}").unlink()
        wait_for_log(kept, "records.db lost its -wal or -shm file")
        write(kept, 3)
    pair[0].daemon.kill()
    start_again(pair)
    for kept in pair:
        kept.wait(lambda kept=kept: kept.status()["state"] == "ready", "it is not ready")
        assert written(kept) == [3, 2, 1, 0]
        assert not kept.status()["reasons"]


def delete(kept: WorkspaceFiles) -> None:
    kept.records.unlink()


def delete_folder(kept: WorkspaceFiles) -> None:
    shutil.rmtree(kept.records.parent)


def replace_by_a_folder(kept: WorkspaceFiles) -> None:
    delete(kept)
    kept.records.mkdir()
    (kept.records / "file").write_text("another program's\n")


@pytest.mark.parametrize(
    "tamper", [delete, delete_folder, replace_by_a_folder], ids=lambda tamper: tamper.__name__
)
def test_records_removed_while_they_are_open_are_created_again_and_reported(
    kept: WorkspaceFiles, tamper: Callable[[WorkspaceFiles], None]
) -> None:
    tamper(kept)
    wait_for_log(kept, "records.db was deleted or replaced")
    write(kept, 3)
    assert written(kept) == [3]
    status = kept.status()
    assert status["state"] == "ready"
    assert "was deleted or replaced while memsyncd ran" in status["reasons"][0]
    assert written_on_disk(kept) == [3]


def test_a_backup_put_in_place_of_open_records_is_used(kept: WorkspaceFiles) -> None:
    empty_log(kept)
    backup = kept.records.with_name("backup")
    shutil.copyfile(kept.records, backup)
    write(kept, 3, 4)
    backup.replace(kept.records)
    wait_for_log(kept, "records.db was deleted or replaced")
    write(kept, 5)
    # Changes after the backup may be there as well, if the backup came with its WAL.
    assert [number for number in written(kept) if number not in (3, 4)] == [5, 2, 1, 0]
    assert [number for number in written_on_disk(kept) if number not in (3, 4)] == [5, 2, 1, 0]


def test_records_damaged_while_they_are_open_are_set_aside_and_reported(
    pair: tuple[WorkspaceFiles, WorkspaceFiles],
) -> None:
    for kept, size in zip(pair, (0, 4096), strict=True):
        empty_log(kept)
        garbage = os.urandom(kept.records.stat().st_size)[:size]
        kept.records.write_bytes(garbage)
        kept.wait(lambda kept=kept: find_aside(kept) is not None, "they were not set aside")
        write(kept, 3)
        assert written(kept) == [3]
        assert find_aside(kept).read_bytes() == garbage
        assert kept.status()["state"] == "ready"
        assert is_said(kept)
        assert any(
            find_aside(kept).name in problem["problem"]
            for problem in kept.client.call("problems", workspace=kept.id)["problems"]
        )
    pair[0].daemon.kill()
    start_again(pair)
    for kept in pair:
        kept.wait(lambda kept=kept: kept.status()["state"] == "ready", "it is not ready")
        assert is_said(kept)
        for path in kept.records.parent.glob("records.db.damaged-*"):
            path.rename(kept.home.folder / f"{kept.id}-{path.name}")
        kept.wait(lambda kept=kept: not kept.status()["reasons"], "it is still said")
        assert written(kept) == [3]


def find_aside(kept: WorkspaceFiles) -> Path | None:
    aside = kept.records.parent.glob("records.db.damaged-*")
    return next((path for path in aside if not path.name.endswith(("-wal", "-shm"))), None)


def is_said(kept: WorkspaceFiles) -> bool:
    aside = find_aside(kept)
    return aside is not None and any(aside.name in reason for reason in kept.status()["reasons"])
