"""Is what stood under a name what was read, and where does it go if it is not?

The rule: whoever takes something from its name looks at it once nobody can reach it under that name any more. Equal bytes that
nobody has open for writing may go; anything else gets its name back, or, where the name has been taken meanwhile, one beside it
that people and scans know for a conflict copy. Files are named by an open folder and a name in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
from collections.abc import Callable

from memsyncd.core.notepath import NAME_LIMIT_BYTES
from memsyncd.workspace.confine import open_file_in
from memsyncd.workspace.files import read_bounded
from memsyncd.workspace.folders import HeldFolder
from memsyncd.workspace.renames import exchange, rename_to_free
from memsyncd.workspace.temporaries import make_name

N_COPIES = 1000
N_EXCHANGES = 8
"""How often a text that others put over ours is given its name back, while they go on saving."""
KEPT_LIMIT_BYTES = 64 * 1024 * 1024

Keep = Callable[[bytes], bool]
"""Records a text of another program before it gets its name back; True if it can be read there from then on."""


def keep_nothing(_data: bytes) -> bool:
    """For callers without a history."""
    return False


def holds(folder_fd: int, path: str, data: bytes) -> bool:
    """True if a regular file with just these bytes is there, and nobody has it open for writing."""
    try:
        fd = open_file_in(folder_fd, path)
    except OSError:
        return False
    try:
        return read_bounded(fd, len(data), limit_bytes=len(data) + 1) == data and not _is_being_written(fd)
    finally:
        os.close(fd)


def take_away(folder: HeldFolder, name: str, data: bytes, keep: Keep = keep_nothing) -> bool:
    """Remove a file if it holds these bytes and its folder is in place; else it stays, and False is returned."""
    aside = set_aside(folder.fd, name)
    if holds(folder.fd, aside, data) and folder.is_in_place():
        os.unlink(aside, dir_fd=folder.fd)
        return True
    keep_displaced(folder.fd, aside, keep)
    give_back(folder.fd, aside, name)
    return False


def take_back(folder_fd: int, name: str, data: bytes) -> None:
    """Remove what was put there, unless somebody has written upon it."""
    aside = set_aside(folder_fd, name)
    if holds(folder_fd, aside, data):
        os.unlink(aside, dir_fd=folder_fd)
    else:
        give_back(folder_fd, aside, name)


def set_aside(folder_fd: int, name: str) -> str:
    """Give a file or folder a name that nobody knows, and return that."""
    aside = make_name()
    os.rename(name, aside, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    return aside


def change_back(folder_fd: int, name: str, displaced: str, data: bytes, keep: Keep = keep_nothing) -> None:
    """Exchange `name`, where `data` was put, with the file that this displaced, and remove `data`.

    The displaced text is kept first: once it has its name back, a program that has read `data` may save over it. If somebody has
    written over `data` meanwhile, theirs gets the name, and what was displaced before goes beside it unless it is kept.
    """
    ours = data
    for _ in range(N_EXCHANGES):
        text = keep_displaced(folder_fd, displaced, keep)
        try:
            exchange(folder_fd, displaced, name)
        except FileNotFoundError:
            break  # somebody has taken `data` away, under whatever name they wanted
        if holds(folder_fd, displaced, ours):
            os.unlink(displaced, dir_fd=folder_fd)
            return
        if text is None:
            exchange(folder_fd, displaced, name)
            break
        ours = text
    give_back(folder_fd, displaced, name)


def keep_displaced(folder_fd: int, displaced: str, keep: Keep) -> bytes | None:
    """Have the text of a displaced file kept; None if it cannot be read, or is not kept."""
    try:
        fd = open_file_in(folder_fd, displaced)
    except OSError:
        return None
    try:
        text = read_bounded(fd, os.fstat(fd).st_size, limit_bytes=KEPT_LIMIT_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(fd)
    return text if len(text) <= KEPT_LIMIT_BYTES and keep(text) else None


def give_back(folder_fd: int, displaced: str, name: str) -> None:
    """Let what was displaced have its name again, or, if that is taken, the first free one of a conflict copy."""
    for free in (name, *(name_copy(name, number) for number in range(1, N_COPIES))):
        with contextlib.suppress(FileExistsError):
            rename_to_free(folder_fd, displaced, folder_fd, free)
            return
    raise FileExistsError(errno.EEXIST, "there are too many conflict copies")


def name_copy(name: str, number: int) -> str:
    """A name of at most 255 bytes that scans know for a conflict copy's, with the suffix of `name`."""
    stem, dot, suffix = name.rpartition(".")
    mark = f"_conflict-{number}{dot}{suffix}" if stem else f"_conflict-{number}"
    kept = (stem or name).encode()[: NAME_LIMIT_BYTES - len(mark.encode())].decode(errors="ignore")
    return kept + mark


def _is_being_written(fd: int) -> bool:
    """True if a process has this file open for writing, where the system can tell: then it grants no read lease."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        # Whoever opens it for writing in this instant waits until the lease is given up; the signal of that must not end us.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False
