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
from memsyncd.core.paths import NotePath
from memsyncd.engine.checks import TABLE, make_finding, name_places, render_count
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
    CheckState,
    Difference,
    compare_note,
    find_damage,
    find_set_aside,
    read_first_rows,
    read_recorded,
)
from memsyncd.store.integrity import find_orphans as find_orphan_rows
from memsyncd.store.lookup import read_note_paths
from memsyncd.store.pool import Reader

BATCH_NOTES = 32
READ_S = 60.0
# The beginning of the message of StoreCorrupt, which the findings say in their own words.
DAMAGED = "the database is damaged: "

# --- the databases ------------------------------------------------------------------------------


def examine_index(workspace: Workspace, *, is_thorough: bool) -> list[FindingInfo]:
    """Check that index.db is open, that it is the file on the disk, and that it is not damaged. If
    it is replaced meanwhile, the result may belong to neither file. All pages are read only if
    `is_thorough`, or if nobody has read them for a day.
    """
    index, path = workspace.index, workspace.index_path
    if index is None:
        return [describe_unopened(workspace)]
    if index.file_guard.is_in_place():
        damage = _find_damage(path, index.checks, is_thorough=is_thorough)
        what = f"is damaged: {damage}" if damage else ""
    else:
        what = "was replaced" if path.exists() else "was deleted"
    return [make_finding("index_damaged" if what else "index_sound", where=str(path), how=what)]


def examine_index_on_worker(
    workspace: Workspace, _config: Config, _clock: Clock, *, is_thorough: bool
) -> Job[list[FindingInfo]]:
    """The same as a job of the worker, where nothing else changes the index meanwhile."""
    yield
    return examine_index(workspace, is_thorough=is_thorough)


def needs_rebuild(findings: Iterable[FindingInfo]) -> bool:
    """True if one of the findings is damage of index.db that only a rebuild repairs."""
    return any(finding.remedy == TABLE["index_damaged"].remedy for finding in findings)


def describe_unopened(workspace: Workspace) -> FindingInfo:
    """The finding for a workspace without an open index."""
    if workspace.condition.is_indexing:
        return make_finding("index_building")
    failure = workspace.open_failure
    if failure is None:
        return make_finding("index_unwritten")
    where = str(workspace.index_path)
    return make_finding("index_unopened", where=where, text=failure.message, hint=failure.hint)


def examine_records(workspace: Workspace, *, is_thorough: bool) -> list[FindingInfo]:
    """Check that records.db exists and is not damaged, and report damaged ones that were set
    aside.
    """
    asides = find_set_aside(workspace.records_path)
    findings = [make_finding("records_aside", where=str(aside)) for aside in asides]
    # Without open files it has not been looked for yet.
    if "records" not in workspace.condition.faults and not workspace.is_refused:
        findings.append(_check_records(workspace, is_thorough=is_thorough))
    return findings


def _check_records(workspace: Workspace, *, is_thorough: bool) -> FindingInfo:
    path, condition = workspace.records_path, workspace.condition
    where = str(path)
    if not path.exists():
        row = "records_away" if "root" in condition.faults else "records_deleted"
        return make_finding(row, where=where, name=shlex.quote(workspace.entry.name))
    checks = workspace.records.checks if workspace.records is not None else None
    if damage := _find_damage(path, checks, is_thorough=is_thorough):
        return make_finding("records_damaged", where=where, text=damage)
    n_lost = count_damaged_blobs(path) if is_thorough else 0
    if n_lost and TEXTS_LOST not in condition.notices:
        text = f"{render_count(n_lost, 'earlier text')} of notes cannot be read any more"
        return make_finding(TEXTS_LOST, where=where, text=text)
    return make_finding("records_sound", where=where)


def _find_damage(path: Path, checks: CheckState | None, *, is_thorough: bool) -> str:
    try:
        if checks is not None and not is_thorough and not checks.due():
            read_first_rows(path)
            return ""
        damage = "; ".join(find_damage(path, is_thorough=is_thorough))
    except StoreCorrupt as failure:
        return failure.message.removeprefix(DAMAGED)
    if checks is not None and not damage:
        checks.note_checked()
    return damage


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
    findings = [*_describe_differences(comparison)]
    is_equal = not findings
    if comparison.unreadable:
        findings.append(_describe_notes("uncompared", comparison.unreadable))
    if n_synced:
        findings.append(make_finding("compared_late", notes=render_count(n_synced, "note")))
    if is_equal:
        notes = render_count(comparison.n_notes, "note")
        findings.append(make_finding("equal", notes=notes, n=comparison.n_bytes))
    return findings


def _describe_differences(comparison: Comparison) -> Iterator[FindingInfo]:
    if comparison.wrong:
        path, how = next(iter(sorted(comparison.wrong.items())))
        yield make_finding(
            "different",
            where=name_places(sorted(comparison.wrong)),
            n=len(comparison.wrong),
            notes=render_count(comparison.n_notes, "note"),
            path=path,
            how=how,
        )
    for orphan in comparison.orphans:
        yield make_finding("orphan", text=orphan)
    if comparison.unseen:
        yield _describe_notes("unseen", comparison.unseen)
    if comparison.changed:
        yield _describe_notes("changing", comparison.changed)


def _describe_notes(row: str, paths: set[str]) -> FindingInfo:
    notes, where = render_count(len(paths), "note"), name_places(sorted(paths))
    return make_finding(row, where=where, notes=notes)
