from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.changes.diff import FileStat, Recorded, Snapshot, find_suspects
from memsyncd.core.changes.known import (
    NEVER_SAME,
    find_not_skipped,
    has_ordinary_name,
    pack_record,
    pack_stat,
)

NUMBERS = st.one_of(st.integers(0, 3), st.integers(-(2**62), 2**62))
STATS = st.builds(FileStat, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 3))
LATE_NS = 10**10


@given(STATS, STATS, NUMBERS)
def test_a_note_that_a_scan_skips_is_never_one_that_would_be_read(
    recorded: FileStat, found: FileStat, read_at_ns: int
) -> None:
    known = pack_record("a.md", recorded, read_at_ns)
    is_skipped = known == pack_stat(*found[:4])
    record = Recorded(stat=recorded, digest="d", read_at_ns=read_at_ns)
    snapshot = Snapshot(root_state="present", files={"a.md": found})
    assert is_skipped == (not find_suspects({"a.md": record}, snapshot).to_read)


def test_a_number_that_does_not_fit_is_never_the_same() -> None:
    assert pack_record("a.md", FileStat(1, 0, 0, 2**63, 1), LATE_NS) == NEVER_SAME
    assert pack_record("a.md", FileStat(1, 0, 0, 2**63 - 1, 1), LATE_NS) != NEVER_SAME


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
    assert bool(pack_record(path, FileStat(1, 0, 0, 1, 1), LATE_NS)) == is_ordinary


def test_notes_that_were_not_skipped_are_those_that_changed_or_are_gone() -> None:
    known = {"a.md": b"1", "b.md": b"1", "c.md": NEVER_SAME}
    assert find_not_skipped(known, {"a.md"}) == {"b.md", "c.md"}
