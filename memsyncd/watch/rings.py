"""Which paths does one of watchdog's events make dirty, and is what stands there finished?

A file closed after writing or moved into place is finished. One created, modified, deleted or moved away is not: more is likely
to follow, since editors, git and sync tools take a file away before they put its next version there. Only a note that became
another note is finished at both its places, or they would be looked at apart and the move not be seen. Types say no more than
that. Whether the path matters is `core.changes.watchplan`'s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from watchdog.events import (
    EVENT_TYPE_ATTRIB,
    EVENT_TYPE_CLOSED,
    EVENT_TYPE_MOVED,
    FileSystemEvent,
)

from memsyncd.core.notepath import is_note_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """An absolute path that is dirty. `is_folder` also for a link, behind which there may be one."""

    path: str
    is_finished: bool
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """To whom a watch's events go: a workspace, and whether the watch is there for a link's target only."""

    workspace_id: str
    root: str
    is_link_target: bool


def find_rings(event: FileSystemEvent) -> Iterator[Ring]:
    """One ring for each path that the event names."""
    old, new = os.fsdecode(event.src_path), os.fsdecode(event.dest_path)
    is_move = event.event_type == EVENT_TYPE_MOVED
    is_renamed_note = is_move and all(is_note_name(os.path.basename(path)) for path in (old, new))
    for path, is_place in ((old, not is_move or is_renamed_note), (new, is_move)):
        if path:
            is_settled = is_place and event.event_type in (EVENT_TYPE_CLOSED, EVENT_TYPE_MOVED, EVENT_TYPE_ATTRIB)
            yield _ring(path, is_finished=is_settled, is_folder=event.is_directory)


def place_ring(ring: Ring, route: Route) -> Ring | None:
    """The same ring with its path written from the workspace's root, or None if it is not the workspace's.

    The root's own path is empty, and so is what stands for the workspace as a whole: folders above a root that is awaited,
    and the folders of link targets, which lie anywhere.
    """
    if route.is_link_target:
        is_heard = ring.is_folder or is_note_name(os.path.basename(ring.path))
        return Ring(path="", is_finished=False, is_folder=True) if is_heard else None
    if ring.path == route.root or route.root.startswith(f"{ring.path}/"):
        return Ring(path="", is_finished=False, is_folder=True)
    if ring.path.startswith(f"{route.root}/"):
        return Ring(path=ring.path[len(route.root) + 1 :], is_finished=ring.is_finished, is_folder=ring.is_folder)
    return None


def find_folder(path: str) -> str:
    """The folder of a path written from the root; the root's own is the root."""
    return path.rpartition("/")[0]


def _ring(path: str, *, is_finished: bool, is_folder: bool) -> Ring:
    is_folder = is_folder or (not is_note_name(os.path.basename(path)) and os.path.islink(path))
    return Ring(path=path, is_finished=is_finished and not is_folder, is_folder=is_folder)
