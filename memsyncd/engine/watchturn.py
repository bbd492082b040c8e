"""One call of the watcher on its own thread: plan folders, watch them, check or rebuild the watcher.

A turn knows which workspace it looks at just now, so that a disk that blocks it can be named. Once it is abandoned it begins
nothing more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from memsyncd.core.changes.watchplan import plan_watches
from memsyncd.engine.workspace import Workspace
from memsyncd.watch.supervisor import Plan, Watcher

PLAN_ATTEMPTS = 4
"""Folders that come while a plan is carried out are found by planning again; those that come for ever, by the next doubt."""


class Checked(NamedTuple):
    """Why the watcher should be rebuilt, and the ids of workspaces of which more is watched now than before."""

    reasons: tuple[str, ...]
    grown: frozenset[str]


@dataclass(slots=True, eq=False)
class WatchTurn:
    """What runs on the watcher's thread. `key` is its worker pool's, `links` is where each workspace's links led before."""

    key: str
    watcher: Watcher
    links: dict[str, frozenset[str]]
    is_first: bool
    """True for the first turn of a watcher."""
    workspace_id: str | None = None
    """Whose folders it looks at just now, if they are one workspace's alone."""
    is_watching: bool = False
    """True while the watcher itself works, and cannot be called by anybody else."""
    is_abandoned: bool = False

    def drop(self, workspace_id: str) -> None:
        self.is_watching = True
        self.links.pop(workspace_id, None)
        self.watcher.drop(workspace_id)

    def follow(self, workspaces: Iterable[Workspace]) -> frozenset[str]:
        """Returns the ids of workspaces, these or others, of which more is watched now, or may be."""
        planned = {workspace.id: workspace for workspace in workspaces}
        # Where links newly lead, something may have come or gone before anybody listened.
        links = {one: workspace.link_folders for one, workspace in planned.items()}
        grown = frozenset(one for one in planned if links[one] != self.links.get(one, frozenset()))
        self.links |= links
        again = set(planned)
        for _ in range(PLAN_ATTEMPTS):
            more = self._set_plans({one: self._plan(planned[one]) for one in again if not self.is_abandoned})
            grown |= more
            again = planned.keys() & more
            if not again:
                break
        return grown

    def check(self, workspaces: Iterable[Workspace], now_s: float) -> Checked:
        grown = self.follow(workspaces)
        if self.is_abandoned:
            return Checked((), grown)
        self.workspace_id, self.is_watching = None, True
        grown |= self.watcher.walk()
        return Checked(self.watcher.check(now_s), grown)

    def rebuild(self, now_s: float) -> float | None:
        self.is_watching = True
        return self.watcher.rebuild(now_s)

    def _plan(self, workspace: Workspace) -> Plan:
        self.workspace_id = workspace.id
        root = workspace.entry.root
        watches = plan_watches(root, workspace.includes, is_folder=_is_folder, link_folders=workspace.link_folders)
        return Plan(root, watches)

    def _set_plans(self, plans: dict[str, Plan]) -> frozenset[str]:
        # A new watcher takes them one by one: if a disk blocks it, the workspace is known. Else all at once, which costs less.
        parts = [{one: plan} for one, plan in plans.items()] if self.is_first else [plans]
        grown: frozenset[str] = frozenset()
        for part in parts:
            if self.is_abandoned:
                break
            self.workspace_id = next(iter(part)) if self.is_first else None
            self.is_watching = True
            grown |= self.watcher.set_plans(part)
            self.is_watching = False
        return grown


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
