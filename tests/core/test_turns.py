from __future__ import annotations

import itertools
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.turns import (
    MAX_PASSED_OVER,
    QUICK_S,
    FairQueue,
    Flow,
    Pauses,
    StallPolicy,
    Started,
    Step,
    choose_key,
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
def test_the_first_urgent_key_goes_first_else_the_first(
    waiting: list[tuple[str, bool]], running: frozenset[str]
) -> None:
    free = [(key, is_urgent) for key, is_urgent in waiting if key not in running]
    urgent = [key for key, is_urgent in free if is_urgent]
    expected = urgent[0] if urgent else next((key for key, _ in free), None)
    assert choose_key(waiting, running) == expected


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


Numbered = tuple[int, int]
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "finish", "remove", "clear"]),
        st.integers(0, 4),
        st.sampled_from([None, 0.001, 1.0]),
    ),
    max_size=80,
)


def start_all(queue: FairQueue[Numbered]) -> list[Started[Numbered]]:
    return list(iter(queue.start_next, None))


@given(ACTIONS, st.integers(1, 4), st.sampled_from([None, 1, 4]))
def test_every_job_starts_once_in_its_clients_order_or_is_taken_out_and_no_slot_is_left_empty(
    actions: list[tuple[str, int, float | None]], n_slots: int, n_slow_slots: int | None
) -> None:
    queue: FairQueue[Numbered] = FairQueue(n_slots, n_slow_slots=n_slow_slots)
    most_slow = max(1, n_slots - 1) if n_slow_slots is None else n_slow_slots
    flows: list[Flow[Numbered]] = [Flow() for _ in range(5)]
    running: list[Started[Numbered]] = []
    started: list[Numbered] = []
    removed: list[Numbered] = []
    n_pushed = 0
    for action, owner, took_s in actions:
        flow = flows[owner]
        if action == "push":
            queue.push(flow, (owner, n_pushed))
            n_pushed += 1
        elif action == "finish" and running:
            queue.finish(running.pop(owner % len(running)), took_s)
        elif action == "remove" and flow.waiting:
            removed.append(flow.waiting[-1])
            assert queue.remove(flow, flow.waiting[-1])
            assert not queue.remove(flow, removed[-1])
        elif action == "clear":
            removed += queue.clear(flow)
        more = start_all(queue)
        running += more
        started += [job.job for job in more]
        assert queue.n_running == len(running) <= n_slots
        assert sum(job.was_slow for job in running) <= most_slow
        assert [flow.n_running for flow in flows] == [
            sum(job.flow is flow for job in running) for flow in flows
        ]
        if queue.n_waiting and len(running) < n_slots:
            assert all(flow.is_slow for flow in flows if flow.waiting)
            assert sum(job.was_slow for job in running) == most_slow
    removed += queue.clear_all()
    assert queue.n_waiting == 0
    assert sorted(started + removed) == sorted({*started, *removed})
    assert len(started) + len(removed) == n_pushed
    by_owner = defaultdict(list)
    for owner, number in started:
        by_owner[owner].append(number)
    assert all(numbers == sorted(numbers) for numbers in by_owner.values())


@given(
    st.lists(st.sampled_from([0.001, QUICK_S, 0.05, 2.0]), min_size=1, max_size=12),
    st.integers(1, 3),
)
def test_a_client_with_waiting_jobs_starts_one_within_a_bounded_number_of_starts(
    costs_s: list[float], n_slots: int
) -> None:
    queue: FairQueue[Numbered] = FairQueue(n_slots)
    flows: list[Flow[Numbered]] = [Flow(expected_s=cost_s) for cost_s in costs_s]
    running: list[Started[Numbered]] = []
    starts: list[int] = []
    for owner, flow in enumerate(flows):
        for number in range(3):
            queue.push(flow, (owner, number))
    bound = (MAX_PASSED_OVER + 1) * len(flows) + n_slots
    for _ in range(3 * bound):
        for job in start_all(queue):
            owner = job.job[0]
            starts.append(owner)
            queue.push(job.flow, (owner, job.job[1] + 3))
            running.append(job)
        oldest = running.pop(0)
        queue.finish(oldest, costs_s[oldest.job[0]])
    for owner in range(len(flows)):
        at = [-1, *(index for index, started in enumerate(starts) if started == owner), len(starts)]
        assert max(later - earlier for earlier, later in itertools.pairwise(at)) <= bound


