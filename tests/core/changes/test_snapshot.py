from __future__ import annotations

from memsyncd.core.changes.diff import FileStat, Snapshot, is_within

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


def test_a_scan_cannot_tell_of_what_lies_beneath_a_failed_folder() -> None:
    snapshot = Snapshot(
        root_state="present", files={}, failed_folders=frozenset({".memories/a"}), unreadable_files=frozenset({"MEMORY.md"})
    )
    assert not snapshot.is_observed(".memories/a/b/c.md")
    assert not snapshot.is_observed("MEMORY.md")
    assert snapshot.is_observed(".memories/b.md")


def test_a_restricted_scan_tells_only_of_what_it_was_asked() -> None:
    snapshot = Snapshot(root_state="present", files={}, only=frozenset({".memories/a"}))
    assert snapshot.is_observed(".memories/a/b.md")
    assert not snapshot.is_observed(".memories/b.md")
