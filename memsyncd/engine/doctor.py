"""How sound are a workspace's databases, as the disk has them now? To be asked away from the loop;
nothing is repaired here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from memsyncd.engine.findings import NOTICE_REMEDIES, Finding, render_count
from memsyncd.engine.opening import TEXTS_LOST
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import StoreCorrupt
from memsyncd.store.blobs import count_damaged_blobs
from memsyncd.store.integrity import find_damage, find_set_aside, read_generation

LEND_S = 5.0
REBUILT = (
    "it is built anew by itself; if that does not last, look at the disk, then: memsyncd reindex"
)
DAMAGED = "the database is damaged: "
"""What `store.connections.name_failure` begins with, and our own sentence, too."""


def examine_place(workspace: Workspace, _policy: SyncPolicy, _clock: Clock) -> Job[list[Finding]]:
    """Whether index.db is open, the file that stands on the disk, and of the generation that it
    should be. A job for the lane.

    There nothing takes its place meanwhile; and it is the writer who knows which file it has open.
    """
    yield
    index, path = workspace.index, str(workspace.index_path)
    if index is None:
        return [say_unopened(workspace)]
    if (harm := index.find_tampering()) is not None:
        what = (
            f"index.db {harm.value}"
            if workspace.index_path.exists()
            else "index.db is gone from the disk"
        )
        return [Finding(level="error", check="index", what=what, where=path, remedy=REBUILT)]
    with workspace.acquire(LEND_S) as reader:
        generation = read_generation(reader)
    if generation != index.generation:
        what = f"index.db says generation {generation}, the daemon {index.generation}: somebody else wrote it"
        return [
            Finding(
                level="error",
                check="generation",
                what=what,
                where=path,
                remedy="build it anew: memsyncd reindex",
            )
        ]
    return [
        Finding(level="ok", check="generation", what=f"generation {generation}, as it should be")
    ]


def examine_index(workspace: Workspace, *, is_thorough: bool) -> list[Finding]:
    """Whether index.db is whole. If another takes its place at this moment, what is found may be
    neither's.
    """
    path = str(workspace.index_path)
    damage = _find_damage(workspace.index_path, is_thorough=is_thorough)
    if damage:
        return [
            Finding(
                level="error",
                check="index",
                what=f"index.db is damaged: {damage}",
                where=path,
                remedy=REBUILT,
            )
        ]
    return [Finding(level="ok", check="index", what="index.db is sound", where=path)]


def examine_index_alone(
    workspace: Workspace, _policy: SyncPolicy, _clock: Clock, *, is_thorough: bool
) -> Job[list[Finding]]:
    """The same as a job for the lane, where nothing else is done to the index meanwhile."""
    yield
    return examine_index(workspace, is_thorough=is_thorough)


def asks_for_rebuild(findings: Iterable[Finding]) -> bool:
    """True if one of them says of index.db what only a rebuild heals."""
    return any(finding.remedy == REBUILT for finding in findings)


def say_mended(found: Iterable[Finding]) -> Finding:
    """What was wrong at the first look and is not at the second: it was healed meanwhile, or
    another took its place.
    """
    was = "; ".join(finding.what for finding in found if finding.level == "error")
    return Finding(
        level="info", check="index", what=f"this was so a moment ago and is mended: {was}"
    )


def say_unopened(workspace: Workspace) -> Finding:
    """What it means that there is no index to look at."""
    if workspace.condition.is_indexing:
        return Finding(
            level="info",
            check="index",
            what="the index is being built anew; what can be found meanwhile is old or little",
        )
    where, failure = str(workspace.index_path), workspace.open_failure
    if failure is not None:
        return Finding(
            level="error",
            check="index",
            what=f"index.db cannot be opened: {failure.message}",
            where=where,
            remedy=failure.hint,
        )
    what = "there is no index that can be written, and what is found is old if anything is"
    return Finding(
        level="error",
        check="index",
        what=what,
        remedy="see what else is said here and in the log; then: memsyncd reindex",
    )


def say_unexamined(workspace: Workspace) -> Finding:
    """What it means that the lane had no time for an examination, though it gets on with its
    work.
    """
    what = f"generation not compared: the index is still being brought up to date ({workspace.condition.pending:,} notes to be read)"
    return Finding(
        level="info", check="generation", what=what, remedy="ask again when that is done"
    )


def examine_records(workspace: Workspace, *, is_thorough: bool) -> list[Finding]:
    """Whether records.db is there and whole, and whether a damaged one was set aside."""
    found = []
    path = workspace.records_path
    for aside in find_set_aside(path):
        remedy = "history from before lies there; keep the file elsewhere, or delete it when nobody needs it"
        what = "records.db was damaged once; the damaged file was set aside"
        found.append(
            Finding(level="warning", check="records", what=what, where=str(aside), remedy=remedy)
        )
    if "records" in workspace.condition.faults:
        return found
    if not path.exists():
        remedy = "the next look at the folder begins an empty one; if a backup has the history from before, put it in its place"
        what = "records.db is gone from the disk, and with it what notes said before"
        return [
            *found,
            Finding(level="error", check="records", what=what, where=str(path), remedy=remedy),
        ]
    damage = _find_damage(path, is_thorough=is_thorough)
    if damage:
        remedy = "memsyncd restart sets it aside, never deletes it, and begins an empty one; bring back a backup if there is one"
        what = f"records.db is damaged: {damage}"
        return [
            *found,
            Finding(level="error", check="records", what=what, where=str(path), remedy=remedy),
        ]
    n_lost = count_damaged_blobs(path) if is_thorough else 0
    if n_lost and TEXTS_LOST not in workspace.condition.notices:
        what = f"{render_count(n_lost, 'earlier text')} of notes cannot be read any more"
        return [
            *found,
            Finding(
                level="warning",
                check="records",
                what=what,
                where=str(path),
                remedy=NOTICE_REMEDIES[TEXTS_LOST],
            ),
        ]
    return [
        *found,
        Finding(level="ok", check="records", what="records.db is sound", where=str(path)),
    ]


def _find_damage(path: Path, *, is_thorough: bool) -> str:
    try:
        return "; ".join(find_damage(path, is_thorough=is_thorough))
    except StoreCorrupt as failure:
        return failure.message.removeprefix(DAMAGED)
