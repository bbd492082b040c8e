"""Notes and folders are created, deleted, moved and swapped, and links lead to them. The index
follows without a requested scan.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.proc import count_watches, list_names

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home, Place, SearchProbe

    MakePlace = Callable[..., Place]

pytestmark = pytest.mark.shared_daemon

MEMORY = "MEMORY.md"
# Longer than the debounce: later events are handled at once, not collected with earlier ones.
QUIET_S = 0.3


def write(path: Path, word: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# Note\n\n{word} stands here\n")
    return path


def test_a_note_moved_in_is_found_without_further_events(place: Place) -> None:
    write(place.outside / "new.md", "larch").rename(place.root / ".memories" / "new.md")
    place.wait_found("larch", ".memories/new.md")
    place.wait_equal()


def test_a_note_moved_out_or_deleted_is_removed_after_the_grace_time(place: Place) -> None:
    write(place.root / ".memories" / "a.md", "larch")
    write(place.root / ".memories" / "b.md", "maple")
    place.wait_equal()
    (place.root / ".memories" / "a.md").rename(place.outside / "a.md")
    (place.root / ".memories" / "b.md").unlink()
    assert not place.find("larch maple", wait="disk")
    place.wait_found("larch")
    place.wait_found("maple")
    place.wait_equal()


def test_a_deleted_note_is_removed_in_time_during_continuous_saves(
    place: Place,
) -> None:
    gone, busy = write(place.root / ".memories" / "gone.md", "larch"), place.root / MEMORY
    place.wait_found("larch", ".memories/gone.md")
    gone.unlink()

    def is_gone() -> bool:
        with busy.open("a") as stream:
            stream.write("- one more line\n")
        return not place.find("larch")

    place.wait(is_gone, "it stayed")


def test_a_renamed_note_is_a_move_and_found_under_its_new_name_alone(
    place: Place, watch_word: Callable[[str], SearchProbe]
) -> None:
    old = write(place.root / ".memories" / "old.md", "larch")
    place.wait_found("larch", ".memories/old.md")
    time.sleep(QUIET_S)
    with watch_word("larch") as presence:
        old.rename(old.with_name("new.md"))
        place.wait_found("larch", ".memories/new.md")
    assert presence.longest_absence_s == 0.0
    # A deletion would wait for the grace of the vanished note.
    place.wait(lambda: '"moved": 1' in last_sync(place), "no move was told")
    place.wait_equal()


def test_a_renamed_folder_takes_its_notes_with_it(
    place: Place, watch_word: Callable[[str], SearchProbe]
) -> None:
    folder = place.root / ".memories" / "sessions"
    write(folder / "one.md", "larch")
    write(folder / "deep" / "two.md", "maple")
    place.wait_equal()
    with watch_word("larch") as presence:
        folder.rename(folder.with_name("talks"))
        place.wait_found("larch", ".memories/talks/one.md")
        place.wait_found("maple", ".memories/talks/deep/two.md")
    assert presence.longest_absence_s == 0.0
    write(folder.with_name("talks") / "one.md", "hazel")
    place.wait_found("hazel", ".memories/talks/one.md")
    place.wait_equal()


def test_folders_created_moved_in_or_copied_in_are_indexed_and_watched(
    place: Place,
) -> None:
    memories = place.root / ".memories"
    write(memories / "a" / "b" / "c" / "d" / "made.md", "larch")
    write(place.outside / "in" / "x" / "moved.md", "maple")
    write(place.outside / "copy" / "y" / "copied.md", "hazel")
    (place.outside / "in").rename(memories / "in")
    place.run("cp", "-r", place.outside / "copy", memories / "copy")
    place.wait_equal()
    for path, word in (
        ("a/b/c/d/more.md", "aspen"),
        ("in/x/more.md", "rowan"),
        ("copy/y/more.md", "alder"),
    ):
        write(memories / path, word)
        place.wait_found(word, f".memories/{path}")


def test_many_small_notes_created_at_once_are_all_found(place: Place) -> None:
    for number in range(100):
        write(place.root / ".memories" / f"day{number % 20}" / f"{number}.md", f"note{number}")
    place.wait_equal()


def test_memories_that_are_removed_and_created_again_are_watched_again(place: Place) -> None:
    memories = place.root / ".memories"
    shutil.rmtree(memories)
    place.wait_equal()
    write(memories / "again.md", "larch")
    place.wait_found("larch", ".memories/again.md")
    write(memories / "sub" / "more.md", "maple")
    place.wait_found("maple", ".memories/sub/more.md")
    place.wait_equal()


def test_the_first_memory_of_a_folder_is_found(
    home: Home, daemon: Daemon, root: Path, make_place: MakePlace
) -> None:
    place = make_place(root)
    write(root / ".memories" / "first.md", "larch")
    place.wait_found("larch", ".memories/first.md")
    write(root / "MEMORY.md", "maple")
    place.wait_found("maple", "MEMORY.md")
    place.wait_equal()


def test_a_removed_root_is_missing_and_keeps_its_index_until_it_returns(place: Place) -> None:
    aside = place.outside / "aside"
    place.root.rename(aside)
    place.wait(lambda: place.status()["state"] == "missing", "nobody noticed that the root is gone")
    assert place.find("keepsake") == {MEMORY}
    write(aside / "MEMORY.md", "larch")
    aside.rename(place.root)
    place.wait_found("larch", MEMORY)
    place.wait(lambda: place.status()["state"] == "ready", "it stayed missing")
    write(place.root / ".memories" / "more.md", "maple")
    place.wait_found("maple", ".memories/more.md")


def test_a_root_swapped_for_another_folder_is_read_again_and_watched(place: Place) -> None:
    write(place.outside / "other" / "MEMORY.md", "larch")
    write(place.outside / "other" / ".memories" / "deep" / "note.md", "maple")
    place.root.rename(place.outside / "aside")
    (place.outside / "other").rename(place.root)
    place.wait_found("larch", MEMORY)
    place.wait_equal()
    write(place.root / ".memories" / "deep" / "more.md", "hazel")
    place.wait_found("hazel", ".memories/deep/more.md")
    write(place.outside / "aside" / ".memories" / "not.md", "aspen")
    assert not place.find("aspen", wait="disk")


def test_a_file_that_is_not_a_note_is_never_found(place: Place) -> None:
    memories = place.root / ".memories"
    hidden = (".hidden.md", ".note.md.swp", ".tmp-1-abc", ".git/x.md")
    for name in (*hidden, "#auto.md#", "note.md~", "note.md.tmp.1.abc", "image.png"):
        write(memories / name, "larch")
    os.mkfifo(memories / "pipe.md")
    write(place.root / "README.md", "larch")
    write(place.root / "src" / ".memories" / "x.md", "larch")
    write(memories / "real.md", "maple")
    place.wait_found("maple", ".memories/real.md")
    assert not place.find("larch", wait="disk")
    place.wait_equal()


# --- links ---


def test_a_memory_file_that_links_to_a_note_is_found_once_and_watched(place: Place) -> None:
    (place.root / MEMORY).unlink()
    real = write(place.root / ".memories" / "real.md", "larch")
    (place.root / MEMORY).symlink_to(".memories/real.md")
    place.wait_found("larch", ".memories/real.md")
    write(real, "maple")
    place.wait_found("maple", ".memories/real.md")
    (place.root / MEMORY).write_text("# Through the link\n\nhazel\n")
    place.wait_found("hazel", ".memories/real.md")


def test_the_target_of_a_link_is_watched_from_the_beginning(
    root: Path, make_place: MakePlace
) -> None:
    real = write(root / "docs" / "real.md", "larch")
    (root / MEMORY).symlink_to("docs/real.md")
    place = make_place(root)
    assert place.find("larch") == {MEMORY}
    write(real, "maple")
    place.wait_found("maple", MEMORY)
    real.unlink()
    write(real, "hazel")
    place.wait_found("hazel", MEMORY)


def test_the_target_of_a_new_link_is_watched_from_then_on(place: Place) -> None:
    real = write(place.root / "docs" / "real.md", "larch")
    (place.root / ".memories" / "link.md").symlink_to("../docs/real.md")
    place.wait_found("larch", ".memories/link.md")
    write(real, "maple")
    place.wait_found("maple", ".memories/link.md")


def test_the_target_of_a_link_is_watched_after_its_folder_was_removed_and_recreated(
    place: Place,
) -> None:
    real = write(place.root / "docs" / "deep" / "real.md", "larch")
    (place.root / ".memories" / "link.md").symlink_to("../docs/deep/real.md")
    place.wait_found("larch", ".memories/link.md")
    shutil.rmtree(place.root / "docs")
    place.wait_found("larch")
    write(real, "maple")
    place.wait_found("maple", ".memories/link.md")
    write(real, "hazel")
    place.wait_found("hazel", ".memories/link.md")


def test_a_linked_folder_is_found_and_watched(place: Place) -> None:
    write(place.root / "docs" / "one.md", "larch")
    (place.root / ".memories" / "docs").symlink_to("../docs")
    place.wait_found("larch", ".memories/docs/one.md")
    write(place.root / "docs" / "two.md", "maple")
    place.wait_found("maple", ".memories/docs/two.md")


def test_a_link_out_of_the_workspace_is_reported(place: Place) -> None:
    secret = write(place.outside / "secret.md", "larch")
    (place.root / ".memories" / "link.md").symlink_to(secret)
    assert not place.find("larch", wait="disk")
    problems = place.client.call("problems", workspace=place.id)["problems"]
    assert [(problem["path"], problem["code"]) for problem in problems] == [
        (".memories/link.md", "link_outside")
    ]


def test_a_hard_link_written_elsewhere_is_found_by_a_search_that_waits_for_the_disk(
    place: Place,
) -> None:
    note = place.root / ".memories" / "hard.md"
    os.link(write(place.outside / "hard.md", "larch"), note)
    place.wait_found("larch", ".memories/hard.md")
    write(place.outside / "hard.md", "maple")
    assert place.find("maple", wait="disk") == {".memories/hard.md"}


def test_two_hard_links_in_one_workspace_are_both_found(place: Place) -> None:
    note = write(place.root / ".memories" / "one.md", "larch")
    os.link(note, place.root / ".memories" / "two.md")
    place.wait_found("larch", ".memories/one.md", ".memories/two.md")
    write(note, "maple")
    assert place.find("maple", wait="disk") == {".memories/one.md", ".memories/two.md"}


# --- includes ---


def test_included_notes_are_watched_when_their_folders_are_created_and_removed(
    root: Path, make_place: MakePlace
) -> None:
    place = make_place(root, include=["CLAUDE.md", "docs/**/*.md"])
    write(root / "CLAUDE.md", "larch")
    place.wait_found("larch", "CLAUDE.md")
    write(root / "docs" / "deep" / "one.md", "maple")
    place.wait_found("maple", "docs/deep/one.md")
    shutil.rmtree(root / "docs")
    place.wait_found("maple")
    write(root / "docs" / "two.md", "hazel")
    place.wait_found("hazel", "docs/two.md")


# --- the daemon keeps nothing of what has gone ---


def test_a_workspace_that_is_removed_and_added_at_once_has_one_index_again(place: Place) -> None:
    for number in range(6):
        place.client.call("workspace.remove", workspace=place.id)
        place.client.call("workspace.add", path=str(place.root))
        write(place.root / ".memories" / f"{number}.md", f"note{number}")
    place.wait_equal()
    place.wait(lambda: place.status()["state"] == "ready", "it never became ready")
    write(place.root / ".memories" / "last.md", "larch")
    assert place.find("larch", wait="disk") == {".memories/last.md"}
    assert place.status()["failed_syncs"] == 0


EDITOR = """
import os, sys, time
notes = sys.argv[1:]
until = time.monotonic() + 30
for number in range(100_000):
    note = notes[number * 7 % len(notes)]
    text = open(note).read()
    time.sleep(0.002)
    with open(note + "~", "w") as file:
        file.write(f"{text}line {number}\\n")
    os.replace(note + "~", note)
    print(note, number, flush=True)
    if time.monotonic() > until or os.path.exists("over"):
        break
