"""Parameters, results and operations: list, show, undo and erase the changes of notes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.errors import ConfirmationNeeded
from memsyncd.operations.fields import (
    ClientName,
    Limit,
    Name,
    Place,
    Result,
    RevisionId,
    WorkspaceParams,
    WriteParams,
    Written,
)
from memsyncd.operations.operation import (
    OPENS,
    WRITES,
    Command,
    Extra,
    Operation,
    Paths,
    Python,
    Shape,
)

UndoNeeds = Literal["nothing", "confirm", "never"]
"""Whether an undo of a change needs a confirmation, or is never possible."""
Searched = Annotated[str, msgspec.Meta(min_length=4, max_length=4096)]


class HistoryParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Place | None = None
    path: Place | None = None
    """A note, or a folder with all its notes. Without `anchor` and `path`, the whole workspace is
    listed."""
    writer: ClientName | None = None
    """Only changes by this writer; empty for changes by other programs."""
    since: Name | None = None
    """Only changes since then: `30min`, `12h`, `7d`, `last week`, or a day such as `2026-03-01`."""
    until: Name | None = None
    """Only changes until then; a day, a week, a month or a year counts as a whole."""
    change_set: RevisionId | None = None
    """Only the revisions of this change set."""
    limit: Limit = 20
    before: RevisionId | None = None
    """Only revisions older than this one."""
    before_change_set: RevisionId | None = None
    """Only other change sets, whose revisions are older than the last revision of this one."""


class RevisionInfo(Result, frozen=True, kw_only=True):
    """One change of one note."""

    change_set: int
    """The number that the terminal shows and `memsyncd undo` takes. The revisions of one operation
    share it: the rename of a folder makes a revision for each note."""
    revision: int
    """The number of the change of this one note."""
    at: float
    client: str
    """The writer; empty for a change by another program."""
    command: str
    """`create`, `str_replace`, `add`, `undo`, …; `external` for a change by another program,
    `first_seen` for a note that was there when memsyncd first saw it."""
    path: str
    old_path: str | None
    """The note's path before the change, if it was moved."""
    old_digest: str | None
    new_digest: str | None
    old_bytes: int | None
    new_bytes: int | None
    is_kept: bool
    """True while the texts before and after the change are kept, so that it can be shown and
    undone."""
    undo: UndoNeeds
    """`confirm` if an undo deletes a note that another program made or an undo brought back;
    `never` if the note existed when memsyncd first saw it; else `nothing`."""


class History(Result, frozen=True, kw_only=True):
    workspace: str
    revisions: list[RevisionInfo]
    """Newest first."""


class DiffParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    """By default the latest revision of the note or section."""
    change_set: RevisionId | None = None
    """The changes that this change set made to the note, section or folder; if none is named, to
    all of its notes."""
    to_now: bool = False
    """Compare with the text on the disk instead of the text after the revision."""


class Diff(Result, frozen=True, kw_only=True):
    """The change of a revision. If a change set has several notes, `diff` has the changes of the
    first 100; the other fields are about the first note.
    """

    workspace: str
    path: str
    revision: int
    old_digest: str | None
    new_digest: str | None
    diff: str
    """A unified diff with three lines around each change; empty if both texts are equal."""
    n_more: int = 0
    """How many further notes the change set has changed."""


class UndoParams(WriteParams, frozen=True, kw_only=True):
    """An undo names a change set, a revision, or a note or section, whose latest revision is
    undone.
    """

    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    change_set: RevisionId | None = None
    """All changes of this change set, such as the rename of a folder; with a note, section or
    folder only the changes of these."""
    to: RevisionId | None = None
    """Restore the note or section as it was right after this change set, whatever has changed it
    since."""
    confirm: bool = False
    """Confirm an undo that deletes a note which another program made or an undo brought back, or
    that takes back changes of other programs to several notes. Without this, such an undo is
    refused with `confirmation_needed`."""


class PathState(Result, frozen=True, kw_only=True):
    path: str
    digest: str | None


