"""Measures searches over the socket beside the same MATCH on bare FTS5 in this process: nine classes
of queries, natural questions, broad `path:` filters, and an index of a million chunks.

Each query's time is the least of some rounds; percentiles are over the queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from memsyncd.client import Client
from memsyncd.errors import MemsyncdError
from tests.benchmarks.bench import Bench, Indexed, compare
from tests.benchmarks.figure import Figure, Measured, Target, find_median, find_percentile
from tests.benchmarks.queries import FILTERED, QUESTION, Query

CHUNKS_OF_CLASSES, CHUNKS_OF_QUESTIONS = 10_000, 100_000
LARGE = 900_000
PATIENT_MS = 60_000


class Times(NamedTuple):
    """Milliseconds of each query: by checkout over the socket, and on bare FTS5."""

    sockets: list[list[float]]
    bare: list[float]

    def measured(self, percent: float) -> list[Measured]:
        limit = find_percentile(self.bare, percent)
        return [Measured(value=find_percentile(one, percent), limit=limit) for one in self.sockets]


def measure_search(bench: Bench) -> Iterator[Figure]:
    size = bench.nearest(CHUNKS_OF_CLASSES)
    classes = bench.queries(size)
    every = [query for queries in classes.values() for query in queries]
    times = time_searches(bench, size, every)
    n_chunks = bench.indexed(size)[0].n_chunks
    for percent, most in ((50, 1.5), (95, 6)):
        yield compare(
            "search",
            f"search over the socket, {n_chunks:,} chunks, nine classes, p{percent}",
            times.measured(percent),
            unit="ms",
            limit_name="the same MATCH",
            target=Target(most=most, unit="ms"),
        )
    first = 0
    for name, queries in classes.items():
        part = slice(first, first + len(queries))
        first += len(queries)
        of_class = Times([one[part] for one in times.sockets], times.bare[part])
        note = f"p95 {find_percentile(of_class.sockets[0], 95):.1f} ms"
        measured = of_class.measured(50)
        yield compare("search", f"… {name}, p50", measured, unit="ms", note=note)


def measure_question(bench: Bench) -> Iterator[Figure]:
    size = bench.nearest(CHUNKS_OF_QUESTIONS)
    times = time_searches(bench, size, bench.queries(size)[QUESTION])
    n_chunks = bench.indexed(size)[0].n_chunks
    for percent, most in ((50, 6), (95, 15)):
        yield compare(
            "question",
            f"natural question, {n_chunks:,} chunks, p{percent}",
            times.measured(percent),
            unit="ms",
            limit_name="the same MATCH",
            target=Target(most=most, unit="ms"),
        )


def measure_filter(bench: Bench) -> Iterator[Figure]:
    for size in bench.sizes:
        if size > bench.whole:
            continue
        indexed = bench.indexed(size)
        queries = bench.queries(size)[FILTERED]
        filtered = time_by_turns(bench, indexed, [query.text for query in queries])
        plain = time_by_turns(bench, indexed, [query.without_filter for query in queries])
        yield compare(
            "filter",
            f"broad `path:` filter, {indexed[0].n_chunks:,} chunks, p50",
            [
                Measured(value=find_median(slow), limit=find_median(quick))
                for slow, quick in zip(filtered, plain, strict=True)
            ],
            unit="ms",
            limit_name="without the filter",
            target=Target(most=1.5),
        )


def measure_large(bench: Bench) -> Iterator[Figure]:
    """A million chunks: no query fails with the daemon's own time limit."""
    sizes = [size for size in bench.sizes if size >= LARGE]
    if not sizes:
        note = "measured with --sizes 1M"
        yield Figure(row="large", name=f"{LARGE:,} chunks and more", is_missing=True, note=note)
    for size in sizes:
        indexed = bench.indexed(size)
        classes = bench.queries(size)
        failures = [count_failures(one, classes) for one in indexed]
        n_chunks, n_queries = indexed[0].n_chunks, sum(map(len, classes.values()))
        yield compare(
            "large",
            f"{n_chunks:,} chunks: queries of {n_queries} that fail",
            [Measured(value=failed) for failed in failures],
            unit="",
            target=Target(most=0, unit=""),
        )
        for name, queries in classes.items():
            times = time_by_turns(bench, indexed, [query.text for query in queries])
            yield compare(
                "large",
                f"{n_chunks:,} chunks: {name}, p50",
                [Measured(value=find_median(one)) for one in times],
                unit="ms",
                target=Target(most=150, unit="ms"),
            )


def count_failures(indexed: Indexed, classes: dict[str, list[Query]]) -> int:
    with indexed.home.client() as client:
        return sum(
            not is_answered(client, query.text) for queries in classes.values() for query in queries
        )


def is_answered(client: Client, query: str) -> bool:
    """Return True if a search with the daemon's own time limit has an answer, not an error."""
    try:
        client.call("search", query=query)
    except MemsyncdError:
        return False
    return True


def time_searches(bench: Bench, size: int, queries: Sequence[Query]) -> Times:
    matches = [query.match for query in queries]
    bare_ms = time_bare(bench, size, matches)
    sockets = time_by_turns(bench, bench.indexed(size), [query.text for query in queries])
    # Once more, since other work may have taken the cores for a while.
    again_ms = time_bare(bench, size, matches)
    return Times(sockets, [min(pair) for pair in zip(bare_ms, again_ms, strict=True)])


def time_bare(bench: Bench, size: int, matches: Sequence[str]) -> list[float]:
    """Milliseconds of each MATCH on bare FTS5, the least of some rounds."""
    search = bench.bare_search(size).search
    rounds = [
        [_time(partial(search, match)) for match in matches] for _ in range(bench.effort.n_rounds)
    ]
    return [min(times) for times in zip(*rounds, strict=True)]


def time_by_turns(
    bench: Bench, indexed: Sequence[Indexed], texts: Sequence[str]
) -> list[list[float]]:
    """Milliseconds of each query, the least of some rounds, by checkout."""
    least = [[float("inf")] * len(texts) for _ in indexed]
    clients = [one.home.client() for one in indexed]
    try:
        for at, client in bench.by_turns(clients):
            for number, text in enumerate(texts):
                took_ms = _time(partial(ask, client, text))
                least[at][number] = min(least[at][number], took_ms)
    finally:
        for client in clients:
            client.close()
    return least


def ask(client: Client, text: str) -> None:
    client.call("search", query=text, timeout_ms=PATIENT_MS)


def _time(act: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    act()
    return (time.perf_counter() - began_s) * 1000
