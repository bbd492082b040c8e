"""Changes the notes of a change set in either direction, and finishes change sets that were cut
off.

A change set is what one edit does to its notes, with the texts before and after. The disk says
which targets have changed, `core.editing.recovery` decides which way to go, and records.db has the
texts for both ways. No text of another program is overwritten: each change first checks that the
note still holds what was read.

After a kill or a failure, temporary files of memsyncd are removed first. Without a history, a
change set is recorded for recovery alone and forgotten as soon as it is settled. A change set that
the system does not let finish stays intended and is retried; one that cannot be finished at all is
reported, and stays in the history as far as it has happened. Texts that were read damaged from
records.db are repaired from notes that still contain them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.recovery import (
    HAPPENED,
    Direction,
    RecoveryPlan,
    TargetState,
    can_roll_back,
    find_to_change,
    plan_recovery,
)
from memsyncd.core.paths import NotePath
from memsyncd.engine.clock import Clock
from memsyncd.engine.sync import is_root_away
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import (
    Conflict,
    MemsyncdError,
    PathRefused,
    StoreFailed,
    StoreFull,
    TooLarge,
    Unwritable,
)
from memsyncd.files.listing import find_files, is_folder
from memsyncd.files.read import make_conflict, read_text_file
from memsyncd.files.scope import Scope
from memsyncd.files.write import (
    KeepText,
    delete_path,
    put_text_file,
    remove_temporary_files,
    rename_path,
)
from memsyncd.store.history import Change, History, Intended, ObservedNote, Revision

# The command of an edit without a history.
UNKEPT = "unkept"
HALF_DONE, UNCERTAIN, UNFINISHED = (
    "change_set_half_done",
    "change_set_uncertain",
    "change_set_unfinished",
)
# How many paths a notice names.
MAX_NAMED_PATHS = 3
# How often the direction is decided again because another program wrote meanwhile, or because the
# system refused a direction.
MAX_ATTEMPTS = 5


def make_keep(workspace: Workspace, history: History | None, *, at_s: float) -> KeepText:
    """Make the callback that records a text which another program saved in the last instant, before
    it is replaced.
    """

    def keep(path: NotePath, data: bytes) -> bool:
        if history is None:
            return False
        try:
            changed = history.record_external(
                [ObservedNote(path=path.text, data=data)], at_s=at_s, is_first=False
            )
        except StoreFailed:
            return False
        workspace.count_revisions(len(changed))
        return True

    return keep


def recover(workspace: Workspace, clock: Clock) -> frozenset[str]:
    """Finish the change sets that a crash or a full disk left unfinished. Return their paths, which
    must be synced.

    Raises the errors of the store. While the workspace's folder is missing, nothing is done.
    """
    if workspace.records is None or workspace.records.history.is_settled:
        return frozenset()
    intended = workspace.records.history.find_intended()
    if not intended:
        workspace.set_notice(UNFINISHED, "")
        return frozenset()
    if is_root_away(workspace):
        return frozenset()
    touched: set[str] = set()
    failures: list[str] = []
    for number, revisions in intended:
        try:
            touched |= _recover(
                workspace, workspace.records.history, number, revisions, at_s=clock.wall_s()
            )
        except MemsyncdError as failure:
            # The full disk may be the notes' alone; the next write to the records reports a full
            # disk of theirs.
            if isinstance(failure, StoreFailed) and not isinstance(failure, StoreFull):
                raise
            failures.append(f"{_name(number, revisions[0].command)}: {failure.message}")
    what = "interrupted, and can be neither completed nor taken back now; memsyncd tries again"
    workspace.set_notice(UNFINISHED, f"{what}: {'; '.join(failures)}" if failures else "")
    return frozenset(touched)


def roll_back(
    workspace: Workspace, number: int | None, change_set: ChangeSet, *, n_done: int, keep: KeepText
) -> bool:
    """Undo a change set that failed after `n_done` targets, and settle it. Returns False if a part
    stays, because another program has changed its notes since. If one of these notes was moved, the
    whole change set stays, because links lead to the note.

    If the system does not let it be undone, the change set stays intended, and `recover` retries
    it.
    """
    moved = [target.old_path is not None for target in change_set.targets]
    read_states = StateReader(
        workspace.scope, change_set, {at: at < n_done for at in range(len(change_set.targets))}
    )

    def choose(states: Sequence[TargetState], _refused: Collection[Direction]) -> RecoveryPlan:
        has_built = TargetState.CHANGED_NEW in itertools.compress(states, moved)
        direction = Direction.REPORT if has_built else Direction.ROLL_BACK
        return RecoveryPlan(direction=direction, states=tuple(states))

    try:
        plan = finish(workspace.scope, change_set, read_states, choose, keep)
    except MemsyncdError as failure:
        what = f"{failure.message}; memsyncd tries again to take back what was done of it"
        workspace.set_notice(UNFINISHED, f"a change failed half way: {what}" if n_done else "")
        return False
    # If records.db cannot be written now, recovery settles it later from the disk.
    with contextlib.suppress(StoreFailed):
        if number is not None and workspace.records is not None:
            _settle(workspace, workspace.records.history, number, plan)
    return plan.direction is Direction.ROLL_BACK and can_roll_back(plan.states)


def report_half_done(workspace: Workspace) -> None:
    """Report which change sets stay half done, until a client has changed each of their notes."""
    if workspace.records is None:
        return
    half_done = [
        _name(number, command) for number, command in workspace.records.history.find_half_done()
    ]
    what = "only a part of a change was made: other programs changed some of the notes meanwhile"
    workspace.set_notice(HALF_DONE, f"{what}: {', '.join(half_done)}" if half_done else "")


def repair_texts(workspace: Workspace) -> None:
    """Repair damaged texts from notes that still contain them, and the texts that depend on those.

    Notes and texts that cannot be read or written now are left for the next time.
    """
    history = workspace.records.history if workspace.records is not None else None
    if history is None or not history.damaged:
        return
    with contextlib.suppress(StoreFailed):
        for path in sorted(history.find_damaged_heads()):
            with contextlib.suppress(MemsyncdError):
                if (file := read_text_file(workspace.scope, NotePath(path))) is not None:
                    history.restore_text(path, file.data)


# --- change sets --------------------------------------------------------------------------------


# The change of one note.
Target = Change | Revision
# Plans by the states, and by the directions that the system has refused.
Choose = Callable[[Sequence[TargetState], Collection[Direction]], RecoveryPlan]


class ChangeSet(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of notes in their order, and the texts before and after, by digest."""

    targets: tuple[Target, ...]
    texts: Mapping[str, bytes]

    def find_later_path(self, at: int) -> str | None:
        """The path to which a later change of this change set moves the note of a target."""
        path = self.targets[at].path
        later = self.targets[at + 1 :]
        return next((target.path for target in later if target.old_path == path), None)

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(
            path
            for target in self.targets
            for path in (target.path, target.old_path)
            if path is not None
        )


