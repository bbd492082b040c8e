"""How the reader treats the events that it has read."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)

from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, WatchDescriptor

from memsyncd.watch.inotify_reader import leave_out_replaced
from tests.watch.faults import OVERFLOW

MASKS = (InotifyConstants.IN_MODIFY, InotifyConstants.IN_DELETE, InotifyConstants.IN_IGNORED)
EVENTS = st.one_of(
    st.just(OVERFLOW),
    st.builds(
        InotifyEvent,
        st.integers(1, 3).map(WatchDescriptor),
        st.sampled_from(MASKS),
        st.just(0),
        st.sampled_from((b"a.md", b"b.md")),
    ),
)


@given(st.lists(EVENTS, max_size=20))
def test_events_after_the_last_overflow_and_the_ends_of_watches_are_kept(
    events: list[InotifyEvent],
) -> None:
    kept = leave_out_replaced(events)
    n_overflows = sum(event.is_queue_overflow for event in events)
    assert sum(event.is_queue_overflow for event in kept) == min(n_overflows, 1)
    if not n_overflows:
        assert kept == events
        return
    last = len(events) - 1 - events[::-1].index(OVERFLOW)
    ended = [event for event in events[:last] if event.is_ignored]
    assert kept == [*ended, *events[last:]]


CLOSED = InotifyConstants.IN_CLOSE_WRITE


@given(st.lists(EVENTS | EVENTS.map(lambda event: replace(event, mask=CLOSED)), max_size=20))
def test_only_changes_that_a_later_end_of_writing_covers_are_left_out(
    events: list[InotifyEvent],
) -> None:
    events = [event for event in events if not event.is_queue_overflow]
    kept = leave_out_replaced(events)

    expected = [
        event
        for at, event in enumerate(events)
        if not event.is_modify or replace(event, mask=CLOSED) not in events[at + 1 :]
    ]
    assert kept == expected
