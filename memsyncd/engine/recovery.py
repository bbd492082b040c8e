"""Completes or takes back a change set of which a kill or a failure left a part undone.

The disk says which targets have happened, `core.writing.recovery` which way to go, and records.db
has the texts for both ways. What is left under memsyncd's own names is swept up first. Where no
history is kept, a change set is written down for this alone, and forgotten as soon as it is
settled. A change set that the system does not let be finished stays intended and is tried again;
one that cannot be finished at all is reported, and stays in the history as far as it has happened.
A text that came out damaged is taken from the disk, too, if a note still says it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from functools import partial

from memsyncd.core.editing.recovery import (
    HAPPENED,
    Direction,
    RecoveryPlan,
    TargetState,
    can_roll_back,
    plan_recovery,
)
from memsyncd.core.notepath import NotePath
from memsyncd.engine.changesets import ChangeSet, StateReader, find_state, finish
from memsyncd.engine.policies import Clock
from memsyncd.engine.sync import is_root_away
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import MemsyncdError, StoreFailed, StoreFull
from memsyncd.files.read import read_text_file
from memsyncd.files.scope import Scope
from memsyncd.files.write import KeepText, remove_temporary_files
from memsyncd.store.history import Change, History, ObservedNote, Revision

UNKEPT = "unkept"
"""The command of an act of which no history is kept."""
HALF_DONE, DOUBTFUL, UNFINISHED = (
    "change_set_half_done",
    "change_set_doubtful",
    "change_set_unfinished",
)
N_PATHS = 3


def find_keep(workspace: Workspace, history: History | None, *, at_s: float) -> KeepText:
    """What records a text that another program saved in the last instant, while that cannot be
    replaced yet.
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
    """Finish what a crash or a full disk left unfinished; returns its paths, which are to be
    synced.

    Raises the classes of `naming_failures`. While the workspace's folder is away nothing is done.
    """
    if workspace.records is None:
        return frozenset()
    intended = workspace.records.history.find_intended()
    if not intended:
        workspace.set_notice(UNFINISHED, "")
        return frozenset()
    if is_root_away(workspace):
        return frozenset()
    touched: set[str] = set()
    failures: list[str] = []
    for act, revisions in intended:
        try:
            touched |= _recover(
                workspace, workspace.records.history, act, revisions, at_s=clock.wall_s()
            )
        except MemsyncdError as failure:
            # A full disk may be that of the notes: whoever writes to the records next hears of
            # theirs.
            if isinstance(failure, StoreFailed) and not isinstance(failure, StoreFull):
                raise
            failures.append(f"{_name(act, revisions[0].command)}: {failure.message}")
    what = "interrupted, and can be neither completed nor taken back now; memsyncd tries again"
    workspace.set_notice(UNFINISHED, f"{what}: {'; '.join(failures)}" if failures else "")
    return frozenset(touched)


def unwind(
    workspace: Workspace, act: int | None, change_set: ChangeSet, *, n_done: int, keep: KeepText
) -> bool:
    """Take back a change set that failed after `n_done` targets, and settle it; False if a part of
    it stays.

    What cannot be taken back for the system's sake stays intended, and `recover` tries again.
    """
    read_states = StateReader(
        workspace.scope, change_set, {at: at < n_done for at in range(len(change_set.targets))}
    )

    def choose(states: Sequence[TargetState], _refused: Collection[Direction]) -> RecoveryPlan:
        direction = Direction.ROLL_BACK if can_roll_back(states) else Direction.REPORT
        return RecoveryPlan(direction=direction, states=tuple(states))

    try:
        plan = finish(workspace.scope, change_set, read_states, choose, keep)
    except MemsyncdError as failure:
        what = f"{failure.message}; memsyncd tries again to take back what was done of it"
        workspace.set_notice(UNFINISHED, f"a change failed half way: {what}" if n_done else "")
        return False
    # What cannot be noted now is found out later.
    with contextlib.suppress(StoreFailed):
        if act is not None and workspace.records is not None:
            _settle(workspace, workspace.records.history, act, plan)
    return plan.direction is Direction.ROLL_BACK


def report_half_done(workspace: Workspace) -> None:
    """Say which change sets stay half done, until each of their notes was changed by somebody who
    asked for it.
    """
    if workspace.records is None:
        return
    half_done = [_name(act, command) for act, command in workspace.records.history.find_half_done()]
    what = "only a part has happened, for other programs changed some of the notes meanwhile"
    workspace.set_notice(HALF_DONE, f"{what}: {', '.join(half_done)}" if half_done else "")


