"""How does a file take its name in one step, without taking anybody's place?

The rule: where the system can exchange two names, or rename only where nothing stands (`renameat2`, `renameatx_np`), it does.
Where it or the file system cannot, a hard link stands in for the second, which fails just as surely if something is there; and an
exchange is refused with NotPossibleError, for a plain rename cannot give back what it replaced. Files are named by an open folder
and a name in it.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable

RENAME_FLAGS = {"linux": ("renameat2", 1, 2), "darwin": ("renameatx_np", 4, 2)}
"""The function of the C library, its flag for not replacing, and its flag for exchanging."""
UNSUPPORTED_ERRORS = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What old kernels answer, and file systems without the flag."""
UNLINKABLE_ERRORS = UNSUPPORTED_ERRORS | {errno.EPERM, errno.EMLINK}
"""What a folder answers, which takes no second name, and file systems that know none."""

RenameAt = Callable[[int, str, int, str, int], None]
"""Renames between two open folders, with a flag."""


class NotPossibleError(OSError):
    """Neither the system nor a detour can do it in one step here."""


def exchange(folder_fd: int, name: str, other: str) -> None:
    """Let two names of a folder change places. Raises NotPossibleError where that cannot be done in one step."""
    try:
        _rename_with(_find_flags()[1], folder_fd, name, folder_fd, other)
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRORS:
            raise
        raise NotPossibleError(error.errno, error.strerror) from error


def rename_to_free(old_fd: int, old: str, new_fd: int, new: str) -> None:
    """Rename, but only where nothing stands. Raises FileExistsError if something does."""
    try:
        _rename_with(_find_flags()[0], old_fd, old, new_fd, new)
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRORS:
            raise
        _rename_by_link(old_fd, old, new_fd, new)


def _rename_by_link(old_fd: int, old: str, new_fd: int, new: str) -> None:
    try:
        os.link(old, new, src_dir_fd=old_fd, dst_dir_fd=new_fd, follow_symlinks=False)
    except OSError as error:
        if error.errno not in UNLINKABLE_ERRORS:
            raise
        _rename_after_a_look(old_fd, old, new_fd, new)
        return
    try:
        os.unlink(old, dir_fd=old_fd)
    except OSError:
        os.unlink(new, dir_fd=new_fd)
        raise


def _rename_after_a_look(old_fd: int, old: str, new_fd: int, new: str) -> None:
    """For a folder this is safe as well: it never replaces anything but an empty folder."""
    try:
        os.lstat(new, dir_fd=new_fd)
    except FileNotFoundError:
        os.rename(old, new, src_dir_fd=old_fd, dst_dir_fd=new_fd)
    else:
        raise FileExistsError(errno.EEXIST, "something stands there")


def _rename_with(flag: int, old_fd: int, old: str, new_fd: int, new: str) -> None:
    rename_at = choose_rename()
    if rename_at is None:
        raise OSError(errno.ENOSYS, "the system has no such call")
    rename_at(old_fd, old, new_fd, new, flag)


def _find_flags() -> tuple[int, int]:
    _, free, swap = RENAME_FLAGS.get(sys.platform, ("", 0, 0))
    return free, swap


@functools.cache
def choose_rename() -> RenameAt | None:
    """The C library's rename with flags, None if it has none."""
    name = RENAME_FLAGS.get(sys.platform, ("", 0, 0))[0]
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None) if name else None
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def rename_at(old_fd: int, old: str, new_fd: int, new: str, flag: int) -> None:
        if function(old_fd, os.fsencode(old), new_fd, os.fsencode(new), flag) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    return rename_at
