from __future__ import annotations

import os
import re
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.changes.diff import FileStat, Recorded, hash_record, hash_stat
from memsyncd.errors import IndexUnfit, StoreCorrupt, StoreFailed
from memsyncd.store import index as index_module
from memsyncd.store.connection import WAL_LIMIT_BYTES
from memsyncd.store.index import (
    FULL_MERGE_SHARE,
    TRUNCATED_WAL_BYTES,
    Counts,
    DropNote,
    Index,
    PutNote,
    TouchNote,
    Update,
    remove_index,
)
from memsyncd.store.integrity import Tampering
from memsyncd.store.outlooks import Range, count_expired
from memsyncd.store.rows import read_stat_row, stat_row
from memsyncd.store.schema import (
    PERIOD_BITS,
    QUESTION_INDEXES,
    SCHEMA,
    compute_fingerprint,
    compute_user_version,
    create_schema,
)
from memsyncd.store.texts import read_note_text
from tests.store.conftest import FINGERPRINT, put_note

Put = Callable[..., PutNote]
Open = Callable[..., Index]
SUFFIXES = ("", "-wal", "-shm")


def ask(index: Index, statement: str, *bindings: object) -> list[tuple[object, ...]]:
    with index.pool.acquire(5) as reader:
        return reader.rows(statement, bindings)


def tidy(index: Index) -> None:
    while index.tidy():
        pass


