from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsyncd.core.changes.diff import (
    GRAIN_NS,
    NOTHING_MISSING,
    ExistingRow,
    FileStat,
    KnownStats,
    Missing,
    NoteChanges,
    Recorded,
    Snapshot,
    find_suspects,
    has_ordinary_name,
    hash_record,
    hash_stat,
    is_disk_away,
    is_within,
    plan_changes,
    plan_row_changes,
    track_missing,
)

# --- The result of a scan -------------------------------------------------------------------------

STAT = FileStat(1, 2, 3, 4, 5)


def test_a_path_is_within_itself_and_the_folders_above_it() -> None:
    assert is_within("a/b/c.md", frozenset({"a/b"}))
    assert is_within("a/b", frozenset({"a/b"}))
    assert is_within("a/b", frozenset({""}))
    assert not is_within("a/bc", frozenset({"a/b"}))
    assert not is_within("a", frozenset({"a/b"}))


def test_device_numbers_do_not_make_a_stat_another() -> None:
    assert STAT.is_same_as(STAT._replace(device=99))
    assert not STAT.is_same_as(STAT._replace(inode=99))


# --- Changes of files -----------------------------------------------------------------------------

LATE_NS = 10 * GRAIN_NS


def stat_of(*, size: int = 1, at_ns: int = 0, inode: int = 1) -> FileStat:
    return FileStat(size, at_ns, at_ns, inode, 1)


def record_of(
    digest: str = "d", *, stat: FileStat | None = None, read_at_ns: int = LATE_NS
) -> Recorded:
    return Recorded(stat=stat or stat_of(), digest=digest, read_at_ns=read_at_ns)


def seen(files: Mapping[str, FileStat], **rest: object) -> Snapshot:
    return Snapshot(root_state="present", files=files, **rest)  # type: ignore[arg-type]


def test_a_note_whose_stat_is_as_recorded_is_not_read_again() -> None:
    suspects = find_suspects({"a.md": record_of()}, seen({"a.md": stat_of()}))
    assert (suspects.to_read, suspects.vanished, suspects.n_unchanged) == ((), (), 1)


@pytest.mark.parametrize("field", ["size_bytes", "mtime_ns", "ctime_ns", "inode"])
@pytest.mark.parametrize("step", [-1, 1])
def test_a_difference_either_way_in_one_field_makes_a_note_suspect(field: str, step: int) -> None:
    stat = FileStat(10, 10, 10, 10, 1)
    other = stat._replace(**{field: getattr(stat, field) + step})
    assert find_suspects({"a.md": record_of(stat=stat)}, seen({"a.md": other})).to_read == ("a.md",)


def test_a_disk_counts_as_unmounted_if_there_are_no_notes_and_the_root_is_on_another_device() -> (
    None
):
    for snapshot, is_away in (
        (seen({}, root_identity=(2, 1)), True),
        (seen({}, root_identity=(1, 9)), False),
        (seen({}), False),
        (seen({"b.md": stat_of()}, root_identity=(2, 1)), False),
        (seen({}, root_identity=(2, 1), failed_folders=frozenset({".memories"})), False),
        (seen({}, root_identity=(2, 1), unreadable_files=frozenset({"a.md"})), False),
        (Snapshot(root_state="missing", root_identity=(2, 1), files={}), False),
    ):
        assert is_disk_away({record_of().stat.device}, snapshot) == is_away, snapshot
        assert not is_disk_away(set(), snapshot), snapshot


@pytest.mark.parametrize(
    ("mtime_ns", "ctime_ns"), [(LATE_NS, LATE_NS), (LATE_NS, 0), (0, LATE_NS), (10**18, LATE_NS)]
)
def test_a_note_read_within_the_grain_of_its_times_is_read_again_and_a_later_read_is_enough(
    mtime_ns: int, ctime_ns: int
) -> None:
    stat = FileStat(1, mtime_ns, ctime_ns, 1, 1)
    for read_at_ns, to_read in ((LATE_NS + GRAIN_NS, ("a.md",)), (LATE_NS + GRAIN_NS + 1, ())):
        record = record_of(stat=stat, read_at_ns=read_at_ns)
        assert find_suspects({"a.md": record}, seen({"a.md": stat})).to_read == to_read


