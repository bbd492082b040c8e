"""Replace files of programs, such as their configurations."""

from __future__ import annotations

import os
import tempfile


def write_file(path: str, text: str, *, like: str) -> None:
    """Replace a file in one step, with the mode of `like` if that exists."""
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
