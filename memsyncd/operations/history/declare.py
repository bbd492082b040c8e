"""Parameters, results and operations: the changes of notes: list, show, undo and erase them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.errors import ConfirmationNeeded
from memsyncd.operations.fields import (
    Limit,
    Result,
    WorkspaceParams,
    WriteParams,
)
from memsyncd.operations.operation import (
    OPENS,
    WRITES,
    Operation,
    Paths,
)
from memsyncd.operations.writes import (
    Place,
    RevisionId,
    Written,
)

UndoNeeds = Literal["nothing", "confirm", "never"]
"""What an undo of a change needs."""


Searched = Annotated[str, msgspec.Meta(min_length=4, max_length=4096)]


class HistoryParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Place | None = None
    path: Place | None = None
    """A note, or a folder with all notes in it; without `anchor` and `path`, the whole
    workspace."""
    limit: Limit = 20
    before: RevisionId | None = None
    """Only revisions older than this one."""


class RevisionInfo(Result, frozen=True, kw_only=True):
    """One change of one note."""

    revision: int
    change_set: int
    """Revisions of one operation share this number: the rename of a folder has a revision for each
    note."""
    at: float
    client: str
    """The writer; empty for a change by another program."""
    command: str
    """`create`, `str_replace`, `add`, `undo`, …; `external` for a change by another program,
    `first_seen` for a note that was there when memsyncd first saw it."""
    path: str
    old_path: str | None
    """The note's path before, if it was moved."""
    old_digest: str | None
    new_digest: str | None
    old_bytes: int | None
    new_bytes: int | None
    is_kept: bool
    """True while the texts before and after are kept, so that the change can be shown and
    undone."""
    undo: UndoNeeds
    """`confirm` if an undo of it deletes the note, though another program made it or an undo
    brought it back; `never` if the note was there when memsyncd first saw it."""


class History(Result, frozen=True, kw_only=True):
    workspace: str
    revisions: list[RevisionInfo]
    """Newest first."""


class DiffParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    """By default the latest one of the note or section."""
    to_now: bool = False
    """Compare the text before the revision with the text on the disk instead of with the text after
    the revision."""


class Diff(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    revision: int
    old_digest: str | None
    new_digest: str | None
    diff: str
    """Unified, with three lines around each change; empty if both texts are equal."""


class UndoParams(WriteParams, frozen=True, kw_only=True):
    """What to undo: a revision, all revisions of a change set, or the latest one of a note or
    section.
    """

    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    change_set: RevisionId | None = None
    confirm: bool = False
    """Without it an undo is refused with `confirmation_needed` if it deletes a note that another
    program made or an undo brought back, or takes back what other programs did to several notes."""


class PathState(Result, frozen=True, kw_only=True):
    path: str
    digest: str | None


class Undone(Written, frozen=True, kw_only=True):
    """`change_set` can be undone in turn."""

    undone: list[RevisionInfo]
    paths: list[PathState]
    """The notes after the undo."""


class PurgeParams(WorkspaceParams, frozen=True, kw_only=True):
    """Which revisions to erase from `records.db`: at least one condition, and all given conditions
    must hold.
    """

    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    containing: Searched | None = None
    """Revisions whose text before or after contains this."""
    all: bool = False
    """Every revision of the workspace."""


class SetAside(Result, frozen=True, kw_only=True):
    """A records.db that was set aside: damaged, of another workspace, or replaced by a restore."""

    path: str
    is_searched: bool
    """True if it was searched and has what was purged; False if it cannot be searched, because it
    is damaged or of an older version, and may have it."""


class Purged(Result, frozen=True, kw_only=True):
    workspace: str
    revisions: int
    texts: int
    access_counts: int
    """Sections whose count of accesses was erased."""
    signals: int
    """Erased signals between agents: all, or those with the text `containing`."""
    is_clean: bool
    """False while traces stay: `is_read`, in notes or in files that were set aside."""
    is_read: bool
    """Another program that reads records.db keeps traces in the file; they go when it ends."""
    still_in: list[str]
    """Notes whose current text contains `containing`."""
    set_aside: list[SetAside]
    """Files beside records.db that have it, too, or may have it; a purge never changes them."""


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="history",
        params=HistoryParams,
        result=History,
        summary="List the changes of notes with time and writer.",
        errors=OPENS,
        reads=True,
        worktree="own",
        paths=Paths(absolute=("path", "anchor", "note")),
    ),
    Operation(
        name="history.purge",
        params=PurgeParams,
        result=Purged,
        summary="Erase revisions for good, such as those that hold a secret.",
        errors=OPENS,
        worktree="wide",
        paths=Paths(absolute=("path", "anchor", "note")),
    ),
    Operation(
        name="diff",
        params=DiffParams,
        result=Diff,
        summary="Show the change of a revision.",
        errors=OPENS,
        reads=True,
        worktree="wide",
        paths=Paths(absolute=("path", "anchor", "note")),
    ),
    Operation(
        name="undo",
        params=UndoParams,
        result=Undone,
        summary="Restore the text before a revision, unless it has changed since.",
        errors=(*WRITES, ConfirmationNeeded),
        worktree="wide",
        paths=Paths(absolute=("path", "anchor", "note")),
    ),
)
