from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.changes.freshness import (
    OVERDUE_SLACK_S,
    ROOT,
    UNSCANNED_LIMIT,
    UnscannedPaths,
    describe_overdue,
)

PATHS = st.sampled_from(["", "MEMORY.md", ".memories/a.md", ".memories/b.md"])
EVENTS = st.lists(st.tuples(PATHS, st.floats(0, 100)))
SCANS = st.lists(st.tuples(st.none() | st.frozensets(PATHS), st.floats(0, 100)))


@given(EVENTS, SCANS)
def test_a_path_is_pending_until_a_scan_that_began_after_its_event_has_covered_it(
    events: list[tuple[str, float]], scans: list[tuple[frozenset[str] | None, float]]
) -> None:
    unscanned = UnscannedPaths()
    for path, at_s in events:
        unscanned.add(path, at_s)
    for paths, began_s in scans:
        unscanned.settle(paths, began_s)
    last = dict(events)
    wanted = [
        path
        for path, at_s in last.items()
        if not any(began_s >= at_s and (paths is None or path in paths) for paths, began_s in scans)
    ]
    assert len(unscanned) == len(wanted)


def test_many_pending_paths_take_bounded_memory_and_stay_pending_until_a_full_scan() -> None:
    unscanned = UnscannedPaths()
    paths = [f"{number}.md" for number in range(2 * UNSCANNED_LIMIT)]
    for path in paths:
        unscanned.add(path, 1.0)
    assert len(unscanned) == UNSCANNED_LIMIT + 1
    unscanned.settle(paths, 2.0)
    assert len(unscanned) == 1  # the root: forgotten paths may be anywhere
    unscanned.settle(None, 2.0)
    assert not len(unscanned)
    assert ROOT == ""


def test_a_scan_is_overdue_only_well_after_the_next_was_planned() -> None:
    assert describe_overdue(None, 1000.0, 30.0) == ""
    assert describe_overdue(100.0, 100.0 + 30 + OVERDUE_SLACK_S, 30.0) == ""
    message = describe_overdue(100.0, 101.0 + 30 + OVERDUE_SLACK_S, 30.0)
    assert message == "the last full scan began 61 s ago, one is due every 30 s"
