"""Measures the life cycle of memories: a plan of an archive over many sections, and what counted
accesses cost a save.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.bench import Bench, compare
from tests.benchmarks.figure import Figure, Measured, Target
from tests.benchmarks.home import Home

SECTIONS_A_NOTE = 100
ANCHORS_A_CALL = 1000
# Noted accesses are stored within this time.
STORED_S = 3.0


def measure_archive_plan(bench: Bench) -> Iterator[Figure]:
    """A dry run of an archive that looks at every section and archives half of them."""
    n_sections = bench.effort.n_sections
    home = bench.start_home(bench.checkouts[0])
    make_sections(home.folder / "notes", n_sections)
    home.add(home.folder / "notes")
    home.wait_until_quiet()
    took_ms: dict[str, list[float]] = {"archive": [], "list": []}
    with home.client() as client:
        plan = {"below": 0.35, "apply": False}
        n_archived = len(client.call("archive", **plan)["archived"])
        for _ in range(bench.effort.n_rounds):
            for method, params in (("archive", plan), ("list", {})):
                before_s = home.cpu_s()
                client.call(method, **params)
                took_ms[method].append((home.cpu_s() - before_s) * 1000)
    home.stop()
    yield compare(
        "archive-plan",
        f"plan of an archive over {n_sections:,} sections, CPU",
        [Measured(value=min(took_ms["archive"]), limit=min(took_ms["list"]))],
        unit="ms",
        limit_name="`list` of the same",
        note=f"{n_archived:,} would be archived",
    )


def measure_counted_saves(bench: Bench) -> Iterator[Figure]:
    """Saves of one note in a workspace with recorded accesses, and in one without."""
    n_accesses, n_saves = bench.effort.n_accesses, bench.effort.n_saves
    homes = [bench.start_home(bench.checkouts[0]) for _ in range(2)]
    for home in homes:
        make_sections(home.folder / "notes", bench.effort.n_sections)
        home.add(home.folder / "notes")
    record_accesses(homes[0], bench.effort.n_sections, n_accesses)
    time.sleep(min(STORED_S, bench.effort.calm_s))
    for home in homes:
        home.wait_until_quiet()
    cpu_ms = [0.0, 0.0]
    for number in range(n_saves):
        for at, home in bench.by_turns(homes, 1):
            cpu_ms[at] += save(home, number)
    for home in homes:
        home.stop()
    yield compare(
        "counted-saves",
        f"a save with {n_accesses:,} accesses recorded, CPU",
        [Measured(value=cpu_ms[0] / n_saves, limit=cpu_ms[1] / n_saves)],
        unit="ms",
        limit_name="without",
        target=Target(most=1.1),
    )


def record_accesses(home: Home, n_sections: int, n_accesses: int) -> None:
    anchors = [
        f".memories/note-{at // SECTIONS_A_NOTE}.md#section-{at % SECTIONS_A_NOTE}"
        for at in range(n_sections)
    ]
    left = n_accesses
    with home.client() as client:
        while left > 0:
            for at in range(0, min(len(anchors), left), ANCHORS_A_CALL):
                named = anchors[at : at + ANCHORS_A_CALL][: left - at]
                client.call("access.record", anchors=named)
            left -= len(anchors)
        counted = client.call("access.stats", limit=1)["counts"]
    assert counted, "no access was counted"


def save(home: Home, number: int) -> float:
    """Processor time in ms from a save until it is indexed, recorded and nothing is left to do."""
    note = home.folder / "notes" / ".memories" / "saved.md"
    before_s = home.cpu_s()
    note.write_text(f"# Saved\n\n## Now\n\nthe word is saved{number}word\n")
    with home.client() as client:
        client.call("sync")
    time.sleep(0.2)
    return (home.cpu_s() - before_s) * 1000


def make_sections(root: Path, n_sections: int) -> None:
    """Every second section is old enough to be worth little."""
    folder, today = root / ".memories", time.strftime("%Y-%m-%d")
    folder.mkdir(parents=True)
    for first in range(0, n_sections, SECTIONS_A_NOTE):
        parts = [
            f"## Section {at % SECTIONS_A_NOTE}\n<!-- memory: {{kind: note, created: "
            f"{'2020-01-01' if at % 2 else today}}} -->\n\nText of section {at}.\n"
            for at in range(first, min(first + SECTIONS_A_NOTE, n_sections))
        ]
        (folder / f"note-{first // SECTIONS_A_NOTE}.md").write_text("\n".join(parts))
