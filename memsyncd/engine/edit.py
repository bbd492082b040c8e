"""Carries an edit from its decision to the disk, the history and the index without losing a text.

An edit is a job of the worker, so the edits of a workspace run one after another. The job reads the
current files and decides; records.db gets the old and the new texts; the disk is changed; the
record is settled; and the files that the edit has written are indexed, or scanned where only a scan
can tell what is on the disk. If another program changes a note in between, the edit is decided
again. Whatever ends the job half way, `recovery` completes or undoes the change set. The operations
decide what to change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from threading import Event
from typing import Generic, NamedTuple, TypeVar, assert_never

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.changes.diff import FileStat
from memsyncd.core.model import Attributes
from memsyncd.core.paths import NotePath
from memsyncd.engine.clock import Clock
from memsyncd.engine.rebuild import update_index
from memsyncd.engine.records import open_records, report_wal_sizes
from memsyncd.engine.recovery import (
    HALF_DONE,
    UNKEPT,
    make_change_set,
    make_keep,
    recover,
    report_half_done,
    roll_back,
)
from memsyncd.engine.sync import (
    EditedNotes,
    SyncDone,
    SyncRequest,
    find_away_mounts,
    index_edited,
    is_scan_needed,
)
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import Busy, Conflict, MemsyncdError, StoreFailed, Unwritable
from memsyncd.files.read import TextFile, check_size
from memsyncd.files.scope import Scope, find_identity, is_within_folder
from memsyncd.files.write import KeepText, delete_path, put_text_file, rename_path
from memsyncd.store.history import History, Intended, ObservedNote

# How often an edit is decided again because another program wrote meanwhile.
MAX_ATTEMPTS = 5
# Key in the data of a Conflict: the number of a change set that stays in part.
HALF_DONE_KEY = "half_done"

T = TypeVar("T")


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """Write these bytes to a file; `was` is the file as read, None if it must be new. `attributes`
    are the mode and time of a file that existed before and is created again.
    """

    path: NotePath
    data: bytes
    was: TextFile | None
    attributes: Attributes | None = None
    may_be_skipped: bool = False
    """If another program changes the file meanwhile, the rest of the edit goes on without it."""


def make_put(
    scope: Scope, path: NotePath, data: bytes, was: TextFile | None, *, way_out: str
) -> Put:
    """Make the operation that writes a note's new bytes. Raises TooLarge, whose hint begins with
    `way_out`.
    """
    check_size(scope, path.text, data, way_out=way_out)
    return Put(path=was.path if was else path, data=data, was=was)


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a file or folder; `was` has every file of it."""

    path: NotePath
    was: Mapping[NotePath, TextFile]


class Rename(msgspec.Struct, frozen=True, kw_only=True):
    """Rename a file or folder; `was` has every file of it, under its old path."""

    old: NotePath
    new: NotePath
    was: Mapping[NotePath, TextFile]

    def new_path(self, path: NotePath) -> NotePath:
        """The path of one of the files after the rename."""
        return NotePath(self.new.text + path.text.removeprefix(self.old.text))


FileChange = Put | Delete | Rename


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Operations on one or many files, all or none. The history keeps `path` and `new_path` as the
    client named them. `continues` is the number of a change set to which these changes are added.
    """

    command: str
    client: str
    path: str
    new_path: str | None = None
    operations: tuple[FileChange, ...] = ()
    continues: int | None = None


class EditOutcome(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The outcome of an edit that succeeded.

    `change_set` is its number in the history, None if nothing had to change or no history is kept.
    `skipped` are the files that another program changed meanwhile. `failure` is why the index does
    not have the edit yet, although it is on the disk.
    """

    answer: T
    change_set: int | None = None
    skipped: frozenset[str] = frozenset()
    synced: SyncDone | None = None
    failure: MemsyncdError | None = None


# Reads the current files and decides; called again if another program writes meanwhile. An edit
# without operations changes nothing.
Decide = Callable[[], tuple[Edit, T]]


class CarriedOut(NamedTuple):
    """`number` is the change set's in the history, None if none is kept. `edited` has the files
    that the edit has written, None if only a scan can tell. `skipped` are the files that were left
    out.
    """

    number: int | None
    edited: EditedNotes | None
    skipped: frozenset[str]


