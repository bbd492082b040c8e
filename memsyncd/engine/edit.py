"""How does a change that somebody asked for reach disk, history and index, so that nothing is ever
lost?

A job for the lane, so that writers of a workspace come one after another. First what stands is read
and the change decided; then records.db learns what was there and what will be, then the disk is
changed, then the record is settled, then just these paths are synced. A third party that changes a
note in between is noticed, and everything decided anew. Whatever ends the job half way, `recovery`
completes it or takes it back. What is to be changed is left to those who decide: `memory`,
`remember` and `undo`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never

from memsyncd.core.notepath import NotePath
from memsyncd.engine.changesets import make_change_set
from memsyncd.engine.opening import open_records
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.rebuild import check_open, update_index
from memsyncd.engine.recovery import HALF_DONE, UNKEPT, find_keep, recover, report_half_done, unwind
from memsyncd.engine.sync import SyncDone, SyncRequest
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import Conflict, MemsyncdError, StoreFailed, Unwritable
from memsyncd.files.read import TextFile
from memsyncd.files.scope import Scope, find_identity
from memsyncd.files.write import KeepText, delete_path, put_text_file, rename_path
from memsyncd.store.history import History, Intended, ObservedNote

N_ATTEMPTS = 5
"""How often a change is decided anew because somebody else wrote meanwhile."""
LEFT_OVER = "half_done"
"""In the data of a Conflict: the number of a change set of which a part stays."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Give a file these bytes; `was` is what was read of it, None if it is to be new."""

    path: NotePath
    data: bytes
    was: TextFile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Take a file or folder away; `was` holds every file of it."""

    path: NotePath
    was: Mapping[NotePath, TextFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Give a file or folder another place; `was` holds every file of it, under its old path."""

    old: NotePath
    new: NotePath
    was: Mapping[NotePath, TextFile]

    def find_new(self, path: NotePath) -> NotePath:
        """Where this one of the files comes to stand."""
        return NotePath(self.new.text + path.text.removeprefix(self.old.text))


