"""Have git merge the memories of two branches: both add sections at the end of the same notes.

Without `merge=union` git takes that for a conflict. The attribute keeps the lines of both sides. It
is for memory alone: in other files, lines of both sides in a row make no sense.
"""

from __future__ import annotations

import os
import subprocess

from memsyncd.errors import Unwritable

FILE = ".gitattributes"
UNION_LINES = ("/MEMORY.md merge=union", "/.memories/**/*.md merge=union")
NOTES = ("MEMORY.md", ".memories/notes.md")
GIT_S = 5.0
# Nothing that a repository configures is run.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


def has_conflicts(root: str) -> bool:
    """True if the folder is in a repository of git that would not merge its memories."""
    answer = _run_git(root, "check-attr", "-z", "merge", "--", *NOTES)
    return answer is not None and answer.split("\0")[2::3].count("union") < len(NOTES)


def is_tracked(root: str) -> bool:
    """True if git has notes of memory in its index."""
    return bool(_run_git(root, "ls-files", "-z", "--", "MEMORY.md", ".memories"))


def add_union_lines(root: str) -> None:
    """Append the lines that are missing to the folder's `.gitattributes`. Raises Unwritable."""
    path = os.path.join(root, FILE)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o644), "r+b") as file:
            old = file.read()
            missing = [line for line in UNION_LINES if line.encode() not in old.splitlines()]
            start = b"\n" if old and not old.endswith(b"\n") else b""
            file.write(start + "".join(f"{line}\n" for line in missing).encode())
    except OSError as error:
        hint = f"add these lines to it: {'; '.join(UNION_LINES)}"
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
