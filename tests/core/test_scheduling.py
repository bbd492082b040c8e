from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.scheduling import (
    StallPolicy,
    Step,
    choose_key,
    describe_stall,
    find_next_check_s,
    find_overdue,
    find_stalled,
)

POLICY = StallPolicy(takeover_s=2.0, stalled_s=10.0)
KEYS = st.sampled_from("abcdef")
TIMES = st.floats(0, 1000)
WAITING = st.dictionaries(KEYS, st.booleans()).map(lambda waiting: list(waiting.items()))
RUNNING = st.dictionaries(KEYS, st.builds(Step, TIMES, st.booleans()))


@given(WAITING, st.frozensets(KEYS))
def test_a_key_that_runs_is_never_chosen_and_one_that_waits_always(
    waiting: list[tuple[str, bool]], running: frozenset[str]
) -> None:
    free = [key for key, _ in waiting if key not in running]
    chosen = choose_key(waiting, running)
    assert chosen in free if free else chosen is None


@given(WAITING, st.frozensets(KEYS))
def test_the_first_urgent_key_goes_first_else_the_first(
    waiting: list[tuple[str, bool]], running: frozenset[str]
) -> None:
    free = [(key, is_urgent) for key, is_urgent in waiting if key not in running]
    urgent = [key for key, is_urgent in free if is_urgent]
    wanted = urgent[0] if urgent else next((key for key, _ in free), None)
    assert choose_key(waiting, running) == wanted


@given(RUNNING, TIMES)
def test_a_step_is_detached_once_and_only_after_its_limit(
    running: dict[str, Step], now_s: float
) -> None:
    overdue = find_overdue(running, now_s, POLICY)
    for key, step in running.items():
        assert (key in overdue) == (
            not step.is_detached and now_s - step.since_s >= POLICY.takeover_s
        )


@given(RUNNING, TIMES)
def test_a_stalled_step_was_detached_before(running: dict[str, Step], now_s: float) -> None:
    for key, since_s in find_stalled(running, now_s, POLICY).items():
        assert running[key].since_s == since_s
        assert running[key].is_detached or key in find_overdue(running, now_s, POLICY)


@given(RUNNING, TIMES)
def test_the_next_check_comes_in_time_for_every_limit_and_never_at_once_again(
    running: dict[str, Step], now_s: float
) -> None:
    steps = {key: step for key, step in running.items() if step.since_s <= now_s}
    delay_s = find_next_check_s(steps.values(), now_s, POLICY)
    assert 0 < delay_s <= POLICY.takeover_s
    for step in steps.values():
        for limit_s in (POLICY.takeover_s, POLICY.stalled_s):
            age_s = now_s - step.since_s
            assert age_s >= limit_s or age_s + delay_s <= limit_s + 1e-6


def test_a_stalled_disk_is_described_with_its_folder_and_duration() -> None:
    message = describe_stall("/home/ann/notes", 42.4)
    assert message.startswith("the disk under /home/ann/notes has not answered for 42 s: ")
    assert "check the mount" in message
