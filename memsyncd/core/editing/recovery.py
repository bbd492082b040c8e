"""Decide whether a change set that has happened in part is completed or rolled back.

A change set happens as a whole or not at all. Its targets change one after another: if a target has
changed, so have all targets before it; if it has not, neither have the targets after it. A text
that another program wrote is never replaced. This may leave only one direction, or none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

import msgspec


class TargetState(Enum):
    """The text that the disk holds at one target of a change set."""

    OLD = "old"
    """The text from before: the change has not happened."""
    NEW = "new"
    """The text that the change set writes: the change has happened."""
    CHANGED_OLD = "changed_old"
    """A text of another program, which replaced the old one: the change has not happened."""
    CHANGED_NEW = "changed_new"
    """A text of another program, which replaced the new one: the change has happened."""
    CHANGED = "changed"
    """A text of another program; it is unknown whether it replaced the old or the new text."""


class Direction(Enum):
    COMPLETE = "complete"
    ROLL_BACK = "roll_back"
    REPORT = "report"


HAPPENED = frozenset({TargetState.NEW, TargetState.CHANGED_NEW})
NOT_HAPPENED = frozenset({TargetState.OLD, TargetState.CHANGED_OLD})


class RecoveryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The direction, the states as far as they can be resolved, and the indices of the targets with
    an uncertain state.
    """

    direction: Direction
    states: tuple[TargetState, ...]
    uncertain: tuple[int, ...] = ()


def plan_recovery(
    states: Sequence[TargetState], refused: Collection[Direction] = ()
) -> RecoveryPlan:
    """Choose the direction. `states` has the targets in the order in which they change.

    No client was told that an unfinished change set has happened. So it is rolled back, unless all
    its targets have changed. It is completed if another program has changed a target after the
    change set did. It is reported if other programs have changed both a target that the change set
    had changed and one that it had not. A single target is never half done, so it is never
    uncertain. A direction that the system has refused is planned only if the other is impossible.
    """
    # The neighbours of another program's text tell which text it replaced, if they agree.
    resolved = tuple(
        _resolve(state, states[:at], states[at + 1 :]) for at, state in enumerate(states)
    )
    uncertain = tuple(at for at, state in enumerate(resolved) if state is TargetState.CHANGED)
    return RecoveryPlan(
        direction=_choose(resolved, refused),
        states=resolved,
        uncertain=uncertain if len(resolved) > 1 else (),
    )


def can_complete(states: Sequence[TargetState]) -> bool:
    """True if every unchanged target still holds its old text, as far as the states are known."""
    return TargetState.CHANGED_OLD not in states


def can_roll_back(states: Sequence[TargetState]) -> bool:
    """True if every changed target still holds its new text, as far as the states are known."""
    return TargetState.CHANGED_NEW not in states


def find_to_change(direction: Direction, states: Sequence[TargetState]) -> list[int]:
    """The indices of the targets that are still to be changed, in the order of their change.

    A rollback goes backwards. So after a kill in the middle of either direction, the changed
    targets still come first.
    """
    if direction is Direction.COMPLETE:
        return [at for at, state in enumerate(states) if state is TargetState.OLD]
    if direction is Direction.ROLL_BACK:
        return [at for at, state in reversed(list(enumerate(states))) if state is TargetState.NEW]
    return []


def _choose(states: Sequence[TargetState], refused: Collection[Direction]) -> Direction:
    if Direction.ROLL_BACK in refused and can_complete(states):
        return Direction.COMPLETE
    if Direction.COMPLETE in refused and can_roll_back(states):
        return Direction.ROLL_BACK
    if not NOT_HAPPENED.intersection(states):
        return Direction.COMPLETE
    if not HAPPENED.intersection(states) or can_roll_back(states):
        return Direction.ROLL_BACK
    return Direction.COMPLETE if can_complete(states) else Direction.REPORT


def _resolve(
    state: TargetState, before: Sequence[TargetState], after: Sequence[TargetState]
) -> TargetState:
    if state is not TargetState.CHANGED:
        return state
    has_happened = bool(HAPPENED.intersection(after))
    has_not_happened = bool(NOT_HAPPENED.intersection(before))
    if has_happened == has_not_happened:
        return state
    return TargetState.CHANGED_NEW if has_happened else TargetState.CHANGED_OLD