def edit_workspace(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    decide: Decide[T],
    withdrawn: Event | None = None,
) -> Job[EditOutcome[T]]:
    """Carry out one edit, unless `withdrawn` is set before the edit is decided.

    Raises what `decide` raises, Busy, Conflict, PathRefused, Unwritable, StoreFull: then nothing
    changed.
    """
    workspace.check_open()
    yield from _check_root(workspace, config, clock)
    records = workspace.records
    if records is None or not records.history.is_settled:
        open_records(workspace, clock)
    recovered = set(recover(workspace, clock))
    edit, answer, carried_out = _try(workspace, config, clock, decide, withdrawn, recovered)
    if carried_out is None and not recovered:
        return EditOutcome(answer=answer)
    number, edited, skipped = carried_out or (None, None, frozenset[str]())
    try:
        synced = None
        if edited is not None and not recovered:
            synced = index_edited(workspace, config, clock, edited)
        if synced is None:
            only = frozenset(recovered.union(_list_paths(edit)))
            request = SyncRequest(only=only, grace_s=0.0)
            synced = yield from update_index(workspace, config, clock, request)
        report_wal_sizes(workspace)
    except MemsyncdError as failure:
        return EditOutcome(answer=answer, change_set=number, skipped=skipped, failure=failure)
    return EditOutcome(answer=answer, change_set=number, skipped=skipped, synced=synced)


def _check_root(workspace: Workspace, config: Config, clock: Clock) -> Job[None]:
    """Raise Unwritable if the folder is missing. If it is another folder than before, scan first:
    its disk may not be mounted.
    """
    is_away = workspace.condition.root_state == "missing"
    is_another = workspace.root_identity not in (None, find_identity(workspace.scope.root))
    if is_away or is_another:
        open_records(workspace, clock)
        yield from update_index(
            workspace, config, clock, SyncRequest(grace_s=config.sync.delete_grace_s)
        )
        if workspace.condition.root_state == "missing":
            raise Unwritable(
                "the workspace's folder is not there", hint="bring it back, or remove the workspace"
            )


def _check_mounted(workspace: Workspace, edit: Edit) -> None:
    """Raise Unwritable if a new file would be in an empty mount point: it would be hidden once the
    disk is back, and the folder would no longer count as one whose disk is away.
    """
    new = [
        operation.path
        for operation in edit.operations
        if isinstance(operation, Put) and operation.was is None
    ]
    new += [operation.new for operation in edit.operations if isinstance(operation, Rename)]
    if not new:
        return
    for mount in find_away_mounts(workspace):
        for path in new:
            if is_within_folder(f"{workspace.scope.root}/{path.text}", mount):
                hint = "mount it, or remove its empty folder if its notes are to go"
                raise Unwritable(f"{path.text}: its disk is not mounted", hint=hint)


def find_history(workspace: Workspace, config: Config) -> History | None:
    """The history, None if none is kept.

    Raises StoreFailed if it cannot be opened: then nothing may be changed.
    """
    if not config.history.enabled:
        return None
    if workspace.records is None:
        raise StoreFailed(
            "records.db cannot be opened, so what a write replaces would be lost",
            hint="see what is wrong with: memsyncd status",
        )
    return workspace.records.history


def record_external(
    workspace: Workspace, history: History, seen: list[ObservedNote], *, at_s: float
) -> None:
    """Record external changes of these files. Until all notes have been recorded once, most notes
    without a head are first seen.
    """
    is_first = not history.is_complete(workspace.scope.selection)
    workspace.count_revisions(len(history.record_external(seen, at_s=at_s, is_first=is_first)))


