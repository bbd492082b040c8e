"""Find the disks that are mounted where a workspace has notes, and those that are away.

A mount point is known by its path alone: device numbers may differ after a reboot, and a bind mount
has that of its source. Without `/proc/self/mountinfo` no mount is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from memsyncd.core.changes.diff import Snapshot

_MOUNTS = "/proc/self/mountinfo"
_ESCAPE = re.compile(rb"\\([0-7]{3})")


def find_mounts(
    root: str, notes: Collection[str], snapshot: Snapshot, before: Collection[str]
) -> frozenset[str]:
    """Return the mount points, beneath the root or where links lead, that hold `notes`, which a
    full scan has seen, and those of `before` that were away during it or are now.
    """
    # Listed first: what is unmounted later was mounted, or is away.
    mounts = {mount for mount in _list_mounts() if not _is_in(root, mount)}
    inside = {mount: f"{mount[len(root) + 1 :]}/" for mount in mounts if _is_in(mount, root)}
    used = {mount for mount, start in inside.items() if any(one.startswith(start) for one in notes)}
    links = snapshot.link_folders
    linked = {mount for mount in mounts if any(_is_in(folder, mount) for folder in links)}
    return frozenset(used.union(linked, snapshot.away, find_away(root, before)))


def find_away(root: str, mounts: Collection[str]) -> frozenset[str]:
    """Return those of these mount points where nothing is mounted and no file is."""
    if not mounts:
        return frozenset()
    return frozenset(mount for mount in set(mounts) - _list_mounts() if _is_vacant(root, mount))


def _is_vacant(root: str, mount: str) -> bool:
    """True if nothing is in the folder of a mount point.

    Some programs remove it with the mount. Beneath the root a missing one counts as deleted, as
    nothing tells that it was not; elsewhere the link to it tells.
    """
    try:
        with os.scandir(mount) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return not _is_in(mount, root)
    except OSError:
        return False


def _is_in(path: str, folder: str) -> bool:
    """True if a real path is this folder or is in it."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _list_mounts() -> frozenset[str]:
    try:
        with open(_MOUNTS, "rb") as file:
            points = [line.split(b" ", 5)[4] for line in file]
    except OSError:
        return frozenset()
    # Names that are not UTF-8 are none of notes.
    return frozenset(_ESCAPE.sub(_unescape, point).decode(errors="replace") for point in points)


def _unescape(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 8),))