def make_change_set(changes: Iterable[Intended]) -> ChangeSet:
    texts: dict[str, bytes] = {}

    def keep(text: bytes | None) -> str | None:
        if text is None:
            return None
        digest = digest_bytes(text)
        texts[digest] = text
        return digest

    targets = [
        Change(
            path=change.path,
            old_path=change.old_path,
            old_digest=keep(change.old),
            new_digest=keep(change.new),
            old_attributes=change.old_attributes,
            new_attributes=change.new_attributes,
        )
        for change in changes
    ]
    return ChangeSet(targets=tuple(targets), texts=texts)


def finish(
    scope: Scope,
    change_set: ChangeSet,
    read_states: StateReader,
    choose: Choose,
    keep: KeepText,
) -> RecoveryPlan:
    """Carry out one direction completely; decide again while other programs write.

    Raises the system's refusal if the refused direction is chosen again.
    """
    refused: dict[Direction, MemsyncdError] = {}
    for _ in range(MAX_ATTEMPTS):
        plan = choose(read_states(), refused.keys())
        if plan.direction in refused:
            raise refused[plan.direction]
        try:
            for at in find_to_change(plan.direction, plan.states):
                _change(scope, change_set.targets[at], change_set.texts, plan.direction, keep)
        except Conflict:
            continue
        except MemsyncdError as failure:
            refused[plan.direction] = failure
            continue
        return plan
    raise Conflict("other programs keep changing these notes", hint="close them for a moment")


