"""Measures how long after a save its words are found, with 300, 3,000 and all notes of the corpus.

From the end of the save to the first answer that holds the words, asked without pause. A finished
save in a quiet workspace waits for nothing; one that follows another closely waits for the debounce
alone. The processor time of a save, without a search beside it, must not grow with the notes.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from memsyncd.client import Client
from tests.benchmarks.figure import Figure, find_median, find_percentile
from tests.benchmarks.home import running
from tests.benchmarks.process import read_cpu_s

SIZES = (300, 3000, None)
N_SAVES = 40
IDLE_S, IDLE_LIMIT_S = 8.0, 120.0
DEBOUNCE_S = 0.1
QUIET_S = 0.35
GIVE_UP_S = 10.0
NOTE = "# Saved\n\n## Before\n\nWhat stood there before.\n\n## Now\n\nthe word is {}\n"


def measure(corpus: Path) -> Iterator[Figure]:
    cpu_ms: list[float] = []
    for n_notes in SIZES:
        with running() as home:
            root = home.folder / "notes"
            n_copied = copy_some(corpus, root, n_notes)
            home.add(root)
            # The notes are read again once after they settled, and the history gets their texts.
            with home.client() as client:
                client.call("search", query="saved", wait="disk")
            wait_idle(home.pid)
            note = root / ".memories" / "saved-by-the-benchmark.md"
            cpu_ms.append(measure_cpu(home.pid, note))
            with home.client() as client:
                yield from measure_saves(client, note, f"{n_copied:,} notes")
    growth = f"{cpu_ms[0]:.1f}, {cpu_ms[1]:.1f}, {cpu_ms[2]:.1f} ms with 300, 3,000 and all notes"
    name = "processor time of a save, all notes / 300"
    yield Figure(name=name, value=cpu_ms[-1] / cpu_ms[0], unit="x", target=1.3, note=growth)


def copy_some(corpus: Path, root: Path, n_notes: int | None) -> int:
    """Copy notes, evenly chosen; return how many."""
    notes = sorted(path for path in (corpus / ".memories").rglob("*.md") if path.is_file())
    chosen = notes[:: max(1, len(notes) // n_notes)][:n_notes] if n_notes else notes
    for path in chosen:
        target = root / path.relative_to(corpus)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return len(chosen)


def wait_idle(pid: int) -> None:
    """Wait until the daemon has used no processor time for a while."""
    end_s, before_s = time.monotonic() + IDLE_LIMIT_S, -1.0
    while time.monotonic() < end_s and read_cpu_s(pid) != before_s:
        before_s = read_cpu_s(pid)
        time.sleep(IDLE_S)


def measure_cpu(pid: int, note: Path) -> float:
    """Milliseconds of processor time for a save, with nothing beside it."""
    before_s = read_cpu_s(pid)
    for number in range(N_SAVES):
        replace(note, NOTE.format(f"quietword{number}"))
        time.sleep(QUIET_S)
    return (read_cpu_s(pid) - before_s) / N_SAVES * 1000


def measure_saves(client: Client, note: Path, size: str) -> Iterator[Figure]:
    words = (f"savedword{number}" for number in itertools.count())
    for name, save in (("replaced", replace), ("in place", overwrite)):
        times_ms = [time_save(client, note, next(words), save) for _ in range(N_SAVES)]
        yield from _tell(f"save found, {name}, {size}", times_ms)
    times_ms = [
        time_second_save(client, note, next(words), next(words)) for _ in range(N_SAVES // 2)
    ]
    after_ms = find_median(times_ms) - DEBOUNCE_S * 1000
    name = f"save upon a save, beyond the debounce, {size}, p50"
    yield Figure(name=name, value=after_ms, unit="ms", target=20)


def time_save(client: Client, note: Path, word: str, save: Callable[[Path, str], None]) -> float:
    time.sleep(QUIET_S)
    save(note, NOTE.format(word))
    return wait_found(client, word)


def time_second_save(client: Client, note: Path, first: str, second: str) -> float:
    time_save(client, note, first, replace)
    replace(note, NOTE.format(second))
    return wait_found(client, second)


def wait_found(client: Client, word: str) -> float:
    """Milliseconds until the word is found."""
    began_s = time.perf_counter()
    while not client.call("search", query=word)["hits"]:
        if time.perf_counter() - began_s > GIVE_UP_S:
            raise TimeoutError(f"{word} was not found")
    return (time.perf_counter() - began_s) * 1000


def replace(note: Path, text: str) -> None:
    """Save as careful editors do."""
    fresh = note.with_name(f"{note.name}.tmp")
    fresh.write_text(text)
    fresh.replace(note)


def overwrite(note: Path, text: str) -> None:
    """Save as careless editors do."""
    note.write_text(text)


def _tell(name: str, times_ms: list[float]) -> Iterator[Figure]:
    note = f"least {min(times_ms):.1f}, of {len(times_ms)}"
    yield Figure(name=f"{name}, p50", value=find_median(times_ms), unit="ms", target=3, note=note)
    yield Figure(name=f"{name}, p95", value=find_percentile(times_ms, 95), unit="ms", target=10)
