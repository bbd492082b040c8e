"""Decides whether a change set of which a part has happened is completed or rolled back.

A change set is all or nothing. Its targets change one after another: where one has happened, so
have those before it, and where one has not, neither have those after it. What another program wrote
is never replaced, which may leave only one direction, or none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

import msgspec


class TargetState(Enum):
    """What the disk holds where a change set changes one note."""

    OLD = "old"
    """The text from before: the change has not happened."""
    NEW = "new"
    """The text that the change set writes: the change has happened."""
    CHANGED_OLD = "changed_old"
    """A text of another program, which replaced the old one: the change has not happened."""
    CHANGED_NEW = "changed_new"
    """A text of another program, which replaced the new one: the change has happened."""
    CHANGED = "changed"
    """A text of another program; which one it replaced is not known."""


class Direction(Enum):
    COMPLETE = "complete"
    ROLL_BACK = "roll_back"
    REPORT = "report"


HAPPENED = frozenset({TargetState.NEW, TargetState.CHANGED_NEW})
NOT_HAPPENED = frozenset({TargetState.OLD, TargetState.CHANGED_OLD})


class RecoveryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The direction, the states as far as they can be resolved, and the targets (by number) whose
    state is uncertain.
    """

    direction: Direction
    states: tuple[TargetState, ...]
    uncertain: tuple[int, ...] = ()


def plan_recovery(
    states: Sequence[TargetState], refused: Collection[Direction] = ()
) -> RecoveryPlan:
    """Choose the direction for targets in the order in which they change.

    No client was told that an unfinished change set has happened, so it is rolled back, unless
    nothing of it is missing. It is completed where another program has built on a part of it, and
    reported where others have changed both a target that has happened and one that has not. A
    single target is never half done, and so never uncertain. A direction that the system has
    refused is planned only where the other is not possible.
    """
    # What another program's text replaced is told by its neighbours, if they do not contradict.
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
    """True if every target that has not happened still holds its old text, as far as can be
    resolved.
    """
    return TargetState.CHANGED_OLD not in states


def can_roll_back(states: Sequence[TargetState]) -> bool:
    """True if every target that has happened still holds its new text, as far as is known."""
    return TargetState.CHANGED_NEW not in states


def find_to_change(direction: Direction, states: Sequence[TargetState]) -> list[int]:
    """The targets that the direction still has to change, in the order in which it does.

    A rollback goes backwards: a kill in the middle of either leaves what has happened in front.
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
