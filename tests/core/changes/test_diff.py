from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, zip_longest

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
    RowChanges,
    Snapshot,
    find_suspects,
    has_ordinary_name,
    hash_record,
    hash_stat,
    is_disk_away,
    is_racy,
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


def test_a_missing_root_tells_nothing_about_any_path() -> None:
    assert not Snapshot(root_state="missing", files={}).is_observed("MEMORY.md")


def test_a_scan_does_not_observe_paths_beneath_a_failed_folder() -> None:
    snapshot = Snapshot(
        root_state="present",
        files={},
        failed_folders=frozenset({".memories/a"}),
        unreadable_files=frozenset({"MEMORY.md"}),
    )
    assert not snapshot.is_observed(".memories/a/b/c.md")
    assert not snapshot.is_observed("MEMORY.md")
    assert snapshot.is_observed(".memories/b.md")


def test_a_restricted_scan_observes_only_its_scope() -> None:
    snapshot = Snapshot(root_state="present", files={}, only=frozenset({".memories/a"}))
    assert snapshot.is_observed(".memories/a/b.md")
    assert not snapshot.is_observed(".memories/b.md")


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


@pytest.mark.parametrize(
    ("snapshot", "is_away"),
    [
        (seen({}, root_identity=(2, 1)), True),
        (seen({}, root_identity=(1, 9)), False),
        (seen({}), False),
        (seen({"b.md": stat_of()}, root_identity=(2, 1)), False),
        (seen({}, root_identity=(2, 1), failed_folders=frozenset({".memories"})), False),
        (seen({}, root_identity=(2, 1), unreadable_files=frozenset({"a.md"})), False),
        (Snapshot(root_state="missing", root_identity=(2, 1), files={}), False),
    ],
)
def test_a_disk_counts_as_unmounted_if_there_are_no_notes_and_the_root_is_on_another_device(
    snapshot: Snapshot, is_away: bool
) -> None:
    assert is_disk_away({record_of().stat.device}, snapshot) == is_away
    assert not is_disk_away(set(), snapshot)


def test_a_note_read_within_the_grain_of_its_times_is_read_again() -> None:
    stat = stat_of(at_ns=LATE_NS)
    soon, late = (
        record_of(stat=stat, read_at_ns=LATE_NS + GRAIN_NS),
        record_of(stat=stat, read_at_ns=LATE_NS + GRAIN_NS + 1),
    )
    assert find_suspects({"a.md": soon}, seen({"a.md": stat})).to_read == ("a.md",)
    assert find_suspects({"a.md": late}, seen({"a.md": stat})).to_read == ()


@pytest.mark.parametrize("mtime_ns", [0, 10**18], ids=["kept", "set into the future"])
def test_a_note_read_within_the_grain_of_its_ctime_is_read_again_whatever_its_mtime(
    mtime_ns: int,
) -> None:
    stat = stat_of(at_ns=LATE_NS)._replace(mtime_ns=mtime_ns)
    assert is_racy(record_of(stat=stat, read_at_ns=LATE_NS + GRAIN_NS))
    assert not is_racy(record_of(stat=stat, read_at_ns=LATE_NS + GRAIN_NS + 1))


def test_a_time_far_in_the_future_does_not_make_a_note_suspect_in_every_scan() -> None:
    assert not is_racy(record_of(stat=FileStat(1, 10**18, 0, 1, 1), read_at_ns=LATE_NS))


def test_a_full_scan_reads_every_note() -> None:
    assert find_suspects(
        {"a.md": record_of()}, seen({"a.md": stat_of()}), is_full=True
    ).to_read == ("a.md",)


def test_a_note_that_is_not_seen_has_vanished() -> None:
    assert find_suspects({"b.md": record_of(), "a.md": record_of()}, seen({})).vanished == (
        "a.md",
        "b.md",
    )


def test_nothing_vanishes_with_a_root_that_is_missing_or_unreadable() -> None:
    recorded = {"a.md": record_of()}
    assert find_suspects(recorded, Snapshot(root_state="missing", files={})).vanished == ()
    assert find_suspects(recorded, Snapshot(root_state="unreadable", files={})).vanished == ()


