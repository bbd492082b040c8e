"""A backlog handles its items in order, on the threads that it gets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from memsyncd.watch import health
from memsyncd.watch.health import AT_A_TIME, Backlog


class Calls:
    """Calls that wait until the test makes them."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[], None], str]] = deque()

    def run_later(self, call: Callable[[], None], key: str) -> None:
        self.waiting.append((call, key))

    def make_next(self) -> None:
        self.waiting.popleft()[0]()


def test_items_are_handled_in_order_by_one_call_at_a_time() -> None:
    calls, handled, losses = Calls(), list[int](), list[str]()
    items = Backlog(
        handled.append, key="a", run_later=calls.run_later, on_events_lost=losses.append
    )
    assert items.is_idle
    for number in range(3):
        items.put(number)
    assert not items.is_idle
    assert [key for _, key in calls.waiting] == ["a"]
    calls.make_next()
    assert (handled, items.is_idle, losses) == ([0, 1, 2], True, [])


def test_a_long_backlog_takes_turns_with_others() -> None:
    calls, handled = Calls(), list[str]()
    for key in ("a", "b"):
        items = Backlog(
            handled.append, key=key, run_later=calls.run_later, on_events_lost=handled.append
        )
        for _ in range(AT_A_TIME + 1):
            items.put(key)
    while calls.waiting:
        calls.make_next()
    assert handled == ["a"] * AT_A_TIME + ["b"] * AT_A_TIME + ["a", "b"]


def test_an_item_that_fails_is_a_loss_and_those_behind_it_are_handled() -> None:
    calls, handled, losses = Calls(), list[str](), list[str]()

    def handle(item: str) -> None:
        if item == "bad":
            raise RuntimeError("no")
        handled.append(item)

    items = Backlog(handle, key="a", run_later=calls.run_later, on_events_lost=losses.append)
    items.put("bad")
    items.put("good")
    calls.make_next()
    assert (handled, losses) == (["good"], ["an event was lost: RuntimeError('no')"])


def test_a_backlog_behind_a_hung_disk_does_not_grow_without_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "LIMIT", 3)
    calls, handled, losses = Calls(), list[int](), list[str]()
    items = Backlog(
        handled.append, key="a", run_later=calls.run_later, on_events_lost=losses.append
    )
    for number in range(5):
        items.put(number)
    calls.make_next()
    assert handled == [3, 4]
    assert len(losses) == 1
