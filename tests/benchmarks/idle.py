"""Measures the memory of a daemon, idle, after a first index and with agents, and how often a
reconcile wakes it.

`BUDGET` has the limits that `tests/daemon/test_idle.py` sets an idle daemon.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.bench import Bench, compare
from tests.benchmarks.figure import Figure, Measured, Target
from tests.benchmarks.home import Checkout, Home
from tests.benchmarks.process import count_wake_ups, read_rss_mb

BUDGET = {
    "resident memory": (44, 0.9),
    "CPU a minute": (20, 4),
    "wake-ups a minute": (60, 0),
    "open files": (20, 6),
    "threads": (7, 0),
    "inotify watches": (0, 2),
}
"""The most that an idle daemon may take, and how much more with each workspace.

Chosen for a laptop on its battery, not after what was measured: less than one wake-up a second, a
thousandth of a core for ten workspaces, no thread for any of them.
"""
N_NOTES = 20
N_RECONCILES = 4
N_AGENTS = 64
# The libraries that a daemon cannot do without.
IMPORTS = "import apsw, asyncio, msgspec, watchdog.observers, xxhash"
LEAST_RECONCILE_S = 1.0
LEAST_RECONCILES = f"""
import asyncio, os, sys
async def reconcile():
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, os.listdir, sys.argv[1])
    print(flush=True)
    while True:
        await asyncio.sleep({LEAST_RECONCILE_S})
        await loop.run_in_executor(None, os.listdir, sys.argv[1])
asyncio.run(reconcile())
"""
PRINT_RSS = (
    "; print(next(line.split()[1] for line in open('/proc/self/status') if 'VmRSS' in line))"
)


def measure_memory(bench: Bench) -> Iterator[Figure]:
    indexed = bench.indexed(bench.whole)
    imports_mb = [read_imports_mb(checkout) for checkout in bench.checkouts]
    n_mb = indexed[0].n_text_bytes / 1e6
    for name, values, most in (
        ("memory, idle, no workspace", [place.idle_mb for place in indexed], 35),
        (
            f"memory after a first index of {n_mb:.0f} MB",
            [place.filled_mb for place in indexed],
            42,
        ),
    ):
        yield compare(
            "memory",
            name,
            [
                Measured(value=value, limit=limit)
                for value, limit in zip(values, imports_mb, strict=True)
            ],
            unit="MB",
            limit_name="its libraries imported",
            target=Target(most=most, unit="MB"),
        )

    yield compare(
        "memory",
        "memory of the process that indexes, at most",
        [
            Measured(value=place.home.children_peak_mb, limit=limit)
            for place, limit in zip(indexed, imports_mb, strict=True)
        ],
        unit="MB",
        limit_name="its libraries imported",
    )


def read_imports_mb(checkout: Checkout) -> float:
    """Resident memory of a Python that has imported the libraries."""
    command = (checkout.python, "-c", IMPORTS + PRINT_RSS)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def measure_wake_ups(bench: Bench) -> Iterator[Figure]:
    reconcile_s = bench.effort.reconcile_s
    config = f"[sync]\nreconcile_s = {reconcile_s}\n"
    homes = [bench.start_home(checkout, config) for checkout in bench.checkouts]
    for home in homes:
        home.add(home.make_workspace("few", N_NOTES))
        # The first reconcile reads notes again that were read shortly after they were written,
        # and maintenance happens once.
        home.wait_until_quiet()
    time.sleep(bench.effort.calm_s + 2 * reconcile_s)
    before = [count_wake_ups(home.pid) for home in homes]
    time.sleep(N_RECONCILES * reconcile_s)
    wakes = [count_wake_ups(home.pid) - n for home, n in zip(homes, before, strict=True)]
    for home in homes:
        home.stop()
    yield compare(
        "wake-ups",
        "wake-ups for each reconcile",
        [Measured(value=n / N_RECONCILES, limit=1) for n in wakes],
        unit="",
        target=Target(most=2, unit=""),
    )
    yield compare(
        "wake-ups",
        "… of the smallest program with an event loop and a thread that scans",
        [Measured(value=count_least_wake_ups(bench.folder), limit=1)],
        unit="",
    )


def count_least_wake_ups(folder: Path) -> float:
    """Wake-ups for each reconcile of a program that does nothing else: the loop's timer, the
    thread, and the loop that takes its result.
    """
    command = [sys.executable, "-c", LEAST_RECONCILES, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        before = count_wake_ups(process.pid)
        time.sleep(N_RECONCILES * LEAST_RECONCILE_S)
        return (count_wake_ups(process.pid) - before) / N_RECONCILES
    finally:
        process.kill()
        process.wait()


def measure_agents(bench: Bench) -> Iterator[Figure]:
    homes = [bench.start_home(checkout) for checkout in bench.checkouts]
    for home in homes:
        home.add(home.make_workspace("few", N_NOTES))
        home.wait_until_quiet()
    grown = [measure_agents_mb(home) / N_AGENTS for home in homes]
    for home in homes:
        home.stop()
    yield compare(
        "agents",
        f"memory for each of {N_AGENTS} clients of MCP",
        [Measured(value=mb) for mb in grown],
        unit="MB",
        target=Target(most=1.5, unit="MB"),
    )


def measure_agents_mb(home: Home) -> float:
    """How much a daemon grows by its agents, beyond the first, which has MCP imported."""
    with contextlib.ExitStack() as stack:
        use_as_agent(stack, home)
        before = read_rss_mb(home.pid)
        for _ in range(N_AGENTS):
            use_as_agent(stack, home)
        return read_rss_mb(home.pid) - before


def use_as_agent(stack: contextlib.ExitStack, home: Home) -> None:
    """Connect, shake hands, list the tools and search, as an agent does at its start."""
    connection = stack.enter_context(socket.socket(socket.AF_UNIX))
    connection.connect(home.socket_path)
    lines = stack.enter_context(connection.makefile("rb"))
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent"}}
    search = {"name": "memory_search", "arguments": {"query": "the notes"}}
    for number, (method, params) in enumerate(
        (("initialize", hello), ("tools/list", {}), ("tools/call", search))
    ):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        connection.sendall(json.dumps(request).encode() + b"\n")
        while json.loads(lines.readline()).get("id") != number:
            pass
