"""What does memsyncd leave in a folder while it writes there, and how is it told from everything else?

The rule: new bytes are written in full, and put on the disk, under a hidden name beside the note before they take the note's
name; what is to be deleted takes such a name first. A name of this form is memsyncd's own, and after a crash may be removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat as modes
from collections.abc import Iterator
from dataclasses import dataclass

from memsyncd.workspace.confine import FILE_FLAGS

FORM = re.compile(r"\.memsyncd-[0-9a-f]{16}\.tmp")
FILE_MODE = 0o600
PERMISSIONS = 0o777
NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporary:
    """New bytes under a name of their own, open for reading alone: nobody writes there any more."""

    name: str
    fd: int


def make_name() -> str:
    """A name that nothing has: 64 random bits."""
    return f".memsyncd-{secrets.token_hex(8)}.tmp"


def is_temporary(name: str) -> bool:
    return FORM.fullmatch(name) is not None


@contextlib.contextmanager
def writing_temporary(folder_fd: int, data: bytes, *, like_fd: int | None) -> Iterator[Temporary]:
    """Bytes on the disk in a new file, with mode, owner and attributes of the open file `like_fd`, or 0600 for None.

    What still stands under the temporary's name at the end is removed, if it is the file that was made here.
    """
    name = make_name()
    with contextlib.ExitStack() as ends:
        write_fd = os.open(name, NEW_FLAGS, FILE_MODE, dir_fd=folder_fd)
        ends.callback(_remove_own, folder_fd, name, os.fstat(write_fd))
        try:
            _write_all(write_fd, data)
            if like_fd is None:
                os.fchmod(write_fd, FILE_MODE)
            else:
                _make_alike(write_fd, like_fd)
            os.fsync(write_fd)
        finally:
            os.close(write_fd)
        fd = os.open(name, FILE_FLAGS, dir_fd=folder_fd)
        ends.callback(os.close, fd)
        yield Temporary(name=name, fd=fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _make_alike(fd: int, like_fd: int) -> None:
    """Owner first, for a change of owner may take away permissions. What the system does not grant stays as it is."""
    stat, own = os.fstat(like_fd), os.fstat(fd)
    if (stat.st_uid, stat.st_gid) != (own.st_uid, own.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(fd, stat.st_uid, stat.st_gid)
    os.fchmod(fd, modes.S_IMODE(stat.st_mode) & PERMISSIONS)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            _copy_attributes(fd, like_fd)


def _copy_attributes(fd: int, like_fd: int) -> None:
    """Access lists among them: those that a new file has from its folder must not outlive this."""
    wanted = os.listxattr(like_fd)
    for attribute in set(os.listxattr(fd)).difference(wanted):
        with contextlib.suppress(OSError):
            os.removexattr(fd, attribute)
    for attribute in wanted:
        with contextlib.suppress(OSError):
            os.setxattr(fd, attribute, os.getxattr(like_fd, attribute))


def _remove_own(folder_fd: int, name: str, own: os.stat_result) -> None:
    with contextlib.suppress(OSError):
        if os.path.samestat(os.lstat(name, dir_fd=folder_fd), own):
            os.unlink(name, dir_fd=folder_fd)
