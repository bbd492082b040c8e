"""Measures each reading call in workspaces of several sizes, right after a save, when nothing is
remembered from an earlier call.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from memsyncd.client.connection import Client
from memsyncd.errors import MemsyncdError
from tests.benchmarks.bench import Bench, compare
from tests.benchmarks.figure import Figure, Measured, Target, find_percentile
from tests.benchmarks.home import Home
from tests.benchmarks.process import read_rss_mb
from tests.growing import CALLS, SECTIONS_A_NOTE, write_notes

LEAST_MS = 1.0
"""A call that takes less counts as this: the ratio of two short times says nothing."""
TIMEOUT_MS = 60_000
SETTLED_S = 0.3
TITLE = "reads, CPU of all reading calls, ms"


class Reads(NamedTuple):
    """The processor time in ms of each call, and the calls that failed, each with the reason."""

    n_sections: int
    costs_ms: dict[str, float]
    failures: dict[str, str]
    rss_mb: float


def measure_reads(bench: Bench) -> Iterator[Figure]:
    """Keep a line for the plot, and compare the largest size to 10,000 sections, or to the smallest
    size.
    """
    measured = [_measure_size(bench, size) for size in bench.sizes]
    for reads in measured:
        lines = bench.series.setdefault(TITLE, {})
        costs_ms = [*reads.costs_ms.values()]
        for line, percent in (("half of the calls", 50), ("nine of ten", 90), ("all", 100)):
            point = reads.n_sections, find_percentile(costs_ms, percent)
            lines.setdefault(line, []).append(point)
    large, nearest = measured[-1], measured[bench.sizes.index(bench.nearest(10_000))]
    small = measured[0] if nearest is large else nearest
    for case in CALLS:
        yield _compare(case, small, large)
    yield compare(
        "reads",
        f"memory after a round of all reading calls, {large.n_sections:,} sections",
        [Measured(value=large.rss_mb, limit=small.rss_mb)],
        unit="MB",
        limit_name=f"{small.n_sections:,} sections",
        target=Target(most=80, unit="MB"),
    )


def _compare(case: str, small: Reads, large: Reads) -> Figure:
    name = f"`{case}`, {large.n_sections:,} sections, CPU"
    failure = large.failures.get(case) or small.failures.get(case)
    if failure:
        return Figure(row="reads", name=name, note=failure)
    values = [max(LEAST_MS, reads.costs_ms[case]) for reads in (large, small)]
    return compare(
        "reads",
        name,
        [Measured(value=values[0], limit=values[1])],
        unit="ms",
        limit_name=f"{small.n_sections:,} sections",
        target=Target(most=2.0),
    )


def _measure_size(bench: Bench, n_sections: int) -> Reads:
    home = bench.start_home(bench.checkouts[0])
    root = home.folder / "notes"
    root.mkdir()
    write_notes(root, max(20, n_sections // SECTIONS_A_NOTE))
    home.add(root)
    home.wait_until_quiet()
    costs_ms: dict[str, float] = {}
    failures: dict[str, str] = {}
    with home.client() as client:
        # The note that the calls ask for has a history.
        insert = {"command": "insert", "path": "/memories/areas/area-1/note-12.md"}
        client.call("memory", **insert, insert_line=3, insert_text="It was changed.\n")
        for case, params in CALLS.items():
            try:
                costs_ms[case] = min(
                    _measure_call(bench, home, client, case, params)
                    for _ in range(bench.effort.n_reads)
                )
            except MemsyncdError as error:
                failures[case] = f"{error.code}: {error.message}"
        rss_mb = read_rss_mb(home.pid)
    n_found = home.workspace()["sections"]
    home.stop()
    return Reads(n_found, costs_ms, failures, rss_mb)


def _measure_call(
    bench: Bench, home: Home, client: Client, case: str, params: Mapping[str, Any]
) -> float:
    """Return the processor time of a call in ms, right after a save."""
    saved = home.folder / "notes/.memories/saved.md"
    saved.write_text(f"# Saved\n\nIt was saved at {time.monotonic_ns()}.\n")
    client.call("sync", timeout_ms=TIMEOUT_MS)
    time.sleep(min(SETTLED_S, bench.effort.calm_s))
    before_s = home.cpu_s()
    client.call(case.split(maxsplit=1)[0], **params)
    return (home.cpu_s() - before_s) * 1000