def test_nothing_vanishes_beneath_a_folder_that_could_not_be_listed() -> None:
    recorded = {".memories/a/x.md": record_of(), ".memories/b.md": record_of()}
    assert find_suspects(
        recorded, seen({}, failed_folders=frozenset({".memories/a"}))
    ).vanished == (".memories/b.md",)


def test_an_evicted_note_does_not_vanish() -> None:
    assert (
        find_suspects(
            {"a.md": record_of()}, seen({}, unreadable_files=frozenset({"a.md"}))
        ).vanished
        == ()
    )


def test_a_restricted_scan_lets_only_notes_in_its_scope_vanish() -> None:
    recorded = {
        ".memories/a/x.md": record_of(),
        ".memories/a.md": record_of(),
        "MEMORY.md": record_of(),
    }
    assert find_suspects(recorded, seen({}, only=frozenset({".memories/a"}))).vanished == (
        ".memories/a/x.md",
    )
    assert find_suspects(recorded, seen({}, only=frozenset({"MEMORY.md"}))).vanished == (
        "MEMORY.md",
    )
    assert len(find_suspects(recorded, seen({}, only=frozenset({""}))).vanished) == 3


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


def test_reading_the_same_again_changes_nothing() -> None:
    recorded = {"a.md": record_of(read_at_ns=LATE_NS)}
    changes = plan(recorded, {"a.md": record_of(read_at_ns=LATE_NS + 1)})
    assert changes.is_empty


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


def test_the_same_bytes_under_a_new_path_are_a_move_at_once() -> None:
    assert plan({"a.md": record_of("x")}, {"b/a.md": record_of("x")}, ("a.md",)) == NoteChanges(
        moved=(("a.md", "b/a.md"),)
    )


def test_moves_prefer_the_same_name_and_pair_one_to_one() -> None:
    recorded = {"a/one.md": record_of("x"), "a/two.md": record_of("x"), "a/zed.md": record_of("x")}
    read = {"b/two.md": record_of("x"), "b/new.md": record_of("x")}
    changes = plan(recorded, read, tuple(recorded))
    assert changes.moved == (("a/one.md", "b/new.md"), ("a/two.md", "b/two.md"))
    assert changes.pending_deletes == ("a/zed.md",)


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
def test_applying_the_changes_to_the_records_gives_the_disk(
    recorded: dict[str, Recorded], disk: dict[str, Recorded]
) -> None:
    after, _ = run_round(recorded, disk, check(disk))
    assert after == disk


@given(recorded=FILES, disk=FILES)
def test_syncing_twice_changes_nothing_the_second_time(
    recorded: dict[str, Recorded], disk: dict[str, Recorded]
) -> None:
    after, _ = run_round(recorded, disk, check(disk))
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


@given(recorded=FILES, disk=FILES, only=FOLDERS)
def test_a_restricted_sync_updates_its_scope_and_leaves_the_rest(
    recorded: dict[str, Recorded], disk: dict[str, Recorded], only: frozenset[str]
) -> None:
    snapshot = check(disk, only=only)
    after, _ = run_round(recorded, disk, snapshot)
    wanted = {path: note for path, note in recorded.items() if not snapshot.is_in_scope(path)}
    wanted |= {path: note for path, note in disk.items() if snapshot.is_in_scope(path)}
    assert after == wanted


@settings(max_examples=settings().max_examples * 8)
@given(recorded=NESTED_FILES, disk=NESTED_DISKS, only=NESTED_SCOPES)
def test_a_restricted_sync_follows_notes_and_folders_that_take_each_others_names(
    recorded: dict[str, Recorded], disk: dict[str, Recorded], only: frozenset[str]
) -> None:
    snapshot = check(disk, only=only)
    after, _ = run_round(recorded, disk, snapshot)
    wanted = {path: note for path, note in recorded.items() if not snapshot.is_in_scope(path)}
    wanted |= {path: note for path, note in disk.items() if snapshot.is_in_scope(path)}
    assert after == wanted


