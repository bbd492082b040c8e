"""Which of FSEvents' losses does watchdog keep to itself? The flags that say: events were dropped, look for yourself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdog.observers.api import BaseObserver
from watchdog.observers.fsevents import DEFAULT_FSEVENTS_LATENCY, FSEventsEmitter, FSEventsObserver

from memsyncd.watch.doubts import OnDoubt

if TYPE_CHECKING:
    from watchdog.utils import Seconds

LOSSES = ("must_scan_subdirs", "is_user_dropped", "is_kernel_dropped", "is_root_changed", "is_unmount")


class MacEmitter(FSEventsEmitter):
    """One watch's stream of events."""

    def __init__(self, *args: Any, on_doubt: OnDoubt, **options: Any) -> None:
        super().__init__(*args, **options)
        self._on_doubt = on_doubt

    def queue_events(self, timeout: Seconds, events: list[Any]) -> None:  # type: ignore[override]
        lost = sorted({flag for event in events for flag in LOSSES if getattr(event, flag, False)})
        super().queue_events(timeout, events)
        if lost:
            self._on_doubt(f"FSEvents says {', '.join(lost)}")


class MacObserver(FSEventsObserver):
    system = "fsevents"

    def __init__(self, on_doubt: OnDoubt) -> None:
        # Past the parent's own: it would take its emitter and forward nothing to it.
        BaseObserver.__init__(self, MacEmitter, latency=DEFAULT_FSEVENTS_LATENCY, on_doubt=on_doubt)
