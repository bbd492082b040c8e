from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.server.limits import Job, Turns

ACTS = st.lists(st.tuples(st.sampled_from(["submit", "release", "forget"]), st.integers(0, 3)), max_size=60)


@given(ACTS, st.integers(1, 3))
def test_every_job_is_started_or_dropped_once_and_never_too_many_at_once(acts: list[tuple[str, int]], max_running: int) -> None:
    turns = Turns(max_running)
    seen: list[tuple[str, int]] = []
    n_submitted = n_running = 0
    for act, owner in acts:
        if act == "submit":
            number, n_submitted = n_submitted, n_submitted + 1
            turns.submit(owner, Job(lambda n=number: seen.append(("start", n)), lambda n=number: seen.append(("drop", n))))
        elif act == "release" and n_running:
            turns.release()
            n_running -= 1
        elif act == "forget":
            turns.forget(owner)
        n_started = sum(kind == "start" for kind, _ in seen)
        n_running = turns.n_running
        assert n_running <= max_running
        assert n_started <= n_submitted
        assert n_running == max_running or not turns.n_waiting
    turns.forget_all()
    numbers = [number for _, number in seen]
    assert sorted(numbers) == list(range(n_submitted))


def test_owners_take_turns() -> None:
    turns = Turns(1)
    seen: list[str] = []
    for name in ["a1", "a2", "a3", "b1", "b2", "c1"]:
        turns.submit(name[0], Job(lambda name=name: seen.append(name), lambda: None))
    for _ in range(5):
        turns.release()
    assert seen == ["a1", "a2", "b1", "c1", "a3", "b2"]
