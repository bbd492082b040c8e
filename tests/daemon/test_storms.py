"""Files that are written without pause, and very many at once: the index keeps up, and no client is
delayed.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memsyncd.core.digest import digest_bytes

if TYPE_CHECKING:
    from tests.daemon.conftest import Place, SearchProbe

pytestmark = pytest.mark.shared_daemon

N_VERSIONS = 3
# Guards: a change may wait one second for quiet, and an answer takes 50 ms on an idle machine.
STORM_S = 40.0
# Between two saves: far less than the quiet time.
PAUSE_S = 0.01
ANSWER_S = 15.0


def save_whole(note: Path) -> Iterator[bytes]:
    for number in itertools.count():
        data = f"# Memory\n\nkeepsake in version {number}\n".encode()
        aside = note.with_name("MEMORY.md.tmp.1")
        aside.write_bytes(data)
        aside.rename(note)
        yield data


def append_and_never_close(note: Path) -> Iterator[bytes]:
    data = note.read_bytes()
    with note.open("ab") as stream:
        for number in itertools.count():
            line = f"- keepsake number {number}\n".encode()
            stream.write(line)
            stream.flush()
            data += line
            yield data


def touch_and_save(note: Path) -> Iterator[bytes]:
    """Save like a program that watches its own file: most of its saves change nothing, and empty
    the file for a moment.
    """
    for data in save_whole(note):
        for _ in range(4):
            note.write_bytes(data)
            yield data


@pytest.mark.parametrize(
    "write", [save_whole, append_and_never_close, touch_and_save], ids=lambda write: write.__name__
)
def test_a_note_that_is_written_without_pause_is_indexed_meanwhile(
    write: Callable[[Path], Iterator[bytes]], place: Place, watch_word: Callable[[str], SearchProbe]
) -> None:
    """A change waits for quiet, but not for longer than the cap: the saves end only after several
    versions were indexed.
    """
    written: set[str] = set()
    indexed: set[str] = set()
    began_s = time.monotonic()
    with watch_word("keepsake") as presence:
        for data in write(place.root / "MEMORY.md"):
            written.add(digest_bytes(data))
            indexed |= {place.notes()["MEMORY.md"]} & written
            if len(indexed) == N_VERSIONS:
                break
            assert time.monotonic() - began_s < STORM_S, "it waits for quiet"
            time.sleep(PAUSE_S)
    # A scan may read the file while it is empty, which does not count as its text yet.
    assert presence.longest_absence_s == 0.0
    place.wait_equal()


def test_a_thousand_notes_created_and_deleted_at_once_are_indexed_while_searches_are_answered(
    place: Place,
) -> None:
    for number in range(1000):
        folder = place.root / ".memories" / "many" / f"{number % 40}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.md").write_text(
            f"# Note {number}\n\n" + f"a line of note{number} about many things\n" * 20
        )
    slowest_s = 0.0

    def is_equal() -> bool:
        nonlocal slowest_s
        began_s = time.monotonic()
        assert place.find("keepsake") == {"MEMORY.md"}
        place.status()
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        return place.status()["files"] == 1002

    place.wait(is_equal, "not all were indexed")
    place.wait_equal()
    assert slowest_s < ANSWER_S
    shutil.rmtree(place.root / ".memories" / "many")
    assert place.find("note7 note999", wait="disk") == set()
    place.wait(lambda: place.status()["files"] == 2, "not all went")
    place.wait_equal()


def test_changes_outside_memory_cause_no_work(place: Place) -> None:
    """A build that writes a whole tree of modules, markdown among it: no scan, no new generation."""
    before = place.status()
    for number in range(200):
        folder = place.root / "node_modules" / f"m{number}" / "docs"
        folder.mkdir(parents=True)
        (folder / "README.md").write_text("# Module\n\nkeepsake\n")
    (place.root / "notes.log").write_text("keepsake\n" * 1000)
    assert place.find("keepsake", wait="disk") == {"MEMORY.md"}
    after = place.status()
    assert after["generation"] == before["generation"]
    assert after["missed_events"] == 0
    assert after["state"] == "ready"
