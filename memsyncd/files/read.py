"""Read the bytes of notes and check that they are whole.

A file is opened beneath its allowed folder and read up to a limit, with a stat before and after. If
the two differ, the file is read again; after three attempts it is returned as unstable.

- `read_note_file` reads for the index: a note that cannot be read is returned as `Unread`, never
  raised and never taken for a deletion.
- `read_text_file` reads a file of any suffix for a caller who asked for it, and raises errors. Its
  path must be memory: `MEMORY.md`, a path beneath `.memories/` or an included note, and not
  excluded. A real path in a folder of `allow_links_to` may be read, but not changed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import stat as modes
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from memsyncd.core.changes.diff import FileStat, Recorded
from memsyncd.core.digest import digest_bytes
from memsyncd.core.model import Attributes, Problem
from memsyncd.core.paths import NotePath, find_refusal
from memsyncd.errors import Conflict, MemsyncdError, PathRefused, StoreFull, TooLarge, Unwritable
from memsyncd.files.confined import (
    ConfinedPath,
    NotRegularError,
    closing_fd,
    find_target,
    locate,
    open_beneath,
)
from memsyncd.files.scope import Scope, show_name

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
    """Return the error of `memsyncd.errors` for an error of the system at `path`."""
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


N_ATTEMPTS = 3
# If a file has grown since its size was read, the rest is read in parts of at least this size.
GROWTH_BYTES = 64 * 1024
LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR)
ABSENT_ERRORS = (errno.ENOENT, errno.ENOTDIR)

# macOS: the file was evicted to a cloud. Opening it is harmless; the first read blocks or fails
# with EDEADLK.
SF_DATALESS = 0x40000000
CAN_BE_DATALESS = hasattr(os.stat_result, "st_flags")

# Called for every file of every scan; FileStat's own `__new__` takes one and a half times as long.
_new = tuple.__new__


def file_stat(stat: os.stat_result) -> FileStat:
    """Return the fields of a stat that show whether a file has changed."""
    return _new(
        FileStat, (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev)
    )


def is_dataless(stat: os.stat_result) -> bool:
    """True if a cloud service has moved the content off this machine."""
    return bool(getattr(stat, "st_flags", 0) & SF_DATALESS)


# --- bytes --------------------------------------------------------------------------------------


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a file and the stat from before they were read.

    `is_unstable`: the file changed during each attempt, and these are the bytes of the last one.
    """

    data: bytes
    stat: FileStat
    mode: int
    is_unstable: bool


def read_content(fd: int, *, max_bytes: int) -> Content:
    """Read an open file; `data` has at most one byte more than `max_bytes`. Raises OSError."""
    content = _read_once(fd, max_bytes)
    for _ in range(N_ATTEMPTS - 1):
        if not content.is_unstable or len(content.data) > max_bytes:
            break
        content = _read_once(fd, max_bytes)
    return content


def _read_once(fd: int, max_bytes: int) -> Content:
    before = os.fstat(fd)
    if is_dataless(before):
        raise OSError(errno.EDEADLK, "a cloud service has moved the content off this machine")
    data = read_bounded(fd, before.st_size, limit_bytes=max_bytes + 1)
    # The stat from before the read is recorded: if the read misses a change, the next scan finds
    # another stat and the file is read again.
    stat = file_stat(before)
    is_unstable = not stat.is_same_as(file_stat(os.fstat(fd)))
    return Content(data=data, stat=stat, mode=before.st_mode, is_unstable=is_unstable)


def read_bounded(fd: int, size_bytes: int, *, limit_bytes: int) -> bytes:
    """Read from the start up to the limit; `size_bytes` is a hint that saves system calls."""
    data = os.pread(fd, min(size_bytes + 1, limit_bytes), 0)
    while len(data) < limit_bytes:
        # Usually the file ends here: a buffer for the whole limit would cost more than the note.
        n_more = min(limit_bytes - len(data), max(GROWTH_BYTES, len(data)))
        more = os.pread(fd, n_more, len(data))
        if not more:
            break
        data += more
    return data


# --- notes for the index ------------------------------------------------------------------------

UnreadReason = Literal[
    "vanished",
    "not_a_note",
    "too_large",
    "link_outside",
    "not_a_file",
    "evicted",
    "unreadable_file",
]


