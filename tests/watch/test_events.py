"""What real changes sound like."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.watch.supervisor import Watcher

if TYPE_CHECKING:
    from tests.watch.conftest import Ears, Watched

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)


def test_a_save_in_place_is_unfinished_until_it_is_closed(watched: Watched, ears: Ears) -> None:
    with (watched.root / "MEMORY.md").open("w") as note:
        note.write("half")
        note.flush()
        ears.hear("MEMORY.md", is_finished=False)
        assert ("ws", "MEMORY.md", True, False) not in ears.events
    ears.hear("MEMORY.md", is_finished=True)


def test_a_file_moved_into_place_is_finished(watched: Watched, ears: Ears) -> None:
    temporary = watched.root / ".memories" / "x.md.tmp"
    temporary.write_text("whole")
    os.replace(temporary, watched.root / ".memories" / "x.md")
    ears.hear(".memories/x.md", is_finished=True)


def test_a_file_moved_away_or_deleted_is_unfinished_since_it_may_come_back(watched: Watched, ears: Ears) -> None:
    for name in ("a.md", "b.md"):
        (watched.root / ".memories" / name).write_text("x")
        ears.hear(f".memories/{name}", is_finished=True)
    ears.clear()
    os.replace(watched.root / ".memories" / "a.md", watched.root / ".memories" / "a.md~")
    (watched.root / ".memories" / "b.md").unlink()
    ears.hear(".memories/b.md")
    assert ("ws", ".memories/a.md", False, False) in ears.events
    assert ("ws", ".memories/a.md", True, False) not in ears.events
    assert ("ws", ".memories/b.md", True, False) not in ears.events


def test_a_file_moved_in_from_outside_or_out_is_heard(watched: Watched, ears: Ears, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("x")
    os.replace(outside, watched.root / ".memories" / "in.md")
    ears.hear(".memories/in.md")
    ears.clear()
    os.replace(watched.root / ".memories" / "in.md", outside)
    ears.hear(".memories/in.md")


def test_a_file_moved_out_holds_up_nothing_behind_it(watched: Watched, ears: Ears, tmp_path: Path) -> None:
    watched.expect_ring(".memories/a.md")
    ears.hear(".memories/a.md", is_finished=True)
    started_s = time.monotonic()
    os.replace(watched.root / ".memories" / "a.md", tmp_path / "out.md")
    watched.expect_ring(".memories/b.md")
    assert time.monotonic() - started_s < 0.4


def test_a_file_moved_out_is_heard_though_others_never_rest(watched: Watched, ears: Ears, tmp_path: Path) -> None:
    watched.expect_ring(".memories/a.md")
    ears.clear()
    is_over = threading.Event()

    def save() -> None:
        while not is_over.wait(0.001):
            (watched.root / "MEMORY.md").write_text("x")

    saver = threading.Thread(target=save)
    saver.start()
    try:
        os.replace(watched.root / ".memories" / "a.md", tmp_path / "out.md")
        ears.hear(".memories/a.md", is_finished=False)
    finally:
        is_over.set()
        saver.join()


def test_folders_cost_no_threads(watched: Watched, watcher: Watcher, ears: Ears, tmp_path: Path) -> None:
    n_threads = threading.active_count()
    for number in range(20):
        more = type(watched)(watcher, ears, tmp_path.resolve() / f"more-{number}", workspace_id=f"more-{number}")
        (more.root / ".memories").mkdir(parents=True)
        assert more.plan()
    assert threading.active_count() == n_threads
    more.expect_ring(".memories/x.md")


def test_new_nested_folders_are_listened_to_at_once(watched: Watched, ears: Ears) -> None:
    for number in range(30):
        deep = watched.root / ".memories" / f"{number}" / "b" / "c" / "d"
        deep.mkdir(parents=True)
        (deep / "x.md").write_text("x")
    for number in range(30):
        ears.hear(f".memories/{number}/b/c/d/x.md")
    watched.expect_ring(".memories/7/b/c/d/y.md")
    assert ears.doubts == []
    assert watched.watcher.check(0) == ()


def test_a_change_of_rights_is_heard(watched: Watched, ears: Ears) -> None:
    watched.expect_ring("MEMORY.md")
    ears.hear("MEMORY.md", is_finished=True)
    ears.clear()
    (watched.root / "MEMORY.md").chmod(0o400)
    ears.hear("MEMORY.md")


def test_reading_is_not_heard(watched: Watched, ears: Ears) -> None:
    watched.expect_ring("MEMORY.md")
    ears.hear("MEMORY.md", is_finished=True)
    ears.clear()
    for _ in range(10):
        (watched.root / "MEMORY.md").read_text()
        list(os.scandir(watched.root / ".memories"))
    watched.expect_ring("end.md")
    assert ears.paths() == {"end.md"}


def test_the_source_tree_is_not_heard(watched: Watched, ears: Ears) -> None:
    source = watched.root / "src"
    source.mkdir()
    ears.hear("src")
    ears.clear()
    (source / "x.md").write_text("x")
    watched.expect_ring("end.md")
    assert ears.paths() == {"end.md"}


def test_a_link_to_a_folder_rings_as_a_folder(watched: Watched, ears: Ears, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (watched.root / ".memories" / "linked").symlink_to(tmp_path / "target")
    ears.wait(lambda: ("ws", ".memories/linked", False, True) in ears.events)


def test_a_links_target_rings_for_the_workspace_as_a_whole(watched: Watched, ears: Ears, tmp_path: Path) -> None:
    target = tmp_path.resolve() / "elsewhere"
    target.mkdir()
    watched.plan(link_folders=(str(target),))
    (target / "noise.py").write_text("x")
    (target / "real.md").write_text("x")
    ears.wait(lambda: ("ws", "", False, True) in ears.events)
    assert ears.paths() == {""}


def test_an_included_folder_is_heard_from_the_moment_it_is_there(watched: Watched, ears: Ears) -> None:
    watched.plan("docs/**/*.md")
    (watched.root / "docs").mkdir()
    ears.hear("docs")
    assert watched.plan()
    watched.expect_ring("docs/x.md")
    assert not watched.plan()


def test_nested_workspaces_hear_their_own_and_go_separate_ways(watched: Watched, watcher: Watcher, ears: Ears) -> None:
    inner = type(watched)(watcher, ears, watched.root / "docs", workspace_id="inner")
    (inner.root / ".memories").mkdir(parents=True)
    inner.plan()
    watched.plan("docs/**/*.md")
    (inner.root / "MEMORY.md").write_text("x")
    ears.hear("MEMORY.md", workspace_id="inner", is_finished=True)
    ears.hear("docs/MEMORY.md", is_finished=True)
    watcher.drop("ws")
    inner.expect_ring("MEMORY.md")
    inner.expect_ring(".memories/x.md")
    assert {event[0] for event in ears.events} == {"inner"}


def test_a_dropped_workspace_is_heard_no_more_and_leaves_no_watch(watched: Watched, watcher: Watcher, ears: Ears) -> None:
    watcher.drop("ws")
    ears.clear()
    (watched.root / "MEMORY.md").write_text("x")
    assert watcher.n_watches == 0
    assert ears.events == []
    assert watcher.check(0) == ()


@pytest.mark.needs("git")
def test_git_and_a_hundred_files_are_heard(watched: Watched, ears: Ears) -> None:
    for number in range(100):
        (watched.root / ".memories" / f"{number}.md").write_text(f"{number}")
    for number in range(100):
        ears.hear(f".memories/{number}.md", is_finished=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(watched.root)]
    for words in (["init", "-q"], ["add", "-f", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    (watched.root / ".memories" / "5.md").write_text("other")
    ears.clear()
    subprocess.run([*git, "checkout", "-q", "."], check=True, capture_output=True)
    ears.hear(".memories/5.md", is_finished=True)


def test_nobody_wakes_while_nothing_happens(watched: Watched) -> None:
    watched.expect_ring("MEMORY.md")
    time.sleep(0.2)  # for what still rings

    def count_switches() -> int:
        names = ("memsyncd-inotify", "memsyncd-events")
        tasks = [f"/proc/self/task/{thread.native_id}/status" for thread in threading.enumerate() if thread.name in names]
        assert len(tasks) == 2
        return sum(
            int(line.split()[1]) for task in tasks for line in Path(task).read_text().splitlines() if "ctxt_switches" in line
        )

    before = count_switches()
    time.sleep(0.5)
    assert count_switches() == before
