"""What is known about a database before it is opened, and what each part of a full check finds."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memsyncd.errors import IndexUnfit, NotFresh, StoreCorrupt
from memsyncd.store.index import Index
from memsyncd.store.integrity import (
    CHECK_INTERVAL_S,
    PAGES,
    CheckState,
    Ending,
    check_part,
)
from memsyncd.store.records import Records

Open = Callable[..., Index]
Put = Callable[..., object]


def fill(index: Index, put: Put, n_notes: int = 60) -> None:
    index.apply(
        [put(f".memories/{n}.md", f"# Note {n}\n\nlarch number{n}\n") for n in range(n_notes)]  # type: ignore[misc]
    )


def write_raw(path: Path, statement: str) -> None:
    other = apsw.Connection(str(path))
    other.execute(statement)
    other.close()


PART_TEXT = "UPDATE chunks_fts_data SET block = randomblob(length(block)) WHERE id > 10"


def check(index: Index, part: str) -> str:
    return check_part(index.open_apart(), part, is_cancelled=lambda: False)


def count_pages_read(index: Index) -> int:
    return index._writer.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]


def test_opening_an_index_that_was_closed_reads_as_little_however_much_it_holds(
    open_index: Open, put: Put
) -> None:
    read = {}
    for name, n_notes in (("small.db", 20), ("large.db", 1500)):
        filled = open_index(name)
        fill(filled, put, n_notes)
        filled.close()
        index = open_index(name)
        assert index.checks.ending is Ending.CLEAN
        assert index.counts.files == n_notes
        read[name] = count_pages_read(index)
    # A b-tree with more rows has a further level.
    assert read["large.db"] <= read["small.db"] + 10


def test_the_counts_are_right_although_the_rows_are_not_counted(open_index: Open, put: Put) -> None:
    index = open_index()
    fill(index, put)
    index.close()
    again = open_index()
    assert again.counts == again._count()
    again._writer.execute("DELETE FROM meta WHERE key = 'counts'")
    again.close()
    assert open_index().counts == again.counts


def test_an_index_that_another_program_changed_after_it_was_closed_is_checked_when_it_is_opened(
    open_index: Open, put: Put
) -> None:
    index = open_index()
    fill(index, put)
    index.close()
    write_raw(index.path, PART_TEXT)
    with pytest.raises(IndexUnfit, match="damaged"):
        open_index()
    # Nobody has rebuilt the file, so it still counts as damaged.
    with pytest.raises(IndexUnfit, match="damaged"):
        open_index()


def test_an_index_that_was_not_closed_is_opened_and_all_of_it_is_due(
    open_index: Open, put: Put
) -> None:
    index = open_index()
    fill(index, put)
    assert index.checks.due() == []
    # As after a kill, nothing was saved about the end.
    again = open_index()
    assert again.checks.ending is Ending.UNCLEAN
    assert again.checks.due() == [PAGES, "chunks_fts", "chunks_exact"]


def test_the_next_run_remembers_checked_parts_for_a_day(
    open_index: Open, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = open_index()
    fill(index, put)
    index.close()
    again = open_index()
    assert again.checks.due() == [PAGES, "chunks_fts", "chunks_exact"]
    again.checks.note_checked("chunks_fts")
    again.close()
    later = open_index()
    assert later.checks.due() == [PAGES, "chunks_exact"]
    now_s = time.time() + CHECK_INTERVAL_S
    monkeypatch.setattr("time.time", lambda: now_s)
    assert later.checks.due() == [PAGES, "chunks_fts", "chunks_exact"]
    # A clock that was set back proves nothing either.
    monkeypatch.setattr("time.time", lambda: 1.0)
    assert later.checks.due() == [PAGES, "chunks_fts", "chunks_exact"]


def test_checked_parts_are_due_in_the_next_run_if_somebody_has_written_since(
    open_index: Open, put: Put
) -> None:
    index = open_index()
    fill(index, put)
    while index.tidy():
        pass
    index.checks.note_checked()
    write_raw(index.path, PART_TEXT)
    index.close()
    again = open_index()
    assert again.checks.ending is Ending.CLEAN
    assert again.checks.due() == [PAGES, "chunks_fts", "chunks_exact"]


def test_damage_that_was_noted_outlives_a_kill_and_a_close(open_index: Open, put: Put) -> None:
    index = open_index()
    fill(index, put)
    index.checks.note_damage()
    assert CheckState(index.path).ending is Ending.DOUBTFUL
    index.checks.note_damage()
    index.close()
    assert CheckState(index.path).ending is Ending.DOUBTFUL


def touch(path: Path) -> None:
    os.utime(path)


def replace_by_copy(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def write_nonsense_beside(path: Path) -> None:
    Path(f"{path}-check").write_bytes(b'{"closed": 7')


def add_log(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"frames of somebody")


@pytest.mark.parametrize(
    ("change", "ending"),
    [
        (lambda _path: None, Ending.CLEAN),
        (touch, Ending.DOUBTFUL),
        (replace_by_copy, Ending.DOUBTFUL),
        (Path.unlink, Ending.DOUBTFUL),
        (write_nonsense_beside, Ending.UNCLEAN),
        (add_log, Ending.UNCLEAN),
    ],
)
def test_how_it_ended_is_told_by_the_file(
    open_index: Open, put: Put, change: Callable[[Path], None], ending: Ending
) -> None:
    index = open_index()
    fill(index, put)
    index.close()
    change(index.path)
    assert CheckState(index.path).ending is ending
    # From now on the process that opened it decides.
    assert not Path(f"{index.path}-check").exists()


def test_an_index_that_was_replaced_while_it_was_open_vouches_for_nothing(
    open_index: Open, put: Put
) -> None:
    index = open_index()
    fill(index, put)
    replace_by_copy(index.path)
    index.close()
    assert not Path(f"{index.path}-check").exists()


def test_each_part_finds_its_own_damage(open_index: Open, put: Put) -> None:
    index = open_index()
    fill(index, put)
    assert [check(index, part) for part in index.checks.parts] == ["", "", ""]
    write_raw(index.path, PART_TEXT)
    assert [bool(check(index, part)) for part in index.checks.parts] == [False, True, False]


def test_rotten_bytes_are_found_in_the_pages(open_index: Open, put: Put) -> None:
    index = open_index()
    fill(index, put, 400)
    while index.tidy():
        pass
    file = os.open(index.path, os.O_RDWR)
    for page in range(8, index.path.stat().st_size // 4096):
        os.pwrite(file, b"\xa5" * 64, page * 4096)
    os.close(file)
    with contextlib.suppress(StoreCorrupt):
        assert check(index, PAGES)


def test_a_check_ends_when_it_is_told_to(open_index: Open, put: Put) -> None:
    index = open_index()
    fill(index, put, 1500)
    # FTS5's tables hold no texts to compare with, so only the pages take long.
    with pytest.raises(NotFresh):
        check_part(index.open_apart(), PAGES, is_cancelled=lambda: True)


def test_records_are_opened_without_a_check_only_if_they_were_closed(tmp_path: Path) -> None:
    path = tmp_path / "records.db"

    def open_records() -> Records:
        return Records(path, workspace="w", root="/w", now_s=1.0)

    open_records().close()
    closed = open_records()
    assert closed.checks.ending is Ending.CLEAN
    # Opening wrote to it.
    assert closed.checks.due() == [PAGES]
    closed.close()
    data = bytearray(path.read_bytes())
    for page in range(3, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(data)
    damaged = open_records()
    assert damaged.set_aside is not None
    damaged.close()
