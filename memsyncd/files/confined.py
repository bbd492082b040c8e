"""Open files and folders beneath a folder, never through a link and never a special file.

`open_beneath` opens files and `open_folder_beneath` opens folders. The kernel walks the path
without following any link (`openat2`; where that is missing, part by part with `O_NOFOLLOW`), does
not wait for the writer of a FIFO, and only a regular file is returned. A link that may be followed
is first resolved to the real path that it leads to (`find_target`), and that path is opened the
same way.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import platform
import stat
import sys
from collections.abc import Callable, Iterable, Iterator

import msgspec

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
SYS_OPENAT2 = 437
# The number of openat2 on all these machines: Linux gives a new call the same number on each.
OPENAT2_MACHINES = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x", "armv7l", "i686"})

FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
# A descriptor opened with O_PATH can be neither listed nor synced.
LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW

OpenAt = Callable[[int, str, int], int]
"""Opens a path beneath an open folder with the given flags and follows no link."""


class NotRegularError(OSError):
    """The path names a folder, FIFO, socket or device."""


class ConfinedPath(msgspec.Struct, frozen=True):
    """A real path: an allowed folder, and the path beneath it (empty for the folder itself)."""

    folder: str
    path: str

    @property
    def real_path(self) -> str:
        return f"{self.folder}/{self.path}" if self.path else self.folder


def open_beneath(folder: str, path: str) -> int:
    """Open the regular file `path` beneath the real folder `folder`; the caller closes it.

    Raises OSError: ELOOP or ENOTDIR if a link is on the way, EXDEV if the path leads out of the
    folder, NotRegularError if it is not a regular file, and any other error of the system.
    """
    return _check_regular(_open_within(folder, path, FILE_FLAGS))


def open_file_in(folder_fd: int, path: str) -> int:
    """Open a regular file by its path beneath an open folder.

    Raises the same errors as `open_beneath`.
    """
    return _check_regular(choose_opener()(folder_fd, path, FILE_FLAGS))


def open_folder_beneath(folder: str, path: str) -> int:
    """Open the folder `path` (empty: `folder` itself) beneath a real folder; the caller closes it.

    Raises OSError as `open_beneath` does; ENOTDIR if the path is not a folder.
    """
    return _open_within(folder, path, LIST_FLAGS) if path else os.open(folder, LIST_FLAGS)


def open_folder_in(folder_fd: int, path: str) -> int:
    """Open a folder by its path beneath an open folder.

    Raises the same errors as `open_folder_beneath`.
    """
    return choose_opener()(folder_fd, path, LIST_FLAGS)


@contextlib.contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Close the descriptor at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def _open_within(folder: str, path: str, flags: int) -> int:
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise OSError(errno.EXDEV, "path leads out of its folder")
    with closing_fd(os.open(folder, FOLDER_FLAGS)) as folder_fd:
        return choose_opener()(folder_fd, path, flags)


def _check_regular(fd: int) -> int:
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise NotRegularError(errno.EINVAL, "not a regular file")


# --- links --------------------------------------------------------------------------------------


def find_target(path: str, folders: Iterable[str]) -> ConfinedPath | None:
    """Resolve an absolute path through its links; None if it ends outside all real `folders`.

    Raises OSError if the links lead to nothing (ENOENT) or form a loop (ELOOP).
    """
    return locate(os.path.realpath(path, strict=True), folders)


def locate(real_path: str, folders: Iterable[str]) -> ConfinedPath | None:
    """Split a real path at the first of the real `folders` that holds it; None if none does."""
    for folder in folders:
        if real_path == folder:
            return ConfinedPath(folder, "")
        if real_path.startswith(f"{folder.rstrip('/')}/"):
            return ConfinedPath(folder, real_path[len(folder.rstrip("/")) + 1 :])
    return None


def find_missing_target_folder(path: str, folders: Iterable[str]) -> frozenset[str]:
    """Return the folder to watch for the missing target of a link: the target would appear in it.

    The folder may be missing too. The result is empty if the folder is outside all `folders`.
    """
    try:
        real = os.path.realpath(path)
    except OSError:  # a link changed during the call; that change has its own event
        return frozenset()
    parent = os.path.dirname(real)
    is_inside = any(f"{parent}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)
    return frozenset({parent}) if real != path and is_inside else frozenset()


# --- openat2, and the way without it ------------------------------------------------------------


@functools.cache
def choose_opener() -> OpenAt:
    """Return the best way to open on this system."""
    # openat2 is tried once: seccomp filters and old kernels refuse it.
    opener = _load_openat2()
    if opener is None:
        return open_part_by_part
    with closing_fd(os.open("/", FOLDER_FLAGS)) as probe:
        try:
            os.close(opener(probe, ".", FILE_FLAGS))
        except OSError:
            return open_part_by_part
    return opener


def open_part_by_part(folder_fd: int, path: str, flags: int) -> int:
    """Open `path` beneath an open folder, one folder after the other, never through a link."""
    *folders, name = path.split("/")
    at = os.dup(folder_fd)
    try:
        for part in folders:
            deeper = _open_next(at, part)
            os.close(at)
            at = deeper
        return os.open(name, flags, dir_fd=at)
    finally:
        os.close(at)


def _open_next(at: int, part: str) -> int:
    try:
        return os.open(part, FOLDER_FLAGS, dir_fd=at)
    except NotADirectoryError:
        # Systems differ in the error for a link here; a kernel with openat2 reports ELOOP.
        if stat.S_ISLNK(os.lstat(part, dir_fd=at).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _load_openat2() -> OpenAt | None:
    if sys.platform != "linux" or platform.machine() not in OPENAT2_MACHINES:
        return None
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
    number, size = ctypes.c_long(SYS_OPENAT2), ctypes.c_size_t(ctypes.sizeof(_OpenHow))

    def openat2(folder_fd: int, path: str, flags: int) -> int:
        how = ctypes.byref(_OpenHow(flags, 0, resolve))
        fd = int(syscall(number, ctypes.c_int(folder_fd), os.fsencode(path), how, size))
        if fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return fd

    return openat2
