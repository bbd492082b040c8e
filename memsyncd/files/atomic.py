"""Building blocks of atomic writes: temporary files, renames that replace nothing, open folders.

New bytes are written and synced under a hidden name beside the note before they take its name; a
file to be deleted is first renamed to such a name. Only memsyncd makes names of this form, so after
a crash they may be removed. Files are named by an open folder and a name in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import re
import stat as modes
import sys
from collections.abc import Callable, Iterator

import msgspec

from memsyncd.core.model import Attributes
from memsyncd.files.confined import FILE_FLAGS, LIST_FLAGS, closing_fd, open_folder_beneath

# --- temporary files ----------------------------------------------------------------------------

TEMPORARY_NAME = re.compile(r"\.memsyncd-[0-9a-f]{16}\.tmp")
FILE_MODE = 0o600
READ_WRITE = 0o666
PERMISSIONS = 0o777
NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFile(msgspec.Struct, frozen=True, kw_only=True):
    """A new file, complete on the disk; `fd` is open for reading only."""

    name: str
    fd: int


def make_temporary_name() -> str:
    """Make an unused name: it has 64 random bits."""
    # Not `secrets`, which imports all of OpenSSL: 3.5 MB.
    return f".memsyncd-{os.urandom(8).hex()}.tmp"


def is_temporary(name: str) -> bool:
    return TEMPORARY_NAME.fullmatch(name) is not None


@contextlib.contextmanager
def write_temporary(
    folder_fd: int, data: bytes, *, like_fd: int | None, attributes: Attributes | None = None
) -> Iterator[TemporaryFile]:
    """Write and sync a new file, with the mode, owner and attributes of the open file `like_fd`.

    Without `like_fd` it gets the mode and time of `attributes`, and without both the permissions of
    its folder. At the end the temporary name is removed if it still names the file that was made
    here.
    """
    name = make_temporary_name()
    with contextlib.ExitStack() as cleanup:
        write_fd = os.open(name, NEW_FLAGS, FILE_MODE, dir_fd=folder_fd)
        cleanup.callback(_remove_own, folder_fd, name, os.fstat(write_fd))
        with closing_fd(write_fd):
            _write_all(write_fd, data)
            if like_fd is not None:
                _copy_metadata(write_fd, like_fd)
            else:
                _set_attributes(write_fd, folder_fd, attributes)
            os.fsync(write_fd)
        fd = os.open(name, FILE_FLAGS, dir_fd=folder_fd)
        cleanup.callback(os.close, fd)
        yield TemporaryFile(name=name, fd=fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _set_attributes(fd: int, folder_fd: int, attributes: Attributes | None) -> None:
    # Some file systems, such as FAT, have neither modes nor all times.
    with contextlib.suppress(OSError):
        mode = os.fstat(folder_fd).st_mode & READ_WRITE if attributes is None else attributes.mode
        os.fchmod(fd, mode & PERMISSIONS)
    if attributes is not None:
        with contextlib.suppress(OSError, OverflowError):
            os.utime(fd, ns=(os.fstat(fd).st_atime_ns, attributes.mtime_ns))


def _copy_metadata(fd: int, like_fd: int) -> None:
    """Copy owner, mode and attributes as far as the system allows it."""
    stat, own = os.fstat(like_fd), os.fstat(fd)
    # The owner comes first: a change of owner may clear permissions.
    if (stat.st_uid, stat.st_gid) != (own.st_uid, own.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(fd, stat.st_uid, stat.st_gid)
    os.fchmod(fd, modes.S_IMODE(stat.st_mode) & PERMISSIONS)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            _copy_attributes(fd, like_fd)


def _copy_attributes(fd: int, like_fd: int) -> None:
    """Copy extended attributes, access control lists among them."""
    attributes = os.listxattr(like_fd)
    # The access control list that a new file inherits from its folder must not remain.
    for attribute in set(os.listxattr(fd)).difference(attributes):
        with contextlib.suppress(OSError):
            os.removexattr(fd, attribute)
    for attribute in attributes:
        with contextlib.suppress(OSError):
            os.setxattr(fd, attribute, os.getxattr(like_fd, attribute))


def _remove_own(folder_fd: int, name: str, own: os.stat_result) -> None:
    with contextlib.suppress(OSError):
        if os.path.samestat(os.lstat(name, dir_fd=folder_fd), own):
            os.unlink(name, dir_fd=folder_fd)


# --- renames ------------------------------------------------------------------------------------
#
# `renameat2` (Linux) and `renameatx_np` (macOS) exchange two names, or rename without replacing
# anything. Where the system or the file system cannot, a hard link takes the new name, which fails
# as reliably if the name is taken. An exchange is refused then: a plain rename could not restore
# the file that it replaced.

# The function of the C library, its flag for not replacing, and its flag for exchanging.
RENAME_FLAGS = {"linux": ("renameat2", 1, 2), "darwin": ("renameatx_np", 4, 2)}
# Errors of old kernels, and of file systems without the flag.
UNSUPPORTED_ERRORS = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
# Errors for a folder, which takes no second name, and of file systems without hard links.
UNLINKABLE_ERRORS = UNSUPPORTED_ERRORS | {errno.EPERM, errno.EMLINK}

RenameAt = Callable[[int, str, int, str, int], None]
"""Renames between two open folders, with a flag."""


class ExchangeUnsupportedError(OSError):
    """The system or the file system cannot exchange two names in one step."""


def exchange(folder_fd: int, name: str, other: str) -> None:
    """Exchange two names of a folder in one step. Raises ExchangeUnsupportedError."""
    try:
        _rename_with_flag(_rename_flags()[1], folder_fd, name, folder_fd, other)
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRORS:
            raise
        raise ExchangeUnsupportedError(error.errno, error.strerror) from error


def rename_noreplace(old_fd: int, old: str, new_fd: int, new: str) -> None:
    """Rename without replacing anything. Raises FileExistsError if the new name is taken."""
    try:
        _rename_with_flag(_rename_flags()[0], old_fd, old, new_fd, new)
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
        _rename_after_check(old_fd, old, new_fd, new)
        return
    try:
        os.unlink(old, dir_fd=old_fd)
    except OSError:
        os.unlink(new, dir_fd=new_fd)
        raise


def _rename_after_check(old_fd: int, old: str, new_fd: int, new: str) -> None:
    """Rename if the new name is free now. A folder replaces nothing but an empty folder anyway."""
    try:
        os.lstat(new, dir_fd=new_fd)
    except FileNotFoundError:
        os.rename(old, new, src_dir_fd=old_fd, dst_dir_fd=new_fd)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _rename_with_flag(flag: int, old_fd: int, old: str, new_fd: int, new: str) -> None:
    rename_at = choose_rename()
    if rename_at is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    rename_at(old_fd, old, new_fd, new, flag)


def _rename_flags() -> tuple[int, int]:
    _, noreplace, swap = RENAME_FLAGS.get(sys.platform, ("", 0, 0))
    return noreplace, swap


@functools.cache
def choose_rename() -> RenameAt | None:
    """Return the C library's rename with flags, None if it has none."""
    name = RENAME_FLAGS.get(sys.platform, ("", 0, 0))[0]
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None) if name else None
    if function is None:
        return None
    c_int, c_char_p = ctypes.c_int, ctypes.c_char_p
    function.argtypes = (c_int, c_char_p, c_int, c_char_p, ctypes.c_uint)

    def rename_at(old_fd: int, old: str, new_fd: int, new: str, flag: int) -> None:
        if function(old_fd, os.fsencode(old), new_fd, os.fsencode(new), flag) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    return rename_at


