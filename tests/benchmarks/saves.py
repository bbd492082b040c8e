"""Measures how long after a save its words are found, with 300, 3,000 and all notes; what a search
costs that waits for the disk; what one changed line of a large note costs; and what a save costs
with the maintenance after it, by the size of the index.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from memsyncd.client import Client
from tests.benchmarks import least as least_program
from tests.benchmarks.bare import BareWatcher, walk_notes
from tests.benchmarks.bench import Bench, Indexed, compare
from tests.benchmarks.corpus import cut_to_bytes
from tests.benchmarks.figure import Figure, Measured, Target, find_median, find_percentile
from tests.benchmarks.home import Home
from tests.benchmarks.process import read_written_bytes

SIZES = (300, 3000, None)
QUIET_S = 0.35
GIVE_UP_S = 30.0
SAVED = "# Saved\n\n## Before\n\nWhat stood there before.\n\n## Now\n\nthe word is {}\n"
PATIENT_MS = 60_000
QUERY = "memory"
_EDITED = re.compile(r"edited[0-9]+word")


def measure_found(bench: Bench) -> Iterator[Figure]:
    sizes = [size for size in SIZES if size and size < len(bench.sources)] + [None]
    for size in sizes:
        indexed = bench.indexed_notes(size or len(bench.sources))
        name = f"{indexed[0].home.workspace()['files']:,} notes"
        founds, watched, least = time_saves(bench, indexed)
        yield compare(
            "found",
            f"… the smallest program that does the same, beside {name}, p50",
            [Measured(value=find_median(least), limit=find_median(watched))],
            unit="ms",
            limit_name="watchdog's event",
            note=f"p95 {find_percentile(least, 95):.1f} ms",
        )
        yield compare(
            "found",
            f"… beside the smallest program, {name}, p50",
            [Measured(value=find_median(times), limit=find_median(least)) for times in founds],
            unit="ms",
            limit_name="the smallest program",
            target=Target(most=2.0),
        )
        for percent, most in ((50, 3), (95, 10)):
            yield compare(
                "found",
                f"finished save → found, {name}, p{percent}",
                [
                    Measured(
                        value=find_percentile(times, percent),
                        limit=find_percentile(watched, percent),
                    )
                    for times in founds
                ],
                unit="ms",
                limit_name="watchdog's event",
                target=Target(most=most, unit="ms"),
            )


def time_saves(
    bench: Bench, indexed: list[Indexed]
) -> tuple[list[list[float]], list[float], list[float]]:
    """Milliseconds from the end of each save until its words are found, by checkout; until an event
    arrives in a bare watcher of a folder of its own; and until `least` finds the words.
    """
    founds: list[list[float]] = [[] for _ in indexed]
    watched: list[float] = []
    least: list[float] = []
    words = (f"savedword{number}" for number in itertools.count())
    other = bench.folder / "watched"
    other.mkdir(exist_ok=True)
    small = bench.folder / "least"
    small.mkdir(exist_ok=True)
    watcher = BareWatcher(other)
    try:
        with least_program.running(small) as socket:
            for at, place in bench.by_turns(indexed, bench.effort.n_saves):
                time.sleep(QUIET_S)
                watcher.arm()
                overwrite(other / "saved.md", next(words))
                began_s = time.perf_counter()
                watched.append((watcher.wait_s(GIVE_UP_S) - began_s) * 1000)
                with Client(socket, GIVE_UP_S) as client:
                    least.append(time_save(client, small / "saved.md", next(words)))
                with place.home.client() as client:
                    note = place.root / ".memories" / "saved-by-the-benchmark.md"
                    founds[at].append(time_save(client, note, next(words)))
    finally:
        watcher.close()
    # An event may arrive before the save has returned.
    return founds, [max(0.01, time_ms) for time_ms in watched], least


def time_save(client: Client, note: Path, word: str) -> float:
    time.sleep(QUIET_S)
    overwrite(note, word)
    return wait_found(client, word)


def overwrite(note: Path, word: str) -> None:
    note.write_text(SAVED.format(word))


def wait_found(client: Client, word: str, **params: object) -> float:
    """Milliseconds until the word is found, asked without pause. Raises TimeoutError."""
    began_s = time.perf_counter()
    # With vectors there are hits for any word.
    while not any(hit["matched"] for hit in client.call("search", query=word, **params)["hits"]):
        if time.perf_counter() - began_s > GIVE_UP_S:
            raise TimeoutError(f"{word} was not found within {GIVE_UP_S} s")
    return (time.perf_counter() - began_s) * 1000


def measure_wait(bench: Bench) -> Iterator[Figure]:
    """The time that a search takes for waiting for the disk.

    Processor time, since the wall clock also measures what other programs do meanwhile: its ratio
    differed threefold from run to run.
    """
    indexed = bench.indexed(bench.whole)
    waits: list[list[float]] = [[] for _ in indexed]
    plains: list[list[float]] = [[] for _ in indexed]
    walks: list[list[float]] = [[] for _ in indexed]
    took: list[float] = []
    for at, place in bench.by_turns(indexed, 3 * bench.effort.n_rounds):
        before_s = time.process_time()
        walk_notes(str(place.root))
        walks[at].append((time.process_time() - before_s) * 1000)
        with place.home.client() as client:
            began_s = time.perf_counter()
            waits[at].append(
                time_cpu_of_search(place.home, client, wait="disk", timeout_ms=PATIENT_MS)
            )
            took += [(time.perf_counter() - began_s) * 1000] if at == 0 else []
            plains[at].append(time_cpu_of_search(place.home, client))
    yield compare(
        "wait-disk",
        '`wait: "disk"`, all notes, beyond the search itself, CPU',
        [
            Measured(value=max(0.0, min(wait) - min(plain)), limit=min(walk))
            for wait, plain, walk in zip(waits, plains, walks, strict=True)
        ],
        unit="ms",
        limit_name="stat walk",
        target=Target(most=1.3),
        note=f"{find_median(took):.0f} ms of wall clock",
    )


def time_cpu_of_search(home: Home, client: Client, **params: object) -> float:
    """Milliseconds of the daemon's processor time."""
    before_s = home.cpu_s()
    client.call("search", query=QUERY, **params)
    return (home.cpu_s() - before_s) * 1000


