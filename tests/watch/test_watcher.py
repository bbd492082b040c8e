"""The watcher recovers from failures, or reports them."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.core.changes.watchplan import Watch
from memsyncd.watch.health import RunLater
from memsyncd.watch.watcher import Plan, Watcher
from tests.programs import succeeds
from tests.watch.faults import fake_overflow, find_reader, kill_reader

if TYPE_CHECKING:
    from tests.watch.conftest import Recorder, Watched

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)

from watchdog.observers import inotify_c


def test_a_folder_moved_out_and_made_again_does_not_end_the_reader(
    watched: Watched, recorder: Recorder, tmp_path: Path
) -> None:
    folder, outside = watched.root / ".memories" / "a", tmp_path / "outside"
    (folder / "b").mkdir(parents=True)
    recorder.wait_for_event(".memories/a/b")
    folder.rename(outside)
    folder.mkdir()
    (folder / "new.md").write_text("x")
    # it is watched now, and so is the folder that left
    recorder.wait_for_event(".memories/a/new.md")
    shutil.rmtree(folder)
    shutil.rmtree(outside)
    watched.expect_event(".memories/x.md")
    assert watched.watcher.check(0) == ()
    assert recorder.losses == []
    (folder / "b").mkdir(parents=True)
    watched.expect_event(".memories/a/b/x.md")


def test_a_folder_moved_out_has_no_more_events(
    watched: Watched, recorder: Recorder, tmp_path: Path
) -> None:
    folder, outside = watched.root / ".memories" / "a", tmp_path / "outside"
    (folder / "b").mkdir(parents=True)
    recorder.wait_for_event(".memories/a/b")
    folder.rename(outside)
    recorder.clear()
    watched.expect_event(
        ".memories/x.md"
    )  # after the half of the move that waits for the other half

    def is_unwatched() -> bool:
        (outside / "b" / "y.md").write_text("x")
        watched.expect_event(".memories/z.md")
        return recorder.paths() == {".memories/z.md"}

    recorder.wait_until(is_unwatched)


def test_a_folder_moved_out_and_back_in_has_events(
    watched: Watched, recorder: Recorder, tmp_path: Path
) -> None:
    folder, outside = watched.root / ".memories" / "a", tmp_path / "outside"
    folder.mkdir()
    recorder.wait_for_event(".memories/a")
    folder.rename(outside)
    outside.rename(folder)
    time.sleep(0.2)  # until a folder that left is unwatched

    def is_watched() -> bool:
        (folder / "x.md").write_text("another line\n")
        return ".memories/a/x.md" in recorder.paths()

    recorder.wait_until(is_watched)


def test_an_overflow_counts_as_lost_events(watched: Watched, recorder: Recorder) -> None:
    fake_overflow(watched.watcher)
    recorder.wait_for_loss("overflow")
    watched.expect_event(".memories/x.md")


def test_a_real_overflow_counts_as_lost_events_and_does_not_end_the_watching(
    watched: Watched, recorder: Recorder
) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("the queue is too long to fill")
    reader = find_reader(watched.watcher)
    notes = [watched.root / "a.md", watched.root / "b.md"]
    for note in notes:
        note.touch()
    with reader._lock:
        for number in range(limit + 5000):
            os.utime(notes[number % 2])
    recorder.wait_for_loss("overflow")
    # The scan that follows replaces the events that were queued before it.
    assert watched.watcher.n_events < limit / 10
    watched.expect_event(".memories/x.md")


def test_memories_deleted_and_made_again_have_events_once_planned_again(
    watched: Watched, recorder: Recorder
) -> None:
    shutil.rmtree(watched.root / ".memories")
    recorder.wait_for_loss("moved or deleted")
    recorder.wait_for_event(".memories")
    watched.plan()
    assert watched.watcher.check(0) == ()
    recorder.clear()
    (watched.root / ".memories").mkdir()
    recorder.wait_for_event(".memories")
    assert watched.plan()
    watched.expect_event(".memories/x.md")


def test_memories_swapped_for_another_folder_have_events_once_planned_again(
    watched: Watched, recorder: Recorder
) -> None:
    (watched.root / "other").mkdir()
    (watched.root / ".memories").rename(watched.root / "old")
    (watched.root / "other").rename(watched.root / ".memories")
    recorder.wait_for_loss("moved or deleted")
    assert any("replaced" in reason for reason in watched.watcher.check(0))
    assert watched.plan()
    assert watched.watcher.check(0) == ()
    watched.expect_event(".memories/x.md")


def test_a_deleted_root_is_awaited_in_the_folder_above_and_has_events_when_it_returns(
    watched: Watched, recorder: Recorder
) -> None:
    shutil.rmtree(watched.root)
    recorder.wait_for_loss("moved or deleted")
    watched.plan()
    recorder.clear()
    (watched.root / ".memories").mkdir(parents=True)
    recorder.wait_for_event("")
    assert watched.plan()
    watched.expect_event("MEMORY.md")
    watched.expect_event(".memories/x.md")


def test_another_folder_in_the_place_of_a_renamed_root_has_events(
    watched: Watched, recorder: Recorder
) -> None:
    away = watched.root.with_name("away")
    watched.root.rename(away)
    (watched.root / ".memories").mkdir(parents=True)
    recorder.wait_for_loss("moved or deleted")
    assert watched.plan()
    watched.expect_event("MEMORY.md")
    recorder.wait_for_event("MEMORY.md", is_finished=True)
    recorder.clear()
    (away / "MEMORY.md").write_text("x")
    watched.expect_event(".memories/x.md")
    assert "MEMORY.md" not in recorder.paths()


def test_a_renamed_folder_on_the_way_to_an_include_is_found_by_planning_again(
    watched: Watched, recorder: Recorder
) -> None:
    (watched.root / "docs" / "notes").mkdir(parents=True)
    watched.plan("docs/notes/*.md")
    (watched.root / "docs").rename(watched.root / "old")
    recorder.wait_for_loss("moved or deleted")
    (watched.root / "docs" / "notes").mkdir(parents=True)
    assert watched.plan()
    watched.expect_event("docs/notes/x.md")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_an_unmounted_folder_counts_as_lost_events(watched: Watched, recorder: Recorder) -> None:
    folder = str(watched.root / ".memories")
    if not succeeds("mount", "-t", "tmpfs", "none", folder):
        pytest.skip("mounting is not allowed here")
    watched.plan()
    watched.expect_event(".memories/x.md")
    subprocess.run(["umount", folder], check=True)
    recorder.wait_for_loss("unmounted")
    assert watched.plan()
    watched.expect_event(".memories/y.md")


def test_a_folder_that_another_workspace_has_watched_is_new_to_this_workspace(
    watched: Watched,
) -> None:
    # The folder above may be the same for two workspaces whose folders are gone.
    above = frozenset({Watch(str(watched.root), is_recursive=False)})
    plan = Plan(str(watched.root / "gone"), above)
    for workspace_id in ("first", "second"):
        assert watched.watcher.set_plans({workspace_id: plan}) == {workspace_id}
        assert not watched.watcher.set_plans({workspace_id: plan})


def test_a_dead_reader_counts_as_lost_events_and_a_rebuild_replaces_it(
    watched: Watched, recorder: Recorder
) -> None:
    kill_reader(watched.watcher)
    recorder.wait_for_loss("reader failed")
    recorder.wait(lambda: bool(watched.watcher.check(0)))
    assert watched.watcher.health("ws").mode == "timed"
    assert watched.watcher.rebuild(0) is None
    assert watched.watcher.check(0) == ()
    assert watched.watcher.health("ws").mode == "events"
    watched.expect_event(".memories/x.md")


def test_a_reader_counts_as_dead_as_soon_as_it_reports_its_failure(
    recorder: Recorder, run_later: RunLater, tmp_path: Path
) -> None:
    modes: list[str] = []

    def on_events_lost(reason: str) -> None:
        modes.append(watcher.health("ws").mode)
        recorder.on_events_lost(reason)

    watcher = Watcher(recorder.on_event, on_events_lost, run_later)
    try:
        assert watcher.set_plans(
            {"ws": Plan(str(tmp_path), frozenset({Watch(str(tmp_path), is_recursive=False)}))}
        )
        kill_reader(watcher)
        recorder.wait_for_loss("reader failed")
    finally:
        watcher.stop()
    assert modes == ["timed"]


def find_emitter(watched: Watched, folder: str) -> Any:
    observer = watched.watcher._targets.observer
    assert observer is not None
    return next(
        emitter for emitter in observer.emitters if emitter.watch.path == str(watched.root / folder)
    )


def test_an_emitter_that_stopped_is_found_and_planning_again_replaces_it(watched: Watched) -> None:
    find_emitter(watched, ".memories").stop()
    assert watched.watcher.check(0) == ("the emitter of a watched folder has stopped",)
    assert watched.plan()
    assert watched.watcher.check(0) == ()
    watched.expect_event("MEMORY.md")
    watched.expect_event(".memories/x.md")


def test_an_emitter_that_fails_counts_as_lost_events_and_ends_no_other(
    watched: Watched, recorder: Recorder
) -> None:
    def fail(_event: object) -> None:
        raise RuntimeError("no")

    find_emitter(watched, ".memories").queue_event = fail
    (watched.root / ".memories" / "x.md").write_text("x")
    recorder.wait_for_loss("an emitter failed: RuntimeError('no')")
    watched.expect_event("MEMORY.md")
    assert watched.watcher.check(0) == ("the emitter of a watched folder has stopped",)
    assert watched.plan()
    watched.expect_event(".memories/x.md")


def test_rebuilds_have_growing_intervals_that_start_again_after_a_quiet_time(
    watched: Watched,
) -> None:
    now_s = 100.0
    for expected_s in (1, 2, 4, 8, 16, 32, 60, 60):
        assert watched.watcher.rebuild(now_s) is None
        assert watched.watcher.rebuild(now_s + expected_s - 0.1) == now_s + expected_s
        now_s += expected_s
    assert watched.watcher.rebuild(now_s + 1000) is None
    assert watched.watcher.rebuild(now_s + 1001) is None
    watched.expect_event("MEMORY.md")


def test_rebuilding_dead_readers_leaks_neither_threads_nor_descriptors(
    watched: Watched, recorder: Recorder
) -> None:
    def count() -> tuple[int, int]:
        return len(threading.enumerate()), len(os.listdir("/proc/self/fd"))

    before = count()
    for number in range(5):
        recorder.clear()
        kill_reader(watched.watcher)
        recorder.wait_for_loss("reader failed")
        watched.watcher.rebuild(number * 1000)
    # Threads of an earlier test may end meanwhile.
    end_s = time.monotonic() + 30
    while any(now > limit for now, limit in zip(count(), before, strict=True)):
        assert time.monotonic() < end_s, (count(), before)
        time.sleep(0.01)


def test_a_callback_that_raises_does_not_end_the_watching(
    watched: Watched, recorder: Recorder, run_later: RunLater, tmp_path: Path
) -> None:
    is_broken = True

    def on_event(workspace_id: str, path: str, is_finished: bool, is_folder: bool) -> None:
        if is_broken:
            raise RuntimeError("the loop is closed")
        recorder.on_event(workspace_id, path, is_finished, is_folder)

    second = type(watched)(
        Watcher(on_event, recorder.on_events_lost, run_later),
        recorder,
        tmp_path.resolve() / "second",
        workspace_id="second",
    )
    second.root.mkdir()
    try:
        second.plan()
        (second.root / "MEMORY.md").write_text("x")
        recorder.wait_for_loss("an event was lost")
        is_broken = False
        second.expect_event("MEMORY.md")
    finally:
        second.watcher.stop()


def fail_watching(
    monkeypatch: pytest.MonkeyPatch, code: int, is_refused: Callable[[bytes], bool]
) -> None:
    """Make the kernel refuse these folders with this errno."""
    add_watch: Any = inotify_c.inotify_add_watch

    def refuse(fd: int, path: bytes, mask: int) -> int:
        if is_refused(os.path.realpath(path)):
            ctypes.set_errno(code)
            return -1
        return int(add_watch(fd, path, mask))

    monkeypatch.setattr(inotify_c, "inotify_add_watch", refuse)


def test_a_folder_beyond_the_watch_limit_is_reported_and_retried(
    watched: Watched, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_watching(monkeypatch, errno.ENOSPC, lambda path: path.endswith(b"full"))
    (watched.root / ".memories" / "full").mkdir()
    recorder.wait_for_loss("watch limit")
    health = watched.watcher.health("ws")
    assert health.mode == "timed"
    assert "fs.inotify.max_user_watches" in health.reasons[0]
    assert "1 folder" in health.reasons[0]
    assert watched.watcher.check(0) == ()
    monkeypatch.undo()
    recorder.clear()
    watched.watcher.check(59)
    assert recorder.losses == []
    watched.watcher.check(61)
    recorder.wait_for_loss("can be watched")
    assert watched.watcher.health("ws").mode == "events"
    watched.expect_event(".memories/full/x.md")


def test_a_root_beyond_the_watch_limit_is_reported_and_retried_by_the_next_plan(
    watched: Watched, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher.drop("ws")
    fail_watching(monkeypatch, errno.ENOSPC, lambda path: path.endswith(b"proj"))
    assert watched.plan()
    assert watcher.health("ws").mode == "timed"
    assert not watched.plan()
    monkeypatch.undo()
    assert watched.plan()
    assert watcher.health("ws").mode == "events"
    watched.expect_event("MEMORY.md")


def test_refused_folders_stay_known_while_they_are_retried(
    watched: Watched, watcher: Watcher, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (watched.root / ".memories" / "full").mkdir()
    modes_meanwhile: list[str] = []

    def is_refused(path: bytes) -> bool:
        modes_meanwhile.append(watcher.health("ws").mode)
        return path.endswith((b"proj", b"full"))

    fail_watching(monkeypatch, errno.ENOSPC, is_refused)
    watcher.rebuild(0)
    modes_meanwhile.clear()
    watched.plan()
    watcher.check(0)
    watcher.check(61)
    watcher.rebuild(1000)
    assert {*modes_meanwhile} == {"timed"}
    assert len(modes_meanwhile) > 4
    monkeypatch.undo()
    watcher.rebuild(2000)
    assert watcher.health("ws").mode == "events"
    fail_watching(monkeypatch, errno.ENOSPC, is_refused)
    watcher.rebuild(3000)
    assert watcher.health("ws").mode == "timed"
    watcher.drop("ws")
    monkeypatch.undo()
    recorder.clear()
    watcher.check(4000)
    watcher.check(4061)
    assert recorder.losses == []


def test_a_folder_without_permission_is_reported_and_the_rest_relies_on_events(
    watched: Watched, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_watching(monkeypatch, errno.EACCES, lambda path: path.endswith(b"shut"))
    (watched.root / ".memories" / "shut").mkdir()
    recorder.wait_for_loss("permission denied")
    health = watched.watcher.health("ws")
    assert health.mode == "events"
    assert "permission denied" in health.reasons[0]
    assert watched.watcher.may_watch_again("ws")
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("shut"))
    assert not watched.watcher.may_watch_again("ws")
    monkeypatch.undo()
    shutil.rmtree(watched.root / ".memories" / "shut")
    watched.watcher.check(0)
    assert watched.watcher.health("ws").reasons == ()


def test_the_limits_of_one_workspace_do_not_affect_another(
    watched: Watched,
    watcher: Watcher,
    recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = type(watched)(watcher, recorder, tmp_path.resolve() / "other", workspace_id="other")
    (other.root / ".memories").mkdir(parents=True)
    fail_watching(monkeypatch, errno.ENOSPC, lambda path: path.endswith(b"other/.memories"))
    other.plan()
    assert watcher.health("other").mode == "timed"
    assert watcher.health("ws").mode == "events"


def test_the_instance_limit_is_reported_and_a_rebuild_retries(
    watched: Watched, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        ctypes.set_errno(errno.EMFILE)
        return -1

    monkeypatch.setattr(inotify_c, "inotify_init", refuse)
    watcher.rebuild(0)
    assert any("instance limit" in reason for reason in watcher.check(0))
    health = watcher.health("ws")
    assert (health.mode, health.observer) == ("timed", "none")
    assert "max_user_instances" in health.reasons[0]
    monkeypatch.undo()
    assert watcher.rebuild(1000) is None
    assert watcher.health("ws").observer == "inotify"
    watched.expect_event("MEMORY.md")


LIMITED = """
import os, sys, tempfile
open("/proc/sys/user/max_inotify_watches", "w").write("4")
from memsyncd.core.changes.watchplan import NO_INCLUDES, plan_watches
from memsyncd.watch.watcher import Plan, Watcher
from tests.watch.faults import fake_overflow, kill_reader
root = sys.argv[1]
losses = []
watcher = Watcher(lambda *event: None, losses.append, lambda call, key: call())
watcher.set_plans({"ws": Plan(root, plan_watches(root, NO_INCLUDES, is_folder=os.path.isdir))})
health = watcher.health("ws")
print(health.mode, health.reasons, losses)
watcher.stop()
"""


def test_the_watch_limit_of_the_kernel_is_reported(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / ".memories" / f"{number}").mkdir(parents=True)
    command = ["unshare", "-Ur", sys.executable, "-c", LIMITED, str(tmp_path.resolve())]
    if not succeeds("unshare", "-Ur", "true"):
        pytest.skip("user namespaces are not allowed here")
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if "max_inotify_watches" in done.stderr:
        pytest.skip("the limit cannot be set here")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("timed")
    assert "inotify watch limit reached" in done.stdout
    assert done.stdout.count("a folder could not be watched") == 1


def test_three_scans_with_unannounced_changes_ask_for_a_rebuild_and_six_for_timed_scans(
    watched: Watched,
) -> None:
    requested = [watched.watcher.note_scan("ws", [".memories/x.md"]) for _ in range(6)]
    assert requested == [False, False, True, False, False, False]
    health = watched.watcher.health("ws")
    assert health.mode == "timed"
    assert "no event announced" in health.reasons[0]


def test_a_scan_that_finds_nothing_ends_the_row_only_after_an_event(watched: Watched) -> None:
    missed = [".memories/x.md"]
    requested = [watched.watcher.note_scan("ws", paths) for paths in (missed, missed, [], missed)]
    assert requested == [False, False, False, True]
    watched.expect_event(".memories/y.md")
    assert not watched.watcher.note_scan("ws", [])
    assert [watched.watcher.note_scan("ws", missed) for _ in range(3)] == [False, False, True]


def test_the_row_of_a_deleted_folder_ends(watched: Watched) -> None:
    for _ in range(6):
        watched.watcher.note_scan("ws", [".memories/gone/x.md"])
    assert watched.watcher.health("ws").mode == "timed"
    watched.watcher.check(0)
    assert watched.watcher.health("ws").mode == "events"


def test_a_scan_of_an_unknown_workspace_counts_for_nothing(watcher: Watcher) -> None:
    assert not any(watcher.note_scan("unknown", ["x.md"]) for _ in range(5))
    assert watcher.health("unknown").mode == "events"


def test_a_stopped_watcher_has_no_threads_and_watches_nothing_more(
    watched: Watched, recorder: Recorder
) -> None:
    watched.watcher.stop()
    watched.watcher.stop()
    names = ("memsyncd-inotify", "memsyncd-events")
    # Threads of an earlier test may still be ending.
    recorder.wait_until(
        lambda: not [thread for thread in threading.enumerate() if thread.name in names]
    )
    assert not watched.plan()
    assert watched.watcher.rebuild(0) is None
    assert watched.watcher.check(0) == ()
    kill_reader(watched.watcher)
    fake_overflow(watched.watcher)
    (watched.root / "MEMORY.md").write_text("x")
    assert recorder.events == []
