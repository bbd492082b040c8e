"""Can a workspace's events be relied on, and if not, why?"""

from __future__ import annotations

import errno

from memsyncd.watch.health import MissedChanges, describe_health


def test_with_nothing_known_against_them_events_are_relied_on() -> None:
    health = describe_health(observer="inotify", trouble=(), unwatched={}, missed=MissedChanges())
    assert (health.mode, health.reasons) == ("events", ())


def test_each_kind_of_limit_is_named_once_with_what_to_do_and_how_many_folders() -> None:
    unwatched = {"/a": errno.ENOSPC, "/b": errno.ENOSPC, "/c": errno.EACCES, "/d": errno.EIO}
    health = describe_health(observer="inotify", trouble=(), unwatched=unwatched, missed=MissedChanges())
    assert health.mode == "timed"
    assert health.reasons == (
        "input/output error (1 folder not watched)",
        "inotify watch limit reached: raise it with `sudo sysctl fs.inotify.max_user_watches=1048576` (2 folders not watched)",
        "permission denied (1 folder not watched)",
    )


def test_an_observer_that_only_polls_is_named() -> None:
    health = describe_health(observer="PollingObserver", trouble=(), unwatched={}, missed=MissedChanges())
    assert health.mode == "timed"
    assert "by the clock" in health.reasons[0]


def test_trouble_comes_first() -> None:
    deaf = MissedChanges()
    for _ in range(6):
        deaf.note_scan([".memories"])
    health = describe_health(observer="none", trouble=("nothing listens",), unwatched={"/a": errno.ENOSPC}, missed=deaf)
    assert health.reasons[0] == "nothing listens"
    assert len(health.reasons) == 3
