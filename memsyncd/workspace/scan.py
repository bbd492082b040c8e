"""Which notes stand in a workspace now, and what could not be looked at? A stat-walk; no byte of a note is read.

The rule: a folder or file that cannot be looked at is named as failed or held, and a root that is missing, unreadable or changes
hands meanwhile is no empty root; so `core.changes.diff` deletes nothing for any of them. Which names are memory is left to
`scope`, entries and links to `walk`, reading to `files`.
"""

from __future__ import annotations

import heapq
import os
import stat as modes
from collections.abc import Collection

from memsyncd.core.changes.diff import RootState, Snapshot
from memsyncd.core.notepath import MEMORY_FILE, MEMORY_FOLDER, find_refusal
from memsyncd.workspace.oddities import odd
from memsyncd.workspace.scope import Scope
from memsyncd.workspace.walk import Walk

N_ATTEMPTS = 3
N_EXAMPLES = 3
SHADOWED = f"{MEMORY_FOLDER}/{MEMORY_FILE}"


def scan(scope: Scope, only: Collection[str] | None = None) -> Snapshot:
    """Look at the whole workspace, or at the paths in `only` (relative to the root) and what lies beneath them.

    Never raises for what stands on the disk. Where a link lies among `only` the whole workspace is scanned, since what one link
    brings in depends on the others: the snapshot's `only` says what was scanned. Paths that can name no note are left out of it.
    """
    wanted = None if only is None else frozenset(path for path in only if not path or not find_refusal(path))
    before = look_at_root(scope.root)
    for _ in range(N_ATTEMPTS):
        if before[0] != "present":
            break
        snapshot = _scan_once(scope, before[1], wanted)
        after = look_at_root(scope.root)
        if after == before:
            return snapshot
        before = after
    state: RootState = "unreadable" if before[0] == "present" else before[0]
    return Snapshot(root_state=state, files={}, only=wanted)


def look_at_root(root: str) -> tuple[RootState, tuple[int, int] | None]:
    """The root's state and, if it is present, its device and inode."""
    try:
        stat = os.lstat(root)
        if modes.S_ISDIR(stat.st_mode):
            os.stat(f"{root}/.")
    except (FileNotFoundError, NotADirectoryError):
        return "missing", None
    except OSError:
        return "unreadable", None
    return ("present", (stat.st_dev, stat.st_ino)) if modes.S_ISDIR(stat.st_mode) else ("missing", None)


def _scan_once(scope: Scope, identity: tuple[int, int] | None, only: frozenset[str] | None) -> Snapshot:
    walk = Walk(scope)
    for path in ("",) if only is None else only:
        walk.look_at(path)
    if walk.links and only is not None:
        return _scan_once(scope, identity, None)
    walk.follow_links()
    _name_what_is_missed(walk, only)
    return Snapshot(
        root_state="present",
        root_identity=identity,
        files=walk.files,
        failed_folders=frozenset(walk.failed),
        unreadable_files=frozenset(walk.held),
        problems=tuple(sorted(set(walk.problems), key=lambda problem: (problem.path, problem.code))),
        link_folders=frozenset(walk.link_folders),
        only=only,
    )


def _name_what_is_missed(walk: Walk, only: frozenset[str] | None) -> None:
    """Name the files that no search finds, all in one problem, so a scan of a part cannot; and the note that no tool can name."""
    if SHADOWED in walk.files:
        walk.problems.append(odd(SHADOWED, "shadowed"))
    if walk.unindexed and (only is None or not only.isdisjoint(("", MEMORY_FOLDER))):
        examples = [path.removeprefix(f"{MEMORY_FOLDER}/") for path in heapq.nsmallest(N_EXAMPLES, walk.unindexed)]
        more = ", ..." if len(walk.unindexed) > N_EXAMPLES else ""
        walk.problems.append(odd(MEMORY_FOLDER, "not_indexed", why=f"{len(walk.unindexed)}: {', '.join(examples)}{more}"))