def write_raw(path: Path, *statements: str) -> None:
    """Write to the file as another program would."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


# --- known stats ----------------------------------------------------------------------------------

PATHS = ("MEMORY.md", ".memories/a.md", ".memories/a.md/b.md", ".memories/caf\u00e9.md")
GRAIN_TICKS = st.sampled_from([1, 10**10])
PATH = st.sampled_from(PATHS)
# As in a sync, no path is in a batch twice.
OLD_PATH = st.sampled_from((".memories/old.md", ".memories/older.md"))
UPDATE = st.one_of(
    st.tuples(st.just("put"), PATH, st.none() | OLD_PATH, st.integers(1, 9), GRAIN_TICKS),
    st.tuples(st.just("touch"), PATH, st.none(), st.integers(1, 9), GRAIN_TICKS),
    st.tuples(st.just("drop"), PATH, st.none(), st.just(0), st.just(0)),
)
PUT_OLD = st.tuples(st.just("put"), OLD_PATH, st.none(), st.integers(1, 9), GRAIN_TICKS)

BATCH = st.lists(
    UPDATE | PUT_OLD, max_size=4, unique_by=(lambda row: row[1], lambda row: row[2] or row[1])
)


def make_update(kind: str, path: str, old: str | None, tick: int, ahead: int) -> Update:
    stat = FileStat(tick, tick, tick, tick, 1)
    match kind:
        case "put":
            return msgspec.structs.replace(
                put_note(path, f"text {tick}", moved_from=old, tick=tick), read_at_ns=ahead
            )
        case "touch":
            return TouchNote(path=path, stat=stat, read_at_ns=ahead)
        case _:
            return DropNote(path)


def read_known(recorded: dict[str, Recorded]) -> dict[str, int]:
    return {
        path: hash_record(path, record.stat, record.read_at_ns) for path, record in recorded.items()
    }


@given(st.lists(st.tuples(BATCH, st.booleans()), max_size=6))
def test_the_known_stats_are_those_in_the_file_after_any_updates_and_failures(
    batches: list[tuple[list[tuple[str, str, str | None, int, int]], bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "index.db", "f" * 32)
        for batch, must_fail in batches:
            updates: list[Update] = [make_update(*row) for row in batch]
            if must_fail:
                with pytest.raises(AssertionError):
                    index.apply([*updates, object()])  # type: ignore[list-item]
            else:
                index.apply(updates)
            assert index.known_stats() == read_known(index.recorded())
        index.close()


def test_the_known_stats_are_read_again_after_many_updates(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "one")])
    before = index.known_stats()
    n_notes = index_module.KNOWN_UPDATES_LIMIT + 1
    index.apply([put(f".memories/{number}.md", "text") for number in range(n_notes)])
    assert index.known_stats() is not before
    assert index.known_stats() == read_known(index.recorded())
    assert len(index.known_stats()) == n_notes + 1


def test_the_records_of_exactly_these_files_are_found(
    index: Index, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.apply([put(".memories/a", "one"), put(".memories/a/b.md", "two"), put("c.md", "three")])
    paths = {".memories/a", "c.md", "gone.md"}
    assert index.find_recorded(paths).keys() == {".memories/a", "c.md"}
    assert index.find_recorded(set()) == {}
    monkeypatch.setattr(index_module, "MANY_PATHS", 1)
    assert index.find_recorded(paths).keys() == {".memories/a", "c.md"}


def test_a_note_whose_inode_takes_64_bits_is_skipped(index: Index) -> None:
    stat = FileStat(1, 1, 1, 2**64 - 1, 1)
    index.apply(
        [msgspec.structs.replace(put_note("MEMORY.md", "one"), stat=stat, read_at_ns=10**10)]
    )
    index._known = None
    assert index.known_stats() == {"MEMORY.md": hash_stat(stat[:4])}


# --- opening --------------------------------------------------------------------------------------


def test_a_missing_index_is_created_with_its_folder(tmp_path: Path) -> None:
    index = Index(tmp_path / "new" / "index.db", "f" * 32, generation=7)
    assert (index.is_new, index.generation, index.counts) == (True, 7, Counts())
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    index.close()


def test_an_empty_file_is_a_missing_index(tmp_path: Path, open_index: Open) -> None:
    (tmp_path / "index.db").touch()
    assert open_index().is_new


def test_an_index_opens_with_its_former_content(open_index: Open, put: Put) -> None:
    first = open_index()
    first.apply([put("MEMORY.md", "# a\nred\n# b\nblue\n"), put(".memories/b.md", "[[ c")])
    first.close()
    second = open_index()
    assert not second.is_new
    assert (second.generation, second.counts, second.recorded()) == (
        first.generation,
        first.counts,
        second.recorded(),
    )
    assert second.counts.files == 2
    second.apply([put(".memories/c.md", "# new\nrows get ids of their own\n")])
    assert second.counts.files == 3


def test_an_index_of_another_program_version_or_chunking_is_unfit(open_index: Open) -> None:
    open_index().close()
    with pytest.raises(IndexUnfit, match="version"):
        open_index(fingerprint=compute_fingerprint("other chunks"))


def test_the_fingerprint_depends_on_the_schema_and_the_chunking() -> None:
    assert compute_fingerprint("a") != compute_fingerprint("b")
    assert "CREATE" in SCHEMA
    assert compute_user_version("0" * 32) == 1
    assert 0 < compute_user_version("f" * 32) < 2**31


def test_a_filled_index_gets_its_last_indexes_in_the_end_or_when_it_is_opened(
    tmp_path: Path, put: Put
) -> None:
    def list_indexes(index: Index) -> set[object]:
        names = ask(
            index, "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
        )
        return {name for (name,) in names}

    ordinary = Index(tmp_path / "ordinary.db", FINGERPRINT)
    every = list_indexes(ordinary)
    ordinary.close()
    path = tmp_path / "index.db"
    Index(path, FINGERPRINT).close()
    filling = Index(path, FINGERPRINT, is_filling=True)
    few = list_indexes(filling)
    assert len(few) < len(every)
    filling.apply([put("MEMORY.md", "one")])
    filling.close()
    # The process died, and another goes on: an index that has notes is left as it is.
    again = Index(path, FINGERPRINT, is_filling=True)
    assert list_indexes(again) == few
    again.close()
    for is_filling in (False, True):
        index = Index(path, FINGERPRINT, is_filling=is_filling)
        assert list_indexes(index) == every
        index.close()
    later = {sql.split()[2] for sql in QUESTION_INDEXES}
    assert every - few == later
    named = "".join(file.read_text() for file in Path(index_module.__file__).parent.glob("*.py"))
    assert later.isdisjoint(re.findall(r"INDEXED BY (\w+)", named))


def test_other_programs_can_read_the_schema_from_user_version(
    open_index: Open, tmp_path: Path
) -> None:
    fingerprint = open_index().fingerprint
    connection = sqlite3.connect(tmp_path / "index.db")
    assert connection.execute("PRAGMA user_version").fetchone()[0] == compute_user_version(
        fingerprint
    )
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE files(x)",
        "CREATE TABLE meta(x)",
        "CREATE TABLE meta(key, value)",
        "CREATE VIEW meta AS SELECT 1 AS key, 2 AS value",
    ],
)
def test_a_database_of_another_program_is_unfit(
    tmp_path: Path, open_index: Open, statement: str
) -> None:
    write_raw(tmp_path / "index.db", statement)
    with pytest.raises(IndexUnfit):
        open_index()


def test_an_index_that_lost_a_table_is_unfit(tmp_path: Path, open_index: Open) -> None:
    open_index().close()
    write_raw(tmp_path / "index.db", "DROP TABLE chunks")
    with pytest.raises(IndexUnfit, match="damaged"):
        open_index()


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_not_a_database_is_unfit(
    tmp_path: Path, open_index: Open, content: bytes
) -> None:
    (tmp_path / "index.db").write_bytes(content)
    with pytest.raises(IndexUnfit, match="damaged"):
        open_index()


def test_damage_within_the_file_is_unfit_and_keeps_no_file_open(
    tmp_path: Path, open_index: Open, put: Put
) -> None:
    index = open_index()
    index.apply(
        [
            put(f".memories/{number}.md", f"# heading {number}\n{'word ' * 200}")
            for number in range(40)
        ]
    )
    index.close()
    data = bytearray((tmp_path / "index.db").read_bytes())
    for at in range(4096 * 8, len(data), 4096):
        data[at : at + 64] = b"\xa5" * 64
    (tmp_path / "index.db").write_bytes(data)
    with pytest.raises(IndexUnfit, match="damaged"):
        open_index()
    if os.path.isdir("/proc/self/fd"):
        links = [
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{fd}")
        ]
        assert not [link for link in links if link.startswith(str(tmp_path))]


def test_damage_found_while_writing_is_reported_every_time(
    tmp_path: Path, open_index: Open, put: Put
) -> None:
    index = open_index()
    index.apply([put("MEMORY.md", "one")])
    write_raw(tmp_path / "index.db", "DROP TABLE problems")
    for _ in range(2):
        with pytest.raises(StoreCorrupt):
            index.apply([put("MEMORY.md", "two")])


def test_removing_an_index_leaves_no_file(tmp_path: Path, open_index: Open, put: Put) -> None:
    index = open_index()
    index.apply([put("MEMORY.md", "one")])
    index.close()
    for suffix in ("-wal", "-shm", "-journal"):
        (tmp_path / f"index.db{suffix}").touch()
    remove_index(tmp_path / "index.db")
    remove_index(tmp_path / "index.db")
    assert not list(tmp_path.iterdir())


# --- what is recorded -----------------------------------------------------------------------------


def test_a_touch_changes_the_record_alone(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "one", tick=5)])
    touched = TouchNote(path="MEMORY.md", stat=FileStat(3, 8, 9, 10, 11), read_at_ns=12)
    written = index.apply([touched, TouchNote(path="none.md", stat=touched.stat, read_at_ns=1)])
    assert (written.generation, written.paths) == (1, ())
    assert index.generation == 1
    record = index.recorded()["MEMORY.md"]
    assert (record.stat, record.read_at_ns) == (touched.stat, 12)


def test_records_can_be_read_by_path_and_folder(index: Index, put: Put) -> None:
    paths = [
        ".memories/a.md",
        ".memories/a/b.md",
        ".memories/a/c/d.md",
        ".memories/a-b.md",
        ".memories/a0.md",
        "MEMORY.md",
    ]
    index.apply([put(path, path) for path in paths])
    assert sorted(index.recorded([".memories/a"])) == [".memories/a/b.md", ".memories/a/c/d.md"]
    assert sorted(index.recorded(["MEMORY.md", ".memories/a.md", "none"])) == [
        ".memories/a.md",
        "MEMORY.md",
    ]
    assert sorted(index.recorded([""])) == sorted(index.recorded()) == sorted(paths)
    assert index.recorded([]) == {}


@given(
    st.tuples(
        st.integers(0, 2**63 - 1),
        st.integers(-(2**61), 2**64 - 2**61 - 1),
        st.integers(-(2**61), 2**64 - 2**61 - 1),
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**64 - 1),
    )
)
def test_every_stat_survives_storage_in_64_bit_integers(
    numbers: tuple[int, ...],
) -> None:
    file_stat = FileStat(*numbers)
    row = stat_row(file_stat)
    assert all(-(2**63) <= number < 2**63 for number in row)
    assert read_stat_row(row) == file_stat


# --- transactions ---------------------------------------------------------------------------------


def test_the_generation_grows_by_one_with_each_change_whatever_its_size(
    index: Index, put: Put
) -> None:
    assert index.apply([put("MEMORY.md", "one"), put(".memories/a.md", "two")]).generation == 1
    assert index.apply([put("MEMORY.md", "more"), DropNote(".memories/a.md")]).generation == 2
    assert index.apply([DropNote("none.md")]).generation == 2
    assert index.apply([]).generation == 2
    assert ask(index, "SELECT value FROM meta WHERE key = 'generation'") == [("2",)]


def test_written_counts_the_changes(index: Index, put: Put) -> None:
    text = "# a\nred\n\n# b\nblue\n\n# c\ngreen\n"
    written = index.apply([put("MEMORY.md", text)])
    assert (written.paths, written.upserted, written.deleted, written.kept, written.moved) == (
        ("MEMORY.md",),
        3,
        0,
        0,
        0,
    )
    written = index.apply([put("MEMORY.md", text.replace("blue", "black\n\nand white"))])
    assert (written.upserted, written.deleted, written.kept, written.moved) == (1, 1, 1, 1)
    written = index.apply([DropNote("MEMORY.md")])
    assert (written.paths, written.deleted) == (("MEMORY.md",), 3)
    assert index.counts == Counts()


def test_a_failed_update_rolls_back_all_others(
    index: Index, put: Put, dump: Callable[[Path], object]
) -> None:
    index.apply([put("MEMORY.md", "# a\none")])
    before = dump(index.path)
    bad = put(".memories/b.md", "# b\ntwo")
    bad = PutNote(note=bad.note, stat=bad.stat._replace(size_bytes=-1), read_at_ns=1)
    with pytest.raises(StoreFailed):
        index.apply([put("MEMORY.md", "# a\nchanged"), put(".memories/a.md", "new"), bad])
    assert dump(index.path) == before
    assert index.generation == 1
    assert index.counts.files == 1
    index.apply([put("MEMORY.md", "# a\nchanged"), put(".memories/a.md", "new")])
    assert index.generation == 2


def test_a_reader_sees_a_settled_batch_whole_or_not_at_all(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "before"), put(".memories/a.md", "before")])
    with index.pool.acquire(5) as reader:
        assert reader.rows("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'before'") == [
            (2,)
        ]
        index.apply([put("MEMORY.md", "after"), DropNote(".memories/a.md")])
        assert reader.rows("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'before'") == [
            (2,)
        ]
    with index.pool.acquire(5) as reader:
        assert read_note_text(reader, "MEMORY.md") == "after"
        assert read_note_text(reader, ".memories/a.md") == ""


# --- keeping --------------------------------------------------------------------------------------


SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
PLAIN = "xyzzyplughquux"


def fill(index: Index, n_notes: int) -> None:
    """Put notes of ten chunks each."""
    for start in range(0, n_notes, 50):
        index.apply(
            [
                put_note(f".memories/{number}.md", make_text(number))
                for number in range(start, min(start + 50, n_notes))
            ]
        )


def make_text(number: int, n_appended: int = 0) -> str:
    paragraphs = [f"word{number}x{part} " + "filler " * 12 for part in range(10)]
    return "\n\n".join([*paragraphs, *(f"line{n} of {number}" for n in range(n_appended))])


def find_traces(index: Index, word: str) -> list[str]:
    """Return the files that hold the word, perhaps without letters that another word shares."""
    return [
        suffix
        for suffix in SUFFIXES
        if word[8:].lower().encode() in Path(f"{index.path}{suffix}").read_bytes().lower()
    ]


def count_written(index: Index, act: Callable[[], object]) -> int:
    """Count the pages that the writer writes in the block."""
    before = index._writer.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]
    act()
    return int(index._writer.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0] - before)


WITH_SECRET = f"# a\n\nkeep\n\n# b\n\ntoken = {SECRET}\n"
WITHOUT = "# a\n\nkeep\n\n# b\n\nthat\n"
REMOVALS: dict[str, Update] = {
    "changed": put_note("MEMORY.md", WITHOUT),
    "replaced": put_note("MEMORY.md", WITH_SECRET.replace(SECRET, f"ghp_{'z9' * 18}")),
    "emptied": put_note("MEMORY.md", ""),
    "deleted": DropNote("MEMORY.md"),
    "moved": put_note("new.md", WITHOUT, moved_from="MEMORY.md"),
}


@pytest.mark.parametrize("name", REMOVALS)
@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_secret_that_was_removed_leaves_the_files(
    name: str, is_reopened: bool, open_index: Open
) -> None:
    index = open_index()
    fill(index, 60)
    index.apply([put_note("MEMORY.md", WITH_SECRET)])
    tidy(index)
    index.apply([REMOVALS[name]])
    if is_reopened:
        index.close()
        index = open_index()
        assert find_traces(index, SECRET)
    tidy(index)
    assert index.is_tidy
    assert not find_traces(index, SECRET)
    assert ask(index, "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH 'word7x7'") == [(1,)]


def test_a_secret_that_is_removed_while_another_is_being_removed_leaves_the_files(
    open_index: Open,
) -> None:
    index = open_index()
    fill(index, 60)
    other = f"token = ghp_{'q8W7e6R5t4' * 4}\n"
    index.apply([put_note("MEMORY.md", WITH_SECRET), put_note("other.md", other)])
    tidy(index)
    index.apply([DropNote("other.md")])
    for _ in range(5):
        assert index.tidy()
    index.apply([DropNote("MEMORY.md")])
    tidy(index)
    assert not find_traces(index, SECRET)


def test_a_note_that_keeps_its_secret_costs_no_more_than_another(open_index: Open) -> None:
    index = open_index()
    fill(index, 200)
    index.apply([put_note("MEMORY.md", WITH_SECRET), put_note("other.md", "# a\n\nkeep\n")])
    tidy(index)

    def save(path: str, text: str) -> int:
        def act() -> None:
            for number in range(10):
                index.apply([put_note(path, f"{text}\n# more\n\nline {number}\n")])
                tidy(index)

        return count_written(index, act)

    of_other = save("other.md", "# a\n\nkeep\n")
    assert save("MEMORY.md", WITH_SECRET) < 2 * of_other


def test_an_outlook_that_no_memory_has_any_more_is_dropped(open_index: Open) -> None:
    index = open_index()

    def put(path: str, importance: float) -> None:
        index.apply([put_note(path, f"# A\n<!-- memory: {{importance: {importance}}} -->\n\na\n")])

    def list_importances() -> list[object]:
        tidy(index)
        kept = "SELECT o.importance FROM sections s LEFT JOIN outlooks o ON o.id = s.outlook"
        rows = ask(index, f"{kept} ORDER BY 1")
        assert rows == ask(index, "SELECT importance FROM outlooks ORDER BY 1")
        return [value for (value,) in rows]

    put("a.md", 0.1)
    put("b.md", 0.2)
    assert list_importances() == [0.1, 0.2]
    put("a.md", 0.3)
    assert list_importances() == [0.2, 0.3]
    put("a.md", 0.1)
    put("c.md", 0.4)
    assert list_importances() == [0.1, 0.2, 0.4]
    index.close()
    index = open_index()
    index.apply([DropNote("b.md")])
    put("d.md", 0.5)
    assert list_importances() == [0.1, 0.4, 0.5]


def test_expired_memories_are_found_by_the_indexes_of_expiries(open_index: Open) -> None:
    index = open_index()
    with index.pool.acquire(10) as reader:
        traced: list[str] = []
        reader.connection.trace_v2(
            apsw.SQLITE_TRACE_STMT, lambda event: traced.append(event["sql"] or "")
        )
        count_expired(reader, "2026-01-01", "2026-01-01", [5])
        reader.connection.trace_v2(0)
        times = {"local": "2026-01-01", "utc": "2026-01-01"}
        by_period = reader.rows(f"EXPLAIN QUERY PLAN {traced[0]}", times)
        within = reader.rows(f"EXPLAIN QUERY PLAN {traced[-1]}", ("[]",))
    assert "USING INDEX outlook_times_expiring (expires<?)" in by_period[0][3]
    assert "USING COVERING INDEX sections_expiring (expires=? AND outlook=? AND moment>?" in str(
        within
    )


RANGES = st.builds(
    Range, st.just(1), st.sampled_from([-(2**62), -1, 0, 2**19]) | st.integers(-(2**22), 2**22),
    st.sampled_from([0, 2**20, 2**62]) | st.integers(-(2**22), 2**22),
)  # fmt: skip


@given(RANGES, st.lists(st.integers(-(2**22), 2**22)))
@example(Range(1, 3, 2**19), [])
@example(Range(1, 0, 2**62), [2**19 - 1, 2**19])
def test_a_range_of_moments_is_divided_into_whole_periods_and_the_rest(
    range_: Range, moments: list[int]
) -> None:
    whole, rest = range_.divide()
    for moment in (*moments, range_.first, range_.after - 1, range_.after):
        is_in_whole = whole.first <= moment >> PERIOD_BITS < whole.after
        n = is_in_whole + sum(each.first <= moment < each.after for each in rest)
        assert n == (range_.first <= moment < range_.after)
    assert all(each.after - each.first < 2 << PERIOD_BITS for each in rest)


def test_purged_text_leaves_the_files_whatever_it_is(open_index: Open) -> None:
    index = open_index()
    fill(index, 60)
    index.apply([put_note("MEMORY.md", f"plain {PLAIN} text\n")])
    tidy(index)
    index.apply([DropNote("MEMORY.md")])
    tidy(index)
    assert find_traces(index, PLAIN)
    index.purge()
    tidy(index)
    assert not find_traces(index, PLAIN)


def test_deleted_words_leave_the_files_once_a_share_of_all_has_changed(open_index: Open) -> None:
    index = open_index()
    fill(index, 60)
    index.apply([put_note("MEMORY.md", f"plain {PLAIN} text\n")])
    tidy(index)
    index.apply([DropNote("MEMORY.md")])
    for n_saves in range(1, 300):
        index.apply([put_note(".memories/1.md", make_text(1, n_saves))])
        tidy(index)
        if not find_traces(index, PLAIN):
            break
    n_rows = index.counts.chunks * FULL_MERGE_SHARE
    assert n_rows / 6 < n_saves < n_rows


@pytest.mark.life
def test_a_save_costs_as_much_in_an_index_of_ten_times_the_size(open_index: Open) -> None:
    """The pages that saves and their maintenance write are compared."""
    first, all_saves = {}, {}
    for n_notes in (40, 400):
        index = open_index(f"{n_notes}.db")
        fill(index, n_notes)
        tidy(index)

        def save(number: int, index: Index = index) -> None:
            path = f".memories/{number % 7}.md"
            index.apply([put_note(path, make_text(number % 7, number))])
            tidy(index)

        first[n_notes] = count_written(index, lambda: save(1))
        all_saves[n_notes] = count_written(index, lambda: [save(n) for n in range(2, 130)])
    assert first[400] < 1.5 * first[40]
    assert all_saves[400] < 1.5 * all_saves[40]


def test_no_commit_merges_and_maintenance_does(open_index: Open) -> None:
    index = open_index()
    count = "SELECT count(DISTINCT segid) FROM chunks_fts_idx"
    for number in range(40):
        index.apply([put_note(f".memories/{number}.md", f"# Note {number}\n")])
        assert ask(index, count) == [(number + 1,)]
    tidy(index)
    assert ask(index, count) == [(1,)]


ACT = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 5), st.integers(0, 12)),
    st.tuples(st.just("drop"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("tidy"), st.integers(1, 30), st.just(0)),
    st.tuples(st.just("purge"), st.just(0), st.just(0)),
)


@given(acts=st.lists(ACT, max_size=40))
def test_saves_between_any_two_steps_of_merging_are_found_and_deleted_chunks_are_not(
    acts: list[tuple[str, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "index.db", FINGERPRINT)
        saved: dict[str, int] = {}
        for act, number, n_appended in [*acts, ("tidy", 10_000, 0)]:
            path = f"{number}.md"
            if act == "put":
                index.apply([put_note(path, make_text(number, n_appended))])
                saved[path] = n_appended
            elif act == "drop":
                index.apply([DropNote(path)])
                saved.pop(path, None)
            elif act == "purge":
                index.purge()
            else:
                any(not index.tidy() for _ in range(number))
            for table in index_module.FTS_TABLES:
                for word, paths in (
                    ("filler", set(saved)),
                    ("line3", {path for path, n in saved.items() if n > 3}),
                ):
                    statement = (
                        "SELECT DISTINCT f.path FROM files f JOIN chunks c ON c.file = f.id"
                        f" WHERE c.id IN (SELECT rowid FROM {table} WHERE {table} MATCH ?)"
                    )
                    assert {path for (path,) in ask(index, statement, word)} == paths
                matching = f"SELECT count(*) FROM {table} WHERE {table} MATCH 'filler OR line1'"
                [(n,)] = ask(index, matching)
                assert n <= index.counts.chunks
        assert index.is_tidy
        index.close()


@pytest.mark.life
def test_maintenance_ends_and_truncates_a_large_wal_alone(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "one")])
    tidy(index)
    wal = Path(f"{index.path}-wal")
    assert 0 < wal.stat().st_size < TRUNCATED_WAL_BYTES
    for turn in range(60):
        index.apply(
            [put(f".memories/{number}.md", f"turn {turn} of note {number}") for number in range(20)]
        )
    assert wal.stat().st_size > TRUNCATED_WAL_BYTES
    tidy(index)
    assert wal.stat().st_size == 0
    assert index.tidy() is False


def test_a_running_query_postpones_maintenance_and_blocks_nothing(index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "one")])
    with index.pool.acquire(30) as reader:
        assert reader.rows("SELECT count(*) FROM files") == [(1,)]
        index.apply([put("MEMORY.md", "two")])
        index.purge()
        tidy(index)
        assert not index.is_tidy
    tidy(index)
    assert index.is_tidy


HARMS: dict[str, tuple[Callable[[Path], object], Tampering]] = {
    "deleted": (lambda path: path.unlink(), Tampering.REPLACED),
    "moved": (lambda path: path.rename(f"{path}.elsewhere"), Tampering.REPLACED),
    "log deleted": (lambda path: Path(f"{path}-wal").unlink(), Tampering.WAL_LOST),
    "shared deleted": (lambda path: Path(f"{path}-shm").unlink(), Tampering.WAL_LOST),
    "cut": (lambda path: os.truncate(path, 4096), Tampering.TRUNCATED),
    "emptied": (lambda path: os.truncate(path, 0), Tampering.TRUNCATED),
    "log cut": (lambda path: os.truncate(f"{path}-wal", 100), Tampering.TRUNCATED),
    "log emptied": (lambda path: os.truncate(f"{path}-wal", 0), Tampering.TRUNCATED),
}


@pytest.mark.parametrize("name", HARMS)
@pytest.mark.parametrize("is_written_since", [False, True])
def test_tampering_with_an_open_index_is_detected(
    name: str, is_written_since: bool, index: Index, put: Put
) -> None:
    tamper, harmed = HARMS[name]
    index.apply([put("MEMORY.md", "one")])
    index.file_guard.truncate_wal()
    index.apply([put("MEMORY.md", "two")])
    assert index.file_guard.find_tampering() is None
    tamper(index.path)
    if is_written_since and name not in ("log cut", "log emptied"):
        index.apply([put("MEMORY.md", "three")])
    assert index.file_guard.find_tampering() is harmed


def test_an_index_that_another_program_truncated_is_called_damaged_once(
    index: Index, put: Put
) -> None:
    index.apply([put("MEMORY.md", "one")])
    index.check_not_truncated()
    index.file_guard.truncate_wal()
    os.truncate(index.path, 4096)
    with pytest.raises(StoreCorrupt, match="truncated"):
        index.check_not_truncated()
    index.check_not_truncated()


def test_the_writes_of_an_index_itself_do_not_count_as_tampering(index: Index, put: Put) -> None:
    text = "\n\n".join(f"word{part} " * 40 for part in range(400))
    for number in range(30):
        index.apply(
            [put(f"{number}.md", "\n\n".join(f"word{number} part{part}" for part in range(200)))]
        )
        assert index.file_guard.find_tampering() is None
    with pytest.raises(AssertionError):
        # type: ignore[list-item]
        index.apply([*(put(f"late{number}.md", text) for number in range(40)), object()])
    assert index.file_guard.find_tampering() is None
    tidy(index)
    assert index.file_guard.find_tampering() is None
    assert index.find_damage() == ""


@pytest.mark.life
def test_a_log_that_sqlite_cuts_after_a_checkpoint_does_not_count_as_tampering(
    index: Index, put: Put
) -> None:
    text = "\n\n".join(f"word{part} " * 40 for part in range(400))
    number = 0
    while index.file_guard.wal_bytes() < WAL_LIMIT_BYTES * 5 / 4:
        index.apply([put(f"{number}.md", f"larch{number}\n\n{text}")])
        number += 1
    index.checkpoint()
    assert index.file_guard.find_tampering() is None
    file_before, wal_bytes = index.path.stat().st_mtime_ns, index.file_guard.wal_bytes()
    index.apply([put("last.md", "larch")])
    assert index.path.stat().st_mtime_ns == file_before
    assert index.file_guard.wal_bytes() < wal_bytes
    assert index.file_guard.find_tampering() is None


def test_sound_files_show_no_damage_and_their_size(tmp_path: Path, index: Index, put: Put) -> None:
    index.apply([put("MEMORY.md", "one")])
    assert index.find_damage() == ""
    assert index.size_bytes() == sum(
        (tmp_path / f"index.db{suffix}").stat().st_size for suffix in ("", "-wal")
    )


def test_the_schema_refuses_unknown_values_of_enumerations(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "a.db"))
    create_schema(connection, "f" * 32, generation=0)
    connection.execute("PRAGMA foreign_keys = 1")
    connection.execute(
        "INSERT INTO files(id, path, digest, size, mtime_ns, ctime_ns, inode, device, read_at_ns, generation, lines, title)"
        " VALUES(1, 'MEMORY.md', 'd', 1, 1, 1, 1, 1, 1, 1, 1, 't');"
        "INSERT INTO sections(id, file, slugs, heading, level, start_line, end_line, moment, at) VALUES(1, 1, '', '[]', 0, 1, 1, 0, '')"
    )
    for column, value in {
        "priority": "P9",
        "lifecycle": "forever",
        "importance": 2,
        "level": 7,
        "start_line": 0,
        "file": 99,
    }.items():
        with pytest.raises(apsw.ConstraintError):
            connection.execute(f"UPDATE sections SET {column} = ?", (value,))
    connection.execute("DELETE FROM files")
    assert connection.execute("SELECT count(*) FROM sections").get == 0
    connection.close()


def test_a_commit_does_not_copy_the_wal_unless_it_has_grown_too_far(
    tmp_path: Path, index: Index, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.db"
    n_before = path.stat().st_size
    for tick in range(1, 4):
        index.apply([put("MEMORY.md", f"text {tick}", tick=tick)])
    assert path.stat().st_size == n_before
    monkeypatch.setattr("memsyncd.store.index.MOST_WAL_PAGES", 1)
    index.apply([put("MEMORY.md", "another text", tick=4)])
    assert path.stat().st_size > n_before
