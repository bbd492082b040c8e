"""Somebody deletes, replaces or damages what notes said before: nothing of it is thrown away, and what is lost is said."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.daemon.kept import Kept

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

N_WRITES = 3


@pytest.fixture
def kept(own: Home) -> Iterator[Kept]:
    kept = Kept(own, own.start())
    write(kept, *range(N_WRITES))
    yield kept
    kept.client.close()
    assert kept.daemon.stop() == 0, own.read_log()


def write(kept: Kept, *numbers: int) -> None:
    for number in numbers:
        kept.client.call(
            "memory", command="create", path=f"/memories/w{number}.md", file_text=f"written{number}\n", workspace=kept.id
        )
        kept.n_notes += 1


def written(kept: Kept) -> list[int]:
    """Which writes the history knows, newest first."""
    revisions = kept.client.call("history", workspace=kept.id)["revisions"]
    return [int(one["path"].removeprefix(".memories/w").removesuffix(".md")) for one in revisions if "/w" in one["path"]]


def wait_heard(kept: Kept, what: str) -> None:
    kept.wait(lambda: what in kept.log(), f"nobody noticed: {what}")


def kill(kept: Kept) -> None:
    kept.client.close()
    kept.daemon.kill()
    kept.daemon = kept.home.start()
    kept.client = kept.daemon.client()
    kept.wait(lambda: kept.status()["state"] == "ready", "it is not ready")


def empty_log(kept: Kept) -> None:
    """Have all of it stand in the file, as it does sooner or later."""
    with contextlib.closing(sqlite3.connect(kept.records)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    wait_heard(kept, "records.db was written by another program")
    written(kept)  # has to wait until it is open again


def test_records_that_are_damaged_are_set_aside_and_never_deleted(kept: Kept) -> None:
    def harm() -> None:
        kept.records.write_bytes(b"these were records" * 1000)

    kept.restart(between=harm)
    kept.wait(lambda: kept.status()["state"] == "ready", "it is not ready")
    assert len(kept.find("larch", wait="disk")) == 20
    (aside,) = kept.records.parent.glob("records.db.damaged-*")
    assert aside.read_bytes().startswith(b"these were records")
    assert "records.db was damaged and set aside" in kept.log()


def test_records_of_a_newer_program_are_left_alone_and_said(kept: Kept) -> None:
    def harm() -> None:
        with sqlite3.connect(kept.records) as file:
            file.execute("PRAGMA user_version = 999")

    kept.restart(between=harm)
    kept.wait(lambda: any("newer" in reason for reason in kept.status()["reasons"]), "nothing was said")
    assert len(kept.find("larch", wait="disk")) == 20
    with sqlite3.connect(kept.records) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (999,)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_records_whose_log_is_deleted_while_they_are_open_lose_nothing(kept: Kept, suffix: str) -> None:
    Path(f"{kept.records}{suffix}").unlink()
    wait_heard(kept, "records.db lost its -wal or -shm file")
    write(kept, 3)
    kill(kept)
    assert written(kept) == [3, 2, 1, 0]
    assert not kept.status()["reasons"]


def delete(kept: Kept) -> None:
    kept.records.unlink()


def delete_folder(kept: Kept) -> None:
    shutil.rmtree(kept.records.parent)


def replace_by_a_folder(kept: Kept) -> None:
    delete(kept)
    kept.records.mkdir()
    (kept.records / "file").write_text("somebody's own\n")


@pytest.mark.parametrize("harm", [delete, delete_folder, replace_by_a_folder], ids=lambda harm: harm.__name__)
def test_records_that_are_taken_away_while_they_are_open_begin_anew_and_it_is_said(
    kept: Kept, harm: Callable[[Kept], None]
) -> None:
    harm(kept)
    wait_heard(kept, "records.db was deleted or replaced")
    write(kept, 3)
    assert written(kept) == [3]
    status = kept.status()
    assert status["state"] == "ready"
    assert "was deleted or replaced while memsyncd ran" in status["reasons"][0]
    kill(kept)
    assert written(kept) == [3]


@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_backup_that_is_put_in_the_place_of_open_records_is_what_counts(kept: Kept, is_in_place: bool) -> None:
    empty_log(kept)
    backup = kept.records.with_name("backup")
    shutil.copyfile(kept.records, backup)
    write(kept, 3, 4)
    if is_in_place:
        kept.records.write_bytes(backup.read_bytes())
        kept.wait(lambda: kept.log().count("records.db was written by another program") == 2, "nobody noticed")
    else:
        backup.replace(kept.records)
        wait_heard(kept, "records.db was deleted or replaced")
    write(kept, 5)
    kill(kept)
    # What came after the backup may be there as well, if its log went with it.
    assert [number for number in written(kept) if number not in (3, 4)] == [5, 2, 1, 0]
    with contextlib.closing(sqlite3.connect(kept.records)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("size", [0, 4096])
def test_records_that_are_damaged_while_they_are_open_are_set_aside_and_said(kept: Kept, size: int) -> None:
    empty_log(kept)
    garbage = os.urandom(kept.records.stat().st_size)
    kept.records.write_bytes(garbage[:size])
    kept.wait(lambda: list(kept.records.parent.glob("records.db.damaged-*")) != [], "they were not set aside")
    write(kept, 3)
    assert written(kept) == [3]
    aside = next(path for path in kept.records.parent.glob("records.db.damaged-*") if not path.name.endswith(("-wal", "-shm")))
    assert aside.read_bytes() == garbage[:size]
    assert kept.status()["state"] == "ready"
    assert any(aside.name in reason for reason in kept.status()["reasons"])
    assert any(aside.name in problem["problem"] for problem in kept.client.call("problems")["problems"])
    kill(kept)
    assert any(aside.name in reason for reason in kept.status()["reasons"])
    for path in kept.records.parent.glob("records.db.damaged-*"):
        path.rename(kept.home.folder / path.name)
    kept.wait(lambda: not kept.status()["reasons"], "it is still said")
    assert written(kept) == [3]
