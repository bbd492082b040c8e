"""Events of a workspace are due for a scan in time, and none is lost."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.config import SyncConfig
from memsyncd.core.changes.debounce import (
    ANNOUNCED_LIMIT,
    OVERDUE_SLACK_S,
    PATHS_LIMIT,
    ROOT,
    AnnouncedPaths,
    Debouncer,
    Settled,
    describe_overdue,
)

QUIET_S = 0.1
CAP_S = 1.0
POLICY = SyncConfig(debounce_ms=100, max_wait_ms=1000)
WS = "ws"


@pytest.fixture
def debouncer() -> Debouncer[str]:
    return Debouncer(POLICY)


def save(debouncer: Debouncer[str], path: str, now_s: float) -> None:
    debouncer.push(WS, path, now_s, is_finished=True, is_folder=False)


def modify(debouncer: Debouncer[str], path: str, now_s: float) -> None:
    debouncer.push(WS, path, now_s, is_finished=False, is_folder=False)


def touch_folder(debouncer: Debouncer[str], now_s: float) -> None:
    debouncer.push(WS, "folder", now_s, is_finished=True, is_folder=True)


def settled(*paths: str, is_wide: bool = False) -> list[Settled[str]]:
    return [Settled(key=WS, paths=frozenset(paths), is_wide=is_wide)]


def test_a_finished_save_in_a_quiet_workspace_is_due_at_once(debouncer: Debouncer[str]) -> None:
    save(debouncer, "a", 5)
    assert debouncer.next_deadline_s() == 5
    assert debouncer.pop_settled(5) == settled("a")
    assert debouncer.next_deadline_s() is None


def test_a_save_in_place_is_due_when_it_is_closed(debouncer: Debouncer[str]) -> None:
    modify(debouncer, "a", 5)
    assert debouncer.pop_settled(5) == []
    save(debouncer, "a", 5.001)
    assert debouncer.pop_settled(5.001) == settled("a")
    assert debouncer.next_deadline_s() is None


def test_events_after_a_save_are_gathered_until_quiet(debouncer: Debouncer[str]) -> None:
    save(debouncer, "a", 0)
    debouncer.pop_settled(0)
    save(debouncer, "b", 0.05)
    save(debouncer, "c", 0.12)
    assert debouncer.next_deadline_s() == pytest.approx(0.22)
    assert debouncer.pop_settled(0.2) == []
    assert debouncer.pop_settled(0.22) == settled("b", "c")


def test_the_workspace_is_quiet_again_after_the_pause(debouncer: Debouncer[str]) -> None:
    save(debouncer, "a", 0)
    debouncer.pop_settled(0)
    save(debouncer, "a", 0.101)
    assert debouncer.pop_settled(0.101) == settled("a")


def test_a_file_appended_without_end_is_due_at_the_cap(debouncer: Debouncer[str]) -> None:
    for step in range(30):
        modify(debouncer, "a", step * 0.05)
    assert debouncer.pop_settled(0.99) == []
    assert debouncer.pop_settled(1.0) == settled("a")


def test_an_unfinished_file_keeps_waiting_while_another_is_finished(
    debouncer: Debouncer[str],
) -> None:
    modify(debouncer, "a", 0)
    save(debouncer, "b", 0.01)
    assert debouncer.pop_settled(0.01) == settled("b")
    assert debouncer.next_deadline_s() == pytest.approx(QUIET_S)
    assert debouncer.pop_settled(0.1) == settled("a")


def test_a_file_written_again_before_it_was_taken_is_unfinished(debouncer: Debouncer[str]) -> None:
    save(debouncer, "a", 0)
    modify(debouncer, "a", 0.001)
    assert debouncer.pop_settled(0.001) == []
    assert debouncer.pop_settled(0.101) == settled("a")


def test_a_folder_asks_for_a_full_walk_once_quiet(debouncer: Debouncer[str]) -> None:
    touch_folder(debouncer, 0)
    save(debouncer, "folder/a", 0.02)
    assert debouncer.pop_settled(0.02) == settled("folder/a")
    assert debouncer.pop_settled(0.1) == settled(is_wide=True)


def test_a_rescan_is_due_at_once_in_the_middle_of_a_burst(debouncer: Debouncer[str]) -> None:
    save(debouncer, "a", 0)
    debouncer.pop_settled(0)
    save(debouncer, "a", 0.01)
    modify(debouncer, "b", 0.02)
    debouncer.push_all(WS, 0.03)
    assert debouncer.pop_settled(0.03) == settled("a", is_wide=True)
    assert debouncer.pop_settled(0.13) == settled("b")


def test_a_storm_of_paths_becomes_one_full_walk(debouncer: Debouncer[str]) -> None:
    for number in range(PATHS_LIMIT + 1):
        modify(debouncer, f"{number}", 0)
    assert debouncer.pop_settled(0.05) == []
    assert debouncer.pop_settled(0.1) == settled(is_wide=True)


def test_a_storm_that_held_a_finished_save_is_walked_at_once(debouncer: Debouncer[str]) -> None:
    save(debouncer, "a", 0)
    for number in range(PATHS_LIMIT):
        modify(debouncer, f"{number}", 0.001)
    assert debouncer.pop_settled(0.001) == settled(is_wide=True)


def test_as_many_paths_as_the_limit_stay_single(debouncer: Debouncer[str]) -> None:
    for number in range(PATHS_LIMIT):
        save(debouncer, f"{number}", 0)
    assert debouncer.pop_settled(0) == settled(*(f"{number}" for number in range(PATHS_LIMIT)))


def test_workspaces_do_not_wait_for_each_other(debouncer: Debouncer[str]) -> None:
    save(debouncer, "a", 0)
    debouncer.push("other", "b", 0, is_finished=False, is_folder=False)
    assert [result.key for result in debouncer.pop_settled(0)] == [WS]
    assert [result.key for result in debouncer.pop_settled(0.1)] == ["other"]


def test_a_dropped_workspace_has_nothing_pending(debouncer: Debouncer[str]) -> None:
    save(debouncer, "a", 0)
    debouncer.drop(WS)
    debouncer.drop("never heard of")
    assert debouncer.next_deadline_s() is None
    assert debouncer.pop_settled(1) == []


def test_a_negative_time_is_no_policy() -> None:
    with pytest.raises(ValueError, match="negative"):
        Debouncer(SyncConfig(debounce_ms=-100))


@dataclass(frozen=True)
class Push:
    after_s: float
    key: str
    path: str
    what: str


PUSHES = st.lists(
    st.builds(
        Push,
        after_s=st.sampled_from([0.0, 0.001, 0.03, 0.1, 0.3]),
        key=st.sampled_from("AB"),
        path=st.one_of(st.sampled_from("abc"), st.integers(0, 200).map(str)),
        what=st.sampled_from(["finished", "unfinished", "unfinished", "folder", "all"]),
    ),
    max_size=150,
)


def replay(pushes: list[Push], *, is_popped_promptly: bool) -> list[tuple[float, Settled[str]]]:
    """Push all events at their times, pop at every deadline in between (or only at the end), and
    return the results with their times.
    """
    debouncer: Debouncer[str] = Debouncer(POLICY)
    now_s, came = 0.0, []

    def pop_until(limit_s: float) -> None:
        while (deadline_s := debouncer.next_deadline_s()) is not None and deadline_s <= limit_s:
            at_s = max(deadline_s, now_s)
            popped = debouncer.pop_settled(at_s)
            assert popped, "a deadline has something to pop"
            came.extend((at_s, result) for result in popped)

    for push in pushes:
        if is_popped_promptly:
            pop_until(now_s + push.after_s)
        now_s += push.after_s
        if push.what == "all":
            debouncer.push_all(push.key, now_s)
        else:
            debouncer.push(
                push.key,
                push.path,
                now_s,
                is_finished=push.what == "finished",
                is_folder=push.what == "folder",
            )
    pop_until(float("inf"))
    assert debouncer.next_deadline_s() is None
    return came


def is_answer(result: Settled[str], push: Push) -> bool:
    return result.key == push.key and (
        result.is_wide or (push.path in result.paths and push.what in ("finished", "unfinished"))
    )


@given(PUSHES)
def test_nothing_pushed_is_lost_or_waits_past_the_cap_and_no_scan_is_without_an_event(
    pushes: list[Push],
) -> None:
    came = replay(pushes, is_popped_promptly=True)
    assert came == replay(pushes, is_popped_promptly=True)
    assert len(came) <= len(pushes)
    now_s = 0.0
    for push in pushes:
        now_s += push.after_s
        times = [at_s for at_s, result in came if at_s >= now_s and is_answer(result, push)]
        assert times
        assert min(times) <= now_s + CAP_S + 1e-9
        if push.what == "all":
            assert min(times) == now_s


@given(PUSHES)
def test_no_event_is_lost_when_the_debouncer_is_polled_late(pushes: list[Push]) -> None:
    came = replay(pushes, is_popped_promptly=False)
    assert all(any(is_answer(result, push) for _, result in came) for push in pushes)


PATHS = st.sampled_from(["", "MEMORY.md", ".memories/a.md", ".memories/b.md"])
EVENTS = st.lists(st.tuples(PATHS, st.floats(0, 100)))
SCANS = st.lists(st.tuples(st.none() | st.frozensets(PATHS), st.floats(0, 100)))


@given(EVENTS, SCANS)
def test_a_path_is_pending_until_a_scan_that_began_after_its_event_has_covered_it(
    events: list[tuple[str, float]], scans: list[tuple[frozenset[str] | None, float]]
) -> None:
    unscanned = AnnouncedPaths()
    for path, at_s in events:
        unscanned.add(path, at_s)
    for paths, began_s in scans:
        unscanned.settle(paths, began_s)
    last = dict(events)
    pending = [
        path
        for path, at_s in last.items()
        if not any(began_s >= at_s and (paths is None or path in paths) for paths, began_s in scans)
    ]
    assert len(unscanned) == len(pending)


def test_many_pending_paths_take_bounded_memory_and_stay_pending_until_a_full_scan() -> None:
    unscanned = AnnouncedPaths()
    paths = [f"{number}.md" for number in range(2 * ANNOUNCED_LIMIT)]
    for path in paths:
        unscanned.add(path, 1.0)
    assert len(unscanned) == ANNOUNCED_LIMIT + 1
    unscanned.settle(paths, 2.0)
    assert len(unscanned) == 1  # the root: forgotten paths may be anywhere
    unscanned.settle(None, 2.0)
    assert not len(unscanned)
    assert ROOT == ""


def test_a_scan_is_overdue_only_well_after_the_next_was_planned() -> None:
    assert describe_overdue(None, None, 1000.0, 30.0) == ""
    assert describe_overdue(100.0, None, 100.0 + 30 + OVERDUE_SLACK_S, 30.0) == ""
    message = describe_overdue(100.0, None, 101.0 + 30 + OVERDUE_SLACK_S, 30.0)
    assert message == "the last full scan began 61 s ago, one is due every 30 s"


@given(
    scanned_s=st.floats(0, 1e6),
    progressed_s=st.none() | st.floats(0, 1e6),
    now_s=st.floats(0, 2e6),
    reconcile_s=st.floats(0.05, 86_400),
)
def test_a_scan_is_not_overdue_while_a_long_sync_makes_progress(
    scanned_s: float, progressed_s: float | None, now_s: float, reconcile_s: float
) -> None:
    times = [scanned_s, *([] if progressed_s is None else [progressed_s])]
    is_overdue = bool(describe_overdue(scanned_s, progressed_s, now_s, reconcile_s))
    assert is_overdue == all(now_s - at_s > reconcile_s + OVERDUE_SLACK_S for at_s in times)
