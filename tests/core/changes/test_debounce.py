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

CAP_S = 1.0
POLICY = SyncConfig(debounce_ms=100, max_wait_ms=1000)
WS = "ws"


def many(what: str, first: int, after: int, at_s: float) -> list[str]:
    return [f"{at_s} {what} {number}" for number in range(first, after)]


# Each event is a time in seconds, a word and paths. `due` pops and names the paths that are due at
# that time: `-` stands for none, `f/` for a folder, `*` for everything.
EXAMPLES = {
    "a finished save in a quiet workspace is due at once": "5 saved a, 5 due a, 99 due -",
    "a save in place is due when it is closed": (
        "5 modified a, 5 due -, 5.001 saved a, 5.001 due a, 99 due -"
    ),
    "events after a save are gathered until quiet": (
        "0 saved a, 0 due a, 0.05 saved b, 0.12 saved c, 0.2 due -, 0.22 due b c"
    ),
    "the workspace is quiet again after the pause": (
        "0 saved a, 0 due a, 0.101 saved a, 0.101 due a"
    ),
    "a file appended without end is due at the cap": ", ".join(
        [*(f"{step * 0.05} modified a" for step in range(30)), "0.99 due -, 1.0 due a"]
    ),
    "an unfinished file keeps waiting while another is finished": (
        "0 modified a, 0.01 saved b, 0.01 due b, 0.09 due -, 0.1 due a"
    ),
    "a file written again before it was taken is unfinished": (
        "0 saved a, 0.001 modified a, 0.001 due -, 0.05 saved b, 0.05 due -, 0.101 due a b"
    ),
    "events after a scan are gathered until quiet": (
        "0 folder f, 0.1 due f/, 0.15 saved a, 0.15 due -, 0.25 due a"
    ),
    "a folder is due once all folders are quiet": (
        "0 folder f, 0.02 saved f/a, 0.02 due f/a, 0.05 folder g, 0.1 due -, 0.16 due f/ g/"
    ),
    "a storm of folders becomes one full scan": ", ".join(
        [*many("folder", 0, PATHS_LIMIT + 1, 0), "0.1 due *"]
    ),
    "a rescan is due at once in the middle of a burst": (
        "0 saved a, 0 due a, 0.01 saved a, 0.02 modified b, 0.03 all -, 0.03 due a *, 0.13 due b"
    ),
    "a storm of paths becomes one full scan": ", ".join(
        [*many("modified", 0, PATHS_LIMIT + 1, 0), "0.05 due -, 0.1 due *"]
    ),
    "a storm with a finished save is scanned at once": ", ".join(
        ["0 saved a", *many("modified", 0, PATHS_LIMIT, 0.001), "0.001 due *"]
    ),
    "as many paths as the limit stay single": ", ".join(
        [*many("saved", 0, PATHS_LIMIT, 0), "0 due " + " ".join(map(str, range(PATHS_LIMIT)))]
    ),
    "a dropped workspace has nothing pending": "0 saved a, 0 drop -, 99 due -",
}


@pytest.mark.parametrize("events", EXAMPLES.values(), ids=EXAMPLES)
def test_events_are_due(events: str) -> None:
    debouncer = Debouncer[str](POLICY)
    for event in events.split(", "):
        time, what, *paths = event.split()
        now_s = float(time)
        if what == "due":
            settled = debouncer.pop_settled(now_s)
            due = [path for result in settled for path in sorted(result.paths)]
            due += [f"{path}/" if path else "*" for result in settled for path in result.folders]
            assert sorted(due or ["-"]) == sorted(paths), event
        elif what == "all":
            debouncer.push_all(WS, now_s)
        elif what == "drop":
            debouncer.drop(WS)
            debouncer.drop("never heard of")
        else:
            is_finished = what in ("saved", "folder")
            debouncer.push(WS, paths[0], now_s, is_finished=is_finished, is_folder=what == "folder")
    assert debouncer.next_deadline_s() is None


def test_workspaces_do_not_wait_for_each_other() -> None:
    debouncer = Debouncer[str](POLICY)
    debouncer.push(WS, "a", 0, is_finished=True, is_folder=False)
    debouncer.push("other", "b", 0, is_finished=False, is_folder=False)
    assert [result.key for result in debouncer.pop_settled(0)] == [WS]
    assert [result.key for result in debouncer.pop_settled(0.1)] == ["other"]


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
    if result.key != push.key:
        return False
    paths = result.folders if push.what in ("folder", "all") else result.paths
    return ROOT in result.folders or (push.path in paths and push.what != "all")


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


def test_a_scan_is_overdue_only_well_after_the_next_was_planned() -> None:
    assert describe_overdue(None, None, 1000.0, 30.0) == ""
    assert describe_overdue(100.0, None, 100.0 + 30 + OVERDUE_SLACK_S, 30.0) == ""
    message = describe_overdue(100.0, None, 101.0 + 30 + OVERDUE_SLACK_S, 30.0)
    assert message == "the last full scan began 61 s ago; a full scan is due every 30 s"


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
