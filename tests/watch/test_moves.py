"""Folders stay watched if they move while the queue is not read, or while they are being watched.

Each test holds up the reader, or acts during its work, so that a fault that depends on timing
occurs each time.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.watch.faults import exchange, fake_overflow, find_reader

if TYPE_CHECKING:
    from tests.watch.conftest import Recorder, Watched

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)

from watchdog.observers import inotify_c

NUMBERS = itertools.count()
HANG_LIMIT_S = 60.0


@contextmanager
def unread(watched: Watched) -> Iterator[None]:
    """Hold up the reader; after the block it reads all events at once."""
    reader = find_reader(watched.watcher)
    with reader._lock:
        os.utime(watched.root / ".memories")  # now the reader waits for the lock
        yield


def catch_up(watched: Watched) -> None:
    """Wait until the watcher has followed all that has happened to the memories so far."""
    watched.expect_event(f".memories/caught-up-{next(NUMBERS)}.md")


def recover(watched: Watched) -> None:
    """Do the same as the daemon after lost events and at each reconcile."""
    watched.plan()
    watched.watcher.walk()
    assert watched.watcher.check(0) == ()


def make(watched: Watched, *names: str) -> list[Path]:
    """Make folders among the memories; they are watched when this returns."""
    folders = [watched.root / ".memories" / name for name in names]
    for folder in folders:
        folder.mkdir(parents=True)
    for name in names:
        watched.expect_event(f".memories/{name}/first.md")
    return folders


def test_two_exchanged_folders_have_events_under_their_new_names(
    watched: Watched, recorder: Recorder
) -> None:
    a, b = make(watched, "a/in-a", "b/in-b")
    exchange(a.parent, b.parent)
    catch_up(watched)
    for number, folder in enumerate(("a", "b", "a/in-b", "b/in-a")):
        path = f".memories/{folder}/{number}.md"
        watched.expect_event(path)
        assert {path for path in recorder.paths() if path.endswith(f"/{number}.md")} == {path}


def test_a_folder_exchanged_with_one_outside_leaves_events_only_for_the_one_inside(
    watched: Watched, recorder: Recorder, tmp_path: Path
) -> None:
    (a,) = make(watched, "a")
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    exchange(a, tmp_path / "outside")
    catch_up(watched)
    watched.expect_event(".memories/a/deep/x.md")
    recorder.clear()
    (tmp_path / "outside" / "y.md").write_text("x")
    watched.expect_event(".memories/z.md")
    assert ".memories/a/y.md" not in recorder.paths()


def test_a_folder_made_in_one_that_is_renamed_at_once_is_watched(watched: Watched) -> None:
    (x,) = make(watched, "x")
    with unread(watched):
        (x / "sub" / "deep").mkdir(parents=True)
        x.rename(x.with_name("z"))
    watched.expect_event(".memories/z/sub/x.md")
    watched.expect_event(".memories/z/sub/deep/x.md")


def test_a_folder_renamed_twice_before_its_events_are_read_is_watched(watched: Watched) -> None:
    (x,) = make(watched, "x")
    with unread(watched):
        (x / "sub").mkdir()
        x.rename(x.with_name("y"))
        (x.with_name("y") / "sub" / "deep").mkdir()
        x.with_name("y").rename(x.with_name("z"))
    watched.expect_event(".memories/z/sub/deep/x.md")


def test_an_overflow_while_the_root_is_away_loses_no_watch(
    watched: Watched, recorder: Recorder
) -> None:
    make(watched, "a/b")
    away = watched.root.with_name("away")
    watched.root.rename(away)
    fake_overflow(watched.watcher)
    recorder.wait_for_loss("overflow")
    away.rename(watched.root)
    recover(watched)
    watched.expect_event(".memories/x.md")
    watched.expect_event(".memories/a/b/x.md")


def test_a_folder_made_while_the_root_is_away_is_watched(
    watched: Watched, recorder: Recorder
) -> None:
    make(watched, "a")
    away = watched.root.with_name("away")
    with unread(watched):
        (watched.root / ".memories" / "a" / "new").mkdir()
        watched.root.rename(away)
    recorder.wait_for_loss("moved or deleted")
    away.rename(watched.root)
    recover(watched)
    watched.expect_event(".memories/a/new/x.md")


def test_a_folder_made_while_a_folder_above_the_root_is_away_counts_as_lost_events(
    watched: Watched, recorder: Recorder
) -> None:
    """The rename has no event: the kernel reports it only to watches of the moved folder."""
    make(watched, "a")
    above = watched.root.parent
    with unread(watched):
        (watched.root / ".memories" / "a" / "new").mkdir()
        above.rename(above.with_name("above-away"))
    recorder.wait_for_loss("not where it was")
    above.with_name("above-away").rename(above)
    recover(watched)
    watched.expect_event(".memories/a/new/x.md")


def amid_watching(
    monkeypatch: pytest.MonkeyPatch, folder: Path, action: Callable[[], object]
) -> None:
    """Act once, as soon as the kernel watches this folder."""
    add_watch: Any = inotify_c.inotify_add_watch
    actions = [action]

    def add_and_run(fd: int, path: bytes, mask: int) -> int:
        is_it = os.path.realpath(path) == os.fsencode(folder)
        wd = int(add_watch(fd, path, mask))
        if is_it and actions:
            actions.pop()()
        return wd

    monkeypatch.setattr(inotify_c, "inotify_add_watch", add_and_run)


def test_a_root_that_is_away_while_the_watcher_is_rebuilt_loses_no_watch(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(watched, "a/b", "c")
    away = watched.root.with_name("away")
    amid_watching(monkeypatch, watched.root / ".memories", lambda: watched.root.rename(away))
    assert watched.watcher.rebuild(0) is None
    away.rename(watched.root)
    recover(watched)
    for path in ("x.md", "a/x.md", "a/b/x.md", "c/x.md"):
        watched.expect_event(f".memories/{path}")


def test_a_folder_that_moves_while_the_tree_is_walked_has_events_under_its_new_name(
    watched: Watched, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = make(watched, "a", "b")
    moved = a.with_name("c")
    amid_watching(monkeypatch, a, lambda: a.rename(moved))
    watched.watcher.walk()
    catch_up(watched)
    watched.expect_event(".memories/c/x.md")
    assert ".memories/a/x.md" not in recorder.paths()


def test_a_folder_renamed_while_its_event_is_followed_has_events_under_its_last_name(
    watched: Watched, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a,) = make(watched, "a/deep")
    a = a.parent
    amid_watching(monkeypatch, a.with_name("b"), lambda: a.with_name("b").rename(a.with_name("c")))
    a.rename(a.with_name("b"))
    catch_up(watched)
    catch_up(watched)  # for the event of the second rename
    watched.expect_event(".memories/c/deep/x.md")
    assert ".memories/b/deep/x.md" not in recorder.paths()


def test_a_watch_that_the_kernel_has_dropped_is_found_and_made_again(watched: Watched) -> None:
    make(watched, "a")
    reader = find_reader(watched.watcher)
    for wd in list(reader._watch_for_wd):
        inotify_c.inotify_rm_watch(reader._inotify_fd, wd)
    watched.recorder.wait_until(lambda: not reader._watch_for_wd)
    assert watched.watcher.check(0) == ("a watched folder has lost its watch",)
    assert watched.plan()
    assert watched.watcher.check(0) == ()
    for path in ("MEMORY.md", ".memories/x.md", ".memories/a/x.md"):
        watched.expect_event(path)


def test_a_walk_returns_nothing_if_all_is_watched_and_else_the_workspace(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(watched, "a/b", "c")
    assert watched.watcher.walk() == frozenset()
    reader = find_reader(watched.watcher)
    with monkeypatch.context() as silent:
        silent.setattr(reader, "handle_event", lambda _event: None)
        (watched.root / ".memories" / "c" / "unreported").mkdir()
        assert watched.watcher.walk() == {"ws"}
    assert watched.watcher.walk() == frozenset()
    watched.expect_event(".memories/c/unreported/x.md")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_that_is_closed_for_a_while_stays_watched(watched: Watched) -> None:
    (a,) = make(watched, "a")
    a.chmod(0)
    watched.watcher.walk()
    a.chmod(0o700)
    watched.expect_event(".memories/a/x.md")


@pytest.fixture
def other(watched: Watched, recorder: Recorder, tmp_path: Path) -> Watched:
    """Another workspace of the same watcher."""
    made = type(watched)(
        watched.watcher, recorder, tmp_path.resolve() / "other", workspace_id="other"
    )
    (made.root / ".memories").mkdir(parents=True)
    made.plan()
    return made


def test_a_walk_that_hangs_on_one_disk_delays_no_event_of_others(
    watched: Watched, other: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_hung, is_over = threading.Event(), threading.Event()

    def hang() -> None:
        is_hung.set()
        is_over.wait(HANG_LIMIT_S)

    amid_watching(monkeypatch, other.root / ".memories", hang)
    walk = threading.Thread(target=watched.watcher.walk)
    walk.start()
    try:
        assert is_hung.wait(HANG_LIMIT_S)
        (watched.root / ".memories" / "new").mkdir()
        catch_up(watched)
        watched.expect_event(".memories/new/x.md")
        other.expect_event(".memories/x.md")
    finally:
        is_over.set()
        walk.join()


def test_a_folder_event_that_hangs_on_one_disk_delays_no_event_of_others(
    watched: Watched, other: Watched, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_hung, is_over = threading.Event(), threading.Event()

    def hang() -> None:
        is_hung.set()
        is_over.wait(HANG_LIMIT_S)

    new = other.root / ".memories" / "new"
    amid_watching(monkeypatch, new, hang)
    new.mkdir()
    try:
        assert is_hung.wait(HANG_LIMIT_S)
        make(watched, "a/b")
        other.expect_event("MEMORY.md")
    finally:
        is_over.set()
    (new / "x.md").write_text("x")
    recorder.wait_for_event(".memories/new/x.md", workspace_id="other")


def test_a_link_check_that_hangs_on_one_disk_delays_no_event_of_others(
    watched: Watched,
    other: Watched,
    recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_hung, is_over = threading.Event(), threading.Event()
    link = other.root / ".memories" / "link"
    is_link = os.path.islink

    def hang(path: Any) -> bool:
        if path == str(link):
            is_hung.set()
            is_over.wait(HANG_LIMIT_S)
        return is_link(path)

    monkeypatch.setattr(os.path, "islink", hang)
    link.symlink_to(tmp_path)
    try:
        assert is_hung.wait(HANG_LIMIT_S)
        watched.expect_event(".memories/x.md")
        other.expect_event(".memories/x.md")
        (watched.root / ".memories" / "link").symlink_to(tmp_path)
        recorder.wait(lambda: ("ws", ".memories/link", False, True) in recorder.events)
    finally:
        is_over.set()
    recorder.wait(lambda: ("other", ".memories/link", False, True) in recorder.events)