@given(st.integers(1, 60), st.integers(1, 30), st.integers(2, 4))
def test_a_quick_client_starts_at_once_or_with_the_first_slot_among_any_number_of_slow_ones(
    n_slow: int, n_jobs: int, n_slots: int
) -> None:
    queue: FairQueue[Numbered] = FairQueue(n_slots)
    for owner in range(n_slow):
        flow: Flow[Numbered] = Flow(expected_s=1.0)
        for number in range(n_jobs):
            queue.push(flow, (owner, number))
    assert len(start_all(queue)) == min(n_slots - 1, n_slow * n_jobs)
    queue.push(Flow(), (-1, 0))
    first = queue.start_next()
    assert first is not None
    assert first.job == (-1, 0)


def drain(queue: FairQueue[str], took_s: float | None = None) -> list[str]:
    """Start and end all jobs, one after another; return them in their order."""
    jobs = []
    while (started := queue.start_next()) is not None:
        jobs.append(started.job)
        queue.finish(started, took_s)
    return jobs


def test_a_new_client_with_many_jobs_waits_for_a_new_client_with_one() -> None:
    queue: FairQueue[str] = FairQueue(1)
    many: Flow[str] = Flow()
    one: Flow[str] = Flow()
    for job in ("m1", "m2", "m3"):
        queue.push(many, job)
    queue.push(one, "o1")
    jobs = drain(queue)
    assert jobs == ["o1", "m1", "m2", "m3"]


def test_slow_clients_take_turns() -> None:
    queue: FairQueue[str] = FairQueue(1)
    flows: dict[str, Flow[str]] = {name: Flow(expected_s=1.0) for name in "abc"}
    for name, n_jobs in (("a", 30), ("b", 6), ("c", 10)):
        for number in range(n_jobs):
            queue.push(flows[name], f"{name}{number}")
    jobs = drain(queue, 1.0)
    assert jobs[:12] == [f"{name}{number}" for number in range(4) for name in "abc"]
    assert len(jobs) == 46


def test_a_client_with_somewhat_long_jobs_does_not_wait_for_clients_with_many_jobs() -> None:
    queue: FairQueue[str] = FairQueue(1)
    for name in "abc":
        # The cost of the last one is unknown yet, although it has sent many.
        flow: Flow[str] = Flow(expected_s=None if name == "c" else 0.05)
        for number in range(30):
            queue.push(flow, f"{name}{number}")
    first = queue.start_next()
    assert first is not None
    queue.push(Flow(expected_s=0.045), "light")
    queue.finish(first, 0.05)
    second = queue.start_next()
    assert second is not None
    assert second.job == "light"


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1)), max_size=30))
def test_a_read_runs_at_least_as_long_as_it_has_paused(waits: list[tuple[float, float]]) -> None:
    pauses, now_s, paused_s, last_s = Pauses(), 0.0, 0.0, 0.0
    for ran_s, short_s in waits:
        now_s += ran_s
        if pauses.may_begin(now_s):
            # All pauses but the last have been made up for.
            assert now_s - paused_s >= paused_s - 1e-6
            pauses.note(now_s, now_s + short_s)
            now_s, paused_s, last_s = now_s + short_s, paused_s + short_s, short_s
    assert paused_s <= now_s / 2 + last_s + 1e-6


def test_a_read_that_has_not_paused_may_pause_at_once() -> None:
    pauses = Pauses()
    assert pauses.may_begin(7.0)
    pauses.note(7.0, 7.5)
    assert not pauses.may_begin(7.9)
    assert pauses.may_begin(8.0)