def test_a_note_that_is_not_seen_has_vanished_if_the_scan_could_observe_it() -> None:
    for snapshot, vanished in (
        (seen({}), "a.md a/x.md b.md"),
        (Snapshot(root_state="missing", files={}), ""),
        (Snapshot(root_state="unreadable", files={}), ""),
        (seen({}, failed_folders=frozenset({"a"})), "a.md b.md"),
        (seen({}, unreadable_files=frozenset({"a.md"})), "a/x.md b.md"),
        (seen({}, only=frozenset({"a"})), "a/x.md"),
        (seen({}, only=frozenset({"b.md"})), "b.md"),
        (seen({}, only=frozenset({""})), "a.md a/x.md b.md"),
    ):
        recorded = {"b.md": record_of(), "a.md": record_of(), "a/x.md": record_of()}
        assert find_suspects(recorded, snapshot).vanished == tuple(vanished.split()), snapshot
        observed = {path for path in recorded if snapshot.is_observed(path)}
        assert observed == set(vanished.split()), snapshot


def test_notes_of_a_folder_that_a_note_has_replaced_vanish_with_a_scan_of_that_note() -> None:
    recorded = {".memories/x.md/a.md": record_of(), ".memories/x.md/d/b.md": record_of()}
    snapshot = seen({".memories/x.md": stat_of()}, only=frozenset({".memories/x.md"}))
    suspects = find_suspects(recorded, snapshot)
    assert suspects.vanished == tuple(recorded)
    was = Missing(since_s=dict.fromkeys(recorded, 1.0), sure=frozenset(recorded))
    missing = track_missing(was, recorded, snapshot, suspects.vanished, now_s=2.0)
    assert missing.since_s == was.since_s


def plan(
    recorded: Mapping[str, Recorded],
    read: Mapping[str, Recorded],
    gone: tuple[str, ...] = (),
    *,
    age_s: float = 0.0,
) -> NoteChanges:
    missing = Missing(since_s=dict.fromkeys(gone, 0.0), sure=frozenset(gone))
    return plan_changes(recorded, read, missing, now_s=age_s, grace_s=1.5)


def test_new_bytes_are_a_modification_and_old_ones_only_a_touch() -> None:
    recorded = {"a.md": record_of("x"), "b.md": record_of("y")}
    read = {"a.md": record_of("z"), "b.md": record_of("y", stat=stat_of(inode=9))}
    assert plan(recorded, read) == NoteChanges(modified=("a.md",), touched=("b.md",))


def test_a_record_that_has_become_certain_is_worth_writing_once() -> None:
    stat = stat_of(at_ns=LATE_NS)
    racy, still_racy = (
        record_of(stat=stat, read_at_ns=LATE_NS),
        record_of(stat=stat, read_at_ns=LATE_NS + 1),
    )
    certain = record_of(stat=stat, read_at_ns=2 * LATE_NS)
    assert plan({"a.md": racy}, {"a.md": still_racy}).is_empty
    assert plan({"a.md": racy}, {"a.md": certain}).touched == ("a.md",)


def test_a_vanished_note_is_deleted_after_the_grace_time() -> None:
    recorded = {"a.md": record_of()}
    assert plan(recorded, {}, ("a.md",), age_s=1.4) == NoteChanges(pending_deletes=("a.md",))
    assert plan(recorded, {}, ("a.md",), age_s=1.5) == NoteChanges(gone=("a.md",))


def test_a_note_that_returns_within_the_grace_time_is_unchanged() -> None:
    recorded = {"a.md": record_of("x")}
    assert plan(recorded, {"a.md": record_of("y")}, ("a.md",), age_s=9.0) == NoteChanges(
        modified=("a.md",)
    )


def test_moves_prefer_the_same_name_and_pair_one_to_one() -> None:
    recorded = {"a/one.md": record_of("x"), "a/two.md": record_of("x"), "a/zed.md": record_of("x")}
    read = {"b/zed.md": record_of("x"), "b/new.md": record_of("x")}
    changes = plan(recorded, read, tuple(recorded))
    assert changes.moved == (("a/one.md", "b/new.md"), ("a/zed.md", "b/zed.md"))
    assert changes.pending_deletes == ("a/two.md",)


def test_a_copy_is_no_move() -> None:
    assert plan({"a.md": record_of("x")}, {"b.md": record_of("x")}) == NoteChanges(added=("b.md",))


