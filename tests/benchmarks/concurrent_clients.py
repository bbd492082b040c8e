"""Measures how long a client waits for a search while 60 others pipeline heavy searches.

The index has about 10,000 chunks, cut from the corpus as in `answers`. Each heavy client sends 60
searches of 24 prefixes for 100 hits, reads no answer, and is replaced by a new one after two
seconds. The light client asks one question after the other: words, headings and sentences. It is
compared to the same client alone, before the heavy clients start and after they end, in the same run.
`errors` counts answers that were errors, such as `timeout`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from memsyncd.client import Client
from memsyncd.errors import MemsyncdError
from tests.benchmarks.answers import copy_notes
from tests.benchmarks.figure import Figure, find_median, find_percentile
from tests.benchmarks.home import Home, running
from tests.benchmarks.searches import make_questions

N_HEAVY = 60
N_PIPELINED = 60
HOLD_S = 2.0
CROWDED_S = 10.0
SETTLE_S = 3.0
PAUSE_S = 0.02
TARGET_P99_MS = 250
HEAVY_QUERY = " ".join(f"{first}{second}*" for first in "acdefp" for second in "oeai")
HEAVY_LIMIT = 100
N_OF_A_KIND = 60


def measure(corpus: Path) -> Iterator[Figure]:
    with running("[socket]\nmax_clients = 128\n") as home:
        n_chunks = copy_notes(corpus, home.folder / "notes")
        home.add(home.folder / "notes")
        questions = [
            one
            for chosen in make_questions(home.folder / "notes").values()
            for one in chosen[:N_OF_A_KIND]
        ]
        before_ms, _ = time_light(home, questions)
        heavy_ms = time_heavy(home)
        with run_heavy_clients(home):
            time.sleep(HOLD_S / 2)
            crowded_ms, n_errors = time_light(home, questions, for_s=CROWDED_S)
        time.sleep(SETTLE_S)
        after_ms, _ = time_light(home, questions)
    alone = f"alone: p50 {find_median(before_ms):.1f}, p95 {find_percentile(before_ms, 95):.1f} ms before"
    alone += f", p50 {find_median(after_ms):.1f}, p95 {find_percentile(after_ms, 95):.1f} ms after"
    yield Figure(
        name=f"p99 of a search beside {N_HEAVY} heavy clients",
        value=find_percentile(crowded_ms, 99),
        unit="ms",
        target=TARGET_P99_MS,
        note=f"p50 {find_median(crowded_ms):.1f}, p95 {find_percentile(crowded_ms, 95):.1f}, most {max(crowded_ms):.0f} ms"
        f" of {len(crowded_ms)}, errors {n_errors}; {n_chunks:,} chunks, a heavy search alone {heavy_ms:.0f} ms",
    )
    ratio = find_median(crowded_ms) / find_median(before_ms)
    yield Figure(
        name="p50 of a search beside heavy clients / alone", value=ratio, unit="x", note=alone
    )


def time_light(home: Home, questions: list[str], *, for_s: float = 0.0) -> tuple[list[float], int]:
    """Milliseconds of each search, and how many answers were errors. Each question is sent once, or
    all of them repeatedly for `for_s` seconds.
    """
    times_ms, n_errors, end_s = [], 0, time.monotonic() + for_s
    with home.client() as client:
        for question in itertools.cycle(questions) if for_s else questions:
            began_s = time.perf_counter()
            n_errors += not is_answered(client, question)
            times_ms.append((time.perf_counter() - began_s) * 1000)
            if for_s and time.monotonic() > end_s:
                break
            time.sleep(PAUSE_S)
    return times_ms, n_errors


def is_answered(client: Client, question: str) -> bool:
    try:
        client.call("search", query=question)
    except MemsyncdError:
        return False
    return True


def time_heavy(home: Home) -> float:
    """Milliseconds of one heavy search without anything beside it, the best of three."""
    times_ms = []
    with home.client() as client:
        for _ in range(3):
            began_s = time.perf_counter()
            client.call("search", query=HEAVY_QUERY, limit=HEAVY_LIMIT)
            times_ms.append((time.perf_counter() - began_s) * 1000)
    return min(times_ms)


@contextlib.contextmanager
def run_heavy_clients(home: Home) -> Iterator[None]:
    """Heavy clients, replaced in turn, until the `with` ends."""
    is_over = threading.Event()
    thread = threading.Thread(target=keep_crowd, args=(home.socket_path, is_over))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def keep_crowd(socket_path: str, is_over: threading.Event) -> None:
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "search",
        "params": {"query": HEAVY_QUERY, "limit": HEAVY_LIMIT},
    }
    lines = (json.dumps(request).encode() + b"\n") * N_PIPELINED
    clients: list[socket.socket] = []
    try:
        while not is_over.is_set():
            if len(clients) == N_HEAVY:
                clients.pop(0).close()
            clients.append(socket.socket(socket.AF_UNIX))
            clients[-1].settimeout(HOLD_S)
            with contextlib.suppress(OSError):
                clients[-1].connect(socket_path)
                clients[-1].sendall(lines)
            is_over.wait(HOLD_S / N_HEAVY if len(clients) == N_HEAVY else 0)
    finally:
        for client in clients:
            client.close()
