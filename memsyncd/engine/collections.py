"""Define a collection while the daemon runs: a folder of an agent in which each project has memory.

Each memory folder with notes is a workspace of its own. The collection is watched, without what
lies in those folders, so that a project is found once it has its first note; a project that
disappears is a workspace whose folder is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from fnmatch import fnmatchcase

from memsyncd.core.changes.watchplan import NO_INCLUDES, Watch, plan_watches
from memsyncd.engine.workspace import Entry
from memsyncd.files.places import PROJECT_MEMORY


class ProjectCollection:
    """One collection. `on_changed` is called on the loop after events in it."""

    link_folders = pruned = frozenset[str]()

    def __init__(self, entry: Entry, on_changed: Callable[[], None]) -> None:
        self.entry = entry
        self.on_changed = on_changed
        self.awaited: frozenset[str] = frozenset()
        """The folders, from the root on, in which a first note would make a new workspace."""
        self.is_missing = False
        self.waiters: list[asyncio.Future[None]] = []
        """Requests to list the projects: those of the listing that runs, and of the next one."""
        self.timer: asyncio.TimerHandle | None = None

    @property
    def id(self) -> str:
        return self.entry.id

    def plan_watches(self, is_folder: Callable[[str], bool]) -> frozenset[Watch]:
        """The folders to watch now, each without what lies in the folders beneath it."""
        root = self.entry.root
        planned = plan_watches(root, NO_INCLUDES, is_folder=is_folder)
        if not is_folder(root):
            return planned
        awaited = (f"{root}/{path}" for path in self.awaited)
        return planned | {Watch(path, is_recursive=False) for path in awaited if is_folder(path)}

    def is_pruned(self, _path: str) -> bool:
        return False


def is_project_event(path: str) -> bool:
    """True if an event at this path from the root may concern a project with memory."""
    # Not the transcripts beside the memory folder, to which an agent appends all the time.
    parts = path.split("/")
    return len(parts) < 2 or parts[1] == PROJECT_MEMORY


def is_left_out(collection: Entry, slug: str) -> bool:
    """True if a glob of the collection excludes this project."""
    return any(fnmatchcase(slug, glob) for glob in collection.exclude)
