"""What are a note's bytes right now, and are they whole?

The rule: opened confined, bounded, stat before and after; what moved while it was read is read again, and after three times
handed over as `is_growing`, to be looked at again once it is quiet. What cannot be read comes back as `Unread`, never as an
exception and never as a deletion. Finding notes is left to `scan`, understanding them to `core.markdown`.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Literal

from memsyncd.core.changes.diff import Recorded
from memsyncd.core.digest import digest_bytes
from memsyncd.core.model import Problem
from memsyncd.core.notepath import NotePath, is_note_name
from memsyncd.workspace.confine import NotRegularError, find_target, open_beneath
from memsyncd.workspace.oddities import odd
from memsyncd.workspace.scope import Scope
from memsyncd.workspace.stats import file_stat, is_dataless

N_ATTEMPTS = 3
LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR)
ABSENT_ERRORS = (errno.ENOENT, errno.ENOTDIR)

UnreadReason = Literal["vanished", "not_a_note", "too_large", "link_outside", "not_a_file", "evicted", "unreadable_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A note's bytes and what its record should say. `is_growing`: it moved at each attempt; look again once it is quiet."""

    path: NotePath
    data: bytes
    record: Recorded
    is_growing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A note that cannot be read now: `vanished`, `not_a_note` of this scope (both no problem), or odd as its problem says."""

    path: NotePath
    reason: UnreadReason
    problem: Problem | None


def read_note_file(scope: Scope, path: NotePath, *, now_ns: int) -> ReadFile | Unread:
    """Read one note. `now_ns` is the wall clock at any moment before the call; the record says that it was read then."""
    if not (is_note_name(path.name) and scope.is_wanted(path.text)):
        return Unread(path=path, reason="not_a_note", problem=None)
    try:
        fd = _open_note(scope, path)
    except OSError as error:
        return _explain(path, error)
    if fd is None:
        return _refuse(path, "link_outside")
    try:
        return _read_steady(fd, path, max_bytes=scope.max_file_bytes, now_ns=now_ns)
    except OSError as error:
        return _explain(path, error)
    finally:
        os.close(fd)


def _open_note(scope: Scope, path: NotePath) -> int | None:
    """Open the note, through links only to where they may lead; None if they lead out."""
    try:
        return open_beneath(scope.root, path.text)
    except OSError as error:
        if error.errno not in LINK_ERRORS:
            raise
    target = find_target(f"{scope.root}/{path.text}", (scope.root, *scope.allow_links_to))
    return open_beneath(target.folder, target.path) if target else None


def _read_steady(fd: int, path: NotePath, *, max_bytes: int, now_ns: int) -> ReadFile | Unread:
    found = _read_once(fd, path, max_bytes=max_bytes, now_ns=now_ns)
    for _ in range(N_ATTEMPTS - 1):
        if isinstance(found, Unread) or not found.is_growing:
            break
        found = _read_once(fd, path, max_bytes=max_bytes, now_ns=now_ns)
    return found


def _read_once(fd: int, path: NotePath, *, max_bytes: int, now_ns: int) -> ReadFile | Unread:
    before = os.fstat(fd)
    if is_dataless(before):
        return _refuse(path, "evicted")
    data = read_bounded(fd, before.st_size, limit_bytes=max_bytes + 1)
    if len(data) > max_bytes:
        return _refuse(path, "too_large")
    # The stat is from before the read: a change that the read missed differs from it.
    stat = file_stat(before)
    record = Recorded(stat=stat, digest=digest_bytes(data), read_at_ns=now_ns)
    return ReadFile(path=path, data=data, record=record, is_growing=not stat.is_same_as(file_stat(os.fstat(fd))))


def read_bounded(fd: int, size_bytes: int, *, limit_bytes: int) -> bytes:
    """Everything up to the limit, from the start; the size is a hint that spares calls."""
    data = os.pread(fd, min(size_bytes + 1, limit_bytes), 0)
    while len(data) < limit_bytes:
        more = os.pread(fd, limit_bytes - len(data), len(data))
        if not more:
            break
        data += more
    return data


def _explain(path: NotePath, error: OSError) -> Unread:
    if isinstance(error, NotRegularError) or error.errno == errno.ENXIO:
        return _refuse(path, "not_a_file")
    if error.errno in ABSENT_ERRORS:
        return Unread(path=path, reason="vanished", problem=None)
    if error.errno == errno.EDEADLK:
        return _refuse(path, "evicted")
    return _refuse(path, "unreadable_file", why=error.strerror or "")


def _refuse(path: NotePath, reason: UnreadReason, *, why: str = "") -> Unread:
    return Unread(path=path, reason=reason, problem=odd(path.text, reason, why=why))