def measure_edit(bench: Bench) -> Iterator[Figure]:
    """Processor time of one changed line of a large note, and of all its lines of prose changed."""
    n_bytes = bench.effort.note_bytes
    lines = make_large_note(bench, n_bytes)
    homes = [bench.start_home(checkout) for checkout in bench.checkouts]
    roots = [home.make_workspace("large", 1) for home in homes]
    for home, root in zip(homes, roots, strict=True):
        home.add(root)
    costs: dict[bool, list[list[float]]] = {True: [[] for _ in homes], False: [[] for _ in homes]}
    words = (f"edited{number}word" for number in itertools.count())
    # The first round writes a new note and is not counted.
    for number in range(bench.effort.n_rounds + 1):
        for is_whole in (True, False):
            word = next(words)
            lines = change_lines(lines, word, is_whole=is_whole)
            for at, home in enumerate(homes):
                home.wait_until_quiet()
                note = roots[at] / ".memories" / "large.md"
                cpu_ms = time_cpu_of_save(home, note, "\n".join(lines), word)
                costs[is_whole][at] += [cpu_ms] if number else []
    yield compare(
        "edit",
        f"one changed line of a note of {n_bytes / 1e6:g} MB, CPU",
        [
            Measured(value=min(few), limit=min(every))
            for few, every in zip(costs[False], costs[True], strict=True)
        ],
        unit="ms",
        limit_name="all lines changed",
        target=Target(most=0.3),
    )


def append_line(root: Path) -> None:
    """Append a line to a note."""
    notes = sorted((root / ".memories").rglob("*.md"))
    with notes[len(notes) // 2].open("a") as note:
        note.write(f"\nA line that was appended at {time.time()}.\n")


def write_in_new_folder(root: Path) -> None:
    """Write a note in a folder of its own."""
    folder = root / ".memories" / f"at-{time.time_ns()}"
    folder.mkdir()
    (folder / "note.md").write_text(f"# A note\n\nIt was written at {time.time()}.\n")


SAVES = {"one appended line": append_line, "a note in a new folder": write_in_new_folder}


def measure_save_cost(bench: Bench) -> Iterator[Figure]:
    """The bytes and the processor time of the seconds after each of SAVES."""
    smallest: dict[str, list[float]] = {}
    for size, (name, save) in itertools.product(bench.sizes, SAVES.items()):
        indexed = bench.indexed(size)
        costs: list[list[tuple[float, float]]] = [[] for _ in indexed]
        for at, place in bench.by_turns(indexed, bench.effort.n_costly_saves):
            costs[at].append(measure_one_save(place, save, bench.effort.settle_s))
        seconds = f"{bench.effort.settle_s:g} s"
        for number, (what, unit, most) in enumerate((("written", "MB", 1), ("CPU", "ms", 50))):
            values = [find_median([cost[number] for cost in of_one]) for of_one in costs]
            limits = smallest.setdefault(f"{name} {what}", values)
            yield compare(
                "save-cost",
                f"{name}, {indexed[0].n_chunks:,} chunks, {what} within {seconds}",
                [Measured(value=v, limit=limit) for v, limit in zip(values, limits, strict=True)],
                unit=unit,
                limit_name="the smallest size",
                target=Target(most=most, unit=unit),
            )


def measure_one_save(
    indexed: Indexed, save: Callable[[Path], None], settle_s: float
) -> tuple[float, float]:
    """Megabytes that the daemon writes and milliseconds that it computes after a save."""
    home = indexed.home
    home.wait_until_quiet()
    written, cpu_s = read_written_bytes(home.pid), home.cpu_s()
    save(indexed.root)
    time.sleep(settle_s)
    return (
        (read_written_bytes(home.pid) - written) / 1e6,
        (home.cpu_s() - cpu_s) * 1000,
    )


def make_large_note(bench: Bench, n_bytes: int) -> list[str]:
    """Return the lines of notes of the corpus, one after the other."""
    texts = (copy.read().decode(errors="replace") for copy in cut_to_bytes(bench.sources, n_bytes))
    return "\n\n".join(texts)[:n_bytes].splitlines()


def change_lines(lines: list[str], word: str, *, is_whole: bool) -> list[str]:
    """Return the lines with a word more in the middle, or at the end of each line of prose."""
    if is_whole:
        return [f"{_strip_word(line)} {word}" if line[:1].isalpha() else line for line in lines]
    middle = len(lines) // 2
    return [*lines[:middle], f"the line with {word}", *lines[middle + 1 :]]


def time_cpu_of_save(home: Home, note: Path, text: str, word: str) -> float:
    """Milliseconds of the daemon's processor time from a save until its words are found."""
    with home.client() as client:
        before_s = home.cpu_s()
        note.write_text(text)
        params = {"query": word, "wait": "disk", "timeout_ms": PATIENT_MS}
        if not client.call("search", **params)["hits"]:
            raise RuntimeError(f"{word} was saved to {note} and is not found")
        return (home.cpu_s() - before_s) * 1000


def _strip_word(line: str) -> str:
    start, _, last = line.rpartition(" ")
    return start if _EDITED.fullmatch(last) else line
