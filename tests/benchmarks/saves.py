"""How long after a save are its words found? From the end of the save to the first answer that
holds them, asked without pause.

A finished save in a quiet workspace should wait for nothing; one that follows closely upon another
waits for the debounce alone.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from memsyncd.client import Client
from tests.benchmarks.figure import Figure, find_median, find_percentile
from tests.benchmarks.home import running

N_SAVES = 40
DEBOUNCE_S = 0.1
QUIET_S = 0.35
GIVE_UP_S = 10.0
NOTE = "# Saved\n\n## Before\n\nWhat stood there before.\n\n## Now\n\nthe word is {}\n"


def measure(corpus: Path) -> Iterator[Figure]:
    with running() as home:
        home.add(corpus)
        note = corpus / ".memories" / "saved-by-the-benchmark.md"
        try:
            with home.client() as client:
                yield from measure_saves(client, note)
        finally:
            note.unlink(missing_ok=True)


def measure_saves(client: Client, note: Path) -> Iterator[Figure]:
    words = (f"savedword{number}" for number in itertools.count())
    for name, save in (("replaced", replace), ("in place", overwrite)):
        times_ms = [time_save(client, note, next(words), save) for _ in range(N_SAVES)]
        yield _tell(f"finished save found, {name}, p50", times_ms, 20)
    times_ms = [
        time_second_save(client, note, next(words), next(words)) for _ in range(N_SAVES // 2)
    ]
    yield _tell(
        "save upon a save, beyond the debounce, p50",
        [took_ms - DEBOUNCE_S * 1000 for took_ms in times_ms],
        20,
    )
    times_ms = [time_asking(client, note, next(words)) for _ in range(N_SAVES)]
    yield _tell("saved, then asked to wait for the disk, p50", times_ms, None)


def time_save(client: Client, note: Path, word: str, save: Callable[[Path, str], None]) -> float:
    time.sleep(QUIET_S)
    save(note, NOTE.format(word))
    return wait_found(client, word)


def time_second_save(client: Client, note: Path, first: str, second: str) -> float:
    time_save(client, note, first, replace)
    replace(note, NOTE.format(second))
    return wait_found(client, second)


def time_asking(client: Client, note: Path, word: str) -> float:
    time.sleep(QUIET_S)
    overwrite(note, NOTE.format(word))
    began_s = time.perf_counter()
    assert client.call("search", query=word, wait="disk")["hits"]
    return (time.perf_counter() - began_s) * 1000


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


def _tell(name: str, times_ms: list[float], target: float | None) -> Figure:
    note = f"p95 {find_percentile(times_ms, 95):.1f}, of {len(times_ms)}"
    return Figure(name=name, value=find_median(times_ms), unit="ms", target=target, note=note)
