from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from tests.watch.conftest import WAIT_S
from tests.watch.faults import find_reader

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)

from memsyncd.watch import inotify_reader


class Calls:
    """Deferred calls, and the threads that made them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.threads: list[threading.Thread] = []
        self._changed = threading.Condition()

    def add(self, name: str) -> None:
        with self._changed:
            self.names.append(name)
            self.threads.append(threading.current_thread())
            self._changed.notify_all()

    def wait_for(self, name: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: name in self.names, WAIT_S)


def test_a_call_is_deferred_on_the_reader_s_thread_and_made_at_once_on_another(
    watched: Any,
) -> None:
    calls, watcher = Calls(), watched.watcher
    defer_on_events(watched, calls)
    (watched.root / "MEMORY.md").write_text("one")
    calls.wait_for("deferred")
    assert calls.names[0] == "event", "a deferred call was made before its handler returned"
    deferred = calls.threads[calls.names.index("deferred")]
    assert deferred is find_reader(watcher)
    watcher.defer(lambda: calls.add("here"))
    assert calls.threads[calls.names.index("here")] is threading.current_thread()


def test_deferred_calls_are_made_when_the_reader_ends(
    watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify_reader, "DEFER_MS", 1_000_000)
    calls, watcher = Calls(), watched.watcher
    defer_on_events(watched, calls)
    (watched.root / "MEMORY.md").write_text("one")
    calls.wait_for("event")
    watcher.stop()
    watched.recorder.wait_until(lambda: calls.names.count("event") == calls.names.count("deferred"))


def defer_on_events(watched: Any, calls: Calls) -> None:
    """Make each event defer a call."""

    def on_event(*_event: object) -> None:
        watched.watcher.defer(lambda: calls.add("deferred"))
        calls.add("event")

    watched.watcher._on_event = on_event