# --- states on the disk -------------------------------------------------------------------------


def read_disk_digest(scope: Scope, path: str) -> str | None:
    """Return the digest of the file at a path, None if there is no file. For a file that is no
    readable note the digest is empty and equals no other. Raises Unwritable if the system refuses
    the read.
    """
    note = NotePath(path)
    try:
        file = None if is_folder(scope, note) else read_text_file(scope, note)
    except (PathRefused, TooLarge, Conflict):
        return ""
    return file.digest if file else None


class StateReader:
    """Reads the state of each target from the disk, and remembers whether its change had happened.

    `happened` says so beforehand, by the number of the target, where it is known.
    """

    def __init__(self, scope: Scope, change_set: ChangeSet, happened: Mapping[int, bool]) -> None:
        self._scope = scope
        self._change_set = change_set
        self._happened = dict(happened)

    def __call__(self) -> list[TargetState]:
        return [self._read(at) for at in range(len(self._change_set.targets))]

    def _read(self, at: int) -> TargetState:
        state = read_state(self._scope, self._change_set, at)
        if state is TargetState.CHANGED and at in self._happened:
            return TargetState.CHANGED_NEW if self._happened[at] else TargetState.CHANGED_OLD
        if state is not TargetState.CHANGED:
            self._happened[at] = state in HAPPENED
        return state


def read_state(scope: Scope, change_set: ChangeSet, at: int) -> TargetState:
    """Read the state of a target; its note may have been moved since."""
    target = change_set.targets[at]
    now = read_disk_digest(scope, target.path)
    if target.old_path is not None:
        return _read_move_state(read_disk_digest(scope, target.old_path), now, target)
    if now is None and (later := change_set.find_later_path(at)) is not None:
        now = read_disk_digest(scope, later)
    if now == target.new_digest:
        return TargetState.NEW
    return TargetState.OLD if now == target.old_digest else TargetState.CHANGED


def _read_move_state(at_old: str | None, at_new: str | None, target: Target) -> TargetState:
    match (at_old, at_new):
        case (None, None):
            return TargetState.CHANGED
        case (None, _):
            return TargetState.NEW if at_new == target.new_digest else TargetState.CHANGED_NEW
        case (_, None):
            return TargetState.OLD if at_old == target.old_digest else TargetState.CHANGED_OLD
    if (at_old == target.old_digest) == (at_new == target.new_digest):
        return TargetState.CHANGED
    return TargetState.CHANGED_OLD if at_old == target.old_digest else TargetState.CHANGED_NEW


# --- changes on the disk ------------------------------------------------------------------------


def _change(
    scope: Scope, target: Target, texts: Mapping[str, bytes], direction: Direction, keep: KeepText
) -> None:
    """Write the new text of one target, or its old one.

    Raises Conflict if another program changed it since its state was read.
    """
    is_forward = direction is Direction.COMPLETE
    if target.old_path is not None:
        old, new = NotePath(target.old_path), NotePath(target.path)
        rename_path(scope, *((old, new) if is_forward else (new, old)))
        return
    path, digests = NotePath(target.path), (target.old_digest, target.new_digest)
    before, after = digests if is_forward else reversed(digests)
    if after is not None and after not in texts:
        raise Unwritable(
            f"the text of {path.text} is damaged in records.db", hint="see: memsyncd doctor"
        )
    if after is not None and is_folder(scope, path) and not find_files(scope, path):
        delete_path(scope, path, was={})
    was = read_text_file(scope, path)
    if (was.digest if was else None) != before:
        raise make_conflict(path)
    if after is not None:
        attributes = target.new_attributes if is_forward else target.old_attributes
        put_text_file(scope, path, texts[after], was=was, keep=keep, attributes=attributes)
    elif was is not None:
        delete_path(scope, path, was={path: was}, keep=keep)


# --- recovery of one change set -----------------------------------------------------------------


