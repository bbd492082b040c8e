"""Whether a workspace's events can be relied on, and the reasons if not."""

from __future__ import annotations

import errno
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.watch.health import MissedChanges, describe_health, describe_limit

FOLDERS = st.sampled_from(["", "a", "b"])
# For each timed scan: folders with events before it, and folders with changes without an event.
SCANS = st.lists(st.tuples(st.lists(FOLDERS), st.frozensets(FOLDERS)), max_size=30)


def test_events_are_relied_on_while_no_fault_is_known() -> None:
    health = describe_health(
        observer="inotify", observer_faults=(), unwatched={}, missed=MissedChanges()
    )
    assert (health.mode, health.reasons) == ("events", ())


def test_each_kind_of_limit_is_named_once_with_its_remedy_and_the_number_of_folders() -> None:
    unwatched = {"/a": errno.ENOSPC, "/b": errno.ENOSPC, "/c": errno.EACCES, "/d": errno.EIO}
    health = describe_health(
        observer="inotify", observer_faults=(), unwatched=unwatched, missed=MissedChanges()
    )
    assert health.mode == "timed"
    assert health.reasons == (
        "input/output error (1 folder not watched)",
        (
            "inotify watch limit reached: sudo sysctl fs.inotify.max_user_watches=1048576 raises it;"
            " a line in /etc/sysctl.d/60-inotify.conf keeps it (2 folders not watched)"
        ),
        "permission denied (1 folder not watched)",
    )
    assert health.faults == health.reasons[:2]


def test_an_observer_that_only_polls_is_named() -> None:
    health = describe_health(
        observer="PollingObserver", observer_faults=(), unwatched={}, missed=MissedChanges()
    )
    assert health.mode == "timed"
    assert "by a timer" in health.reasons[0]


def test_faults_of_the_observer_come_first() -> None:
    unreliable = MissedChanges()
    for _ in range(6):
        unreliable.note_scan([".memories"])
    health = describe_health(
        observer="none",
        observer_faults=("no observer",),
        unwatched={"/a": errno.ENOSPC},
        missed=unreliable,
    )
    assert health.reasons[0] == "no observer"
    assert len(health.reasons) == 3


def requested_rebuilds(scans: list[tuple[list[str], frozenset[str]]]) -> list[bool]:
    changes = MissedChanges()
    requested = []
    for with_events, missed in scans:
        for folder in with_events:
            changes.note_event(folder)
        requested.append(changes.note_scan(missed))
    return requested


@given(SCANS)
def test_the_events_of_other_folders_or_their_absence_change_nothing_for_one(
    scans: list[tuple[list[str], frozenset[str]]],
) -> None:
    alone = [
        requested_rebuilds(
            [
                ([name for name in with_events if name == folder], missed & {folder})
                for with_events, missed in scans
            ]
        )
        for folder in ("", "a", "b")
    ]
    assert requested_rebuilds(scans) == [any(requested) for requested in zip(*alone, strict=True)]


@given(SCANS, FOLDERS, st.lists(st.lists(FOLDERS), min_size=3, max_size=3))
def test_three_scans_in_a_row_that_miss_something_in_a_folder_ask_for_a_rebuild(
    before: list[tuple[list[str], frozenset[str]]], folder: str, with_events: list[list[str]]
) -> None:
    # After an event from there and a scan that finds nothing, the row begins again.
    clean: list[tuple[list[str], frozenset[str]]] = [([folder], frozenset())]
    missed = [(folders, frozenset({folder})) for folders in with_events]
    assert requested_rebuilds([*before, *clean, *missed])[-1]


def test_a_want_of_files_is_not_taken_for_the_limit_of_inotify() -> None:
    assert "max_user_instances" in describe_limit(errno.EMFILE)
    program = (
        "import errno, resource\n"
        "from memsyncd.watch.health import describe_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "print(describe_limit(errno.EMFILE))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout.decode().strip() == "too many open files: raise `ulimit -n`"
