"""Write configuration files of programs, and make folders for this user alone."""

from __future__ import annotations

import os

PRIVATE_UMASK = 0o077


def write_file(path: str, text: str, *, like: str) -> None:
    """Replace a file in one step, with the mode of `like` if that exists."""
    import tempfile  # late: a command that starts a daemon makes folders only

    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".memsyncd-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            mode = os.stat(like).st_mode & 0o777 if os.path.exists(like) else _default_mode()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def make_private_folders(path: str) -> None:
    """Create the folder and its missing parents for this user alone: a user who can write to one
    could replace the next.
    """
    before = os.umask(PRIVATE_UMASK)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(before)
