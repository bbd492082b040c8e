"""Measure the cost of one question in a shell: `memsyncd search` from start to end, by turns with a
Python that does nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.benchmarks.figure import Figure
from tests.benchmarks.home import REPOSITORY, running

N_ROUNDS = 60
NOTHING = (sys.executable, "-c", "pass")
SEARCH = (sys.executable, "-m", "memsyncd", "search", "note", "words")
# What is installed as `memsyncd`; `-m` searches for the module besides.
SCRIPT = str(REPOSITORY / "memsyncd" / "__main__.py")


def measure(_corpus: Path) -> Iterator[Figure]:
    with running() as home:
        root = home.make_workspace("notes", 50)
        home.add(root)
        commands = (NOTHING, (sys.executable, SCRIPT, "search", "note", "words"), SEARCH)
        walls_ms, cpus_ms = time_by_turns(commands, home.env, root)
        for name, at in (("memsyncd search", 1), ("python -m memsyncd search", 2)):
            wall, cpu = min(walls_ms[at]), min(cpus_ms[at])
            note = f"{wall:.1f} / {min(walls_ms[0]):.1f} ms, CPU {cpu / min(cpus_ms[0]):.2f} x"
            yield Figure(
                name=f"{name} / python -c pass",
                value=wall / min(walls_ms[0]),
                unit="x",
                target=1.5,
                note=note,
            )


def time_by_turns(
    commands: Sequence[Sequence[str]], env: Mapping[str, str], cwd: Path
) -> tuple[list[list[float]], list[list[float]]]:
    """Milliseconds of wall clock and of processor time, a list a command."""
    walls_ms: list[list[float]] = [[] for _ in commands]
    cpus_ms: list[list[float]] = [[] for _ in commands]
    for _ in range(N_ROUNDS):
        for at, command in enumerate(commands):
            began_s, cpu_s = time.perf_counter(), _read_children_s()
            subprocess.run(command, env=env, cwd=cwd, stdout=subprocess.DEVNULL, check=True)
            walls_ms[at].append((time.perf_counter() - began_s) * 1000)
            cpus_ms[at].append((_read_children_s() - cpu_s) * 1000)
    return walls_ms, cpus_ms


def _read_children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system
