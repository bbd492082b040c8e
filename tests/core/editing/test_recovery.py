"""An interrupted change set is completed or rolled back as a whole, and the text of another program
is never overwritten.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.editing.recovery import (
    HAPPENED,
    NOT_HAPPENED,
    Direction,
    TargetState,
    find_to_change,
    plan_recovery,
)

OLD, NEW, CHANGED_OLD, CHANGED_NEW, CHANGED = TargetState
COMPLETE, ROLL_BACK, REPORT = Direction
STATES = st.lists(st.sampled_from(TargetState), min_size=1, max_size=8)


@st.composite
def interrupted(draw: st.DrawFn) -> list[TargetState]:
    """States after a kill and later writes of other programs: the first targets have changed, the
    rest have not.
    """
    n_happened, n_rest = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    happened = draw(
        st.lists(
            st.sampled_from([NEW, CHANGED_NEW, CHANGED]), min_size=n_happened, max_size=n_happened
        )
    )
    rest = draw(
        st.lists(st.sampled_from([OLD, CHANGED_OLD, CHANGED]), min_size=n_rest, max_size=n_rest)
    )
    return [*happened, *rest] or [OLD]


def test_each_combination_of_states_has_its_direction() -> None:
    for states, direction in (
        ([OLD], ROLL_BACK),
        ([NEW], COMPLETE),
        ([CHANGED], COMPLETE),
        ([CHANGED_OLD], ROLL_BACK),
        ([NEW, NEW, NEW], COMPLETE),
        ([OLD, OLD, OLD], ROLL_BACK),
        ([NEW, NEW, OLD], ROLL_BACK),
        ([NEW, OLD, CHANGED], ROLL_BACK),
        ([CHANGED, NEW, OLD], COMPLETE),
        ([CHANGED, NEW, OLD, CHANGED], REPORT),
        ([NEW, CHANGED, OLD], ROLL_BACK),
        ([CHANGED_NEW, OLD], COMPLETE),
        ([CHANGED_NEW, CHANGED_OLD], REPORT),
    ):
        assert plan_recovery(states).direction is direction, states


def test_a_refused_direction_is_replaced_by_the_other_if_possible() -> None:
    assert plan_recovery([NEW, OLD], [ROLL_BACK]).direction is COMPLETE
    assert plan_recovery([CHANGED_NEW, OLD], [COMPLETE]).direction is COMPLETE
    assert plan_recovery([NEW, CHANGED_OLD], [ROLL_BACK]).direction is ROLL_BACK


def test_only_a_text_that_other_targets_do_not_explain_is_uncertain() -> None:
    assert plan_recovery([NEW, CHANGED, OLD]).uncertain == (1,)
    assert plan_recovery([CHANGED, NEW, OLD, CHANGED]).uncertain == ()
    assert plan_recovery([CHANGED]).uncertain == ()


def carry_out(states: list[TargetState], direction: Direction, n_steps: int) -> list[TargetState]:
    """The states after the first `n_steps` steps of the direction."""
    after = list(states)
    for at in find_to_change(direction, states)[:n_steps]:
        after[at] = NEW if direction is COMPLETE else OLD
    return after


@given(states=STATES)
def test_a_change_set_ends_complete_except_for_uncertain_or_reported_targets(
    states: list[TargetState],
) -> None:
    plan = plan_recovery(states)
    after = carry_out(list(plan.states), plan.direction, len(states))
    if plan.direction is COMPLETE:
        assert not NOT_HAPPENED.intersection(after)
    elif plan.direction is ROLL_BACK:
        assert not HAPPENED.intersection(after)
    else:
        assert {CHANGED_OLD, CHANGED_NEW} <= set(plan.states)


@given(states=STATES)
def test_text_that_another_program_wrote_is_never_changed(states: list[TargetState]) -> None:
    plan = plan_recovery(states)
    assert {states[at] for at in find_to_change(plan.direction, plan.states)} <= {OLD, NEW}


@given(states=interrupted(), n_steps=st.integers(0, 10))
def test_a_kill_during_recovery_does_not_change_its_result(
    states: list[TargetState], n_steps: int
) -> None:
    first = plan_recovery(states)
    halfway = carry_out(states, first.direction, n_steps)
    second = plan_recovery(halfway)
    end = carry_out(list(first.states), first.direction, len(states))
    assert is_ours(carry_out(list(second.states), second.direction, len(states))) == is_ours(end)


def is_ours(states: list[TargetState]) -> list[TargetState | None]:
    """The states of our own texts; None for a text of another program."""
    return [state if state in (OLD, NEW) else None for state in states]


@given(states=interrupted())
def test_the_text_derived_from_other_targets_is_right_for_any_interruption(
    states: list[TargetState],
) -> None:
    """It agrees with every possible number of changed targets."""
    reported = plan_recovery(states).states
    for n_happened in range(len(states) + 1):
        sides = [states[:n_happened], states[n_happened:]]
        if NOT_HAPPENED.intersection(sides[0]) or HAPPENED.intersection(sides[1]):
            continue
        assert not NOT_HAPPENED.intersection(reported[:n_happened])
        assert not HAPPENED.intersection(reported[n_happened:])
