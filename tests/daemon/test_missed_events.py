"""Changes without events are found by reconciles, counted, and reported; changes with events are
not counted.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home, Place

    MakePlace = Callable[..., Place]

RECONCILE_S = 0.2
SAVING_S = 1.2
# The time that an event may take without counting as missed.
LATE_S = 1.0


@pytest.fixture(scope="module")
def daemon(home: Home) -> Iterator[Daemon]:
    """A daemon that reconciles five times a second instead of every half minute."""
    home.config.write_text(f"[sync]\nreconcile_s = {RECONCILE_S}\n")
    daemon = home.start()
    yield daemon
    assert daemon.stop() == 0, home.read_log()


def test_changes_without_events_are_found_by_reconciles_and_reported(place: Place) -> None:
    """A hard link that is written by its other name causes no event in the workspace."""
    other = place.outside / "other.md"
    other.write_text("# Other\n\nversion0\n")
    os.link(other, place.root / ".memories" / "hard.md")
    place.wait_found("version0", ".memories/hard.md")
    assert place.status()["watcher"] == "inotify"
    numbers = itertools.count(1)

    def is_said() -> bool:
        number = next(numbers)
        other.write_text(f"# Other\n\nversion{number}\n")
        place.wait_found(f"version{number}", ".memories/hard.md")
        return any("no event announced" in reason for reason in place.status()["reasons"])

    place.wait(is_said, "nobody says that events cannot be relied on")
    status = place.status()
    assert (status["watcher"], status["state"]) == ("timed", "degraded")
    # The scans after a watcher was rebuilt found some more.
    assert status["missed_events"] >= 6


def test_missed_changes_are_reported_although_other_folders_have_events(
    place: Place,
) -> None:
    other = place.outside / "other.md"
    other.write_text("# Other\n\nversion0\n")
    (place.root / ".memories" / "silent").mkdir()
    place.wait_equal()
    os.link(other, place.root / ".memories" / "silent" / "hard.md")
    place.wait_found("version0", ".memories/silent/hard.md")
    numbers = itertools.count(1)

    def is_said() -> bool:
        number = next(numbers)
        (place.root / ".memories" / "loud.md").write_text(f"# Loud\n\nsaved{number}\n")
        place.wait_found(f"saved{number}", ".memories/loud.md")
        # A timed scan that finds nothing in between.
        time.sleep(2 * RECONCILE_S)
        other.write_text(f"# Other\n\nversion{number}\n")
        place.wait_found(f"version{number}", ".memories/silent/hard.md")
        return any("no event announced" in reason for reason in place.status()["reasons"])

    place.wait(is_said, "nobody says that events cannot be relied on")
    assert "watch_rebuilt" in place.home.read_log()


def test_changes_with_events_are_not_counted_as_missed(place: Place) -> None:
    began_s, number = time.monotonic(), 0
    while time.monotonic() - began_s < SAVING_S:
        number += 1
        aside = place.root / ".memories" / "note.tmp"
        aside.write_text(f"# Note\n\nversion{number}\n")
        aside.rename(place.root / ".memories" / f"note{number % 5}.md")
        (place.root / ".memories" / f"note{(number + 2) % 5}.md").unlink(missing_ok=True)
        time.sleep(0.01)
    place.wait_equal()
    status = place.status()
    assert status["missed_events"] == 0
    assert (status["watcher"], status["state"]) == ("inotify", "ready")


def test_changes_found_before_their_events_are_not_counted_as_missed(place: Place) -> None:
    """Clients wait for the disk all the time, and folders move, which the system reports late."""
    is_over = threading.Event()

    def ask() -> None:
        with place.daemon.client() as client:
            while not is_over.wait(0.01):
                client.call("search", query="version", workspace=place.id, wait="disk")

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    began_s, number = time.monotonic(), 0
    while time.monotonic() - began_s < SAVING_S:
        number += 1
        folder = place.root / ".memories" / f"f{number % 3}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number % 7}.md").write_text(f"# Note\n\nversion{number}\n")
        if number % 20 == 0:
            folder.rename(folder.with_name(f"g{number}"))
        time.sleep(0.005)
    is_over.set()
    for thread in asking:
        thread.join()
    place.wait_equal()
    time.sleep(LATE_S + 0.5)
    status = place.status()
    assert status["missed_events"] == 0
    assert (status["watcher"], status["state"]) == ("inotify", "ready")