class Undone(Written, frozen=True, kw_only=True):
    """An undo. It can be undone itself, by its `change_set`."""

    undone: list[RevisionInfo]
    paths: list[PathState]
    """The notes after the undo."""
    others: list[str] = msgspec.field(default_factory=list)
    """Other notes of the same change set, which were not undone; at most 20."""


class PurgeParams(WorkspaceParams, frozen=True, kw_only=True):
    """Conditions that select the revisions to erase from `records.db`. At least one is needed; a
    revision must meet all of them.
    """

    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    change_set: RevisionId | None = None
    """The revisions of this change set."""
    containing: Searched | None = None
    """Revisions whose text before or after the change contains this."""
    all: bool = False
    """Every revision of the workspace."""


class SetAside(Result, frozen=True, kw_only=True):
    """A records.db that was set aside, because it was damaged, belonged to another workspace, or
    was replaced by a restore.
    """

    path: str
    is_searched: bool
    """True if a search in it found the purged text; False if it cannot be searched, because it is
    damaged or of an older version, so that it may have the text."""


class Purged(Result, frozen=True, kw_only=True):
    workspace: str
    revisions: int
    texts: int
    access_counts: int
    """How many sections lost their count of accesses."""
    signals: int
    """How many signals between agents were erased: all, or the signals with the text
    `containing`."""
    answers: int
    """How many answers to agents lost the name of a section, or their query."""
    is_clean: bool
    """False while traces stay: because of `is_read`, in notes (`still_in`) or in files that were
    set aside (`set_aside`)."""
    is_read: bool
    """True if another program that reads records.db keeps traces in the file. They go when it
    ends."""
    still_in: list[str]
    """Notes whose current text contains `containing`."""
    set_aside: list[SetAside]
    """Files beside records.db that have the purged text, or may have it. A purge never changes
    them."""


# --- the operations ---------------------------------------------------------------------------

_PLACES = Paths(absolute=("path", "anchor", "note"), resolved=("anchor", "path"), may_be_gone=True)
_REVISION_TARGET = Extra(
    name="target",
    usage="[ANCHOR|PATH|N]",
    help="a section, a note, or the number of a change, from memsyncd history",
    is_argument=True,
)
_NO_REVISION = {"--revision": "the number of a change, from memsyncd history: --change-set N"}

