"""What does a daemon take that has nothing to do, with few workspaces and with many? And does it
take more after a busy time?

Idle is a minute in which nothing is saved and nobody asks, with the configuration that everybody
has: the reconcile of all notes falls into it twice. Beyond these nothing may wake up, which
is seen where they are switched off. Busy is when notes are saved, renamed and removed, folders come
and go, and clients come, ask and leave; afterwards the disk is as it was.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memsyncd.client import Client
from tests.benchmarks.figure import Figure
from tests.benchmarks.home import Home, running
from tests.benchmarks.process import (
    count_fds,
    count_threads,
    count_wake_ups,
    count_watches,
    read_cpu_s,
    read_pss_mb,
    read_rss_mb,
)

SIZES = (1, 10, 50)
N_NOTES = 20
IDLE_S = 60.0
N_RECONCILES = 2
"""Reconciles in that time, by the default of the configuration."""
# After the last sync the index is maintained once, and memory is released.
CALM_S = 9.0
# The first reconcile reads notes again that were read within moments of being saved; idleness
# begins after it.
FIRST_SCAN_S = 30.0
SILENT_S = 10.0
WITHOUT_LOOKS = "[sync]\nreconcile_s = 3600\n"
BUDGET = {
    "resident memory": (35, 0.6),
    "proportional share of memory": (30, 0.6),
    "wake-ups a reconcile": (2, 0),
    "CPU a minute": (20, 4),
    "wake-ups a minute": (60, 0),
    "open files": (20, 6),
    "threads": (7, 0),
    "inotify watches": (0, 2),
}
"""What an idle daemon may take, and how much more with each workspace.

Chosen for a laptop on its battery, not after what was measured: less than one wake-up a second, a
thousandth of a core for ten workspaces, no thread for any of them.
"""
# Workspaces that are kept busy, if there are so many.
N_BUSY = 10
N_ROUNDS = 10
N_CLIENTS = 16
PATIENT_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """The resources of a process, and its use so far."""

    rss_mb: float
    pss_mb: float
    fds: int
    threads: int
    watches: int
    wake_ups: int
    cpu_s: float


def measure(_corpus: Path) -> Iterator[Figure]:
    yield from _measure_silence()
    for n_workspaces in SIZES:
        yield from _measure_idle(n_workspaces)


def measure_process(pid: int) -> ResourceUsage:
    return ResourceUsage(
        rss_mb=read_rss_mb(pid),
        pss_mb=read_pss_mb(pid),
        fds=count_fds(pid),
        threads=count_threads(pid),
        watches=count_watches(pid),
        wake_ups=count_wake_ups(pid),
        cpu_s=read_cpu_s(pid),
    )


def _measure_silence() -> Iterator[Figure]:
    with running(WITHOUT_LOOKS) as home:
        _fill(home, SIZES[-1])
        before = measure_process(home.pid)
        time.sleep(SILENT_S)
        after = measure_process(home.pid)
    note = f"{SIZES[-1]} workspaces, reconciles switched off"
    yield Figure(
        name=f"silent, wake-ups in {SILENT_S:.0f} s",
        value=after.wake_ups - before.wake_ups,
        unit="",
        target=0,
        note=note,
    )
    yield Figure(
        name=f"silent, CPU in {SILENT_S:.0f} s",
        value=(after.cpu_s - before.cpu_s) * 1000,
        unit="ms",
        target=0,
    )


def _measure_idle(n_workspaces: int) -> Iterator[Figure]:
    with running() as home:
        roots = _fill(home, n_workspaces)
        time.sleep(FIRST_SCAN_S)
        before = measure_process(home.pid)
        time.sleep(IDLE_S)
        after = measure_process(home.pid)
        _be_busy(home, roots)
        first = measure_process(home.pid)
        _be_busy(home, roots)
        second = measure_process(home.pid)
    name = f"idle, {n_workspaces} workspace{'' if n_workspaces == 1 else 's'}"
    for what, value, unit in (
        ("resident memory", after.rss_mb, "MB"),
        ("proportional share of memory", after.pss_mb, "MB"),
        ("wake-ups a reconcile", (after.wake_ups - before.wake_ups) / N_RECONCILES, ""),
        ("CPU a minute", (after.cpu_s - before.cpu_s) * 1000, "ms"),
        ("wake-ups a minute", after.wake_ups - before.wake_ups, ""),
        ("open files", after.fds, ""),
        ("threads", after.threads, ""),
        ("inotify watches", after.watches, ""),
    ):
        fixed, each = BUDGET[what]
        yield Figure(
            name=f"{name}: {what}", value=value, unit=unit, target=fixed + each * n_workspaces
        )
    yield from _tell_growth(f"{name}, busy once more", first, second)


def _tell_growth(name: str, first: ResourceUsage, second: ResourceUsage) -> Iterator[Figure]:
    yield Figure(name=f"{name}: open files more", value=second.fds - first.fds, unit="", target=0)
    # Query threads start one by one, on first use.
    yield Figure(
        name=f"{name}: threads", value=second.threads, unit="", target=BUDGET["threads"][0]
    )
    yield Figure(
        name=f"{name}: watches more", value=second.watches - first.watches, unit="", target=0
    )
    grown_mb, note = second.rss_mb - first.rss_mb, f"{first.rss_mb:.1f} MB before"
    yield Figure(name=f"{name}: memory more", value=grown_mb, unit="MB", target=1, note=note)


def _fill(home: Home, n_workspaces: int) -> list[Path]:
    roots = [home.make_workspace(f"notes-{number}", N_NOTES) for number in range(n_workspaces)]
    for root in roots:
        (root / "MEMORY.md").write_text("# Memory\n\nWhat all should know.\n")
        home.add(root)
    time.sleep(CALM_S)
    return roots


def _be_busy(home: Home, roots: list[Path]) -> None:
    """Save, rename, remove, search; then wait until it is idle again."""
    for number in range(N_ROUNDS):
        for root in roots[:N_BUSY]:
            _change_notes(root / ".memories", number)
        with contextlib.ExitStack() as clients:
            for client in [clients.enter_context(home.client()) for _ in range(N_CLIENTS)]:
                _ask(client)
        time.sleep(0.2)
    with home.client() as client:
        client.call("workspace.remove", workspace=str(roots[0]))
    home.add(roots[0])
    time.sleep(CALM_S)


def _change_notes(notes: Path, number: int) -> None:
    (notes / "note-0.md").write_text(f"# Note 0\n\nSome words that stand in round {number}.\n")
    folder = notes / "for-a-while"
    folder.mkdir()
    (folder / "new.md").write_text(f"# New {number}\n\nComes and goes.\n")
    (folder / "new.md").rename(notes / "moved.md")
    (notes / "moved.md").unlink()
    folder.rmdir()


def _ask(client: Client) -> None:
    client.call("search", query="words that stand", workspace="*", timeout_ms=PATIENT_MS)
    client.call("status")