def _try(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    decide: Decide[T],
    withdrawn: Event | None,
    recovered: set[str],
) -> tuple[Edit, T, CarriedOut | None]:
    """Decide and carry out, again if another program writes in between. An edit without operations
    is not carried out. Paths that are recovered meanwhile are added to `recovered`.
    """
    for n_left in reversed(range(MAX_ATTEMPTS)):
        edited = EditedNotes(began_ns=clock.wall_ns())
        try:
            edit, answer = decide()
        except StoreFailed:
            if not (n_left and _reopen_records(workspace, clock, recovered)):
                raise
            continue
        if withdrawn is not None and withdrawn.is_set():
            message = "the write was withdrawn: its disk did not answer in time"
            raise Busy(message, hint="try again")
        if not edit.operations:
            return edit, answer, None
        _check_mounted(workspace, edit)
        try:
            # As late as possible: a record in a file that is gone would be lost.
            if _reopen_records(workspace, clock, recovered):
                message = "records.db was replaced while the change was decided"
                raise Conflict(message, hint="try again")
            return edit, answer, _carry_out(workspace, config, edit, edited, at_s=clock.wall_s())
        except Conflict as failure:
            if not n_left or HALF_DONE_KEY in failure.data:
                raise
    raise AssertionError("the last attempt ends with a result or an error")


def _reopen_records(workspace: Workspace, clock: Clock, recovered: set[str]) -> bool:
    """Open the records again if another program has tampered with them. True if they were
    replaced.
    """
    records = workspace.records
    open_records(workspace, clock)
    if workspace.records is records:
        return False
    recovered |= recover(workspace, clock)
    return True


def _carry_out(
    workspace: Workspace, config: Config, edit: Edit, edited: EditedNotes, *, at_s: float
) -> CarriedOut:
    """Record the edit, do it, settle it. If it fails, undo it on the disk and in the history."""
    history = find_history(workspace, config)
    changes = [change for operation in edit.operations for change in _list_changes(operation)]
    number = _record_intent(workspace, history, edit, changes, at_s=at_s)
    keep = make_keep(workspace, history, at_s=at_s)
    progress = _Progress()
    try:
        for operation in edit.operations:
            _apply_or_skip(workspace, operation, number, keep, edited, progress)
    except BaseException as failure:
        tried = [change for change in changes if change.path not in progress.skipped]
        n_done = progress.n_done
        is_undone = roll_back(workspace, number, make_change_set(tried), n_done=n_done, keep=keep)
        if n_done and not is_undone and isinstance(failure, Conflict):
            raise _make_half_done_error(failure, number) from failure
        raise
    is_known = not is_scan_needed(workspace, edited)
    if is_known and (edited.gone or not workspace.has_memory):
        workspace.detect_memory()
    # The edit is on the disk: if records.db cannot be written now, recovery settles it later.
    with contextlib.suppress(StoreFailed):
        if history is not None and number is not None:
            written = edited.written.items()
            history.finish(number, {path: file.attributes for path, file in written})
            if HALF_DONE in workspace.condition.notices:
                report_half_done(workspace)
        elif number is not None and workspace.records is not None:
            workspace.records.history.forget_intended(number)
    return CarriedOut(
        number=number if history is not None else None,
        edited=edited if is_known else None,
        skipped=frozenset(progress.skipped),
    )


class _Progress(msgspec.Struct):
    """How far an edit has come: how many changes have happened, and which files are left out."""

    n_done: int = 0
    skipped: set[str] = msgspec.field(default_factory=set)


def _apply_or_skip(
    workspace: Workspace,
    operation: FileChange,
    number: int | None,
    keep: KeepText,
    edited: EditedNotes,
    progress: _Progress,
) -> None:
    """Change the disk, or leave a file out that another program has changed meanwhile."""
    try:
        _apply(workspace.scope, operation, keep, edited)
    except Conflict:
        if not (isinstance(operation, Put) and operation.may_be_skipped):
            raise
        if number is not None and workspace.records is not None:
            workspace.records.history.leave_out(number, operation.path.text)
        progress.skipped.add(operation.path.text)
    else:
        progress.n_done += len(list(_list_changes(operation)))