def _recover(
    workspace: Workspace,
    history: History,
    number: int,
    revisions: Sequence[Revision],
    *,
    at_s: float,
) -> frozenset[str]:
    change_set = _read_change_set(history, revisions)
    is_kept = revisions[0].command != UNKEPT
    keep = make_keep(workspace, history if is_kept else None, at_s=at_s)
    changed = _remove_temporary_files(workspace.scope, change_set, keep) | (
        _find_changed(history, change_set) if is_kept else set()
    )
    happened = {at: False for at, target in enumerate(change_set.targets) if target.path in changed}
    plan = finish(
        workspace.scope,
        change_set,
        StateReader(workspace.scope, change_set, happened),
        plan_recovery,
        keep,
    )
    _settle(workspace, history, number, plan)
    _report(workspace, number, revisions[0].command, change_set, plan)
    return change_set.paths


# The states of targets whose change is in the history once the direction has been carried out.
_STAYING = {
    Direction.COMPLETE: frozenset(TargetState),
    Direction.ROLL_BACK: frozenset({TargetState.CHANGED_NEW}),
    Direction.REPORT: HAPPENED | {TargetState.CHANGED},
}


def _settle(workspace: Workspace, history: History, number: int, plan: RecoveryPlan) -> None:
    """Record in the history which changes have happened."""
    intended = dict(history.find_intended()).get(number, [])
    if intended and intended[0].command == UNKEPT:
        history.forget_intended(number)
        return
    staying = _STAYING[plan.direction]
    happened = [
        revision.id
        for revision, state in zip(intended, plan.states, strict=False)
        if state in staying
    ]
    history.settle(number, happened, is_half_done=plan.direction is not Direction.COMPLETE)
    report_half_done(workspace)


def _report(
    workspace: Workspace, number: int, command: str, change_set: ChangeSet, plan: RecoveryPlan
) -> None:
    """Report the notes that may or may not have the change that the others have."""
    if not plan.uncertain:
        return
    done = "completed" if plan.direction is Direction.COMPLETE else "rolled back"
    names = [change_set.targets[at].path for at in plan.uncertain]
    rest = f" and {len(names) - MAX_NAMED_PATHS} more" if len(names) > MAX_NAMED_PATHS else ""
    what = (
        f"was interrupted and is {done}, but other programs changed "
        f"{', '.join(names[:MAX_NAMED_PATHS])}{rest} meanwhile"
    )
    workspace.set_notice(
        UNCERTAIN, f"{_name(number, command)} {what}: check whether it has the change"
    )


def _name(number: int, command: str) -> str:
    return f"change set {number}" + (f" ({command})" if command != UNKEPT else "")


def _read_change_set(history: History, revisions: Sequence[Revision]) -> ChangeSet:
    digests = {
        digest
        for revision in revisions
        for digest in (revision.old_digest, revision.new_digest)
        if digest is not None
    }
    kept = {digest: history.read_text(digest) for digest in sorted(digests)}
    texts = {digest: text for digest, text in kept.items() if text is not None}
    return ChangeSet(targets=tuple(revisions), texts=texts)


def _find_changed(history: History, change_set: ChangeSet) -> set[str]:
    """Return the notes for which the history recorded an external change after the change set had
    begun.
    """
    heads = history.heads()
    return {
        target.path
        for target in change_set.targets
        if target.old_path is None and heads.get(target.path) != target.old_digest
    }


def _remove_temporary_files(scope: Scope, change_set: ChangeSet, keep: KeepText) -> set[str]:
    """Remove temporary files, beginning with the target that was changed last: only its change can
    have displaced another program's file. Return the paths of displaced files.
    """
    displaced: set[str] = set()

    def restore(path: NotePath, data: bytes) -> bool:
        displaced.add(path.text)
        return keep(path, data)

    texts = list(change_set.texts.values())
    states = [read_state(scope, change_set, at) for at in range(len(change_set.targets))]
    last = max((at for at, state in enumerate(states) if state is TargetState.NEW), default=None)
    if last is not None:
        target = change_set.targets[last]
        path, put = NotePath(target.path), change_set.texts.get(target.new_digest or "")
        remove_temporary_files(scope, path, texts, put=put, keep=partial(restore, path))
    # One path in each folder that has a target.
    paths = {NotePath(target.path).folder: target.path for target in reversed(change_set.targets)}
    for path_text in sorted(paths.values()):
        remove_temporary_files(scope, NotePath(path_text), texts)
    return displaced
