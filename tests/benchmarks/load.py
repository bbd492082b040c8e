"""Measures how long a light query waits beside a heavy client, and while the index is rebuilt.

Queries are compared to the same client alone, before and after, in the same run.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

from memsyncd.client import Client
from tests.benchmarks.bench import Bench, Indexed, compare
from tests.benchmarks.figure import Figure, Measured, Target, find_median, find_percentile
from tests.benchmarks.home import Home
from tests.benchmarks.queries import LIGHT
from tests.benchmarks.searches import CHUNKS_OF_CLASSES, CHUNKS_OF_QUESTIONS

PAUSE_S = 0.005
WARM_UP_S = 0.2
READ_BYTES = 65_536
HEAVY = {
    "query": " ".join(f"{first}{second}*" for first in "acdefp" for second in "oeai"),
    "limit": 100,
}
REBUILD_TIMEOUT_S = 600.0


def measure_beside(bench: Bench) -> Iterator[Figure]:
    size = bench.nearest(CHUNKS_OF_CLASSES)
    indexed = bench.indexed(size)
    texts = _light_texts(bench, size)
    alone: list[list[float]] = [[] for _ in indexed]
    beside: list[list[float]] = [[] for _ in indexed]
    for at, place in bench.by_turns(indexed):
        alone[at] += time_light(place.home, texts)
        with run_heavy_client(place.home):
            time.sleep(WARM_UP_S)
            beside[at] += time_light(place.home, texts)
        alone[at] += time_light(place.home, texts)
    yield compare(
        "beside",
        "light query beside a heavy client, p50",
        [
            Measured(value=find_median(slow), limit=find_median(quick))
            for slow, quick in zip(beside, alone, strict=True)
        ],
        unit="ms",
        limit_name="alone",
        target=Target(most=1.3),
    )


def measure_reindex(bench: Bench) -> Iterator[Figure]:
    size = bench.nearest(CHUNKS_OF_QUESTIONS)
    indexed = bench.indexed(size)
    texts = _light_texts(bench, size)
    measured = [_measure_rebuild(place, texts) for place in indexed]
    for percent, target in ((50, None), (99, Target(most=1.5))):
        yield compare(
            "reindex",
            f"light query while {indexed[0].n_chunks:,} chunks are indexed again, p{percent}",
            [
                Measured(value=find_percentile(busy, percent), limit=find_percentile(idle, percent))
                for busy, idle in measured
            ],
            unit="ms",
            limit_name="idle",
            target=target,
        )


def _measure_rebuild(indexed: Indexed, texts: list[str]) -> tuple[list[float], list[float]]:
    """Milliseconds of light queries during a rebuild, and as many before and after it."""
    home = indexed.home
    home.wait_until_quiet()
    idle_ms = time_light(home, texts)
    rebuild = threading.Thread(target=_rebuild, args=(home,))
    rebuild.start()
    busy_ms: list[float] = []
    with home.client() as client:
        while rebuild.is_alive() or not busy_ms:
            busy_ms += [_time_one(client, texts[len(busy_ms) % len(texts)])]
            time.sleep(PAUSE_S)
    rebuild.join()
    home.wait_until_quiet()
    return busy_ms, idle_ms + time_light(home, texts)


def _rebuild(home: Home) -> None:
    with Client(home.socket_path, REBUILD_TIMEOUT_S) as client:
        timeout_ms = round(REBUILD_TIMEOUT_S * 1000)
        client.call("sync", rebuild=True, timeout_ms=timeout_ms)


def _light_texts(bench: Bench, size: int) -> list[str]:
    texts = [query.text for query in bench.queries(size)[LIGHT]]
    return [texts[number % len(texts)] for number in range(bench.effort.n_light)]


def time_light(home: Home, texts: list[str]) -> list[float]:
    """Milliseconds of each query, one after the other."""
    times_ms = []
    with home.client() as client:
        for text in texts:
            times_ms.append(_time_one(client, text))
            time.sleep(PAUSE_S)
    return times_ms


def _time_one(client: Client, text: str) -> float:
    began_s = time.perf_counter()
    client.call("search", query=text)
    return (time.perf_counter() - began_s) * 1000


@contextlib.contextmanager
def run_heavy_client(home: Home) -> Iterator[None]:
    """A client that asks one heavy search after the other until the `with` ends."""
    is_over = threading.Event()
    thread = threading.Thread(target=_ask_heavily, args=(home.socket_path, is_over.is_set))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _ask_heavily(socket_path: str, is_over: Callable[[], bool]) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "search", "params": HEAVY}
    line = json.dumps(request).encode() + b"\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(socket_path)
        # The answers are read and not parsed: this thread shares the lock of the one that measures.
        while not is_over():
            client.sendall(line)
            while not client.recv(READ_BYTES).endswith(b"\n"):
                pass
