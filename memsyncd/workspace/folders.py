"""Which folder is worked in, whatever becomes of its name meanwhile?

The rule: a folder beneath the workspace's root is held by its descriptor, opened confined, and what is done in it is done by name
within that descriptor. `is_in_place` tells whether its path still leads to it. Folders that are missing are made when asked for,
for their owner alone, and taken away again if what they were made for fails.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

from memsyncd.workspace.confine import LIST_FLAGS, open_folder_beneath

FOLDER_MODE = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFolder:
    """An open folder: `path` beneath the real folder `root`, empty for `root` itself."""

    root: str
    path: str
    fd: int

    def is_in_place(self) -> bool:
        """False if the folder was moved, deleted or replaced since it was opened."""
        try:
            fd = open_folder_beneath(self.root, self.path)
        except OSError:
            return False
        try:
            return os.path.sameopenfile(fd, self.fd)
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Put the names in this folder on the disk, where the file system does so for a folder."""
        sync_folder(self.fd)


@contextlib.contextmanager
def hold_folder(root: str, path: str) -> Iterator[HeldFolder]:
    """Hold a folder that is there. Raises OSError as `open_folder_beneath` does."""
    fd = open_folder_beneath(root, path)
    try:
        yield HeldFolder(root=root, path=path, fd=fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def hold_new_folder(root: str, path: str) -> Iterator[HeldFolder]:
    """The same, making what is missing; if the body fails, what was made is taken away again, unless others use it by then."""
    made: list[str] = []
    try:
        fd = _open_or_make(root, path, made)
        try:
            yield HeldFolder(root=root, path=path, fd=fd)
        finally:
            os.close(fd)
    except BaseException:
        for folder in reversed(made):
            _remove_if_empty(root, folder)
        raise


def _open_or_make(root: str, path: str, made: list[str]) -> int:
    """The folder's descriptor; paths of folders that had to be made are added to `made`."""
    at = os.open(root, LIST_FLAGS)
    done: list[str] = []
    try:
        for part in path.split("/") if path else ():
            done.append(part)
            deeper = _open_or_make_one(at, part, "/".join(done), made)
            os.close(at)
            at = deeper
    except BaseException:
        os.close(at)
        raise
    return at


def _open_or_make_one(at: int, name: str, path: str, made: list[str]) -> int:
    try:
        return os.open(name, LIST_FLAGS, dir_fd=at)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=at)
            made.append(path)
            sync_folder(at)
    return os.open(name, LIST_FLAGS, dir_fd=at)


def sync_folder(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _remove_if_empty(root: str, path: str) -> None:
    above, _, name = path.rpartition("/")
    with contextlib.suppress(OSError), hold_folder(root, above) as folder:
        os.rmdir(name, dir_fd=folder.fd)
