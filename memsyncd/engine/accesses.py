"""Records which sections answers have returned, and keeps the counts at their sections.

An answer only notes its sections in memory. A job stores the noted accesses some seconds later,
when the workspace is closed, and before the counts are read. The same job then applies the
revisions that the history has recorded since the last time: a count follows its note through
renames, and its section through edits that rename headings, move sections within a note, or from
one note to another in one change set. A save therefore does no work for the counts, however many
there are.

A section is identified by the lineage of its note in the history and by the path of its headings,
not by a mark in the text: reading must not write to a user's note. An `id` in a section's comment
is preferred where there is one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from memsyncd.config import Config
from memsyncd.engine.answers import store_answers
from memsyncd.engine.clock import Clock
from memsyncd.engine.records import open_records
from memsyncd.engine.recovery import recover
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import MemsyncdError, StoreFailed
from memsyncd.store.accesses import (
    NO_LIMIT,
    AccessCount,
    Accesses,
    NoteRevision,
    Recalls,
    SectionKey,
    read_all_accesses,
)
from memsyncd.store.connection import open_reader, translating_errors
from memsyncd.store.history import EXTERNAL, FIRST_SEEN, History
from memsyncd.store.records import Records
from memsyncd.store.sections import read_anchors

# How long noted accesses wait before they are stored.
FLUSH_S = 2.0
READ_LIMIT_S = 2.0

K = TypeVar("K")

if TYPE_CHECKING:
    # It imports the scanner of markdown, which no start needs.
    from memsyncd.core.editing.sections import SectionTrace

# --- noting -------------------------------------------------------------------------------------


def note_accesses(
    workspace: Workspace, anchors: Iterable[str], *, session: str | None, at_s: float
) -> None:
    """Note that an answer has returned these sections; from any thread.

    An anchor without `#` is a whole note. A session counts once.
    """
    records = workspace.records
    with workspace.accesses.lock:
        if not workspace.accesses.noted and records is not None:
            workspace.accesses.as_of = records.history.last_revision
        for anchor in set(anchors):
            noted = workspace.accesses.noted.setdefault(anchor, Recalls())
            noted.last_at_s = at_s
            if session:
                noted.sessions.add(session)
            else:
                noted.n += 1


def carry_counts(workspace: Workspace, counts: Mapping[str, tuple[int, float]]) -> None:
    """Note accesses that were counted elsewhere: how often and when last, by anchor; from any
    thread.
    """
    records = workspace.records
    with workspace.accesses.lock:
        if not workspace.accesses.noted and records is not None:
            workspace.accesses.as_of = records.history.last_revision
        for anchor, (count, at_s) in counts.items():
            noted = workspace.accesses.noted.setdefault(anchor, Recalls())
            noted.n += count
            noted.last_at_s = max(noted.last_at_s, at_s)


def store_accesses(workspace: Workspace, config: Config, clock: Clock) -> Job[bool]:
    """Store the noted accesses and answers to agents, and follow the notes' changes. A failure is
    tried again with the next accesses. Returns False: no further job must follow.
    """
    if workspace.is_closed:
        return False
    open_records(workspace, clock)
    with contextlib.suppress(MemsyncdError):
        recover(workspace, clock)
        store_answers(workspace, config.agents)
        store_noted(workspace, config)
        yield from follow_notes(workspace)
    return False


def store_noted(workspace: Workspace, config: Config) -> None:
    """Store the noted accesses; on the worker's thread. Raises StoreFailed and Busy."""
    with workspace.accesses.lock:
        noted, workspace.accesses.noted = workspace.accesses.noted, {}
        as_of = workspace.accesses.as_of
    if not noted or workspace.records is None:
        return
    try:
        recalls = expand_noted(workspace, noted)
        accesses = workspace.records.accesses
        # The stored counts are as of an earlier revision than the noted accesses.
        for _ in _follow(workspace, workspace.records, up_to=as_of):
            pass
        with accesses.changing():
            accesses.add(recalls, as_of=as_of, max_sections=config.access.max_sections)
    except MemsyncdError:
        with workspace.accesses.lock:
            _join(noted, workspace.accesses.noted)
            workspace.accesses.noted, workspace.accesses.as_of = noted, as_of
        raise
    workspace.accesses.forget_counts()


def expand_noted(workspace: Workspace, noted: Mapping[str, Recalls]) -> dict[SectionKey, Recalls]:
    """Return the accesses by section; an access of a whole note counts for each of its sections."""
    expanded: dict[SectionKey, Recalls] = {}
    for anchor, recalls in noted.items():
        anchors = [anchor]
        if "#" not in anchor:
            with workspace.acquire(READ_LIMIT_S) as reader:
                anchors = read_anchors(reader, anchor)
        for section_anchor in anchors:
            path, _, slugs = section_anchor.rpartition("#")
            _join(expanded, {(path, slugs): recalls})
    return expanded


def _join(into: dict[K, Recalls], more: Mapping[K, Recalls]) -> None:
    for key, recalls in more.items():
        before = into.get(key, Recalls())
        into[key] = Recalls(
            n=before.n + recalls.n,
            sessions=before.sessions | recalls.sessions,
            last_at_s=max(before.last_at_s, recalls.last_at_s),
        )