# --- open folders -------------------------------------------------------------------------------
#
# A folder beneath the root is kept open by its descriptor, and files are changed by name within
# that descriptor. `is_in_place` says whether the path of the folder still leads to it.

FOLDER_MODE = 0o700


class OpenFolder(msgspec.Struct, frozen=True, kw_only=True):
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
        with closing_fd(fd):
            return os.path.sameopenfile(fd, self.fd)

    def sync(self) -> None:
        """Sync the names in this folder to the disk."""
        _sync_folder(self.fd)


@contextlib.contextmanager
def open_folder(root: str, path: str) -> Iterator[OpenFolder]:
    """Open an existing folder. Raises OSError as `open_folder_beneath` does."""
    with closing_fd(open_folder_beneath(root, path)) as fd:
        yield OpenFolder(root=root, path=path, fd=fd)


@contextlib.contextmanager
def create_folder(root: str, path: str) -> Iterator[OpenFolder]:
    """Open a folder; create it and missing folders above it, each with its parent's permissions.

    If the body fails, the created folders are removed again, except those that others use by then.
    """
    created: list[str] = []
    try:
        with closing_fd(_open_or_create(root, path, created)) as fd:
            yield OpenFolder(root=root, path=path, fd=fd)
    except BaseException:
        for folder in reversed(created):
            _remove_if_empty(root, folder)
        raise


def _open_or_create(root: str, path: str, created: list[str]) -> int:
    """Return the folder's descriptor; add the paths of created folders to `created`."""
    at = os.open(root, LIST_FLAGS)
    done: list[str] = []
    try:
        for part in path.split("/") if path else ():
            done.append(part)
            deeper = _open_or_create_one(at, part, "/".join(done), created)
            os.close(at)
            at = deeper
    except BaseException:
        os.close(at)
        raise
    return at


def _open_or_create_one(at: int, name: str, path: str, created: list[str]) -> int:
    try:
        return os.open(name, LIST_FLAGS, dir_fd=at)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=at)
            created.append(path)
            _copy_permissions(at, name)
            _sync_folder(at)
    return os.open(name, LIST_FLAGS, dir_fd=at)


def _copy_permissions(folder_fd: int, name: str) -> None:
    """Give a folder that was made here the permissions of the folder in which it lies."""
    with closing_fd(os.open(name, LIST_FLAGS, dir_fd=folder_fd)) as fd:
        special = modes.S_IMODE(os.fstat(fd).st_mode) & ~PERMISSIONS
        with contextlib.suppress(OSError):
            os.fchmod(fd, special | os.fstat(folder_fd).st_mode & PERMISSIONS)


def _sync_folder(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        # Some file systems do not sync folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _remove_if_empty(root: str, path: str) -> None:
    parent, _, name = path.rpartition("/")
    with contextlib.suppress(OSError), open_folder(root, parent) as folder:
        os.rmdir(name, dir_fd=folder.fd)
