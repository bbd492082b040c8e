"""A workspace that is really watched, and a recorder of its events."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memsyncd.core.changes.watchplan import NO_INCLUDES, Includes, plan_watches
from memsyncd.engine.worker import WorkerPool
from memsyncd.watch.health import RunLater
from memsyncd.watch.watcher import Plan, Watcher

Event = tuple[str, str, bool, bool]
WAIT_S = 45.0


class Recorder:
    """Records events and reports of lost events, and waits for them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.losses: list[str] = []
        self._changed = threading.Condition()

    def on_event(self, workspace_id: str, path: str, is_finished: bool, is_folder: bool) -> None:
        with self._changed:
            self.events.append((workspace_id, path, is_finished, is_folder))
            self._changed.notify_all()

    def on_events_lost(self, reason: str) -> None:
        with self._changed:
            self.losses.append(reason)
            self._changed.notify_all()

    def clear(self) -> None:
        with self._changed:
            self.events.clear()
            self.losses.clear()

    def wait(self, is_there: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(is_there, WAIT_S), (
                f"there were only {self.events} and {self.losses}"
            )

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a condition that has no event."""
        deadline_s = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < deadline_s, f"there were only {self.events} and {self.losses}"
            time.sleep(0.01)

    def wait_for_event(
        self, path: str, *, workspace_id: str = "ws", is_finished: bool | None = None
    ) -> None:
        """Wait until there is an event for this path."""
        self.wait(
            lambda: any(
                event[:2] == (workspace_id, path) and is_finished in (None, event[2])
                for event in self.events
            )
        )

    def wait_for_loss(self, part: str) -> None:
        """Wait for a report of lost events with this text."""
        self.wait(lambda: any(part in reason for reason in self.losses))

    def paths(self) -> set[str]:
        with self._changed:
            return {event[1] for event in self.events}


def is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


class Watched:
    """A workspace of a watcher."""

    def __init__(
        self, watcher: Watcher, recorder: Recorder, root: Path, *, workspace_id: str = "ws"
    ) -> None:
        self.watcher, self.recorder, self.root, self.workspace_id = (
            watcher,
            recorder,
            root,
            workspace_id,
        )
        self.includes = NO_INCLUDES

    def plan(self, *patterns: str, link_folders: tuple[str, ...] = ()) -> bool:
        """Plan by the folders that exist now and watch them, as the daemon does after lost events."""
        if patterns:
            self.includes = Includes.parse(patterns)
        watches = plan_watches(
            str(self.root), self.includes, is_folder=is_folder, link_folders=link_folders
        )
        return self.workspace_id in self.watcher.set_plans(
            {self.workspace_id: Plan(str(self.root), watches)}
        )

    def expect_event(self, path: str) -> None:
        """Write to this path, which may exist, and wait for the event."""
        self.recorder.clear()
        (self.root / path).write_text("another line\n")
        self.recorder.wait_for_event(path, workspace_id=self.workspace_id)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def run_later() -> Iterator[RunLater]:
    """Threads for the calls that follow an event; one of two may hang."""
    pool = WorkerPool("folders", 2)
    yield pool.call
    assert pool.stop(WAIT_S)


@pytest.fixture
def watcher(recorder: Recorder, run_later: RunLater) -> Iterator[Watcher]:
    watcher = Watcher(recorder.on_event, recorder.on_events_lost, run_later)
    yield watcher
    watcher.stop()


@pytest.fixture
def watched(watcher: Watcher, recorder: Recorder, tmp_path: Path) -> Watched:
    """A workspace with memories, watched."""
    root = tmp_path.resolve() / "proj"
    (root / ".memories").mkdir(parents=True)
    watched = Watched(watcher, recorder, root)
    assert watched.plan()
    return watched