# --- following the notes ------------------------------------------------------------------------


def follow_notes(workspace: Workspace) -> Job[None]:
    """Move the counts to where their sections are now; on the worker's thread."""
    records, index = workspace.records, workspace.index
    if records is None:
        return
    yield from _follow(workspace, records)
    accesses = records.accesses
    accesses.skip_unrelated()
    moves = accesses.next_moves()
    if moves and index is not None:
        # The history has no revision of a move that was seen before the note was recorded, or while
        # the history is switched off.
        present = index.recorded([old for _, old, _ in moves])
        with accesses.changing():
            for number, old, new in moves:
                if old not in present:
                    _rename(accesses, [(old, new)])
                accesses.set_cursor(move=number)
        workspace.accesses.forget_counts()


def _follow(workspace: Workspace, records: Records, up_to: int = NO_LIMIT) -> Job[None]:
    """Apply the change sets that begin up to this revision."""
    accesses = records.accesses
    while revisions := accesses.next_change_set(up_to):
        with accesses.changing():
            _Follower(records.history, accesses).follow(revisions)
            accesses.set_cursor(revision=revisions[-1].id)
        workspace.accesses.forget_counts()
        yield


def _rename(accesses: Accesses, renames: Iterable[tuple[str, str]]) -> None:
    accesses.relocate(
        [((old, slugs), (new, slugs)) for old, new in renames for slugs in accesses.find_slugs(old)]
    )


class _Follower:
    """Applies one change set to the counts."""

    def __init__(self, history: History, accesses: Accesses) -> None:
        self._history = history
        self._accesses = accesses
        self._removed: list[tuple[str, SectionTrace]] = []
        """Sections with a count that left their note."""
        self._added: list[tuple[str, SectionTrace]] = []

    def follow(self, revisions: Sequence[NoteRevision]) -> None:
        # Another program's changes count as simultaneous; a request's changes happened in their
        # order.
        if revisions[0].command in (EXTERNAL, FIRST_SEEN):
            revisions = sorted(revisions, key=_is_edit)
        for is_edit, run in groupby(revisions, key=_is_edit):
            changes = list(run)
            if not is_edit:
                renames = [(revision.old_path or "", revision.path) for revision in changes]
                _rename(self._accesses, renames)
            for revision in changes:
                if revision.old_digest != revision.new_digest:
                    self._follow_edit(revision)
        if self._removed:
            self._follow_moved(revisions)

    def _follow_edit(self, revision: NoteRevision) -> None:
        path = revision.path
        counted = self._accesses.find_slugs(path)
        if not counted or revision.old_digest is None:
            return
        from memsyncd.core.editing.sections import is_extended, match_sections, trace_sections

        old, new = map(self._read, (revision.old_digest, revision.new_digest))
        if old is not None and new is not None and is_extended(path, old, new):
            return
        match = match_sections(trace_sections(path, old), trace_sections(path, new))
        self._accesses.relocate(
            [((path, old), (path, new)) for old, new in match.slugs.items() if old in counted]
        )
        self._removed += [(path, trace) for trace in match.removed if trace.slugs in counted]

    def _follow_moved(self, revisions: Iterable[NoteRevision]) -> None:
        """Find the sections that left a note among the sections that notes of the change set
        gained.
        """
        from memsyncd.core.editing.sections import match_moved, match_sections, trace_sections

        for revision in revisions:
            if revision.new_digest is not None and revision.old_digest != revision.new_digest:
                old, new = (
                    trace_sections(revision.path, self._read(digest))
                    for digest in (revision.old_digest, revision.new_digest)
                )
                match = match_sections(old, new)
                self._added += [(revision.path, trace) for trace in match.added]
        pairs = match_moved(
            [trace for _, trace in self._removed], [trace for _, trace in self._added]
        )
        keys = [(self._removed[old], self._added[new]) for old, new in pairs]
        self._accesses.relocate(
            [((path, old.slugs), (new_path, new.slugs)) for (path, old), (new_path, new) in keys]
        )

    def _read(self, digest: str | None) -> bytes | None:
        return None if digest is None else self._history.read_text(digest)


def _is_edit(revision: NoteRevision) -> bool:
    return revision.old_path is None


# --- reading ------------------------------------------------------------------------------------


def find_accesses(workspace: Workspace) -> Mapping[str, AccessCount]:
    """Return the stored counts by anchor; from any thread.

    The counts are read once, and again after they have changed; accesses of the last FLUSH_S may be
    missing. Empty if records.db cannot be read.
    """
    buffer = workspace.accesses
    version, counts = buffer.version, buffer.counts
    if counts is not None:
        return counts
    try:
        if not workspace.records_path.exists():
            return {}
        connection = open_reader(str(workspace.records_path))
        try:
            with translating_errors():
                counts = read_all_accesses(connection)
        finally:
            connection.close()
    except StoreFailed:
        return {}
    with buffer.lock:
        if buffer.version == version:
            buffer.counts = counts
    return counts


def count_accesses(workspace: Workspace) -> dict[str, int]:
    """Return how often each section was accessed, by anchor. Decay depends on it."""
    return {anchor: accesses.count for anchor, accesses in find_accesses(workspace).items()}
