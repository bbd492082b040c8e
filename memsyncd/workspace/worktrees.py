"""Does a path lie in a linked git worktree, and where is the same place in the main one? Read from git's files; git is not run.

The rule is gitrepository-layout's: `.git` is a file `gitdir: PATH`, that folder's `commondir` leads to the repository, and its
`gitdir` leads back to the worktree. What does not lead back from within the repository is not believed: a folder must not name
another's memory as its own.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

POINTER_LIMIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Worktree:
    """A linked worktree: its own top folder and that of the main worktree, both real paths."""

    top: str
    main: str

    def in_main(self, path: str) -> str:
        """The same place in the main worktree, for a real path at or beneath `top`."""
        return self.main + path[len(self.top) :]


def find_worktree(real_path: str) -> Worktree | None:
    """The linked worktree that a real path lies in; None if there is none, or it is a main worktree or a submodule."""
    top = real_path
    while not os.path.lexists(f"{top}/.git"):
        above = os.path.dirname(top)
        if above == top:
            return None
        top = above
    main = _find_main(top)
    return Worktree(top, main) if main else None


def _find_main(top: str) -> str | None:
    git_folder = _read_pointer(f"{top}/.git", top, prefix="gitdir:")
    back = git_folder and _read_pointer(f"{git_folder}/gitdir", git_folder)
    common = git_folder and _read_pointer(f"{git_folder}/commondir", git_folder)
    if not common or not git_folder or back != os.path.realpath(f"{top}/.git"):
        return None
    if os.path.dirname(git_folder) != f"{common}/worktrees":
        return None  # the folder bears itself out: the repository knows nothing of it
    # A bare repository beside its worktrees is called `.git` or `.bare`; any other has no folder that is its main worktree.
    return os.path.dirname(common) if os.path.basename(common).startswith(".") else None


def _read_pointer(place: str, folder: str, *, prefix: str = "") -> str | None:
    """The real path written in a one-line file, relative to `folder`; None if there is no such file or line."""
    try:
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return None
        with open(place, "rb") as file:
            text = os.fsdecode(file.read(POINTER_LIMIT_BYTES)).strip()
    except OSError:
        return None
    target = text.removeprefix(prefix).strip()
    if not target or not text.startswith(prefix) or "\n" in target or "\0" in target:
        return None
    return os.path.realpath(os.path.join(folder, target))
