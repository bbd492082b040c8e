"""What does a file of memory hold right now, whatever its suffix, and where does it really lie?

The rule: a path must be memory's: `MEMORY.md`, anything beneath `.memories/`, or a note that the owner's globs include, and not
excluded. Links are resolved first, and the real place is opened confined; a place in a folder of `allow_links_to` may be read,
not changed. Unlike `files`, which takes in notes for the index, this reads for somebody who asked, and so raises what is wrong.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from dataclasses import dataclass

from memsyncd.core.changes.diff import FileStat
from memsyncd.core.digest import digest_bytes
from memsyncd.core.notepath import NotePath, find_refusal
from memsyncd.errors import PathRefused, TooLarge, Unwritable
from memsyncd.workspace.confine import Target, locate, open_beneath
from memsyncd.workspace.failures import naming_failures, refuse, say_changed
from memsyncd.workspace.files import N_ATTEMPTS, read_bounded
from memsyncd.workspace.scope import Scope, is_memory
from memsyncd.workspace.stats import file_stat, is_dataless


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """One file as it was read. `path` is where it really lies, or the path that was asked if that is in an allowed folder."""

    path: NotePath
    data: bytes
    digest: str
    identity: FileStat


def read_text_file(scope: Scope, path: NotePath) -> TextFile | None:
    """Read a file of any suffix; None if nothing is there.

    Raises PathRefused if the path is not memory's, leads out, or is no regular file, TooLarge over `scope.max_file_bytes`,
    Unwritable if the system does not let it be read, or the whole workspace is away.
    """
    place = find_place(scope, path)
    with naming_failures(path):
        try:
            fd = open_beneath(place.folder, place.path)
        except (FileNotFoundError, NotADirectoryError):
            check_root(scope)
            return None
        try:
            identity, data = _read_steady(fd, path, max_bytes=scope.max_file_bytes)
        finally:
            os.close(fd)
    real = NotePath(place.path) if place.folder == scope.root else path
    return TextFile(path=real, data=data, digest=digest_bytes(data), identity=identity)


def check_size(scope: Scope, path: str, data: bytes, *, way_out: str) -> None:
    """Raise TooLarge if these bytes are more than a note may have. `path` as the writer named it, `way_out` what else to do."""
    if len(data) > scope.max_file_bytes:
        raise TooLarge(
            f"{path} would have {len(data)} bytes, more than the {scope.max_file_bytes} that a note may have",
            hint=f"{way_out}, or raise sync.max_file_bytes",
        )


def find_place(scope: Scope, path: NotePath) -> Target:
    """Where a path of memory really lies, whether anything stands there or not.

    Raises PathRefused if it is not memory's, or leads out of the workspace and the folders of `allow_links_to`.
    """
    check_memory(scope, path)
    return resolve(scope, path)


def check_memory(scope: Scope, path: NotePath) -> None:
    """Raise PathRefused unless this path may hold memory."""
    if scope.exclude.matches(path.text):
        raise PathRefused(f"path refused: the configuration excludes it: {path.text}", hint="choose another place")
    if not (is_memory(path.text) or scope.is_note(path.text)):
        raise PathRefused(f"path refused: it is no place of memory: {path.text}", hint="choose a path beneath .memories/")


def resolve(scope: Scope, path: NotePath) -> Target:
    """Where a path leads through links. Raises PathRefused if that is outside, or hidden, Conflict if it is swapped meanwhile."""
    try:
        real = os.path.realpath(f"{scope.root}/{path.text}")
    except OSError:  # swapped for a link, or back, on the way
        raise say_changed(path) from None
    target = locate(real, (scope.root, *scope.allow_links_to))
    if target is None:
        raise refuse(path, "a link on the way leads out of the workspace")
    if target.folder == scope.root and find_refusal(target.path):
        raise refuse(path, "a link on the way leads to a hidden place, or to the workspace itself")
    return target


def check_root(scope: Scope) -> None:
    """Raise Unwritable if the workspace's folder is away, so that nobody takes it for an empty one."""
    try:
        is_there = modes.S_ISDIR(os.lstat(scope.root).st_mode)
    except OSError:
        is_there = False
    if not is_there:
        raise Unwritable("the workspace's folder is not there", hint="bring it back, or remove the workspace")


def _read_steady(fd: int, path: NotePath, *, max_bytes: int) -> tuple[FileStat, bytes]:
    """Stat and bytes that belong together; if it moves at each attempt, those of the last."""
    n_left = N_ATTEMPTS
    while True:
        n_left -= 1
        before = os.fstat(fd)
        if is_dataless(before):
            raise OSError(errno.EDEADLK, "a cloud service has taken the content off this machine")
        data = read_bounded(fd, before.st_size, limit_bytes=max_bytes + 1)
        if len(data) > max_bytes:
            raise TooLarge(
                f"{path.text} is over max_file_bytes ({max_bytes})", hint="split the note, or raise sync.max_file_bytes"
            )
        identity = file_stat(before)
        if n_left == 0 or identity.is_same_as(file_stat(os.fstat(fd))):
            return identity, data