"""


def test_a_rename_with_links_goes_through_while_editors_save(place: Place) -> None:
    """It is neither refused each time, nor does it leave links to a note that is not there."""
    n_notes, n_editors = 60, 4
    notes = [place.root / ".memories" / f"n{number}.md" for number in range(n_notes)]
    for note in notes:
        note.write_text("# Note\n\nSee [[old]].\n")
    (place.root / ".memories" / "old.md").write_text("# Old\n\nSee [[n1]].\n")
    place.wait_equal()
    editors = [
        subprocess.Popen(
            [sys.executable, "-c", EDITOR, *map(str, notes[first::n_editors])],
            cwd=place.outside, stdout=subprocess.PIPE, text=True,
        )
        for first in range(n_editors)
    ]  # fmt: skip
    try:
        for editor in editors:
            assert editor.stdout is not None
            editor.stdout.readline()
        answer = place.client.call(
            "memory", command="rename", workspace=place.id, update_links=True,
            old_path="/memories/old.md", new_path="/memories/new.md",
        )  # fmt: skip
    finally:
        (place.outside / "over").touch()
        saves = [editor.communicate()[0].splitlines() for editor in editors]
    assert not (place.root / ".memories" / "old.md").exists()
    skipped, updated = set(answer["skipped_links"]), set(answer["updated_links"])
    named = {str(note.relative_to(place.root)) for note in notes}
    assert skipped | updated == named
    assert not skipped & updated
    saved = {line.split()[0] for lines in saves for line in lines}
    for note in notes:
        text = note.read_text()
        # An editor may save what it read before the rename.
        assert "[[new]]" in text or str(note) in saved
    for line in (line for lines in saves for line in lines):
        path, number = line.split()
        assert f"line {number}\n" in Path(path).read_text()
    problems = place.client.call("problems", workspace=place.id)["problems"]
    assert not [problem for problem in problems if "change_set" in problem["code"]]
    place.wait_equal()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process holds")
def test_removed_workspaces_leave_no_watch_thread_or_file_behind(
    home: Home, daemon: Daemon, make_place: MakePlace
) -> None:
    pid = daemon.process.pid

    def count() -> tuple[int, int]:
        return len(list_names(pid, "task")), count_watches(pid)

    def come_and_go() -> None:
        for _ in range(5):
            place = make_place(home.make_folder())
            write(place.root / ".memories" / "sub" / "note.md", "larch")
            place.wait_found("larch", ".memories/sub/note.md")
            place.close()

    come_and_go()
    before = count()
    come_and_go()
    make_place(home.make_folder()).wait(
        lambda: count() <= (before[0] + 2, before[1] + 2), f"more than {before} stayed"
    )


def last_sync(place: Place) -> str:
    lines = [
        line
        for line in place.home.read_log().splitlines()
        if "sync_done" in line and place.id in line
    ]
    return lines[-1] if lines else ""
