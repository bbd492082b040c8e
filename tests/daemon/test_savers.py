"""Every saved text is found, by whatever program saved it: real editors, git, sync tools, agents,
and bare system calls.

Each method saves twice: first without a requested scan, then with one. Meanwhile a word of every
version is searched for, and must not be missing for longer than the grace time of a vanished note.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from tests.daemon.conftest import Place, SearchProbe

pytestmark = pytest.mark.shared_daemon

GRACE_S = 5.0
# The promise is the debounce and a second; this is for busy machines.
FOUND_S = 30.0
SIGHT_S = 45.0
FIRST, SECOND, THIRD = "amber", "birch", "cedar"

RENAME_EXCHANGE, AT_FDCWD = 2, -100


def compose(word: str) -> str:
    """A note with this word; of the same length for words of the same length."""
    lines = "".join(f"- keepsake number {number} stands in every version\n" for number in range(40))
    return f"# Memory\n\nkeepsake stands in every version\n\n{lines}\n## Latest\n\n{word} is what was saved last\n"


# --- ways of programs that replace a file ---


def save_as_claude_code(place: Place, note: Path, text: str) -> None:
    aside = note.with_name(f"{note.name}.tmp.{os.getpid()}.{uuid.uuid4().hex[:12]}")
    aside.write_text(text)
    aside.chmod(0o644)
    aside.rename(note)


def save_as_anthropic_sdk(place: Place, note: Path, text: str) -> None:
    aside = note.with_name(f".tmp-{os.getpid()}-{uuid.uuid4()}")
    with aside.open("w") as stream:
        stream.write(text)
        os.fsync(stream.fileno())
    aside.replace(note)


def save_as_syncthing(place: Place, note: Path, text: str) -> None:
    aside = note.with_name(f".syncthing.{note.name}.tmp")
    aside.write_text(text)
    note.unlink()
    time.sleep(0.02)
    aside.rename(note)


def save_as_jetbrains(place: Place, note: Path, text: str) -> None:
    aside, old = (note.with_name(f"{note.name}___jb_{which}___") for which in ("tmp", "old"))
    aside.write_text(text)
    note.rename(old)
    aside.rename(note)
    old.unlink()


def move_in(place: Place, note: Path, text: str) -> None:
    stage(place, text).rename(note)


def exchange(place: Place, note: Path, text: str) -> None:
    aside = note.with_name("MEMORY.new")
    aside.write_text(text)
    libc = ctypes.CDLL(None, use_errno=True)
    code = libc.renameat2(
        AT_FDCWD, os.fsencode(aside), AT_FDCWD, os.fsencode(note), RENAME_EXCHANGE
    )
    assert code == 0, os.strerror(ctypes.get_errno())
    aside.unlink()


def save_by_sed(place: Place, note: Path, text: str) -> None:
    place.run("sed", "-i", "-e", f"1r {stage(place, text)}", "-e", "d", note)


def save_by_perl(place: Place, note: Path, text: str) -> None:
    place.run("perl", "-0777", "-pi", "-e", f"$_ = `cat {stage(place, text)}`", note)


def save_by_gio(place: Place, note: Path, text: str) -> None:
    place.run("gio", "save", note, input=text.encode())


def save_by_rsync(place: Place, note: Path, text: str) -> None:
    place.run("rsync", "--archive", "--checksum", stage(place, text), note)


def delete_and_create(place: Place, note: Path, text: str) -> None:
    note.unlink()
    note.write_text(text)


# --- ways of programs that write into the file ---


def truncate_and_write(place: Place, note: Path, text: str) -> None:
    with note.open("w") as stream:
        stream.write(text[: len(text) // 2])
        stream.flush()
        time.sleep(0.3)
        stream.write(text[len(text) // 2 :])


def write_in_dribs(place: Place, note: Path, text: str) -> None:
    with note.open("w") as stream:
        for line in text.splitlines(keepends=True):
            stream.write(line)
            stream.flush()
            time.sleep(0.01)


def append(place: Place, note: Path, text: str) -> None:
    with note.open("a") as stream:
        stream.write(text)


def write_mapped(place: Place, note: Path, text: str) -> None:
    with note.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as view:
        view[:] = text.encode()
        view.flush()


def overwrite_keeping_times(place: Place, note: Path, text: str) -> None:
    """The same size, and the time of modification set back to the former one."""
    was = note.stat()
    note.write_text(text)
    os.utime(note, ns=(was.st_atime_ns, was.st_mtime_ns))


def save_by_shell(place: Place, note: Path, text: str) -> None:
    place.run("sh", "-c", f"cat {stage(place, text)} > {note.name}")


def save_by_tee(place: Place, note: Path, text: str) -> None:
    place.run("tee", note, input=text.encode())


def save_by_cp(place: Place, note: Path, text: str) -> None:
    place.run("cp", "--preserve", stage(place, text), note)


def save_by_rsync_inplace(place: Place, note: Path, text: str) -> None:
    staged = stage(place, text)
    os.utime(staged, (1_000_000_000, 1_000_000_000))
    place.run("rsync", "--archive", "--checksum", "--inplace", staged, note)


# --- git ---


def git(place: Place, *words: str | Path, env: dict[str, str] | None = None) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return place.run("git", *identity, *words, env=place.env | (env or {})).strip()


def commit_aside(place: Place, note: Path, text: str) -> str:
    """Commit the current tree, and on top of it a child in which the note has `text`; the work tree
    stays unchanged.
    """
    if not (place.root / ".git").exists():
        git(place, "init", "--quiet", "--initial-branch", "main")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--allow-empty", "--message", "what stood")
    index = {"GIT_INDEX_FILE": str(place.outside / "index")}
    blob = git(place, "hash-object", "-w", stage(place, text))
    git(place, "read-tree", "HEAD", env=index)
    git(
        place,
        "update-index",
        "--cacheinfo",
        f"100644,{blob},{note.relative_to(place.root)}",
        env=index,
    )
    return git(
        place, "commit-tree", "-p", "HEAD", "-m", "what comes", git(place, "write-tree", env=index)
    )


def save_by_git_checkout(place: Place, note: Path, text: str) -> None:
    git(place, "checkout", "--quiet", commit_aside(place, note, text))


def save_by_git_reset(place: Place, note: Path, text: str) -> None:
    git(place, "reset", "--quiet", "--hard", commit_aside(place, note, text))


def save_by_git_merge(place: Place, note: Path, text: str) -> None:
    git(place, "merge", "--quiet", "--no-ff", "--no-edit", commit_aside(place, note, text))


def save_by_git_rebase(place: Place, note: Path, text: str) -> None:
    upstream = commit_aside(place, note, text)
    (place.root / ".memories" / "mine.md").write_text(f"# Mine\n\n{uuid.uuid4()}\n")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message", "mine")
    git(place, "rebase", "--quiet", upstream)


def save_by_git_stash(place: Place, note: Path, text: str) -> None:
    commit_aside(place, note, text)
    note.write_text(text)
    git(place, "stash", "--quiet")
    git(place, "stash", "pop", "--quiet")


# --- editors ---


def save_in_vim(place: Place, note: Path, text: str) -> None:
    with Terminal(place, "vim", "--clean", note) as screen:
        screen.expect("keepsake")
        screen.type(f":%d\r:0r {stage(place, text)}\r:$d\r:w\r")
        screen.expect("written")
        screen.type(":q\r")


def save_in_vim_by_copy(place: Place, note: Path, text: str) -> None:
    save_by_ex(place, note, text, "set backup backupcopy=yes")


def save_in_vim_without_backup(place: Place, note: Path, text: str) -> None:
    save_by_ex(place, note, text, "set nobackup nowritebackup")


def save_by_ex(place: Place, note: Path, text: str, settings: str) -> None:
    commands = (settings, "%d", f"0r {stage(place, text)}", "wq")
    place.run(
        "vim", "--clean", "-es", *(part for command in commands for part in ("-c", command)), note
    )


def save_in_nano(place: Place, note: Path, text: str) -> None:
    with Terminal(place, "nano", "--ignorercfiles", note) as screen:
        screen.expect("keepsake")
        screen.type("\x1bt\x12")
        screen.expect("insert")
        screen.type(f"{stage(place, text)}\r\x13")
        screen.expect("Wrote")
        screen.type("\x18")


def save_in_emacs(place: Place, note: Path, text: str) -> None:
    """Two saves of one session: the first renames the old file to a backup, the second writes into
    the file."""
    with Terminal(place, "emacs", "-nw", "-Q", note) as screen:
        screen.expect("keepsake")
        screen.type("draft \x18\x13")
        screen.expect("Wrote")
        screen.type("\x18h\x17")
        screen.type(f"\x18i{stage(place, text)}\r\x18\x13")
        place.wait(lambda: note.read_text() == text, "emacs did not save")
        screen.type("\x18\x03")


def save_in_emacs_batch(place: Place, note: Path, text: str) -> None:
    action = f'(progn (find-file "{note}") (erase-buffer) (insert-file-contents "{stage(place, text)}") (save-buffer))'
    place.run("emacs", "--batch", "-Q", "--eval", action)


def save_in_ed(place: Place, note: Path, text: str) -> None:
    place.run("ed", "-s", note, input=f",d\n0r {stage(place, text)}\nw\nq\n".encode())


def save_in_ne(place: Place, note: Path, text: str) -> None:
    macro = place.outside / "macro"
    macro.write_text(f"MoveSOF\nMark\nMoveEOF\nThrough cat {stage(place, text)}\nSave\nQuit\n")
    with Terminal(place, "ne", "--no-config", "--macro", macro, note):
        pass


def save_in_micro(place: Place, note: Path, text: str) -> None:
    with Terminal(place, "micro", note) as screen:
        screen.expect("keepsake")
        screen.type("\x01\x05")
        screen.expect(">")
        screen.type(f"textfilter cat {stage(place, text)}\r\x13")
        place.wait(lambda: note.read_text() == text, "micro did not save")
        screen.type("\x11")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveMethod:
    """How a program saves. `is_whole` if a reader of the file never sees less than one version."""

    save: Callable[[Place, Path, str], None]
    program: str = ""
    is_whole: bool = True


WAYS = [
    SaveMethod(save=save_as_claude_code),
    SaveMethod(save=save_as_anthropic_sdk),
    SaveMethod(save=save_as_syncthing),
    SaveMethod(save=save_as_jetbrains),
    SaveMethod(save=move_in),
    SaveMethod(save=delete_and_create, is_whole=False),
    SaveMethod(save=truncate_and_write, is_whole=False),
    SaveMethod(save=write_in_dribs, is_whole=False),
    SaveMethod(save=append),
    SaveMethod(save=write_mapped),
    SaveMethod(save=overwrite_keeping_times, is_whole=False),
    SaveMethod(save=save_by_shell, program="sh", is_whole=False),
    SaveMethod(save=save_by_tee, program="tee", is_whole=False),
    SaveMethod(save=save_by_cp, program="cp", is_whole=False),
    SaveMethod(save=save_by_sed, program="sed"),
    SaveMethod(save=save_by_perl, program="perl"),
    SaveMethod(save=save_by_gio, program="gio"),
    SaveMethod(save=save_by_rsync, program="rsync"),
    SaveMethod(save=save_by_rsync_inplace, program="rsync", is_whole=False),
    SaveMethod(save=save_by_git_checkout, program="git", is_whole=False),
    SaveMethod(save=save_by_git_reset, program="git", is_whole=False),
    SaveMethod(save=save_by_git_merge, program="git", is_whole=False),
    SaveMethod(save=save_by_git_rebase, program="git", is_whole=False),
    SaveMethod(save=save_by_git_stash, program="git", is_whole=False),
    SaveMethod(save=save_in_vim, program="vim", is_whole=False),
    SaveMethod(save=save_in_vim_by_copy, program="vim", is_whole=False),
    SaveMethod(save=save_in_vim_without_backup, program="vim", is_whole=False),
    SaveMethod(save=save_in_nano, program="nano", is_whole=False),
    SaveMethod(save=save_in_emacs, program="emacs", is_whole=False),
    SaveMethod(save=save_in_emacs_batch, program="emacs", is_whole=False),
    SaveMethod(save=save_in_ed, program="ed", is_whole=False),
    SaveMethod(save=save_in_ne, program="ne", is_whole=False),
    SaveMethod(save=save_in_micro, program="micro", is_whole=False),
]
if sys.platform == "linux":
    WAYS.append(SaveMethod(save=exchange))


def offer(way: SaveMethod) -> object:
    """One test case: a save method, which needs its program."""
    marks = [pytest.mark.needs(way.program)] if way.program else []
    return pytest.param(way, marks=marks, id=way.save.__name__)


@pytest.mark.parametrize("way", [offer(way) for way in WAYS])
def test_a_note_saved_by_any_program_is_found(
    way: SaveMethod,
    place: Place,
    watch_word: Callable[[str], SearchProbe],
    record_property: Callable[[str, object], None],
) -> None:
    note = place.root / "MEMORY.md"
    note.write_text(compose(FIRST))
    place.wait_found(FIRST, "MEMORY.md")

    with watch_word("keepsake") as presence:
        way.save(place, note, compose(SECOND))
        assert note.read_text().endswith(compose(SECOND)), (
            f"{way.save.__name__} does not save what it was given"
        )
        took_s = place.wait_found(SECOND, "MEMORY.md")
        place.wait_equal()
        way.save(place, note, compose(THIRD))
        at_once = place.find(THIRD, wait="disk")

    record_property("found_after_s", round(took_s, 3))
    record_property("longest_absence_s", round(presence.longest_absence_s, 3))
    assert took_s < FOUND_S
    assert at_once == {"MEMORY.md"}
    assert presence.failure is None
    assert presence.n_looks > 0
    assert presence.longest_absence_s <= (0.0 if way.is_whole else GRACE_S)
    place.wait_equal()


# --- what stands beside the workspace, and a terminal for editors ---

LAUNCH = "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


def stage(place: Place, text: str) -> Path:
    """A new file outside the workspace."""
    path = place.outside / f"staged-{uuid.uuid4().hex[:8]}"
    path.write_text(text)
    return path


class Terminal:
    """A program on a terminal of its own, with a driver that reads the screen and types."""

    def __init__(self, place: Place, *command: str | Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        words = [sys.executable, "-c", LAUNCH, *(str(word) for word in command)]
        env = place.env | {"TERM": "xterm"}
        self._process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=place.root
        )
        os.close(slave)
        self._seen = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.wait(SIGHT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            os.close(self._master)

    def type(self, keys: str) -> None:
        self._seen = b""
        os.write(self._master, keys.encode())

    def expect(self, text: str) -> None:
        """Wait until this has been drawn since the last key."""
        deadline_s = time.monotonic() + SIGHT_S
        while text.encode() not in self._seen:
            assert time.monotonic() < deadline_s, f"{text!r} was not drawn: {self._seen!r}"
            time.sleep(0.01)

    def _read(self) -> None:
        try:
            while data := os.read(self._master, 65536):
                self._seen += data
        except OSError:
            return  # the program has ended
