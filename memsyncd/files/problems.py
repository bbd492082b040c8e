"""Describe problems of notes for reports, and translate errors of the system for callers.

`problem` makes a Problem from a table of stable codes. `translate_error` turns an OSError into the
error of memsyncd that it means: a link, special file or folder in the way is PathRefused; a note
that vanished or moved during the work is a Conflict; no space is StoreFull; the rest is Unwritable.
No text here names a path outside the workspace.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from memsyncd.core.model import Problem
from memsyncd.core.paths import NotePath
from memsyncd.errors import Conflict, MemsyncdError, PathRefused, StoreFull, Unwritable
from memsyncd.files.confined import NotRegularError
from memsyncd.files.scope import show_name

PROBLEMS: dict[str, tuple[str, str]] = {
    "bad_name": ("the name is not valid UTF-8, so it is not indexed", "rename it"),
    "evicted": (
        "a cloud service has moved the content off this machine; the indexed version stays",
        "download it to have changes indexed",
    ),
    "link_broken": ("the target of the link does not exist", "repair or remove the link"),
    "link_loop": ("the link leads back to itself or to a folder above it", "remove the link"),
    "link_outside": (
        "the link leaves the workspace, so it is not followed",
        "allow the target's folder with allow_links_to in your own configuration, or copy the note",
    ),
    "not_indexed": (
        "files here are kept but not searched: only .md, .markdown and .txt are indexed",
        "rename those that should be found",
    ),
    "not_a_file": ("it is not a regular file, so it is not indexed", "remove or rename it"),
    "not_a_folder": ("it is not a folder, so there are no notes beneath it", "make it a folder"),
    "not_mounted": (
        "the disk of its notes is not mounted; the indexed versions stay",
        "mount it, or remove this folder or link if its notes are to go",
    ),
    "odd_name": (
        "the name holds control characters; it is indexed, and shown without them",
        "rename it",
    ),
    "shadowed": (
        "the memory tool cannot reach it: its /memories/MEMORY.md is the one beside .memories",
        "rename it, or merge the two",
    ),
    "sync_conflict": (
        "it is a conflict copy of two versions; both are indexed",
        "merge the two and delete the copy",
    ),
    "too_large": (
        "it is over max_file_bytes, so it is not indexed",
        "split the note, or raise sync.max_file_bytes",
    ),
    "twin_names": (
        "another note has the same name with accents written differently; both are indexed",
        "merge the two",
    ),
    "unreadable_file": (
        "it cannot be read; the indexed version stays",
        "make it readable for you",
    ),
    "unreadable_folder": (
        "the folder cannot be listed; the indexed versions stay",
        "make it readable for you",
    ),
}


def problem(path: str, code: str, *, why: str = "") -> Problem:
    """Make the problem `code` of a path; `why` is the system's own text for it.

    Bytes of a name that are not UTF-8 are replaced.
    """
    text, hint = PROBLEMS[code]
    text = f"{text} ({show_name(why)})" if why else text
    return Problem(path=show_name(path), line=0, code=code, problem=text, hint=hint)


# --- errors -------------------------------------------------------------------------------------

FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
ESCAPE_ERRORS = frozenset({errno.ELOOP, errno.EXDEV})
SPECIAL_ERRORS = frozenset({errno.EISDIR, errno.ENXIO, errno.ENODEV})
GONE_ERRORS = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTEMPTY, errno.EEXIST})


@contextlib.contextmanager
def translating_errors(path: NotePath) -> Iterator[None]:
    """Turn an OSError of the body into the error that it means for `path`."""
    try:
        yield
    except OSError as error:
        raise translate_error(path, error) from error


def translate_error(path: NotePath, error: OSError) -> MemsyncdError:
    """Return the error of `memsyncd.errors` that an error of the system means."""
    code = error.errno or 0
    if isinstance(error, NotRegularError) or code in SPECIAL_ERRORS:
        return make_refusal(path, "it is not a regular file")
    if code in ESCAPE_ERRORS:
        return make_refusal(path, "a link on the way leads elsewhere")
    if code == errno.ENOTDIR:
        return make_refusal(path, "a part of it is a file, not a folder")
    if code == errno.ENAMETOOLONG:
        return make_refusal(path, "the name is too long for the file system")
    if code in GONE_ERRORS:
        return make_conflict(path)
    if code in FULL_ERRORS:
        return StoreFull("the disk is full", hint="free some space and try again; nothing changed")
    why = error.strerror or type(error).__name__
    hint = "check that you may read and write the note and its folder"
    return Unwritable(f"{path.text}: {why}", hint=hint)


def make_refusal(path: NotePath, reason: str) -> PathRefused:
    hint = "choose a regular file in the workspace, or a new name"
    return PathRefused(f"path refused: {reason}: {path.text}", hint=hint)


def make_conflict(path: NotePath) -> Conflict:
    hint = "read it again, then repeat the change; close programs that keep saving it"
    return Conflict(f"{path.text} was changed by another program meanwhile", hint=hint)
