"""Measures a first index, its size on the disk, and how the index and everyday
operations grow with the number of chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.benchmarks.bench import Bench, Indexed, compare
from tests.benchmarks.figure import Figure, Measured, Target, find_percentile
from tests.benchmarks.searches import time_by_turns
from tests.benchmarks.starts import restart_by_turns


def measure_cold(bench: Bench) -> Iterator[Figure]:
    bare_s, indexed = bench.bare_insert_s(bench.whole), bench.indexed(bench.whole)
    yield compare(
        "cold",
        f"cold index, {indexed[0].n_chunks:,} chunks, CPU to `ready`",
        [Measured(value=place.cold_cpu_s, limit=bare_s) for place in indexed],
        unit="s",
        limit_name="bare inserts into two FTS5 tables",
        target=Target(most=3.0),
    )


def measure_size(bench: Bench) -> Iterator[Figure]:
    indexed = bench.indexed(bench.whole)
    yield compare(
        "size",
        "index size / text size",
        [
            Measured(value=place.index_bytes / 1e6, limit=place.n_text_bytes / 1e6)
            for place in indexed
        ],
        unit="MB",
        limit_name="text",
        target=Target(most=3.5),
    )


def measure_growth(bench: Bench) -> Iterator[Figure]:
    """Keep a line for each plot, and compare the largest size to the smallest."""
    for size in bench.sizes:
        indexed = bench.indexed(size)
        restarts = restart_by_turns(bench, size)
        texts = [query.text for queries in bench.queries(size).values() for query in queries]
        times = time_by_turns(bench, indexed, texts)
        for number, place in enumerate(indexed):
            suffix = ", before" if number else ""
            values = {
                "first index, CPU, µs a chunk": {"first index": _cost_us(place)},
                "size of the index, MB": {
                    "index": place.index_bytes / 1e6,
                    "text": place.n_text_bytes / 1e6,
                },
                "search, nine classes, ms": {
                    "p50": find_percentile(times[number], 50),
                    "p95": find_percentile(times[number], 95),
                },
                "start with nothing changed, CPU to ready, ms": {
                    "start": restarts[number].ready_cpu_ms
                },
                "memory after a first index, MB": {"memory": place.filled_mb},
            }
            for title, lines in values.items():
                for line, value in lines.items():
                    plot = bench.series.setdefault(title, {})
                    plot.setdefault(f"{line}{suffix}", []).append((place.n_chunks, value))
    yield _compare_growth(bench)


def _compare_growth(bench: Bench) -> Figure:
    small: Sequence[Indexed] = bench.indexed(bench.sizes[0])
    large: Sequence[Indexed] = bench.indexed(bench.sizes[-1])
    name = f"first index of {large[0].n_chunks:,} chunks, CPU a chunk"
    return compare(
        "growth",
        name,
        [
            Measured(value=_cost_us(many), limit=_cost_us(few))
            for many, few in zip(large, small, strict=True)
        ],
        unit="µs",
        limit_name=f"{small[0].n_chunks:,} chunks",
        target=Target(most=1.3),
    )


def _cost_us(indexed: Indexed) -> float:
    return indexed.cold_cpu_s * 1e6 / max(1, indexed.n_chunks)