def _record_intent(
    workspace: Workspace,
    history: History | None,
    edit: Edit,
    changes: list[Intended],
    *,
    at_s: float,
) -> int | None:
    """Record a change set before it is carried out.

    Without a history it is recorded until it is done: after a crash, recovery must know which
    temporary files it may remove and what a half done change set was. The edit then continues even
    if the records cannot be written.
    """
    if history is None:
        workspace.is_recorded = False
        if workspace.records is None:
            return None
        with contextlib.suppress(StoreFailed):
            return workspace.records.history.begin(
                at_s=at_s, client="", command=UNKEPT, path="", changes=changes
            )
        return None
    # External changes of these files since the last scan come first.
    seen: dict[str, ObservedNote] = {}
    for change in changes:
        path = change.old_path or change.path
        # A note may be changed and then renamed: the first change has the text that is on the disk.
        attributes = change.old_attributes
        seen.setdefault(path, ObservedNote(path=path, data=change.old, attributes=attributes))
    record_external(workspace, history, [*seen.values()], at_s=at_s)
    number = history.begin(
        at_s=at_s,
        client=edit.client,
        command=edit.command,
        path=edit.path,
        new_path=edit.new_path,
        changes=changes,
        continues=edit.continues,
    )
    workspace.count_revisions(len(changes))
    return number


def _make_half_done_error(failure: Conflict, number: int | None) -> Conflict:
    """The edit is not decided again, because the part that stays would be done twice."""
    return Conflict(
        f"{failure.message}; others have already built on a part of this change, which stays",
        hint=(
            "see memsyncd history, then take it back or write the rest again: memsyncd undo"
            f" {number}"
        ),
        **{HALF_DONE_KEY: number},
    )


def _apply(scope: Scope, operation: FileChange, keep: KeepText, edited: EditedNotes) -> None:
    """Change the disk, and note the resulting files in `edited`."""
    match operation:
        case Put(path=path, data=data, was=was):
            attributes = operation.attributes
            file = put_text_file(scope, path, data, was=was, keep=keep, attributes=attributes)
            edited.named.add(file.path.text)
            edited.put(file.path.text, file)
        case Delete():
            delete_path(scope, operation.path, was=operation.was, keep=keep)
            edited.named.add(operation.path.text)
            for path in operation.was:
                edited.drop(path.text)
        case Rename():
            stat = rename_path(scope, operation.old, operation.new)
            edited.named |= {operation.old.text, operation.new.text}
            for path, file in operation.was.items():
                edited.drop(path.text)
                edited.put(operation.new_path(path).text, _follow_rename(file, stat))
        case _:
            assert_never(operation)


def _follow_rename(file: TextFile, stat: FileStat | None) -> TextFile:
    """Return the file with its stat after a rename. A rename changes the ctime of a file, but not
    of the files in a renamed folder. A stat that shows any other change belongs to another text.
    """
    if stat is None or file.stat._replace(ctime_ns=stat.ctime_ns) != stat:
        return file
    return replace(file, stat=stat)


def _list_changes(operation: FileChange) -> Iterator[Intended]:
    match operation:
        case Put():
            was = operation.was
            yield Intended(
                path=operation.path.text,
                old=was.data if was else None,
                new=operation.data,
                old_attributes=was.attributes if was else None,
                new_attributes=operation.attributes,
            )
        case Delete():
            for path, file in operation.was.items():
                attributes = file.attributes
                yield Intended(path=path.text, old=file.data, new=None, old_attributes=attributes)
        case Rename():
            for path, file in operation.was.items():
                yield Intended(
                    path=operation.new_path(path).text,
                    old_path=path.text,
                    old=file.data,
                    new=file.data,
                    old_attributes=file.attributes,
                    new_attributes=file.attributes,
                )
        case _:
            assert_never(operation)


def _list_paths(edit: Edit) -> Iterator[str]:
    for operation in edit.operations:
        match operation:
            case Put() | Delete():
                yield operation.path.text
            case Rename():
                yield operation.old.text
                yield operation.new.text
            case _:
                assert_never(operation)


NO_FILE = ""
"""The digest that a writer names to say that there must be no file."""


def check_digest(if_digest: str | None, path: str, file: TextFile | None) -> None:
    """Raise Conflict if the writer had read another text than the file's."""
    digest = file.digest if file else NO_FILE
    if if_digest is not None and if_digest != digest:
        raise make_digest_conflict(path, if_digest, digest)


def make_digest_conflict(path: str, if_digest: str, digest: str) -> Conflict:
    return Conflict(
        f"{path} is not what it was when you read it",
        hint="read it again, then repeat the command",
        if_digest=if_digest,
        digest=digest,
    )
