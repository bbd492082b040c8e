"""Does the index say what the disk says? Every note is read and parsed anew and compared with all
that is indexed of it.

In pieces, so that searches go between. A note that was saved meanwhile differs for a good reason,
for its file is another than the one recorded: it is `late`, and compared once more after a sync.
Any other difference is `wrong`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.notepath import NotePath
from memsyncd.engine.findings import Finding, name_places, render_count
from memsyncd.engine.policies import SyncPolicy
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NotFresh
from memsyncd.files.read import Unread, read_note_file
from memsyncd.files.scan import scan
from memsyncd.store.integrity import (
    Difference,
    compare_note,
    find_orphans,
    read_paths,
    read_recorded,
)
from memsyncd.store.pool import Reader

PIECE_NOTES = 32
READ_S = 60.0
REINDEX = "build the index anew: memsyncd reindex"


@dataclass(slots=True, kw_only=True)
class Compared:
    """What was compared so far, and with what outcome. Paths of notes; `wrong` says what is."""

    n_notes: int = 0
    n_bytes: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    """Other bytes in a file whose size, times and inode are those that were recorded."""
    late: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    """What stands there and cannot be read now: what was indexed of it stays."""
    strays: list[str] = field(default_factory=list)


def list_pieces(workspace: Workspace) -> list[tuple[str, ...]]:
    """All notes there are, on the disk or in the index, in pieces to compare. Raises NotFresh if
    the folder cannot be listed.
    """
    snapshot = scan(workspace.scope)
    if snapshot.root_state != "present":
        raise NotFresh(
            "the folder cannot be listed, so nothing can be compared",
            hint="bring it back or make it readable",
        )
    with workspace.acquire(READ_S) as reader:
        paths = sorted({*snapshot.files, *read_paths(reader)})
    return cut_pieces(paths)


def cut_pieces(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """The same paths, some at a time."""
    return [tuple(paths[at : at + PIECE_NOTES]) for at in range(0, len(paths), PIECE_NOTES)]


def compare_piece(
    workspace: Workspace,
    policy: SyncPolicy,
    paths: Sequence[str],
    compared: Compared,
    *,
    now_ns: int,
) -> None:
    """Compare these notes, and add what was found to `compared`."""
    compared.late.difference_update(paths)
    with workspace.acquire(READ_S) as reader:
        for path in paths:
            _compare_one(workspace, policy, reader, path, compared, now_ns)


def compare_rest(workspace: Workspace, compared: Compared) -> None:
    """Look for what belongs to no note, and add it to `compared`."""
    with workspace.acquire(READ_S) as reader:
        compared.strays = find_orphans(reader)


def _compare_one(
    workspace: Workspace,
    policy: SyncPolicy,
    reader: Reader,
    path: str,
    compared: Compared,
    now_ns: int,
) -> None:
    compared.n_notes += 1
    recorded = read_recorded(reader, path)
    read = read_note_file(workspace.scope, NotePath(path), now_ns=now_ns)
    if isinstance(read, Unread):
        if read.problem is not None:
            compared.held.add(path)
        elif recorded is not None:
            compared.late.add(path)
        return
    compared.n_bytes += len(read.data)
    if recorded is None:
        compared.late.add(path)
    elif recorded.digest != read.record.digest:
        is_same_file = recorded.stat.is_same_as(read.record.stat) and not read.is_unstable
        (compared.unseen if is_same_file else compared.late).add(path)
    else:
        note = parse_note(read.path, read.data, policy.chunking, policy.guard)
        differences = compare_note(reader, note, read.record)
        if differences:
            compared.wrong[path] = describe(differences)


def describe(differences: Sequence[Difference]) -> str:
    """`chunks: 2 lacking, 1 too many; tags: 1 too many`."""
    return "; ".join(f"{each.part}: {_describe_counts(each)}" for each in differences)


def _describe_counts(difference: Difference) -> str:
    counts = ((difference.n_lacking, "lacking"), (difference.n_surplus, "too many"))
    return ", ".join(f"{n:,} {word}" for n, word in counts if n)


def judge_proof(compared: Compared, *, n_synced: int) -> list[Finding]:
    """What the comparison proved. `n_synced` notes had changed before and were indexed on the
    way.
    """
    found = [*_judge_differences(compared)]
    is_equal = not found
    if compared.held:
        what = f"not compared, for they cannot be read: {render_count(len(compared.held), 'note')}"
        found.append(
            Finding(
                level="info", check="verify", what=what, where=name_places(sorted(compared.held))
            )
        )
    if n_synced:
        found.append(
            Finding(
                level="info",
                check="verify",
                what=f"changed a moment ago and indexed now: {render_count(n_synced, 'note')}",
            )
        )
    if is_equal:
        what = f"index equals disk: {render_count(compared.n_notes, 'note')} with {compared.n_bytes:,} bytes compared"
        found.append(Finding(level="ok", check="verify", what=what))
    return found


def _judge_differences(compared: Compared) -> Iterator[Finding]:
    if compared.wrong:
        path, how = next(iter(sorted(compared.wrong.items())))
        what = f"index and disk differ in {len(compared.wrong):,} of {render_count(compared.n_notes, 'note')}: {path}: {how}"
        yield Finding(
            level="error",
            check="verify",
            what=what,
            where=name_places(sorted(compared.wrong)),
            remedy=REINDEX,
        )
    for stray in compared.strays:
        yield Finding(level="error", check="verify", what=stray, remedy=REINDEX)
    if compared.unseen:
        what = f"other bytes in {render_count(len(compared.unseen), 'note')} though size, times and inode are those recorded"
        remedy = "read every note again: memsyncd sync --full; then see what changes files without a trace, or the disk"
        yield Finding(
            level="error",
            check="verify",
            what=what,
            where=name_places(sorted(compared.unseen)),
            remedy=remedy,
        )
    if compared.late:
        what = (
            f"changing faster than they can be compared: {render_count(len(compared.late), 'note')}"
        )
        remedy = "ask again once nobody writes"
        yield Finding(
            level="warning",
            check="verify",
            what=what,
            where=name_places(sorted(compared.late)),
            remedy=remedy,
        )