@settings(max_examples=settings().max_examples * 8)
@given(
    recorded=NESTED_FILES,
    disks=st.lists(st.tuples(NESTED_DISKS, st.none() | NESTED_SCOPES), min_size=1, max_size=6),
)
def test_restricted_syncs_in_any_order_and_the_grace_lead_to_the_disk(
    recorded: dict[str, Recorded], disks: list[tuple[dict[str, Recorded], frozenset[str] | None]]
) -> None:
    """Each scan is of what changed; after a pending delete its notes are scanned again."""
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


@given(recorded=FILES, disk=FILES)
def test_each_path_is_in_one_field_and_each_field_is_in_order(
    recorded: dict[str, Recorded], disk: dict[str, Recorded]
) -> None:
    _, changes = run_round(recorded, disk, check(disk))
    ends = [path for pair in changes.moved for path in pair]
    every = [
        *changes.added,
        *changes.modified,
        *changes.touched,
        *changes.gone,
        *changes.pending_deletes,
        *ends,
    ]
    assert len(every) == len(set(every))
    for one in (
        changes.added,
        changes.modified,
        changes.touched,
        changes.gone,
        changes.pending_deletes,
        changes.moved,
    ):
        assert all(before < after for before, after in pairwise(map(str, one)))


# --- Changes of rows ------------------------------------------------------------------------------

contents = st.sampled_from("abcd")
places = st.integers(1, 9)
wishes = st.lists(st.tuples(contents, places), max_size=12)


def stand(*rows: tuple[str, int]) -> list[ExistingRow]:
    """Rows with the ids 100, 101, …"""
    return [
        ExistingRow(id=100 + at, content=content, place=place)
        for at, (content, place) in enumerate(rows)
    ]


def test_nothing_is_written_if_no_row_changes() -> None:
    rows = [("a", 1), ("b", 2)]
    assert plan_row_changes(stand(*rows), rows) == RowChanges(
        kept=((0, 100), (1, 101)), shifted=(), inserted=(), deleted=()
    )


def test_content_at_another_place_keeps_its_id() -> None:
    plan = plan_row_changes(stand(("a", 1), ("b", 2)), [("x", 1), ("a", 2), ("b", 3)])
    assert plan == RowChanges(kept=(), shifted=((1, 100), (2, 101)), inserted=(0,), deleted=())


def test_only_what_changed_is_inserted_and_deleted() -> None:
    plan = plan_row_changes(stand(("a", 1), ("b", 2), ("c", 3)), [("a", 1), ("B", 2), ("c", 3)])
    assert plan == RowChanges(kept=((0, 100), (2, 102)), shifted=(), inserted=(1,), deleted=(101,))


def test_equal_rows_pair_in_order() -> None:
    plan = plan_row_changes(stand(("a", 1), ("a", 5), ("a", 9)), [("a", 1), ("a", 5)])
    assert plan == RowChanges(kept=((0, 100), (1, 101)), shifted=(), inserted=(), deleted=(102,))


def test_all_rows_are_replaced_if_none_is_equal() -> None:
    assert plan_row_changes(stand(("a", 1)), []) == RowChanges(
        kept=(), shifted=(), inserted=(), deleted=(100,)
    )
    assert plan_row_changes([], [("a", 1)]) == RowChanges(
        kept=(), shifted=(), inserted=(0,), deleted=()
    )


@given(wishes, wishes)
def test_every_stored_and_every_wanted_row_is_used_exactly_once(
    standing: list[tuple[str, int]], wanted: list[tuple[str, int]]
) -> None:
    plan = plan_row_changes(stand(*standing), wanted)
    paired = (*plan.kept, *plan.shifted)
    assert sorted([*(index for index, _ in paired), *plan.inserted]) == list(range(len(wanted)))
    assert sorted([*(row for _, row in paired), *plan.deleted]) == [
        100 + at for at in range(len(standing))
    ]


