"""Measures each reading call in workspaces of several sizes, right after a save, when nothing is
remembered from an earlier call; then renames of a note and of a folder; and one call of many
workspaces.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memsyncd.client.connection import Client
from memsyncd.errors import MemsyncdError
from tests.benchmarks.bench import CONFIG, Bench, Effort, compare
from tests.benchmarks.figure import Figure, Measured, Target, find_percentile
from tests.benchmarks.home import Home
from tests.benchmarks.process import read_rss_mb
from tests.growing import CALLS, SECTIONS_A_NOTE, write_notes

LEAST_MS = 1.0
"""A call that takes less counts as this: the ratio of two short times says nothing."""
TIMEOUT_MS = 60_000
SETTLED_S = 0.3
TITLE = "reads, CPU of all reading calls, ms"
SESSION_START_MS = 20.0
"""A context without a question begins a session."""
# Each ten notes have a folder.
MANY_FOLDERS = f"{CONFIG}max_watched_folders = 100000\n"
N_MOVED = 200
"""The notes of a folder that is renamed."""
RENAMES = {
    "rename of a note with links to it": {
        "old_path": "/memories/areas/area-1/note-14.md",
        "new_path": "/memories/areas/area-1/renamed-14.md",
        "update_links": True,
    },
    f"rename of a folder of {N_MOVED} notes": {
        "old_path": "/memories/moved",
        "new_path": "/memories/renamed",
    },
}
# One call of all workspaces.
OF_ALL = {
    "search": {"query": "which cache retries the queue of the broker", "workspace": "*"},
    "context": {"workspace": "*"},
    "context of a question": {
        "query": "which cache retries the queue of the broker",
        "workspace": "*",
    },
}


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
    measured = []
    for size in bench.sizes:
        home = bench.start_home(bench.checkouts[0], MANY_FOLDERS)
        root = home.folder / "notes"
        write_growing(root, size)
        home.add(root)
        home.wait_until_quiet()
        measured.append(measure_home(home, root, bench.effort))
        home.stop()
    small = measured[bench.sizes.index(bench.nearest(10_000))]
    small = measured[0] if small is measured[-1] else small
    bench.series[TITLE] = make_lines(measured)
    yield from compare_reads(small, measured[-1])


def make_lines(measured: Sequence[Reads]) -> dict[str, list[tuple[float, float]]]:
    """Return the lines of the plot."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for reads in measured:
        costs_ms = [reads.costs_ms[case] for case in CALLS if case in reads.costs_ms]
        for line, percent in (("half of the calls", 50), ("nine of ten", 90), ("all", 100)):
            point = float(reads.n_sections), find_percentile(costs_ms, percent)
            lines.setdefault(line, []).append(point)
    return lines


def compare_reads(small: Reads, large: Reads) -> Iterator[Figure]:
    for case in (*CALLS, *RENAMES):
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
    target = Target(most=SESSION_START_MS, unit="ms") if case == "context" else Target(most=2.0)
    return compare(
        "reads",
        name,
        [Measured(value=values[0], limit=values[1])],
        unit="ms",
        limit_name=f"{small.n_sections:,} sections",
        target=target,
    )


