"""Measures the everyday operations of memsyncd, each beside its limit in the same run.

Prints a table: row, operation, limit, measured, ratio, target, met or MISSED. Without FOLDER the
notes are the markdown that named npm packages ship.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks import (
    cold,
    idle,
    life_cycle,
    load,
    panel,
    places,
    reads,
    saves,
    searches,
    semantic,
    starts,
    vectors,
)
from tests.benchmarks.bench import QUICK, Bench, Effort, scratch_folder
from tests.benchmarks.corpus import fetch_packages, find_sources
from tests.benchmarks.figure import Figure, render_table, to_json
from tests.benchmarks.home import Checkout
from tests.benchmarks.plot import draw_plot

ROWS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "cold": cold.measure_cold,
    "size": cold.measure_size,
    "memory": idle.measure_memory,
    "ready": starts.measure_ready,
    "first-answer": starts.measure_first_answer,
    "found": saves.measure_found,
    "wait-disk": saves.measure_wait,
    "search": searches.measure_search,
    "question": searches.measure_question,
    "project": searches.measure_project,
    "filter": searches.measure_filter,
    "large": searches.measure_large,
    "semantic": semantic.measure_semantic,
    "many-vectors": semantic.measure_many_vectors,
    "edit": saves.measure_edit,
    "save-cost": saves.measure_save_cost,
    "beside": load.measure_beside,
    "reindex": load.measure_reindex,
    "command": starts.measure_command,
    "vault": places.measure_vault,
    "archive-plan": life_cycle.measure_archive_plan,
    "counted-saves": life_cycle.measure_counted_saves,
    "hook": starts.measure_hook,
    "vectors": vectors.measure_vectors,
    "wake-ups": idle.measure_wake_ups,
    "agents": idle.measure_agents,
    "panel": panel.measure_panel,
    "reads": reads.measure_reads,
    "workspaces": reads.measure_workspaces,
    "growth": cold.measure_growth,
}
SIZES = "10k,100k,all"
ALL = "all"
SUFFIXES = {"k": 1_000, "M": 1_000_000}
PACKAGES = Path("/var/tmp") / f"memsyncd-benchmarks-{os.getuid()}" / "packages"


def main(arguments: Sequence[str] | None = None) -> int:
    args = make_parser().parse_args(arguments)
    if sys.platform != "linux":
        raise SystemExit("only Linux tells what a process takes: run this on Linux")
    # The daemons are stopped and their folders removed when the command is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    rows = choose_rows(args.only)
    with scratch_folder() as folder:
        bench = make_bench(args, folder)
        try:
            figures = measure_rows(bench, rows, partial(write_results, args, bench))
            print_results(bench, figures)
        finally:
            bench.close()
    return find_status(figures, is_strict=args.strict)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure the everyday operations of memsyncd, each beside its limit.",
    )
    add = parser.add_argument
    add(
        "folder",
        nargs="?",
        type=Path,
        help="notes to measure; by default the notes of npm packages",
    )
    add("--only", nargs="+", metavar="ROW", help=f"only these rows: {' '.join(ROWS)}")
    add("--sizes", default=SIZES, help=f"chunks: 10k,100k,1M or {ALL} (default: {SIZES})")
    add("--against", type=Path, metavar="CHECKOUT", help="measure this checkout by turns as well")
    add("--json", type=Path, metavar="FILE", help="write the figures to this file as JSON")
    add("--svg", type=Path, metavar="FOLDER", help="draw the growth into this folder")
    add("--quick", action="store_true", help="few rounds: shows that everything runs")
    add("--strict", action="store_true", help="exit with status 1 if a target is missed")
    return parser


def choose_rows(
    names: Sequence[str] | None,
) -> Mapping[str, Callable[[Bench], Iterator[Figure]]]:
    """Return the rows to measure. Raises SystemExit for an unknown name."""
    unknown = [name for name in names or () if name not in ROWS]
    if unknown:
        raise SystemExit(f"no row is called {', '.join(unknown)}; there are: {' '.join(ROWS)}")
    return {name: measure for name, measure in ROWS.items() if name in (names or ROWS)}


def parse_sizes(text: str, n_all: Callable[[], int]) -> list[int]:
    """Return the sizes in chunks, in order. Raises SystemExit for what is no size."""
    sizes = set()
    for word in text.split(","):
        if word == ALL:
            sizes.add(n_all())
            continue
        digits, factor = word[:-1], SUFFIXES.get(word[-1:], 0)
        number = (digits if factor else word).strip()
        if not number.isdecimal() or not int(number):
            raise SystemExit(f"{word!r} is no size; write 500, 10k, 1M or {ALL}")
        sizes.add(int(number) * (factor or 1))
    return sorted(sizes)


def make_bench(args: argparse.Namespace, folder: Path) -> Bench:
    checkouts = [Checkout.this()] + ([Checkout.at(args.against)] if args.against else [])
    for checkout in checkouts:
        checkout.compile()
    sources = find_sources(args.folder or fetch_packages(PACKAGES))
    bench = Bench(
        checkouts=checkouts,
        sources=sources,
        sizes=(),
        effort=QUICK if args.quick else Effort(),
        folder=folder,
    )
    bench.sizes = parse_sizes(args.sizes, lambda: bench.n_all_chunks)
    return bench


def measure_rows(
    bench: Bench,
    rows: Mapping[str, Callable[[Bench], Iterator[Figure]]],
    keep: Callable[[list[Figure]], None],
) -> list[Figure]:
    """Measure all rows; one that fails is reported in its place and does not end the others. After
    each row `keep` gets the figures so far.
    """
    figures: list[Figure] = []
    for row, measure in rows.items():
        began_s = time.monotonic()
        try:
            figures += measure(bench)
        except Exception as error:  # noqa: BLE001
            note = f"{type(error).__name__}: {error}".splitlines()[0]
            figures.append(Figure(row=row, name="not measured", note=note))
        keep(figures)
        print(f"{row}: {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)
    return figures


def write_results(args: argparse.Namespace, bench: Bench, figures: Sequence[Figure]) -> None:
    if args.json:
        args.json.write_text(json.dumps(describe_run(bench, figures), indent=1) + "\n")
    if args.svg:
        args.svg.mkdir(parents=True, exist_ok=True)
        for title, lines in bench.series.items():
            name = "-".join(title.split(",")[0].split())
            picture = draw_plot(title, "chunks", title.rpartition(", ")[2], lines)
            (args.svg / f"{name}.svg").write_text(picture)


def print_results(bench: Bench, figures: Sequence[Figure]) -> None:
    print(render_table(figures, has_before=len(bench.checkouts) > 1))
    missed = [figure for figure in figures if figure.verdict in ("MISSED", "FAILED")]
    print(f"\n{len(missed)} of {len(figures)} figures missed or failed", file=sys.stderr)


def describe_run(bench: Bench, figures: Sequence[Figure]) -> dict[str, Any]:
    """Return the run as JSON's types: the machine, the notes, the figures, the growth."""
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "notes": len(bench.sources),
        "text_bytes": sum(source.size for source in bench.sources),
        "checkouts": [str(checkout.folder) for checkout in bench.checkouts],
        "figures": [to_json(figure) for figure in figures],
        "growth": bench.series,
    }


def find_status(figures: Sequence[Figure], *, is_strict: bool) -> int:
    """Return the exit status: 1 for a row that could not be measured; if strict, for a target that
    was missed, too.
    """
    bad = {"FAILED", "MISSED"} if is_strict else {"FAILED"}
    return int(any(figure.verdict in bad for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
