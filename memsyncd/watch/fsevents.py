"""Report lost events of FSEvents: watchdog ignores the flags that mean "events were dropped".

It is a module of its own because it can be imported on macOS only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdog.observers.api import BaseObserver
from watchdog.observers.fsevents import DEFAULT_FSEVENTS_LATENCY, FSEventsEmitter, FSEventsObserver

from memsyncd.watch.health import OnEventsLost

if TYPE_CHECKING:
    from watchdog.utils import Seconds

LOSS_FLAGS = (
    "must_scan_subdirs",
    "is_user_dropped",
    "is_kernel_dropped",
    "is_root_changed",
    "is_unmount",
)


class MacEmitter(FSEventsEmitter):
    """The event stream of one watch."""

    def __init__(self, *args: Any, on_events_lost: OnEventsLost, **options: Any) -> None:
        super().__init__(*args, **options)
        self._on_events_lost = on_events_lost

    def queue_events(self, timeout: Seconds, events: list[Any]) -> None:  # type: ignore[override]
        flags = sorted(
            {flag for event in events for flag in LOSS_FLAGS if getattr(event, flag, False)}
        )
        super().queue_events(timeout, events)
        if flags:
            self._on_events_lost(f"FSEvents reports {', '.join(flags)}")


class MacObserver(FSEventsObserver):
    """An FSEvents stream for each watch, and a single thread that dispatches."""

    system = "fsevents"

    def __init__(self, on_events_lost: OnEventsLost) -> None:
        # The parent's __init__ would choose another emitter and pass no options to it.
        BaseObserver.__init__(
            self, MacEmitter, latency=DEFAULT_FSEVENTS_LATENCY, on_events_lost=on_events_lost
        )
