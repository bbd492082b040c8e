"""Tell a linked git worktree, and the main one, from the contents of git's files.

As gitrepository-layout describes them: `.git` of a linked worktree is a file `gitdir: PATH`,
`commondir` in that folder leads to the repository, and `gitdir` in it leads back to the worktree.
Pointers that the repository does not return are not followed: a folder must not be able to claim
the notes of another one. A submodule has a file `.git`, too, but no `commondir`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

import msgspec

ReadText = Callable[[str], str | None]
"""Returns the text of a small regular file; None if there is none."""
Resolve = Callable[[str], str]
"""Returns the real path of a path."""

GONE = (
    "this is a linked git worktree whose repository is gone: restore the repository, or remove"
    " the file .git and add the folder with: memsyncd add PATH"
)
MOVED = (
    "this is a linked git worktree that its repository knows at another place: run `git worktree"
    " repair` in it"
)


class Worktree(msgspec.Struct, frozen=True, kw_only=True):
    """A linked worktree: its top folder, its repository, and the main worktree, all real paths.

    `main` is None if the repository lies in no folder of its own, as a bare one may. `trouble` says
    why the pointers cannot be followed; the two others are unknown then.
    """

    top: str
    main: str | None = None
    repository: str = ""
    trouble: str = ""

    @property
    def is_bare(self) -> bool:
        """True if the repository is no `.git` of a main worktree, as far as its name tells."""
        return posixpath.basename(self.repository) != ".git"

    def in_tree(self, path: str, other_top: str) -> str:
        """Return the same path in another worktree, for a real path at or beneath `top`."""
        return other_top + path[len(self.top) :]


def identify_worktree(top: str, read: ReadText, resolve: Resolve) -> Worktree | None:
    """Return the linked worktree with this top folder; None if it is a repository of its own."""
    git_folder = _follow(read(f"{top}/.git"), top, resolve, prefix="gitdir:")
    if git_folder is None:
        return None
    repository = _follow(read(f"{git_folder}/commondir"), git_folder, resolve)
    if repository is None:
        is_listed = posixpath.basename(posixpath.dirname(git_folder)) == "worktrees"
        is_gone = is_listed and read(f"{git_folder}/HEAD") is None
        return Worktree(top=top, trouble=GONE) if is_gone else None
    if posixpath.dirname(git_folder) != f"{repository}/worktrees":
        return None  # the pointers may agree with each other, but the repository lists no such one
    if _follow(read(f"{git_folder}/gitdir"), git_folder, resolve) != resolve(f"{top}/.git"):
        return Worktree(top=top, trouble=MOVED)
    # A bare repository beside its worktrees is called `.git` or `.bare`; any other has no folder
    # that is its main worktree.
    is_hidden = posixpath.basename(repository).startswith(".")
    main = posixpath.dirname(repository) if is_hidden else None
    return Worktree(top=top, main=main, repository=repository)


def read_pointer(text: str | None, prefix: str = "") -> str | None:
    """Return the path in a file of one line; None without such a line."""
    line = (text or "").strip()
    target = line.removeprefix(prefix).strip()
    if not target or not line.startswith(prefix) or "\n" in target or "\0" in target:
        return None
    return target


def _follow(text: str | None, folder: str, resolve: Resolve, *, prefix: str = "") -> str | None:
    target = read_pointer(text, prefix)
    return None if target is None else resolve(posixpath.join(folder, target))
