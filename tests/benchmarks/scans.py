"""Measures a scan of an unchanged workspace beside a bare walk that examines the same files.

Both run in this process by turns, as processor time. Then a daemon answers searches that wait for
the disk, beside the same searches that do not wait and the walk, as elapsed time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from memsyncd.client import Client
from memsyncd.core.changes.diff import GRAIN_NS
from memsyncd.core.notepath import is_note_name
from memsyncd.engine.clock import Clock
from memsyncd.engine.sync import SyncRequest, sync_workspace
from memsyncd.engine.workspace import Workspace
from tests.benchmarks.cold import POLICY, open_workspace, run_sync, scratch
from tests.benchmarks.figure import Figure, find_median
from tests.benchmarks.home import running

N_ROUNDS = 15
TARGET = 1.3
QUERY = "memory"
# Notes that were written a moment before they were read are read again by the next scan.
SETTLE_S = GRAIN_NS / 1e9 + 0.5
QUIET_S = 6.0
LATER = Clock(now_s=time.monotonic, wall_ns=lambda: time.time_ns() + 2 * GRAIN_NS)


def measure(corpus: Path) -> Iterator[Figure]:
    with scratch() as folder:
        workspace = open_workspace(corpus, folder)
        run_sync(workspace, SyncRequest())
        for _ in sync_workspace(workspace, POLICY, LATER, SyncRequest()):
            pass
        yield measure_sync(workspace, corpus)
        workspace.close()
    with running() as home:
        home.add(corpus)
        time.sleep(SETTLE_S)
        with home.client() as client:
            client.call("search", query=QUERY, wait="disk")
            time.sleep(QUIET_S)
            yield measure_waiting(client, corpus)


def measure_sync(workspace: Workspace, corpus: Path) -> Figure:
    walks_s, syncs_s, reads_s = [], [], []
    for _ in range(N_ROUNDS):
        walks_s.append(_time(time.process_time, lambda: walk(corpus)))
        syncs_s.append(_time(time.process_time, lambda: run_sync(workspace, SyncRequest())))
        assert workspace.index is not None
        reads_s.append(_time(time.process_time, workspace.index.recorded))
    walk_s, sync_s, read_s = min(walks_s), min(syncs_s), min(reads_s)
    note = f"{sync_s * 1000:.1f} / {walk_s * 1000:.1f} ms of {walk(corpus):,} notes"
    note += f"; reading all records: {read_s * 1000:.1f} ms"
    name = "scan, nothing changed / stat walk, CPU"
    return Figure(name=name, value=sync_s / walk_s, unit="x", target=TARGET, note=note)


def measure_waiting(client: Client, corpus: Path) -> Figure:
    walks_s, waits_s = [], []
    for _ in range(N_ROUNDS):
        walks_s.append(_time(time.perf_counter, lambda: walk(corpus)))
        with_s = _time(time.perf_counter, lambda: client.call("search", query=QUERY, wait="disk"))
        waits_s.append(
            with_s - _time(time.perf_counter, lambda: client.call("search", query=QUERY))
        )
    walk_s, wait_s = find_median(walks_s), find_median(waits_s)
    note = f"{wait_s * 1000:.1f} / {walk_s * 1000:.1f} ms, p50 of {N_ROUNDS}"
    name = 'waiting for the disk (`wait: "disk"`) / stat walk'
    return Figure(name=name, value=wait_s / walk_s, unit="x", target=TARGET, note=note)


def walk(corpus: Path) -> int:
    """Examine every note; return how many there are."""
    n_notes, folders = 0, [str(corpus / ".memories")]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif is_note_name(entry.name):
                    entry.stat(follow_symlinks=False)
                    n_notes += 1
    return n_notes


def _time(clock: Callable[[], float], act: Callable[[], object]) -> float:
    began_s = clock()
    act()
    return clock() - began_s
