"""Measures a whole folder of notes beside the same notes beneath `.memories/`: adding it and keeping
it watched; and a vault in the full syntax of its tool beside one of plain notes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.bare import walk_notes
from tests.benchmarks.bench import Bench, compare
from tests.benchmarks.figure import Figure, Measured, Target
from tests.benchmarks.home import Home

NOTES_A_FOLDER = 20
N_RECONCILES = 4


def measure_vault(bench: Bench) -> Iterator[Figure]:
    """Adding a vault of small notes, and reconciles of it while nothing changes; the same for one
    in full syntax.
    """
    n_notes, reconcile_s = bench.effort.n_vault_notes, bench.effort.reconcile_s
    checkout, config = bench.checkouts[0], f"[sync]\nreconcile_s = {reconcile_s}\n"
    homes = [bench.start_home(checkout, config) for _ in range(3)]
    tops = [
        home.folder / "notes" / top for home, top in zip(homes, ("", ".memories", ""), strict=True)
    ]
    writes = (write_plain_note, write_plain_note, write_vault_note)
    added = [
        measure_add(home, top, n_notes, write)
        for home, top, write in zip(homes, tops, writes, strict=True)
    ]
    yield compare(
        "vault",
        f"adding a vault of {n_notes:,} notes, CPU to `ready`",
        [Measured(value=added[0], limit=added[1])],
        unit="ms",
        limit_name="beneath .memories",
        target=Target(most=1.3),
    )
    n_links = count_links(homes[2])
    yield compare(
        "vault",
        f"adding a vault of {n_notes:,} notes in full syntax, CPU to `ready`",
        [Measured(value=added[2], limit=added[0])],
        unit="ms",
        limit_name="plain notes",
        note=f"{n_links:,} links",
    )
    for home in homes:
        home.wait_until_quiet()
    time.sleep(bench.effort.calm_s + 2 * reconcile_s)
    before = [home.cpu_s() for home in homes]
    time.sleep(N_RECONCILES * reconcile_s)
    idle = [
        (home.cpu_s() - cpu_s) * 1000 / N_RECONCILES
        for home, cpu_s in zip(homes, before, strict=True)
    ]
    for home in homes:
        home.stop()
    began_s = time.process_time()
    walk_notes(str(tops[0]))
    walk_ms = (time.process_time() - began_s) * 1000
    yield compare(
        "vault",
        f"one reconcile of a vault of {n_notes:,} notes, CPU",
        [Measured(value=idle[0], limit=idle[1])],
        unit="ms",
        limit_name="beneath .memories",
        target=Target(most=1.3),
        note=f"a stat walk takes {walk_ms:.0f} ms",
    )
    yield compare(
        "vault",
        f"one reconcile of a vault of {n_notes:,} notes in full syntax, CPU",
        [Measured(value=idle[2], limit=idle[0])],
        unit="ms",
        limit_name="plain notes",
        target=Target(most=1.3),
    )


def measure_add(
    home: Home, top: Path, n_notes: int, write: Callable[[Path, int, int], None]
) -> float:
    """Processor time in ms until the notes are indexed."""
    make_notes(top, n_notes, write)
    root = home.folder / "notes"
    if top == root:
        (root / ".obsidian").mkdir()
    before_s = home.cpu_s()
    home.add(root)
    return (home.cpu_s() - before_s) * 1000


def count_links(home: Home) -> int:
    with home.client() as client:
        return int(client.call("links", limit=1)["n_links"])


def write_plain_note(file: Path, number: int, _n_notes: int) -> None:
    file.write_text(f"# Note {number}\n\nSome words that stand in note {number}.\n")


def write_vault_note(file: Path, number: int, n_notes: int) -> None:
    """A note as Obsidian has it: front matter with aliases, nested tags, links by name, alias and
    heading, an embed, a block with its reference, a callout, a field of Dataview.
    """
    one, two, three = ((number * step + 1) % n_notes for step in (3, 7, 11))
    file.write_text(
        f"---\naliases: [Alias {number}, A{number}]\ntags: [project/area-{number % 50}]\n"
        f"date: 2026-{number % 12 + 1:02}-{number % 28 + 1:02}\n---\n# Note {number}\n\n"
        f"Some words that stand in note {number}. See [[note-{one}]], [[Alias {two}|that]] and\n"
        f"[[note-{three}#Details]]. #topic/part-{number % 20}\n\n![[note-{two}#^block-{two}]]\n\n"
        f"## Details\n\n> [!note] Of note {number}\n> It informs [up](../note.md).\n\n"
        f"rating:: {number % 5}\nrelated:: [[note-{one}]]\n\nA last line. ^block-{number}\n"
    )


def make_notes(
    top: Path, n_notes: int, write: Callable[[Path, int, int], None] = write_plain_note
) -> None:
    for number in range(n_notes):
        folder = top / f"folder-{number // NOTES_A_FOLDER}"
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / f"note-{number}.md", number, n_notes)