class ReadFile(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a note and its record.

    An unstable note must be read again when no program changes it any more.
    """

    path: NotePath
    data: bytes
    record: Recorded
    is_unstable: bool


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A note that cannot be read now. `vanished` and `not_a_note` have no problem."""

    path: NotePath
    reason: UnreadReason
    problem: Problem | None


def read_note_file(scope: Scope, path: NotePath, *, now_ns: int) -> ReadFile | Unread:
    """Read one note; its record gets `now_ns`, the wall clock before the call, as read time."""
    if not scope.is_note(path.text):
        return Unread(path=path, reason="not_a_note", problem=None)
    try:
        fd = _open_note(scope, path)
        if fd is None:
            return _refuse(path, "link_outside")
        with closing_fd(fd):
            content = read_content(fd, max_bytes=scope.max_file_bytes)
    except OSError as error:
        return _explain(path, error)
    if len(content.data) > scope.max_file_bytes:
        return _refuse(path, "too_large")
    digest = digest_bytes(content.data)
    record = Recorded(stat=content.stat, digest=digest, read_at_ns=now_ns)
    return ReadFile(path=path, data=content.data, record=record, is_unstable=content.is_unstable)


def _open_note(scope: Scope, path: NotePath) -> int | None:
    """Open a note and follow its links; None if they lead out of the allowed folders."""
    try:
        return open_beneath(scope.root, path.text)
    except OSError as error:
        if error.errno not in LINK_ERRORS:
            raise
    target = find_target(f"{scope.root}/{path.text}", scope.allowed_folders)
    return open_beneath(target.folder, target.path) if target else None


def _explain(path: NotePath, error: OSError) -> Unread:
    if isinstance(error, NotRegularError) or error.errno == errno.ENXIO:
        return _refuse(path, "not_a_file")
    if error.errno in ABSENT_ERRORS:
        return Unread(path=path, reason="vanished", problem=None)
    if error.errno == errno.EDEADLK:
        return _refuse(path, "evicted")
    return _refuse(path, "unreadable_file", why=error.strerror or "")


def _refuse(path: NotePath, reason: UnreadReason, *, why: str = "") -> Unread:
    return Unread(path=path, reason=reason, problem=problem(path.text, reason, why=why))


# --- times and modes of a note ------------------------------------------------------------------


def read_attributes(scope: Scope, path: NotePath) -> Attributes | None:
    """Read the mode and the time of a note's file; None if there is none."""
    try:
        stat = os.stat(f"{scope.root}/{path.text}")
    except (OSError, ValueError):
        return None
    return Attributes(mode=modes.S_IMODE(stat.st_mode), mtime_ns=stat.st_mtime_ns)


def read_oldest_time(scope: Scope, path: NotePath) -> int | None:
    """Return the oldest time of a note's file, in ns since 1970; None if there is no file.

    The note was created at this time or later. A file that was moved here, or unpacked or copied
    with its times, is older than its name. The time of birth is left out where the system or the
    file system does not know it.
    """
    full = f"{scope.root}/{path.text}"
    try:
        stat = os.stat(full)
    except (OSError, ValueError):
        return None
    birth_ns = _read_birth_ns(full, stat)
    return min(stat.st_mtime_ns, stat.st_ctime_ns, *(() if birth_ns is None else (birth_ns,)))


# Python's `os` does not offer Linux's statx. Its structure has 256 bytes: the first four are the
# mask of the fields that are filled in, and the time of birth is at offset 80.
AT_FDCWD, STATX_BTIME, STATX_BYTES = -100, 0x800, 256
BIRTH = struct.Struct("=qI")


@functools.cache
def _find_statx() -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None, use_errno=True), "statx", None)


def _read_birth_ns(path: str, stat: os.stat_result) -> int | None:
    if sys.platform != "linux":
        birth_s = getattr(stat, "st_birthtime", None)
        return None if birth_s is None else int(birth_s * 1e9)
    statx = _find_statx()
    buffer = ctypes.create_string_buffer(STATX_BYTES)
    if statx is None or statx(AT_FDCWD, os.fsencode(path), 0, STATX_BTIME, buffer) != 0:
        return None
    if not int.from_bytes(buffer.raw[:4], sys.byteorder) & STATX_BTIME:
        return None
    seconds, nanoseconds = BIRTH.unpack_from(buffer.raw, 80)
    return int(seconds * 10**9 + nanoseconds)


