"""The events of real changes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.watch.watcher import Watcher
from tests.proc import read_file
from tests.watch.conftest import WAIT_S

if TYPE_CHECKING:
    from tests.watch.conftest import Recorder, Watched

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)


def test_a_save_in_place_is_unfinished_until_it_is_closed(
    watched: Watched, recorder: Recorder
) -> None:
    with (watched.root / "MEMORY.md").open("w") as note:
        note.write("half")
        note.flush()
        recorder.wait_for_event("MEMORY.md", is_finished=False)
        assert ("ws", "MEMORY.md", True, False) not in recorder.events
    recorder.wait_for_event("MEMORY.md", is_finished=True)


def test_a_file_moved_into_place_is_finished(watched: Watched, recorder: Recorder) -> None:
    temporary = watched.root / ".memories" / "x.md.tmp"
    temporary.write_text("whole")
    os.replace(temporary, watched.root / ".memories" / "x.md")
    recorder.wait_for_event(".memories/x.md", is_finished=True)


def test_a_file_moved_away_or_deleted_is_unfinished_since_it_may_come_back(
    watched: Watched, recorder: Recorder
) -> None:
    for name in ("a.md", "b.md"):
        (watched.root / ".memories" / name).write_text("x")
        recorder.wait_for_event(f".memories/{name}", is_finished=True)
    recorder.clear()
    os.replace(watched.root / ".memories" / "a.md", watched.root / ".memories" / "a.md~")
    (watched.root / ".memories" / "b.md").unlink()
    recorder.wait_for_event(".memories/b.md")
    assert ("ws", ".memories/a.md", False, False) in recorder.events
    assert ("ws", ".memories/a.md", True, False) not in recorder.events
    assert ("ws", ".memories/b.md", True, False) not in recorder.events


def test_a_file_moved_in_from_outside_or_out_has_an_event(
    watched: Watched, recorder: Recorder, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("x")
    os.replace(outside, watched.root / ".memories" / "in.md")
    recorder.wait_for_event(".memories/in.md")
    recorder.clear()
    os.replace(watched.root / ".memories" / "in.md", outside)
    recorder.wait_for_event(".memories/in.md")


def test_a_file_moved_out_delays_no_later_event(
    watched: Watched, recorder: Recorder, tmp_path: Path
) -> None:
    def is_quick() -> bool:
        watched.expect_event(".memories/a.md")
        recorder.wait_for_event(".memories/a.md", is_finished=True)
        started_s = time.monotonic()
        os.replace(watched.root / ".memories" / "a.md", tmp_path / "out.md")
        watched.expect_event(".memories/b.md")
        return time.monotonic() - started_s < 0.4

    # A busy machine delays a single event; the wait for the other half of a move delays each.
    recorder.wait_until(is_quick)


def test_a_file_moved_out_has_an_event_among_many_others(
    watched: Watched, recorder: Recorder, tmp_path: Path
) -> None:
    watched.expect_event(".memories/a.md")
    recorder.clear()
    is_over = threading.Event()

    def save() -> None:
        while not is_over.wait(0.001):
            (watched.root / "MEMORY.md").write_text("x")

    saver = threading.Thread(target=save)
    saver.start()
    try:
        os.replace(watched.root / ".memories" / "a.md", tmp_path / "out.md")
        recorder.wait_for_event(".memories/a.md", is_finished=False)
    finally:
        is_over.set()
        saver.join()


def test_watched_folders_need_no_threads(
    watched: Watched, watcher: Watcher, recorder: Recorder, tmp_path: Path
) -> None:
    before = set(threading.enumerate())
    for number in range(20):
        more = type(watched)(
            watcher, recorder, tmp_path.resolve() / f"more-{number}", workspace_id=f"more-{number}"
        )
        (more.root / ".memories").mkdir(parents=True)
        assert more.plan()
    assert set(threading.enumerate()) <= before  # threads of an earlier test may end meanwhile
    more.expect_event(".memories/x.md")


def test_new_nested_folders_are_watched_at_once(watched: Watched, recorder: Recorder) -> None:
    for number in range(30):
        deep = watched.root / ".memories" / f"{number}" / "b" / "c" / "d"
        deep.mkdir(parents=True)
        (deep / "x.md").write_text("x")
    for number in range(30):
        recorder.wait_for_event(f".memories/{number}/b/c/d/x.md")
    watched.expect_event(".memories/7/b/c/d/y.md")
    assert recorder.losses == []
    assert watched.watcher.check(0) == ()


def test_a_change_of_permissions_has_an_event(watched: Watched, recorder: Recorder) -> None:
    watched.expect_event("MEMORY.md")
    recorder.wait_for_event("MEMORY.md", is_finished=True)
    recorder.clear()
    (watched.root / "MEMORY.md").chmod(0o400)
    recorder.wait_for_event("MEMORY.md")


def test_reading_has_no_event(watched: Watched, recorder: Recorder) -> None:
    watched.expect_event("MEMORY.md")
    recorder.wait_for_event("MEMORY.md", is_finished=True)
    recorder.clear()
    for _ in range(10):
        (watched.root / "MEMORY.md").read_text()
        list(os.scandir(watched.root / ".memories"))
    watched.expect_event("end.md")
    assert recorder.paths() == {"end.md"}


def test_the_source_tree_has_no_events(watched: Watched, recorder: Recorder) -> None:
    source = watched.root / "src"
    source.mkdir()
    recorder.wait_for_event("src")
    recorder.clear()
    (source / "x.md").write_text("x")
    watched.expect_event("end.md")
    assert recorder.paths() == {"end.md"}


def test_a_link_to_a_folder_is_reported_as_a_folder(
    watched: Watched, recorder: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "target").mkdir()
    (watched.root / ".memories" / "linked").symlink_to(tmp_path / "target")
    recorder.wait(lambda: ("ws", ".memories/linked", False, True) in recorder.events)


def test_an_event_in_a_links_target_concerns_the_whole_workspace(
    watched: Watched, recorder: Recorder, tmp_path: Path
) -> None:
    target = tmp_path.resolve() / "elsewhere"
    target.mkdir()
    watched.plan(link_folders=(str(target),))
    (target / "noise.py").write_text("x")
    (target / "real.md").write_text("x")
    recorder.wait(lambda: ("ws", "", False, True) in recorder.events)
    assert recorder.paths() == {""}


def test_an_included_folder_has_events_as_soon_as_it_exists(
    watched: Watched, recorder: Recorder
) -> None:
    watched.plan("docs/**/*.md")
    (watched.root / "docs").mkdir()
    recorder.wait_for_event("docs")
    assert watched.plan()
    watched.expect_event("docs/x.md")
    assert not watched.plan()


def test_nested_workspaces_receive_their_own_events_and_are_dropped_apart(
    watched: Watched, watcher: Watcher, recorder: Recorder
) -> None:
    inner = type(watched)(watcher, recorder, watched.root / "docs", workspace_id="inner")
    (inner.root / ".memories").mkdir(parents=True)
    inner.plan()
    watched.plan("docs/**/*.md")
    (inner.root / "MEMORY.md").write_text("x")
    recorder.wait_for_event("MEMORY.md", workspace_id="inner", is_finished=True)
    recorder.wait_for_event("docs/MEMORY.md", is_finished=True)
    watcher.drop("ws")
    inner.expect_event("MEMORY.md")
    inner.expect_event(".memories/x.md")
    assert {event[0] for event in recorder.events} == {"inner"}


def test_a_dropped_workspace_has_no_events_and_leaves_no_watch(
    watched: Watched, watcher: Watcher, recorder: Recorder
) -> None:
    watcher.drop("ws")
    recorder.clear()
    (watched.root / "MEMORY.md").write_text("x")
    assert watcher.n_watches == 0
    assert recorder.events == []
    assert watcher.check(0) == ()


@pytest.mark.needs("git")
def test_a_hundred_saved_files_and_a_git_checkout_have_events(
    watched: Watched, recorder: Recorder
) -> None:
    for number in range(100):
        (watched.root / ".memories" / f"{number}.md").write_text(f"{number}")
    for number in range(100):
        recorder.wait_for_event(f".memories/{number}.md", is_finished=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(watched.root)]
    for words in (["init", "-q"], ["add", "-f", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    (watched.root / ".memories" / "5.md").write_text("other")
    recorder.clear()
    subprocess.run([*git, "checkout", "-q", "."], check=True, capture_output=True)
    recorder.wait_for_event(".memories/5.md", is_finished=True)


def test_no_thread_wakes_up_while_nothing_changes(watched: Watched, recorder: Recorder) -> None:
    watched.expect_event("MEMORY.md")

    def count_switches() -> tuple[int, int]:
        names = ("memsyncd-inotify", "memsyncd-events")
        tasks = [
            f"/proc/self/task/{thread.native_id}/status"
            for thread in threading.enumerate()
            if thread.name in names
        ]
        return len(tasks), sum(
            int(line.split()[1])
            for task in tasks
            for line in read_file(task).splitlines()
            if "ctxt_switches" in line
        )

    def is_quiet() -> bool:
        before = count_switches()
        time.sleep(0.5)
        return before[0] == 2 and count_switches() == before

    recorder.wait_until(is_quiet)


def test_events_that_have_occurred_are_handled_when_the_watcher_calls(
    watched: Watched, recorder: Recorder
) -> None:
    for number in range(50):
        path, seen = f".memories/note-{number}.md", threading.Event()
        (watched.root / path).write_text("text")
        if watched.watcher.call_when_handled(seen.set):
            assert seen.wait(WAIT_S)
        assert ("ws", path, True, False) in recorder.events
    recorder.wait_until(lambda: not watched.watcher.call_when_handled(lambda: None))


def test_the_watcher_calls_only_when_the_last_event_is_handled(
    watched: Watched, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_held, is_over, seen = threading.Event(), threading.Event(), threading.Event()

    def hold(*_event: object) -> None:
        is_held.set()
        assert is_over.wait(WAIT_S)

    recorder.wait_until(lambda: not watched.watcher.call_when_handled(lambda: None))
    monkeypatch.setattr(watched.watcher, "_on_event", hold)
    (watched.root / "MEMORY.md").write_text("text")
    assert is_held.wait(WAIT_S)
    assert watched.watcher.call_when_handled(seen.set)
    assert not seen.wait(0.05)
    is_over.set()
    assert seen.wait(WAIT_S)
