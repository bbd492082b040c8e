"""What did one scan see? Values only: each note's stat, what could not be looked at, and what was odd.

What a scan could not look at is named (`failed_folders`, `unreadable_files`), so that nobody takes it for deleted.
Making a snapshot is left to `workspace.scan`, comparing one with what was recorded to `core.changes.diff`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from memsyncd.core.note import Problem

RootState = Literal["present", "missing", "unreadable"]


class FileStat(NamedTuple):
    """What lstat says of a note (of the target, for a followed link). A tuple, since a scan makes one for every file."""

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    def is_same_as(self, other: FileStat) -> bool:
        """True if no field that tells of a change differs. Device numbers are left out: they may differ after a reboot."""
        return self[:4] == other[:4]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one scan saw. Paths are relative to the root unless said otherwise.

    `files` holds every note seen. `failed_folders` could not be listed, `unreadable_files` stand there but cannot be looked at now
    (evicted to a cloud): what is recorded beneath or of them stays. `link_folders`, absolute, are where targets of links lie,
    or would if they were there. `only` names the paths that the scan was restricted to (each with what lies beneath it); None
    means everything.
    """

    root_state: RootState
    root_identity: tuple[int, int] | None = None
    files: Mapping[str, FileStat]
    failed_folders: frozenset[str] = frozenset()
    unreadable_files: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    link_folders: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    def is_in_scope(self, path: str) -> bool:
        """True if this scan was asked about `path`."""
        return self.only is None or is_within(path, self.only)

    def is_observed(self, path: str) -> bool:
        """True if this scan can tell whether a note stands at `path`: it was asked for, and nothing on the way to it failed."""
        if self.root_state != "present" or path in self.unreadable_files or not self.is_in_scope(path):
            return False
        return not (self.failed_folders and is_within(path, self.failed_folders))


def is_within(path: str, places: frozenset[str]) -> bool:
    """True if `path` is one of `places` or lies beneath one; an empty place is the root."""
    if path in places or "" in places:
        return True
    end = path.rfind("/")
    while end > 0:
        if path[:end] in places:
            return True
        end = path.rfind("/", 0, end)
    return False
