"""Recognise the records.db of a workspace whose folder was moved or renamed.

A folder has another workspace id at its new place, and records.db lies under the old one. It is the same folder if it is not at
its old place any more and most notes say here what they said there. A file that nobody brought here must name the folder's
inode, too: an inode alone may have been given to another folder since.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from memsyncd.core.digest import digest_bytes
from memsyncd.engine.recovery import read_disk_digest
from memsyncd.errors import StoreFailed
from memsyncd.files.scope import Scope, is_gone
from memsyncd.store.identity import OPEN_FILES, Owner, peek_owners, peek_tips, take_over
from memsyncd.store.migrations import MIGRATIONS

N_COMPARED = 50
"""Notes that are read to tell whether the folder is the same."""
EMPTY = digest_bytes(b"")


def is_moved(scope: Scope, owner: Owner, tips: Mapping[str, str]) -> bool:
    """True if `owner` is the workspace that this folder was before it was moved; `tips` say what its notes said."""
    return is_gone(owner.root, owner.inode) and _has_same_notes(scope, tips)


def take_over_former(scope: Scope, records: Path, inode: int | None) -> str:
    """Where there is no records.db yet, move the one of the folder's former place here.

    Returns why one that was found stays where it is, empty if none was found or it was moved.
    """
    for former, owner in _find_former(records, inode):
        if is_moved(scope, owner, peek_tips(former)):
            try:
                take_over(former, records)
            except (StoreFailed, OSError) as failure:
                why = failure.message if isinstance(failure, StoreFailed) else str(failure.strerror)
                return f"the history of {owner.root}, from which this folder was moved, stays in {former}: {why}"
            return ""
    return ""


def _find_former(records: Path, inode: int | None) -> Iterator[tuple[Path, Owner]]:
    """The records.db of workspaces that this process does not look after that name this inode as their root's."""
    if inode is None:
        return
    with contextlib.suppress(OSError):
        for former in sorted(records.parent.parent.glob(f"*/{records.name}")):
            is_in_use = former == records or former in OPEN_FILES
            owners = () if is_in_use else peek_owners(former, newest_version=len(MIGRATIONS))
            if len(owners) == 1 and owners[0].inode == inode:
                yield former, owners[0]


def _has_same_notes(scope: Scope, tips: Mapping[str, str]) -> bool:
    """True if more than half of those that are compared say the same; an empty one proves nothing."""
    known = sorted((path, digest) for path, digest in tips.items() if digest != EMPTY)
    compared = known[:: max(1, len(known) // N_COMPARED)]
    n_same = sum(read_disk_digest(scope, path) == digest for path, digest in compared)
    return 2 * n_same > len(compared)
