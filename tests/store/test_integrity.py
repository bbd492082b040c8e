"""Damage on the disk is found, whatever the daemon has in memory, and only where there is damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memsyncd.errors import StoreCorrupt, StoreFailed
from memsyncd.store.index import FTS_TABLES, Index
from memsyncd.store.integrity import find_damage, find_set_aside, read_generation


def fill(index: Index, put: Callable[..., object], n_notes: int = 60) -> None:
    index.apply(
        [put(f".memories/{n}.md", f"# Note {n}\n\nlarch number{n}\n") for n in range(n_notes)]
    )  # type: ignore[misc]


def has_damage(path: Path) -> bool:
    """True if damage is reported, or keeps SQLite from reading at all."""
    try:
        return bool(find_damage(path, is_thorough=False))
    except StoreCorrupt:
        return True


@pytest.mark.parametrize("is_thorough", [False, True])
def test_a_sound_index_has_no_damage(
    index: Index, put: Callable[..., object], *, is_thorough: bool
) -> None:
    fill(index, put)
    assert find_damage(index.path, is_thorough=is_thorough) == []


@pytest.mark.parametrize("table", FTS_TABLES)
def test_words_that_fts5_stores_otherwise_than_it_wrote_them_are_found(
    index: Index, put: Callable[..., object], table: str
) -> None:
    fill(index, put)
    index.close()
    other = apsw.Connection(str(index.path))
    other.execute(f"UPDATE {table}_data SET block = substr(block, 1, 20) WHERE length(block) > 40")
    other.close()
    assert has_damage(index.path)


def test_damaged_bytes_under_an_open_index_are_found(
    index: Index, put: Callable[..., object]
) -> None:
    fill(index, put)
    index.file_guard.truncate_wal()
    file = os.open(index.path, os.O_RDWR)
    os.pwrite(file, b"\xa5" * 4096, index.path.stat().st_size // 2 // 4096 * 4096)
    os.close(file)
    assert has_damage(index.path)


def test_a_file_that_is_not_a_database_counts_as_damage(tmp_path: Path) -> None:
    (tmp_path / "index.db").write_bytes(b"not a database at all, whatever its name says" * 100)
    with pytest.raises(StoreCorrupt):
        find_damage(tmp_path / "index.db", is_thorough=False)


def test_a_missing_file_is_a_failure_and_not_damage(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed):
        find_damage(tmp_path / "index.db", is_thorough=False)


def test_orphan_rows_are_found_by_a_thorough_check(
    index: Index, put: Callable[..., object]
) -> None:
    fill(index, put)
    index.close()
    other = apsw.Connection(str(index.path))
    other.execute("DELETE FROM files WHERE id = 2")
    other.close()
    assert find_damage(index.path, is_thorough=False) == []
    assert any("belongs to nothing" in each for each in find_damage(index.path, is_thorough=True))


def test_a_check_writes_nothing(index: Index, put: Callable[..., object]) -> None:
    fill(index, put)
    before = {
        each.name: each.read_bytes()
        for each in index.path.parent.iterdir()
        if not each.name.endswith("-shm")
    }
    find_damage(index.path, is_thorough=True)
    assert {
        each.name: each.read_bytes()
        for each in index.path.parent.iterdir()
        if not each.name.endswith("-shm")
    } == before


def test_the_generation_is_read_from_the_file(index: Index, put: Callable[..., object]) -> None:
    fill(index, put)
    with index.pool.acquire(5) as reader:
        assert read_generation(reader) == index.generation == 1


def test_files_that_were_set_aside_are_listed_without_their_wal_files(tmp_path: Path) -> None:
    for name in (
        "records.db",
        "records.db.damaged-12",
        "records.db.damaged-12-wal",
        "records.db.damaged-2x",
        "other.damaged-1",
    ):
        (tmp_path / name).touch()
    assert [each.name for each in find_set_aside(tmp_path / "records.db")] == [
        "records.db.damaged-12",
        "records.db.damaged-2x",
    ]
