"""How long until what was written is found, when memsyncd writes it and when anybody else does?

Through the daemon: `memory` writes, safely on the disk and with its past kept, and the search that
follows finds it. Beside it, by turns: plain Python writes the same bytes (once as carelessly as
most programs do, once by a temporary file, fsync and rename) and asks with `wait: "disk"`.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from memsyncd.client import Client
from tests.benchmarks.figure import Figure, find_median, find_percentile
from tests.benchmarks.home import running

N_WRITES = 200
QUIET_S = 0.02
NOTE = "# Written\n\n## Before\n\nWhat stood there before.\n\n## Now\n\nthe word is {}\n"


def measure(corpus: Path) -> Iterator[Figure]:
    with running() as home:
        small = home.make_workspace("small", 300)
        home.add(small)
        with home.client() as client:
            yield from _compare(client, small, "300 notes")
        home.add(corpus)
        with home.client() as client:
            yield from _compare(client, corpus, "the corpus")


def _compare(client: Client, root: Path, where: str) -> Iterator[Figure]:
    note = root / ".memories" / "written-by-the-benchmark.md"
    words = (f"writtenword{number}" for number in itertools.count())
    ways: dict[str, Callable[[str, str], None]] = {
        "daemon": lambda old, new: _write_by_daemon(client, root, note, old, new),
        "plain": lambda _, new: _write_plainly(client, root, note, new),
        "safe": lambda _, new: _write_safely(client, root, note, new),
    }
    times_ms: dict[str, list[float]] = {name: [] for name in ways}
    word = next(words)
    note.write_text(NOTE.format(word))
    client.call("sync", workspace=str(root))
    try:
        for name, write in itertools.islice(itertools.cycle(ways.items()), 3 * N_WRITES):
            old, word = word, next(words)
            time.sleep(QUIET_S)
            began_s = time.perf_counter()
            write(old, word)
            times_ms[name].append((time.perf_counter() - began_s) * 1000)
    finally:
        note.unlink()
    yield from _tell(times_ms, where)


def _write_by_daemon(client: Client, root: Path, note: Path, old: str, new: str) -> None:
    path = f"/memories/{note.name}"
    client.call(
        "memory", workspace=str(root), command="str_replace", path=path, old_str=old, new_str=new
    )
    _check(client, root, new, wait="none")


def _write_plainly(client: Client, root: Path, note: Path, new: str) -> None:
    note.write_text(NOTE.format(new))
    _check(client, root, new, wait="disk")


def _write_safely(client: Client, root: Path, note: Path, new: str) -> None:
    fresh = note.with_name(f".{note.name}.tmp")
    with fresh.open("w") as file:
        file.write(NOTE.format(new))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(note)
    folder = os.open(note.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    _check(client, root, new, wait="disk")


def _check(client: Client, root: Path, word: str, *, wait: str) -> None:
    if not client.call("search", query=word, workspace=str(root), wait=wait)["hits"]:
        raise AssertionError(f"{word} was written and is not found")


def _tell(times_ms: dict[str, list[float]], where: str) -> Iterator[Figure]:
    for percent in (50, 99):
        daemon, plain, safe = (
            find_percentile(times_ms[name], percent) for name in ("daemon", "plain", "safe")
        )
        note = f"{daemon:.1f} ms; plainly {plain:.1f}, safely {safe:.1f}; {len(times_ms['daemon'])} of each"
        yield Figure(
            name=f"written and found, by memsyncd / safely by Python, p{percent}, {where}",
            value=daemon / safe,
            unit="x",
            target=None,
            note=note,
        )
    yield Figure(
        name=f"written and found, by memsyncd / plainly by Python, p50, {where}",
        value=find_median(times_ms["daemon"]) / find_median(times_ms["plain"]),
        unit="x",
        target=None,
    )