Operation = Put | Delete | Rename


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One change, of one or many files, all or nothing. `path` and `new_path` are what was named,
    for the history.
    """

    command: str
    client: str
    path: str
    new_path: str | None = None
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited(Generic[T]):
    """What became of it. `act` is its number in the history, None if nothing had to change or no
    history is kept.

    `failure` says why the index does not know of it yet, though it stands on the disk.
    """

    answer: T
    act: int | None = None
    synced: SyncDone | None = None
    failure: MemsyncdError | None = None


Decide = Callable[[], tuple[Act, T]]
"""Reads what stands now and decides, anew if somebody else writes meanwhile. An act without
operations changes nothing."""


def edit_workspace(
    workspace: Workspace, policy: SyncPolicy, clock: Clock, decide: Decide[T]
) -> Job[Edited[T]]:
    """Carry out one change. Raises what `decide` raises, Conflict, PathRefused, Unwritable,
    StoreFull: then nothing changed.
    """
    check_open(workspace)
    open_records(workspace, clock)
    history = find_history(workspace, policy)
    yield from _check_root(workspace, policy, clock)
    recovered = recover(workspace, clock)
    act, answer, number = _try(workspace, history, decide, clock)
    if not act.operations and not recovered:
        return Edited(answer=answer)
    try:
        request = SyncRequest(only=recovered.union(_find_paths(act)), grace_s=0.0)
        synced = yield from update_index(workspace, policy, clock, request)
    except MemsyncdError as failure:
        return Edited(answer=answer, act=number, failure=failure)
    return Edited(answer=answer, act=number, synced=synced)


def _check_root(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> Job[None]:
    """Raise Unwritable if the folder is away. Where it is another than it was, that takes a look:
    its disk may not be mounted.
    """
    is_away = workspace.condition.root_state == "missing"
    is_another = workspace.root_identity not in (None, find_identity(workspace.scope.root))
    if is_away or is_another:
        yield from update_index(
            workspace, policy, clock, SyncRequest(grace_s=policy.delete_grace_s)
        )
        if workspace.condition.root_state == "missing":
            raise Unwritable(
                "the workspace's folder is not there", hint="bring it back, or remove the workspace"
            )


def find_history(workspace: Workspace, policy: SyncPolicy) -> History | None:
    """Where revisions are kept, None if none shall be. Raises StoreFailed if they cannot be: then
    nothing may be changed.
    """
    if not policy.history.is_enabled:
        return None
    if workspace.records is None:
        raise StoreFailed(
            "records.db cannot be opened, so what a write replaces would be lost",
            hint="see what is wrong with: memsyncd status",
        )
    return workspace.records.history


def see_others(
    workspace: Workspace, history: History, stood: list[ObservedNote], *, at_s: float
) -> None:
    """Record what others did to these files; before all notes were seen once, nobody knows that
    they did.
    """
    workspace.count_revisions(
        len(history.record_external(stood, at_s=at_s, is_first=not history.is_complete))
    )


def _try(
    workspace: Workspace, history: History | None, decide: Decide[T], clock: Clock
) -> tuple[Act, T, int | None]:
    """Decide and carry out, again if somebody else writes in between; also the act's number, if
    there is one.
    """
    n_tried = 0
    while True:
        act, answer = decide()
        n_tried += 1
        try:
            number = (
                _carry_out(workspace, history, act, at_s=clock.wall_s()) if act.operations else None
            )
        except Conflict as failure:
            if n_tried == N_ATTEMPTS or LEFT_OVER in failure.data:
                raise
        else:
            return act, answer, number


def _carry_out(
    workspace: Workspace, history: History | None, act: Act, *, at_s: float
) -> int | None:
    """Write it down, do it, settle it. If it fails, what was done of it is undone and nothing of it
    stays in the history.
    """
    changes = [change for operation in act.operations for change in _find_changes(operation)]
    number = _write_down(workspace, history, act, changes, at_s=at_s)
    keep = find_keep(workspace, history, at_s=at_s)
    n_done = 0
    try:
        for operation in act.operations:
            _apply(workspace.scope, operation, keep)
            n_done += len(list(_find_changes(operation)))
    except BaseException as failure:
        is_undone = unwind(workspace, number, make_change_set(changes), n_done=n_done, keep=keep)
        if n_done and not is_undone and isinstance(failure, Conflict):
            raise _say_half_done(failure, number) from failure
        raise
    # It is done, and what was there is on the disk: if this cannot be noted now, it is found out
    # later.
    with contextlib.suppress(StoreFailed):
        if history is not None and number is not None:
            history.finish(number)
            if HALF_DONE in workspace.condition.notices:
                report_half_done(workspace)
        elif number is not None and workspace.records is not None:
            workspace.records.history.forget_intended(number)
    return number if history is not None else None


def _write_down(
    workspace: Workspace, history: History | None, act: Act, changes: list[Intended], *, at_s: float
) -> int | None:
    """Have the records know what is about to be done, before it is.

    Where no history is kept they need it until it is done: after a crash it must be known what may
    be swept up, and what a half done change set was about. There, records that cannot be written
    stop nothing.
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
    # What others did to these files since they were last looked at comes first.
    stood = [
        ObservedNote(path=change.old_path or change.path, data=change.old) for change in changes
    ]
    see_others(workspace, history, stood, at_s=at_s)
    number = history.begin(
        at_s=at_s,
        client=act.client,
        command=act.command,
        path=act.path,
        new_path=act.new_path,
        changes=changes,
    )
    workspace.count_revisions(len(changes))
    return number


def _say_half_done(failure: Conflict, number: int | None) -> Conflict:
    """Deciding it anew would do a second time what stays of the first."""
    return Conflict(
        f"{failure.message}; others have already built on a part of this change, which stays",
        hint=f"see memsyncd history, then take it back or write the rest again: memsyncd undo --act {number}",
        **{LEFT_OVER: number},
    )


def _apply(scope: Scope, operation: Operation, keep: KeepText) -> None:
    match operation:
        case Put():
            put_text_file(scope, operation.path, operation.data, was=operation.was, keep=keep)
        case Delete():
            delete_path(scope, operation.path, was=operation.was, keep=keep)
        case Rename():
            rename_path(scope, operation.old, operation.new)
        case _:
            assert_never(operation)


def _find_changes(operation: Operation) -> Iterator[Intended]:
    match operation:
        case Put():
            old = operation.was.data if operation.was else None
            yield Intended(path=operation.path.text, old=old, new=operation.data)
        case Delete():
            for path, file in operation.was.items():
                yield Intended(path=path.text, old=file.data, new=None)
        case Rename():
            for path, file in operation.was.items():
                yield Intended(
                    path=operation.find_new(path).text,
                    old_path=path.text,
                    old=file.data,
                    new=file.data,
                )
        case _:
            assert_never(operation)


def _find_paths(act: Act) -> Iterator[str]:
    for operation in act.operations:
        match operation:
            case Put() | Delete():
                yield operation.path.text
            case Rename():
                yield operation.old.text
                yield operation.new.text
            case _:
                assert_never(operation)