def write_growing(root: Path, n_sections: int) -> None:
    """Write a workspace of about so many sections, with a folder that can be renamed."""
    root.mkdir()
    write_notes(root, max(20, n_sections // SECTIONS_A_NOTE))
    moved = root / ".memories/moved"
    moved.mkdir()
    for number in range(N_MOVED):
        text = f"# Moved {number}\n\nIt comes after [[moved-{max(0, number - 1)}]].\n"
        (moved / f"moved-{number}.md").write_text(text)


def measure_home(home: Home, root: Path, effort: Effort) -> Reads:
    """Measure all calls in an indexed workspace that `write_growing` has written."""
    costs_ms: dict[str, float] = {}
    failures: dict[str, str] = {}
    settled_s = min(SETTLED_S, effort.calm_s)

    def measure(case: str, method: str, params: Mapping[str, Any], *, is_write: bool) -> None:
        try:
            cost_ms = _measure_call(home, client, root, settled_s, method, params, is_write)
            costs_ms[case] = min(cost_ms, costs_ms.get(case, cost_ms))
        except MemsyncdError as error:
            failures[case] = f"{error.code}: {error.message}"

    with home.client() as client:
        # The note that the calls ask for has a history.
        insert = {"command": "insert", "path": "/memories/areas/area-1/note-12.md"}
        client.call("memory", **insert, insert_line=3, insert_text="It was changed.\n")
        for case, params in CALLS.items():
            for _ in range(effort.n_reads):
                measure(case, case.split(maxsplit=1)[0], params, is_write=False)
                if case in failures:
                    break
        rss_mb = read_rss_mb(home.pid)
        for case, params in RENAMES.items():
            back = {**params, "old_path": params["new_path"], "new_path": params["old_path"]}
            for ways in (params, back) * effort.n_reads:
                measure(case, "memory", {"command": "rename", **ways}, is_write=True)
    return Reads(home.workspace()["sections"], costs_ms, failures, rss_mb)


def _measure_call(
    home: Home,
    client: Client,
    root: Path,
    settled_s: float,
    method: str,
    params: Mapping[str, Any],
    is_write: bool,
) -> float:
    """Return the processor time of a call in ms, right after a save; for a write with what follows
    it.
    """
    saved = root / ".memories/saved.md"
    saved.write_text(f"# Saved\n\nIt was saved at {time.monotonic_ns()}.\n")
    client.call("sync", timeout_ms=TIMEOUT_MS)
    time.sleep(settled_s)
    before_s = home.cpu_s()
    client.call(method, **params)
    if is_write:
        time.sleep(settled_s)
    return (home.cpu_s() - before_s) * 1000


def measure_workspaces(bench: Bench) -> Iterator[Figure]:
    """Many small workspaces: memory, and the processor time of one call of all of them."""
    n_workspaces, n_notes = bench.effort.n_workspaces, bench.effort.n_sections // 80
    home = bench.start_home(bench.checkouts[0], MANY_FOLDERS)
    for number in range(n_workspaces):
        root = home.folder / f"project-{number}"
        root.mkdir()
        write_notes(root, max(20, n_notes))
        home.add(root)
        if number == 0:
            home.wait_until_quiet()
            one_mb, one = read_rss_mb(home.pid), _measure_all(home, bench.effort)
    home.wait_until_quiet()
    name = f"{n_workspaces} workspaces of {home.workspace()['sections']:,} sections"
    many_mb, many = read_rss_mb(home.pid), _measure_all(home, bench.effort)
    sizes_mb = {"memory": (many_mb, one_mb), "memory after searches": (read_rss_mb(home.pid), 0)}
    for what, (size_mb, limit_mb) in sizes_mb.items():
        measured = Measured(value=size_mb, limit=limit_mb or None)
        limit_name = "one of them" if limit_mb else ""
        yield compare("workspaces", f"{name}, {what}", [measured], unit="MB", limit_name=limit_name)
    for case in OF_ALL:
        yield compare(
            "workspaces",
            f"{name}, `{case}` of all, CPU",
            [Measured(value=many[case], limit=one[case])],
            unit="ms",
            limit_name="one of them",
        )


def _measure_all(home: Home, effort: Effort) -> dict[str, float]:
    """Return the processor time in ms of each call of all workspaces."""
    costs_ms: dict[str, float] = {}
    with home.client() as client:
        for case, params in OF_ALL.items():
            for _ in range(effort.n_reads):
                before_s = home.cpu_s()
                client.call(case.split(maxsplit=1)[0], **params)
                cost_ms = (home.cpu_s() - before_s) * 1000
                costs_ms[case] = min(cost_ms, costs_ms.get(case, cost_ms))
    return costs_ms