def mend_texts(workspace: Workspace) -> None:
    """Take what came out damaged from the notes that still say it, and with it what stands on that.

    What cannot be read or written now is left for the next time.
    """
    history = workspace.records.history if workspace.records is not None else None
    if history is None or not history.damaged:
        return
    with contextlib.suppress(StoreFailed):
        for path in sorted(history.find_damaged_heads()):
            with contextlib.suppress(MemsyncdError):
                if (file := read_text_file(workspace.scope, NotePath(path))) is not None:
                    history.restore_text(path, file.data)


# --- one change set -------------------------------------------------------------------------------


def _recover(
    workspace: Workspace, history: History, act: int, revisions: Sequence[Revision], *, at_s: float
) -> frozenset[str]:
    change_set = _read_change_set(history, revisions)
    is_kept = revisions[0].command != UNKEPT
    keep = find_keep(workspace, history if is_kept else None, at_s=at_s)
    changed = _sweep(workspace.scope, change_set, keep) | (
        _find_changed(history, change_set) if is_kept else set()
    )
    known = {at: False for at, one in enumerate(change_set.targets) if one.path in changed}
    plan = finish(
        workspace.scope,
        change_set,
        StateReader(workspace.scope, change_set, known),
        plan_recovery,
        keep,
    )
    _settle(workspace, history, act, plan)
    _report(workspace, act, revisions[0].command, change_set, plan)
    return change_set.paths


def _settle(workspace: Workspace, history: History, act: int, plan: RecoveryPlan) -> None:
    """Note in the history what has happened."""
    intended = dict(history.find_intended()).get(act, [])
    if intended and intended[0].command == UNKEPT:
        history.forget_intended(act)
        return
    happened = [
        revision.id
        for revision, state in zip(intended, plan.states, strict=False)
        if plan.direction is Direction.COMPLETE
        or (plan.direction is Direction.REPORT and state in HAPPENED | {TargetState.CHANGED})
    ]
    history.settle(act, happened, is_half_done=plan.direction is Direction.REPORT)
    report_half_done(workspace)


def _report(
    workspace: Workspace, act: int, command: str, change_set: ChangeSet, plan: RecoveryPlan
) -> None:
    """Say of which notes nobody can tell whether they have the change that was finished for the
    others.
    """
    if not plan.doubtful:
        return
    done = "completed" if plan.direction is Direction.COMPLETE else "taken back"
    names = [change_set.targets[at].path for at in plan.doubtful]
    rest = f" and {len(names) - N_PATHS} more" if len(names) > N_PATHS else ""
    what = f"was interrupted and is {done}, but other programs changed {', '.join(names[:N_PATHS])}{rest} meanwhile"
    workspace.set_notice(
        DOUBTFUL, f"{_name(act, command)} {what}: look whether the change is in there"
    )


def _name(act: int, command: str) -> str:
    return f"change set {act}" + (f" ({command})" if command != UNKEPT else "")


def _read_change_set(history: History, revisions: Sequence[Revision]) -> ChangeSet:
    digests = {
        digest
        for one in revisions
        for digest in (one.old_digest, one.new_digest)
        if digest is not None
    }
    found = {digest: history.read_text(digest) for digest in sorted(digests)}
    targets = [
        Change(
            path=one.path,
            old_path=one.old_path,
            old_digest=one.old_digest,
            new_digest=one.new_digest,
        )
        for one in revisions
    ]
    return ChangeSet(
        targets=tuple(targets),
        texts={digest: text for digest, text in found.items() if text is not None},
    )


def _find_changed(history: History, change_set: ChangeSet) -> set[str]:
    """Notes of which the history learned, once the change set had begun, that another program
    changed them.
    """
    tips = history.heads()
    return {
        one.path
        for one in change_set.targets
        if one.old_path is None and tips.get(one.path) != one.old_digest
    }


def _sweep(scope: Scope, change_set: ChangeSet, keep: KeepText) -> set[str]:
    """Sweep up, first for the target that was changed last: only its change can have displaced
    another program's file.

    Returns the paths to which such a file belonged.
    """
    displaced: set[str] = set()

    def restore(path: NotePath, data: bytes) -> bool:
        displaced.add(path.text)
        return keep(path, data)

    known = list(change_set.texts.values())
    states = [find_state(scope, target) for target in change_set.targets]
    last = max((at for at, state in enumerate(states) if state is TargetState.NEW), default=None)
    if last is not None:
        target = change_set.targets[last]
        path, put = NotePath(target.path), change_set.texts.get(target.new_digest or "")
        remove_temporary_files(scope, path, known, put=put, keep=partial(restore, path))
    for place in sorted(_find_places(change_set.targets)):
        remove_temporary_files(scope, NotePath(place), known)
    return displaced


def _find_places(targets: Sequence[Change]) -> set[str]:
    """One path of each folder that has a target."""
    return set({NotePath(one.path).folder: one.path for one in reversed(targets)}.values())
