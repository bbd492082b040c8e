"""What becomes of the files that a killed process left under memsyncd's own names?

The rule: what is known, the texts that it was to write or to take away and beginnings of these, is removed. Anything else is what
somebody wrote there in the instant before the end: it gets its name back, or one beside it that people and scans know for a
conflict copy.
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
from memsyncd.workspace.handover import give_back
from memsyncd.workspace.scope import Scope
from memsyncd.workspace.temporaries import is_temporary
from memsyncd.workspace.textfiles import resolve
from memsyncd.workspace.trees import list_tree, remove_tree


def sweep_temporaries(scope: Scope, path: NotePath, known: Collection[bytes]) -> None:
    """Remove what was left beside this note and in the folders above, up to the root. What cannot be removed stays.

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
                    _sweep(held.fd, left, name, known)
        if not folder:
            return
        folder, _, name = folder.rpartition("/")


def _sweep(folder_fd: int, left: str, name: str, known: Collection[bytes]) -> None:
    if not modes.S_ISDIR(os.lstat(left, dir_fd=folder_fd).st_mode):
        if _is_known(folder_fd, left, known):
            os.unlink(left, dir_fd=folder_fd)
        else:
            give_back(folder_fd, left, name)
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


def _is_known(folder_fd: int, path: str, known: Collection[bytes]) -> bool:
    fd = open_file_in(folder_fd, path)
    try:
        limit_bytes = max(map(len, known), default=0) + 1
        data = read_bounded(fd, os.fstat(fd).st_size, limit_bytes=limit_bytes)
    finally:
        os.close(fd)
    return any(text.startswith(data) for text in known)
