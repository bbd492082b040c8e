"""Measures searches over the socket beside the same MATCH on bare FTS5 in this process: nine classes
of queries, natural questions, contexts, broad `path:` filters, and an index of a million chunks.

Each query's time is the least of some rounds; percentiles are over the queries.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import msgspec

from memsyncd.client import Client
from memsyncd.config import Config
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.search import search
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.errors import MemsyncdError
from memsyncd.operations.search.declare import SearchParams
from memsyncd.store.index import Counts
from memsyncd.store.pool import ConnectionPool, Reader
from tests.benchmarks.bench import Bench, Indexed, compare
from tests.benchmarks.figure import Figure, Measured, Target, find_median, find_percentile
from tests.benchmarks.home import Home
from tests.benchmarks.queries import FILTERED, QUESTION, Query

MCP_VERSION = "2025-11-25"
CHUNKS_OF_CLASSES, CHUNKS_OF_QUESTIONS = 10_000, 100_000
# The size of one project's workspace.
CHUNKS_OF_PROJECT = 2_000
LARGE = 900_000
PATIENT_MS = 60_000


class Times(NamedTuple):
    """Milliseconds of each query: by checkout over the socket, and on bare FTS5."""

    sockets: list[list[float]]
    bare: list[float]

    def measured(self, percent: float) -> list[Measured]:
        limit = find_percentile(self.bare, percent)
        return [
            Measured(value=find_percentile(times, percent), limit=limit) for times in self.sockets
        ]


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
    yield from measure_floor("search", bench, bench.indexed(size), every, times.sockets[0])
    yield from measure_mcp(bench, bench.indexed(size)[0], [query.text for query in every])
    first = 0
    for name, queries in classes.items():
        part = slice(first, first + len(queries))
        first += len(queries)
        of_class = Times([socket[part] for socket in times.sockets], times.bare[part])
        note = f"p95 {find_percentile(of_class.sockets[0], 95):.1f} ms"
        measured = of_class.measured(50)
        yield compare("search", f"… {name}, p50", measured, unit="ms", note=note)


def measure_mcp(bench: Bench, place: Indexed, texts: Sequence[str]) -> Iterator[Figure]:
    """The same searches as a model asks them, by turns."""
    hello = {"protocolVersion": MCP_VERSION, "capabilities": {}, "clientInfo": {"name": "agent"}}
    taken_ms = [0.0, 0.0]
    with place.home.client() as client, place.home.client() as agent:
        agent.call("initialize", **hello)

        def ask_as_agent(text: str) -> None:
            agent.call("tools/call", name="memory_search", arguments={"query": text})

        for at, search in bench.by_turns((ask_as_agent, partial(ask, client))):
            before_s = place.home.cpu_s()
            for text in texts:
                search(text)
            taken_ms[at] += (place.home.cpu_s() - before_s) * 1000
    n_searches = len(texts) * bench.effort.n_rounds
    yield Figure(
        row="search",
        name="… `memory_search` over MCP, CPU of the daemon, mean",
        unit="ms",
        limit_name="the same search",
        now=Measured(value=taken_ms[0] / n_searches, limit=taken_ms[1] / n_searches),
        target=Target(most=1.3),
    )


def measure_floor(
    row: str,
    bench: Bench,
    indexed: Sequence[Indexed],
    queries: Sequence[Query],
    search_ms: Sequence[float],
) -> Iterator[Figure]:
    """The time that a search with the same candidates cannot go below: SQLite's answers to its own
    statements, without the work that makes hits of them, and a message over the same socket.

    The processor time tells the same on a machine that others keep busy.
    """
    with indexed[0].home.client() as client:
        ping_ms = min(_time(partial(client.call, "ping")) for _ in range(50))
    floor_ms, cpu_ms = [], []
    with open_readers(indexed[0]) as workspace:
        for query in queries:
            statements = record_statements(workspace, query.text)
            with workspace.acquire(PATIENT_MS / 1000) as reader:
                replay = partial(_replay, reader, statements)
                floor_ms.append(ping_ms + min(_time(replay) for _ in range(bench.effort.n_rounds)))
                cpu_ms.append(_time(replay, time.thread_time))
    for percent in (50, 95):
        yield Figure(
            row=row,
            name=f"… p{percent} beside its own statements alone and a ping",
            unit="ms",
            limit_name="statements and ping",
            now=Measured(
                value=find_percentile(search_ms, percent),
                limit=find_percentile(floor_ms, percent),
            ),
            target=Target(most=2.5) if (row, percent) == ("search", 50) else None,
            note=f"a ping takes {ping_ms:.2f} ms",
        )
    mean_ms = sum(cpu_ms) / len(cpu_ms)
    yield compare(
        row,
        "… processor time of the daemon, mean",
        [
            Measured(value=value, limit=mean_ms)
            for value in take_daemon_cpu_ms(bench, indexed, [query.text for query in queries])
        ],
        unit="ms",
        limit_name="statements",
    )


def take_daemon_cpu_ms(
    bench: Bench, indexed: Sequence[Indexed], texts: Sequence[str]
) -> list[float]:
    """Milliseconds of processor time that a search takes the daemon of each checkout."""
    taken_s = [0.0] * len(indexed)
    for at, place in bench.by_turns(indexed):
        with place.home.client() as client:
            before_s = place.home.cpu_s()
            for text in texts:
                ask(client, text)
            taken_s[at] += place.home.cpu_s() - before_s
    return [1000 * daemon_s / len(texts) / bench.effort.n_rounds for daemon_s in taken_s]


@contextlib.contextmanager
def open_readers(indexed: Indexed) -> Iterator[Workspace]:
    """A workspace that reads the index of a daemon, in this process."""
    [path] = [file for file in indexed.home.index_files() if file.name == "index.db"]
    workspace = Workspace(
        Entry(id="bench-1", name="bench", root=str(indexed.root)),
        Config(),
        index_path=path,
        records_path=path.with_name("no-records.db"),
    )
    workspace.condition = msgspec.structs.replace(
        workspace.condition, counts=Counts(files=1, chunks=indexed.n_chunks)
    )
    workspace.old_readers = pool = ConnectionPool(str(path))
    try:
        yield workspace
    finally:
        pool.close()


def record_statements(workspace: Workspace, text: str) -> list[tuple[Any, ...]]:
    """Return the statements of a search with their bindings, of the second time it is made: facts
    about the index are remembered by then.
    """
    recorded: list[tuple[Any, ...]] = []

    def read(reader: Reader, *arguments: Any) -> list[tuple[Any, ...]]:
        recorded.append(arguments)
        return rows(reader, *arguments)

    params, config = SearchParams(query=text), Config()
    search([workspace], params, config, RunOptions(timeout_s=PATIENT_MS / 1000))
    rows = Reader.rows
    with mock.patch.object(Reader, "rows", read):
        search([workspace], params, config, RunOptions(timeout_s=PATIENT_MS / 1000))
    return recorded


def _replay(reader: Reader, statements: Sequence[tuple[Any, ...]]) -> None:
    for arguments in statements:
        reader.rows(*arguments)


def measure_question(bench: Bench) -> Iterator[Figure]:
    size = bench.nearest(CHUNKS_OF_QUESTIONS)
    questions = bench.queries(size)[QUESTION]
    times = time_searches(bench, size, questions)
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
    yield from measure_floor("question", bench, bench.indexed(size), questions, times.sockets[0])


def measure_project(bench: Bench) -> Iterator[Figure]:
    """Questions about a workspace of usual size: searches and contexts with their default limits."""
    size = CHUNKS_OF_PROJECT
    questions = bench.queries(size)[QUESTION]
    searches = time_searches(bench, size, questions)
    indexed = bench.indexed(size)
    contexts = time_by_turns(
        bench, indexed, [question.text for question in questions], method="context"
    )
    n_chunks = indexed[0].n_chunks
    for percent, most_search, most_context in ((50, 4, 12), (95, 8, 25)):
        yield compare(
            "project",
            f"natural question, {n_chunks:,} chunks, ten hits, p{percent}",
            searches.measured(percent),
            unit="ms",
            limit_name="the same MATCH",
            target=Target(most=most_search, unit="ms"),
        )
        yield compare(
            "project",
            f"… context of the same question, p{percent}",
            [
                Measured(
                    value=find_percentile(context, percent), limit=find_percentile(search, percent)
                )
                for context, search in zip(contexts, searches.sockets, strict=True)
            ],
            unit="ms",
            limit_name="search",
            target=Target(most=most_context, unit="ms"),
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
        failures = [count_failures(place, classes) for place in indexed]
        n_chunks, n_queries = indexed[0].n_chunks, sum(map(len, classes.values()))
        yield compare(
            "large",
            f"{n_chunks:,} chunks: queries of {n_queries} that fail",
            [Measured(value=failed) for failed in failures],
            unit="",
            target=Target(most=0, unit=""),
        )
        # The processor time of a query where nothing else runs: waiting counts in the latencies
        # below.
        texts = [query.text for queries in classes.values() for query in queries]
        yield compare(
            "large",
            f"{n_chunks:,} chunks: processor time of the daemon, mean",
            [Measured(value=cpu_ms) for cpu_ms in take_daemon_cpu_ms(bench, indexed, texts)],
            unit="ms",
        )
        for name, queries in classes.items():
            times = time_by_turns(bench, indexed, [query.text for query in queries])
            yield compare(
                "large",
                f"{n_chunks:,} chunks: {name}, p50",
                [Measured(value=find_median(durations)) for durations in times],
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
    bench: Bench, indexed: Sequence[Indexed], texts: Sequence[str], method: str = "search"
) -> list[list[float]]:
    """Milliseconds of each query, the least of some rounds, by checkout."""
    return time_homes(bench, [place.home for place in indexed], texts, method)


def time_homes(
    bench: Bench, homes: Sequence[Home], texts: Sequence[str], method: str = "search"
) -> list[list[float]]:
    """Milliseconds of each query, the least of some rounds, by daemon."""
    least = [[float("inf")] * len(texts) for _ in homes]
    clients = [home.client() for home in homes]
    try:
        for at, client in bench.by_turns(clients):
            for number, text in enumerate(texts):
                took_ms = _time(partial(ask, client, text, method))
                least[at][number] = min(least[at][number], took_ms)
    finally:
        for client in clients:
            client.close()
    return least


def ask(client: Client, text: str, method: str = "search") -> None:
    client.call(method, query=text, timeout_ms=PATIENT_MS)


def _time(act: Callable[[], object], now_s: Callable[[], float] = time.perf_counter) -> float:
    began_s = now_s()
    act()
    return (now_s() - began_s) * 1000
