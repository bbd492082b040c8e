"""`memsyncd merge-driver`: let git merge the memories of two branches by their sections.

Two attributes, which are committed, name the driver for notes of memory. Each clone configures the
driver's command. In a clone without it, git merges lines, and reports a conflict if both branches
add a section at the end. The driver needs no daemon.
"""

from __future__ import annotations

import os
import shlex
import subprocess

from memsyncd.errors import BadRequest, Unwritable
from memsyncd.terminal.parser import Argument, Command
from memsyncd.terminal.terminal import clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import SimpleNamespace as Args

    from memsyncd.terminal.console import Console

FILE = ".gitattributes"
DRIVER = "memsyncd"
PATTERNS = ("/MEMORY.md", "/.memories/**/*.md")
DRIVER_LINES = tuple(f"{pattern} merge={DRIVER}" for pattern in PATTERNS)
# Union keeps the lines of both branches, though some may then stand in another section.
UNION_LINES = tuple(f"{pattern} merge=union" for pattern in PATTERNS)
# In a vault every markdown file is a note.
VAULT_LINES = tuple(f"{pattern} merge={DRIVER}" for pattern in ("*.md", "*.markdown"))
NOTES = ("MEMORY.md", ".memories/notes.md")
VAULT_NOTES = (*NOTES, "note.md")
GIT_S = 5.0
# Git must not run a program that the repository configures.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")

# --- the repository -----------------------------------------------------------------------------


def find_missing(root: str, *, is_vault: bool = False) -> str:
    """Say why git does not merge the memories of this folder, or all notes of a vault, by sections.
    Empty if it does, and outside of a repository.
    """
    notes = VAULT_NOTES if is_vault else NOTES
    answer = _run_git(root, "check-attr", "-z", "merge", "--", *notes)
    if answer is None:
        return ""
    drivers = answer.split("\0")[2::3]
    if drivers.count("union") == len(notes):
        return (
            "git merges memories by union of their lines, which can put the text of one section "
            "into another"
        )
    if drivers.count(DRIVER) < len(notes):
        return "git does not merge memories that two branches add: the second merge has a conflict"
    if _run_git(root, "config", "--get", f"merge.{DRIVER}.driver") is None:
        return f"{FILE} names a merge driver of memsyncd that this clone does not have"
    return ""


def is_repository(root: str) -> bool:
    """Return whether git is installed and the folder is in a repository."""
    return _run_git(root, "rev-parse", "--git-dir") is not None


def is_tracked(root: str, *, is_vault: bool = False) -> bool:
    """Return whether git's index has notes of memory, or any note of a vault."""
    notes = ("*.md", "*.markdown") if is_vault else ("MEMORY.md", ".memories")
    return bool(_run_git(root, "ls-files", "-z", "--", *notes))


def add_driver(root: str, program: Sequence[str], *, is_vault: bool = False) -> None:
    """Write the driver into the folder's `.gitattributes`, in place of union, and configure it in
    this clone. Raises Unwritable.
    """
    _add_lines(os.path.join(root, FILE), (*DRIVER_LINES, *(VAULT_LINES if is_vault else ())))
    name = "memories by sections, with memsyncd"
    for key, value in (("name", name), ("driver", make_driver(program))):
        if _run_git(root, "config", "--local", f"merge.{DRIVER}.{key}", value) is None:
            hint = f"see whether this works: git -C {shlex.quote(root)} config --local --list"
            raise Unwritable(f"git could not configure its merge driver in {root}", hint=hint)


def make_driver(program: Sequence[str]) -> str:
    """Return the command that git runs. If the program is missing, the command merges lines."""
    words = shlex.join(program).replace("%", "%%")
    first = shlex.quote(program[0]).replace("%", "%%")
    return (
        f"if command -v {first} >/dev/null; then {words} merge-driver %O %A %B %P; "
        "else git merge-file -L ours -L base -L theirs %A %O %B; fi"
    )


def _add_lines(path: str, lines: Sequence[str]) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o644), "r+b") as file:
            old = file.read().split(b"\n")
            left_out = [line.encode() for line in (*UNION_LINES, *lines)]
            kept = [line for line in old if line not in left_out]
            kept = kept if kept[-1] else kept[:-1]
            file.seek(0)
            file.write(b"".join(line + b"\n" for line in kept))
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.truncate()
    except OSError as error:
        hint = f"add these lines to it: {'; '.join(lines)}"
        raise Unwritable(f"{path} cannot be written: {error.strerror}", hint=hint) from None


def _run_git(root: str, *words: str) -> str | None:
    """Return git's output; None without git, outside of a repository and after GIT_S."""
    try:
        done = subprocess.run(
            (*_GIT, "-C", root, *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None


# --- the driver ---------------------------------------------------------------------------------


def _merge(args: Args, console: Console) -> int:
    """Merge, and write the note. If it cannot be merged, git keeps our version, as a conflict."""
    from memsyncd.core.editing.merge import merge_notes

    base, ours, theirs = (_read(path) for path in (args.base, args.ours, args.theirs))
    merged = merge_notes(args.path or NOTES[0], base, ours, theirs)
    _write(args.ours, merged.data)
    for anchor in merged.conflicts:
        hint = f"choose one: memsyncd choose {shlex.quote(anchor)} --keep this"
        console.terminal.report(clean_line(f"two texts of a section stay; {hint}"))
    return 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        hint = "git calls this command; set it up with: memsyncd init --merge-driver"
        raise BadRequest(f"{path} cannot be read: {error.strerror}", hint=hint) from None


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


COMMANDS = {
    "merge-driver": Command(
        _merge,
        arguments=(
            Argument("base", "BASE", "the file with the version that both come from"),
            Argument("ours", "OURS", "the file with our version; it gets the merged note"),
            Argument("theirs", "THEIRS", "the file with the other version"),
            Argument("path", "[NOTE]", "the path of the note in its repository"),
        ),
        examples=("memsyncd init --merge-driver", "memsyncd merge-driver %O %A %B %P"),
    ),
}