# --- files for a caller -------------------------------------------------------------------------


class TextFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file at the time of its read.

    `path` is its real path in the workspace, or the requested path if it is in an allowed folder.
    """

    path: NotePath
    data: bytes
    digest: str
    stat: FileStat
    mode: int

    @property
    def attributes(self) -> Attributes:
        """The attributes that the file gets when a deleted file is created again."""
        return Attributes(mode=modes.S_IMODE(self.mode), mtime_ns=self.stat.mtime_ns)


def read_text_file(scope: Scope, path: NotePath) -> TextFile | None:
    """Read a file of any suffix; None if there is no file.

    Raises PathRefused if the path is not memory, leads out of the workspace or is not a regular
    file, TooLarge over `scope.max_file_bytes`, Unwritable if the system does not allow the read or
    the workspace's folder is missing.
    """
    place = find_place(scope, path)
    with translating_errors(path):
        try:
            fd = open_beneath(place.folder, place.path)
        except (FileNotFoundError, NotADirectoryError):
            check_root(scope)
            return None
        with closing_fd(fd):
            content = read_content(fd, max_bytes=scope.max_file_bytes)
    if len(content.data) > scope.max_file_bytes:
        message = f"{path.text} is over max_file_bytes ({scope.max_file_bytes})"
        raise TooLarge(message, hint="split the note, or raise sync.max_file_bytes")
    real = NotePath(place.path) if place.folder == scope.root else path
    digest = digest_bytes(content.data)
    return TextFile(
        path=real, data=content.data, digest=digest, stat=content.stat, mode=content.mode
    )


def check_size(scope: Scope, path: str, data: bytes, *, way_out: str) -> None:
    """Raise TooLarge if `data` is longer than a note may be.

    `path` is the name by which the writer knows the note; `way_out` begins the hint.
    """
    if len(data) > scope.max_file_bytes:
        limit = scope.max_file_bytes
        raise TooLarge(
            f"{path} would have {len(data)} bytes, more than the {limit} that a note may have",
            hint=f"{way_out}, or raise sync.max_file_bytes",
        )


def find_place(scope: Scope, path: NotePath) -> ConfinedPath:
    """Return the real place of a path of memory; the file may be missing.

    Raises PathRefused if the path is not memory, or leads out of the workspace and the folders of
    `allow_links_to`.
    """
    check_memory(scope, path)
    return resolve(scope, path)


def check_memory(scope: Scope, path: NotePath) -> None:
    """Raise PathRefused unless this path may hold memory."""
    if scope.exclude.matches(path.text):
        message = f"path refused: the configuration excludes it: {path.text}"
        raise PathRefused(message, hint="choose another path")
    if not (scope.is_memory(path.text) or scope.is_note(path.text)):
        message = f"path refused: it is outside memory: {path.text}"
        folder = (
            f"{scope.memory_dir}/" if scope.memory_dir else "the workspace, without hidden names"
        )
        raise PathRefused(message, hint=f"choose a path beneath {folder}")


def resolve(scope: Scope, path: NotePath) -> ConfinedPath:
    """Resolve the links on a path.

    Raises PathRefused if they lead outside or to a hidden path, Conflict if they change meanwhile.
    """
    try:
        real = os.path.realpath(f"{scope.root}/{path.text}")
    except OSError:  # a folder became a link, or a link a folder, during the call
        raise make_conflict(path) from None
    target = locate(real, scope.allowed_folders)
    if target is None:
        raise make_refusal(path, "a link on the way leads out of the workspace")
    if target.folder == scope.root and find_refusal(target.path):
        raise make_refusal(path, "a link on the way leads to a hidden path or to the workspace")
    return target


def check_root(scope: Scope) -> None:
    """Raise Unwritable if the workspace's folder is missing, because missing is not empty."""
    try:
        is_folder = modes.S_ISDIR(os.lstat(scope.root).st_mode)
    except OSError:
        is_folder = False
    if not is_folder:
        hint = "restore the folder, or remove the workspace"
        raise Unwritable("the workspace's folder is missing", hint=hint)
