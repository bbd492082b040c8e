"""Which failure does memsyncd name when the system refuses to read or change a file of memory?

The rule: a link, special file or folder in the way is the path's fault; a note that went away or moved while it was worked on is
a change by somebody else; no space is no space; all else means that the system does not let it be done.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from memsyncd.core.notepath import NotePath
from memsyncd.errors import Conflict, MemsyncdError, PathRefused, StoreFull, Unwritable
from memsyncd.workspace.confine import NotRegularError

FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
LINK_ERRORS = frozenset({errno.ELOOP, errno.EXDEV})
SPECIAL_ERRORS = frozenset({errno.EISDIR, errno.ENXIO, errno.ENODEV})
GONE_ERRORS = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTEMPTY, errno.EEXIST})


@contextlib.contextmanager
def naming_failures(path: NotePath) -> Iterator[None]:
    """Turn an OSError inside into PathRefused, Conflict, StoreFull or Unwritable that speaks of `path`."""
    try:
        yield
    except OSError as error:
        raise name_failure(path, error) from error


def name_failure(path: NotePath, error: OSError) -> MemsyncdError:
    """The class of `memsyncd.errors` that a refusal of the system stands for."""
    code = error.errno or 0
    if isinstance(error, NotRegularError) or code in SPECIAL_ERRORS:
        return refuse(path, "it is not a regular file")
    if code in LINK_ERRORS:
        return refuse(path, "a link on the way leads elsewhere")
    if code == errno.ENOTDIR:
        return refuse(path, "a part of it is a file, not a folder")
    if code == errno.ENAMETOOLONG:
        return refuse(path, "the disk has no room for so long a name")
    if code in GONE_ERRORS:
        return say_changed(path)
    if code in FULL_ERRORS:
        return StoreFull("the disk is full", hint="free some space and try again; nothing was changed")
    why = error.strerror or type(error).__name__
    return Unwritable(f"{path.text}: {why}", hint="see that you may read and write the note and its folder")


def refuse(path: NotePath, reason: str) -> PathRefused:
    return PathRefused(f"path refused: {reason}: {path.text}", hint="choose a regular file in the workspace, or a new name")


def say_changed(path: NotePath) -> Conflict:
    return Conflict(
        f"{path.text} was changed by somebody else meanwhile",
        hint="read it again and decide anew; if this comes back, a program has it open for writing",
    )
