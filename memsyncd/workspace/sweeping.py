"""Removes the files that a killed process left under memsyncd's own names.

A file that holds a known text, one that was to be written or taken away, or the beginning of one, is
removed. Anything else is what another program saved in the instant before the end. It gets its name
back; where a newer text has that by now, it is kept in the history, or beside the note under a name
that people and scans know for a conflict copy.
"""

from __future__ import annotations

import contextlib
import os
import stat as modes
from collections.abc import Collection

from memsyncd.core.notepath import NotePath
from memsyncd.errors import Conflict, PathRefused
from memsyncd.workspace.confine import Target, open_file_in, open_folder_in
from memsyncd.workspace.files import read_bounded
from memsyncd.workspace.folders import hold_folder
from memsyncd.workspace.handover import Keep, change_back, give_back, holds, keep_displaced, keep_nothing
from memsyncd.workspace.scope import Scope
from memsyncd.workspace.temporaries import is_temporary
from memsyncd.workspace.textfiles import resolve
from memsyncd.workspace.trees import list_tree, remove_tree


def sweep_temporaries(
    scope: Scope, path: NotePath, known: Collection[bytes], *, put: bytes | None = None, keep: Keep = keep_nothing
) -> None:
    """Remove what was left beside this note and in the folders above, up to the root. What cannot be removed stays.

    `put` is the text that the killed process had put in the note's place, if it had. `keep` gets what another program saved.

    For the time when nothing is being written there. A folder that leads out of the workspace is left alone.
    """
    try:
        place = resolve(scope, NotePath(path.folder)) if path.folder else Target(scope.root, "")
    except (PathRefused, Conflict):
        return
    folder, name = place.path, path.name
    while place.folder == scope.root:
        with contextlib.suppress(OSError), hold_folder(scope.root, folder) as held:
            for left in filter(is_temporary, os.listdir(held.fd)):
                with contextlib.suppress(OSError):
                    _sweep(held.fd, left, name, known, put, keep)
        if not folder:
            return
        folder, _, name = folder.rpartition("/")


def _sweep(folder_fd: int, left: str, name: str, known: Collection[bytes], put: bytes | None, keep: Keep) -> None:
    if not modes.S_ISDIR(os.lstat(left, dir_fd=folder_fd).st_mode):
        if _is_known(folder_fd, left, known):
            os.unlink(left, dir_fd=folder_fd)
        else:
            _restore(folder_fd, left, name, put, keep)
        return
    fd = open_folder_in(folder_fd, left)
    try:
        tree = list_tree(fd)
        is_known = not tree.others and all(_is_known(fd, file, known) for file in tree.files)
    finally:
        os.close(fd)
    if is_known:
        remove_tree(folder_fd, left, tree)
    else:
        give_back(folder_fd, left, name)


def _restore(folder_fd: int, left: str, name: str, put: bytes | None, keep: Keep) -> None:
    """Give another program's file its name back, unless yet another has saved a newer text there."""
    if put is not None and holds(folder_fd, name, put):
        change_back(folder_fd, name, left, put, keep)
    elif keep_displaced(folder_fd, left, keep) is not None and _is_there(folder_fd, name):
        os.unlink(left, dir_fd=folder_fd)
    else:
        give_back(folder_fd, left, name)


def _is_there(folder_fd: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=folder_fd)
    except FileNotFoundError:
        return False
    return True


def _is_known(folder_fd: int, path: str, known: Collection[bytes]) -> bool:
    fd = open_file_in(folder_fd, path)
    try:
        limit_bytes = max(map(len, known), default=0) + 1
        data = read_bounded(fd, os.fstat(fd).st_size, limit_bytes=limit_bytes)
    finally:
        os.close(fd)
    return any(text.startswith(data) for text in known)
