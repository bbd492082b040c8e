"""What does a daemon take that has nothing to do? Memory, and processor time and wake-ups in ten seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.figure import Figure
from tests.benchmarks.home import running
from tests.benchmarks.process import count_fds, count_switches, count_threads, count_watches, read_cpu_s, read_rss_mb

CALM_S = 8.0
"""After the last sync the index is tidied, once."""
IDLE_S = 10.0
N_NOTES = 200
CONFIG = "[sync]\nreconcile_s = 3600\n"


def measure(_corpus: Path) -> Iterator[Figure]:
    with running(CONFIG) as home:
        home.add(home.make_workspace("notes", N_NOTES))
        time.sleep(CALM_S)
        n_switches, cpu_s = count_switches(home.pid), read_cpu_s(home.pid)
        time.sleep(IDLE_S)
        n_switches, cpu_s = count_switches(home.pid) - n_switches, read_cpu_s(home.pid) - cpu_s
        note = (
            f"{N_NOTES} notes; {count_threads(home.pid)} threads, {count_fds(home.pid)} files, {count_watches(home.pid)} watches"
        )
        yield Figure(name="idle, resident memory", value=read_rss_mb(home.pid), unit="MB", target=45, note=note)
        yield Figure(name=f"idle, wake-ups in {IDLE_S:.0f} s", value=n_switches, unit="", target=0)
        yield Figure(name=f"idle, CPU in {IDLE_S:.0f} s", value=cpu_s * 1000, unit="ms", target=0)
