"""Changes the notes of a change set on the disk, in either direction, over no text of another
program.

A change set is what one act does to its notes, with the texts from before and after. What a note
holds now says whether its change has happened; each change checks once more that it still holds
that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.recovery import (
    HAPPENED,
    Direction,
    RecoveryPlan,
    TargetState,
    find_to_change,
)
from memsyncd.core.notepath import NotePath
from memsyncd.errors import Conflict, MemsyncdError, PathRefused, TooLarge, Unwritable
from memsyncd.files.listing import find_files, is_folder
from memsyncd.files.problems import make_conflict
from memsyncd.files.read import read_text_file
from memsyncd.files.scope import Scope
from memsyncd.files.write import KeepText, delete_path, put_text_file, rename_path
from memsyncd.store.history import Change, Intended

N_ATTEMPTS = 5
"""How often the direction is chosen anew because another program wrote meanwhile, or the system
refused one."""

Choose = Callable[[Sequence[TargetState], Collection[Direction]], RecoveryPlan]
"""Plans by the states, and by the directions that the system has refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What becomes of each note, in the order in which they change, and the texts from before and
    after, by digest.
    """

    targets: tuple[Change, ...]
    texts: Mapping[str, bytes]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(
            path for one in self.targets for path in (one.path, one.old_path) if path is not None
        )


def make_change_set(changes: Iterable[Intended]) -> ChangeSet:
    texts: dict[str, bytes] = {}
    return ChangeSet(targets=tuple(_make_target(change, texts) for change in changes), texts=texts)


def finish(
    scope: Scope,
    change_set: ChangeSet,
    read_states: StateReader,
    choose: Choose,
    keep: KeepText,
) -> RecoveryPlan:
    """Go one way to its end, chosen anew while others write. Raises what the system refused if that
    is chosen again.
    """
    refused: dict[Direction, MemsyncdError] = {}
    for _ in range(N_ATTEMPTS):
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


def _make_target(change: Intended, texts: dict[str, bytes]) -> Change:
    digests = []
    for text in (change.old, change.new):
        digests.append(None if text is None else digest_bytes(text))
        if text is not None and digests[-1] is not None:
            texts[digests[-1]] = text
    return Change(
        path=change.path, old_path=change.old_path, old_digest=digests[0], new_digest=digests[1]
    )


# --- what the disk says ---------------------------------------------------------------------------


def read_digest(scope: Scope, path: str) -> str | None:
    """The digest of the file that is there now, None for none; of what is no readable note an empty
    one, equal to no other.

    Raises Unwritable if the system does not let it be read.
    """
    note = NotePath(path)
    try:
        file = None if is_folder(scope, note) else read_text_file(scope, note)
    except (PathRefused, TooLarge, Conflict):
        return ""
    return file.digest if file else None


class StateReader:
    """Reads what the disk holds of each target, and remembers of each whether its change had
    happened.

    `happened` says so beforehand, by the target's number, where it is known.
    """

    def __init__(self, scope: Scope, change_set: ChangeSet, happened: Mapping[int, bool]) -> None:
        self._scope = scope
        self._targets = change_set.targets
        self._happened = dict(happened)

    def __call__(self) -> list[TargetState]:
        return [self._read(at) for at in range(len(self._targets))]

    def _read(self, at: int) -> TargetState:
        state = find_state(self._scope, self._targets[at])
        if state is TargetState.CHANGED and at in self._happened:
            return TargetState.CHANGED_NEW if self._happened[at] else TargetState.CHANGED_OLD
        if state is not TargetState.CHANGED:
            self._happened[at] = state in HAPPENED
        return state


def find_state(scope: Scope, target: Change) -> TargetState:
    now = read_digest(scope, target.path)
    if target.old_path is not None:
        return _find_state_of_move(read_digest(scope, target.old_path), now, target)
    if now == target.new_digest:
        return TargetState.NEW
    return TargetState.OLD if now == target.old_digest else TargetState.CHANGED


def _find_state_of_move(at_old: str | None, at_new: str | None, target: Change) -> TargetState:
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


# --- changing it ----------------------------------------------------------------------------------


def _change(
    scope: Scope, target: Change, texts: Mapping[str, bytes], direction: Direction, keep: KeepText
) -> None:
    """Give one target its new text, or its old. Raises Conflict if another program changed it since
    its state was read.
    """
    is_forward = direction is Direction.COMPLETE
    if target.old_path is not None:
        old, new = NotePath(target.old_path), NotePath(target.path)
        rename_path(scope, *((old, new) if is_forward else (new, old)))
        return
    before, after = target.old_digest, target.new_digest
    _write(
        scope,
        NotePath(target.path),
        texts,
        *((before, after) if is_forward else (after, before)),
        keep=keep,
    )


def _write(
    scope: Scope,
    path: NotePath,
    texts: Mapping[str, bytes],
    before: str | None,
    after: str | None,
    *,
    keep: KeepText,
) -> None:
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
        put_text_file(scope, path, texts[after], was=was, keep=keep)
    elif was is not None:
        delete_path(scope, path, was={path: was}, keep=keep)