@given(wishes, wishes)
def test_carrying_out_the_plan_gives_the_new_rows(
    standing: list[tuple[str, int]], wanted: list[tuple[str, int]]
) -> None:
    plan = plan_row_changes(stand(*standing), wanted)
    rows = {row.id: (row.content, row.place) for row in stand(*standing)}
    for row_id in plan.deleted:
        del rows[row_id]
    for index, row_id in plan.shifted:
        rows[row_id] = (rows[row_id][0], wanted[index][1])
    for index in plan.inserted:
        rows[-index - 1] = wanted[index]
    assert sorted(rows.values()) == sorted(wanted)


@given(wishes, wishes)
def test_no_row_is_deleted_that_could_be_kept(
    standing: list[tuple[str, int]], wanted: list[tuple[str, int]]
) -> None:
    plan = plan_row_changes(stand(*standing), wanted)
    inserted = {wanted[index][0] for index in plan.inserted}
    deleted = {row.content for row in stand(*standing) if row.id in plan.deleted}
    assert not inserted & deleted


@given(wishes)
def test_planning_twice_writes_nothing_the_second_time(wanted: list[tuple[str, int]]) -> None:
    ordered = sorted(wanted, key=lambda wish: wish[1])
    plan = plan_row_changes(stand(*ordered), ordered)
    assert (plan.shifted, plan.inserted, plan.deleted) == ((), (), ())


NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 2**60))
STATS = st.builds(FileStat, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 3))


@given(STATS, STATS, NUMBERS)
def test_a_note_that_a_scan_skips_is_never_one_that_would_be_read(
    recorded: FileStat, found: FileStat, read_at_ns: int
) -> None:
    known = hash_record("a.md", recorded, read_at_ns)
    is_skipped = known == hash_stat(found[:4])
    record = Recorded(stat=recorded, digest="d", read_at_ns=read_at_ns)
    snapshot = Snapshot(root_state="present", files={"a.md": found})
    assert is_skipped == (not find_suspects({"a.md": record}, snapshot).to_read)


@pytest.mark.parametrize(
    ("path", "is_ordinary"),
    [
        ("MEMORY.md", True),
        (".memories/a/b c.txt", True),
        (".memories/MEMORY.md", False),
        (".memories/caf\u00e9.md", False),
        (".memories/a\n.md", False),
        (".memories/a.sync-conflict-20240101-101010-ABCDEFG.md", False),
        (".memories/a.py", False),
    ],
)
def test_a_note_with_a_name_that_a_scan_may_report_is_never_skipped(
    path: str, is_ordinary: bool
) -> None:
    assert has_ordinary_name(path) == is_ordinary
    assert bool(hash_record(path, FileStat(1, 0, 0, 1, 1), LATE_NS)) == is_ordinary


KNOWN_PATHS = st.sampled_from(["a.md", "b/a.md", "b/c.md", "b/c/a.md", "c/a.md"])
KNOWN_CHANGES = st.lists(st.tuples(KNOWN_PATHS, st.none() | st.integers(-(2**63), 2**63 - 1)))


@given(KNOWN_CHANGES, st.lists(st.booleans()))
def test_known_stats_are_a_mapping_by_path_without_empty_folders(
    changes: list[tuple[str, int | None]], are_packed: list[bool]
) -> None:
    known, expected = KnownStats(), dict[str, int]()
    for (path, stat_hash), is_packed in zip_longest(changes, are_packed[: len(changes)]):
        if stat_hash is None:
            assert known.pop(path, None) == expected.pop(path, None)
        else:
            known[path] = expected[path] = stat_hash
        if is_packed:
            known.pack()
        assert (len(known), bool(known)) == (len(expected), bool(expected))
        assert sorted(known) == sorted(expected)
        by_folder = {(name, one) for name in known.folders for one in known.find(name)}
        assert by_folder == {
            (path.rpartition("/")[0], path.rpartition("/")[2]) for path in expected
        }
        assert all(map(known.find, known.folders))
        assert known == expected == KnownStats(expected)
    assert not known.find("no/such")
    assert "no/such.md" not in known
