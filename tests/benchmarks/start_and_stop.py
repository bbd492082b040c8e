"""Measure how soon a daemon answers after its start, how soon it is ready if nothing has changed, and
how soon it has ended after its stop.

To be ready it must have seen that no note has changed: that is compared to a walk of the folder which
takes the stat of each note.

It is stopped when it is idle, by turns with one that is in the middle of a first index while as
many clients as may connect wait for an answer each. A start is compared to that of a Python that
does nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.commands import NOTHING
from tests.benchmarks.figure import Figure, find_median
from tests.benchmarks.home import Home, running
from tests.benchmarks.process import read_cpu_s

N_ROUNDS = 7
N_CLIENTS = 64
AMID_S = 1.0
"""When the first index of a corpus is under way."""
STOP_TARGET_S = 5.0
N_RESTARTS = 5
SETTLE_S = 15.0
"""After a first index the history is recorded and the index is tidied."""
REQUESTED = {"query": "note", "wait": "disk"}
WAITING = (
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": "search", "params": REQUESTED}).encode()
    + b"\n"
)


def measure(corpus: Path) -> Iterator[Figure]:
    nothings_s, starts_s, idle_s, busy_s = [], [], [], []
    for _ in range(N_ROUNDS):
        began_s = time.perf_counter()
        subprocess.run(NOTHING, check=True)
        nothings_s.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        with running() as home:
            starts_s.append(time.perf_counter() - began_s)
            idle_s.append(time_stop(home))
        with running() as home, indexing_for_many(home, corpus):
            busy_s.append(time_stop(home))
    start_s = min(starts_s)
    note = f"{start_s * 1000:.0f} ms"
    yield Figure(
        name="start to first answer / python -c pass",
        value=start_s / min(nothings_s),
        unit="x",
        target=10,
        note=note,
    )
    yield _measure_ready(corpus)
    yield Figure(
        name="stop, idle, worst",
        value=max(idle_s),
        unit="s",
        target=STOP_TARGET_S,
        note=f"of {N_ROUNDS}",
    )
    note = f"of {N_ROUNDS}, with {N_CLIENTS} clients; p50 {find_median(busy_s):.2f}"
    yield Figure(
        name="stop amid a first index, worst",
        value=max(busy_s),
        unit="s",
        target=STOP_TARGET_S,
        note=note,
    )


def _measure_ready(corpus: Path) -> Figure:
    walks_s, readies_s, walls_s = [], [], []
    with running() as home:
        home.add(corpus)
        time.sleep(SETTLE_S)
        for _ in range(N_RESTARTS):
            began_s = time.process_time()
            n_notes = count_notes(str(corpus))
            walks_s.append(time.process_time() - began_s)
            home.restart()
            cpu_s, began_s = read_cpu_s(home.pid), time.perf_counter()
            home.wait_until_ready()
            readies_s.append(read_cpu_s(home.pid) - cpu_s)
            walls_s.append(time.perf_counter() - began_s)
    note = f"{n_notes:,} notes: {min(readies_s) * 1000:.0f} / {min(walks_s) * 1000:.0f} ms; wall clock {min(walls_s):.2f} s"
    return Figure(
        name="unchanged: answering to ready / stat walk, CPU",
        value=min(readies_s) / min(walks_s),
        unit="x",
        target=5,
        note=note,
    )


def count_notes(folder: str) -> int:
    """Take the stat of each note beneath a folder."""
    n_notes = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                n_notes += count_notes(entry.path)
            elif entry.name.endswith(".md"):
                entry.stat(follow_symlinks=False)
                n_notes += 1
    return n_notes


@contextlib.contextmanager
def indexing_for_many(home: Home, corpus: Path) -> Iterator[None]:
    """A first index runs, and as many clients as may connect wait for its result."""
    with contextlib.ExitStack() as stack:
        with home.client() as client:
            client.call("workspace.add", path=str(corpus))
        for _ in range(N_CLIENTS):
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.connect(home.socket_path)
            waiting.sendall(WAITING)
        time.sleep(AMID_S)
        yield


def time_stop(home: Home) -> float:
    began_s = time.perf_counter()
    home.stop()
    return time.perf_counter() - began_s
