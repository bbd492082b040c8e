"""How is a file or folder beneath a folder opened so that no link, swapped folder or special file leads elsewhere?

The rule: one door, `open_beneath` for files and `open_folder_beneath` for what holds them. The kernel walks the path without
following any link (`openat2`, or part by part with `O_NOFOLLOW` where there is none), never waits for a FIFO, and only a regular
file comes back. A link that may be followed is first resolved to the real place it leads to (`find_target`), and that place goes
through the same door. Which names are notes is left to `scope`, reading to `files`, writing to `writing`.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import stat
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
SYS_OPENAT2 = 437
OPENAT2_MACHINES = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x", "armv7l", "i686"})
"""Where the system call has this number (Linux numbers new calls alike on these)."""

FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
"""For a folder that is to be listed or put on the disk, too."""

OpenAt = Callable[[int, str, int], int]
"""Opens a path beneath an open folder with these flags, following nothing."""


class NotRegularError(OSError):
    """What stands there is a folder, FIFO, socket or device."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a link leads: an allowed folder and the real path beneath it, empty for the folder itself."""

    folder: str
    path: str

    @property
    def real_path(self) -> str:
        return f"{self.folder}/{self.path}" if self.path else self.folder


def open_beneath(folder: str, path: str) -> int:
    """Open the regular file `path` beneath the real folder `folder` and return its descriptor, for the caller to close.

    Raises OSError: ELOOP or ENOTDIR if a link stands in the way, EXDEV if the text itself leads out, NotRegularError if it is no
    regular file, and what the system says else.
    """
    return _check_regular(_open_within(folder, path, FILE_FLAGS))


def open_file_in(folder_fd: int, path: str) -> int:
    """Open a regular file by its path beneath an open folder. Raises OSError as `open_beneath` does."""
    return _check_regular(choose_opener()(folder_fd, path, FILE_FLAGS))


def open_folder_beneath(folder: str, path: str) -> int:
    """Open the folder `path` (empty for `folder` itself) beneath the real folder `folder`, for the caller to close.

    Raises OSError as `open_beneath` does; ENOTDIR if it is no folder.
    """
    return _open_within(folder, path, LIST_FLAGS) if path else os.open(folder, LIST_FLAGS)


def open_folder_in(folder_fd: int, path: str) -> int:
    """Open a folder by its path beneath an open one. Raises OSError as `open_folder_beneath` does."""
    return choose_opener()(folder_fd, path, LIST_FLAGS)


def _open_within(folder: str, path: str, flags: int) -> int:
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise OSError(errno.EXDEV, "path leads out of its folder")
    folder_fd = os.open(folder, FOLDER_FLAGS)
    try:
        return choose_opener()(folder_fd, path, flags)
    finally:
        os.close(folder_fd)


def _check_regular(fd: int) -> int:
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise NotRegularError(errno.EINVAL, "not a regular file")


def find_target(place: str, folders: Iterable[str]) -> Target | None:
    """Resolve a path that goes through links: the real place if it lies in one of the real `folders`, else None.

    Raises OSError if the links lead nowhere (ENOENT) or in a circle (ELOOP).
    """
    return locate(os.path.realpath(place, strict=True), folders)


def locate(real: str, folders: Iterable[str]) -> Target | None:
    """A real path as one beneath the first of the real `folders` that holds it, or None."""
    for folder in folders:
        if real == folder:
            return Target(folder, "")
        if real.startswith(f"{folder.rstrip('/')}/"):
            return Target(folder, real[len(folder.rstrip("/")) + 1 :])
    return None


def find_awaited(place: str, folders: Iterable[str]) -> frozenset[str]:
    """The folder in which the end of links that lead nowhere would appear; none if it lies outside. It may be missing, too."""
    try:
        real = os.path.realpath(place)
    except OSError:  # swapped on the way: there will be events of that
        return frozenset()
    above = os.path.dirname(real)
    may_lead = real != place and any(f"{above}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)
    return frozenset({above}) if may_lead else frozenset()


@functools.cache
def choose_opener() -> OpenAt:
    """The best way of this system, tried out once: seccomp filters and old kernels refuse openat2."""
    opener = _load_openat2()
    if opener is None:
        return open_part_by_part
    probe = os.open("/", FOLDER_FLAGS)
    try:
        os.close(opener(probe, ".", FILE_FLAGS))
    except OSError:
        return open_part_by_part
    finally:
        os.close(probe)
    return opener


def open_part_by_part(folder_fd: int, path: str, flags: int) -> int:
    """Open `path` beneath an open folder, each folder on the way by itself and never through a link."""
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
        # Systems differ in what they call a link here; the kernel that walks by itself says ELOOP.
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
