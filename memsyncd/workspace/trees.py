"""What does a folder hold, all the way down, and how is all of it removed without leaving it?

The rule: every folder is opened from the top by its descriptor and no link is followed; so nothing outside is ever listed or
removed, whatever is moved or swapped meanwhile.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Callable
from dataclasses import dataclass, field

from memsyncd.workspace.confine import open_folder_in


@dataclass(slots=True)
class Tree:
    """Paths beneath a folder: `folders` from the top down, regular `files`, and `others`, which are links and special files."""

    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def list_tree(folder_fd: int) -> Tree:
    """Everything beneath an open folder. Raises OSError if a folder cannot be listed."""
    tree = Tree()
    waiting = [""]
    while waiting:
        path = waiting.pop()
        fd = open_folder_in(folder_fd, path or ".")
        try:
            for name in os.listdir(fd):
                inside = f"{path}/{name}" if path else name
                mode = os.lstat(name, dir_fd=fd).st_mode
                kind = tree.folders if modes.S_ISDIR(mode) else tree.files if modes.S_ISREG(mode) else tree.others
                kind.append(inside)
                if kind is tree.folders:
                    waiting.append(inside)
        finally:
            os.close(fd)
    return tree


def remove_tree(folder_fd: int, name: str, tree: Tree) -> None:
    """Remove the folder `name` with what `tree` says of it. Raises OSError at what is not so any more."""
    fd = open_folder_in(folder_fd, name)
    try:
        for path in (*tree.files, *tree.others):
            _in_its_folder(fd, path, os.unlink)
        for path in sorted(tree.folders, key=lambda folder: -folder.count("/")):
            _in_its_folder(fd, path, os.rmdir)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=folder_fd)


def _in_its_folder(top_fd: int, path: str, remove: Callable[..., None]) -> None:
    above, _, name = path.rpartition("/")
    fd = open_folder_in(top_fd, above or ".")
    try:
        remove(name, dir_fd=fd)
    finally:
        os.close(fd)