def test_the_time_of_first_missing_is_kept_from_scan_to_scan() -> None:
    recorded = {"a.md": record_of()}
    first = track_missing(NOTHING_MISSING, recorded, seen({}), ("a.md",), now_s=1.0)
    again = track_missing(first, recorded, seen({}), ("a.md",), now_s=2.0)
    assert again == Missing(since_s={"a.md": 1.0}, sure=frozenset({"a.md"}))


def test_notes_out_of_scope_stay_missing_and_are_not_deleted() -> None:
    recorded = {"a.md": record_of(), "b.md": record_of()}
    first = track_missing(NOTHING_MISSING, recorded, seen({}), ("a.md",), now_s=1.0)
    other = track_missing(first, recorded, seen({}, only=frozenset({"b.md"})), (), now_s=9.0)
    assert other == Missing(since_s={"a.md": 1.0}, sure=frozenset())
    assert plan_changes(recorded, {}, other, now_s=9.0, grace_s=1.5) == NoteChanges(
        pending_deletes=("a.md",)
    )


def test_the_grace_period_restarts_after_a_failed_scan() -> None:
    recorded = {"a.md": record_of()}
    first = track_missing(NOTHING_MISSING, recorded, seen({}), ("a.md",), now_s=1.0)
    for failed in (
        Snapshot(root_state="missing", files={}),
        seen({}, failed_folders=frozenset({""})),
    ):
        assert track_missing(first, recorded, failed, (), now_s=2.0).since_s == {}


# --- Properties -----------------------------------------------------------------------------------

PATHS = st.sampled_from(
    [
        "MEMORY.md",
        *(
            f".memories/{folder}{name}.md"
            for folder in ("", "a/", "a/b/")
            for name in ("x", "y", "z")
        ),
    ]
)
RECORDS = st.builds(
    record_of, st.sampled_from("pqr"), stat=st.builds(stat_of, inode=st.integers(1, 3))
)
FILES = st.dictionaries(PATHS, RECORDS)
FOLDERS = st.frozensets(
    st.sampled_from(
        ["", ".memories", ".memories/a", ".memories/a/b", "MEMORY.md", ".memories/x.md"]
    )
)

# Notes and folders that take each other's names. Records may hold a note and notes beneath its
# path, while the delete of either is pending; a disk may not.
NESTED = (".memories/x.md", ".memories/x.md/y.md", ".memories/x.md/y.md/z.md", ".memories/a.md")
NESTED_FILES = st.dictionaries(st.sampled_from(NESTED), RECORDS)


def drop_notes_beneath_notes(files: dict[str, Recorded]) -> dict[str, Recorded]:
    return {
        path: note
        for path, note in files.items()
        if not is_within(path.rpartition("/")[0], frozenset(files))
    }


NESTED_DISKS = NESTED_FILES.map(drop_notes_beneath_notes)
NESTED_SCOPES = st.frozensets(st.sampled_from((*NESTED, ".memories")), max_size=2)


def check(
    disk: Mapping[str, Recorded],
    only: frozenset[str] | None = None,
    failed: frozenset[str] = frozenset(),
) -> Snapshot:
    whole = seen({}, only=only, failed_folders=failed)
    return seen(
        {path: note.stat for path, note in disk.items() if whole.is_observed(path)},
        only=only,
        failed_folders=failed,
    )


def run_round(
    recorded: Mapping[str, Recorded], disk: Mapping[str, Recorded], snapshot: Snapshot
) -> tuple[dict[str, Recorded], NoteChanges]:
    suspects = find_suspects(recorded, snapshot, is_full=True)
    missing = track_missing(NOTHING_MISSING, recorded, snapshot, suspects.vanished, now_s=0.0)
    read = {path: disk[path] for path in suspects.to_read}
    changes = plan_changes(recorded, read, missing, now_s=0.0, grace_s=0.0)
    return apply(recorded, read, changes), changes


def apply(
    recorded: Mapping[str, Recorded], read: Mapping[str, Recorded], changes: NoteChanges
) -> dict[str, Recorded]:
    after = {path: note for path, note in recorded.items() if path not in changes.gone}
    for old, new in changes.moved:
        assert after.pop(old).digest == read[new].digest
        after[new] = read[new]
    for path in (*changes.added, *changes.modified, *changes.touched):
        assert (path in recorded) == (path not in changes.added)
        after[path] = read[path]
    return after


