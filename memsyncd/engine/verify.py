"""Verifies that the index equals the disk: parses every note again and compares it with its rows.

The notes are compared in batches, so that searches run in between. A note that was saved meanwhile
has another file than the one recorded; it is `changed`, and compared once more after a sync. Every
other difference is an error: `wrong`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.notepath import NotePath
from memsyncd.engine.checks import make_finding, name_places, render_count
from memsyncd.engine.policies import SyncPolicy
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import NotFresh
from memsyncd.files.read import Unread, read_note_file
from memsyncd.files.scan import scan
from memsyncd.protocol.operations import FindingInfo
from memsyncd.store.comparison import (
    Difference,
    compare_note,
    find_strays,
    read_paths,
    read_recorded,
)
from memsyncd.store.readers import Reader

BATCH_NOTES = 32
READ_S = 60.0
REINDEX = "build the index anew: memsyncd reindex"


@dataclass(slots=True, kw_only=True)
class Comparison:
    """The notes compared so far, by outcome: sets of paths; `wrong` has the differences, too."""

    n_notes: int = 0
    n_bytes: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    """Other bytes in files that have the recorded size, times and inode."""
    changed: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    """Files that cannot be read now; the index keeps their rows."""
    orphans: list[str] = field(default_factory=list)


def list_batches(workspace: Workspace) -> list[tuple[str, ...]]:
    """List all notes on the disk or in the index, in batches. Raises NotFresh if the folder cannot
    be listed.
    """
    snapshot = scan(workspace.scope)
    if snapshot.root_state != "present":
        raise NotFresh(
            "the folder cannot be listed, so nothing can be compared",
            hint="bring it back or make it readable",
        )
    with workspace.lend(READ_S) as reader:
        paths = sorted({*snapshot.files, *read_paths(reader)})
    return split_batches(paths)


def split_batches(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """Split paths into batches."""
    return [tuple(paths[at : at + BATCH_NOTES]) for at in range(0, len(paths), BATCH_NOTES)]


def compare_batch(
    workspace: Workspace,
    policy: SyncPolicy,
    paths: Sequence[str],
    comparison: Comparison,
    *,
    now_ns: int,
) -> None:
    """Compare these notes, and add the outcome to `comparison`."""
    comparison.changed.difference_update(paths)
    with workspace.lend(READ_S) as reader:
        for path in paths:
            _compare_one(workspace, policy, reader, path, comparison, now_ns)


def find_orphans(workspace: Workspace, comparison: Comparison) -> None:
    """Find rows that belong to no note, and add them to `comparison`."""
    with workspace.lend(READ_S) as reader:
        comparison.orphans = find_strays(reader)


def _compare_one(
    workspace: Workspace,
    policy: SyncPolicy,
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
        note = parse_note(read.path, read.data, policy.chunking, policy.guard)
        differences = compare_note(reader, note, read.record)
        if differences:
            comparison.wrong[path] = describe(differences)


def describe(differences: Sequence[Difference]) -> str:
    """`chunks: 2 lacking, 1 too many; tags: 1 too many`."""
    return "; ".join(f"{each.part}: {_describe_counts(each)}" for each in differences)


def _describe_counts(difference: Difference) -> str:
    counts = ((difference.n_lacking, "lacking"), (difference.n_surplus, "too many"))
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
            make_finding(
                level="info",
                check="verify",
                what=what,
                where=name_places(sorted(comparison.unreadable)),
            )
        )
    if n_synced:
        found.append(
            make_finding(
                level="info",
                check="verify",
                what=f"changed a moment ago and indexed now: {render_count(n_synced, 'note')}",
            )
        )
    if is_equal:
        what = (
            f"index equals disk: {render_count(comparison.n_notes, 'note')} with "
            f"{comparison.n_bytes:,} bytes compared"
        )
        found.append(make_finding(level="ok", check="verify", what=what))
    return found


def _describe_differences(comparison: Comparison) -> Iterator[FindingInfo]:
    if comparison.wrong:
        path, how = next(iter(sorted(comparison.wrong.items())))
        what = (
            f"index and disk differ in {len(comparison.wrong):,} of "
            f"{render_count(comparison.n_notes, 'note')}: {path}: {how}"
        )
        yield make_finding(
            level="error",
            check="verify",
            what=what,
            where=name_places(sorted(comparison.wrong)),
            remedy=REINDEX,
        )
    for orphan in comparison.orphans:
        yield make_finding(level="error", check="verify", what=orphan, remedy=REINDEX)
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
            level="error",
            check="verify",
            what=what,
            where=name_places(sorted(comparison.unseen)),
            remedy=remedy,
        )
    if comparison.changed:
        what = (
            f"changing faster than they can be compared: "
            f"{render_count(len(comparison.changed), 'note')}"
        )
        remedy = "ask again once nobody writes"
        yield make_finding(
            level="warning",
            check="verify",
            what=what,
            where=name_places(sorted(comparison.changed)),
            remedy=remedy,
        )
