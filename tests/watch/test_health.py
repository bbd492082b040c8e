"""Can a workspace's events be relied on, and if not, why?"""

from __future__ import annotations

import errno

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.watch.health import MissedChanges, describe_health

FOLDERS = st.sampled_from(["", "a", "b"])
SCANS = st.lists(st.tuples(st.lists(FOLDERS), st.frozensets(FOLDERS)), max_size=30)
"""Before each timed scan the folders events came from; then those with unannounced changes."""


def test_with_nothing_known_against_them_events_are_relied_on() -> None:
    health = describe_health(
        observer="inotify", observer_faults=(), unwatched={}, missed=MissedChanges()
    )
    assert (health.mode, health.reasons) == ("events", ())


def test_each_kind_of_limit_is_named_once_with_what_to_do_and_how_many_folders() -> None:
    unwatched = {"/a": errno.ENOSPC, "/b": errno.ENOSPC, "/c": errno.EACCES, "/d": errno.EIO}
    health = describe_health(
        observer="inotify", observer_faults=(), unwatched=unwatched, missed=MissedChanges()
    )
    assert health.mode == "timed"
    assert health.reasons == (
        "input/output error (1 folder not watched)",
        "inotify watch limit reached: raise it with `sudo sysctl fs.inotify.max_user_watches=1048576` (2 folders not watched)",
        "permission denied (1 folder not watched)",
    )


def test_an_observer_that_only_polls_is_named() -> None:
    health = describe_health(
        observer="PollingObserver", observer_faults=(), unwatched={}, missed=MissedChanges()
    )
    assert health.mode == "timed"
    assert "by a timer" in health.reasons[0]


def test_trouble_comes_first() -> None:
    deaf = MissedChanges()
    for _ in range(6):
        deaf.note_scan([".memories"])
    health = describe_health(
        observer="none",
        observer_faults=("nothing listens",),
        unwatched={"/a": errno.ENOSPC},
        missed=deaf,
    )
    assert health.reasons[0] == "nothing listens"
    assert len(health.reasons) == 3


def ask(scans: list[tuple[list[str], frozenset[str]]]) -> list[bool]:
    changes = MissedChanges()
    asked = []
    for heard, missed in scans:
        for folder in heard:
            changes.note_event(folder)
        asked.append(changes.note_scan(missed))
    return asked


@given(SCANS)
def test_what_other_folders_tell_or_keep_to_themselves_changes_nothing_for_one(
    scans: list[tuple[list[str], frozenset[str]]],
) -> None:
    alone = [
        ask(
            [
                ([one for one in heard if one == folder], missed & {folder})
                for heard, missed in scans
            ]
        )
        for folder in ("", "a", "b")
    ]
    assert ask(scans) == [any(asked) for asked in zip(*alone, strict=True)]


@given(SCANS, FOLDERS, st.lists(st.lists(FOLDERS), min_size=3, max_size=3))
def test_three_scans_in_a_row_that_miss_something_in_a_folder_ask_for_a_rebuild(
    before: list[tuple[list[str], frozenset[str]]], folder: str, heard: list[list[str]]
) -> None:
    # An event from there, and a scan that finds nothing: the row begins anew.
    clean: list[tuple[list[str], frozenset[str]]] = [([folder], frozenset())]
    missed = [(told, frozenset({folder})) for told in heard]
    assert ask([*before, *clean, *missed])[-1]