@given(recorded=FILES, disk=FILES)
def test_a_sync_gives_the_disk_with_each_path_in_one_field_and_the_next_one_changes_nothing(
    recorded: dict[str, Recorded], disk: dict[str, Recorded]
) -> None:
    after, changes = run_round(recorded, disk, check(disk))
    assert after == disk
    fields = [getattr(changes, name) for name in NoteChanges.__struct_fields__ if name != "moved"]
    paths = [path for field in (*fields, *changes.moved) for path in field]
    assert len(paths) == len(set(paths))
    for field in (*fields, changes.moved):
        assert list(field) == sorted(field)
    again, changes = run_round(after, disk, check(disk))
    assert changes.is_empty
    assert again == after


@given(recorded=FILES, disk=FILES, failed=FOLDERS)
def test_unobserved_notes_are_never_deleted(
    recorded: dict[str, Recorded], disk: dict[str, Recorded], failed: frozenset[str]
) -> None:
    snapshot = check(disk, failed=failed)
    after, _ = run_round(recorded, disk, snapshot)
    assert all(
        after[path] == note for path, note in recorded.items() if not snapshot.is_observed(path)
    )


@settings(max_examples=settings().max_examples * 8)
@given(
    st.tuples(FILES, FILES, FOLDERS) | st.tuples(NESTED_FILES, NESTED_DISKS, NESTED_SCOPES),
)
def test_a_restricted_sync_updates_its_scope_and_leaves_the_rest(
    case: tuple[dict[str, Recorded], dict[str, Recorded], frozenset[str]],
) -> None:
    recorded, disk, only = case
    snapshot = check(disk, only=only)
    after, _ = run_round(recorded, disk, snapshot)
    expected = {path: note for path, note in recorded.items() if not snapshot.is_in_scope(path)}
    expected |= {path: note for path, note in disk.items() if snapshot.is_in_scope(path)}
    assert after == expected


@settings(max_examples=settings().max_examples * 8)
@given(
    recorded=NESTED_FILES,
    disks=st.lists(st.tuples(NESTED_DISKS, st.none() | NESTED_SCOPES), min_size=1, max_size=6),
)
def test_restricted_syncs_in_any_order_and_the_grace_lead_to_the_disk(
    recorded: dict[str, Recorded], disks: list[tuple[dict[str, Recorded], frozenset[str] | None]]
) -> None:
    """Each scan covers a change; the notes of a pending delete are scanned again."""
    index = Index(recorded)
    now = recorded
    for disk, only in disks:
        snapshot = seen({}, only=only)
        now = drop_notes_beneath_notes(
            {path: note for path, note in now.items() if not snapshot.is_in_scope(path)}
            | {path: note for path, note in disk.items() if snapshot.is_in_scope(path)}
        )
        index.scan(now, only)
    index.end_grace(now)
    scopes = [seen({}, only=only) for _, only in disks]
    for path in {*recorded, *now}:
        if any(scope.is_in_scope(path) for scope in scopes):
            assert index.recorded.get(path) == now.get(path)


class Index:
    """Records that scans change, and the notes that they miss."""

    def __init__(self, recorded: Mapping[str, Recorded]) -> None:
        self.recorded = dict(recorded)
        self.pending: frozenset[str] = frozenset()
        self._missing = NOTHING_MISSING
        self._now_s = 0.0

    def scan(self, disk: Mapping[str, Recorded], only: frozenset[str] | None) -> NoteChanges:
        self._now_s += 0.4
        snapshot = check(disk, only=only)
        suspects = find_suspects(self.recorded, snapshot, is_full=True)
        self._missing = track_missing(
            self._missing, self.recorded, snapshot, suspects.vanished, now_s=self._now_s
        )
        read = {path: disk[path] for path in suspects.to_read}
        changes = plan_changes(self.recorded, read, self._missing, now_s=self._now_s, grace_s=1.5)
        self.recorded = apply(self.recorded, read, changes)
        self.pending = frozenset(changes.pending_deletes) or self.pending
        return changes

    def end_grace(self, disk: Mapping[str, Recorded]) -> None:
        """Scan the notes with a pending delete until there are none, as the timer does."""
        while self.pending:
            pending, self.pending = self.pending, frozenset()
            self._now_s += 1.5
            self.scan(disk, pending)


# --- Changes of rows ------------------------------------------------------------------------------

contents = st.sampled_from("abcd")
places = st.integers(1, 9)
rows_of_note = st.lists(st.tuples(contents, places), max_size=12)


