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

from tests.daemon.conftest import Place
from tests.proc import count_watches, list_names

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home, SearchProbe

    MakePlace = Callable[..., Place]

pytestmark = pytest.mark.shared_daemon

MEMORY = "MEMORY.md"
# Longer than the debounce: later events are handled at once, not collected with earlier ones.
QUIET_S = 0.3


def write(path: Path, word: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# Note\n\n{word} stands here\n")
    return path


def test_the_index_follows_whatever_comes_goes_and_leads_elsewhere(
    make_home: Callable[..., Home],
) -> None:
    """By events alone, as no reconcile comes; `test_chaos.py` does the same by chance."""
    home = make_home("[sync]\nreconcile_s = 600\n")
    root = home.make_folder()
    place, memories = Place(home, home.start(), root), root / ".memories"
    write(memories / "a" / "b" / "made.md", "larch")  # the first of a folder
    write(place.outside / "in" / "x" / "moved.md", "maple")
    (place.outside / "in").rename(memories / "in")
    write(place.outside / "new.md", "hazel").rename(memories / "new.md")
    place.wait_equal()
    for path, word in (("a/b/more.md", "aspen"), ("in/x/more.md", "rowan")):
        write(memories / path, word)
        place.wait_found(word, f".memories/{path}")
    (memories / "in").rename(place.outside / "out")
    (memories / "new.md").unlink()
    place.wait_found("maple hazel")
    shutil.rmtree(memories)
    place.wait_equal()
    real = write(root / "docs" / "deep" / "real.md", "larch")
    write(memories / "sub" / "more.md", "maple")
    (memories / "link.md").symlink_to("../docs/deep/real.md")
    (memories / "folder").symlink_to("../docs/deep")
    (root / MEMORY).symlink_to(".memories/sub/more.md")
    place.wait_found("larch", ".memories/folder/real.md")
    write(memories / "sub" / "more.md", "alder")
    place.wait_found("alder", ".memories/sub/more.md")
    shutil.rmtree(root / "docs")
    place.wait_found("larch")
    for word in ("birch", "willow"):
        write(real, word)
        place.wait_found(word, ".memories/folder/real.md")
    # The root goes away, comes back, and is another folder.
    aside = root.rename(place.outside / "aside")
    place.wait(lambda: place.status()["state"] == "missing", "nobody noticed that the root is gone")
    assert place.find("alder") == {".memories/sub/more.md"}
    write(aside / ".memories" / "sub" / "more.md", "poplar")
    aside.rename(root)
    place.wait_found("poplar", ".memories/sub/more.md")
    place.wait(lambda: place.status()["state"] == "ready", "it stayed missing")
    write(place.outside / "other" / ".memories" / "deep" / "note.md", "cedar")
    root.rename(aside)
    (place.outside / "other").rename(root)
    place.wait_found("cedar", ".memories/deep/note.md")
    write(aside / ".memories" / "not.md", "aspen")
    write(memories / "deep" / "more.md", "spruce")
    place.wait_found("spruce", ".memories/deep/more.md")
    assert not place.find("aspen", wait="disk")
    place.wait_equal()
    place.close()


def test_hard_links_are_found_by_each_name_also_if_they_are_written_elsewhere(
    place: Place,
) -> None:
    one, two = (place.root / ".memories" / f"{name}.md" for name in ("one", "two"))
    for name in (one, two):
        os.link(write(place.outside / "hard.md", "larch"), name)
    place.wait_found("larch", ".memories/one.md", ".memories/two.md")
    write(place.outside / "hard.md", "maple")
    assert place.find("maple", wait="disk") == {".memories/one.md", ".memories/two.md"}


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


def test_a_link_out_of_the_workspace_is_reported(place: Place) -> None:
    secret = write(place.outside / "secret.md", "larch")
    (place.root / ".memories" / "link.md").symlink_to(secret)
    assert not place.find("larch", wait="disk")
    problems = place.client.call("problems", workspace=place.id)["problems"]
    assert [(problem["path"], problem["code"]) for problem in problems] == [
        (".memories/link.md", "link_outside")
    ]


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
