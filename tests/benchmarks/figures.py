"""How fast is memsyncd? Every figure is measured side by side with what it is compared to, in one
run, and printed.

    python -m tests.benchmarks.figures CORPUS [NAME ...]

CORPUS is a workspace that `corpus.py` made. NAMEs choose among the measurements; without any all
are made, which takes some minutes. Linux alone tells what a process takes, so this needs it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks import (
    answers,
    cold,
    commands,
    concurrent_clients,
    edits,
    idle,
    saves,
    scans,
    searches,
    start_and_stop,
    writes,
)
from tests.benchmarks.figure import Figure

MEASUREMENTS: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "cold": cold.measure,
    "searches": searches.measure,
    "answers": answers.measure,
    "concurrent_clients": concurrent_clients.measure,
    "saves": saves.measure,
    "scans": scans.measure,
    "writes": writes.measure,
    "edits": edits.measure,
    "idle": idle.measure,
    "start_and_stop": start_and_stop.measure,
    "commands": commands.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure memsyncd, each figure beside what it is compared to."
    )
    parser.add_argument("corpus", type=Path, help="a folder that corpus.py made")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of: {', '.join(MEASUREMENTS)}"
    )
    args = parser.parse_args()
    for name in args.names or MEASUREMENTS:
        for figure in MEASUREMENTS[name](args.corpus.resolve()):
            print(figure.render(), flush=True)


if __name__ == "__main__":
    main()