def stand(*rows: tuple[str, int]) -> list[ExistingRow]:
    """Rows with the ids 100, 101, …"""
    return [
        ExistingRow(id=100 + at, content=content, place=place)
        for at, (content, place) in enumerate(rows)
    ]


@given(rows_of_note, rows_of_note)
def test_a_plan_uses_each_row_once_gives_the_new_rows_and_deletes_none_that_could_be_kept(
    old: list[tuple[str, int]], new: list[tuple[str, int]]
) -> None:
    plan = plan_row_changes(stand(*old), new)
    paired = (*plan.kept, *plan.shifted)
    assert sorted([*(index for index, _ in paired), *plan.inserted]) == list(range(len(new)))
    ids = [100 + at for at in range(len(old))]
    assert sorted([*(row_id for _, row_id in paired), *plan.deleted]) == ids
    rows = {row.id: (row.content, row.place) for row in stand(*old)}
    assert not {new[index][0] for index in plan.inserted} & {rows[at][0] for at in plan.deleted}
    for row_id in plan.deleted:
        del rows[row_id]
    for index, row_id in plan.shifted:
        rows[row_id] = (rows[row_id][0], new[index][1])
    for index in plan.inserted:
        rows[-index - 1] = new[index]
    assert sorted(rows.values()) == sorted(new)


@given(rows_of_note)
def test_the_same_rows_again_write_nothing(rows: list[tuple[str, int]]) -> None:
    """Equal contents pair in order."""
    ordered = sorted(rows, key=lambda row: row[1])
    plan = plan_row_changes(stand(*ordered), ordered)
    assert (plan.shifted, plan.inserted, plan.deleted) == ((), (), ())


NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 2**60))
STATS = st.builds(FileStat, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 3))


@given(STATS, STATS, NUMBERS)
def test_a_note_that_a_scan_skips_is_never_one_that_would_be_read(
    recorded: FileStat, stat: FileStat, read_at_ns: int
) -> None:
    is_skipped = hash_record("a.md", recorded, read_at_ns) == hash_stat(stat[:4])
    record = Recorded(stat=recorded, digest="d", read_at_ns=read_at_ns)
    snapshot = Snapshot(root_state="present", files={"a.md": stat})
    assert is_skipped == (not find_suspects({"a.md": record}, snapshot).to_read)


def test_a_note_with_a_name_that_a_scan_may_report_is_never_skipped() -> None:
    for path, is_ordinary in (
        ("MEMORY.md", True),
        (".memories/a/b c.txt", True),
        (".memories/MEMORY.md", False),
        (".memories/caf\u00e9.md", False),
        (".memories/a\n.md", False),
        (".memories/a.sync-conflict-20240101-101010-ABCDEFG.md", False),
        (".memories/a.py", False),
    ):
        assert has_ordinary_name(path) == is_ordinary, path
        assert bool(hash_record(path, FileStat(1, 0, 0, 1, 1), LATE_NS)) == is_ordinary, path


KNOWN_PATHS = st.sampled_from(["a.md", "b/a.md", "b/c.md", "b/c/a.md", "c/a.md"])
KNOWN_CHANGES = st.lists(st.tuples(KNOWN_PATHS, st.none() | st.integers(-(2**63), 2**63 - 1)))


@given(KNOWN_CHANGES, st.lists(st.booleans()))
def test_known_stats_are_a_mapping_by_path_without_empty_folders(
    changes: list[tuple[str, int | None]], are_packed: list[bool]
) -> None:
    stats, expected = KnownStats(), dict[str, int]()
    for (path, stat_hash), is_packed in zip_longest(changes, are_packed[: len(changes)]):
        if stat_hash is None:
            assert stats.pop(path, None) == expected.pop(path, None)
        else:
            stats[path] = expected[path] = stat_hash
        if is_packed:
            stats.pack()
        assert (len(stats), bool(stats)) == (len(expected), bool(expected))
        assert sorted(stats) == sorted(expected)
        by_folder = {(folder, name) for folder in stats.folders for name in stats.find(folder)}
        assert by_folder == {
            (path.rpartition("/")[0], path.rpartition("/")[2]) for path in expected
        }
        assert all(map(stats.find, stats.folders))
        assert stats == expected == KnownStats(expected)
    assert not stats.find("no/such")
    assert "no/such.md" not in stats
