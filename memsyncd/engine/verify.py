"""Verify a workspace: examine its databases, and compare the index with the notes on the disk.

The databases are read as they are on the disk, off the event loop; nothing is repaired here.

For the comparison every note is parsed again and compared with its rows, in batches, so that
searches run in between. A note that was saved meanwhile has another file than the recorded one; it
is `changed`, and compared again after a sync. Every other difference is an error: `wrong`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from memsyncd.config import Config
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.notepath import NotePath
from memsyncd.engine.checks import (
    TABLE,
    Level,
    make_finding,
    name_places,
    render_count,
)
from memsyncd.engine.clock import Clock
from memsyncd.engine.records import TEXTS_LOST
from memsyncd.engine.sync import find_away_mounts
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NotFresh, StoreCorrupt
from memsyncd.files.read import Unread, read_note_file
from memsyncd.files.scan import scan
from memsyncd.operations.status.declare import FindingInfo
from memsyncd.store.blobs import count_damaged_blobs
from memsyncd.store.integrity import (
    Difference,
    compare_note,
    find_damage,
    find_set_aside,
    read_note_paths,
    read_recorded,
)
from memsyncd.store.integrity import find_orphans as find_orphan_rows
from memsyncd.store.pool import Reader

BATCH_NOTES = 32
READ_S = 60.0
REINDEX = "rebuild the index: memsyncd reindex"
# The remedy of every finding that only a rebuild repairs.
REBUILT = "memsyncd rebuilds it; if the damage returns, check the disk, then: memsyncd reindex"
# The beginning of the message of StoreCorrupt, which the findings say in their own words.
DAMAGED = "the database is damaged: "

# --- the databases ------------------------------------------------------------------------------


def examine_index(workspace: Workspace, *, is_thorough: bool) -> list[FindingInfo]:
    """Check that index.db is open, that it is the file on the disk, and that it is not damaged. If
    it is replaced meanwhile, the result may belong to neither file.
    """
    index, path = workspace.index, workspace.index_path
    if index is None:
        return [describe_unopened(workspace)]
    if index.file_guard.is_in_place():
        damage = _find_damage(path, is_thorough=is_thorough)
        what = f"is damaged: {damage}" if damage else ""
    else:
        what = "was replaced" if path.exists() else "was deleted"
    if what:
        return [make_finding("error", "index", f"index.db {what}", REBUILT, where=str(path))]
    return [make_finding("ok", "index", "index.db is sound", where=str(path))]


def examine_index_on_worker(
    workspace: Workspace, _config: Config, _clock: Clock, *, is_thorough: bool
) -> Job[list[FindingInfo]]:
    """The same as a job of the worker, where nothing else changes the index meanwhile."""
    yield
    return examine_index(workspace, is_thorough=is_thorough)


def needs_rebuild(findings: Iterable[FindingInfo]) -> bool:
    """True if one of the findings is damage of index.db that only a rebuild repairs."""
    return any(finding.remedy == REBUILT for finding in findings)


def describe_unopened(workspace: Workspace) -> FindingInfo:
    """The finding for a workspace without an open index."""
    if workspace.condition.is_indexing:
        return make_finding(
            "info", "index", "the index is being rebuilt; searches find old or few notes meanwhile"
        )
    where, failure = str(workspace.index_path), workspace.open_failure
    if failure is not None:
        return make_finding(
            "error",
            "index",
            f"index.db cannot be opened: {failure.message}",
            failure.hint,
            where=where,
        )
    what = "no index can be written; searches find old notes or none"
    return make_finding(
        "error", "index", what, "see the other findings and the log; then: memsyncd reindex"
    )


def describe_unexamined(workspace: Workspace) -> FindingInfo:
    """The finding for an examination that the busy worker did not start in time."""
    pending = workspace.condition.n_pending
    what = f"not checked: the index is being brought up to date ({pending:,} notes to be read)"
    return make_finding("info", "index", what, "run this again when that is done")


def examine_records(workspace: Workspace, *, is_thorough: bool) -> list[FindingInfo]:
    """Check that records.db exists and is not damaged, and report damaged ones that were set
    aside.
    """
    found = []
    path = workspace.records_path
    for aside in find_set_aside(path):
        remedy = (
            "the file contains the former history; keep it elsewhere, or delete it when it is "
            "not needed"
        )
        what = "records.db was damaged; the damaged file was set aside"
        found.append(make_finding("warning", "records", what, remedy, where=str(aside)))
    # Without open files it has not been looked for yet.
    if "records" not in workspace.condition.faults and not workspace.is_refused:
        found.append(_check_records(workspace, is_thorough=is_thorough))
    return found


def _check_records(workspace: Workspace, *, is_thorough: bool) -> FindingInfo:
    path = workspace.records_path
    is_there = path.exists()
    damage = _find_damage(path, is_thorough=is_thorough) if is_there else ""
    n_lost = count_damaged_blobs(path) if is_there and is_thorough and not damage else 0
    level: Level = "error"
    if not is_there and "root" in workspace.condition.faults:
        name = shlex.quote(workspace.entry.name)
        level, remedy = "info", f"if the folder was moved: memsyncd remove {name}"
        what = (
            "records.db is missing, as the folder is: a folder that is moved and added again takes "
            "its history along"
        )
    elif not is_there:
        what = "records.db was deleted, and with it the earlier texts of notes"
        remedy = (
            "the next scan creates an empty one; if there is a backup of the history: "
            "memsyncd restore FILE"
        )
    elif damage:
        what = f"records.db is damaged: {damage}"
        remedy = (
            "memsyncd restart sets it aside, without deleting it, and creates an empty one; "
            "if there is a backup: memsyncd restore FILE"
        )
    elif n_lost and TEXTS_LOST not in workspace.condition.notices:
        level, remedy = "warning", TABLE[TEXTS_LOST][2]
        what = f"{render_count(n_lost, 'earlier text')} of notes cannot be read any more"
    else:
        level, what, remedy = "ok", "records.db is sound", ""
    return make_finding(level, "records", what, remedy, where=str(path))


def _find_damage(path: Path, *, is_thorough: bool) -> str:
    try:
        return "; ".join(find_damage(path, is_thorough=is_thorough))
    except StoreCorrupt as failure:
        return failure.message.removeprefix(DAMAGED)


# --- index and notes ----------------------------------------------------------------------------


class Comparison(msgspec.Struct, kw_only=True):
    """The notes compared so far, by outcome: sets of paths; `wrong` has the differences, too."""

    n_notes: int = 0
    n_bytes: int = 0
    wrong: dict[str, str] = msgspec.field(default_factory=dict)
    unseen: set[str] = msgspec.field(default_factory=set)
    """Other bytes in files that have the recorded size, times and inode."""
    changed: set[str] = msgspec.field(default_factory=set)
    unreadable: set[str] = msgspec.field(default_factory=set)
    """Files that cannot be read now; the index keeps their rows."""
    orphans: list[str] = msgspec.field(default_factory=list)


def list_batches(workspace: Workspace) -> list[tuple[str, ...]]:
    """List all notes on the disk or in the index, in batches, without those that are only in the
    index as their disk is not mounted. Raises NotFresh if the folder cannot be listed.
    """
    snapshot = scan(workspace.scope, away=find_away_mounts(workspace))
    if snapshot.root_state != "present":
        raise NotFresh(
            "the folder cannot be listed, so nothing can be compared",
            hint="bring it back or make it readable",
        )
    with workspace.acquire(READ_S) as reader:
        indexed = read_note_paths(reader)
    return split_batches(sorted({*snapshot.files, *filter(snapshot.is_observed, indexed)}))


def split_batches(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """Split paths into batches."""
    return [tuple(paths[at : at + BATCH_NOTES]) for at in range(0, len(paths), BATCH_NOTES)]


def compare_batch(
    workspace: Workspace,
    config: Config,
    paths: Sequence[str],
    comparison: Comparison,
    *,
    now_ns: int,
) -> None:
    """Compare these notes, and add the outcome to `comparison`."""
    comparison.changed.difference_update(paths)
    with workspace.acquire(READ_S) as reader:
        for path in paths:
            _compare_one(workspace, config, reader, path, comparison, now_ns)


def find_orphans(workspace: Workspace, comparison: Comparison) -> None:
    """Find rows that belong to no note, and add them to `comparison`."""
    with workspace.acquire(READ_S) as reader:
        comparison.orphans = find_orphan_rows(reader)


def _compare_one(
    workspace: Workspace,
    config: Config,
    reader: Reader,
    path: str,
    comparison: Comparison,
    now_ns: int,
) -> None:
    comparison.n_notes += 1
    recorded = read_recorded(reader, path)
    read = read_note_file(workspace.scope, NotePath(path), now_ns=now_ns)
    if isinstance(read, Unread):
        if read.problem is not None:
            comparison.unreadable.add(path)
        elif recorded is not None:
            comparison.changed.add(path)
        return
    comparison.n_bytes += len(read.data)
    if recorded is None:
        comparison.changed.add(path)
    elif recorded.digest != read.record.digest:
        is_same_file = recorded.stat.is_same_as(read.record.stat) and not read.is_unstable
        (comparison.unseen if is_same_file else comparison.changed).add(path)
    else:
        note = parse_note(read.path, read.data, config.chunking, config.guard)
        differences = compare_note(reader, note, read.record)
        if differences:
            comparison.wrong[path] = describe(differences)


def describe(differences: Sequence[Difference]) -> str:
    """`chunks: 2 missing, 1 too many; tags: 1 too many`."""
    return "; ".join(f"{each.part}: {_describe_counts(each)}" for each in differences)


def _describe_counts(difference: Difference) -> str:
    counts = ((difference.n_missing, "missing"), (difference.n_surplus, "too many"))
    return ", ".join(f"{n:,} {word}" for n, word in counts if n)


def describe_comparison(comparison: Comparison, *, n_synced: int) -> list[FindingInfo]:
    """Describe the outcome. `n_synced` notes had changed and were indexed on the way."""
    found = [*_describe_differences(comparison)]
    is_equal = not found
    if comparison.unreadable:
        what = (
            f"not compared, for they cannot be read: "
            f"{render_count(len(comparison.unreadable), 'note')}"
        )
        found.append(
            make_finding("info", "verify", what, where=name_places(sorted(comparison.unreadable)))
        )
    if n_synced:
        found.append(
            make_finding(
                "info",
                "verify",
                f"changed a moment ago and indexed now: {render_count(n_synced, 'note')}",
            )
        )
    if is_equal:
        what = (
            f"index equals disk: {render_count(comparison.n_notes, 'note')} with "
            f"{comparison.n_bytes:,} bytes compared"
        )
        found.append(make_finding("ok", "verify", what))
    return found


def _describe_differences(comparison: Comparison) -> Iterator[FindingInfo]:
    if comparison.wrong:
        path, how = next(iter(sorted(comparison.wrong.items())))
        what = (
            f"index and disk differ in {len(comparison.wrong):,} of "
            f"{render_count(comparison.n_notes, 'note')}: {path}: {how}"
        )
        yield make_finding(
            "error", "verify", what, REINDEX, where=name_places(sorted(comparison.wrong))
        )
    for orphan in comparison.orphans:
        yield make_finding("error", "verify", orphan, REINDEX)
    if comparison.unseen:
        what = (
            f"other bytes in {render_count(len(comparison.unseen), 'note')} though size, "
            f"times and inode are those recorded"
        )
        remedy = (
            "read every note again: memsyncd sync --full; then see what changes files "
            "without a trace, or the disk"
        )
        yield make_finding(
            "error", "verify", what, remedy, where=name_places(sorted(comparison.unseen))
        )
    if comparison.changed:
        what = (
            f"changing faster than they can be compared: "
            f"{render_count(len(comparison.changed), 'note')}"
        )
        remedy = "run this again when no program writes notes"
        yield make_finding(
            "warning", "verify", what, remedy, where=name_places(sorted(comparison.changed))
        )