OPERATIONS = (
    Operation(
        name="history",
        params=HistoryParams,
        result=History,
        summary="List the changes of notes with time and writer.",
        shape=Shape.STEPS,
        run="history.run:list_changes",
        errors=OPENS,
        reads=True,
        worktree="own",
        paths=_PLACES,
        command=Command(
            words="history",
            is_first=True,
            lists="revisions",
            group="Write",
            summary="list the changes of notes, with time and writer",
            omit=("anchor", "path", "before"),
            extra=(
                Extra(
                    name="target",
                    usage="[ANCHOR|PATH|N]",
                    help="a section, a note or a folder, or the number of a change; by default the"
                    " whole workspace",
                    is_argument=True,
                ),
            ),
            usages={
                "before_change_set": "--before N",
                "since": "--since TIME",
                "until": "--until TIME",
            },
            help={
                "limit": "at most N lines (default 20)",
                "writer": "only changes by this writer; '' for other programs",
                "change_set": "only change N; the number alone means the same",
                "before_change_set": "only changes older than N",
            },
            prepare="find_target",
            show="show_revisions",
            found="revisions",
            examples=(
                "memsyncd history",
                "memsyncd history .memories/redis.md -n 5",
                "memsyncd history 42",
                "memsyncd history --since monday --until yesterday",
                "memsyncd history 'MEMORY.md#redis/timeouts'",
            ),
        ),
        python=Python(name="history", positional=("target",), returns="revisions"),
    ),
    Operation(
        name="history.purge",
        params=PurgeParams,
        result=Purged,
        summary="Erase revisions for good, such as those that hold a secret.",
        shape=Shape.STEPS,
        run="history.run:purge_changes",
        errors=OPENS,
        worktree="wide",
        paths=_PLACES,
        command=Command(
            words="history purge",
            summary="erase earlier texts for good; notes stay unchanged",
            omit=("anchor", "path", "revision"),
            extra=(
                Extra(
                    name="target",
                    usage="[ANCHOR|PATH|N]",
                    help="all revisions of a section, a note or a folder; or those of change N",
                    is_argument=True,
                ),
                Extra(usage="-y --yes", help="erase the whole history without a question"),
            ),
            help={
                "change_set": "delete the revisions of change N; the number alone means the same",
                "containing": "delete revisions whose text contained this; - reads it from stdin",
                "all": "delete every revision of the workspace",
            },
            usages={"all": "--everything"},
            gone={"--all": "every revision of the workspace: --everything", **_NO_REVISION},
            prepare="find_purged",
            show="show_purged",
            found="revisions",
            examples=(
                "memsyncd history purge --containing - < pasted-token.txt",
                "memsyncd history purge .memories/draft.md",
                "memsyncd history purge --everything --yes",
            ),
        ),
        python=Python(
            name="purge_history",
            positional=("target",),
            rename={"all": "everything"},
            doc=(
                "Notes stay; `still_in` names the notes that contain the text. At least one"
                " condition is needed; a revision must meet all of them."
            ),
        ),
    ),
    Operation(
        name="diff",
        params=DiffParams,
        result=Diff,
        summary="Show the change of a revision.",
        shape=Shape.STEPS,
        run="history.run:show_change",
        errors=OPENS,
        reads=True,
        worktree="wide",
        paths=_PLACES,
        command=Command(
            words="diff",
            group="Write",
            summary="show what a change did to a note, or to all of its notes",
            omit=("anchor", "path", "revision", "all"),
            gone=_NO_REVISION,
            extra=(_REVISION_TARGET,),
            help={
                "change_set": "change N; the number alone means the same, for all of its notes",
                "to_now": "up to the present text instead of the text after the change",
            },
            prepare="find_change",
            show="show_diff",
            found="diff",
            examples=(
                "memsyncd diff .memories/redis.md",
                "memsyncd diff 42",
                "memsyncd diff 42 --to-now",
            ),
        ),
        python=Python(
            name="diff",
            positional=("target",),
            doc="The diff is unified; by default, of the latest revision of the section or note.",
        ),
    ),
    Operation(
        name="undo",
        params=UndoParams,
        result=Undone,
        summary="Restore the text before a change, unless it has changed since.",
        shape=Shape.STEPS,
        run="history.undo:undo_changes",
        errors=(*WRITES, ConfirmationNeeded),
        worktree="wide",
        paths=_PLACES,
        command=Command(
            words="undo",
            is_first=True,
            group="Write",
            summary="restore the text from before a change",
            omit=("anchor", "path", "revision"),
            gone=_NO_REVISION,
            extra=(_REVISION_TARGET,),
            usages={"to": "--to N"},
            help={
                "change_set": (
                    "change N; the number alone means the same, for all of its notes; with a note,"
                    " only the change of this note"
                ),
                "to": (
                    "restore the named note or section as it was right after change N, whatever has"
                    " changed it since"
                ),
                "confirm": (
                    "undo without a question, even if that deletes a note that memsyncd did not"
                    " make, or undoes changes of other programs to several notes"
                ),
            },
            action="undo",
            examples=(
                "memsyncd undo .memories/redis.md",
                "memsyncd undo 42",
                "memsyncd undo .memories/redis.md --to 38",
                "memsyncd undo 'MEMORY.md#redis/timeouts'",
            ),
        ),
        python=Python(
            name="undo",
            positional=("target",),
            doc=(
                "It may also restore the text before a change set, or before the latest revision of"
                " a section or note. The undo is a new change set, which can be undone as well."
                " Raises Conflict if the text has changed since, EditRefused for a note that"
                " existed when memsyncd first saw it, and, without `confirm`, ConfirmationNeeded."
            ),
        ),
    ),
)
